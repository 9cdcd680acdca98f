// A browser, the served page, and what both complain of.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";

export const LEASEHOLD = process.env.LEASEHOLD ?? "../target/debug/leasehold";

const QUIET = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** Starts `lab ui` on a free port; gives its address and a way to end it. */
export async function serve(...words) {
  const child = spawn(LEASEHOLD, ["lab", "ui", "--listen", "127.0.0.1:0", ...words]);
  const address = await new Promise((resolve, reject) => {
    let text = "";
    child.stdout.on("data", (part) => {
      text += part;
      const found = /http:\/\/\S+(?=\s)/.exec(text);
      if (found) resolve(found[0]);
    });
    child.stderr.on("data", (part) => (text += part));
    child.on("exit", () => reject(new Error(`lab ui ended: ${text}`)));
  });
  return { address, end: () => child.kill("SIGKILL") };
}

/** Long for a browser on a machine that does much else; what does not come at all comes no later. */
const PATIENCE_MS = 120_000;

/**
 * Runs in each page before its own scripts: counts what was asked of the laboratory and is not
 * answered, and files that are being read. What works behind an answer does not count.
 */
function watchOrders() {
  let orders = 0;
  const behind = /"ask":"simulate"|"thorough":true/;
  globalThis.Worker = class extends Worker {
    constructor(...words) {
      super(...words);
      this.waiting = [];
      // Before the page's own listener, which may ask on: there is no moment between.
      this.addEventListener("message", ({ data }) => {
        if (data.kind !== 0) orders -= this.waiting.shift() ?? 0;
      });
    }

    postMessage(message, ...rest) {
      if (message?.question !== undefined) {
        const counted = behind.test(message.question) ? 0 : 1;
        this.waiting.push(counted);
        orders += counted;
      }
      super.postMessage(message, ...rest);
    }
  };
  const { text } = Blob.prototype;
  Blob.prototype.text = function () {
    orders += 1;
    return text.call(this).finally(() => (orders -= 1));
  };
  globalThis.ordersUnderWay = () => orders;
}

export async function launch() {
  const folder = mkdtempSync(join(tmpdir(), "leasehold-page-"));
  const executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium";
  const browser = await chromium.launch({ executablePath, args: QUIET, timeout: PATIENCE_MS });
  const server = await serve();
  let said = [];
  let contexts = [];

  /** A fresh page; the server's unless an address is given. */
  async function open({ address = server.address, ready = true, ...options } = {}) {
    const context = await browser.newContext({
      viewport: { width: 1440, height: 1000 },
      acceptDownloads: true,
      ...options,
    });
    contexts.push(context);
    const page = await context.newPage();
    page.setDefaultTimeout(PATIENCE_MS);
    await page.addInitScript(watchOrders);
    page.on("pageerror", (error) => said.push(`error: ${error.message}`));
    page.on("console", (line) => line.type() === "error" && said.push(`console: ${line.text()}`));
    page.on("request", (request) => {
      const url = request.url();
      const ours = url.startsWith(address.split("#")[0]) || /^(data|blob):/.test(url);
      if (!ours) said.push(`asked the network for ${url}`);
    });
    await page.goto(address);
    if (ready) await page.getByRole("navigation").waitFor();
    return page;
  }

  return {
    folder,
    server,
    open,
    complaints(name) {
      const all = said;
      said = [];
      assert.deepEqual(all, [], name);
    },
    async tidy() {
      said = [];
      for (const context of contexts) await context.close();
      contexts = [];
    },
    async end() {
      server.end();
      await browser.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Tries what a busy machine may be too slow for, until it is done once or that has taken a minute. */
export async function soon(attempt) {
  for (const start = performance.now(); ; ) {
    try {
      return await attempt();
    } catch (error) {
      if (performance.now() - start > 60_000) throw error;
    }
  }
}

/** The sentence on top, once there is one for what is on the page now. */
export async function verdict(page, index = 0) {
  await settled(page);
  return page.getByTestId(`verdict-${index}`).locator(".sentence").innerText();
}

/** Waits until what was changed has been asked, and answered. */
export async function settled(page) {
  await page.waitForFunction(() => {
    const verdicts = [...document.querySelectorAll('[data-testid^="verdict"]')];
    const idle = verdicts.every((one) => one.getAttribute("aria-busy") !== "true");
    return idle && verdicts.length > 0 && ordersUnderWay() === 0;
  });
}

/** Waits until some elements have stood for a while, in which the page was drawn; gives their boxes. */
export async function still(page, selectors) {
  const look = () => Promise.all(selectors.map((one) => page.locator(one).boundingBox()));
  for (let boxes = await look(), before = null; ; boxes = await look()) {
    if (JSON.stringify(boxes) === JSON.stringify(before)) return boxes;
    before = boxes;
    await page.waitForTimeout(400);
    await page.evaluate(async () => {
      for (let frame = 0; frame < 10; frame += 1) await new Promise((done) => requestAnimationFrame(done));
    });
  }
}

/** Waits for the simulation behind the sentence; gives what it found. */
export async function simulated(page) {
  const chip = page.getByTestId("simulated").first();
  await chip.waitFor();
  return Number(/(\d+)/.exec(await chip.innerText())[1]);
}

/** The model on the page, as the text dialog shows it. */
export async function model(page) {
  await page.getByRole("button", { name: "File" }).click();
  await page.getByRole("button", { name: "Change as text…" }).click();
  const text = await page.getByLabel("Text of the model").inputValue();
  await page.getByRole("button", { name: "Close", exact: true }).click();
  return JSON.parse(text);
}

export async function template(page, name) {
  await page.getByRole("button", { name: "Templates" }).click();
  const title = page.getByRole("dialog").locator("b", { hasText: new RegExp(`^${name}`) });
  await title.click();
  await settled(page);
}

export async function fromFile(page, path) {
  const chosen = page.waitForEvent("filechooser");
  await page.getByRole("button", { name: "File" }).click();
  await page.getByRole("button", { name: "Open a model file…" }).click();
  await (await chosen).setFiles(path);
  await settled(page);
}
