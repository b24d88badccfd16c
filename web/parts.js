// @ts-check
// Small parts that pages draw with, the dashboard and narrows explore: elements, numbers in words, marks of axes, keys of
// colours. Plain script with the browser's own means: a page works offline, and building it needs no other toolchain.

const SVG = "http://www.w3.org/2000/svg";

/** @param {string} id @returns {HTMLElement} */
export const $ = (id) => {
  const found = document.getElementById(id);
  if (!found) throw new Error(`no element ${id}`);
  return found;
};

/** Value of a colour of the style sheet. @param {string} name */
export const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** @template {keyof HTMLElementTagNameMap} K @param {K} name @param {string|null} [text] @param {string} [cls] */
export const html = (name, text, cls) => {
  const e = document.createElement(name);
  if (text != null) e.textContent = text;
  if (cls) e.className = cls;
  return e;
};

/** @param {string} name @param {Record<string, string|number>} attributes @param {Element} [parent] */
export const svg = (name, attributes, parent) => {
  const e = document.createElementNS(SVG, name);
  for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, String(v));
  if (parent) parent.append(e);
  return e;
};

/** A rate in bit/s. @param {number|null|undefined} n */
export const bits = (n) =>
  n == null ? "–" : n >= 1e9 ? (n / 1e9).toFixed(2) + " Gbit/s" : n >= 1e6 ? (n / 1e6).toFixed(2) + " Mbit/s" : (n / 1e3).toFixed(1) + " kbit/s";

/** A time in seconds. @param {number|null|undefined} s */
export const secs = (s) =>
  s == null ? "–" : s === 0 ? "0 s" : s < 0.0995 ? (s * 1e3).toFixed(0) + " ms" : s < 9.95 ? s.toFixed(1) + " s" : s < 100 ? s.toFixed(0) + " s" : s < 6000 ? (s / 60).toFixed(0) + " min" : (s / 3600).toFixed(1) + " h";

/** @param {number} n */
export const bytes = (n) => n >= 1e9 ? (n / 1e9).toFixed(2) + " GB" : n >= 1e6 ? (n / 1e6).toFixed(1) + " MB" : (n / 1e3).toFixed(0) + " kB";

/** A share as percent, with a digit behind the point where it is small. @param {number|null|undefined} part */
export const percent = (part) =>
  part == null ? "–" : part === 0 ? "0 %" : (part * 100).toFixed(Math.abs(part) < 0.0995 ? 1 : 0) + " %";

/** Round numbers from 0 to at least `max`. @param {number} max @param {boolean} [whole] */
export const ticks = (max, whole) => {
  const step = 10 ** Math.floor(Math.log10(max / 4 || 1));
  const by = [1, 2, 5, 10].map((k) => k * step).find((s) => max / s <= 4) || step * 10;
  const all = [];
  const wide = whole ? Math.max(1, by) : by;
  for (let i = 0; (i - 1) * wide < max; i++) all.push(i * wide);
  return all;
};

/** A colour and what it stands for. @param {string} colour @param {string} text */
export const key = (colour, text) => {
  const span = html("span"), swatch = html("i");
  swatch.style.background = colour.startsWith("--") ? `var(${colour})` : colour;
  span.append(swatch, text);
  return span;
};
