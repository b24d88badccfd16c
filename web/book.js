// @ts-check
// The documentation's site: below a paragraph with a command `narrows explore --view '...'` stands the page that it
// opens, small, where `make docs` could build it. From file:// browsers run no modules, and the command stands alone.
"use strict";
(() => {
  const VIEW = /^narrows explore --view '([^']*)'$/;
  // This file is in web/ of the site.
  const root = new URL("..", /** @type {HTMLScriptElement} */ (document.currentScript).src).href;
  const found = [...document.querySelectorAll("main p code")].filter((code) => VIEW.test(code.textContent || ""));
  if (!found.length || location.protocol === "file:") return;
  fetch(`${root}explore/engine.json`).then((answer) => {
    if (!answer.ok) return;
    for (const code of found) {
      const view = VIEW.exec(code.textContent || "")?.[1] ?? "", frame = document.createElement("iframe");
      frame.src = `${root}explore/index.html#small=1&${view}`;
      frame.title = `Explore: ${view}`;
      frame.loading = "lazy";
      frame.className = "explore";
      code.closest("p")?.after(frame);
    }
  }).catch(() => {});
})();
