// @ts-check
// The page: settings in, two answers out, drawn. At most one question for each queue is on its way; what is changed
// meanwhile is asked afterwards, or at once if the answer takes long.
import { open } from "./engine.js";
import { Form, fragment, settingsOf } from "./fields.js";
import { Heat, Sequences, SIDES, bars, barsKey, distribution, heatKey, median, sequenceKey } from "./draw.js";
import { $, bits, html, key, percent, secs } from "./parts.js";

/** @typedef {import("./engine.js").Side} Side */
/** @typedef {import("./engine.js").Which} Which */
/** @typedef {import("./engine.js").Times} Times */
/** @typedef {import("./engine.js").Words} Words */

/** After this time a run that is no longer wanted is ended, ms. */
const PATIENCE_MS = 400;
/** Time that playing a whole run takes, s. */
const PLAYED_S = 12;

const engine = await open();
/** @type {import("./engine.js").About} */
const about = await engine.ask({ ask: "about" }, 0, new AbortController().signal);

let settings = settingsOf(about, location.hash);
/** User who is looked at; null for the one with the longest stall. @type {number|null} */
let user = null;
/** @type {{a: Side|null, b: Side|null}} */
const sides = { a: null, b: null };
/** Settings that the drawings are of. */
let drawn = settings;
/** @type {Words|null} */
let words = null;
/** Time that is shown; null for the whole run. @type {number|null} */
let time = null;
let which = "";

/** What is called A or B. @param {Which} side */
const name = (side) => {
  const spec = drawn[side], known = about.queues.find((q) => q.spec === spec);
  const label = known ? known.name.replace(/ \(.*\)$/, "") : spec;
  return spec === "fifo" ? `${label}, ${drawn.buffer} packets` : label;
};

const heats = { a: new Heat($("heat-a"), (n) => look(n)), b: new Heat($("heat-b"), (n) => look(n)) };
const sequences = { a: new Sequences($("seq-a")), b: new Sequences($("seq-b")) };
const form = new Form($("fields"), about, (field, value) => {
  settings = { ...settings, [field]: value };
  changed();
});

// Asking.

/** @type {{abort: AbortController, since: number}|null} */
let asking = null;
let pending = false;

/** @param {any} answer */
const problemsOf = (answer) => /** @type {import("./engine.js").Problem[]} */ (answer.problems || []);

/** Says what is going on. @param {string} text @param {boolean} [wrong] @param {HTMLElement} [more] */
const say = (text, wrong, more) => {
  const state = $("state");
  state.className = wrong ? "wrong" : "";
  state.replaceChildren(html("span", text), ...(more ? [more] : []));
};

const ask = async () => {
  if (asking) {
    pending = true;
    if (performance.now() - asking.since > PATIENCE_MS) asking.abort.abort();
    return;
  }
  const mine = { abort: new AbortController(), since: performance.now() };
  asking = mine;
  pending = false;
  const asked = settings, looked = user, signal = mine.abort.signal;
  const slow = setTimeout(() => {
    const stop = html("button", "Stop");
    stop.type = "button";
    stop.addEventListener("click", () => { pending = false; mine.abort.abort("asked"); });
    say(`Simulating ${asked.seconds} s twice …`, false, stop);
    document.body.setAttribute("aria-busy", "true");
  }, 300);
  try {
    const of = (/** @type {Which} */ side, /** @type {number} */ place) => engine.ask({ ask: "side", settings: asked, side, user: looked }, place, signal);
    const [a, b] = await Promise.all([of("a", 0), of("b", 1)]);
    const problems = problemsOf(a).concat(problemsOf(b));
    if (problems.length) refused(problems);
    else {
      form.wrong([]);
      Object.assign(sides, { a, b });
      drawn = asked;
      draw();
      $("results").classList.remove("stale");
      const took = performance.now() - mine.since;
      $("took").textContent = `The last picture took ${took.toFixed(0)} ms.`;
      clearTimeout(slow);
      say("");
      if (!pending) await afterwards(asked, signal);
    }
  } catch (e) {
    const stopped = e instanceof DOMException && e.name === "AbortError" || signal.aborted;
    if (!stopped) say(`The engine does not answer: ${e instanceof Error ? e.message : e}`, true);
    else if (!pending) say("Stopped. The drawings are of the settings before.");
  } finally {
    clearTimeout(slow);
    document.body.removeAttribute("aria-busy");
    asking = null;
    document.documentElement.dataset.asked = String(Number(document.documentElement.dataset.asked || 0) + 1);
    if (pending) ask();
  }
};

/** @param {import("./engine.js").Problem[]} problems */
const refused = (problems) => {
  const seen = new Set();
  const once = problems.filter((p) => !seen.has(p.field + p.says) && seen.add(p.field + p.says));
  const rest = form.wrong(once);
  $("results").classList.add("stale");
  say(rest.length ? rest.join("; ") : "These settings cannot be simulated: see the fields in red. The drawings are of the settings before.", true);
};

/** What the first picture does not wait for. @param {Record<string, any>} asked @param {AbortSignal} signal */
const afterwards = async (asked, signal) => {
  const told = await engine.ask({ ask: "words", settings: asked }, 0, signal);
  if (problemsOf(told).length) return;
  words = told;
  mathematics();
  same();
  const { a, b } = sides;
  // Both drawings are of one user: the one with the longest stall in the first, or who was chosen.
  if (user == null && a && b && a.sequence.user !== b.sequence.user) {
    const again = await engine.ask({ ask: "side", settings: asked, side: "b", user: a.sequence.user }, 1, signal);
    if (!problemsOf(again).length) { sides.b = again; sequence(); }
  }
};

const changed = () => {
  form.show(settings);
  const small = document.body.classList.contains("small-view");
  const at = fragment(about, settings) + (user == null ? "" : `&user=${user + 1}`) + (small ? "&small=1" : "");
  history.replaceState(null, "", at ? `#${at.replace(/^&/, "")}` : location.pathname);
  preset();
  halt();
  ask();
};

/** Looks at a user. @param {number} n */
const look = (n) => {
  user = n;
  changed();
};

// Drawing.

/** Bytes of a fair share in a column. @param {Side} side */
const fair = (side) => side.bits.capacity / drawn.seconds * side.column_s / Math.max(1, side.users);

/** A time worth being told by the distributions. @type {{id: "pages_s"|"objects_s"|"object_stalls_s", label: string, what: string}[]} */
const TIMES = [
  { id: "pages_s", label: "pages", what: "pages" },
  { id: "objects_s", label: "objects", what: "objects" },
  { id: "object_stalls_s", label: "longest pause of each object", what: "objects" },
];

/** @param {import("./engine.js").Bits} b */
const dropped = (b) => b.dropped / Math.max(1, b.arrived);

const both = () => /** @type {[Which, Side][]} */ ([["a", sides.a], ["b", sides.b]].filter(([, s]) => s));

const draw = () => {
  $("column").textContent = secs(sides.a?.column_s);
  figures();
  for (const [id, side] of both()) heats[id].show(side, name(id), fair(side), drawn.seconds);
  heatKey($("heat-key"));
  times();
  const named = both().map(([id, side]) => /** @type {[string, Side]} */ ([name(id), side]));
  bars($("bits"), named);
  barsKey($("bits-key"), named);
  $("bits-words").replaceChildren(...both().map(([id, { bits: b }]) => html("p",
    `${name(id)}: of ${b.arrived} packets that came to the queue ${percent(dropped(b))} were dropped there`
    + (b.lost ? ` and ${percent(b.lost / Math.max(1, b.arrived))} lost on the wire` : "")
    + (b.wait_first_s != null ? `; of connections' first 20 kB half waited ${secs(b.wait_first_s)} or more` : "")
    + (b.wait_later_s != null ? `; of what came later half waited ${secs(b.wait_later_s)}` : "") + ".", "small dim")));
  calls();
  sequence();
  const slider = /** @type {HTMLInputElement} */ ($("time"));
  slider.max = String(drawn.seconds);
  show(null);
};

/** @typedef {[string, (side: Side) => number|null|undefined, (v: number|null|undefined) => string, number]} Figure */

/** Figures in the order of what people feel; the sign says whether more is better. @type {Figure[]} */
const FIGURES = [
  ["users with a stall over 5 s", (s) => s.summary.user_stall_over_5s, percent, -1],
  ["longest stall of anybody", (s) => s.summary.user_stall_max_s, secs, -1],
  ["half of the pages within", (s) => s.pages_s.done + s.pages_s.never ? median(s.pages_s) : undefined, secs, -1],
  ["half of the objects within", (s) => s.objects_s.done + s.objects_s.never ? median(s.objects_s) : undefined, secs, -1],
  ["19 of 20 objects within", (s) => s.summary.object_p95_s, secs, -1],
  ["goodput of all (TCP and QUIC)", (s) => s.summary.goodput_bps, bits, 1],
  ["fairness of downloads (Jain, 20 s)", (s) => s.summary.jain_20s, (v) => v == null ? "–" : v.toFixed(3), 1],
  ["packets dropped by the queue", (s) => dropped(s.bits), percent, -1],
  ["timers that expired", (s) => s.summary.timeouts, (v) => v == null ? "–" : v.toFixed(0), -1],
  ["calls that are good", (s) => s.summary.calls_good, percent, 1],
];

/** @param {Which} id */
const heading = (id) => {
  const th = html("th"), swatch = html("span", null, "swatch");
  th.scope = "col";
  swatch.style.background = `var(${SIDES[id]})`;
  th.append(swatch, name(id));
  return th;
};

const figures = () => {
  const head = html("thead"), body = html("tbody"), first = html("tr");
  first.append(html("th", ""), ...both().map(([id]) => heading(id)));
  head.append(first);
  for (const [label, of, word, sign] of FIGURES) {
    const values = both().map(([, side]) => of(side));
    if (values.every((v) => v === undefined)) continue;
    const row = html("tr"), th = html("th", label);
    th.scope = "row";
    row.append(th);
    values.forEach((v, i) => {
      const other = values[1 - i], text = word(v);
      // Half that did not come to an end is worse than any time.
      const score = (/** @type {number|null|undefined} */ x) => x == null ? -Infinity : x * sign;
      const cell = html("td", v === null ? "never" : text);
      if (values.length === 2 && score(v) > score(other) && text !== word(other)) {
        cell.className = "better";
        cell.append(html("span", " ✓"));
        cell.lastElementChild?.setAttribute("aria-label", "better");
      }
      row.append(cell);
    });
    body.append(row);
  }
  $("figures").replaceChildren(head, body);
};

const times = () => {
  const has = TIMES.filter(({ id }) => both().some(([, s]) => s[id].done + s[id].never));
  $("which").closest("section")?.toggleAttribute("hidden", !has.length);
  if (!has.length) return;
  if (!has.some(({ id }) => id === which)) which = has[0].id;
  $("which").replaceChildren(...has.map(({ id, label }) => {
    const button = html("button", label);
    button.type = "button";
    button.setAttribute("aria-pressed", String(id === which));
    button.addEventListener("click", () => {
      which = id;
      times();
      /** @type {HTMLElement|null} */ ($("which").querySelector("[aria-pressed=true]"))?.focus();
    });
    return button;
  }));
  const { id, what } = /** @type {typeof TIMES[0]} */ (TIMES.find((t) => t.id === which));
  const lines = both().map(([side, s]) => /** @type {[string, string, Times]} */ ([name(side), SIDES[side], s[id]]));
  distribution($("times"), lines, what, drawn.seconds);
  $("times-key").replaceChildren(...lines.map(([label, colour, t]) => key(colour, `${label}: ${t.done} ${what}${t.never ? `, ${t.never} without an end` : ""}`)));
};

const calls = () => {
  const some = both().some(([, s]) => s.calls.length);
  $("calls-card").hidden = !some;
  if (!some) return;
  const head = html("thead"), body = html("tbody"), first = html("tr");
  first.append(html("th", ""), ...both().map(([id]) => heading(id)));
  head.append(first);
  const worst = (/** @type {(number|null)[]} */ all) => all.reduce((a, b) => Math.max(a ?? 0, b ?? 0), 0);
  /** @type {[string, (s: Side) => string][]} */
  const rows = [
    ["good calls", (s) => `${s.calls.filter((c) => c.good).length} of ${s.calls.length}`],
    ["lost, worst call", (s) => percent(worst(s.calls.map((c) => c.loss)))],
    ["added delay of 95 %, worst call", (s) => secs(worst(s.calls.map((c) => c.added_p95_s)))],
  ];
  for (const [label, of] of rows) {
    const row = html("tr"), th = html("th", label);
    th.scope = "row";
    row.append(th, ...both().map(([, s]) => html("td", of(s))));
    body.append(row);
  }
  $("calls").replaceChildren(head, body);
};

const sequence = () => {
  const top = Math.max(...both().map(([, { sequence: s }]) => s.byte.reduce((most, b, i) => Math.max(most, b + s.len[i]), 1)));
  for (const [id, side] of both()) sequences[id].show(side.sequence, name(id), drawn.seconds, top);
  sequenceKey($("seq-key"));
  const box = /** @type {HTMLInputElement} */ ($("user"));
  box.max = String(sides.a?.users || 1);
  if (document.activeElement !== box && sides.a) box.value = String(sides.a.sequence.user + 1);
};

const MODEL_HEADS = ["", "queue", "model", "simulated here", "difference", "how far off the model usually is"];

const mathematics = () => {
  if (!words) return;
  $("verdict").textContent = words.verdict;
  $("left-out").textContent = words.left_out.length ? `It leaves out: ${words.left_out.join("; ")}.` : "";
  const head = html("thead"), body = html("tbody"), first = html("tr");
  for (const label of MODEL_HEADS) {
    const th = html("th", label);
    th.scope = "col";
    first.append(th);
  }
  (first.lastElementChild || first).className = "words";
  head.append(first);
  for (const r of words.rows) {
    const side = both().find(([id]) => r.queue === "fifo" ? drawn[id] === "fifo" : drawn[id] === r.queue);
    if (!side) continue;
    const share = r.unit === "%", of = side[1], found = r.figure === "loss" ? dropped(of.bits) + of.bits.lost / Math.max(1, of.bits.arrived) : of.summary[r.figure], here = found == null ? null : found * (share ? 100 : 1);
    const unit = (/** @type {number} */ v) => share ? percent(v / 100) : secs(v);
    const row = html("tr"), th = html("th", r.what);
    th.scope = "row";
    const gap = here == null ? "–" : `${here < r.model ? "−" : "+"}${share ? Math.abs(here - r.model).toFixed(1) + " points" : secs(Math.abs(here - r.model))}`;
    const cells = [name(side[0]), unit(r.model), here == null ? "–" : unit(here), gap, `${r.rests_on}; ${r.error}`];
    row.append(th, ...cells.map((text, i) => {
      const cell = html("td", text, i === 4 ? "words" : "");
      // On a telephone, where columns have no heads.
      cell.dataset.what = MODEL_HEADS[i + 1];
      return cell;
    }));
    body.append(row);
  }
  $("model").replaceChildren(head, body);
};

/** The same as files and commands. */
const same = () => {
  if (!words) return;
  const open = new Set([...$("same").querySelectorAll("details[open]")].map((d) => d.id));
  /** @type {[string, string, string][]} */
  const all = [
    ["link", "A link to this view", location.href],
    ["toml", "Scenario file: save it as explore.toml", words.toml],
    ["command", "Command line, beside that file", words.command],
    ["python", "Python", words.python],
  ];
  $("same").replaceChildren(...all.map(([id, label, text]) => {
    const box = html("details"), area = html("textarea"), copy = html("button", "Copy", "copy");
    box.id = `same-${id}`;
    if (open.has(box.id)) box.open = true;
    area.readOnly = true;
    area.value = text;
    area.rows = Math.min(18, text.split("\n").length + 1);
    area.setAttribute("aria-label", label);
    copy.type = "button";
    copy.setAttribute("aria-label", `Copy: ${label}`);
    copy.addEventListener("click", async () => {
      area.select();
      try { await navigator.clipboard.writeText(text); copy.textContent = "Copied"; } catch { copy.textContent = "Selected: press Ctrl-C"; }
    });
    box.append(html("summary", label), area, copy);
    return box;
  }));
};

// Time.

/** @type {{since: number, from: number}|null} */
let playing = null;

/** Shows the run up to a time; all of it without one. @param {number|null} t */
const show = (t) => {
  time = t;
  for (const [id] of both()) { heats[id].now(t); sequences[id].now(t); }
  const slider = /** @type {HTMLInputElement} */ ($("time"));
  slider.value = String(t ?? drawn.seconds);
  slider.setAttribute("aria-valuetext", t == null ? "the whole run" : `${t.toFixed(1)} s`);
  $("now").textContent = t == null ? `The whole run, ${drawn.seconds} s.` : `At ${t.toFixed(1)} s: ` + both().map(([id, s]) => `${name(id)}: ${at(s, t)}`).join(" · ");
};

/** What is at a time, in words. @param {Side} side @param {number} t */
const at = (side, t) => {
  const stalled = side.stalls.filter(([, from, to]) => from + about.stall_s <= t && t < to).length;
  const column = Math.min(side.columns - 1, Math.floor(t / side.column_s));
  let sum = 0;
  for (let u = 0; u < side.users; u++) sum += side.bytes[u * side.columns + column];
  return `${stalled} of ${side.users} users stall, ${bits(sum * 8 / side.column_s)}`;
};

const halt = () => {
  playing = null;
  $("play").textContent = "▶ Play";
  $("play").setAttribute("aria-label", "Play");
};

const frame = () => {
  if (!playing) return;
  const t = playing.from + (performance.now() - playing.since) / 1e3 * drawn.seconds / PLAYED_S;
  if (t >= drawn.seconds) { halt(); show(null); return; }
  show(t);
  requestAnimationFrame(frame);
};

$("play").addEventListener("click", () => {
  if (playing) return halt();
  playing = { since: performance.now(), from: time ?? 0 };
  $("play").textContent = "❚❚ Pause";
  $("play").setAttribute("aria-label", "Pause");
  frame();
});
$("stop").addEventListener("click", () => { halt(); show(null); });
/** @param {number} by */
const walk = (by) => {
  halt();
  const column = sides.a?.column_s || 1, from = time ?? (by > 0 ? 0 : drawn.seconds);
  show(Math.min(drawn.seconds, Math.max(0, Math.round(from / column + by) * column)));
};
$("back").addEventListener("click", () => walk(-1));
$("forth").addEventListener("click", () => walk(1));
$("time").addEventListener("input", () => { halt(); show(Number(/** @type {HTMLInputElement} */ ($("time")).value)); });
$("user").addEventListener("change", () => {
  const n = Math.round(Number(/** @type {HTMLInputElement} */ ($("user")).value));
  if (n >= 1 && n <= (sides.a?.users || 1)) look(n - 1);
});

// Presets.

const OWN = "own";
const chooser = /** @type {HTMLSelectElement} */ ($("preset"));
chooser.append(...about.presets.map((p) => new Option(p.name, p.key)), new Option("settings of your own", OWN));

const preset = () => {
  const now = fragment(about, settings);
  const found = about.presets.find((p) => fragment(about, { ...about.defaults, ...p.settings }) === now);
  chooser.value = found ? found.key : OWN;
  $("about").textContent = found ? found.about : "";
};

chooser.addEventListener("change", () => {
  const found = about.presets.find((p) => p.key === chooser.value);
  if (!found) return;
  settings = { ...about.defaults, ...found.settings };
  user = null;
  changed();
});

// Beginning.

/** Settings of a small view within another page. */
const SMALL = ["rate_kbps", "buffer", "users", "quic_percent", "a", "b"];

const arrive = () => {
  settings = settingsOf(about, location.hash);
  const small = /(?:^#|&)small=1/.test(location.hash), whole = /** @type {HTMLAnchorElement} */ ($("whole"));
  document.body.classList.toggle("small-view", small);
  if (small) form.keep(SMALL);
  whole.hidden = !small;
  whole.href = `#${fragment(about, settings)}`;
  const looked = /(?:^#|&)user=(\d+)/.exec(location.hash);
  user = looked ? Math.max(0, Number(looked[1]) - 1) : null;
  form.show(settings);
  preset();
  ask();
};

const again = () => {
  if (!sides.a) return;
  draw();
};

addEventListener("hashchange", arrive);
let resized = 0;
addEventListener("resize", () => { clearTimeout(resized); resized = window.setTimeout(again, 100); });
for (const media of ["screen and (prefers-color-scheme: dark)", "print"]) matchMedia(media).addEventListener("change", again);
$("engine").textContent = engine.name;
/** For a console: what is drawn. */
Object.assign(window, { narrows: { sides, about, engine, settings: () => settings, drawn: () => drawn, asking: () => asking != null } });
arrive();
