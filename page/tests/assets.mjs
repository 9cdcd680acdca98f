// What is kept in the tree is what the sources say, and small.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync, gzipSync } from "node:zlib";
import { build } from "vite";
import { LEASEHOLD } from "./browser.mjs";

const KEPT = "../crates/lab/page/assets";
const MODELS = "../docs/lab/models";
const SLO = "p95 < 50 ms";

function native(...words) {
  return JSON.parse(execFileSync(LEASEHOLD, ["lab", ...words, "--json"], { encoding: "utf8", maxBuffer: 1e8 }));
}

/** The kept laboratory, asked directly. */
async function kept() {
  const module = await WebAssembly.compile(gunzipSync(readFileSync(`${KEPT}/lab.wasm.gz`)));
  let answer;
  const say = (kind, at, length) => {
    const text = new TextDecoder().decode(new Uint8Array(lab.memory.buffer, at, length));
    if (kind === 1) answer = JSON.parse(text);
  };
  const lab = (await WebAssembly.instantiate(module, { page: { say } })).exports;
  return (question) => {
    const bytes = new TextEncoder().encode(JSON.stringify(question));
    const at = lab.reserve(bytes.length);
    new Uint8Array(lab.memory.buffer, at, bytes.length).set(bytes);
    lab.ask(at, bytes.length);
    assert.equal(answer.wrong, undefined);
    return answer.ok;
  };
}

export const cases = {
  "the kept page is what its sources build"({ folder }) {
    return build({ logLevel: "error", build: { outDir: folder, emptyOutDir: false } }).then(() => {
      const built = readFileSync(join(folder, "index.html"), "utf8");
      const same = built === readFileSync(`${KEPT}/page.html`, "utf8");
      assert.ok(same, "run `cargo xtask page` and commit what it builds");
    });
  },

  "the page without the laboratory is at most 300 KB, packed"() {
    const bytes = gzipSync(readFileSync(`${KEPT}/page.html`), { level: 9 }).length;
    console.log(`       ${bytes} bytes`);
    assert.ok(bytes <= 300_000, `${bytes} bytes`);
  },

  async "the kept laboratory answers as the native one, bit for bit"({ folder }) {
    const ask = await kept();
    assert.deepEqual(ask({ ask: "templates" }), native("template"), "run `cargo xtask page --lab`");
    const files = readdirSync(MODELS).map((name) => join(MODELS, name));
    for (const { key } of ask({ ask: "templates" })) {
      const path = join(folder, `${key}.json`);
      writeFileSync(path, JSON.stringify(ask({ ask: "template", key, values: {} })));
      files.push(path);
    }
    for (const path of files) {
      const text = readFileSync(path, "utf8");
      const view = ask({ ask: "view", text, slo: SLO, class: null, thorough: true });
      assert.deepEqual(view, native("look", path, "--slo", SLO)[0].view, path);
    }
    const path = join(MODELS, "leases.json");
    const text = readFileSync(path, "utf8");
    const order = { slo: SLO, class: 0, seed: 7, effort: 100_000, loads: [] };
    const ours = ask({ ask: "simulate", text, ...order }).outcomes;
    const options = ["--seed", "7", "--replications", "8", "--services-max", "100000"];
    assert.deepEqual(ours, native("simulate", path, ...options).results);
  },

  "the gallery on the page is the gallery in the documents"({ folder }) {
    execFileSync(LEASEHOLD, ["lab", "gallery", folder]);
    const ours = readFileSync(join(folder, "gallery.json"), "utf8");
    const same = ours === readFileSync("../docs/lab/gallery/gallery.json", "utf8");
    assert.ok(same, "write it anew with `leasehold lab gallery docs/lab/gallery`");
  },

  async "the page opens from a file, without a server"({ folder, open }) {
    const path = join(folder, "lab.html");
    execFileSync(LEASEHOLD, ["lab", "ui", "--save", path]);
    const page = await open({ address: `file://${path}` });
    // The sentence stands there twice once it has been spoken.
    await page.getByTestId("verdict-0").getByText("clients keep p95 below").first().waitFor();
  },
};
