// @ts-check
// The form: a field for each row that the engine tells, with its bounds, its unit and what is wrong with it.
import { html } from "./parts.js";

/** @typedef {import("./engine.js").Field} Field */
/** @typedef {import("./engine.js").Settings} Settings */
/** @typedef {import("./engine.js").About} About */
/** @typedef {import("./engine.js").Problem} Problem */

/** Positions of a slider whose steps are factors. */
const POSITIONS = 1000;
/** Bits that may pass for each line of a trace of mahimahi: a packet of 1500 bytes. */
const LINE_BITS = 1500 * 8;

/** @param {Field} f @param {number} value */
const position = (f, value) =>
  f.log ? POSITIONS * Math.log(Math.max(value, f.least) / f.least) / Math.log(f.most / f.least) : value;

/** @param {Field} f @param {number} at */
const valueAt = (f, at) => {
  if (!f.log) return at;
  const value = f.least * (f.most / f.least) ** (at / POSITIONS);
  // Two digits are what a hand on a slider means.
  const unit = 10 ** Math.max(0, Math.floor(Math.log10(value)) - 1);
  return Math.min(f.most, Math.max(f.least, Math.round(value / unit) * unit));
};

/** Text in an address, without what has a meaning there. @param {string} text */
const encoded = (text) =>
  encodeURIComponent(text).replace(/[!'()*~]/g, (c) => "%" + c.charCodeAt(0).toString(16).toUpperCase()).replace(/%3A/g, ":").replace(/%2C/g, ",");

/** Settings that differ from the defaults, as they follow the # of an address. @param {About} about @param {Settings} settings */
export const fragment = (about, settings) =>
  about.fields.filter((f) => String(settings[f.key]) !== String(about.defaults[f.key]))
    .map((f) => `${f.key}=${encoded(String(settings[f.key]))}`).join("&");

/** A text as a value of a field. @param {Field} f @param {string} text @returns {any} */
const valueOf = (f, text) => {
  switch (f.kind) {
    case "number": return text.trim() === "" ? null : Number(text);
    case "flag": return text === "true";
    case "rates": return text.split(/[,\s]+/).filter((t) => t !== "").map(Number);
    default: return text;
  }
};

/** Settings of an address; what is no setting is left out. @param {About} about @param {string} text */
export const settingsOf = (about, text) => {
  const settings = { ...about.defaults };
  for (const pair of text.replace(/^#/, "").split("&")) {
    const [key, value] = pair.split("=", 2);
    const field = about.fields.find((f) => f.key === key);
    if (field && value != null) {
      try { settings[key] = valueOf(field, decodeURIComponent(value)); } catch { /* No text: left out. */ }
    }
  }
  return settings;
};

/** Rates of the seconds of a trace of mahimahi, kbit/s. @param {string} text @param {number} longest s */
export const trace = (text, longest) => {
  /** @type {number[]} */
  const rates = [];
  for (const line of text.split("\n")) {
    const at = Math.floor(Number(line.trim().split(/\s+/)[0]) / 1000);
    if (line.trim() === "" || !(at >= 0)) continue;
    while (rates.length <= at) rates.push(0);
    rates[at] += LINE_BITS / 1000;
  }
  return rates.slice(0, longest);
};

export class Form {
  /** @type {Map<string, {show: (value: any) => void, row: HTMLElement, inputs: HTMLElement[], wrong: HTMLElement}>} */
  #fields = new Map();

  /** @param {HTMLElement} into @param {About} about @param {(key: string, value: any) => void} changed */
  constructor(into, about, changed) {
    /** @type {Map<string, HTMLElement>} */
    const groups = new Map();
    for (const f of about.fields) {
      const group = groups.get(f.group) || html("details");
      if (!groups.has(f.group)) {
        group.append(html("summary", f.group));
        // On a telephone the first group alone, so that results are near.
        if (innerWidth > 700 || groups.size === 0) group.setAttribute("open", "");
        groups.set(f.group, group);
        into.append(group);
      }
      group.append(this.#field(f, about, changed));
    }
    into.addEventListener("submit", (e) => e.preventDefault());
  }

  /** @param {Field} f @param {About} about @param {(key: string, value: any) => void} changed */
  #field(f, about, changed) {
    const row = html("div", null, `field ${f.kind}`), id = `f-${f.key}`;
    const label = html("label", f.label);
    label.htmlFor = id;
    const note = html("small", f.about, "note"), wrong = html("p", null, "wrong");
    note.id = `${id}-note`;
    wrong.id = `${id}-wrong`;
    wrong.setAttribute("role", "alert");
    const made = this.#inputs(f, about, (value) => changed(f.key, value));
    made.inputs[0].id = id;
    for (const input of made.inputs) {
      input.setAttribute("aria-describedby", `${note.id} ${wrong.id}`);
      if (input.id !== id && !input.getAttribute("aria-label")) input.setAttribute("aria-label", `${f.label}, slider`);
    }
    const unit = html("span", f.unit, "unit");
    row.append(label, ...made.inputs.slice(0, 1), unit, ...made.inputs.slice(1), wrong, note);
    this.#fields.set(f.key, { show: made.show, row, inputs: made.inputs, wrong });
    return row;
  }

  /** @param {Field} f @param {About} about @param {(value: any) => void} changed @returns {{inputs: HTMLElement[], show: (value: any) => void}} */
  #inputs(f, about, changed) {
    switch (f.kind) {
      case "number": {
        const box = html("input"), slider = html("input");
        Object.assign(box, { type: "number", min: String(f.least), max: String(f.most), step: "any", inputMode: "decimal" });
        Object.assign(slider, { type: "range", min: f.log ? "0" : String(f.least), max: String(f.log ? POSITIONS : f.most), step: f.log ? "1" : String(f.step) });
        const words = (/** @type {number} */ v) => slider.setAttribute("aria-valuetext", `${v} ${f.unit}`);
        slider.addEventListener("input", () => {
          const value = valueAt(f, Number(slider.value));
          box.value = String(value);
          words(value);
          changed(value);
        });
        box.addEventListener("input", () => {
          const value = valueOf(f, box.value);
          if (value != null) slider.value = String(position(f, value));
          changed(value);
        });
        const show = (/** @type {any} */ value) => {
          if (document.activeElement !== box) box.value = String(value ?? "");
          if (document.activeElement !== slider) slider.value = String(position(f, Number(value)));
          words(value);
        };
        return { inputs: [box, slider], show };
      }
      case "choice": {
        const select = html("select");
        select.append(...f.words.map(([word, name]) => new Option(name, word)));
        select.addEventListener("change", () => changed(select.value));
        return { inputs: [select], show: (value) => { select.value = value; } };
      }
      case "flag": {
        const box = html("input");
        box.type = "checkbox";
        box.addEventListener("change", () => changed(box.checked));
        return { inputs: [box], show: (value) => { box.checked = value; } };
      }
      case "queue": {
        const select = html("select"), more = html("input");
        select.append(...about.queues.map((q) => new Option(q.name, q.spec)), new Option("another, or with settings", ""));
        more.setAttribute("aria-label", `${f.label}, as scenario files name it`);
        more.spellcheck = false;
        select.addEventListener("change", () => {
          if (select.value) changed(select.value);
          more.hidden = select.value !== "";
          if (!more.hidden) more.focus();
        });
        more.addEventListener("change", () => changed(more.value));
        const show = (/** @type {string} */ value) => {
          const known = about.queues.some((q) => q.spec === value);
          select.value = known ? value : "";
          more.hidden = known;
          if (document.activeElement !== more) more.value = value;
        };
        return { inputs: [select, more], show };
      }
      default: {
        const box = html("input"), file = html("input");
        box.placeholder = "as 600, 400, 0, 900";
        box.addEventListener("change", () => changed(valueOf(f, box.value)));
        Object.assign(file, { type: "file" });
        file.setAttribute("aria-label", "Read a trace of mahimahi from a file");
        file.addEventListener("change", async () => { if (file.files?.[0]) changed(trace(await file.files[0].text(), f.longest)); });
        return { inputs: [box, file], show: (value) => { if (document.activeElement !== box) box.value = value.join(", "); } };
      }
    }
  }

  /** @param {Settings} settings */
  show(settings) {
    for (const [key, field] of this.#fields) field.show(settings[key]);
    const only = (/** @type {string} */ key, /** @type {boolean} */ shown) => {
      const field = this.#fields.get(key);
      if (field) field.row.hidden = !shown;
    };
    only("objects", settings.load === "pages");
    only("shape", settings.calls > 0);
    only("rate_kbps", settings.rates_kbps.length === 0);
  }

  /** Marks the fields that a small view keeps. @param {string[]} keys */
  keep(keys) {
    for (const key of keys) {
      const row = this.#fields.get(key)?.row;
      row?.classList.add("keep");
      row?.closest("details")?.setAttribute("open", "");
    }
  }

  /** What is wrong, each beside its field. Gives what belongs to none. @param {Problem[]} problems @returns {string[]} */
  wrong(problems) {
    const rest = problems.filter((p) => !this.#fields.has(p.field)).map((p) => p.says);
    for (const [key, field] of this.#fields) {
      const here = problems.filter((p) => p.field === key).map((p) => p.says);
      const text = here.join("; ");
      if (field.wrong.textContent !== text) field.wrong.textContent = text;
      for (const input of field.inputs) input.setAttribute("aria-invalid", String(here.length > 0));
      // What is wrong must not be hidden in a closed group.
      if (here.length) { field.row.hidden = false; field.row.closest("details")?.setAttribute("open", ""); }
    }
    return rest;
  }
}
