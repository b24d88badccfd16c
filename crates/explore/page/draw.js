// @ts-check
// The drawings: each takes an answer of the engine and draws it, canvas where there are many cells, SVG elsewhere.
import { bits, css, html, key, percent, secs, svg, ticks } from "./parts.js";

/** @typedef {import("./engine.js").Side} Side */
/** @typedef {import("./engine.js").Sequence} Sequence */
/** @typedef {import("./engine.js").Times} Times */

/** Colours of the two queues. */
export const SIDES = { a: "--a", b: "--b" };
/** Steps of the heat map by the fair share: upper ends, and names of colours. */
const SHARES = [0, 0.5, 1, 2, Infinity];
const SHARE_COLOURS = ["--h0", "--h1", "--h2", "--h3", "--h4"];
const SHARE_WORDS = ["nothing", "up to half a fair share", "up to a fair share", "up to two", "more"];

/** @param {string} name @returns {[number, number, number]} */
const rgb = (name) => {
  const hex = css(name).replace("#", "");
  const whole = hex.length === 3 ? [...hex].map((c) => c + c).join("") : hex;
  const part = (/** @type {number} */ at) => parseInt(whole.slice(at, at + 2), 16) || 0;
  return [part(0), part(2), part(4)];
};

/** A canvas as sharp as the screen. @param {HTMLCanvasElement} canvas @param {number} width @param {number} height */
const sharp = (canvas, width, height) => {
  const by = devicePixelRatio || 1;
  canvas.width = Math.round(width * by);
  canvas.height = Math.round(height * by);
  canvas.style.height = `${height}px`;
  const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  pen.setTransform(by, 0, 0, by, 0, 0);
  return pen;
};

/** The step of the heat map that `bytes` in a column belong to. @param {number} bytes @param {number} fair bytes of a fair share in a column */
export const step = (bytes, fair) => SHARES.findIndex((end) => bytes <= end * fair);

/** Stacked canvases in a box: a picture, and over it where time is. */
class Layers {
  /** @param {HTMLElement} into @param {string} role */
  constructor(into, role) {
    this.title = html("h3");
    this.box = html("div", null, "layers");
    this.picture = html("canvas");
    this.over = html("canvas", null, "over");
    this.says = html("p", null, "says small");
    this.says.setAttribute("aria-live", "polite");
    this.box.tabIndex = 0;
    this.box.setAttribute("role", role);
    this.paper = html("img", null, "paper");
    this.paper.alt = "";
    this.box.append(this.picture, this.over, this.paper);
    into.replaceChildren(this.title, this.box, this.says);
  }

  /** Puts the picture's pixels where paper shows them: browsers print a canvas drawn meanwhile as strokes, or not. */
  settle() {
    if (matchMedia("print").matches) this.paper.src = this.picture.toDataURL();
  }
}

/** Users by time. */
export class Heat extends Layers {
  /** @type {Side|null} */ side = null;
  fair = 1;
  seconds = 60;
  /** Cursor: user and column. @type {[number, number]|null} */ at = null;
  height = 200;

  /** @param {HTMLElement} into @param {(user: number) => void} chosen */
  constructor(into, chosen) {
    super(into, "application");
    this.box.setAttribute("aria-roledescription", "heat map");
    /** @param {MouseEvent} e @returns {[number, number]|null} */
    const under = (e) => {
      const side = this.side, place = this.box.getBoundingClientRect();
      if (!side || !side.users) return null;
      const user = Math.floor((e.clientY - place.top) / place.height * side.users);
      const column = Math.floor((e.clientX - place.left) / place.width * side.columns);
      return [Math.min(side.users - 1, Math.max(0, user)), Math.min(side.columns - 1, Math.max(0, column))];
    };
    this.box.addEventListener("mousemove", (e) => { this.at = under(e); this.tell(); });
    this.box.addEventListener("click", (e) => { const at = under(e); if (at) chosen(at[0]); });
    this.box.addEventListener("keydown", (e) => {
      const side = this.side;
      if (!side) return;
      const [user, column] = this.at || [0, 0];
      const moves = /** @type {Record<string, [number, number]>} */ ({ ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], PageUp: [-10, 0], PageDown: [10, 0] });
      if (e.key === "Enter" || e.key === " ") { chosen(user); e.preventDefault(); return; }
      const by = moves[e.key];
      if (!by) return;
      e.preventDefault();
      this.at = [Math.min(side.users - 1, Math.max(0, user + by[0])), Math.min(side.columns - 1, Math.max(0, column + by[1]))];
      this.tell();
    });
  }

  /** @param {Side} side @param {string} name @param {number} fair bytes of a fair share in a column @param {number} seconds */
  show(side, name, fair, seconds) {
    Object.assign(this, { side, fair, seconds });
    this.title.textContent = name;
    const stalled = new Set(side.stalls.map((s) => s[0])).size;
    this.box.setAttribute("aria-label", `${name}: ${side.users} users over ${seconds} s; ${stalled} have a stall`);
    this.draw();
  }

  draw() {
    const side = this.side;
    if (!side) return;
    const width = this.box.clientWidth || 500;
    // Rows of whole pixels, where there is room for them.
    const row = Math.max(1, Math.min(14, Math.floor(280 / Math.max(1, side.users))));
    this.height = Math.min(360, Math.max(60, row * side.users));
    const cells = new ImageData(side.columns, Math.max(1, side.users));
    const colours = SHARE_COLOURS.map(rgb);
    side.bytes.forEach((bytes, i) => cells.data.set([...colours[step(bytes, this.fair)], 255], i * 4));
    const small = new OffscreenCanvas(cells.width, cells.height);
    /** @type {any} */ (small.getContext("2d")).putImageData(cells, 0, 0);
    const pen = sharp(this.picture, width, this.height);
    pen.imageSmoothingEnabled = false;
    // A last column that the run cuts off is as wide as the others, beyond the edge.
    pen.drawImage(small, 0, 0, width * side.columns * side.column_s / this.seconds, this.height);
    pen.fillStyle = css("--stall");
    const tall = this.height / Math.max(1, side.users);
    for (const [user, from, to] of side.stalls) {
      pen.fillRect(from / this.seconds * width, user * tall, (to - from) / this.seconds * width, tall);
    }
    // A line between kinds of users, each with its name.
    if (side.kinds.length > 1) {
      pen.font = "11px system-ui, sans-serif";
      for (const [name, first] of side.kinds) {
        if (first) { pen.fillStyle = css("--text"); pen.fillRect(0, first * tall - 0.5, width, 1); }
        const wide = pen.measureText(name).width + 6, top = Math.min(first * tall + 1, this.height - 14);
        pen.fillStyle = css("--card");
        pen.fillRect(1, top, wide, 13);
        pen.fillStyle = css("--text");
        pen.fillText(name, 4, top + 10);
      }
    }
    this.settle();
    this.now(null);
  }

  /** What is not yet, at a time; the whole run without one. @param {number|null} t */
  now(t) {
    const width = this.box.clientWidth || 500, pen = sharp(this.over, width, this.height);
    if (t == null) return;
    const x = t / this.seconds * width;
    pen.fillStyle = css("--veil");
    pen.fillRect(x, 0, width - x, this.height);
    pen.fillStyle = css("--text");
    pen.fillRect(x - 1, 0, 2, this.height);
  }

  /** Says what is under the cursor. */
  tell() {
    const side = this.side, at = this.at;
    if (!side || !at) return;
    const [user, column] = at, from = column * side.column_s;
    const got = side.bytes[user * side.columns + column] * 8 / side.column_s;
    const stall = side.stalls.find((s) => s[0] === user && s[1] < from + side.column_s && s[2] > from);
    this.says.textContent = `User ${user + 1} at ${from} s: ${bits(got)}` + (stall ? `, stalls from ${stall[1].toFixed(1)} to ${stall[2].toFixed(1)} s` : "");
  }
}

/** @param {HTMLElement} into */
export const heatKey = (into) =>
  into.replaceChildren(key("--stall", "stall"), ...SHARE_WORDS.map((words, i) => key(SHARE_COLOURS[i], words)));

/** Colours and words of what a packet brings. */
const BROUGHT = /** @type {[string, string][]} */ ([["--new", "new data"], ["--repair", "fills a hole"], ["--copy", "had crossed before"], ["--c9", "no data"]]);

/** A user's packets: bytes by time. */
export class Sequences extends Layers {
  /** @type {Sequence|null} */ sequence = null;
  seconds = 60;
  top = 1;

  /** @param {HTMLElement} into */
  constructor(into) { super(into, "img"); }

  /** @param {Sequence} sequence @param {string} name @param {number} seconds @param {number} top bytes of the scale */
  show(sequence, name, seconds, top) {
    Object.assign(this, { sequence, seconds, top: Math.max(1, top) });
    this.title.textContent = name;
    const of = (/** @type {number} */ kind) => sequence.kind.filter((k) => k === kind).length;
    const words = `${of(0)} packets with new data, ${of(1)} that fill holes, ${of(2)} copies, ${sequence.timeouts.length} timeouts`;
    this.box.setAttribute("aria-label", `${name}, user ${sequence.user + 1}: ${words}`);
    this.says.textContent = words + (sequence.left_out ? `; ${sequence.left_out} packets more are left out` : "");
    this.draw();
  }

  /** @param {number} width */
  #x(width) { return (/** @type {number} */ t) => 44 + t / this.seconds * (width - 48); }

  draw() {
    const s = this.sequence;
    if (!s) return;
    const width = this.box.clientWidth || 500, height = 240, low = height - 18;
    const pen = sharp(this.picture, width, height), x = this.#x(width);
    const y = (/** @type {number} */ byte) => low - byte / this.top * (low - 6);
    pen.font = "11px system-ui, sans-serif";
    for (const mark of ticks(this.top)) {
      if (mark > this.top) continue;
      pen.fillStyle = css("--line");
      pen.fillRect(44, y(mark), width - 48, 1);
      pen.fillStyle = css("--dim");
      pen.textAlign = "right";
      pen.fillText(mark >= 1e6 ? `${mark / 1e6} MB` : `${mark / 1e3} kB`, 40, y(mark) + 4);
    }
    pen.textAlign = "center";
    for (const mark of ticks(this.seconds)) if (mark <= this.seconds) pen.fillText(`${mark} s`, Math.min(width - 14, x(mark)), height - 4);
    pen.strokeStyle = css("--ack");
    pen.beginPath();
    s.ack_s.forEach((t, i) => {
      const before = i ? y(s.ack_byte[i - 1]) : y(s.ack_byte[i]), here = y(s.ack_byte[i]);
      // Another connection's acknowledgments are another line.
      if (i && here <= before) pen.lineTo(x(t), before); else pen.moveTo(x(t), here);
      pen.lineTo(x(t), here);
    });
    pen.stroke();
    const colours = BROUGHT.map(([name]) => css(name));
    s.at_s.forEach((t, i) => {
      if (s.kind[i] === 3) return;
      pen.fillStyle = colours[s.kind[i]];
      const tall = Math.max(2, s.len[i] / this.top * (low - 6));
      pen.fillRect(x(t) - 1, y(s.byte[i]) - tall, s.kind[i] ? 3 : 2, tall);
    });
    pen.fillStyle = css("--bad");
    for (const t of s.timeouts) {
      pen.beginPath();
      pen.moveTo(x(t), low);
      pen.lineTo(x(t) - 4, low + 7);
      pen.lineTo(x(t) + 4, low + 7);
      pen.fill();
    }
    this.settle();
    this.now(null);
  }

  /** @param {number|null} t */
  now(t) {
    const width = this.box.clientWidth || 500, height = 240, pen = sharp(this.over, width, height);
    if (t == null) return;
    const x = this.#x(width)(t);
    pen.fillStyle = css("--veil");
    pen.fillRect(x, 0, width - x, height - 18);
    pen.fillStyle = css("--text");
    pen.fillRect(x - 1, 0, 2, height - 18);
  }
}

/** @param {HTMLElement} into */
export const sequenceKey = (into) =>
  into.replaceChildren(...BROUGHT.slice(0, 3).map(([colour, words]) => key(colour, words)), key("--ack", "acknowledged"), key("--bad", "▲ a timer expires"));

/** Share of `times` of at most `t`. @param {Times} times @param {number} t */
export const within = (times, t) => {
  const all = times.done + times.never;
  if (!all) return 0;
  let low = 0, high = times.sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times.sorted[middle] <= t) low = middle + 1; else high = middle;
  }
  return low / Math.max(1, times.sorted.length) * times.done / all;
};

/** Shares of things that took at most a time, one line a queue. @param {HTMLElement} into @param {[string, string, Times][]} lines @param {string} what @param {number} most s */
export const distribution = (into, lines, what, most) => {
  const width = Math.max(280, into.clientWidth || 500), height = 230;
  const [left, right, top, low] = [46, 10, 8, height - 24];
  const values = lines.flatMap(([, , times]) => times.sorted);
  if (!values.length) return into.replaceChildren(html("p", `No ${what} came to an end.`, "dim"));
  const least = Math.max(0.01, values.reduce((a, b) => Math.min(a, b)));
  const from = 10 ** Math.floor(Math.log10(least)), to = Math.max(from * 10, most);
  const x = (/** @type {number} */ t) => left + Math.log(Math.max(t, from) / from) / Math.log(to / from) * (width - left - right);
  const y = (/** @type {number} */ share) => low - share * (low - top);
  const words = lines.map(([name, , t]) => `${name}: half within ${secs(median(t))}`).join("; ");
  const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Shares of ${what} by time; ${words}` });
  for (const share of [0, 0.25, 0.5, 0.75, 1]) {
    svg("line", { x1: left, x2: width - right, y1: y(share), y2: y(share), class: "grid" }, root);
    svg("text", { x: left - 6, y: y(share) + 4, "text-anchor": "end" }, root).textContent = `${share * 100} %`;
  }
  for (let mark = from; mark <= to; mark *= 10) {
    svg("text", { x: Math.min(width - 20, Math.max(left, x(mark))), y: height - 6, "text-anchor": "middle" }, root).textContent = mark < 1 ? `${+(mark * 1e3).toFixed(0)} ms` : `${mark} s`;
    if (mark > from) svg("line", { x1: x(mark), x2: x(mark), y1: top, y2: low, class: "grid" }, root);
  }
  for (const [name, colour, times] of lines) {
    const all = times.done + times.never;
    if (!all) continue;
    const per = times.done / all / Math.max(1, times.sorted.length);
    const points = times.sorted.map((t, i) => `${x(t).toFixed(1)},${y(i * per).toFixed(1)}L${x(t).toFixed(1)},${y((i + 1) * per).toFixed(1)}`);
    const end = `${(width - right).toFixed(1)},${y(times.done / all).toFixed(1)}`;
    const line = svg("path", { d: `M${[...points, end].join("L")}`, fill: "none", stroke: `var(${colour})`, "stroke-width": 2, "data-name": name }, root);
    if (colour === SIDES.b) line.setAttribute("stroke-dasharray", "6 3");
  }
  into.replaceChildren(root);
};

/** @param {Times} times @returns {number|null} */
export const median = (times) => {
  const all = times.done + times.never, at = Math.ceil(all / 2) - 1;
  // Half did not come to an end.
  if (!all || at >= times.done) return null;
  return times.sorted[Math.min(times.sorted.length - 1, Math.floor(at * times.sorted.length / times.done))];
};

/** Parts of the link's time. */
const PARTS = /** @type {["payload"|"headers"|"copies"|"control"|"idle", string, string][]} */ ([
  ["payload", "--new", "payload"], ["headers", "--c4", "headers"], ["copies", "--copy", "copies"], ["control", "--c6", "without data"], ["idle", "--h0", "idle: senders wait"],
]);

/** One bar a queue. @param {HTMLElement} into @param {[string, Side][]} sides */
export const bars = (into, sides) => {
  const width = Math.max(280, into.clientWidth || 500), height = sides.length * 54;
  const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": sides.map(([name, s]) => `${name}: ${barWords(s)}`).join("; ") });
  sides.forEach(([name, side], n) => {
    svg("text", { x: 0, y: n * 54 + 14, class: "name" }, root).textContent = name;
    let x = 0;
    const all = Math.max(side.bits.capacity, 1);
    for (const [part, colour, words] of PARTS) {
      const share = side.bits[part] / all;
      const bar = svg("rect", { x: x.toFixed(1), y: n * 54 + 20, width: Math.max(0, share * width).toFixed(1), height: 24, fill: `var(${colour})`, "data-part": part }, root);
      svg("title", {}, bar).textContent = `${words}: ${percent(share)}`;
      x += share * width;
    }
  });
  into.replaceChildren(root);
};

/** @param {Side} side */
const barWords = (side) => PARTS.map(([part, , words]) => `${words} ${percent(side.bits[part] / Math.max(1, side.bits.capacity))}`).join(", ");

/** @param {HTMLElement} into @param {[string, Side][]} sides */
export const barsKey = (into, sides) => into.replaceChildren(...PARTS.map(([part, colour, words]) =>
  key(colour, `${words} ${sides.map(([, s]) => percent(s.bits[part] / Math.max(1, s.bits.capacity))).join(" | ")}`)));
