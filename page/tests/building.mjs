// Building and changing a system.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fromFile, model, settled, simulated, soon, still, template, verdict } from "./browser.mjs";

const press = (page, name) => page.getByRole("button", { name, exact: true }).click();

async function empty(page) {
  await template(page, "Empty page");
}

async function set(page, label, value) {
  const field = page.getByLabel(label, { exact: true });
  await field.fill(String(value));
  await field.press("Enter");
}

export const cases = {
  async "a model is built by hand, and its answer is the formula's"({ open }) {
    const page = await open();
    await empty(page);
    await page.getByText("a system needs customers").waitFor();
    await press(page, "Customers");
    await press(page, "Station");
    await set(page, "Name of the station", "server");
    await set(page, "clients, value", 30);
    await page.getByLabel("clients, unit").selectOption("ms");
    await page.getByLabel("clients, where it is from").selectOption("measured");
    await set(page, "clients, source in words", "a stop watch");
    await page.getByTestId("graph").getByText("clients", { exact: true }).click();
    await set(page, "how many, value", 3);
    await set(page, "think time, value", 0.06);
    await page.getByLabel("think time, unit").selectOption("s");
    await page.getByLabel("Which response time").selectOption("mean");
    await page.getByLabel("Unit of the bound").selectOption("s");
    await set(page, "Bound of the response time", 1);
    // One queue of 30 ms and 60 ms of thought, three customers: 54 ms by hand
    // (30, 40, 54 for one, two, three).
    await settled(page);
    const text = await page.locator(".results tbody tr").first().innerText();
    assert.match(text, /\t54 ms\t/);
    const built = await model(page);
    assert.deepEqual(built.centres, [{ name: "server", kind: "queue" }]);
    assert.deepEqual(built.classes[0].demands.server, {
      value: 30, unit: "ms", from: "measured", where: "a stop watch",
    });
    assert.match(await verdict(page), /^\d+ clients keep mean below 1\.00 s/);
  },

  async "links are drawn, and taken away"({ open }) {
    const page = await open();
    await empty(page);
    await press(page, "Customers");
    await press(page, "Station");
    await set(page, "Name of the station", "first");
    await press(page, "Delay");
    await set(page, "Name of the station", "second");
    await press(page, "Arrivals");
    await settled(page);
    const ends = ['[data-id="class requests"] .source', '[data-id="centre first"] .target'];
    const [from, to] = await still(page, ends);
    await page.mouse.move(from.x + from.width / 2, from.y + from.height / 2);
    await page.mouse.down();
    await page.mouse.move(to.x - 20, to.y + 4, { steps: 6 });
    await page.mouse.move(to.x + to.width / 2, to.y + to.height / 2, { steps: 4 });
    await page.mouse.up();
    const drawn = await model(page);
    assert.deepEqual(Object.keys(drawn.classes[1].demands), ["first"]);
    await page.getByLabel("requests to first").first().focus();
    await page.keyboard.press("Enter");
    await page.keyboard.press("Delete");
    assert.deepEqual((await model(page)).classes[1].demands, {});
  },

  async "a station is added, renamed, moved and removed by keyboard and inspector"({ open }) {
    const page = await open();
    await press(page, "Station");
    await set(page, "Name of the station", "tape");
    await page.getByLabel("kind").selectOption("servers");
    await set(page, "servers, value", 3);
    await page.getByLabel("who is next").selectOption("processor-sharing");
    await page.getByLabel("holds only so many").check();
    const built = await model(page);
    assert.deepEqual(built.centres.at(-1), {
      name: "tape",
      kind: { servers: { count: { value: 3, from: "assumed" } } },
      discipline: "processor-sharing",
      capacity: { value: 100, from: "assumed" },
    });
    await page.getByText("estimated or left out at once").waitFor();
    await page.locator('[data-id="class client"]').focus();
    await page.keyboard.press("Enter");
    await press(page, "tape earlier");
    assert.deepEqual((await model(page)).classes[0].route.slice(-2), ["tape", "disk"]);
    await press(page, "Leave out tape");
    assert.equal((await model(page)).classes[0].demands.tape, undefined);
    await page.locator('[data-id="centre tape"]').focus();
    await page.keyboard.press("Enter");
    await page.keyboard.press("Delete");
    assert.equal((await model(page)).centres.length, 4);
  },

  async "every slider of every template, and of a model by hand, moves the model"({ open }) {
    const page = await open();
    const names = ["One server", "Diskless workstations", "NFSP", "Leases or close-to-open"];
    let moved = 0;
    for (const name of [...names, "by hand"]) {
      if (name === "by hand") {
        await page.getByLabel("Name of the station").or(page.getByTestId("graph").getByText("disk")).first().click();
        await page.getByLabel("who is next").selectOption("processor-sharing");
        await page.getByRole("heading", { name: "By hand" }).waitFor();
      } else {
        await template(page, name);
      }
      const sliders = page.locator('.dials input[type="range"]');
      const count = await sliders.count();
      assert.ok(count >= 6, `${name}: ${count} sliders`);
      for (let at = 0; at < count; at += 1) {
        const slider = sliders.nth(at);
        const key = await slider.getAttribute("data-dial");
        const before = await slider.getAttribute("aria-valuetext");
        await slider.focus();
        const start = Number(await slider.inputValue());
        await page.keyboard.press(start > 500 ? "PageDown" : "PageUp");
        await page.waitForFunction(
          ([key, before]) =>
            document.querySelector(`[data-dial="${CSS.escape(key)}"]`)?.getAttribute("aria-valuetext") !== before,
          [key, before],
        ).catch(() => assert.fail(`${name}: ${key} stands at ${before}`));
        moved += 1;
      }
      await settled(page);
      assert.equal(await page.locator(".sentence.wrong").count(), 0, name);
      assert.match(await verdict(page), /below 10\.0 ms/, name);
    }
    console.log(`       ${moved} sliders`);
    assert.ok(moved >= 35);
  },

  async "the answer follows a slider within a few frames"({ open }) {
    const page = await open();
    await settled(page);
    const turn = () => page.evaluate(async () => {
      const slider = document.querySelector('[data-dial="clients"]');
      const bars = () => document.querySelector('[data-testid="helps"] p')?.textContent;
      const times = [];
      for (let step = 0; step < 30; step += 1) {
        const before = bars();
        const start = performance.now();
        slider.value = String(300 + step * 15);
        slider.dispatchEvent(new Event("input", { bubbles: true }));
        while (bars() === before && performance.now() - start < 3000) {
          await new Promise((done) => requestAnimationFrame(done));
        }
        times.push(performance.now() - start);
      }
      return times.sort((a, b) => a - b);
    });
    // What is slow for the page's sake is always slow; what is for the machine's is now and then.
    await soon(async () => {
      const times = await turn();
      console.log(`       median ${times[15].toFixed(0)} ms, slowest ${times[29].toFixed(0)} ms`);
      assert.ok(times[7] < 120, `three in four took more than ${times[7]} ms`);
    });
  },

  async "undo and redo go through everything"({ open }) {
    const page = await open();
    const first = await verdict(page);
    await page.getByLabel("disk, ms").fill("8");
    await page.getByLabel("disk, ms").press("Enter");
    const second = await verdict(page);
    assert.notEqual(second, first);
    await press(page, "Station");
    await template(page, "NFSP");
    await press(page, "Undo");
    await press(page, "Undo");
    assert.equal(await verdict(page), second);
    await page.locator("body").press("Control+z");
    assert.equal(await verdict(page), first);
    await press(page, "Redo");
    assert.equal(await verdict(page), second);
    await page.locator("body").press("Control+Shift+z");
    await press(page, "Redo");
    assert.match(await page.locator("#title").inputValue(), /NFSP/);
    assert.ok(await page.getByRole("button", { name: "Redo" }).isDisabled());
  },

  async "model files come in and go out"({ open, folder }) {
    const page = await open();
    const path = "../docs/lab/models/mixed.json";
    await fromFile(page, path);
    assert.equal(await page.locator("#title").inputValue(), "Backups from outside beside interactive clients");
    const saved = page.waitForEvent("download");
    await page.getByRole("button", { name: "File" }).click();
    await press(page, "Save the model file");
    const download = await saved;
    assert.equal(download.suggestedFilename(), "backups-from-outside-beside-interactive-clients.json");
    const back = JSON.parse(readFileSync(await download.path(), "utf8"));
    const plain = (text) => JSON.parse(text.replaceAll(/,\s*"(unit|where)": ""/g, ""));
    assert.deepEqual(plain(JSON.stringify(back)), plain(readFileSync(path, "utf8")));
    for (const [name, mark] of [["Save a picture, SVG", "<svg"], ["Save a picture, PNG", "\x89PNG"]]) {
      const picture = page.waitForEvent("download");
      await page.getByRole("button", { name: "File" }).click();
      await press(page, name);
      const bytes = readFileSync(await (await picture).path(), "latin1");
      assert.ok(bytes.startsWith(mark), name);
      assert.ok(bytes.length > 2000, name);
    }
    writeFileSync(join(folder, "fine.json"), JSON.stringify(back));
  },

  async "what is wrong with a file or a text is said with its place"({ open, folder }) {
    const page = await open();
    const before = await verdict(page);
    const path = join(folder, "wrong.json");
    writeFileSync(path, '{ "format": 1 }');
    await fromFile(page, path);
    await page.getByText("line 1, column 13").waitFor();
    await press(page, "Close");
    assert.equal(await verdict(page), before);
    const wrong = JSON.parse(readFileSync("../docs/lab/models/diskless.json", "utf8"));
    wrong.classes[0].demands.moon = { value: 1, unit: "B", from: "assumed" };
    writeFileSync(path, JSON.stringify(wrong));
    await fromFile(page, path);
    await page.getByText('there is no centre "moon"').waitFor();
    await page.getByText("the unit must be us, ms, s, min or h").waitFor();
    await press(page, "Close");
    await page.getByRole("button", { name: "File" }).click();
    await press(page, "Change as text…");
    const text = page.getByLabel("Text of the model");
    await text.fill((await text.inputValue()).replace('"queue"', '"quell"'));
    await press(page, "Use this text");
    await page.getByText("unknown variant `quell`").waitFor();
    await text.fill((await text.inputValue()).replace('"quell"', '"delay"'));
    await press(page, "Use this text");
    assert.notEqual(await verdict(page), before);
  },

  async "a system that cannot be is refused where one looks"({ open }) {
    const page = await open();
    await empty(page);
    await press(page, "Arrivals");
    await press(page, "Station");
    await set(page, "requests, value", 200);
    await page.getByText("times what it can give").first().waitFor();
    await press(page, "Undo");
    await page.locator(".sentence", { hasText: "requests a second keep" }).waitFor();
  },

  async "a warning says where the simulation disagrees"({ open }) {
    const page = await open();
    await fromFile(page, "../docs/lab/models/bursts.json");
    await simulated(page);
    await page.getByText(/disagree with the simulation|The simulated .* of/).first().waitFor();
  },
};
