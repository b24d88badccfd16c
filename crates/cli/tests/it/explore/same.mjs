// The simulator as WebAssembly beside the one that serves: node same.mjs MODULE.wasm URL. Every preset under both of its
// queues gives the same text.
import { readFileSync } from "node:fs";

const [file, url] = process.argv.slice(2);
const { instance } = await WebAssembly.instantiate(readFileSync(file), {});
const { memory, room, answer } = instance.exports;
const wasm = (question) => {
  const text = new TextEncoder().encode(question), at = room(text.length);
  new Uint8Array(memory.buffer, at, text.length).set(text);
  const both = BigInt.asUintN(64, answer());
  return new TextDecoder().decode(new Uint8Array(memory.buffer, Number(both >> 32n), Number(both & 0xffffffffn)));
};
const native = async (question) => (await fetch(`${url}ask`, { method: "POST", headers: { "Content-Type": "application/json" }, body: question })).text();

const about = JSON.stringify({ ask: "about" });
let wrong = (await native(about)) === wasm(about) ? 0 : 1;
for (const { key, settings } of JSON.parse(wasm(about)).presets) {
  for (const side of ["a", "b"]) {
    const question = JSON.stringify({ ask: "side", settings, side, user: null });
    const [here, there] = [wasm(question), await native(question)];
    if (here !== there || !here.includes("\"summary\"")) {
      console.error(`${key}, ${side}: ${here.slice(0, 200)} instead of ${there.slice(0, 200)}`);
      wrong = 1;
    }
  }
}
process.exit(wrong);
