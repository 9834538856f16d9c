// The first screen: what it says of each answer, and how much of it a small screen shows.

import { expect, test } from "vitest";
import { fileOf, inBrowser, open } from "./browser";
import { place, REACH } from "../src/bound";
import { cell, grid, session } from "./planted";

inBrowser("the answers in a browser", () => {
  test("where nothing was measured the page says so, why, and what to do next", async () => {
    const failed = (id: string, label: string) => ({
      ...cell({ id, label, factors: {}, rate: null, outcome: "failed" }),
      reason: `${label} is gone: start it again`,
    });
    const view = session([failed("c1", "server a"), failed("c2", "server b")], { recommended: null });
    view.answer.next = ["bytegauge call --flows 8", "runs it again"];
    view.cells.push({ ...failed("c2t", "server b"), kind: "twin" });
    const { page, trouble } = await open(fileOf([view]));
    const said = ((await page.locator("#answers").textContent()) ?? "").replaceAll("\u00a0", " ");
    for (const part of [
      "Nothing was measured",
      "Both choices failed, so nothing is recommended",
      "Server a: server a is gone: start it again",
      "bytegauge call --flows 8",
    ])
      expect(said).toContain(part);
    expect(said).not.toContain("shown to be within");
    expect(await page.locator("#evidence figure").count(), "the cells, and no empty drawing").toBe(1);
    expect(await page.locator("#missing").textContent()).toContain("server b (second trials)");
    expect(trouble).toEqual([]);
  });

  test("a table of one trial each confirms nothing, and no word of it says so", async () => {
    const view = grid(4, 1);
    view.status = "imported";
    for (const each of view.cells) Object.assign(each, { trials: 1, above_best_upper: null, above_best_lower: null });
    const { page, trouble } = await open(fileOf([view]));
    expect(await page.locator("#answers .summary").textContent()).toContain("nothing is compared or confirmed");
    expect(await page.locator("#forest h3").textContent()).toContain("one trial each, so not compared");
    expect(await page.locator("#cells").textContent()).not.toContain("confirm");
    expect(trouble).toEqual([]);
  });

  test("an answer with something against it, its number, its code and what is its peer's", async () => {
    const view = grid(2, 1);
    const [row] = view.answer.use.rows;
    const [group] = view.groups;
    if (!row || !group) throw new Error("a grid has an answer");
    const named = view.cells.find((each) => each.id === group.recommendation.cell);
    const sentence = "CPU time was not recorded";
    if (named) named.limit = { name: "unknown", sentence, brief: sentence, evidence: {} };
    row.note = "not by its second trials: NOISE";
    row.code = ["read(fd, buf, 65536)"];
    row.peer_code = ["write(fd, buf, 1024)"];
    row.shown = ["auto"];
    view.answer.use.choices = [{ factor: "congestion", heading: "TCP_CONGESTION", auto: "bbr" }];
    group.recommendation.survives_exchange = false;
    group.twin = { exchanged_bound: 0.078 } as unknown as NonNullable<typeof group.twin>;
    view.answer.next = ["bytegauge run buffer-size --resume 1 --until conclusive", "179 s at most"];
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
    const { page, trouble } = await open(fileOf([view]));
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
    expect(await text("#avoid tbody")).toBe("g1 unixread 4 KiB30 % to 50 % more than read 256 KiB");
    const command = page.locator(".command code").first();
    expect(await command.textContent()).toBe(view.answer.next[0]);
    expect(await command.evaluate((code) => getComputedStyle(code).whiteSpace)).toBe("pre-wrap");
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
    const { page, trouble } = await open(fileOf([view]));
    expect(await page.locator("#answers .picture").count()).toBe(0);
    expect(await page.locator(".picker .reading").textContent()).toContain("3 cells measured, 1 block of confirmation");
    expect(await page.locator("#sweep .reading").textContent()).toContain("One trial each");
    const lines = "#sweep .side svg path[stroke-width='2'], #sweep .side svg g[stroke-width='2'] path";
    expect(await page.locator(lines).count()).toBe(0);
    const sure = grid(3, 1);
    for (const each of sure.cells) each.stage = "confirm";
    const several = await open(fileOf([sure]));
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
    const two = await open(fileOf([view]));
    expect(await two.page.locator("#course .reading").textContent()).toContain("The host took no CPU time");
    expect(await two.page.locator("#course .drawing > svg").count(), "nothing to draw of it").toBe(1);
    const rows = (await two.page.locator("#course svg text").allTextContents()).filter((text) =>
      text.startsWith(first.label),
    );
    expect(rows, "second trials stand in the row of what they repeat").toEqual([
      `${first.label}; hollow: its second trials`,
    ]);
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
    const { page } = await open(fileOf([view]));
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
    const { page } = await open(fileOf([view]));
    const left = await page
      .locator("#answers .answer:not(.heading) .question")
      .evaluateAll((all) => all.map((each) => each.getBoundingClientRect().left));
    expect(left[0]).toBe(left[1]);
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
    const { page, trouble } = await open(fileOf([view]));
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
      const { page, trouble } = await open(fileOf([view]), { viewport: { width, height: 900 } });
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
    const { page, trouble } = await open(fileOf([view]));
    const weights = await page
      .locator("#answers .pair b")
      .evaluateAll((all) => all.map((each) => Number(getComputedStyle(each).fontWeight)));
    expect(weights).toEqual([400, 700]);
    const plain = (text: string | null) => text?.replaceAll("\u00a0", " ");
    expect(plain(await page.locator("#answers .choice .note").textContent())).toBe("28.5 % of its calls fail");
    expect(plain((await page.locator("#forest svg text").allTextContents()).join(" | "))).toContain(
      "▸ g1, 28.5 % of its calls fail",
    );
    expect(plain(await page.locator("#forest .reading").textContent())).toContain("28.5 % of its calls fail");
    expect(trouble).toEqual([]);
  });

  test("a bound of twice the time and more is drawn, and told as times", async () => {
    const view = session(
      ["g1", "g2", "g3"].map((group) =>
        cell({ id: group, group, factors: { transport: group, read_size: 1024, write_size: 1024 } }),
      ),
    );
    for (const [at, times] of [4.53, 12, null].entries()) {
      const row = view.answer.use.rows[at];
      if (row) Object.assign(row, { standing: "doubtful", within: null, times, rate: 1e9, shown: ["64 KiB"] });
    }
    const { page } = await open(fileOf([view]));
    const answer = (at: number) => page.locator("#answers .answer:not(.heading)").nth(at);
    const text = async (at: number) => (await answer(at).locator(".within").textContent())?.replaceAll("\u00a0", " ");
    expect(await text(0)).toContain("up to 4.6 ×");
    expect(await text(1)).toContain("over 10 ×");
    expect(await text(2)).toBe("nothing shown");
    const bar = (at: number) => answer(at).locator(".bound .bar.open");
    expect([await bar(0).count(), await bar(1).count(), await bar(2).count()]).toEqual([1, 1, 0]);
    expect(Number(await bar(0).getAttribute("width"))).toBeCloseTo(place(3.53) - place(0), 3);
    expect(await answer(0).locator(".bound").getAttribute("aria-label")).toBe(
      "no answer yet: may take up to 4.6\u00a0× the time of the best confirmed",
    );
    expect(await answer(0).locator(".bound .beyond").count()).toBe(0);
    expect(await answer(1).locator(".bound .beyond").count(), "beyond the scale").toBe(1);
  });

  test("what to avoid has the width of the page, and a picture of how much more it takes", async () => {
    const view = grid(3, 3);
    const levels = [
      { level: "1K", dearer_lower: 0.25, dearer_upper: 1 },
      { level: "2K", dearer_lower: 14.6, dearer_upper: null },
    ];
    const line = {
      question: "g1 unix",
      group: "g1",
      factor: "read_size",
      heading: "read",
      against: "the best",
      levels,
    };
    view.answer.avoid = [line];
    const { page } = await open(fileOf([view]));
    const [own, whole] = await page
      .locator("#avoid .table")
      .evaluate((frame) => [frame.querySelector("table")?.clientWidth ?? 0, frame.clientWidth] as const);
    expect(own).toBeGreaterThanOrEqual(whole - 1);
    const bar = (at: number) => page.locator("#avoid tbody .bound").nth(at).locator(".dearer");
    expect(Number(await bar(0).getAttribute("x"))).toBeCloseTo(place(0.25), 3);
    expect(Number(await bar(0).getAttribute("width"))).toBeCloseTo(place(1) - place(0.25), 3);
    expect(Number(await bar(1).getAttribute("x")), "at the end of the scale").toBeCloseTo(place(REACH), 3);
    expect(await page.locator("#avoid tbody .beyond").count()).toBe(1);
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
        age_ns: [9e6, 2e7],
      },
    ];
    const { page } = await open(fileOf([view]), { viewport: { width: 360, height: 800 } });
    const [needed, has] = await page
      .locator("#avoid .table")
      .evaluate((table) => [table.scrollWidth, table.clientWidth] as const);
    const line = page.locator("#avoid tbody tr").first();
    expect(await line.evaluate((row) => getComputedStyle(row).borderBottomStyle), "lines are told apart").toBe("solid");
    expect(await line.locator(".picture").isVisible()).toBe(false);
    expect(needed).toBeLessThanOrEqual(has);
    expect((await line.textContent())?.replaceAll("\u00a0", " ")).toContain(
      "seen only on connections 9 ms to 20 ms old",
    );
    expect(await page.locator("#cells .table").evaluate((table) => getComputedStyle(table).backgroundImage)).toContain(
      "linear-gradient",
    );
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
    const { page, trouble } = await open(fileOf([view]));
    expect(await page.locator("#verdict").textContent()).toContain("64 KiB gains 2600\u00a0%");
    expect(await page.locator("#verdict").textContent()).toContain("2 times the server was stopped by force");
    const marks = (await page.locator("#gains svg text").allTextContents()).join(" ").replaceAll("\u00a0", " ");
    expect(marks, "what is gained lies within the axis").not.toContain("→ ");
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
    const { page, trouble } = await open(fileOf([view]), phone);
    const first = page.locator("#answers .answer:not(.heading)").first();
    const seen = () => first.locator(".limit, .code").evaluateAll((all) => all.map((each) => each.checkVisibility()));
    expect(await seen()).toEqual([false, false]);
    expect(await first.locator(".within").isVisible()).toBe(true);
    await first.locator(".unfold").focus();
    await page.keyboard.press("Enter");
    expect(await seen()).toEqual([true, true]);
    expect(await first.locator(".unfold").getAttribute("aria-expanded")).toBe("true");
    expect(await page.evaluate("document.documentElement.scrollWidth")).toBeLessThanOrEqual(390);
    const wide = await open(fileOf([view]));
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
      const { page } = await open(fileOf([view]), options);
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
    const row = view.answer.use.rows[1];
    if (row) Object.assign(row, { standing: "doubtful", within: null, times: 4.53 });
    const { page, trouble } = await open(fileOf([view]));
    const field = await page.locator("#answers .grid td").allTextContents();
    expect(field.join(" | ").replaceAll("\u00a0", " "), "how little is known of it").toContain("up to 4.6 ×");
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
});
