// What a browser makes of the page: node page.mjs BROWSER URL, or FOLDER with the page's files. Every control, every drawing held against the data, the
// keyboard, a telephone's width, dark, print. Ends with status 1 and a sentence for each thing that is not so.
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";

import { Browser } from "./browser.mjs";

const [program, place] = process.argv.slice(2);
const KINDS = { html: "text/html", css: "text/css", js: "text/javascript", json: "application/json", wasm: "application/wasm" };

/** Serves the files of a folder, and gives the address. */
const served = async (folder) => {
  const server = createServer((request, answer) => {
    const name = new URL(request.url, "http://here").pathname.slice(1) || "index.html";
    try {
      const file = readFileSync(join(folder, name));
      answer.writeHead(200, { "Content-Type": KINDS[name.split(".").pop()] }).end(file);
    } catch { answer.writeHead(404).end(); }
  });
  server.unref();
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  return `http://127.0.0.1:${server.address().port}/`;
};
const url = place.startsWith("http") ? place : await served(place);
const wrong = [];
const check = (good, says) => { if (!good) wrong.push(says); };
const equal = (found, expected, says) => check(JSON.stringify(found) === JSON.stringify(expected), `${says}: ${JSON.stringify(found)} instead of ${JSON.stringify(expected)}`);

const page = await Browser.open(program, url);
/** Waits until what is drawn is what is set, and nothing is being asked. */
const settled = () => page.until("window.narrows && JSON.stringify(narrows.settings()) === JSON.stringify(narrows.drawn()) && narrows.sides.a && !narrows.asking()");
/** Sets a field as somebody who types or chooses does. */
const set = (id, value) => page.ask(`(() => {
  const field = document.getElementById(${JSON.stringify(id)});
  if (field.type === "checkbox") { field.click(); return; }
  field.value = ${JSON.stringify(String(value))};
  field.dispatchEvent(new Event("input", { bubbles: true }));
  field.dispatchEvent(new Event("change", { bubbles: true }));
})()`);
const goto = async (fragment) => { await page.ask(`location.hash = ${JSON.stringify(fragment)}`); await new Promise((done) => setTimeout(done, 50)); await settled(); };

try {
  await settled();

  // What is shown is what the engine says, digit for digit.
  await goto("#seconds=20");
  equal(await page.ask(`(async () => {
    const again = await Promise.all(["a", "b"].map((side, i) => narrows.engine.ask({ ask: "side", settings: narrows.settings(), side, user: narrows.sides[side].sequence.user }, i, new AbortController().signal)));
    return again.map((side, i) => JSON.stringify(side) === JSON.stringify(narrows.sides["ab"[i]]));
  })()`), [true, true], "answers shown are the engine's");
  const shown = await page.ask("[...document.querySelectorAll('#figures tbody tr')].map((row) => [...row.cells].map((c) => c.textContent.replace(' ✓', '')))");
  const summary = await page.ask("[narrows.sides.a.summary, narrows.sides.b.summary]");
  const dropped = shown.find(([label]) => label === "packets dropped by the queue");
  equal(dropped.slice(1), summary.map((s) => s.dropped === 0 ? "0 %" : `${(s.dropped * 100).toFixed(s.dropped < 0.0995 ? 1 : 0)} %`), "drops in the table");

  // The heat map's colours are those of its cells.
  for (const side of ["a", "b"]) {
    equal(await page.ask(`(() => {
      const side = narrows.sides.${side}, canvas = document.querySelector("#heat-${side} canvas"), pen = canvas.getContext("2d");
      const colour = (name) => { const c = document.createElement("canvas").getContext("2d"); c.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(name).trim(); c.fillRect(0, 0, 1, 1); return [...c.getImageData(0, 0, 1, 1).data].join(); };
      const colours = ["--h0", "--h1", "--h2", "--h3", "--h4"].map(colour), stall = colour("--stall");
      const fair = narrows.settings().rate_kbps * 125 * side.column_s / side.users;
      let bad = 0, stalls = 0;
      for (let user = 0; user < side.users; user += 3) for (let column = 0; column < side.columns; column++) {
        const at = (column + 0.5) * side.column_s;
        const black = side.stalls.some((s) => s[0] === user && s[1] < at - 0.3 && s[2] > at + 0.3);
        if (!black && side.stalls.some((s) => s[0] === user && s[1] < at + 0.6 && s[2] > at - 0.6)) continue;
        const bytes = side.bytes[user * side.columns + column];
        const step = [0, 0.5, 1, 2, Infinity].findIndex((end) => bytes <= end * fair);
        const y = Math.floor((user + 0.5) * canvas.height / side.users), x = Math.floor((column + 0.5) * canvas.width / side.columns);
        const found = [...pen.getImageData(x, y, 1, 1).data].join();
        stalls += black ? 1 : 0;
        if (found !== (black ? stall : colours[step])) bad++;
      }
      return [bad, ${side === "a"} ? stalls > 20 : true];
    })()`), [0, true], `colours of heat map ${side}`);
  }

  // The curves, the bars, the packets.
  const curves = await page.ask("[...document.querySelectorAll('#times path')].map((p) => p.getAttribute('d').split('L').map((xy) => xy.replace('M', '').split(',').map(Number)))");
  const times = await page.ask("['a', 'b'].map((side) => narrows.sides[side].objects_s)");
  curves.forEach((curve, i) => {
    const { sorted, done, never } = times[i];
    equal(curve.length, sorted.length * 2 + 1, `points of curve ${i}`);
    // Drawn between 0 % at 206 and 100 % at 8 pixels.
    const end = (206 - curve.at(-1)[1]) / 198;
    check(Math.abs(end - done / (done + never)) < 0.002, `curve ${i} ends at ${end} instead of ${done / (done + never)}`);
    check(curve.every(([x], n) => n === 0 || x >= curve[n - 1][0]), `curve ${i} goes back`);
  });
  const bars = await page.ask("[...document.querySelectorAll('#bits rect')].map((r) => [r.dataset.part, Number(r.getAttribute('width')), r.ownerSVGElement.viewBox.baseVal.width])");
  equal(bars.length, 10, "parts of two bars");
  for (const [i, [part, width, whole]] of bars.entries()) {
    const bits = await page.ask(`narrows.sides.${i < 5 ? "a" : "b"}.bits`);
    check(Math.abs(width / whole - bits[part] / bits.capacity) < 0.001, `bar ${part}: ${width / whole} instead of ${bits[part] / bits.capacity}`);
  }
  equal(await page.ask(`(() => {
    const s = narrows.sides.b.sequence, canvas = document.querySelector("#seq-b canvas"), pen = canvas.getContext("2d");
    const all = ["a", "b"].map((side) => narrows.sides[side].sequence);
    const top = Math.max(...all.flatMap((q) => q.byte.map((b, i) => b + q.len[i]))), seconds = narrows.settings().seconds;
    let bad = 0;
    s.at_s.forEach((t, i) => {
      if (s.kind[i] === 3) return;
      const x = Math.round(44 + t / seconds * (canvas.width - 48)), y = Math.round(222 - (s.byte[i] + s.len[i] / 2) / top * 216);
      const near = pen.getImageData(x - 2, y - 2, 5, 5).data;
      if (!near.some((v, at) => at % 4 === 3 && v > 0)) bad++;
    });
    return [bad, s.at_s.length > 3];
  })()`), [0, true], "packets that are not drawn");
  check(await page.ask("document.querySelectorAll('#model tbody tr').length >= 4"), "the model has its rows");

  // Every control does something, and the address brings it back.
  await goto("#seconds=5&users=5&calls=1&load=pages&rate_kbps=500");
  const fields = await page.ask("narrows.about.fields");
  for (const f of fields) {
    const id = `f-${f.key}`;
    const value = { number: f.key === "seconds" ? 6 : f.key === "mtu" ? 1400 : f.key === "tls" ? 0 : Math.max(f.least, Math.min(f.most, 3)), choice: f.words?.at(-1)?.[0], queue: "sfq", rates: "100, 200", flag: true }[f.kind];
    if (f.key === "tls") await set("f-load", "objects");
    await set(id, value);
    if (f.key === "rates_kbps") { await settled(); await set(id, ""); }
    await settled();
    check(await page.ask("document.getElementById('state').textContent === ''"), `${f.key}: ${await page.ask("document.getElementById('state').textContent")}`);
    if (f.kind !== "rates") check((await page.ask("location.hash")).includes(`${f.key}=`) || String(await page.ask(`narrows.about.defaults[${JSON.stringify(f.key)}]`)) === String(value), `${f.key} is not in the address`);
    if (f.kind === "flag") { await set(id); await settled(); }
  }
  const before = await page.ask("[location.href, JSON.stringify(narrows.settings()), JSON.stringify(narrows.sides.a.summary)]");
  await page.go("about:blank");
  await page.go(before[0]);
  await settled();
  equal(await page.ask("[location.href, JSON.stringify(narrows.settings()), JSON.stringify(narrows.sides.a.summary)]"), before, "the address brings the view back");

  // A slider that is dragged: the last position is what is drawn, and not every one before it was asked for.
  const asked = await page.ask("Number(document.documentElement.dataset.asked)");
  await page.ask(`(async () => {
    const slider = document.querySelector("[aria-label='Buffer, slider']");
    for (let at = 200; at < 600; at += 8) {
      slider.value = String(at);
      slider.dispatchEvent(new Event("input", { bubbles: true }));
      await new Promise((done) => setTimeout(done, 4));
    }
  })()`);
  await settled();
  equal(await page.ask("[narrows.drawn().buffer === narrows.settings().buffer, document.getElementById('f-buffer').value === String(narrows.settings().buffer)]"), [true, true], "the last position is drawn");
  check(await page.ask("Number(document.documentElement.dataset.asked)") - asked < 50, "each position was asked for");

  // What cannot be is said beside the field.
  await set("f-rate_kbps", "0");
  await page.until("document.getElementById('f-rate_kbps-wrong').textContent.includes('20 to 20000')");
  equal(await page.ask("[document.getElementById('f-rate_kbps').getAttribute('aria-invalid'), document.getElementById('results').className]"), ["true", "stale"], "a wrong rate");
  await set("f-rate_kbps", "500");
  await settled();
  equal(await page.ask("[document.getElementById('f-rate_kbps-wrong').textContent, document.getElementById('results').className]"), ["", ""], "a good rate again");

  // Long runs stop with a word.
  await page.ask("location.hash = '#rate_kbps=6000&seconds=1200'");
  await page.until("document.getElementById('state').textContent.startsWith('Simulating 1200 s')");
  await page.ask("document.querySelector('#state button').click()");
  await page.until("document.getElementById('state').textContent.startsWith('Stopped')");

  // Presets.
  for (const preset of await page.ask("narrows.about.presets.map((p) => p.key)")) {
    if (preset === "office") continue; // A fast link takes a build for tests long.
    await set("preset", preset);
    await settled();
    equal(await page.ask("[document.getElementById('preset').value, document.getElementById('state').textContent, document.getElementById('about').textContent.length > 20]"), [preset, "", true], `preset ${preset}`);
  }

  // Time: play, stop, step.
  await goto("#seconds=10&users=10");
  await page.ask("document.getElementById('forth').click()");
  equal(await page.ask("document.getElementById('now').textContent.startsWith('At 1.0 s: ')"), true, "a step");
  await page.ask("document.getElementById('play').click()");
  await page.until("Number(document.getElementById('time').value) > 1.5");
  await page.ask("document.getElementById('stop').click()");
  equal(await page.ask("[document.getElementById('now').textContent, document.getElementById('play').textContent]"), ["The whole run, 10 s.", "▶ Play"], "stopped");

  // By keyboard alone: from the top each control is reached, each has a name, and the heat map chooses a user.
  await page.ask("(document.activeElement || document.body).blur(), scrollTo(0, 0)");
  const reached = [];
  for (let i = 0; i < 120; i++) {
    await page.press("Tab");
    const at = await page.ask("(() => { const e = document.activeElement; return e === document.body ? '' : e.id || e.getAttribute('aria-label') || e.parentElement.id || e.tagName + e.textContent; })()");
    if (reached.length && (!at || at === reached[0])) break;
    reached.push(at);
    if (await page.ask("document.activeElement.parentElement?.id === 'heat-a'")) {
      for (const key of ["ArrowDown", "ArrowDown", "ArrowRight"]) await page.press(key);
      check(await page.ask("document.querySelector('#heat-a .says').textContent.startsWith('User 3 at 1 s')"), "arrow keys move in the heat map");
      await page.press("Enter");
      await settled();
      equal(await page.ask("document.getElementById('user').value"), "3", "Enter chooses the user");
    }
  }
  const missing = await page.ask(`[...document.querySelectorAll("button, input, select, textarea, summary, [tabindex='0']")].filter((e) => e.checkVisibility()).map((e) => e.id || e.getAttribute("aria-label") || e.parentElement.id || e.tagName + e.textContent)`);
  equal(missing.filter((id) => !reached.includes(id)), [], "controls that Tab does not reach");
  await page.call("Accessibility.enable");
  const { nodes } = await page.call("Accessibility.getFullAXTree");
  const roles = ["button", "slider", "spinbutton", "combobox", "textbox", "checkbox", "application", "img"];
  equal(nodes.filter((n) => !n.ignored && roles.includes(n.role?.value) && !n.name?.value).map((n) => `${n.role.value} ${n.nodeId}`), [], "controls without a name");

  // A telephone, dark, and paper.
  await page.size(390, 800);
  await page.go("about:blank");
  await page.go(`${url}#seconds=10&calls=1`);
  await settled();
  equal(await page.ask("document.documentElement.scrollWidth"), 390, "width of the page on a telephone");
  await page.call("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: "dark" }] });
  check(await page.ask("getComputedStyle(document.body).backgroundColor === 'rgb(20, 22, 26)'"), "dark paper");
  await page.call("Emulation.setEmulatedMedia", { media: "print", features: [] });
  equal(await page.ask("[getComputedStyle(document.getElementById('fields')).display, getComputedStyle(document.body).backgroundColor]"), ["none", "rgb(255, 255, 255)"], "paper has no form");

  await page.until("document.querySelector('#heat-a .paper').naturalWidth > 100 && document.querySelector('#seq-b .paper').naturalWidth > 100");
  await page.call("Emulation.setEmulatedMedia", { media: "", features: [] });

  // A small view, as other pages embed it.
  await goto("#small=1&seconds=10");
  equal(await page.ask("[...document.querySelectorAll('section')].filter((s) => s.checkVisibility()).length"), 3, "sections of a small view");
  equal(await page.ask("document.getElementById('whole').getAttribute('href')"), "#seconds=10", "the way to the whole page");

  equal(page.errors, [], "errors of the console");
  const origin = new URL(url).origin;
  equal(page.asked.filter((at) => !at.startsWith(origin) && !/^(data|blob|about):/.test(at)), [], "asked for elsewhere");
} catch (e) {
  const now = await page.ask("[location.href, document.getElementById('state').textContent, ...[...document.querySelectorAll('.wrong')].map((w) => w.textContent)].filter(Boolean).join(' | ')").catch(() => "");
  wrong.push(`${e.stack}\nThe page is at ${now}`);
} finally {
  await page.close();
}
if (wrong.length) {
  console.error(wrong.join("\n"));
  process.exit(1);
}
