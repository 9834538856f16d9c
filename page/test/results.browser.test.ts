// The results of each test, and of a session without a measured option.

import { expect, test } from "vitest";
import { fileOf, inBrowser, open } from "./browser";
import { cell, grid, session } from "./planted";

const plain = (text: string | null) => (text ?? "").replaceAll("\u00a0", " ");

inBrowser("the results in a browser", () => {
  test("a session without results has reasons and steps", async () => {
    const failed = (id: string, label: string) => ({
      ...cell({ id, label, factors: {}, rate: null, outcome: "failed" }),
      reason: `${label} is gone: start it again`,
    });
    const view = session([failed("c1", "server a"), failed("c2", "server b")], { recommended: null });
    view.next = [{ command: "bytegauge call --flows 8", text: "run it again" }];
    const { page, trouble } = await open(fileOf([view]));
    const text = plain(await page.locator("#results").textContent());
    for (const part of [
      "server a  failed: server a is gone: start it again",
      "server b  failed: server b is gone: start it again",
      "bytegauge call --flows 8",
    ])
      expect(text).toContain(part);
    expect(trouble).toEqual([]);
  });

  test("a test is a table with intervals, the recommended option and its code", async () => {
    const view = grid(3, 1);
    const { page, trouble } = await open(fileOf([view]));
    const table = page.locator("#results .test .options");
    expect(await table.locator("tbody tr").count()).toBe(view.tests[0]?.options.length);
    const used = table.locator("tr.used");
    expect(await used.count()).toBe(1);
    expect(plain(await used.textContent())).toContain("0–5 %★ use");
    expect(await used.locator("svg.bound .bar").count()).toBe(1);
    expect(plain(await table.locator("tbody").textContent())).toContain("dropped");
    expect(await page.locator("#results .test code").textContent()).toBe("read(fd, buf, 65536)");
    expect(plain(await page.locator("#results h2").textContent())).toBe("Use 64K: at most 5 % slower than the best.");
    expect(plain(await page.locator("#results ul.summary").first().textContent())).toContain("CPU steal");
    expect(plain(await page.locator("#findings").textContent())).toContain("CPU steal in 1 of 9 trials.");
    expect(await page.locator("#results .command").textContent()).toBe("bytegauge report 1 --full");
    expect(trouble).toEqual([]);
  });

  test("many tests have a row each above their tables", async () => {
    const cells = Array.from({ length: 8 }, (_, at) =>
      cell({ id: `c${at}`, group: `g${at}`, factors: { transport: "tcp", read_size: 1024 }, bound: [0, 0.04] }),
    );
    const { page, trouble } = await open(fileOf([session(cells)]));
    expect(await page.locator("#results .overview tbody tr").count()).toBe(8);
    await page.locator("#results .overview a").nth(2).click();
    expect(await page.locator(".picker select").inputValue()).toBe("g2");
    expect(trouble).toEqual([]);
  });
});
