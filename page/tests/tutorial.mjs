// A first-time user finds how many clients two I/O daemons carry, by the tutorial.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { LEASEHOLD, model } from "./browser.mjs";

export const cases = {
  async "tutorial: how many clients until p95 passes 10 ms on two I/O daemons"({ open, folder }) {
    const page = await open();
    const start = performance.now();
    await page.getByRole("button", { name: "Tutorial" }).click();
    const step = (name) => page.getByTestId("tutorial").locator("li.now", { hasText: name }).waitFor();
    await step("Take a system");
    await page.getByRole("button", { name: "Show the templates" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "NFSP" }).click();
    await step("Two daemons");
    const slider = page.getByRole("slider", { name: "I/O daemons" });
    await slider.focus();
    // A key counts when the page shows it: a faster hand would turn past the mark.
    const shown = () => slider.getAttribute("aria-valuetext");
    for (let now = await shown(); now !== "2 "; now = await shown()) {
      await page.keyboard.press("ArrowLeft");
      await page.waitForFunction(
        ([label, before]) => document.querySelector(`[data-dial="${label}"]`).getAttribute("aria-valuetext") !== before,
        ["iods", now],
      );
    }
    await step("Ask the question");
    await page.getByLabel("Which response time").selectOption("p95");
    await page.getByLabel("Bound of the response time").fill("10");
    await page.getByLabel("Bound of the response time").press("Enter");
    // The simulation may be faster than a look at "Read the answer"; done it must be.
    const answer = page.getByTestId("tutorial-answer");
    await answer.waitFor();
    await page.getByTestId("tutorial").locator("li.done", { hasText: "Read the answer" }).waitFor();
    const found = Number(/(\d+) clients/.exec(await answer.innerText())[1]);
    const seconds = (performance.now() - start) / 1000;
    console.log(`       ${found} clients, in ${seconds.toFixed(1)} s`);
    assert.ok(seconds < 120);
    // The command line says the same of the same model.
    const path = join(folder, "two-iods.json");
    writeFileSync(path, JSON.stringify(await model(page)));
    const words = ["lab", "plan", path, "--slo", "p95 < 10 ms", "--json"];
    const plan = JSON.parse(execFileSync(LEASEHOLD, words, { encoding: "utf8" }));
    assert.ok(Math.abs(plan.clients - found) <= 1, `${plan.clients} ${found}`);
  },
};
