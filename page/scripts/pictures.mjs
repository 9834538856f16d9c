// Makes the pictures of the README from a stored session: what the terminal shows, and the page's map, light and dark.
//
//   npm run pictures -- PROGRAM STORE SESSION
//
// The terminal's is the program's own output on a terminal of 80 columns (`script` of util-linux gives it one), set in a
// real browser as the page is. Nothing is drawn by hand, so the pictures never show what the program would not.
import { execFileSync } from "node:child_process";
import { copyFileSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { chromium } from "playwright-core";
import { html } from "./ansi.mjs";

const [program, store, session] = process.argv.slice(2);
if (!program || !store || !session) throw new Error("usage: npm run pictures -- PROGRAM STORE SESSION");
const folder = mkdtempSync(join(tmpdir(), "pictures-"));
// Where results are kept unless somebody says so, so that the commands on the screen are those of a reader.
mkdirSync(join(folder, "bytegauge"));
copyFileSync(store, join(folder, "bytegauge", "results.db"));
const usual = { ...process.env, XDG_DATA_HOME: folder };
const words = [program, "report", session];
const quoted = words.map((word) => `'${word.replaceAll("'", "'\\''")}'`).join(" ");
const screen = execFileSync("script", ["-qec", `stty cols 80; ${quoted}`, "/dev/null"], {
  encoding: "utf8",
  env: { ...usual, TERM: "xterm-256color", LC_ALL: "C.UTF-8" },
});
const page = join(folder, "page.html");
execFileSync(program, [...words.slice(1), "--html", page], { env: usual });
const out = fileURLToPath(new URL("../../docs/pictures/", import.meta.url));
mkdirSync(out, { recursive: true });

/** Dots for each dot of a screen of old: sharp, and not too many bytes for a repository. */
const SHARP = 1.5;
const PAPER = { light: ["#ffffff", "#1c1917"], dark: ["#1c1917", "#e7e5e4"] };
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu"],
});
try {
  for (const colorScheme of ["light", "dark"]) {
    const context = await browser.newContext({
      viewport: { width: 1000, height: 900 },
      deviceScaleFactor: SHARP,
      colorScheme,
    });
    const terminal = await context.newPage();
    const [paper, ink] = PAPER[colorScheme];
    await terminal.setContent(
      `<pre style="display: inline-block; margin: 0; padding: 16px 20px; font: 14px/1.35 'DejaVu Sans Mono', monospace;
        background: ${paper}; color: ${ink}">${html(`$ bytegauge report ${session}\r\n${screen}`, colorScheme)}</pre>`,
    );
    await terminal.locator("pre").screenshot({ path: join(out, `screen-${colorScheme}.png`) });
    const opened = await context.newPage();
    await opened.goto(pathToFileURL(page).href);
    await opened.waitForSelector("#environment");
    // A group that was asked in two dimensions has the figure that says most.
    const groups = opened.locator(".picker option");
    for (const group of await groups.evaluateAll((all) => all.map((one) => one.value))) {
      if (await opened.locator("#heatmap").count()) break;
      await opened.locator(".picker select").selectOption(group);
    }
    if (!(await opened.locator("#heatmap").count()))
      throw new Error(`session ${session} asked nothing in two dimensions: take one of buffer-size`);
    await opened.locator("#heatmap").screenshot({ path: join(out, `map-${colorScheme}.png`) });
    await context.close();
  }
} finally {
  await browser.close();
  rmSync(folder, { recursive: true });
}
