// A real browser for the tests, and pages as files: what stands in them is put there as the product puts it.

import { existsSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";
import type { Between, View } from "../src/data";

const PLACES = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

/** The browser's program; undefined where there is none, and browser tests are skipped. */
export const program = process.env["CHROMIUM"] ?? PLACES.find((place) => existsSync(place));

export const start = (): Promise<Browser> =>
  chromium.launch({
    executablePath: program ?? "",
    timeout: PATIENCE_MS,
    args: [
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
    ],
  });

/** How long a busy machine may take for one thing. Nothing is said by it: only what never comes is told from what is late. */
export const PATIENCE_MS = 120_000;

const folder = mkdtempSync(join(tmpdir(), "page-"));
let files = 0;

/** The page of some documents, as a file; absent and unknown are the same, as in the product's pages. */
export function fileOf(views: View[], between: Between | null = null): string {
  const template = readFileSync(new URL("../dist/page.html", import.meta.url), "utf8");
  const known = (document: unknown) =>
    JSON.stringify(document, (_, value: unknown) =>
      value && typeof value === "object" && !Array.isArray(value)
        ? Object.fromEntries(Object.entries(value).filter(([, inner]) => inner != null))
        : value,
    ).replaceAll("<", "\\u003c");
  const slot = (name: string) => `<script type="application/json" id="${name}">`;
  const file = join(folder, `${(files += 1)}.html`);
  writeFileSync(
    file,
    template
      .replace(`${slot("sessions")}[]`, () => slot("sessions") + known(views))
      .replace(`${slot("between")}null`, () => slot("between") + known(between)),
  );
  return file;
}

export interface Opened {
  page: Page;
  /** What the page complained of, and what it asked for beyond itself. */
  trouble: string[];
  elements(): Promise<number>;
}

/** Opens a file and waits until the figures are drawn. */
export async function open(browser: Browser, file: string, options: BrowserContextOptions = {}): Promise<Opened> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  context.setDefaultTimeout(PATIENCE_MS);
  const page = await context.newPage();
  const trouble: string[] = [];
  const own = pathToFileURL(file).href;
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning")
      trouble.push(`${message.type()}: ${message.text()}`);
  });
  page.on("pageerror", (error) => trouble.push(`thrown: ${error.message}`));
  page.on("request", (request) => {
    if (request.url().split("#")[0] !== own && !request.url().startsWith("data:"))
      trouble.push(`asked for ${request.url()}`);
  });
  await page.goto(own);
  await page.waitForSelector("#environment");
  return { page, trouble, elements: () => page.evaluate(() => document.querySelectorAll("*").length) };
}
