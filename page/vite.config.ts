// Builds one HTML file: the laboratory's page without the WebAssembly, which the binary puts in
// where the mark is, or in the mode `live` the live view. The output is the same for the same
// sources: the test of the page compares it with the kept one.
import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig, type Plugin } from "vite";

/** Puts script and style into the page, so that it is one file. */
const oneFile: Plugin = {
  name: "one-file",
  enforce: "post",
  generateBundle(_, bundle) {
    const page = Object.values(bundle).find((part) => part.fileName.endsWith(".html"));
    if (page?.type !== "asset") throw new Error("no page was built");
    let html = String(page.source);
    for (const [name, part] of Object.entries(bundle)) {
      if (part.type === "chunk") {
        const code = part.code.replaceAll("</script", "<\\/script");
        html = html.replace(/<script type="module"[^>]*><\/script>/, "");
        html = html.replace("</body>", () => `<script type="module">${code}</script></body>`);
        delete bundle[name];
      } else if (name.endsWith(".css")) {
        html = html.replace(/<link rel="stylesheet"[^>]*>/, () => `<style>${part.source}</style>`);
        delete bundle[name];
      }
    }
    page.source = html;
  },
};

export default defineConfig(({ mode }) => ({
  plugins: [svelte(), oneFile],
  base: "./",
  build: {
    target: "es2022",
    outDir: "dist",
    emptyOutDir: false,
    assetsInlineLimit: 1_000_000,
    cssCodeSplit: false,
    modulePreload: false,
    rolldownOptions: { input: mode === "live" ? "live.html" : "index.html", output: { codeSplitting: false, comments: { legal: false } } },
  },
}));
