// Chromium told what to do by its DevTools protocol, over a pair of pipes: one JSON object after another, each ended by
// a zero byte. `Browser.open` gives a page that can be asked, clicked and typed into.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const FLAGS = [
  "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-extensions",
  "--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update", "--mute-audio",
];

export class Browser {
  #child;
  #folder;
  #last = 0;
  #waiting = new Map();
  #session;
  #rest = Buffer.alloc(0);
  /** What the console said that is an error, and what was thrown. */
  errors = [];
  /** Addresses asked for. */
  asked = [];

  static async open(program, url, { width = 1400, height = 1000, dark = false } = {}) {
    const browser = new Browser();
    browser.#folder = mkdtempSync(join(tmpdir(), "narrows-browser-"));
    browser.#child = spawn(program, [...FLAGS, `--user-data-dir=${browser.#folder}`, "about:blank"], { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
    browser.#child.stdio[4].on("data", (data) => browser.#heard(data));
    const { targetId } = await browser.#call("Target.createTarget", { url: "about:blank" });
    const { sessionId } = await browser.#call("Target.attachToTarget", { targetId, flatten: true });
    browser.#session = sessionId;
    for (const domain of ["Page", "Runtime", "Log", "Network"]) await browser.call(`${domain}.enable`);
    await browser.size(width, height);
    await browser.call("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: dark ? "dark" : "light" }] });
    await browser.go(url);
    return browser;
  }

  #heard(data) {
    this.#rest = Buffer.concat([this.#rest, data]);
    for (let end; (end = this.#rest.indexOf(0)) >= 0; this.#rest = this.#rest.subarray(end + 1)) {
      const word = JSON.parse(this.#rest.subarray(0, end).toString());
      const waiting = this.#waiting.get(word.id);
      if (waiting) {
        this.#waiting.delete(word.id);
        if (word.error) waiting.reject(new Error(`${waiting.method}: ${word.error.message}`)); else waiting.resolve(word.result);
      }
      const { method, params } = word;
      if (method === "Runtime.exceptionThrown") this.errors.push(params.exceptionDetails.exception?.description || params.exceptionDetails.text);
      if (method === "Runtime.consoleAPICalled" && ["error", "warning"].includes(params.type)) this.errors.push(params.args.map((a) => a.value).join(" "));
      if (method === "Log.entryAdded" && params.entry.level === "error") this.errors.push(`${params.entry.text} ${params.entry.url || ""}`);
      if (method === "Network.requestWillBeSent") this.asked.push(params.request.url);
    }
  }

  #call(method, params = {}, sessionId) {
    const id = ++this.#last;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject, method });
      this.#child.stdio[3].write(JSON.stringify({ id, method, params, sessionId }) + "\0");
    });
  }

  call(method, params) { return this.#call(method, params, this.#session); }

  async go(url) {
    await this.call("Page.navigate", { url });
    await this.until("document.readyState === 'complete'");
  }

  size(width, height) { return this.call("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: 1, mobile: width < 500 }); }

  /** Value of an expression in the page. */
  async ask(expression) {
    const { result, exceptionDetails } = await this.call("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true });
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description || exceptionDetails.text);
    return result.value;
  }

  async until(expression, seconds = 60) {
    for (const end = Date.now() + seconds * 1000; Date.now() < end; await new Promise((done) => setTimeout(done, 20))) {
      try { if (await this.ask(`Boolean(${expression})`)) return; } catch { /* The page is being changed. */ }
    }
    throw new Error(`did not become true in ${seconds} s: ${expression}`);
  }

  async press(key) {
    const code = { Enter: 13, Tab: 9, " ": 32, ArrowLeft: 37, ArrowUp: 38, ArrowRight: 39, ArrowDown: 40 }[key] || 0;
    const params = { key, code: key === " " ? "Space" : key, windowsVirtualKeyCode: code };
    await this.call("Input.dispatchKeyEvent", { type: "keyDown", ...params });
    await this.call("Input.dispatchKeyEvent", { type: "keyUp", ...params });
  }

  async close() {
    const ended = new Promise((done) => this.#child.once("exit", done));
    this.#call("Browser.close").catch(() => this.#child.kill());
    await ended;
    // Parts of the browser may still be writing; what they leave lies in the system's folder for such things.
    try { rmSync(this.#folder, { recursive: true, force: true, maxRetries: 10 }); } catch { /* Left there. */ }
  }
}
