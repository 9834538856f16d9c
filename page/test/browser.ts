// A browser for the tests, and pages as files, filled as the product fills them.

import { existsSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe } from "vitest";
import type { View } from "../src/data";
import type { Mesh } from "../src/mesh/data";

const PLACES = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

/** The browser's program; undefined where there is none. */
const program = process.env["CHROMIUM"] ?? PLACES.find((place) => existsSync(place));

const start = (): Promise<Browser> =>
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

/** The longest wait on a busy machine: detects missing events, not late ones. */
export const PATIENCE_MS = Number(process.env["PATIENCE_MS"] ?? 120_000);

let browser: Browser;

/** Tests in their own browser; skipped without a browser, or if `has` is false. */
export function inBrowser(name: string, tests: () => void, has = true): void {
  describe.skipIf(!program || !has)(name, () => {
    beforeAll(async () => {
      browser = await start();
    });
    // An open page would use the CPU further.
    afterEach(async () => {
      for (const context of browser.contexts()) await context.close();
    });
    afterAll(async () => {
      await browser?.close();
    });
    tests();
  });
}

const folder = mkdtempSync(join(tmpdir(), "page-"));
let files = 0;

/** Documents as in a page; unknown values are absent, as in those of the product. */
const known = (document: unknown): string =>
  JSON.stringify(document, (_, value: unknown) =>
    value && typeof value === "object" && !Array.isArray(value)
      ? Object.fromEntries(Object.entries(value).filter(([, inner]) => inner != null))
      : value,
  ).replaceAll("<", "\\u003c");

/** A built page with its data, as a file. */
function filled(page: string, id: string, empty: string, data: unknown): string {
  const slot = `<script type="application/json" id="${id}">`;
  const built = readFileSync(new URL(`../dist/${page}.html`, import.meta.url), "utf8");
  const file = join(folder, `${(files += 1)}.html`);
  writeFileSync(
    file,
    built.replace(slot + empty, () => slot + known(data)),
  );
  return file;
}

/** The page of some sessions, as a file. */
export const fileOf = (views: View[]): string => filled("page", "sessions", "[]", views);

/** The page of a mesh, as a file. */
export const meshFileOf = (mesh: Mesh): string => filled("mesh", "mesh", "null", mesh);

export interface Opened {
  page: Page;
  /** Errors of the page, and its requests. */
  trouble: string[];
  elements(): Promise<number>;
}

/** Opens a file and waits until the element that is drawn last is there. */
export async function open(place: string, options: BrowserContextOptions = {}, last = "#environment"): Promise<Opened> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  context.setDefaultTimeout(PATIENCE_MS);
  const page = await context.newPage();
  const trouble: string[] = [];
  const own = pathToFileURL(place).href;
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
  await page.waitForSelector(last);
  return { page, trouble, elements: () => page.evaluate(() => document.querySelectorAll("*").length) };
}
