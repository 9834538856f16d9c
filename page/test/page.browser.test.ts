// The page as a whole: its requests, its files, its accessibility, and unusual sessions.

import { readFileSync } from "node:fs";
import axe from "axe-core";
import { describe, expect, test } from "vitest";
import { fileOf, inBrowser, open, PATIENCE_MS } from "./browser";
import { cell, grid, long, session } from "./planted";

inBrowser("the page in a browser", () => {
  test("has no error and no request", async () => {
    const { page, trouble, elements } = await open(fileOf([grid(5, 4)]));
    expect(await page.locator("#results .test").count()).toBe(1);
    expect(await page.locator("#heatmap svg").count()).toBeGreaterThan(2);
    expect(await page.locator("#heatmap [fill^='url(']").count(), "hatching").toBeGreaterThan(0);
    expect(await elements()).toBeLessThan(2_000);
    await page.evaluate("fetch('https://example.org/').catch(() => {})");
    // Errors of a page can be late.
    await expect.poll(() => trouble.join(" "), { timeout: PATIENCE_MS }).toMatch(/Content Security Policy/);
    expect(trouble.filter((each) => !each.includes("example.org"))).toEqual([]);
  });

  test("dark by the system, light by choice", async () => {
    const { page, trouble } = await open(fileOf([grid(3, 3)]), { colorScheme: "dark" });
    const paper = () => page.evaluate("getComputedStyle(document.body).backgroundColor") as Promise<string>;
    const sum = async () =>
      (await paper())
        .match(/\d+/g)
        ?.slice(0, 3)
        .reduce((all, part) => all + Number(part), 0) ?? 0;
    expect(await sum()).toBeLessThan(150);
    await page.locator("#theme").click();
    expect(await sum()).toBeGreaterThan(600);
    expect(trouble).toEqual([]);
  });

  test("figures and their data are saved", async () => {
    const { page, trouble } = await open(fileOf([grid(4, 4)]));
    const saved = async (name: string) => {
      const [download] = await Promise.all([
        page.waitForEvent("download"),
        page.locator("#heatmap .save button", { hasText: name }).click(),
      ]);
      return { name: download.suggestedFilename(), bytes: readFileSync(await download.path()) };
    };
    const svg = await saved("SVG");
    expect(svg.name).toBe("bytegauge-buffer-size-session1-g1-heatmap.svg");
    const problems = await page.evaluate(
      (text) => new DOMParser().parseFromString(text, "image/svg+xml").querySelectorAll("parsererror").length,
      svg.bytes.toString(),
    );
    expect(problems).toBe(0);
    expect(svg.bytes.toString(), "a saved file has its conditions").toContain("bytegauge buffer-size · session 1 · g1");
    await page.locator("#heatmap .data summary").click();
    expect(
      await page.locator("#heatmap tbody tr").last().locator("td").first().textContent(),
      "sizes to the byte",
    ).toBe("4096");
    const csv = (await saved("CSV")).bytes.toString().split("\n");
    expect(csv[0]).toBe("read_size,write_size,rate,lower,upper,stage,in_best_set,outcome,limit");
    expect(csv).toHaveLength(16 + 2);
    expect((await saved("PNG")).bytes.subarray(1, 4).toString()).toBe("PNG");
    expect(trouble).toEqual([]);
  });

  test("every figure is saved as what it offers, and its data are a table", async () => {
    const { page, trouble } = await open(fileOf([long(grid(5, 4))]));
    const ids = await page.locator("figure").evaluateAll((all) => all.map((each) => each.id));
    expect(ids).toEqual(expect.arrayContaining(["heatmap", "sweep", "over-time"]));
    for (const id of ids) {
      const figure = page.locator(`#${id}`);
      expect(await figure.locator("details.data, table").count(), id).toBeGreaterThan(0);
      const offered = await figure.locator(".save button").allTextContents();
      expect(offered, id).toContain("CSV");
      expect(offered.includes("SVG"), id).toBe((await figure.locator(".drawing svg").count()) > 0);
      for (const name of offered) {
        const [download] = await Promise.all([
          page.waitForEvent("download"),
          figure.locator(".save button", { hasText: name }).click(),
        ]);
        expect(download.suggestedFilename(), "a name for each session").toMatch(
          new RegExp(`^bytegauge-(buffer-size-session1-(g1-)?)?${id}\\.${name.toLowerCase()}$`),
        );
        const bytes = readFileSync(await download.path());
        if (name === "CSV") expect(bytes.toString().split("\n").length, id).toBeGreaterThan(2);
        if (name === "PNG") expect(bytes.subarray(1, 4).toString(), id).toBe("PNG");
        if (name === "SVG") expect(bytes.toString(), id).toMatch(/^<svg [\s\S]*<\/svg>$/);
      }
    }
    expect(trouble).toEqual([]);
  });

  test("the keyboard leads from a result to its evidence", async () => {
    const cells = [
      ...grid(3, 3).cells,
      cell({ id: "x", group: "g2", factors: { transport: "tcp", read_size: 1024, write_size: 1024 } }),
    ];
    const { page } = await open(fileOf([session(cells)]));
    const names: string[] = [];
    for (let step = 0; step < 20; step += 1) {
      await page.keyboard.press("Tab");
      names.push(
        (await page.evaluate(
          "document.activeElement.matches('a') ? document.activeElement.textContent : ''",
        )) as string,
      );
      if (names.at(-1)?.includes("g2")) break;
    }
    expect(names.at(-1)).toContain("g2");
    await page.keyboard.press("Enter");
    expect(await page.locator(".picker select").inputValue()).toBe("g2");
    await page.waitForURL(/#evidence$/);
    const reached = new Set<string>();
    for (let step = 0; step < 60; step += 1) {
      await page.keyboard.press("Tab");
      reached.add((await page.evaluate("document.activeElement.closest('figure')?.id ?? ''")) as string);
    }
    expect([...reached]).toEqual(expect.arrayContaining(["environment"]));
  });

  test.each(["light", "dark"] as const)("axe finds nothing serious in the %s", async (colorScheme) => {
    const { page } = await open(fileOf([grid(5, 4)]), { colorScheme });
    await page.locator("#heatmap .data summary").click();
    await page.locator("#heatmap .data tbody tr").first().waitFor();
    await page.evaluate(axe.source);
    const found = (await page.evaluate("axe.run(document, { resultTypes: ['violations'] })")) as axe.AxeResults;
    const serious = found.violations.filter((each) => each.impact === "serious" || each.impact === "critical");
    expect(serious.map((each) => `${each.id}: ${each.nodes.map((node) => node.target.join(" ")).join(", ")}`)).toEqual(
      [],
    );
  });

  test("markup in names is text", async () => {
    const nasty = "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>";
    const view = session(
      [
        cell({ id: "c1", label: nasty, factors: { transport: nasty, read_size: 1024, write_size: 1024 } }),
        cell({ id: "c2", label: nasty, factors: { transport: nasty, read_size: 2048, write_size: 1024 } }),
      ],
      { name: nasty, varied: ["transport", "read_size"] },
    );
    view.notes.push(nasty);
    view.cautions.push(nasty);
    const { page, trouble } = await open(fileOf([view]));
    expect(await page.evaluate("window.hacked")).toBeUndefined();
    expect(await page.locator("img").count()).toBe(0);
    expect(await page.locator("h1").textContent()).toContain(nasty);
    expect(trouble).toEqual([]);
  });

  describe("odd sessions", () => {
    const failed = (id: string) =>
      cell({ id, factors: { transport: "unix", read_size: 1024, write_size: 1024 }, rate: null, outcome: "failed" });
    const sized = (id: string, rate: number, bound: [number, number]) =>
      cell({
        id,
        factors: { transport: "unix", read_size: Number(id.slice(1)) * 1024, write_size: 1024 },
        rate,
        bound,
      });
    test.each([
      ["one cell", session([cell({ id: "c1", factors: { transport: "unix", read_size: 1024, write_size: 1024 } })])],
      ["all failed", session([failed("c1"), failed("c2")], { recommended: null })],
      ["nothing at all", session([], { recommended: null })],
      [
        "extreme values",
        session([sized("c1", 1e300, [0, 0]), sized("c2", 1e-300, [1e12, 1e300]), sized("c3", 0, [0, 50])]),
      ],
      [
        "a name of a thousand letters",
        session(
          [
            cell({
              id: "c1",
              label: "long ".repeat(200),
              factors: { transport: "x".repeat(1000), read_size: 1024, write_size: 1024 },
              bound: [0, 0.1],
            }),
          ],
          { name: "y".repeat(1000) },
        ),
      ],
    ])("%s", async (_, view) => {
      const { page, trouble } = await open(fileOf([view]));
      expect(trouble).toEqual([]);
      expect(
        await page
          .locator("svg[aria-label*=NaN], svg [d*=NaN], svg [transform*=NaN], svg [x*=NaN], svg [width*=NaN]")
          .count(),
      ).toBe(0);
      expect(await page.evaluate("document.documentElement.scrollWidth"), "nothing sticks out").toBeLessThanOrEqual(
        1280,
      );
    });

    test("ten thousand cells", async () => {
      const { page, trouble, elements } = await open(fileOf([grid(100, 100)]));
      expect(await elements()).toBeLessThan(40_000);
      await page.locator("#heatmap .board").focus();
      await page.keyboard.press("ArrowDown");
      await page.keyboard.press("ArrowRight");
      expect(trouble).toEqual([]);
    });
  });

  test("a hundred thousand trials are no more marks than can be seen", async () => {
    const { page, trouble, elements } = await open(fileOf([long(grid(5, 4))]));
    const drawn = await page.locator("figure").evaluateAll((all) => all.map((each) => each.id));
    expect(drawn).toEqual(expect.arrayContaining(["heatmap", "sweep"]));
    expect(await elements()).toBeLessThan(6_000);
    expect(trouble).toEqual([]);
  });

  test("one of several sessions is selected", async () => {
    const [first, other] = [grid(5, 4), grid(4, 4)];
    other.session = 2;
    const { page, trouble } = await open(fileOf([first, other]));
    expect(await page.title()).toContain("session 1");
    await page.locator("header select").selectOption("1");
    expect(await page.title()).toContain("session 2");
    expect(trouble).toEqual([]);
  });

  test("terms have hints and a list", async () => {
    const { page } = await open(fileOf([long(grid(5, 4))]));
    const hints = await page
      .locator("#heatmap .reading abbr")
      .evaluateAll((all) => all.map((each) => [each.textContent, each.getAttribute("title")]));
    const words = hints.map(([word]) => word);
    expect(words).toEqual(expect.arrayContaining(["interval"]));
    expect(new Set(words).size, "each once").toBe(words.length);
    expect(hints.every(([, title]) => (title ?? "").length > 20)).toBe(true);
    await page.locator("#results .words summary").click();
    expect(await page.locator("#results .words dt").allTextContents()).toEqual(
      expect.arrayContaining(["block", "A/A control", "interval", "margin", "analysis"]),
    );
    expect(await page.locator("#results .words dt").filter({ hasText: /^tcp$/ }).count()).toBe(1);
  });

  test("the figures of some conditions are a list, by the names that they have now", async () => {
    const { page, trouble } = await open(fileOf([grid(5, 4)]));
    await page.locator("#sweep select").first().selectOption("write_size");
    // Open on a wide page.
    const figures = page.locator("#evidence figure");
    const links = page.locator(".index a");
    await expect.poll(() => links.count(), { timeout: PATIENCE_MS }).toBe(await figures.count());
    expect(await links.allTextContents()).toEqual(await figures.locator("h3").allTextContents());
    const last = await links.last().getAttribute("href");
    await links.last().click();
    await page.waitForURL((url) => url.hash === last);
    expect(trouble).toEqual([]);
  });

  test("nothing sticks out on a narrow screen", async () => {
    const { page } = await open(fileOf([grid(5, 4)]), { viewport: { width: 360, height: 800 } });
    expect(await page.evaluate("document.documentElement.scrollWidth")).toBeLessThanOrEqual(360);
  });

  test("print is light and leaves the controls out", async () => {
    const { page } = await open(fileOf([grid(3, 3)]), { colorScheme: "dark" });
    await page.emulateMedia({ media: "print", colorScheme: "dark" });
    expect(await page.evaluate("getComputedStyle(document.body).backgroundColor")).toBe("rgb(255, 255, 255)");
    // The figures are drawn again for paper, after an event.
    await expect
      .poll(
        () =>
          page
            .locator("#sweep svg")
            .first()
            .evaluate((drawing) => getComputedStyle(drawing).color),
        { timeout: PATIENCE_MS },
      )
      .toBe("rgb(28, 25, 23)");
    expect(await page.locator(".tools").isVisible()).toBe(false);
    expect(await page.locator("#heatmap svg").first().isVisible()).toBe(true);
    // As wide as paper is between its margins: there is nothing to scroll there.
    await page.setViewportSize({ width: 718, height: 1000 });
    expect(await page.evaluate("document.documentElement.scrollWidth")).toBeLessThanOrEqual(718);
  });
});
