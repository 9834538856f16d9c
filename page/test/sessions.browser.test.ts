// Pages that the program makes, of sessions that were measured; their numbers mean nothing.

import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { brotliDecompressSync } from "node:zlib";
import { expect, test } from "vitest";
import { inBrowser, open, PATIENCE_MS } from "./browser";
import { level, read, type View } from "../src/data";

const binary = process.env["BYTEGAUGE"];

inBrowser(
  "sessions from the program itself",
  () => {
    const home = mkdtempSync(join(tmpdir(), "page-"));
    // Asynchronous, since vitest ends a worker that does not respond.
    const run = (...words: string[]) =>
      promisify(execFile)(binary ?? "", words, { env: { ...process.env, XDG_DATA_HOME: home } });
    const stored = (name: string) =>
      new URL(
        name.startsWith("schema-") ? `../../crates/store/tests/fixtures/${name}` : `sessions/${name}`,
        import.meta.url,
      );
    /** Imports a session that was measured, or a table that others published. */
    async function bring(name: string, ...words: string[]): Promise<void> {
      const file = join(home, name.replace(/\.br$/, ""));
      const bytes = readFileSync(stored(name));
      writeFileSync(file, name.endsWith(".br") ? brotliDecompressSync(bytes) : bytes);
      await run("report", "import", file, ...words);
    }
    /** The figures that a session has in at least one of its groups, in addition to the usual ones. */
    const FIXTURES: [name: string, words: string[], figures: string[]][] = [
      ["stream.jsonl.br", [], ["heatmap", "sweep", "options"]],
      ["call.jsonl.br", [], ["percentiles"]],
      ["datagrams.jsonl.br", [], ["sweep"]],
      ["datagram-calls.jsonl.br", [], ["percentiles"]],
      ["errors.jsonl.br", [], ["sweep", "percentiles"]],
      ["load.jsonl.br", [], ["load", "percentiles", "sweep"]],
      ["knee.jsonl.br", [], ["knee"]],
      ["ring.jsonl.br", [], ["sweep"]],
      ["relay.jsonl.br", [], []],
      ["far-host.jsonl.br", [], ["sweep", "options"]],
      ["ab.jsonl.br", [], []],
      ["check.jsonl.br", [], ["sweep"]],
      ["devices.jsonl.br", [], ["sweep"]],
      ["sizes.txt", [], ["sweep"]],
      ["grid.csv", [], ["heatmap"]],
      ["calls.csv", ["--map", "transport==tcp,request==512"], ["sweep"]],
    ];

    test("of every workload, each group of each", async () => {
      for (const [name, words] of FIXTURES) await bring(name, ...words);
      const ids = FIXTURES.map((_, at) => String(at + 1));
      await run("report", ...ids, "--html", join(home, "page.html"));
      const { page, trouble, elements } = await open(join(home, "page.html"));
      const broken = "svg [d*=NaN], svg [transform*=NaN], svg [x*=NaN], svg [width*=NaN], svg[aria-label*=NaN]";
      for (const [at, [name, , expected]] of FIXTURES.entries()) {
        await page.locator("header select").selectOption(String(at));
        const seen = new Set<string>();
        for (const group of await page
          .locator(".picker option")
          .evaluateAll((all) => all.map((one) => (one as HTMLOptionElement).value))) {
          await page.locator(".picker select").selectOption(group);
          for (const id of await page.locator("figure").evaluateAll((all) => all.map((each) => each.id))) seen.add(id);
          expect(await page.locator("#results .test tbody tr").count(), `${name} ${group}`).toBeGreaterThan(0);
          expect(await page.locator(broken).count(), `${name} ${group}`).toBe(0);
        }
        expect([...seen], name).toEqual(expect.arrayContaining(expected));
        expect(await page.locator("#subjects").count(), name).toBe(/^(ab|check)/.test(name) ? 1 : 0);
        expect(await elements(), name).toBeLessThan(8_000);
        await page.setViewportSize({ width: 360, height: 800 });
        expect(await page.evaluate("document.documentElement.scrollWidth"), name).toBeLessThanOrEqual(360);
        await page.setViewportSize({ width: 1280, height: 900 });
      }
      expect(trouble).toEqual([]);
    });

    /** The page of one stored session, and its document. */
    async function page_of(name: string) {
      const store = join(home, `${name}.db`);
      const file = join(home, `${name}.jsonl`);
      writeFileSync(file, brotliDecompressSync(readFileSync(stored(`${name}.jsonl.br`))));
      await run("report", "import", file, "--store", store);
      const place = join(home, `${name}.html`);
      await run("report", "--store", store, "--html", place);
      const { stdout } = await promisify(execFile)(binary ?? "", ["report", "--store", store, "--format", "json"], {
        maxBuffer: 1 << 28,
      });
      return { ...(await open(place)), view: read(`[${stdout}]`)[0] as View };
    }
    const plain = (texts: string[]) => texts.map((text) => text.replaceAll("\u00a0", " "));

    test("an offered load: each engine's cost, latency and share of it, crossed where it was not answered", async () => {
      const { page, trouble, view } = await page_of("load");
      const calls = view.cells.filter((each) => each.kind === "candidate" && each.estimate.median != null);
      const timed = calls.filter((each) => each.more["total_p99_ns"]?.median != null);
      const offered = (each: (typeof calls)[number]) => Number(level(each, "call_rate"));
      const short = (each: (typeof calls)[number]) =>
        (each.estimate.median ?? 0) < offered(each) * view.plan.answered_share;
      expect(timed.filter(short).length, "the fixture has its knee").toBeGreaterThan(0);
      // Too few trials: nothing is recommended at any load.
      expect(view.tests.every(({ claim }) => claim.kind !== "use")).toBe(true);
      const figure = page.locator("#load");
      await figure.locator(".data summary").click();
      await expect.poll(() => figure.locator("tbody tr").count(), { timeout: PATIENCE_MS }).toBe(calls.length);
      expect(await figure.locator("h3").textContent()).toBe("Options of server by offered load");
      const panels = figure.locator(".side svg");
      const titles = ["Server CPU time per call, µs", "Latency, p99 of the calls, ms", "Answered share of the load"];
      expect(await panels.count()).toBe(titles.length);
      for (const [at, title] of titles.entries()) {
        const panel = panels.nth(at);
        const texts = plain(await panel.locator("text").allTextContents());
        expect(texts, title).toEqual(expect.arrayContaining([title, "calls per second, offered", "2k", "60k"]));
        const drawn = at === 1 ? timed : calls;
        const crosses = panel.locator('g[stroke-width="2"] path[transform], path[stroke-width="2"][transform]');
        expect(await crosses.count(), title).toBe(at === 1 ? drawn.filter(short).length : 0);
        const rings = panel.locator('[stroke-width="1.6"] circle, circle[stroke-width="1.6"]');
        expect(await rings.count(), title).toBe(0);
      }
      const key = plain(await figure.locator(".drawing > svg text").allTextContents());
      expect(key).toEqual(expect.arrayContaining(["server", "epoll", "blocking", "answered less than 95 %"]));
      await figure.locator("select").selectOption("total_p50_ns");
      const texts = plain(await panels.nth(1).locator("text").allTextContents());
      expect(texts.join(" | ")).toContain("Latency, p50 of the calls");
      expect(trouble).toEqual([]);
    });

    test("the highest rate within an objective has its probes", async () => {
      const { page, trouble, view } = await page_of("knee");
      const cells = view.cells.filter((each) => each.kind === "candidate" && each.call?.knee);
      expect(cells.length).toBe(2);
      const figure = page.locator("#knee");
      expect(plain([(await figure.locator("h3").textContent()) ?? ""])).toEqual([
        "The highest rate that keeps p99 within 20 ms",
      ]);
      const probes = cells.flatMap(
        (each) => each.call?.knee?.probes.filter((probe) => probe.percentile_ns != null) ?? [],
      );
      const kept = probes.filter((probe) => probe.kept).length;
      expect(await figure.locator('.side svg g[stroke-width="1.5"] circle').count(), "kept").toBe(kept);
      const crosses = figure.locator('.side svg g[stroke-width="1.8"] path');
      expect(await crosses.count(), "not kept").toBe(probes.length - kept);
      const texts = plain(await figure.locator("svg text").allTextContents());
      for (const each of cells) expect(texts).toContain(`${each.label}: p99 of every probe, log scale`);
      expect(texts).toContain("rate of a closed loop");
      await figure.locator(".data summary").click();
      await expect.poll(() => figure.locator("tbody tr").count(), { timeout: PATIENCE_MS }).toBe(cells.length);
      expect(trouble).toEqual([]);
    });
  },
  binary != null,
);
