// The live view of a running server, that `leasehold serve --http` shows.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { build } from "vite";
import { LEASEHOLD } from "./browser.mjs";

const KEPT = "../crates/operate/view/assets/live.html";

/** A server of an empty directory; its pages, its port, and a way to end it. */
async function serving(folder, ...words) {
  const home = mkdtempSync(join(folder, "live-"));
  mkdirSync(join(home, "data"));
  const free = ["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--json"];
  const child = spawn(LEASEHOLD, ["serve", join(home, "data"), "--state", join(home, "state"), ...free, ...words]);
  const ready = await new Promise((resolve, reject) => {
    let text = "";
    child.stdout.on("data", (part) => {
      text += part;
      if (text.includes("\n")) resolve(JSON.parse(text));
    });
    child.on("exit", () => reject(new Error("the server ended")));
  });
  return { address: ready.http, port: ready.addresses[0].port, end: () => child.kill("SIGKILL") };
}

/** Calls NULL of NFS 3 so often, one after the other. */
function ask(port, count) {
  return new Promise((resolve, reject) => {
    const call = Buffer.alloc(44);
    [0x80000028, 7, 0, 2, 100003, 3, 0].forEach((word, at) => call.writeUInt32BE(word >>> 0, 4 * at));
    const socket = connect(port, "127.0.0.1");
    let bytes = 0;
    socket.on("error", reject);
    socket.on("data", (part) => {
      bytes += part.length;
      if (bytes < count * 28) return;
      socket.end();
      resolve();
    });
    socket.write(Buffer.concat(Array(count).fill(call)));
  });
}

export const cases = {
  async "the live view shows the state of version 4 if the server serves it"({ folder, open }) {
    const server = await serving(folder, "--versions", "3,4.2");
    try {
      const page = await open({ address: server.address, ready: false });
      await page.getByTestId("nfs4").getByText("sessions, busy slots").waitFor();
    } finally {
      server.end();
    }
  },

  "the kept live view is what its sources build"({ folder }) {
    return build({ mode: "live", logLevel: "error", build: { outDir: folder } }).then(() => {
      const same = readFileSync(join(folder, "live.html"), "utf8") === readFileSync(KEPT, "utf8");
      assert.ok(same, "run `cargo xtask page` and commit what it builds");
    });
  },

  async "the live view shows who asks what"({ folder, open }) {
    const server = await serving(folder, "--durability", "memory");
    try {
      await ask(server.port, 200);
      const page = await open({ address: server.address, ready: false });
      await page.getByTestId("calls").getByText("200", { exact: true }).waitFor();
      await page.getByTestId("durability").getByText("memory, a crash of the machine loses changes").waitFor();
      await page.getByTestId("met").getByText("No limit was met.").waitFor();
      await page.getByRole("rowheader", { name: "127.0.0.1" }).waitFor();

      // By keys alone: the operations, sorted, and only some.
      await page.getByRole("button", { name: "operations" }).focus();
      await page.keyboard.press("Enter");
      await page.getByRole("rowheader", { name: "NFS 3 NULL" }).waitFor();
      await page.getByRole("button", { name: "p99" }).focus();
      await page.keyboard.press("Enter");
      const p99 = page.getByRole("columnheader", { name: "p99" });
      assert.equal(await p99.getAttribute("aria-sort"), "descending");
      await page.getByLabel("Only names that hold").fill("GETATTR");
      await page.getByRole("rowheader").first().waitFor({ state: "detached" });
      await page.getByLabel("Only names that hold").fill("");
      await page.getByRole("rowheader", { name: "NFS 3 NULL" }).waitFor();

      // What comes shows, unless it is to stay as it is.
      await ask(server.port, 100);
      await page.getByTestId("calls").getByText("300", { exact: true }).waitFor();
      await page.getByRole("button", { name: "exports" }).click();
      await page.getByRole("rowheader", { name: "/data" }).waitFor();
      const wide = await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth);
      assert.ok(wide, "the page is wider than its window");
      await page.setViewportSize({ width: 390, height: 800 });
      const narrow = await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth);
      assert.ok(narrow, "the page is wider than a phone");
    } finally {
      server.end();
    }
  },

  async "the live view says when the server is gone"({ folder, open }) {
    const server = await serving(folder);
    const page = await open({ address: server.address, ready: false });
    await page.getByTestId("durability").getByText("durability: disk").waitFor();
    // What the browser says of a server that is gone is not ours.
    page.removeAllListeners("console");
    server.end();
    await page.getByRole("alert").getByText("The server does not answer").waitFor();
  },
};
