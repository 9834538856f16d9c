import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { brotliDecompressSync } from "node:zlib";
import axe from "axe-core";
import type { Browser } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { fileOf, open, PATIENCE_MS, program, served, start } from "./browser";
import type { View } from "../src/data";
import { between, cell, grid, long, overTime, session } from "./planted";

const binary = process.env["BYTEGAUGE"];

describe.skipIf(!program)("the page in a browser", () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await start();
  });
  // A page that is left open goes on taking its share of a machine.
  afterEach(async () => {
    for (const context of browser.contexts()) await context.close();
  });
  afterAll(async () => {
    await browser?.close();
  });

  test("complains of nothing and asks nobody for anything", async () => {
    const { page, trouble, elements } = await open(browser, fileOf([grid(5, 4)]));
    expect(await page.locator("#answers .answer:not(.heading)").count()).toBe(1);
    expect(await page.locator("#heatmap svg").count()).toBeGreaterThan(2);
    expect(await page.locator("#heatmap [fill^='url(']").count(), "what was screened is hatched").toBeGreaterThan(0);
    const paths = await page
      .locator("#heatmap .contours path")
      .evaluateAll((all) => all.map((each) => each.getAttribute("d")));
    expect(paths.length, "a line and its halo for each contour").toBeGreaterThan(1);
    expect(paths.every((path) => /^(M[\d.]+,[\d.]+L[\d.]+,[\d.]+)+$/.test(path ?? ""))).toBe(true);
    expect(await elements()).toBeLessThan(2_000);
    await page.evaluate("fetch('https://example.org/').catch(() => {})");
    // What a page complains of comes when it comes.
    await expect.poll(() => trouble.join(" "), { timeout: PATIENCE_MS }).toMatch(/Content Security Policy/);
    expect(trouble.filter((each) => !each.includes("example.org"))).toEqual([]);
  });

  test("a click and the arrow keys change the slices", async () => {
    const { page, trouble } = await open(browser, fileOf([grid(5, 4)]));
    const said = () => page.locator("#heatmap .said").textContent();
    const before = await said();
    await page.locator("#heatmap .board").focus();
    await page.keyboard.press("ArrowRight");
    const right = await said();
    expect(right).not.toBe(before);
    expect(right?.replaceAll("\u00a0", " ")).toContain("read 2 KiB");
    await page.keyboard.press("ArrowUp");
    expect((await said())?.replaceAll("\u00a0", " ")).toContain("write 2 KiB");
    expect((await page.locator("#heatmap .slices").textContent())?.replaceAll("\u00a0", " ")).toContain("write 2 KiB");
    await page.keyboard.press("ArrowLeft");
    await page.keyboard.press("ArrowLeft");
    expect((await said())?.replaceAll("\u00a0", " "), "the edge holds").toContain("read 1 KiB");
    await page.locator("#heatmap .board svg").scrollIntoViewIfNeeded();
    const box = await page.locator("#heatmap .board svg").boundingBox();
    if (!box) throw new Error("a heat map has a place");
    await page.mouse.click(box.x + box.width - 30, box.y + 40);
    expect((await said())?.replaceAll("\u00a0", " ")).toContain("read 5 KiB, write 4 KiB");
    expect(trouble).toEqual([]);
  });

  test("any factor may be the axis, and the choice keeps the focus", async () => {
    const { page, trouble } = await open(browser, fileOf([grid(5, 4)]));
    const across = page.locator("#sweep select").first();
    await across.focus();
    await across.selectOption("write_size");
    expect(await page.locator("#sweep h3").textContent()).toContain("write");
    expect(await page.evaluate("document.activeElement === document.querySelector('#sweep select')")).toBe(true);
    await page.locator("#sweep select").nth(3).selectOption("mean");
    await page.locator("#sweep select").nth(4).selectOption("cpu");
    expect(await page.locator("#sweep .drawing svg").count()).toBeGreaterThan(1);
    expect(trouble).toEqual([]);
  });

  test("another factor for x, colour and panels, of any plan", async () => {
    // Three factors with two, three and two levels, each cell with a rate of its own.
    const cells = ["unix", "tcp"].flatMap((transport) =>
      [1, 4, 16].flatMap((read) =>
        ["cubic", "bbr"].map((congestion) =>
          cell({
            id: `${transport}-${read}-${congestion}`,
            factors: { transport, read_size: read * 1024, write_size: 1024, congestion },
            rate: 1e9 + read * 1e7 + (transport === "tcp" ? 1e6 : 0) + (congestion === "bbr" ? 1e5 : 0),
          }),
        ),
      ),
    );
    const names = { transport: "transport", read_size: "read size", congestion: "cc" };
    const levels = {
      transport: ["unix", "tcp"],
      read_size: ["1 KiB", "4 KiB", "16 KiB"],
      congestion: ["cubic", "bbr"],
    };
    type Name = keyof typeof names;
    const all = Object.keys(names) as Name[];
    const { page, trouble } = await open(browser, fileOf([session(cells, { varied: all })]));
    const list = (at: number) => page.locator("#sweep select").nth(at);
    const texts = async (place: string) =>
      (await page.locator(place).allTextContents()).map((text) => text.replaceAll("\u00a0", " "));
    for (const x of all) {
      for (const colour of all.filter((name) => name !== x)) {
        const facet = all.find((name) => name !== x && name !== colour) as Name;
        await list(2).selectOption("");
        await list(1).selectOption("");
        await list(0).selectOption(x);
        await list(1).selectOption(colour);
        await list(2).selectOption(facet);
        const what = `${x} by ${colour} in ${facet}`;
        expect(await page.locator("#sweep h3").textContent(), what).toBe(`Throughput by ${names[x]}`);
        expect(await page.locator("#sweep .side svg").count(), what).toBe(levels[facet].length);
        const panels = await texts("#sweep .side svg text");
        for (const level of levels[x]) expect(panels, what).toContain(level);
        for (const level of levels[facet])
          expect(panels.join(" | "), what).toContain(`${names[facet].replace(" size", "")} ${level}`);
        const key = (await texts("#sweep .drawing > svg text")).filter((text) => text !== "");
        expect(key, what).toEqual([names[colour], ...levels[colour]]);
        // Each cell has its mark, filled since all were confirmed.
        await page.locator("#sweep .data summary").click();
        await expect.poll(() => page.locator("#sweep tbody tr").count(), { timeout: PATIENCE_MS }).toBe(cells.length);
        expect((await texts("#sweep thead th")).slice(0, 3), what).toEqual([x, colour, facet]);
        await page.locator("#sweep .data summary").click();
      }
    }
    // What is chosen for one place is offered for no other.
    await list(0).selectOption("congestion");
    expect(
      await list(1)
        .locator("option")
        .evaluateAll((each) => each.map((one) => (one as HTMLOptionElement).value)),
    ).toEqual(expect.not.arrayContaining(["congestion"]));
    expect(trouble).toEqual([]);
  });

  test("panels beside each other have all levels, also where one of them knows fewer", async () => {
    const sized = (size: number) =>
      cell({ id: `c${size}`, factors: { transport: "unix", read_size: size * 1024, write_size: 1024 } });
    const cells = [1, 4, 16, 64].map(sized);
    // How long a call takes is known of the largest sizes alone.
    for (const each of cells.slice(2))
      each.more = { ns_per_call: { metric: "ns_per_call", unit: "ns", median: 5e4, lower: 4e4, upper: 6e4 } };
    const { page, trouble } = await open(browser, fileOf([session(cells, { varied: ["read_size"] })]));
    expect(await page.locator("#sweep h3").textContent()).toBe("Throughput and time per call by read size");
    const panels = await page.locator("#sweep .side svg").evaluateAll((all) =>
      all.map((panel) => {
        const { left, right } = panel.getBoundingClientRect();
        return [...panel.querySelectorAll("text")]
          .filter((text) => /KiB$/.test(text.textContent ?? ""))
          .map((text) => text.getBoundingClientRect())
          .map((box) => box.left >= left && box.right <= right + 1);
      }),
    );
    expect(panels).toEqual([Array(4).fill(true), Array(4).fill(true)]);
    expect(trouble).toEqual([]);
  });

  test("an answer with something against it, its number, its code and what is its peer's", async () => {
    const view = grid(2, 1);
    const [row] = view.answer.use.rows;
    const [group] = view.groups;
    if (!row || !group) throw new Error("a grid has an answer");
    const named = view.cells.find((each) => each.id === group.recommendation.cell);
    if (named) named.limit = { name: "unknown", sentence: "CPU time was not recorded", evidence: {} };
    row.note = "not by its second trials: NOISE";
    row.code = ["read(fd, buf, 65536)"];
    row.peer_code = ["write(fd, buf, 1024)"];
    row.shown = ["auto"];
    view.answer.use.choices = [{ factor: "congestion", heading: "TCP_CONGESTION", auto: "bbr" }];
    group.recommendation.survives_exchange = false;
    group.twin = { exchanged_bound: 0.078 } as unknown as NonNullable<typeof group.twin>;
    view.answer.next = ["bytegauge run buffer-size --resume 1 --until proven", "179 s at most"];
    view.answer.avoid = [
      {
        question: "g1 unix",
        group: "g1",
        factor: "read_size",
        heading: "read",
        against: "256K",
        levels: [{ level: "4K", dearer_lower: 0.3, dearer_upper: 0.5 }],
      },
    ];
    const { page, trouble } = await open(browser, fileOf([view]));
    const text = async (place: string) => ((await page.locator(place).textContent()) ?? "").replaceAll("\u00a0", " ");
    expect(await text("#answers .summary")).toContain("0 of 1 answer is plainly shown to be within 5 %");
    expect(await page.locator(".answers .mark.contested").textContent()).toBe("✓?");
    expect(await text(".answers .choice .note"), "beside the choice").toBe("not by its second trials: Noise");
    expect(await text(".picker .known"), "the evidence tells the doubt as well").toBe(
      "✓? Shown, but something speaks against it: not by its second trials (by these ≤ 7.8 % more time).",
    );
    expect(await text(".answers .within")).toContain("≤ 7.8 %");
    expect(await text(".answers .limit"), "no more is said than was recorded").toBe(
      "no limit foundCPU time was not recorded",
    );
    expect(await page.locator(".answers .note a").getAttribute("href")).toBe("#noise");
    expect(await page.locator(".answers .code > code").textContent()).toBe("read(fd, buf, 65536)");
    expect(await text(".answers .code small")).toBe("beside a peer with write(fd, buf, 1024)");
    expect(await text(".answers .choice b")).toBe("auto (= bbr here)");
    expect(await text("#avoid tbody")).toBe("g1 unixread 4K30 % to 50 % more than read 256K");
    const command = page.locator(".command code").first();
    expect(await command.textContent()).toBe(view.answer.next[0]);
    expect(await command.evaluate((code) => getComputedStyle(code).whiteSpace)).toBe("pre");
    expect(trouble).toEqual([]);
  });

  test("where one block was measured: no column of bounds, no lines, and the second trials by their name", async () => {
    const view = grid(3, 1);
    for (const row of view.answer.use.rows) Object.assign(row, { within: null, standing: "doubtful" });
    for (const each of view.cells) {
      each.trials = 1;
      each.stage = "confirm";
      Object.assign(each, { above_best_upper: null, above_best_lower: null });
      Object.assign(each.estimate, { lower: null, upper: null });
    }
    const [group] = view.groups;
    const [first] = view.cells;
    if (!group || !first) throw new Error("a grid has cells");
    group.best_set = [];
    group.blocks.used = 1;
    view.cells.push({ ...first, id: "t", kind: "twin" });
    const both = [first.id, "t"].map((cell) => ({ cell, rate: [1e9] }));
    group.course = { blocks_per_point: 1, block: [0], at_ns: [1e9], steal_share: [0], cells: both };
    group.label = "unix · sum";
    group.recommendation.text = "Unix · sum: not proven (1 usable block).";
    view.notes = ["g5: not steady", "the harness takes 2 %", "g6: not steady"];
    view.answer.next = [
      "bytegauge doctor",
      "says what disturbs; if they cannot rest:",
      "bytegauge call --resume 1",
      "5 s",
    ];
    const { page, trouble } = await open(browser, fileOf([view]));
    expect(await page.locator("#answers .picture").count()).toBe(0);
    expect(await page.locator(".picker .reading").textContent()).toContain("3 cells measured, 1 block of confirmation");
    expect(await page.locator("#sweep .reading").textContent()).toContain("One trial each");
    const lines = "#sweep .side svg path[stroke-width='2'], #sweep .side svg g[stroke-width='2'] path";
    expect(await page.locator(lines).count()).toBe(0);
    const several = await open(browser, fileOf([grid(3, 1)]));
    expect(await several.page.locator(lines).count()).toBeGreaterThan(0);
    expect(await page.locator("#course").evaluate((line) => line.tagName), "one block has no course").toBe("P");
    expect(await page.locator("#course").textContent()).toContain("from two blocks on");
    expect(await page.locator(".picker .verdict").textContent(), "what stands above it is not told again").toBe(
      "Not proven (1 usable block).",
    );
    expect(await page.locator("#notes li").allTextContents()).toEqual([
      "g5, g6: not steady",
      "the harness takes 2\u00a0%",
    ]);
    const twice = both.map(({ cell }) => ({ cell, rate: [1e9, 1.1e9] }));
    group.course = { blocks_per_point: 1, block: [0, 1], at_ns: [1e9, 2e9], steal_share: [0, 0], cells: twice };
    const two = await open(browser, fileOf([view]));
    expect(await two.page.locator("#course .reading").textContent()).toContain("The host took no CPU time");
    expect(await two.page.locator("#course .drawing > svg").count(), "nothing to draw of it").toBe(2);
    const legend = (await two.page.locator("#course svg text").allTextContents()).filter((text) =>
      text.startsWith(first.label),
    );
    expect(legend).toEqual([first.label, `${first.label}, second trials`]);
    expect((await page.locator("#cells tbody").textContent()) ?? "").toContain("not known");
    expect(await page.locator("#answers .command code").allTextContents()).toEqual(
      expect.arrayContaining(["bytegauge doctor", "bytegauge call --resume 1"]),
    );
    expect(trouble).toEqual([]);
  });

  test("the cells of a wide page are seen in full", async () => {
    const view = grid(3, 3);
    for (const each of view.cells)
      each.limit.sentence =
        "the writer runs 91 % of the time, the reader 82 % (of all trials together CPU time is: they made 2.1)";
    const { page } = await open(browser, fileOf([view]));
    const [needed, has] = await page
      .locator("#cells .table")
      .evaluate((table) => [table.scrollWidth, table.clientWidth] as const);
    expect(needed).toBeLessThanOrEqual(has);
  });

  test("an answer that says nothing stands like the others", async () => {
    const cells = ["g1", "g2"].map((group) =>
      cell({ id: group, group, factors: { transport: group, read_size: 1024, write_size: 1024 } }),
    );
    const view = session(cells);
    const [, none] = view.answer.use.rows;
    if (!none) throw new Error("two groups have two answers");
    none.standing = "nothing";
    const { page } = await open(browser, fileOf([view]));
    const left = await page
      .locator("#answers .answer:not(.heading) .question")
      .evaluateAll((all) => all.map((each) => each.getBoundingClientRect().left));
    expect(left[0]).toBe(left[1]);
  });

  test("dark by the system, light by choice", async () => {
    const { page, trouble } = await open(browser, fileOf([grid(3, 3)]), { colorScheme: "dark" });
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
    const { page, trouble } = await open(browser, fileOf([grid(4, 4)]));
    const saved = async (name: string) => {
      const [download] = await Promise.all([
        page.waitForEvent("download"),
        page.locator("#heatmap .save button", { hasText: name }).click(),
      ]);
      return { name: download.suggestedFilename(), bytes: readFileSync(await download.path()) };
    };
    const svg = await saved("SVG");
    expect(svg.name).toBe("bytegauge-heatmap.svg");
    const problems = await page.evaluate(
      (text) => new DOMParser().parseFromString(text, "image/svg+xml").querySelectorAll("parsererror").length,
      svg.bytes.toString(),
    );
    expect(problems).toBe(0);
    expect(svg.bytes.toString(), "whoever sees it elsewhere sees what it holds for").toContain(
      "bytegauge buffer-size · session 1 · unix · g1",
    );
    await page.locator("#heatmap .data summary").click();
    expect(
      await page.locator("#heatmap tbody tr").last().locator("td").first().textContent(),
      "sizes to the byte",
    ).toBe("4096");
    const csv = (await saved("CSV")).bytes.toString().split("\r\n");
    expect(csv[0]).toBe("read_size,write_size,rate,lower,upper,stage,in_best_set,outcome,limit");
    expect(csv).toHaveLength(16 + 2);
    expect((await saved("PNG")).bytes.subarray(1, 4).toString()).toBe("PNG");
    expect(trouble).toEqual([]);
  });

  test("every figure is saved as what it offers, and its data are a table", async () => {
    const { page, trouble } = await open(browser, fileOf([long(grid(5, 4))]));
    const ids = await page.locator("figure").evaluateAll((all) => all.map((each) => each.id));
    expect(ids).toEqual(
      expect.arrayContaining(["forest", "heatmap", "sweep", "over-time", "course", "cost", "twins", "audit"]),
    );
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
        expect(download.suggestedFilename()).toBe(`bytegauge-${id}.${name.toLowerCase()}`);
        const bytes = readFileSync(await download.path());
        if (name === "CSV") expect(bytes.toString().split("\r\n").length, id).toBeGreaterThan(2);
        if (name === "PNG") expect(bytes.subarray(1, 4).toString(), id).toBe("PNG");
        if (name === "SVG") expect(bytes.toString(), id).toMatch(/^<svg [\s\S]*<\/svg>$/);
      }
    }
    expect(trouble).toEqual([]);
  });

  test("the keyboard alone leads from an answer to its evidence", async () => {
    const cells = [
      ...grid(3, 3).cells,
      cell({ id: "x", group: "g2", factors: { transport: "tcp", read_size: 1024, write_size: 1024 } }),
    ];
    const { page } = await open(browser, fileOf([session(cells)]));
    const names: string[] = [];
    for (let step = 0; step < 12; step += 1) {
      await page.keyboard.press("Tab");
      names.push((await page.evaluate("document.activeElement.textContent")) as string);
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
    expect([...reached]).toEqual(expect.arrayContaining(["forest", "cells", "environment"]));
  });

  test.each(["light", "dark"] as const)("axe finds nothing serious in the %s", async (colorScheme) => {
    const { page } = await open(browser, fileOf([grid(5, 4)]), { colorScheme });
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
    view.answer.why.push(nasty);
    const { page, trouble } = await open(browser, fileOf([view]));
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
      const { page, trouble } = await open(browser, fileOf([view]));
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
      const { page, trouble, elements } = await open(browser, fileOf([grid(100, 100)]));
      expect(await elements()).toBeLessThan(40_000);
      await page.locator("#heatmap .board").focus();
      await page.keyboard.press("ArrowDown");
      await page.keyboard.press("ArrowRight");
      expect(trouble).toEqual([]);
    });
  });

  test("a hundred thousand trials are no more marks than can be seen", async () => {
    const { page, trouble, elements } = await open(browser, fileOf([long(grid(5, 4))]));
    const drawn = await page.locator("figure").evaluateAll((all) => all.map((each) => each.id));
    expect(drawn).toEqual(expect.arrayContaining(["audit", "course", "cost", "twins"]));
    expect(await elements()).toBeLessThan(6_000);
    await page.locator("#cost select").selectOption("writer");
    expect(await page.locator("#cost h3").textContent()).toContain("writer");
    expect(trouble).toEqual([]);
  });

  test("a break of the cost model beyond all that was measured has no place in its drawing", async () => {
    const broken = async (at_bytes: number) => {
      const view = long(grid(5, 4));
      for (const { cost_model: model } of view.groups)
        for (const each of model.reader?.breaks ?? []) each.at_bytes = at_bytes;
      const { page } = await open(browser, fileOf([view]));
      return (await page.locator("#cost svg text").allTextContents()).filter((text) => text.startsWith("break at"));
    };
    expect(await broken(2048)).toHaveLength(1);
    expect(await broken(1 << 20)).toEqual([]);
  });

  test("several sessions stand side by side", async () => {
    const [first, other] = [grid(5, 4), grid(4, 4)];
    other.session = 2;
    const { page, trouble } = await open(browser, fileOf([first, other], between(first, other)));
    expect(await page.locator("#same-cells h3").textContent()).toContain("other sessions");
    await page.locator("#same-cells .data summary").click();
    // A table is filled when its element says that it was opened, which is later than the click.
    await expect.poll(() => page.locator("#same-cells tbody tr").count(), { timeout: PATIENCE_MS }).toBe(32);
    const words = (await page.locator("#apart svg text").allTextContents()).map((each) =>
      each.replaceAll("\u00a0", " "),
    );
    expect(words).toEqual(expect.arrayContaining(["takes more", "takes less", "within 5 %", "open"]));
    expect(await page.locator("#apart h3").textContent()).toBe("Linux 6.18 against Linux 6.1");
    expect((await page.locator("#travelled svg text").allTextContents()).join(" ")).toContain("contradicted");
    expect(await page.locator("#others td").allTextContents()).toEqual([
      "1 takes more, 1 takes less, 1 within 5\u00a0%, 1 open",
      "1 contradicted, 1 holds",
    ]);
    await page.locator("header select").selectOption("1");
    expect(await page.title()).toContain("session 2");
    await page.locator("#others a").click();
    expect(await page.locator("#apart svg").count(), "the question stands in both sessions").toBeGreaterThan(0);
    expect(trouble).toEqual([]);
  });

  test("a page that is served follows its session, and leaves the reader where he is", async () => {
    const of = (status: "running" | "complete", text: string) => {
      const view = grid(3, 3);
      view.status = status;
      for (const group of view.groups) group.recommendation.text = text;
      return view;
    };
    const server = await served(of("running", "First."));
    try {
      const { page, trouble } = await open(browser, server.address);
      const said = () => page.locator(".picker .verdict").textContent();
      const soon = { timeout: PATIENCE_MS };
      await expect.poll(() => page.locator("#live-line b").textContent(), soon).toBe("Live");
      await page.locator("#heatmap .data summary").click();
      await page.locator("#heatmap .board").focus();
      await page.keyboard.press("ArrowRight");
      const chosen = await page.locator("#heatmap .said").textContent();
      server.show(of("running", "Second."));
      await expect.poll(said, soon).toBe("Second.");
      expect(await page.locator("#heatmap .said").textContent()).toBe(chosen);
      expect(await page.locator("#heatmap details[open]").count()).toBe(1);
      expect(await page.evaluate("document.activeElement?.closest('figure')?.id")).toBe("heatmap");
      await page.locator("#live-line button").click();
      expect(await page.locator("#live-line b").textContent()).toBe("Paused");
      server.show(of("complete", "Third."));
      expect(await said()).toBe("Second.");
      await page.locator("#live-line button").click();
      await expect.poll(said, soon).toBe("Third.");
      expect(await page.locator("#live-line b").textContent()).toBe("Ended");
      expect(trouble).toEqual([]);
    } finally {
      server.close();
    }
  });

  test("a page whose server has gone says so, and keeps what it has", async () => {
    const view = grid(3, 3);
    view.status = "running";
    const server = await served(view);
    const { page } = await open(browser, server.address);
    server.close();
    await expect
      .poll(() => page.locator("#live-line b").textContent(), { timeout: PATIENCE_MS })
      .toBe("Nobody answers");
    expect(await page.locator("#heatmap svg").count()).toBeGreaterThan(2);
  });

  test("the verdict on two stands first, with its interval", async () => {
    const view = grid(2, 1);
    const side = (cell: string, words: string) => ({ cell, words, differs: {}, trials: 12, rate: 1e9 });
    view.versus = {
      a: side("c0-0", "run:stream <b>"),
      b: side("c1-0", "run:stream --fast"),
      alike: "transport unix",
      cost: "time",
      longer: 0.2,
      lower: 0.15,
      upper: 0.25,
      blocks: 12,
      level: 0.95,
      margin: 0.05,
      verdict: "worse",
      text: "b is worse: b takes 20 % longer",
    } as unknown as NonNullable<typeof view.versus>;
    const { page, trouble } = await open(browser, fileOf([view]));
    const headings = await page.locator("main h2").allTextContents();
    expect(headings[0]).toBe("The two against each other");
    expect(await page.locator("#verdict").textContent()).toContain("b is worse: b takes 20\u00a0% longer");
    expect(await page.locator("#verdict code").first().textContent(), "words are text").toBe("run:stream <b>");
    expect((await page.locator("#versus svg text").allTextContents()).join(" ")).toContain("b is worse");
    expect(await page.locator("#verdict .both tbody tr").count()).toBe(2);
    expect(await page.locator("#answers .answer").count(), "no second answer by another level").toBe(0);
    expect(trouble).toEqual([]);
  });

  test("how far two are apart is told on one scale, with its ends and the level of its look", async () => {
    const view = grid(2, 1);
    const side = (cell: string) => ({ cell, words: cell, differs: {}, trials: 12, rate: 1e9 });
    view.versus = {
      ...{ a: side("c0-0"), b: side("c1-0"), alike: "", cost: "time" },
      ...{ longer: -0.096, lower: -2.36, upper: 1.8, blocks: 12, level: 0.983, margin: 0.05 },
      ...{ verdict: "open", text: "not decided" },
    } as unknown as NonNullable<typeof view.versus>;
    for (const width of [1280, 390]) {
      const { page, trouble } = await open(browser, fileOf([view]), { viewport: { width, height: 900 } });
      const marks = (await page.locator("#versus svg text").allTextContents()).map((text) =>
        text.replaceAll("\u00a0", " "),
      );
      expect(marks).toEqual(expect.arrayContaining(["3.36 ×", "1.1 ×", "2.8 ×", "2 ×", "1 ×"]));
      expect(marks.filter((text) => /[%−]/.test(text))).toEqual([]);
      expect(await page.locator("#versus .reading").textContent()).toContain("98.3\u00a0%");
      expect(trouble).toEqual([]);
    }
  });

  test("calls that fail are seen beside the choice, which is not called for in bold", async () => {
    const cells = ["g1", "g2"].map((group) =>
      cell({ id: group, group, factors: { transport: group, read_size: 1024, write_size: 1024 }, bound: [0, 0.4] }),
    );
    const [bad] = cells;
    if (bad) bad.call = { failed_share: 0.285, errors: [] } as unknown as NonNullable<typeof bad.call>;
    const view = session(cells);
    const [row, other] = view.answer.use.rows;
    const [group] = view.groups;
    if (!row || !other || !group) throw new Error("two groups have two answers");
    Object.assign(row, { standing: "doubtful", note: "28.5 % of its calls fail", within: null });
    Object.assign(other, { standing: "proven", shown: ["64 KiB"] });
    group.recommendation.proven = false;
    const { page, trouble } = await open(browser, fileOf([view]));
    const weights = await page
      .locator("#answers .pair b")
      .evaluateAll((all) => all.map((each) => Number(getComputedStyle(each).fontWeight)));
    expect(weights).toEqual([400, 700]);
    const plain = (text: string | null) => text?.replaceAll("\u00a0", " ");
    expect(plain(await page.locator("#answers .choice .note").textContent())).toBe("28.5 % of its calls fail");
    expect(plain((await page.locator("#forest svg text").allTextContents()).join(" | "))).toContain(
      "▸ g1, 28.5 % of its calls fail",
    );
    expect(plain(await page.locator("#forest .reading").textContent())).toContain(
      "▸ leads so far, and is not shown to be good; 28.5 % of its calls fail",
    );
    expect(trouble).toEqual([]);
  });

  test("a bound at nothing is seen, and so are the margin and what lies beyond the scale", async () => {
    const cells = [
      cell({ id: "c1", factors: { transport: "unix", read_size: 1024, write_size: 1024 }, bound: [0, 0] }),
      cell({ id: "c2", factors: { transport: "unix", read_size: 2048, write_size: 1024 }, bound: [0.25, 3.8] }),
      cell({ id: "c3", factors: { transport: "unix", read_size: 4096, write_size: 1024 }, bound: [14.6, 30] }),
    ];
    const { page, trouble } = await open(browser, fileOf([session(cells)]));
    const forest = page.locator("#forest .side svg").first();
    const [margin] = await forest.locator("rect").evaluateAll((all) => all.map((each) => each.getBoundingClientRect()));
    expect(margin?.width, "5 % where bars reach to 900 %").toBeGreaterThan(10);
    const ends = forest.locator('g[stroke-width="2.5"] line');
    expect(await ends.count()).toBe(2);
    expect(await forest.locator("text").allTextContents()).toContain("at least 1460\u00a0%");
    expect(trouble).toEqual([]);
  });

  test("a difference without an interval has nothing that looks like one", async () => {
    const view = long(grid(3, 1));
    for (const group of view.groups) {
      group.audit = null;
      if (group.twin) Object.assign(group.twin, { difference: 0.12, lower: null, upper: null });
    }
    const { page, trouble } = await open(browser, fileOf([view]));
    const drawing = page.locator("#twins .drawing svg").first();
    const guide = drawing.locator('g[stroke-dasharray="1 5"] line');
    expect(await guide.count()).toBe(1);
    const [from = 0, to = 0] = await guide.evaluate((line) =>
      [line.getAttribute("x1"), line.getAttribute("x2")].map(Number),
    );
    const [first = 0, last = 0] = await drawing
      .locator("g line[x1]")
      .evaluateAll((all) => all.map((each) => Number(each.getAttribute("x1"))).sort((a, b) => a - b))
      .then((all) => [all[0] ?? 0, all.at(-1) ?? 0]);
    expect(from, "from end to end").toBeLessThanOrEqual(first);
    expect(to).toBeGreaterThanOrEqual(last);
    expect(trouble).toEqual([]);
  });

  test("what to avoid is seen whole on a phone, and a table that is cut off shows it", async () => {
    const view = grid(3, 3);
    view.answer.avoid = [
      {
        question: "g1 unix, reads all",
        group: "g1",
        factor: "read_size",
        heading: "SO_RCVBUF",
        against: "the best",
        levels: [{ level: "1K", dearer_lower: 0.63, dearer_upper: 2.36 }],
      },
    ];
    const { page } = await open(browser, fileOf([view]), { viewport: { width: 360, height: 800 } });
    const [needed, has] = await page
      .locator("#avoid .table")
      .evaluate((table) => [table.scrollWidth, table.clientWidth] as const);
    expect(needed).toBeLessThanOrEqual(has);
    expect(await page.locator("#cells .table").evaluate((table) => getComputedStyle(table).backgroundImage)).toContain(
      "linear-gradient",
    );
  });

  test("a logarithmic scale of colours says so, and every line has its entry", async () => {
    const view = grid(30, 30);
    for (const [at, each] of view.cells.entries()) each.estimate.median = 1e7 * 1.01 ** at;
    const { page } = await open(browser, fileOf([view]));
    const keys = await page.locator("#heatmap svg.key text").allTextContents();
    expect(keys).toEqual(expect.arrayContaining(["may be the best", "confirmed"]));
    expect(keys.join(" ")).toContain("on a logarithmic scale");
    const even = await open(browser, fileOf([grid(5, 4)]));
    expect((await even.page.locator("#heatmap svg.key text").allTextContents()).join(" ")).not.toContain("logarithmic");
  });

  test("what a program gains stands first, with its interval", async () => {
    const view = grid(2, 1);
    view.check = {
      program: "dd",
      metric: "wall",
      default: "512 B",
      gains: [
        { group: "g1", cell: "c0-0", default: "512 B", gain: 26, lower: 14, upper: 47, text: "64 KiB gains 2600 %" },
      ],
      advice: [],
      left_behind: 0,
      stopped_by_force: 2,
    } as unknown as NonNullable<typeof view.check>;
    const { page, trouble } = await open(browser, fileOf([view]));
    expect(await page.locator("#verdict").textContent()).toContain("64 KiB gains 2600\u00a0%");
    expect(await page.locator("#verdict").textContent()).toContain("2 times the server was stopped by force");
    const marks = (await page.locator("#gains svg text").allTextContents()).join(" ").replaceAll("\u00a0", " ");
    expect(marks, "what is gained lies within the axis").not.toContain("▶");
    expect(trouble).toEqual([]);
  });

  test("one session has nobody beside it", async () => {
    const { page } = await open(browser, fileOf([grid(3, 3)]));
    expect(await page.locator("#others, #apart, #travelled, #same-cells").count()).toBe(0);
  });

  test("how a long trial went: each flow thin, their sum bold, of many flows no more than can be seen", async () => {
    const view = long(grid(3, 2));
    const { page, trouble } = await open(browser, fileOf([view]));
    const figure = page.locator("#over-time");
    expect(await figure.locator("h3").textContent()).toBe("Throughput over time, in one long trial");
    expect(await figure.locator(".reading").textContent()).toContain("Above all 3 flows together, below each of them");
    const lines = (panel: number, thick: number) =>
      `.drawing > svg:nth-child(${panel}) g[stroke-width="${thick}"] path`;
    expect(await figure.locator(lines(1, 2.6)).count()).toBe(1);
    expect(await figure.locator(lines(2, 1.2)).count(), "on a scale of their own").toBe(3);
    const said = () => figure.locator(".drawing svg text").allTextContents();
    expect(await said()).toEqual(expect.arrayContaining(["all flows together", "flow 1", "flow 3"]));
    await figure.locator(".data summary").click();
    await expect.poll(() => figure.locator("tbody tr").count(), { timeout: PATIENCE_MS }).toBe(40);
    expect(await figure.locator("thead th").allTextContents()).toEqual([
      "from_ns",
      "to_ns",
      "rate",
      "flow_1",
      "flow_2",
      "flow_3",
    ]);
    for (const group of view.groups) group.over_time = overTime(view.cells[0]?.id ?? "", 64, 1000);
    const many = await open(browser, fileOf([view]), { viewport: { width: 360, height: 800 } });
    const texts = await many.page.locator("#over-time .drawing svg text").allTextContents();
    expect(texts).toContain("each of 64 flows");
    expect(texts).not.toContain("flow 1");
    expect(await many.page.evaluate("document.documentElement.scrollWidth")).toBeLessThanOrEqual(360);
    expect(await many.elements()).toBeLessThan(6_000);
    const none = await open(browser, fileOf([grid(3, 2)]));
    expect(await none.page.locator("#over-time").count()).toBe(0);
    expect([...trouble, ...many.trouble]).toEqual([]);
  });

  test.each([
    [30, 1280],
    [30, 390],
    [100, 1280],
    [100, 390],
  ])(
    "a map of %d levels each way on %d pixels: labels apart, no hatching, no higher than a screen",
    async (many, wide) => {
      const { page, trouble } = await open(browser, fileOf([grid(many, many)]), {
        viewport: { width: wide, height: 900 },
      });
      expect(await page.locator("#heatmap [fill^='url(']").count()).toBe(0);
      expect(await page.locator("#heatmap .reading").textContent()).toContain("Framed: confirmed");
      expect(await page.locator("#heatmap .frames").getAttribute("d"), "a line around what was confirmed").toMatch(
        /^M/,
      );
      const map = await page.locator("#heatmap .board svg").first().boundingBox();
      expect(map?.height).toBeLessThan(720);
      const boxes = await page.locator("#heatmap .board svg text").evaluateAll((all) =>
        all
          .filter((each) => /\d.[KM]iB$/.test(each.textContent ?? ""))
          .map((each) => each.getBoundingClientRect())
          .map(({ left, right, top, bottom }) => ({ left, right, top, bottom })),
      );
      const lowest = Math.max(...boxes.map((box) => box.top));
      const across = boxes.filter((box) => box.top > lowest - 2).sort((a, b) => a.left - b.left);
      const down = boxes.filter((box) => box.top <= lowest - 2).sort((a, b) => a.top - b.top);
      expect(Math.min(across.length, down.length)).toBeGreaterThan(2);
      across.slice(1).forEach((box, at) => expect(box.left).toBeGreaterThan(across[at]?.right ?? 0));
      // The boxes of letters have room of their own above and below.
      down.slice(1).forEach((box, at) => expect(box.top).toBeGreaterThan((down[at]?.bottom ?? 0) - 3));
      expect(trouble).toEqual([]);
    },
  );

  test("marks at the ends of their axes are seen whole", async () => {
    const sizes = [1, 4].map((size) =>
      cell({ id: `c${size}`, factors: { transport: "unix", read_size: size * 1024, write_size: 1024 } }),
    );
    for (const [at, each] of sizes.entries())
      for (const [part, ns] of Object.entries({ p50: 2e4, p90: 5e4, p99: 9e4 }))
        each.more[`total_${part}_ns`] = { metric: part, unit: "ns", median: ns * (at + 1), lower: null, upper: null };
    const { page, trouble } = await open(browser, fileOf([session(sizes, { varied: ["read_size"] })]));
    const cut = await page.locator("#percentiles .drawing > svg").evaluate((drawing) => {
      const { left, bottom } = drawing.getBoundingClientRect();
      const marks = [...drawing.querySelectorAll("g:not([aria-hidden]) > :is(circle, path[transform])")].map((each) =>
        each.getBoundingClientRect(),
      );
      // The margins of the drawing.
      return {
        marks: marks.length,
        cut: marks.filter((box) => box.left < left + 62 || box.bottom > bottom - 40).length,
      };
    });
    expect(cut).toEqual({ marks: 6, cut: 0 });
    expect(trouble).toEqual([]);
  });

  test("words say what they mean where they are used first, and in a list", async () => {
    const { page } = await open(browser, fileOf([long(grid(5, 4))]));
    const hints = await page
      .locator("#twins .reading abbr")
      .evaluateAll((all) => all.map((each) => [each.textContent, each.getAttribute("title")]));
    const words = hints.map(([word]) => word);
    expect(words).toEqual(expect.arrayContaining(["block", "second trials", "interval", "margin"]));
    expect(new Set(words).size, "each once").toBe(words.length);
    expect(hints.every(([, title]) => (title ?? "").length > 20)).toBe(true);
    await page.locator("#answers .words summary").click();
    expect(await page.locator("#answers .words dt").allTextContents()).toEqual(
      expect.arrayContaining(["block", "second trials", "bound", "screened", "confirmed", "margin", "look"]),
    );
  });

  test("the figures of some conditions are a list, by the names that they have now", async () => {
    const { page, trouble } = await open(browser, fileOf([grid(5, 4)]));
    await page.locator("#sweep select").first().selectOption("write_size");
    // On a wide page it stands open.
    const figures = page.locator("#evidence figure");
    const links = page.locator(".index a");
    await expect.poll(() => links.count(), { timeout: PATIENCE_MS }).toBe(await figures.count());
    expect(await links.allTextContents()).toEqual(await figures.locator("h3").allTextContents());
    await links.last().click();
    await page.waitForURL(/#cells$/);
    expect(trouble).toEqual([]);
  });

  test("many answers are short on a phone, until one is asked for", async () => {
    const cells = Array.from({ length: 6 }, (_, at) =>
      cell({
        id: `g${at}`,
        group: `g${at}`,
        factors: { transport: "unix", read_size: 1024 * (at + 1), write_size: 1024 },
      }),
    );
    const view = session(cells);
    for (const row of view.answer.use.rows) row.code = ["read(fd, buf, 65536)"];
    const phone = { viewport: { width: 390, height: 800 } };
    const { page, trouble } = await open(browser, fileOf([view]), phone);
    const first = page.locator("#answers .answer:not(.heading)").first();
    const seen = () => first.locator(".limit, .code").evaluateAll((all) => all.map((each) => each.checkVisibility()));
    expect(await seen()).toEqual([false, false]);
    expect(await first.locator(".within").isVisible()).toBe(true);
    await first.locator(".unfold").focus();
    await page.keyboard.press("Enter");
    expect(await seen()).toEqual([true, true]);
    expect(await first.locator(".unfold").getAttribute("aria-expanded")).toBe("true");
    expect(await page.evaluate("document.documentElement.scrollWidth")).toBeLessThanOrEqual(390);
    const wide = await open(browser, fileOf([view]));
    expect(await wide.page.locator(".unfold").first().isVisible()).toBe(false);
    expect(await wide.page.locator("#answers .limit").first().isVisible()).toBe(true);
    // Where a table of the answers stands above it, the list waits behind one line.
    view.answer.use.grid = {
      down: { factor: "read_size", levels: ["1 KiB"] },
      across: { factor: "write_size", levels: ["1", "2", "3", "4", "5", "6"] },
      cells: [[0, 1, 2, 3, 4, 5]],
    };
    for (const [options, seen] of [
      [phone, false],
      [{}, true],
    ] as const) {
      const { page } = await open(browser, fileOf([view]), options);
      expect(await page.locator("#answers ol.answers").isVisible()).toBe(seen);
    }
    expect(trouble).toEqual([]);
  });

  test("a grid of answers leads to each of them", async () => {
    const cells = ["g1", "g2", "g3", "g4"].map((group, at) =>
      cell({ id: group, group, factors: { transport: "unix", read_size: 1024 * (at + 1), write_size: 1024 } }),
    );
    const view = session(cells);
    view.answer.use.grid = {
      down: { factor: "read_size", levels: ["1 KiB", "2 KiB"] },
      across: { factor: "write_size", levels: ["1", "128"] },
      cells: [
        [0, 1],
        [2, 3],
      ],
    };
    const { page, trouble } = await open(browser, fileOf([view]));
    const places = await page
      .locator("#answers .grid, #answers ol.answers")
      .evaluateAll((all) => all.map((each) => each.tagName));
    expect(await page.locator("#answers .grid caption").textContent(), "bare numbers have their unit").toBe(
      "read down, write (bytes) across",
    );
    expect(places, "the grid stands above its long list").toEqual(["DIV", "OL"]);
    await page.locator(".grid a").nth(2).click();
    expect(await page.locator(".picker select").inputValue()).toBe("g3");
    expect(trouble).toEqual([]);
  });

  test("nothing sticks out on a narrow screen", async () => {
    const { page } = await open(browser, fileOf([grid(5, 4)]), { viewport: { width: 360, height: 800 } });
    expect(await page.evaluate("document.documentElement.scrollWidth")).toBeLessThanOrEqual(360);
  });

  test("print is light and leaves the controls out", async () => {
    const { page } = await open(browser, fileOf([grid(3, 3)]), { colorScheme: "dark" });
    await page.emulateMedia({ media: "print", colorScheme: "dark" });
    expect(await page.evaluate("getComputedStyle(document.body).backgroundColor")).toBe("rgb(255, 255, 255)");
    // The figures are drawn anew for paper, after the page has heard of it.
    await expect
      .poll(
        () =>
          page
            .locator("#forest svg")
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

  describe.skipIf(!binary)("sessions from the program itself", () => {
    const home = mkdtempSync(join(tmpdir(), "page-"));
    // Not in step: who waits without listening is taken for dead.
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
      await run("import", file, ...words);
    }
    /** What a session must show in one of its groups at least, beside what all have. */
    const FIXTURES: [name: string, words: string[], figures: string[]][] = [
      ["stream.jsonl.br", [], ["heatmap", "sweep", "forest", "course", "cost", "twins", "options"]],
      ["call.jsonl.br", [], ["percentiles", "forest", "course", "twins"]],
      ["datagrams.jsonl.br", [], ["sweep", "course"]],
      ["datagram-calls.jsonl.br", [], ["percentiles", "course"]],
      ["errors.jsonl.br", [], ["errors", "sweep", "percentiles"]],
      ["load.jsonl.br", [], ["load", "percentiles", "sweep"]],
      ["knee.jsonl.br", [], ["knee", "forest"]],
      ["ring.jsonl.br", [], ["sweep", "course"]],
      ["relay.jsonl.br", [], ["forest", "course"]],
      ["far-host.jsonl.br", [], ["sweep", "course", "options"]],
      ["ab.jsonl.br", [], ["versus", "course"]],
      ["check.jsonl.br", [], ["gains", "sweep", "course"]],
      ["devices.jsonl.br", [], ["sweep", "course"]],
      ["sizes.txt", [], ["sweep"]],
      ["grid.csv", [], ["heatmap"]],
      ["calls.csv", ["--map", "transport==tcp,request==512"], ["sweep"]],
    ];

    test("of every workload, each group of each", async () => {
      for (const [name, words] of FIXTURES) await bring(name, ...words);
      const ids = FIXTURES.map((_, at) => String(at + 1));
      await run("report", ...ids, "--html", join(home, "page.html"));
      const { page, trouble, elements } = await open(browser, join(home, "page.html"));
      const broken = "svg [d*=NaN], svg [transform*=NaN], svg [x*=NaN], svg [width*=NaN], svg[aria-label*=NaN]";
      for (const [at, [name, , expected]] of FIXTURES.entries()) {
        await page.locator("header select").selectOption(String(at));
        const seen = new Set<string>();
        for (const group of await page
          .locator(".picker option")
          .evaluateAll((all) => all.map((one) => (one as HTMLOptionElement).value))) {
          await page.locator(".picker select").selectOption(group);
          for (const id of await page.locator("figure").evaluateAll((all) => all.map((each) => each.id))) seen.add(id);
          expect(await page.locator("#cells tbody tr").count(), `${name} ${group}`).toBeGreaterThan(0);
          expect(await page.locator(broken).count(), `${name} ${group}`).toBe(0);
        }
        expect([...seen], name).toEqual(expect.arrayContaining(expected));
        expect(await page.locator("#verdict").count(), name).toBe(/^(ab|check)/.test(name) ? 1 : 0);
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
      await run("import", file, "--store", store);
      const place = join(home, `${name}.html`);
      await run("report", "--store", store, "--html", place);
      const { stdout } = await promisify(execFile)(binary ?? "", ["report", "--store", store, "--format", "json"], {
        maxBuffer: 1 << 28,
      });
      return { ...(await open(browser, place)), view: JSON.parse(stdout) as View };
    }
    const plain = (texts: string[]) => texts.map((text) => text.replaceAll("\u00a0", " "));

    test("calls that failed: a bar for each class in each cell, and why", async () => {
      const { page, trouble, view } = await page_of("errors");
      await page.locator(".picker select").selectOption("g1");
      const failed = view.cells
        .filter((each) => each.group === "g1" && each.kind === "candidate")
        .flatMap((each) => (each.call?.errors ?? []).map((error) => ({ each, error })));
      expect(failed.length).toBeGreaterThan(1);
      const figure = page.locator("#errors");
      expect(await figure.locator("g[fill] rect, rect[fill]").count(), "bars").toBeGreaterThanOrEqual(failed.length);
      const said = plain(await figure.locator("svg text").allTextContents()).join(" | ");
      for (const { each, error } of failed) {
        expect(said).toContain(`${each.label}: ${error.class} while writing`);
        const share = error.count / (each.call?.begun ?? 0);
        expect(said, each.label).toContain(`${Number((share * 100).toPrecision(share >= 0.1 ? 3 : 2))} %, `);
      }
      expect(await figure.locator(".reading").textContent()).toContain(failed[0]?.error.explanation);
      await figure.locator(".data summary").click();
      await expect.poll(() => figure.locator("tbody tr").count(), { timeout: PATIENCE_MS }).toBe(failed.length);
      expect(trouble).toEqual([]);
    });

    test("latency against the rate: a line for each engine, crossed where its load was not reached", async () => {
      const { page, trouble, view } = await page_of("load");
      const timed = view.cells.filter((each) => each.kind === "candidate" && each.more["total_p99_ns"]?.median != null);
      const short = timed.filter(
        (each) => (each.estimate.median ?? 0) < Number((each.factors as Record<string, unknown>)["call_rate"]) * 0.98,
      );
      expect(short.length, "the fixture has its knee").toBeGreaterThan(0);
      const figure = page.locator("#load");
      await figure.locator(".data summary").click();
      await expect.poll(() => figure.locator("tbody tr").count(), { timeout: PATIENCE_MS }).toBe(timed.length);
      const named = plain(await figure.locator("svg text").allTextContents());
      expect(named).toEqual(expect.arrayContaining(["epoll", "blocking", "calls per second, reached"]));
      const crosses = figure.locator('svg g[stroke-width="2"] path, svg path[stroke-width="2"]');
      expect(await crosses.count()).toBeGreaterThanOrEqual(short.length);
      await figure.locator("select").selectOption("total_p50_ns");
      expect(await page.locator("#load h3").textContent()).toBe(
        "Latency (p50 of the calls) against the rate that was reached",
      );
      expect(trouble).toEqual([]);
    });

    test("the knee: what keeps the objective, and every probe of the searches", async () => {
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
      expect(await figure.locator(".side svg circle").count(), "what kept it").toBe(kept);
      const crosses = figure.locator('.side svg g[stroke-width="1.8"] path');
      expect(await crosses.count(), "what did not").toBe(probes.length - kept);
      const said = plain(await figure.locator("svg text").allTextContents());
      for (const each of cells) expect(said).toContain(`${each.label}: p99 of every probe`);
      expect(said).toContain("what a closed loop reaches");
      await figure.locator(".data summary").click();
      await expect.poll(() => figure.locator("tbody tr").count(), { timeout: PATIENCE_MS }).toBe(cells.length);
      expect(trouble).toEqual([]);
    });

    test("twice the same, side by side", async () => {
      const twice = (...words: string[]) => run(...words, "--store", join(home, "twice.db"));
      const stream = stored("schema-3-stream.jsonl").pathname;
      for (let times = 0; times < 2; times += 1) await twice("import", stream);
      await twice("report", "1", "2", "--html", join(home, "two.html"));
      const { page, trouble } = await open(browser, join(home, "two.html"));
      expect(await page.locator("#apart h3").textContent()).toBe("Session 2 against session 1");
      expect(trouble).toEqual([]);
    });
  });
});
