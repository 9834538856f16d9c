// Makes the pictures of the README: what the terminal shows, and the page's map, light and dark.
//
//   cargo xtask pictures
//
// It calls this with a folder in which the program's renderers have put both of the session docs/pictures/session.jsonl.gz:
// screen.txt, with the escape sequences of a terminal of 80 columns, and page.html. Nothing is drawn by hand, so the pictures
// never show what the program would not.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { chromium } from "playwright-core";
import { html } from "./ansi.mjs";

const [folder] = process.argv.slice(2);
if (!folder) throw new Error("usage: cargo xtask pictures");
const screen = readFileSync(join(folder, "screen.txt"), "utf8");
const page = join(folder, "page.html");
const out = fileURLToPath(new URL("../../docs/pictures/", import.meta.url));

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
        background: ${paper}; color: ${ink}">${html(screen, colorScheme)}</pre>`,
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
      throw new Error("the session asked nothing in two dimensions: take one of buffer-size");
    await opened.locator("#heatmap").screenshot({ path: join(out, `map-${colorScheme}.png`) });
    await context.close();
  }
} finally {
  await browser.close();
}
