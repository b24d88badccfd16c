// @ts-check
// Runs the simulator beside the page: a module first, then questions in JSON, each answered in JSON.

/** @typedef {{memory: WebAssembly.Memory, room: (length: number) => number, answer: () => bigint}} Exports */
/** @type {Promise<Exports>|null} */
let ready = null;

addEventListener("message", async (said) => {
  if (said.data instanceof WebAssembly.Module) {
    ready = WebAssembly.instantiate(said.data, {}).then((made) => /** @type {any} */ (made.exports));
    return;
  }
  if (!ready) return;
  const { memory, room, answer } = await ready;
  const question = new TextEncoder().encode(said.data);
  const at = room(question.length);
  new Uint8Array(memory.buffer, at, question.length).set(question);
  const both = BigInt.asUintN(64, answer());
  const found = new Uint8Array(memory.buffer, Number(both >> 32n), Number(both & 0xffffffffn));
  postMessage(new TextDecoder().decode(found));
});
