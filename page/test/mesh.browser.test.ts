// The page of a mesh: a planted slow host and a planted slow link, among few and many hosts.

import { statSync } from "node:fs";
import axe from "axe-core";
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import type { Mesh, Shift } from "../src/mesh/data";
import { inBrowser, meshFileOf, open } from "./browser";

const SLOW_HOST = 5;
const SLOW_LINK = [3, 8] as const;
const TYPICAL = 1e9;

/** A mesh of all pairs in racks of 40 hosts, or of 4 up to 100 hosts. The last host and the first one were not measured. */
function planted(size: number): Mesh {
  const rates = new Uint8Array(2 * size * size);
  const reaches = new Uint8Array(size * size);
  const scale: [number, number] = [Math.log(0.5 * TYPICAL), Math.log(1.1 * TYPICAL)];
  for (let from = 0; from < size; from += 1)
    for (let to = 0; to < size; to += 1) {
      const at = from * size + to;
      if (from === to || (from === size - 1 && to === 0)) continue;
      const slow = from === SLOW_HOST || to === SLOW_HOST || (from === SLOW_LINK[0] && to === SLOW_LINK[1]) ? 0.6 : 1;
      const rate = TYPICAL * slow * (1 + ((from * 7 + to * 13) % 11) / 500);
      const code = 1 + Math.round((65_534 * (Math.log(rate) - scale[0])) / (scale[1] - scale[0]));
      rates.set([code & 255, code >> 8], 2 * at);
      reaches[at] = 60;
    }
  const shift = (middle: number): Shift => ({ shift: middle, low: middle - 0.01, high: middle + 0.01 });
  const rack = size > 100 ? 40 : 4;
  return {
    pattern: "pairs",
    workload: "stream",
    margin: 0.1,
    span_ns: size * 1.3e9,
    parts: (size * (size - 1)) / 2,
    measured: (size * (size - 1)) / 2 - 1,
    ranks: size,
    hosts: Array.from({ length: size }, (_, rank) => ({
      rank,
      name: `node${rank}`,
      rack: `rack${String(Math.floor(rank / rack)).padStart(2, "0")}`,
    })),
    options: [
      {
        name: "all",
        typical: TYPICAL,
        scale,
        rates: Buffer.from(rates).toString("base64"),
        reaches: Buffer.from(reaches).toString("base64"),
        shifts: Array.from({ length: size }, (_, rank) => {
          const own = shift(rank === SLOW_HOST ? -0.4 : 0.001 * (rank % 5));
          return { sends: own, receives: own };
        }),
        slow_hosts: [SLOW_HOST],
        slow_links: [{ sender: SLOW_LINK[0], receiver: SLOW_LINK[1], shift: shift(-0.4) }],
      },
    ],
    options_left: 0,
    rounds: Array.from({ length: size - 1 }, (_, round) => ({
      replicate: 0,
      round,
      begin_ns: round * 1.3e9,
      end_ns: round * 1.3e9 + 1.2e9,
      measured: size,
      missing: round === 2 ? 1 : 0,
    })),
    missing: [[`rank ${size - 1} did not join in time`, 1]],
  };
}

const opened = (size: number, options = {}) => open(meshFileOf(planted(size)), options, "#page h2");

/** The colour in the middle of a cell of a map with `size` rows. */
const colour = (page: Page, cell: [number, number], size: number) =>
  page.evaluate(
    ({ cell: [row, column], size }) => {
      const canvas = document.querySelector<HTMLCanvasElement>(".map canvas")!;
      const place = (index: number) => Math.floor(((index + 0.5) / size) * canvas.width);
      return [...canvas.getContext("2d")!.getImageData(place(column), place(row), 1, 1).data];
    },
    { cell, size },
  );

inBrowser("the page of a mesh", () => {
  test.each([16, 200, 1000])("names what is slow among %i hosts", async (size) => {
    const file = meshFileOf(planted(size));
    expect(statSync(file).size).toBeLessThan(5e6);
    const { page, trouble, elements } = await open(file, {}, "#page h2");
    const text = (await page.locator("#page").textContent()) ?? "";
    for (const part of [`Mesh of ${size} hosts`, "node3 to node8", "Slow links", "Not measured", "Rounds"])
      expect(text, part).toContain(part);
    const first = page.locator("table", { hasText: "Receives" }).locator("tbody tr").first();
    expect(await first.textContent()).toMatch(/^node5.*−40\s%\s\(−41 to −39\).*slow$/);
    expect(await elements()).toBeLessThan(100 + 12 * size);
    expect(trouble).toEqual([]);
  });

  test("each cell is described, by the pointer and by keys", async () => {
    const { page } = await opened(16);
    const canvas = page.locator(".map canvas");
    const detail = page.locator(".map .detail");
    const box = (await canvas.boundingBox())!;
    const at = (index: number, side: number) => ((index + 0.5) / 16) * side;
    await canvas.hover({ position: { x: at(8, box.width), y: at(3, box.height) } });
    expect(await detail.textContent()).toMatch(
      /^node3 to node8: 57\d\sMiB\/s \(95 % interval .*\), \d\d\s% below typical$/,
    );
    await canvas.hover({ position: { x: at(0, box.width), y: at(15, box.height) } });
    expect(await detail.textContent()).toBe("node15 to node0: not measured");
    await canvas.focus();
    await page.keyboard.press("ArrowRight");
    expect(await detail.textContent()).toMatch(/^node15 to node1: /);
    expect(await page.locator(".mark").isVisible()).toBe(true);
  });

  test.each(["light", "dark"] as const)("a slow host is orange in the %s", async (colorScheme) => {
    const { page } = await opened(16, { colorScheme });
    const [slow, sound] = [await colour(page, [SLOW_HOST, 1], 16), await colour(page, [2, 1], 16)];
    expect([slow[0]! > 200, slow[2]! < 100]).toEqual([true, true]);
    expect(sound[2]! > 200).toBe(colorScheme === "light");
  });

  test("a large mesh opens by racks", async () => {
    const { page } = await opened(1000);
    // The dot for the slow host.
    expect((await colour(page, [0, 0], 25))[2]).toBeLessThan(100);
    expect((await colour(page, [1, 1], 25))[2]).toBeGreaterThan(200);
    await page.locator(".map canvas").click({ position: { x: 5, y: 5 } });
    expect(await page.locator(".senders span").first().textContent()).toBe("node0");
    await page.locator("button", { hasText: "All racks" }).click();
    expect(await page.locator(".senders span").count()).toBe(25);
    await page.locator("button", { hasText: "All hosts" }).click();
    expect(await page.locator(".map canvas").evaluate((canvas) => (canvas as HTMLCanvasElement).width)).toBe(1000);
  });

  test.each([
    ["light", 1280],
    ["dark", 1280],
    ["light", 360],
    ["dark", 360],
  ] as const)("axe finds nothing serious in the %s at %i pixels", async (colorScheme, width) => {
    const { page } = await opened(16, { colorScheme, viewport: { width, height: 800 } });
    const wide = await page.evaluate("document.documentElement.scrollWidth");
    expect(wide).toBeLessThanOrEqual(width);
    await page.evaluate(axe.source);
    const found = (await page.evaluate("axe.run(document, { resultTypes: ['violations'] })")) as axe.AxeResults;
    const serious = found.violations.filter((each) => each.impact === "serious" || each.impact === "critical");
    expect(serious.map((each) => `${each.id}: ${each.nodes.map((node) => node.target.join(" ")).join(", ")}`)).toEqual(
      [],
    );
  });
});
