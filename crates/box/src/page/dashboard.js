// @ts-check
// The dashboard: what /status.json says now, and what /history.json has kept of the last hour. Plain script with the
// browser's own means, so that the program needs no other toolchain and the page works offline.
import { $, bits, bytes, css, html, key, percent, secs, svg, ticks } from "./parts.js";

(() => {
  const PACE_MS = 5000, KEPT_S = 3600;
  const LEFT = 78, RIGHT = 8, TOP = 8, BOTTOM = 24;
  /** States of connections in the order of a sample's counts. What is normal is blue or grey. */
  const STATES = ["opening", "moving", "waiting", "stalled", "idle"];
  const STATE_WORDS = ["opening", "moving", "waiting their turn", "stalled", "idle"];
  const STATE_COLOURS = ["--c4", "--c0", "--c8", "--c5", "--c9"];
  /** Where packets were lost, after a stall. */
  const LOST = { before: "lost before the box", here: "dropped by the box", behind: "lost behind the box", both: "lost in several places", unknown: "" };
  /** Upper ends of the heat map's colours, seconds. */
  const HEAT = [0, 1, 2, 5, 10, Infinity];
  const HEAT_WORDS = ["none", "up to 1 s", "up to 2 s", "up to 5 s", "up to 10 s", "longer"];

  /** @typedef {{name: string, colour: string, values: (number|null)[], dashed?: boolean}} Line */
  /** @typedef {{at_s: number, down: any, up: any, states: number[], stalled: number[], users_stalled: number, at_admission: number}} Sample */

  /** @type {Sample[]} */ let samples = [];
  /** @type {Map<number, any>} */ const stalls = new Map();
  /** @type {any} */ let status = null;
  /** Minutes that are shown, and whether somebody has chosen them. */
  let minutes = 5, fixed = false;
  /** @type {string|null} */ let chosen = null;
  /** Where the cursor of each chart is, as steps back from its end. @type {Map<string, number>} */
  const cursors = new Map();

  /** @param {number|null} n */
  const count = (n) => n == null ? "–" : String(n);
  /** @param {string} name */
  const spaced = (name) => name.replaceAll("_", " ");

  /** A cause in the words of `narrows diagnose`. @param {string} name */
  const worded = (name) => (status.sight.causes.find((/** @type {any} */ c) => c.cause === name) || { words: spaced(name) }).words;

  /** Shows or hides the card around an element. @param {string} id @param {boolean} shown */
  const card = (id, shown) => {
    const section = $(id).closest("section");
    if (section) section.hidden = !shown;
  };

  /** The samples of the time that is shown. */
  const shown = () => {
    const end = samples.length ? samples[samples.length - 1].at_s : 0;
    return samples.filter((s) => s.at_s >= end - minutes * 60);
  };

  /** An empty drawing in `into`, as wide as that is. @param {HTMLElement} into @param {string} label @param {number} height */
  const frame = (into, label, height) => {
    const width = Math.max(280, into.clientWidth || 600);
    const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
    return { root, width, height };
  };

  /** Axes: values on the left, minutes below. @param {Element} root @param {number} width @param {number} height @param {number} max @param {(n: number) => string} unit @param {boolean} whole */
  const axes = (root, width, height, max, unit, whole) => {
    const marks = ticks(max, whole), top = marks[marks.length - 1];
    const y = (/** @type {number} */ v) => height - BOTTOM - (v / top) * (height - TOP - BOTTOM);
    for (const t of marks) {
      svg("line", { x1: LEFT, x2: width - RIGHT, y1: y(t), y2: y(t), class: "grid" }, root);
      svg("text", { x: LEFT - 6, y: y(t) + 4, "text-anchor": "end" }, root).textContent = unit(t).replace(/\.0+ /, " ");
    }
    const x = (/** @type {number} */ ago) => width - RIGHT - (ago / (minutes * 60)) * (width - LEFT - RIGHT);
    for (const part of width < 420 ? [1, 0.5, 0] : [1, 0.75, 0.5, 0.25, 0]) {
      const anchor = part === 1 ? "start" : part === 0 ? "end" : "middle";
      const words = part === 0 ? "now" : `−${+(minutes * part).toFixed(1)} min`;
      svg("text", { x: x(minutes * 60 * part), y: height - 6, "text-anchor": anchor }, root).textContent = words;
    }
    return { x, y };
  };

  /** Lines, or areas one on top of the other. @param {string} id @param {string} label @param {Line[]} lines @param {(n: number|null) => string} unit @param {boolean} stacked */
  const chart = (id, label, lines, unit, stacked) => {
    const into = $(id), data = shown();
    if (data.length < 2) return into.replaceChildren(html("p", "The first minute is being gathered.", "empty"));
    const { root, width, height } = frame(into, label, 220);
    const end = data[data.length - 1].at_s;
    const sums = data.map((_, i) => lines.reduce((sum, l) => sum + (l.values[i] || 0), 0));
    const highest = stacked ? Math.max(...sums) : Math.max(...lines.flatMap((l) => l.values.map((v) => v || 0)));
    const { x, y } = axes(root, width, height, Math.max(highest, stacked ? 1 : 1000), unit, stacked);
    const base = data.map(() => 0);
    for (const line of lines) {
      const at = (/** @type {number} */ i) => x(end - data[i].at_s).toFixed(1);
      if (stacked) {
        const low = base.map((b, i) => `${at(i)},${y(b).toFixed(1)}`).reverse();
        line.values.forEach((v, i) => { base[i] += v || 0; });
        const high = base.map((b, i) => `${at(i)},${y(b).toFixed(1)}`);
        svg("path", { d: `M${high.join("L")}L${low.join("L")}Z`, fill: css(line.colour) }, root);
      } else {
        let d = "", pen = "M";
        line.values.forEach((v, i) => { if (v == null) pen = "M"; else { d += `${pen}${at(i)},${y(v).toFixed(1)}`; pen = "L"; } });
        svg("path", { d, fill: "none", stroke: css(line.colour), "stroke-width": 2, ...(line.dashed ? { "stroke-dasharray": "5 4" } : {}) }, root);
      }
    }
    const legend = html("div", null, "legend");
    const cursor = svg("line", { y1: TOP, y2: height - BOTTOM, class: "cursor", visibility: "hidden" }, root);
    const point = (/** @type {number} */ back) => {
      cursors.set(id, back);
      const i = Math.max(0, data.length - 1 - back), ago = end - data[i].at_s;
      cursor.setAttribute("visibility", back > 0 ? "visible" : "hidden");
      cursor.setAttribute("x1", x(ago).toFixed(1));
      cursor.setAttribute("x2", x(ago).toFixed(1));
      legend.replaceChildren(...lines.map((l) => key(l.colour, `${l.name} ${unit(l.values[i])}`)), html("span", back > 0 ? `${secs(ago)} ago` : "", "dim when"));
    };
    operate(root, data.length, point, (px) => {
      const ago = (1 - (px - LEFT) / (width - LEFT - RIGHT)) * minutes * 60;
      let best = 0;
      data.forEach((s, i) => { if (Math.abs(end - s.at_s - ago) < Math.abs(end - data[best].at_s - ago)) best = i; });
      return data.length - 1 - best;
    }, () => cursors.get(id) || 0, width);
    replace(into, root, legend);
    point(Math.min(cursors.get(id) || 0, data.length - 1));
  };

  /** Puts a drawing in place of the one before, which may have the focus. @param {HTMLElement} into @param {Element} root @param {Element[]} rest */
  const replace = (into, root, ...rest) => {
    const focused = into.contains(document.activeElement);
    into.replaceChildren(root, ...rest);
    if (focused && root instanceof SVGElement) root.focus();
  };

  /** Mouse, finger and arrow keys move the cursor. @param {SVGElement} root @param {number} length @param {(back: number) => void} point @param {(px: number) => number} find @param {() => number} where @param {number} width */
  const operate = (root, length, point, find, where, width) => {
    root.setAttribute("tabindex", "0");
    root.addEventListener("pointermove", (e) => {
      const box = root.getBoundingClientRect();
      point(find(((e.clientX - box.left) / box.width) * width));
    });
    root.addEventListener("pointerleave", () => point(0));
    root.addEventListener("keydown", (e) => {
      const by = { ArrowLeft: 1, ArrowRight: -1, PageUp: 12, PageDown: -12, Home: length, End: -length }[e.key];
      if (by == null) return;
      e.preventDefault();
      point(Math.min(length - 1, Math.max(0, where() + by)));
    });
  };

  /** @param {string[]} heads @param {(string|Node)[][]} rows @param {string} none */
  const table = (heads, rows, none) => {
    if (!rows.length) return html("p", none, "empty");
    const t = html("table"), head = html("tr");
    head.append(...heads.map((h) => html("th", h)));
    t.append(head);
    for (const row of rows) {
      const r = html("tr");
      for (const cell of row) {
        const d = html("td");
        d.append(cell);
        if (cell instanceof HTMLElement && cell.className === "words") d.className = "words";
        r.append(d);
      }
      t.append(r);
    }
    return t;
  };

  const link = () => {
    for (const side of /** @type {const} */ (["down", "up"])) {
      const of = (/** @type {string} */ what) => shown().map((s) => s[side][what]);
      const lines = [
        { name: "carried", colour: "--c0", values: of("link_bps") },
        { name: "of that new data", colour: "--c2", values: of("goodput_bps") },
        { name: "rate of the link", colour: "--c7", values: of("rate_bps"), dashed: true },
      ];
      chart(side, `Link, goodput and rate, ${side}`, lines, bits, false);
    }
  };

  const areas = () => {
    const data = shown();
    const states = STATES.map((_, i) => ({ name: STATE_WORDS[i], colour: STATE_COLOURS[i], values: data.map((s) => s.states[i]) }));
    chart("states", "Connections by state", [3, 1, 2, 0, 4].map((i) => states[i]), count, true);
    const causes = status.sight.causes.filter((/** @type {any} */ c) => c.network)
      .map((/** @type {any} */ c, /** @type {number} */ i) => ({ name: c.words, values: data.map((s) => s.stalled[i] || 0) }))
      .filter((/** @type {any} */ c) => c.values.some((/** @type {number} */ v) => v > 0))
      .map((/** @type {any} */ c, /** @type {number} */ i) => ({ ...c, colour: `--c${i % 8}` }));
    card("stalled", causes.length > 0);
    if (causes.length) chart("stalled", "Current stalls by cause", causes, count, true);
  };

  const causes = () => {
    const all = status.sight.causes.filter((/** @type {any} */ c) => c.quarter || c.now);
    all.sort((/** @type {any} */ a, /** @type {any} */ b) => b.quarter_share - a.quarter_share || b.now - a.now);
    const rows = all.map((/** @type {any} */ c) => [c.words + (c.network ? "" : " (not the network)"), String(c.now), String(c.quarter), c.network ? percent(c.quarter_share) : "–"]);
    const words = { before: "before the box", here: "in the box", behind: "behind the box", both: "in several places", unknown: "in an unknown place" };
    const places = status.sight.lost.filter((/** @type {any} */ l) => l.quarter_share > 0).map((/** @type {any} */ l) => `${percent(l.quarter_share)} ${words[/** @type {"here"} */ (l.place)]}`);
    card("causes", rows.length > 0);
    const where = html("p", places.length ? `Time in stalls by losses, by where packets were lost: ${places.join(", ")}.` : "", "dim");
    $("causes").replaceChildren(table(["cause", "now", "stalls", "share of time"], rows, ""), where);
  };

  const heat = () => {
    const into = $("heat"), users = status.sight.users.filter((/** @type {any} */ u) => u.minutes_s.some((/** @type {number} */ s) => s > 0)).slice(0, 30);
    card("heat", users.length > 0);
    if (!users.length) return;
    const row = 18, { root, width, height } = frame(into, "Users by the longest stall of each minute", users.length * row + BOTTOM + 4);
    const left = 112, cell = (width - left - RIGHT) / minutes;
    users.forEach((/** @type {any} */ u, /** @type {number} */ i) => {
      const name = u.user.length > 15 ? u.user.slice(0, 14) + "…" : u.user;
      svg("text", { x: left - 6, y: i * row + 13, "text-anchor": "end" }, root).textContent = name;
      const lately = u.minutes_s.slice(-minutes);
      lately.forEach((/** @type {number} */ s, /** @type {number} */ n) => {
        const back = lately.length - n, at = width - RIGHT - back * cell;
        const colour = `--h${HEAT.findIndex((end) => s <= end)}`;
        const box = svg("rect", { x: at.toFixed(1), y: i * row + 1, width: Math.max(1, cell - 1).toFixed(1), height: row - 2, fill: css(colour) }, root);
        svg("title", {}, box).textContent = `${u.user}, ${back - 1} min ago: ${secs(s)}`;
      });
    });
    svg("text", { x: left, y: height - 6 }, root).textContent = `−${minutes} min`;
    svg("text", { x: width - RIGHT, y: height - 6, "text-anchor": "end" }, root).textContent = "now";
    const legend = html("div", null, "legend");
    legend.append(...HEAT_WORDS.map((words, i) => key(`--h${i}`, words)));
    replace(into, root, legend);
  };

  const admission = () => {
    const all = [status.down, status.up].map((d) => d.report.admission).filter(Boolean);
    const queue = all.flatMap((a) => a.queue), held = shown().some((s) => s.at_admission > 0);
    card("waiting", all.length > 0 && (held || queue.length > 0));
    if (!held && !queue.length) return;
    chart("waiting", "Users that wait for admission", [{ name: "users that wait", colour: "--c1", values: shown().map((s) => s.at_admission) }], count, true);
    const rows = queue.map((/** @type {any} */ p) => [`${p.position}. ${p.pool}`, secs(p.waited_s), secs(p.expected_s)]);
    $("queue").replaceChildren(table(["user", "waited", "expected"], rows, `Nobody waits now; ${all[0].admitted} users are admitted.`));
  };

  /** A user with its name before it, if it has one. @param {any} u */
  const who = (u) => u.name ? `${u.name} (${u.user})` : u.user;

  const users = () => {
    const rows = status.sight.users.map((/** @type {any} */ u) => [
      who(u), bytes(u.bytes[0]), bytes(u.bytes[1]), u.stalled_s > 0 ? secs(u.stalled_s) : "–", u.stalled_s > 0 ? secs(u.longest_s) : "–",
      u.stalled_now ? html("span", String(u.stalled_now), "warn") : "–", u.cause ? worded(u.cause) : "–"]);
    card("users", rows.length > 0);
    $("users").replaceChildren(table(["user", "down", "up", "stalled for", "longest", "now", "mostly"], rows, ""));
  };

  const talkers = () => {
    const rows = status.sight.talkers.map((/** @type {any} */ t) => {
      const came = t.hour_offered_bytes[0] + t.hour_offered_bytes[1], left = t.hour_bytes[0] + t.hour_bytes[1];
      return [who(t), bits(t.rate_bps[0]), bits(t.rate_bps[1]), bytes(t.hour_bytes[0]), bytes(t.hour_bytes[1]),
        percent(Math.min(1, left / Math.max(1, came))), secs(t.hour_wait_s), bytes(t.week_bytes[0]), bytes(t.week_bytes[1])];
    });
    card("talkers", rows.length > 0);
    const heads = ["user", "down now", "up now", "down, hour", "up, hour", "of what came", "wait", "down, week", "up, week"];
    $("talkers").replaceChildren(table(heads, rows, ""));
  };

  /** A stall as cells: what, how long, where, what ended it. @param {any} s @param {boolean} named */
  const cells = (s, named) => {
    const age = status.uptime_s - s.from_s;
    const button = html("button", s.flow.replace(" ", s.direction === "down" ? " ← " : " → "), "flow");
    button.addEventListener("click", () => { chosen = s.flow; story(); $("story").focus(); });
    const evidence = [
      s.timeouts ? `${s.timeouts} timeout${s.timeouts > 1 ? "s" : ""}, back-off ${s.backoff}` : s.repair ? spaced(s.repair) : "",
      LOST[/** @type {"here"} */ (s.lost)],
      `${s.outstanding} under way`, s.certainty].filter(Boolean).join(", ");
    const length = secs(s.length_s) + (s.number ? "" : " so far");
    return [...(named ? [button] : []), `${secs(age)} ago`, length, html("span", worded(s.cause), "words"), html("span", evidence, "words")];
  };

  const list = () => {
    const network = new Map(status.sight.causes.map((/** @type {any} */ c) => [c.cause, c.network]));
    const all = [...status.sight.stalls_now, ...[...stalls.values()].filter((s) => network.get(s.cause) !== false).sort((a, b) => b.number - a.number).slice(0, 40)];
    card("stalls", all.length > 0);
    const focused = document.activeElement instanceof HTMLElement && $("stalls").contains(document.activeElement) ? document.activeElement.textContent : null;
    $("stalls").replaceChildren(table(["connection", "began", "length", "cause", "evidence"], all.map((s) => cells(s, true)), "None."));
    const again = [...$("stalls").querySelectorAll("button")].find((b) => b.textContent === focused);
    if (again) again.focus();
  };

  const story = () => {
    $("story").hidden = chosen == null;
    if (chosen == null) return;
    const now = status.sight.stalls_now.filter((/** @type {any} */ s) => s.flow === chosen);
    const all = [...[...stalls.values()].filter((s) => s.flow === chosen).sort((a, b) => a.from_s - b.from_s), ...now];
    const total = all.reduce((sum, s) => sum + s.length_s, 0);
    $("flow").textContent = `${chosen}: stalled ${secs(total)} in ${all.length} stalls that are kept`;
    const into = $("bars"), { root, width } = frame(into, "When it stalled", 64);
    svg("rect", { x: LEFT, y: TOP, width: width - LEFT - RIGHT, height: 28, fill: css("--h0") }, root);
    const x = (/** @type {number} */ ago) => width - RIGHT - Math.min(1, Math.max(0, ago / (minutes * 60))) * (width - LEFT - RIGHT);
    const causes = [...new Set(all.map((s) => s.cause))];
    for (const s of all) {
      const from = x(status.uptime_s - s.from_s), to = x(status.uptime_s - s.from_s - s.length_s);
      if (to <= LEFT) continue;
      const bar = svg("rect", { x: from.toFixed(1), y: TOP, width: Math.max(1.5, to - from).toFixed(1), height: 28, fill: css(`--c${causes.indexOf(s.cause) % 8}`) }, root);
      svg("title", {}, bar).textContent = `${secs(s.length_s)} ${worded(s.cause)}`;
    }
    svg("text", { x: LEFT, y: 58 }, root).textContent = `−${minutes} min`;
    svg("text", { x: width - RIGHT, y: 58, "text-anchor": "end" }, root).textContent = "now";
    const legend = html("div", null, "legend");
    legend.append(...causes.map((c, i) => key(`--c${i % 8}`, worded(c))));
    into.replaceChildren(root, legend);
    $("evidence").replaceChildren(table(["began", "length", "cause", "evidence"], all.slice(-20).reverse().map((s) => cells(s, false)), "It has not stalled in the time that is kept."));
  };

  const draw = () => {
    if (!status) return;
    const s = status, sight = s.sight;
    $("link").textContent = `${s.lan} ↔ ${s.wan}`;
    $("words").textContent = sight.words;
    $("notices").textContent = s.notices.join(" · ");
    const all = STATES.reduce((sum, n) => sum + (sight.states[n] || 0), 0);
    const states = STATES.map((n, i) => `${sight.states[n] || 0} ${STATE_WORDS[i]}`).join(", ");
    $("now").textContent = `${s.observe ? "looking on" : "running"} for ${secs(s.uptime_s)} · ${all} connections: ${states} · ${sight.users_stalled} of ${sight.users_seen} users stall now`;
    $("words").className = sight.users_stalled_long ? "bad" : sight.users_stalled_lately ? "warn" : "";
    if (!fixed) choose([5, 15, 60].find((m) => s.uptime_s <= m * 60) || 60);
    for (const part of [link, areas, causes, heat, admission, talkers, users, list, story]) part();
    // A card without a neighbour takes the whole row.
    const cards = [...document.querySelectorAll("main > section:not([hidden])")].filter((c) => c.contains($("users")) || !c.classList.contains("full"));
    const last = $("users").closest("section");
    if (last) last.classList.toggle("full", cards.length % 2 === 1);
  };

  // Of several links the one that was chosen, with what is wrong with all.
  const pick = (/** @type {any} */ whole) => {
    const menu = /** @type {HTMLSelectElement} */ ($("links"));
    menu.hidden = !whole.links;
    if (!whole.links) return whole;
    const names = whole.links.map((/** @type {any} */ l) => l.name);
    if (names.join() !== [...menu.options].map((o) => o.value).join()) {
      const old = menu.value;
      menu.replaceChildren(...names.map((/** @type {string} */ n) => new Option(n, n)));
      menu.value = names.includes(old) ? old : names[0];
    }
    const one = whole.links.find((/** @type {any} */ l) => l.name === menu.value);
    one.notices.push(...whole.notices);
    return one;
  };

  const look = async () => {
    try {
      const get = async (/** @type {string} */ path) => (await fetch(path, { cache: "no-store" })).json();
      const whole = await get("/status.json");
      if (whole.error) throw new Error(whole.error);
      const now = pick(whole);
      if (status && status.name !== now.name) { samples = []; stalls.clear(); status = null; }
      const last = samples.length ? samples[samples.length - 1].at_s : -1;
      const past = await get(`/history.json?since=${last}${now.name ? `&link=${encodeURIComponent(now.name)}` : ""}`);
      // A box that was started again counts its time anew.
      if (status && now.uptime_s < status.uptime_s) { samples = []; stalls.clear(); }
      status = now;
      samples = [...samples, ...past.samples].filter((s) => s.at_s > now.uptime_s - KEPT_S);
      for (const s of [...past.stalls, ...now.sight.stalls_last]) stalls.set(s.number, s);
      for (const [number, s] of stalls) if (s.from_s + s.length_s < now.uptime_s - KEPT_S) stalls.delete(number);
      draw();
    } catch {
      $("notices").textContent = "The box does not answer.";
    }
    setTimeout(look, PACE_MS);
  };

  /** Sets the span that is shown. @param {number} span */
  const choose = (span) => {
    minutes = span;
    for (const b of $("spans").querySelectorAll("button")) b.setAttribute("aria-pressed", String(b.dataset.minutes === String(span)));
  };

  for (const button of $("spans").querySelectorAll("button")) {
    button.addEventListener("click", () => {
      fixed = true;
      choose(Number(button.dataset.minutes));
      draw();
    });
  }
  $("links").addEventListener("change", () => { samples = []; stalls.clear(); status = null; });
  addEventListener("resize", draw);
  for (const media of ["screen and (prefers-color-scheme: dark)", "print"]) matchMedia(media).addEventListener("change", draw);
  look();
})();
