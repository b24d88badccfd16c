// Draws the charts of a report page from the JSON that stands beside each: lines with bands, legend, hover, zoom.
// Plain script: the page is one file that works offline, and building it needs no other toolchain.
"use strict";
(() => {
  const NS = "http://www.w3.org/2000/svg";
  const W = 640, H = 380, LEFT = 76, RIGHT = 14, TOP = 10, BOTTOM = 52;
  // How many colours report.css has for lines: --line0 and on. Marks differ too, for who sees few colours and for print.
  const COLOURS = 7;
  const MARKS = [
    (x, y, r) => `M${x - r},${y}a${r},${r} 0 1 0 ${2 * r},0a${r},${r} 0 1 0 ${-2 * r},0Z`,
    (x, y, r) => `M${x - r},${y - r}h${2 * r}v${2 * r}h${-2 * r}Z`,
    (x, y, r) => `M${x},${y - 1.3 * r}L${x + 1.2 * r},${y + r}H${x - 1.2 * r}Z`,
    (x, y, r) => `M${x},${y - 1.4 * r}L${x + 1.4 * r},${y}L${x},${y + 1.4 * r}L${x - 1.4 * r},${y}Z`,
  ];

  const svg = (name, attributes, parent) => {
    const e = document.createElementNS(NS, name);
    for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
    if (parent) parent.append(e);
    return e;
  };
  const html = (name, text, parent) => {
    const e = document.createElement(name);
    if (text) e.textContent = text;
    if (parent) parent.append(e);
    return e;
  };

  /** A scale from data to pixels, and back. */
  const scale = (low, high, from, to, log) => {
    const f = log ? Math.log10 : (x) => x;
    const g = log ? (x) => 10 ** x : (x) => x;
    const [a, b] = [f(low), f(high)];
    const k = (to - from) / (b - a || 1);
    const s = (x) => from + (f(x) - a) * k;
    s.back = (px) => g(a + (px - from) / k);
    s.low = low; s.high = high; s.log = log;
    return s;
  };

  const ticks = (s) => {
    const out = [];
    if (s.log) {
      const [a, b] = [Math.log10(s.low), Math.log10(s.high)];
      const steps = b - a < 1.2 ? [1, 2, 3, 5, 7] : b - a < 3 ? [1, 2, 5] : [1];
      for (let e = Math.floor(a); e <= Math.ceil(b); e++)
        for (const m of steps) { const v = m * 10 ** e; if (v >= s.low * 0.999 && v <= s.high * 1.001) out.push(v); }
      if (out.length > 1) return out;
      out.length = 0;
    }
    const span = s.high - s.low || 1;
    const raw = span / 6, power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((m) => m * power).find((m) => m >= raw);
    for (let i = Math.ceil(s.low / step); i * step <= s.high + step * 1e-9; i++) out.push(i * step);
    return out;
  };

  const short = (v) => {
    if (v === 0) return "0";
    const a = Math.abs(v);
    return a >= 1e6 || a < 1e-4 ? v.toExponential(2).replace(/\.?0+e/, "e") : String(Number(v.toPrecision(4)));
  };

  /** `places` holds which colour and mark a name has: the same in all charts of a figure. */
  function draw(place, data, places) {
    if (data.title) html("div", data.title, place).className = "title";
    const hidden = new Set();
    const root = svg("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": `${data.title ? data.title + ": " : ""}${data.y_name} by ${data.x_name}`, tabindex: 0 }, place);
    const tip = html("div", "", place);
    tip.className = "tip";
    tip.setAttribute("role", "status");
    tip.hidden = true;
    const legend = html("div", "", place);
    legend.className = "legend";
    for (const l of data.lines) if (!l.paper && !places.has(l.name)) places.set(l.name, places.size);
    const colour = (l) => (l.paper ? "var(--ink)" : `var(--line${places.get(l.name) % COLOURS})`);
    const read = data.lines.filter((l) => l.paper);
    const shape = (l) => MARKS[(l.paper ? read.indexOf(l) : places.get(l.name)) % MARKS.length];
    const mark = (l, px, py, r, parent) =>
      svg("path", { d: shape(l)(px, py, r), style: `fill: ${l.paper ? "var(--paper)" : colour(l)}; stroke: ${colour(l)}; stroke-width: ${l.paper ? 1.4 : 0}` }, parent);
    const fits = (p) => (!data.log_x || p[0] > 0) && (!data.log_y || p[2] > 0);
    const lines = data.lines.map((l) => ({ ...l, whole: l, colour: colour(l), points: l.points.filter(fits) }));
    const marked = (l) => !data.joined || l.points.length <= 40;

    const extent = () => {
      const all = lines.filter((l) => !hidden.has(l.name)).flatMap((l) => l.points);
      const xs = all.map((p) => p[0]), low = all.map((p) => (data.log_y ? p[2] : Math.min(p[1], p[2]))), high = all.map((p) => Math.max(p[2], p[3]));
      const least = (v) => v.reduce((a, b) => Math.min(a, b), Infinity), most = (v) => v.reduce((a, b) => Math.max(a, b), -Infinity);
      let [x0, x1, y0, y1] = all.length ? [least(xs), most(xs), least(low), most(high)] : [0, 1, 0, 1];
      if (data.words.length) { x0 = -0.5; x1 = data.words.length - 0.5; }
      const room = (a, b, log) => {
        if (log) return a === b ? [a / 2, b * 2] : [a / (b / a) ** 0.03, b * (b / a) ** 0.03];
        const pad = (b - a || Math.abs(a) || 1) * 0.04;
        // A scale that nearly begins at nought begins there.
        return [a >= 0 && a < 0.3 * b ? 0 : a - pad, b + pad];
      };
      [y0, y1] = room(y0, y1, data.log_y);
      if (!data.words.length) [x0, x1] = room(x0, x1, data.log_x);
      return { x0, x1, y0, y1 };
    };
    let view = extent(), zoomed = false, x, y;

    const path = (points, at) => points.map((p, i) => `${i ? "L" : "M"}${x(p[0]).toFixed(1)},${y(at(p)).toFixed(1)}`).join("");
    function paint() {
      root.replaceChildren();
      x = scale(view.x0, view.x1, LEFT, W - RIGHT, data.log_x);
      y = scale(view.y0, view.y1, H - BOTTOM, TOP, data.log_y);
      const clip = `c${Math.random().toString(36).slice(2)}`;
      // A mark on the edge is whole.
      svg("rect", { x: LEFT - 5, y: TOP - 5, width: W - LEFT - RIGHT + 10, height: H - TOP - BOTTOM + 10 }, svg("clipPath", { id: clip }, root));
      const grid = svg("g", { class: "grid", "font-size": 13 }, root);
      const text = (at, words, parent = grid) => { const t = svg("text", at, parent); t.textContent = words; };
      for (const v of ticks(y)) {
        svg("line", { x1: LEFT, x2: W - RIGHT, y1: y(v), y2: y(v) }, grid);
        text({ x: LEFT - 6, y: y(v) + 4, "text-anchor": "end" }, short(v));
      }
      const across = data.words.length ? data.words.map((_, i) => i).filter((i) => i >= view.x0 && i <= view.x1) : ticks(x);
      for (const v of across) {
        svg("line", { x1: x(v), x2: x(v), y1: TOP, y2: H - BOTTOM }, grid);
        text({ x: x(v), y: H - BOTTOM + 16, "text-anchor": "middle" }, data.words.length ? data.words[v] : short(v));
      }
      text({ x: (LEFT + W - RIGHT) / 2, y: H - 8, "text-anchor": "middle" }, data.x_name);
      text({ transform: `translate(17 ${(TOP + H - BOTTOM) / 2}) rotate(-90)`, "text-anchor": "middle" }, data.y_name);
      const body = svg("g", { "clip-path": `url(#${clip})`, class: "lines" }, root);
      // What was read from the paper lies beneath ours.
      for (const l of [...lines].sort((a, b) => b.paper - a.paper)) {
        if (hidden.has(l.name) || !l.points.length) continue;
        const g = svg("g", { "data-line": l.name }, body);
        const floor = data.log_y ? view.y0 : -Infinity;
        if (data.joined && l.points.some((p) => p[1] !== p[3])) {
          const up = path(l.points, (p) => p[3]), down = path([...l.points].reverse(), (p) => Math.max(p[1], floor));
          svg("path", { d: `${up}L${down.slice(1)}Z`, style: `fill: ${l.colour}`, opacity: 0.16 }, g);
        }
        if (data.joined) svg("path", { d: path(l.points, (p) => p[2]), style: `fill: none; stroke: ${l.colour}`, "stroke-width": 2, "stroke-dasharray": l.paper ? "5 4" : "none" }, g);
        if (!data.joined) for (const p of l.points) if (p[1] !== p[3]) svg("path", { d: `M${x(p[0])},${y(Math.max(p[1], floor))}V${y(p[3])}`, style: `stroke: ${l.colour}`, "stroke-width": 1.5 }, g);
        const size = l.paper ? 4.2 : data.joined ? 3 : l.points.length <= 40 ? 4 : 1.8;
        if (marked(l)) for (const p of l.points) mark(l.whole, x(p[0]), y(p[2]), size, g);
      }
    }

    const at = (e) => {
      const box = root.getBoundingClientRect();
      return [((e.clientX - box.left) * W) / box.width, ((e.clientY - box.top) * H) / box.height, box.width / W];
    };
    const show = (l, p, k) => {
      const where = data.words.length ? data.words[p[0]] : short(p[0]);
      tip.hidden = false;
      tip.textContent = `${l.name ? l.name + ": " : ""}${short(p[2])}${p[1] !== p[3] ? ` (${short(p[1])} to ${short(p[3])})` : ""} at ${where}`;
      tip.style.left = `${Math.max(0, Math.min(x(p[0]) * k + 10, place.clientWidth - tip.offsetWidth))}px`;
      // Within the chart: neither its title nor the legend below is hidden.
      const lowest = root.clientHeight - tip.offsetHeight;
      tip.style.top = `${root.offsetTop + Math.max(0, Math.min(y(p[2]) * k - 30, lowest))}px`;
    };
    let drag = null;
    root.addEventListener("pointermove", (e) => {
      const [px, py, k] = at(e);
      if (drag) {
        const [a, b] = [Math.min(px, drag.px), Math.max(px, drag.px)], [c, d] = [Math.min(py, drag.py), Math.max(py, drag.py)];
        if (!drag.box) drag.box = svg("rect", { style: "fill: var(--line0)", opacity: 0.15 }, root);
        for (const [n, v] of [["x", a], ["y", c], ["width", b - a], ["height", d - c]]) drag.box.setAttribute(n, v);
        return;
      }
      let best = null;
      for (const l of lines) {
        if (hidden.has(l.name)) continue;
        for (const p of l.points) { const q = (x(p[0]) - px) ** 2 + (y(p[2]) - py) ** 2; if (!best || q < best.q) best = { q, l, p }; }
      }
      if (!best || best.q > 900) tip.hidden = true;
      else show(best.l, best.p, k);
    });
    root.addEventListener("pointerleave", () => { tip.hidden = true; });
    root.addEventListener("pointerdown", (e) => { const [px, py] = at(e); drag = { px, py }; root.setPointerCapture(e.pointerId); tip.hidden = true; });
    root.addEventListener("pointerup", (e) => {
      const [px, py] = at(e), from = drag;
      drag = null;
      if (!from || Math.abs(px - from.px) < 8 || Math.abs(py - from.py) < 8) { paint(); return; }
      const xs = [x.back(px), x.back(from.px)].sort((a, b) => a - b), ys = [y.back(py), y.back(from.py)].sort((a, b) => a - b);
      view = { x0: xs[0], x1: xs[1], y0: ys[0], y1: ys[1] };
      zoomed = true;
      paint();
    });
    root.addEventListener("pointercancel", () => { drag = null; paint(); });
    // Without a pointer: arrows go from point to point and line to line, plus and minus zoom around the point, escape shows all.
    let here = null;
    root.addEventListener("keydown", (e) => {
      const seen = lines.filter((l) => !hidden.has(l.name) && l.points.length);
      if (!seen.length) return;
      const [l, i] = here && seen.includes(here[0]) ? here : [seen[0], -1];
      const along = { ArrowRight: 1, ArrowLeft: -1 }[e.key], over = { ArrowDown: 1, ArrowUp: -1 }[e.key], zoom = { "+": 0.5, "=": 0.5, "-": 2 }[e.key];
      if (along) here = [l, Math.min(l.points.length - 1, Math.max(0, i + along))];
      else if (over) {
        const other = seen[(seen.indexOf(l) + over + seen.length) % seen.length], px = x(l.points[Math.max(0, i)][0]);
        const off = (q) => Math.abs(x(other.points[q][0]) - px);
        here = [other, other.points.reduce((best, _, q) => (off(q) < off(best) ? q : best), 0)];
      } else if (zoom && i >= 0) {
        const [px, py] = [x(l.points[i][0]), y(l.points[i][2])], [w, h] = [((W - LEFT - RIGHT) * zoom) / 2, ((H - TOP - BOTTOM) * zoom) / 2];
        const full = extent(), within = (v, a, b) => Math.min(b, Math.max(a, v));
        view = { x0: within(x.back(px - w), full.x0, full.x1), x1: within(x.back(px + w), full.x0, full.x1), y0: within(y.back(py + h), full.y0, full.y1), y1: within(y.back(py - h), full.y0, full.y1) };
        zoomed = true;
        paint();
      } else if (e.key === "Escape") { view = extent(); zoomed = false; paint(); tip.hidden = true; e.preventDefault(); return; }
      else return;
      e.preventDefault();
      if (here) show(here[0], here[0].points[here[1]], root.getBoundingClientRect().width / W);
    });
    root.addEventListener("blur", () => { tip.hidden = true; });
    root.addEventListener("dblclick", () => { view = extent(); zoomed = false; paint(); });

    for (const l of lines) {
      const b = html("button", "", legend);
      const key = svg("svg", { viewBox: "0 0 26 12", width: 26, height: 12, "aria-hidden": "true" }, b);
      if (data.joined) svg("path", { d: "M1,6H25", style: `stroke: ${l.colour}`, "stroke-width": 2, "stroke-dasharray": l.paper ? "5 4" : "none" }, key);
      if (marked(l)) mark(l.whole, 13, 6, 3.4, key);
      b.append(l.name || data.y_name);
      b.setAttribute("aria-pressed", "true");
      b.addEventListener("click", () => {
        const gone = !hidden.delete(l.name);
        if (gone) hidden.add(l.name);
        b.setAttribute("aria-pressed", String(!gone));
        if (!zoomed) view = extent();
        paint();
      });
    }
    paint();
  }

  /** The rows of figure.csv. */
  function rows(charts) {
    const cell = (v) => (/[",\n]/.test(v) ? `"${v.replace(/"/g, '""')}"` : v);
    const out = [["chart", "line", "from_paper", "x", "y_least", "y", "y_greatest"]];
    for (const c of charts) for (const l of c.lines) for (const [px, low, mid, high] of l.points)
      out.push([c.title, l.name, String(l.paper), c.words[px] ?? String(px), String(low), String(mid), String(high)]);
    return out.map((r) => r.map(cell).join(",")).join("\n") + "\n";
  }

  const drawn = [], figures = new Map();
  for (const place of document.querySelectorAll(".chart")) {
    const data = JSON.parse(place.nextElementSibling.textContent);
    const figure = place.closest("section");
    if (!figures.has(figure)) figures.set(figure, new Map());
    draw(place, data, figures.get(figure));
    drawn.push(data);
  }
  for (const button of document.querySelectorAll(".save")) {
    button.addEventListener("click", () => {
      const charts = [...button.closest("section").querySelectorAll("script.data")].map((s) => JSON.parse(s.textContent));
      const a = html("a");
      a.href = URL.createObjectURL(new Blob([rows(charts)], { type: "text/csv" }));
      a.download = button.dataset.name;
      a.click();
      setTimeout(() => URL.revokeObjectURL(a.href), 1000);
    });
  }
  // For tests: how many charts were drawn, and what their data come to.
  document.documentElement.dataset.charts = String(drawn.length);
  globalThis.narrows = { csv: (section) => rows([...section.querySelectorAll("script.data")].map((s) => JSON.parse(s.textContent))) };
})();
