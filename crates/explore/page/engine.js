// @ts-check
// The engine behind the page: the simulator of the program that serves it, or the same as WebAssembly in workers. Both
// are asked in JSON and answer in JSON.

/** @typedef {"a"|"b"} Which */
/** @typedef {Record<string, any>} Settings */
/** @typedef {{field: string, says: string}} Problem */
/** @typedef {{key: string, group: string, label: string, unit: string, about: string, kind: "number"|"choice"|"flag"|"queue"|"rates", least: number, most: number, step: number, log: boolean, words: [string, string][], longest: number}} Field */
/** @typedef {{key: string, name: string, about: string, settings: Settings}} Preset */
/** @typedef {{version: string, stall_s: number, fields: Field[], queues: {spec: string, name: string}[], presets: Preset[], defaults: Settings}} About */
/** @typedef {{sorted: number[], done: number, never: number}} Times */
/** @typedef {{capacity: number, payload: number, headers: number, copies: number, control: number, idle: number, arrived: number, dropped: number, lost: number, wait_first_s: number|null, wait_later_s: number|null}} Bits */
/** @typedef {{user: number, at_s: number[], byte: number[], len: number[], kind: number[], ack_s: number[], ack_byte: number[], timeouts: number[], left_out: number}} Sequence */
/** @typedef {{queue: string, summary: Record<string, number>, column_s: number, columns: number, users: number, kinds: [string, number][], bytes: number[], stalls: [number, number, number][], objects_s: Times, pages_s: Times, object_stalls_s: Times, bits: Bits, calls: {loss: number|null, added_p95_s: number|null, good: boolean}[], sequence: Sequence}} Side */
/** @typedef {{what: string, model: number, unit: string, figure: string, queue: string, rests_on: string, error: string}} Row */
/** @typedef {{verdict: string, rows: Row[], left_out: string[], toml: string, python: string, command: string}} Words */
/** @typedef {{ask: "about"} | {ask: "side", settings: Settings, side: Which, user: number|null} | {ask: "words", settings: Settings}} Question */

/** What the page asks. @typedef {{name: string, ask: (question: Question, place: number, signal: AbortSignal) => Promise<any>}} Engine */

/** The program that serves the page. @returns {Engine} */
const native = () => ({
  name: "Simulated by the program that serves this page.",
  ask: async (question, _place, signal) => {
    const answer = await fetch("ask", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(question), signal });
    if (!answer.ok) throw new Error(await answer.text());
    return answer.json();
  },
});

/** WebAssembly, a worker for each place, so that two queues are simulated at a time and a long run can be ended.
 * @param {string} file @returns {Promise<Engine>} */
const wasm = async (file) => {
  const module = await WebAssembly.compileStreaming(fetch(file));
  /** @type {Map<number, Worker>} */
  const workers = new Map();
  /** @param {number} place */
  const worker = (place) => {
    let found = workers.get(place);
    if (!found) {
      found = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
      found.postMessage(module);
      workers.set(place, found);
    }
    return found;
  };
  return {
    name: "Simulated in this browser, by WebAssembly.",
    ask: (question, place, signal) => new Promise((resolve, reject) => {
      const here = worker(place);
      const aborted = () => {
        // A run cannot be interrupted, but its worker can be ended.
        here.terminate();
        workers.delete(place);
        reject(new DOMException("stopped", "AbortError"));
      };
      if (signal.aborted) return aborted();
      signal.addEventListener("abort", aborted, { once: true });
      here.onmessage = (said) => {
        signal.removeEventListener("abort", aborted);
        resolve(JSON.parse(said.data));
      };
      here.onerror = (broken) => {
        signal.removeEventListener("abort", aborted);
        here.terminate();
        workers.delete(place);
        reject(new Error(broken.message || "the simulator broke"));
      };
      here.postMessage(JSON.stringify(question));
    }),
  };
};

/** @returns {Promise<Engine>} */
export const open = async () => {
  const told = await (await fetch("engine.json", { cache: "no-store" })).json();
  return told.engine === "wasm" ? wasm(told.file) : native();
};
