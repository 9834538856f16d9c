// One file: the page contains its script, compressed to less than half, and its styles. Its policy allows only these, by their hashes.

import { createHash } from "node:crypto";
import { gzipSync } from "fflate";
import { defineConfig, type Plugin } from "vite";
import { notices } from "./notices.ts";

/** The style that Plot adds to each drawing of class `plot`. The browser would refuse another text, which a test detects. */
const PLOT_STYLE = `:where(.plot) {
  --plot-background: white;
  display: block;
  height: auto;
  height: intrinsic;
  max-width: 100%;
}
:where(.plot text),
:where(.plot tspan) {
  white-space: pre;
}`;

/** A page: its source, the built file, and the text that the program replaces by the documents. */
const REPORT = {
  source: "index.html",
  file: "page.html",
  slot: '<script type="application/json" id="sessions">[]</script>',
};

/** `vite build --mode mesh`. */
const MESH: typeof REPORT = {
  source: "mesh.html",
  file: "mesh.html",
  slot: '<script type="application/json" id="mesh">null</script>',
};

/** Unpacks the data in a page and then its program, both gzip in base64, and runs it. Data of a test are not packed. */
const LOADER = `(async () => {
  for (const place of document.querySelectorAll("script[type]")) {
    if (!place.textContent.startsWith("H4sI")) continue;
    const bytes = Uint8Array.from(atob(place.textContent), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    place.textContent = await new Response(stream).text();
  }
  const program = document.createElement("script");
  program.textContent = document.getElementById("program").textContent;
  document.body.append(program);
})();`;

/** A text compressed, the same on every machine: Node's own zlib depends on the processor. */
const packed = (text: string): string =>
  Buffer.from(gzipSync(new TextEncoder().encode(text), { level: 9, mtime: 0 })).toString("base64");

const hash = (text: string): string => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;

const comment = (others: string): string =>
  `<!--\nThe script of this page contains third-party code:\n\n${others.replaceAll("--", "- -")}\n-->\n`;

/** Puts script and style into the page, and the policy before them. The program adds the data. */
function oneFile(built: typeof REPORT): Plugin {
  return {
    name: "one-file",
    enforce: "post",
    generateBundle(_, bundle) {
      const page = Object.values(bundle).find((file) => file.fileName.endsWith(".html"));
      if (page?.type !== "asset") throw new Error("the build has no page");
      let script = "";
      let style = "";
      const modules: string[] = [];
      for (const file of Object.values(bundle)) {
        if (file.type === "chunk") {
          script += file.code;
          modules.push(...Object.keys(file.modules));
        } else if (file.fileName.endsWith(".css")) style += file.source;
        if (file !== page) delete bundle[file.fileName];
      }
      script = script.trim();
      style = style.trim();
      const policy = [
        "default-src 'none'",
        `script-src ${hash(LOADER)} ${hash(script)}`,
        `style-src ${hash(style)} ${hash(PLOT_STYLE)}`,
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
      ].join("; ");
      const others = notices(modules);
      const html = String(page.source)
        .replace(/\s*<script type="module"[^>]*><\/script>/, "")
        .replace(/\s*<link rel="stylesheet"[^>]*>/, "")
        .replace(
          /(<meta charset="utf-8" \/>)/,
          (charset) => `${charset}\n    <meta http-equiv="Content-Security-Policy" content="${policy}" />`,
        )
        .replace("</head>", () => `  <style>${style}</style>\n  </head>`)
        .replace(
          "</body>",
          () =>
            `  <script type="text/plain" id="program">${packed(script)}</script>\n    <script>${LOADER}</script>\n  </body>`,
        )
        // Two dashes would end the comment in old parsers.
        .replace("</html>", () => `${others && comment(others)}</html>`);
      if (!html.includes(built.slot)) throw new Error(`the page has no ${built.slot} for the program to fill`);
      page.source = html;
      page.fileName = built.file;
    },
  };
}

export default defineConfig(({ mode }) => {
  const page = mode === "mesh" ? MESH : REPORT;
  return {
    build: {
      target: "es2022",
      modulePreload: false,
      cssCodeSplit: false,
      assetsInlineLimit: 0,
      outDir: "dist",
      emptyOutDir: page === REPORT,
      rolldownOptions: { input: page.source, output: { format: "iife" } },
    },
    plugins: [oneFile(page)],
  };
});
