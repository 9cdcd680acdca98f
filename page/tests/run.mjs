// The page's tests, in a real browser: `node tests/run.mjs [WORD]` runs the cases whose names hold
// the word. LEASEHOLD names the binary that serves the page and answers natively.
import { launch } from "./browser.mjs";
import * as assets from "./assets.mjs";
import * as building from "./building.mjs";
import * as live from "./live.mjs";
import * as looking from "./looking.mjs";
import * as tutorial from "./tutorial.mjs";

const cases = [assets, building, live, looking, tutorial].flatMap((file) => Object.entries(file.cases));
const word = process.argv[2] ?? "";
const world = await launch();
let passed = 0;
const failed = [];
for (const [name, run] of cases.filter(([name]) => name.includes(word))) {
  const start = performance.now();
  try {
    await run(world);
    world.complaints(name);
    passed += 1;
    console.log(`ok     ${name} (${Math.round(performance.now() - start)} ms)`);
  } catch (error) {
    failed.push(name);
    console.log(`FAILED ${name}\n${error.stack ?? error}`);
  }
  await world.tidy();
}
await world.end();
console.log(
  `test result: ${failed.length ? "FAILED" : "ok"}. ${passed} passed; ${failed.length} failed; finished`,
);
process.exit(failed.length ? 1 : 0);
