// How soon the page shows what was changed: node measure.mjs BROWSER URL [CHANGES]. Settings are those of the demo, 100
// users on 600 kbit/s for 60 s; each change is another buffer. Prints the median and the 95th percentile of the time from
// a change to the first frame with its picture, and the frames per second while the page plays.
import { Browser } from "./browser.mjs";

const [program, url, changes = "20"] = process.argv.slice(2);
const page = await Browser.open(program, url);
try {
  const is_settled = "window.narrows && JSON.stringify(narrows.settings()) === JSON.stringify(narrows.drawn()) && narrows.sides.a && !narrows.asking()";
  await page.until(is_settled);
  const { users, rate_kbps, seconds } = await page.ask("narrows.settings()");
  const times = await page.ask(`(async () => {
    const field = document.getElementById("f-buffer"), times = [];
    for (let n = 0; n < ${Number(changes)}; n++) {
      field.value = String(20 + n);
      const from = performance.now();
      field.dispatchEvent(new Event("input", { bubbles: true }));
      field.dispatchEvent(new Event("change", { bubbles: true }));
      do await new Promise(requestAnimationFrame); while (!(${is_settled}) || narrows.drawn().buffer !== 20 + n);
      times.push(performance.now() - from);
      await new Promise((done) => setTimeout(done, 200));
    }
    return times.sort((a, b) => a - b);
  })()`);
  const at = (part) => times[Math.min(times.length - 1, Math.floor(times.length * part))].toFixed(0);
  console.log(`${users} users, ${rate_kbps} kbit/s, ${seconds} s: picture after ${at(0.5)} ms at the median, ${at(0.95)} ms at p95, of ${times.length} changes`);
  await page.ask("document.getElementById('play').click()");
  const frames = await page.ask(`(async () => {
    let frames = 0;
    const from = performance.now();
    while (performance.now() - from < 3000) { await new Promise(requestAnimationFrame); frames++; }
    return frames / 3;
  })()`);
  console.log(`${frames.toFixed(0)} frames per second while it plays`);
} finally {
  await page.close();
}
