// The drawings of single figures, and their reactions.

import { expect, test } from "vitest";
import { fileOf, inBrowser, open, PATIENCE_MS } from "./browser";
import { cell, grid, long, overTime, session } from "./planted";

inBrowser("the figures in a browser", () => {
  test("two points are no curve", async () => {
    const lines = async (sizes: number) => {
      const sized = Array.from({ length: sizes }, (_, at) =>
        cell({ id: `c${at}`, factors: { read_size: 1024 << at }, bound: [0, 0.1] }),
      );
      const { page } = await open(fileOf([session(sized, { varied: ["read_size"] })]));
      return page.locator('#sweep .side g[stroke-linejoin="round"] path').count();
    };
    expect(await lines(2)).toBe(0);
    expect(await lines(3)).toBeGreaterThan(0);
  });

  test("relays are compared with the path without one", async () => {
    const relay = (id: string, rate: number) => cell({ id, label: `relay ${id}`, factors: { relay: id }, rate });
    const view = session([relay("copy", 4e8), relay("splice", 5e8)], { varied: ["relay"] });
    view.cells.push({ ...relay("none", 2 ** 30), kind: "ceiling" });
    const { page, trouble } = await open(fileOf([view]));
    const text = ((await page.locator("#sweep .reading").textContent()) ?? "").replaceAll("\u00a0", " ");
    expect(text).toContain("The dashed line is the path without a relay: 1 GiB/s.");
    expect(await page.locator('#sweep svg [stroke-dasharray="4 3"]').count()).toBeGreaterThan(0);
    expect(await page.locator("#sweep svg").last().textContent(), "in its legend").toContain("without a relay");
    expect(trouble).toEqual([]);
  });

  test("a click and the arrow keys change the slices", async () => {
    const { page, trouble } = await open(fileOf([grid(5, 4)]));
    const selected = () => page.locator("#heatmap .selected").textContent();
    const before = await selected();
    await page.locator("#heatmap .board").focus();
    await page.keyboard.press("ArrowRight");
    const right = await selected();
    expect(right).not.toBe(before);
    expect(right?.replaceAll("\u00a0", " ")).toContain("read 2 KiB");
    await page.keyboard.press("ArrowUp");
    expect((await selected())?.replaceAll("\u00a0", " ")).toContain("write 2 KiB");
    expect((await page.locator("#heatmap .slices").textContent())?.replaceAll("\u00a0", " ")).toContain("write 2 KiB");
    await page.keyboard.press("ArrowLeft");
    await page.keyboard.press("ArrowLeft");
    expect((await selected())?.replaceAll("\u00a0", " "), "the edge holds").toContain("read 1 KiB");
    await page.locator("#heatmap .board svg").scrollIntoViewIfNeeded();
    const box = await page.locator("#heatmap .board svg").boundingBox();
    if (!box) throw new Error("a heat map has a place");
    await page.mouse.click(box.x + box.width - 30, box.y + 40);
    expect((await selected())?.replaceAll("\u00a0", " ")).toContain("read 5 KiB, write 4 KiB");
    expect(trouble).toEqual([]);
  });

  test("the other figures follow the selected cell", async () => {
    const view = grid(3, 2);
    for (const each of view.cells) {
      each.counters.options = { read_size: { source: 4096 } } as never;
      each.more["total_p99_ns"] = { metric: "total", unit: "ns", median: 1e5, lower: null, upper: null };
    }
    const { page, trouble } = await open(fileOf([view]));
    const options = () => page.locator("#options .reading").textContent();
    const firstTimed = async () =>
      (await page.locator("#percentiles .data tbody tr").first().locator("td").nth(1).textContent()) ?? "";
    await page.locator("#percentiles .data summary").click();
    expect([await options(), await firstTimed()]).toEqual([expect.stringContaining("Options of c0-0"), "c0-0"]);
    await page.locator("#heatmap .board").focus();
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press("ArrowUp");
    expect(await options()).toContain("Options of c2-1");
    await expect.poll(firstTimed).toBe("c2-1");
    expect(await page.evaluate("document.activeElement?.className"), "the map keeps the focus").toBe("board");
    expect(trouble).toEqual([]);
  });

  test("every tile of a phone's map has its number", async () => {
    for (const [across, down, text] of [
      [4, 3, /^\(?[\d.]{3,5}\)?$/],
      [8, 6, /^[\d.]{3,5}$/],
      [11, 8, /^\d(\.\d)?$/],
    ] as const) {
      const { page } = await open(fileOf([grid(across, down)]), { viewport: { width: 360, height: 800 } });
      const map = page.locator("#heatmap .board svg").first();
      const found = await map.evaluate((drawing) => {
        const tiles = [...drawing.querySelectorAll("rect")].map((each) => each.getBoundingClientRect());
        const within = (box: DOMRect) =>
          tiles.some(({ left, right, top, bottom }) => {
            return box.left >= left && box.right <= right && box.top >= top - 2 && box.bottom <= bottom + 2;
          });
        const texts = [...drawing.querySelectorAll("g[stroke-width] text")];
        return texts
          .filter((each) => each.textContent !== "★")
          .map((each) => {
            const own = each as SVGTextElement;
            return {
              text: own.textContent ?? "",
              within: within(own.getBoundingClientRect()),
              size: Number.parseFloat(getComputedStyle(own).fontSize),
            };
          });
      });
      expect(found.length, `${across} across`).toBe(across * down);
      for (const { text: number, within, size } of found) {
        expect(number).toMatch(text);
        expect(within, `${number} of ${across}`).toBe(true);
        expect(size).toBeGreaterThanOrEqual(11);
      }
      const hidden = await map.evaluate((drawing) => {
        const boxes = (all: string) => [...drawing.querySelectorAll(all)].map((each) => each.getBoundingClientRect());
        const numbers = boxes("g[stroke-width] text");
        return boxes("circle").filter((dot) => {
          const [x, y] = [(dot.left + dot.right) / 2, (dot.top + dot.bottom) / 2];
          return numbers.some(({ left, right, top, bottom }) => x > left && x < right && y > top + 3 && y < bottom);
        }).length;
      });
      expect(hidden, "no dot on a number").toBe(0);
      expect(await map.locator("[fill^='url(']").count(), "hatched all the same").toBeGreaterThan(0);
      await page.context().close();
    }
  });

  test("any factor may be the axis, and the choice keeps the focus", async () => {
    const { page, trouble } = await open(fileOf([grid(5, 4)]));
    const across = page.locator("#sweep select").first();
    await across.focus();
    await across.selectOption("write_size");
    expect(await page.locator("#sweep h3").textContent()).toContain("write");
    expect(await page.evaluate("document.activeElement === document.querySelector('#sweep select')")).toBe(true);
    await page.locator("#sweep select").nth(3).selectOption("cpu");
    expect(await page.locator("#sweep h3").textContent()).toContain("CPU time");
    expect(await page.locator("#sweep .drawing svg").count()).toBeGreaterThan(0);
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
    const { page, trouble } = await open(fileOf([session(cells, { varied: all })]));
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
        expect(await page.locator("#sweep h3").textContent(), what).toMatch(
          new RegExp(`^Throughput by ${names[x]}( and |$)`),
        );
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
    // A factor has one place at a time.
    await list(0).selectOption("congestion");
    expect(
      await list(1)
        .locator("option")
        .evaluateAll((each) => each.map((one) => (one as HTMLOptionElement).value)),
    ).toEqual(expect.not.arrayContaining(["congestion"]));
    expect(trouble).toEqual([]);
  });

  test("panels in a row have all levels", async () => {
    const sized = (transport: string, size: number) =>
      cell({ id: `${transport}${size}`, factors: { transport, read_size: size * 1024 } });
    const cells = [...[1, 4, 16, 64].map((size) => sized("unix", size)), sized("tcp", 16), sized("tcp", 64)];
    const view = session(cells, { varied: ["read_size", "transport"] });
    view.plan.varied = ["read_size", "transport"];
    const { page, trouble } = await open(fileOf([view]));
    await page.locator("#sweep select").nth(1).selectOption("");
    await page.locator("#sweep select").nth(2).selectOption("transport");
    const panels = await page.locator("#sweep .side svg").evaluateAll((all) =>
      all.map((panel) => {
        const { left, right } = panel.getBoundingClientRect();
        return [...panel.querySelectorAll("text")]
          .filter((text) => (text.textContent ?? "").endsWith("KiB"))
          .map((text) => text.getBoundingClientRect())
          .map((box) => box.left >= left && box.right <= right + 1);
      }),
    );
    expect(panels).toEqual([Array(4).fill(true), Array(4).fill(true)]);
    expect(trouble).toEqual([]);
  });

  test("intervals of no length and beyond the scale are visible", async () => {
    const cells = [
      cell({ id: "c1", factors: { transport: "unix", read_size: 1024, write_size: 1024 }, bound: [0, 0] }),
      cell({ id: "c2", factors: { transport: "unix", read_size: 2048, write_size: 1024 }, bound: [0.25, 1.8] }),
      cell({ id: "c3", factors: { transport: "unix", read_size: 4096, write_size: 1024 }, bound: [14.6, 30] }),
    ];
    const { page, trouble } = await open(fileOf([session(cells)]));
    const pictures = page.locator("#results .picture svg.bound");
    const [margin] = await pictures
      .locator("rect.margin")
      .evaluateAll((all) => all.map((each) => each.getBoundingClientRect()));
    expect(margin?.width, "5 % where the scale ends at 200 %").toBeGreaterThan(3);
    expect(await pictures.locator(".end").count()).toBe(2);
    expect(await pictures.locator(".beyond").count()).toBe(1);
    expect(trouble).toEqual([]);
  });

  test("the options are those that the workload can be asked for", async () => {
    const view = grid(2, 1);
    const asked = { requested: "auto", source: 1, sink: 1, as_asked: null };
    for (const each of view.cells) each.counters.options = { congestion: asked, nobodys: asked } as never;
    const { page } = await open(fileOf([view]));
    expect(await page.locator("#options tbody tr").count()).toBe(1);
  });

  test("options in force that were not requested", async () => {
    const view = grid(2, 1);
    const options = {
      congestion: { requested: "auto", source: "bbr", sink: "bbr", as_asked: null },
      nodelay: { requested: "auto", source: null, sink: null, as_asked: null },
    };
    const factor = view.plan.factors[0]!;
    view.plan.factors.push({ ...factor, name: "congestion" }, { ...factor, name: "nodelay" });
    for (const each of view.cells) each.counters.options = options as never;
    const none = await open(fileOf([view]));
    expect(await none.page.locator("#options h3").textContent()).toContain("none of them requested");
    expect(await none.page.locator("#options tbody tr").allTextContents()).toHaveLength(1);
    options.congestion = { requested: "bbr", source: "bbr", sink: "bbr", as_asked: true } as never;
    for (const each of view.cells) each.counters.options = options as never;
    const one = await open(fileOf([view]));
    expect(await one.page.locator("#options tbody").textContent()).toContain("in force");
  });

  test("names are in the order of the ranking", async () => {
    const relay = (relay: string, label: string, upper: number) => ({
      ...cell({ id: relay, factors: { relay }, bound: [0, upper] }),
      label,
    });
    const relays = [relay("std-copy", "relay std-copy (8 KiB)", 0.9), relay("splice", "relay splice", 0.1)];
    const view = session(relays, { varied: ["relay"] });
    for (const group of view.groups) group.varied = ["relay"];
    const named = await open(fileOf([view]));
    const texts = (await named.page.locator("#sweep svg text").allTextContents()).filter((text) =>
      text.startsWith("s"),
    );
    expect(texts).toEqual(["splice", "std-copy"]);
  });

  test("a logarithmic scale of colours is named", async () => {
    const view = grid(30, 30);
    for (const [at, each] of view.cells.entries()) each.estimate.median = 1e7 * 1.01 ** at;
    const { page } = await open(fileOf([view]));
    const keys = await page.locator("#heatmap svg.key text").allTextContents();
    expect(keys).toEqual(expect.arrayContaining(["may be the best", "selected"]));
    expect(keys.join(" ")).toContain(", log scale");
    const even = await open(fileOf([grid(5, 4)]));
    expect((await even.page.locator("#heatmap svg.key text").allTextContents()).join(" ")).not.toContain("logarithmic");
  });

  test("how a long trial went: each flow thin, their sum bold, of many flows no more than can be seen", async () => {
    const view = long(grid(3, 2));
    const { page, trouble } = await open(fileOf([view]));
    const figure = page.locator("#over-time");
    expect(await figure.locator("h3").textContent()).toBe("Throughput over time, in one long trial");
    expect(await figure.locator(".reading").textContent()).toContain("The upper panel shows all 3 flows together");
    const lines = (panel: number, thick: number) =>
      `.drawing > svg:nth-child(${panel}) g[stroke-width="${thick}"] path`;
    expect(await figure.locator(lines(1, 2.6)).count()).toBe(1);
    expect(await figure.locator(lines(2, 1.2)).count(), "on a scale of their own").toBe(3);
    const texts = () => figure.locator(".drawing svg text").allTextContents();
    expect(await texts()).toEqual(expect.arrayContaining(["all flows together", "flow 1", "flow 3"]));
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
    const many = await open(fileOf([view]), { viewport: { width: 360, height: 800 } });
    const listed = await many.page.locator("#over-time .drawing svg text").allTextContents();
    expect(listed).toContain("each of 64 flows");
    expect(listed).not.toContain("flow 1");
    expect(await many.page.evaluate("document.documentElement.scrollWidth")).toBeLessThanOrEqual(360);
    expect(await many.elements()).toBeLessThan(6_000);
    const none = await open(fileOf([grid(3, 2)]));
    expect(await none.page.locator("#over-time").count()).toBe(0);
    const short = await open(fileOf([{ ...grid(3, 2), interval_ns: 1e8 }]));
    const needs = (await short.page.locator("p#over-time").textContent())?.replaceAll("\u00a0", " ");
    expect(needs, "requested, of trials that are too short").toContain("interval of 100 ms");
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
      const { page, trouble } = await open(fileOf([grid(many, many)]), {
        viewport: { width: wide, height: 900 },
      });
      expect(await page.locator("#heatmap [fill^='url(']").count()).toBe(0);
      expect(await page.locator("#heatmap .reading").textContent()).toContain("pale tiles were screened only");
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

  test.each([1280, 500, 360])("the long names of a map are apart and within it on %d pixels", async (wide) => {
    const names = Array.from({ length: 12 }, (_, at) => `name-${at}${"-of-an-algorithm".repeat(at % 3)}`);
    const cells = names.flatMap((transport) =>
      names.map((congestion) => cell({ id: `${transport} ${congestion}`, factors: { transport, congestion } })),
    );
    const view = session(cells, { varied: ["transport", "congestion"] });
    const { page, trouble } = await open(fileOf([view]), { viewport: { width: wide, height: 900 } });
    const found = await page
      .locator("#heatmap .board svg")
      .first()
      .evaluate((drawing) => {
        const texts = [...drawing.querySelectorAll("text")];
        const labels = texts.filter((each) => each.textContent.startsWith("name-"));
        const turns = labels.map((each) => each.getScreenCTM() ?? new DOMMatrix());
        const columns = turns.filter(({ b }) => b !== 0);
        // Parallel lines: the distance across their direction.
        const gaps = columns.slice(1).map(({ b, e }, at) => Math.abs((e - (columns[at]?.e ?? 0)) * b));
        const box = drawing.getBoundingClientRect();
        const title = texts.find((each) => each.textContent === "transport")?.getBoundingClientRect();
        const sticksOut = ({ left, bottom }: DOMRect) => left < box.left - 1 || bottom > (title?.top ?? 0) + 3;
        return {
          labels: labels.length,
          columns: columns.length,
          gap: Math.min(...gaps),
          outside: labels.filter((each) => sticksOut(each.getBoundingClientRect())).length,
        };
      });
    expect(found).toMatchObject({ labels: 24, columns: 12, outside: 0 });
    expect(found.gap).toBeGreaterThan(11.5);
    expect(trouble).toEqual([]);
  });

  test.each([1280, 360])("texts of figures are large enough and stay within them on %d pixels", async (wide) => {
    const view = long(grid(5, 4));
    const confirmed = view.cells.filter((each) => each.stage === "confirm");
    // One long bar flattens the others.
    for (const [at, each] of confirmed.entries()) each.cpu.ends_s_per_gib = at === 0 ? 40 : 0.2;
    const { page } = await open(fileOf([view]), { viewport: { width: wide, height: 900 } });
    const texts = await page.locator("figure .drawing svg text").evaluateAll((all) =>
      all.flatMap((each) => {
        const [text, own] = [each.textContent ?? "", each.getBoundingClientRect()];
        const figure = each.closest("figure");
        const edge = figure?.getBoundingClientRect();
        const drawing = each.closest(".drawing > svg, .drawing svg");
        if (!figure || !edge || !(drawing instanceof SVGSVGElement) || text === "") return [];
        const zoom = drawing.getBoundingClientRect().width / (drawing.viewBox.baseVal.width || 1);
        const size = Number.parseFloat(getComputedStyle(each).fontSize) * zoom;
        return [
          { name: `${figure.id}: ${text}`, small: size < 10.9, out: own.left < edge.left || own.right > edge.right },
        ];
      }),
    );
    expect(new Set(texts.map(({ name }) => name.split(":")[0])).size, "figures").toBeGreaterThan(2);
    expect(texts.filter(({ small }) => small).map(({ name }) => name)).toEqual([]);
    expect(texts.filter(({ out }) => out).map(({ name }) => name)).toEqual([]);
  });

  test("a map marks recommended, best and slower options", async () => {
    const planted = (id: string, at: number, more: Parameters<typeof cell>[0] | object = {}) =>
      cell({
        id,
        factors: { transport: "unix", read_size: 1024 * (1 + (at % 2)), write_size: 1024 * (1 + (at >> 1)) },
        ...more,
      });
    const cells = [
      planted("a", 0, { rate: 8e8, bound: [0, 0.03] }),
      planted("b", 1, { rate: 9e9, stage: "screen" }),
      planted("c", 2, { rate: 5e8, bound: [0.4, 0.9] }),
      planted("d", 3, { rate: 7e8, bound: [0, 0.3] }),
    ];
    const { page, trouble } = await open(fileOf([session(cells, { best: ["a"] })]));
    const map = page.locator("#heatmap .board svg").first();
    // The brightest was screened only: it has no line and no dot.
    expect(await map.locator("text", { hasText: "★" }).count()).toBe(1);
    expect(await map.locator("path[stroke='#b42318'], g[stroke='#b42318'] path").count(), "a slower one").toBe(1);
    expect(await map.locator("circle").count(), "best and tied").toBe(2);
    const key = (await page.locator("#heatmap svg.key text").allTextContents()).map((text) =>
      text.replaceAll("\u00a0", " "),
    );
    for (const meaning of ["may be the best", "use", "avoid", "selected"]) expect(key).toContain(meaning);
    expect(key.join(" ")).not.toContain("≤");
    expect(trouble).toEqual([]);
  });

  test("the two lines through a map have one scale", async () => {
    const view = grid(4, 4);
    // Far apart along one of them, and close together along the other.
    for (const each of view.cells) each.estimate.median = 1e6 * 4 ** Number(/^c(\d)/.exec(each.id)?.[1] ?? 0);
    for (const each of view.cells) Object.assign(each.estimate, { lower: null, upper: null });
    const { page } = await open(fileOf([view]));
    const ticks = await page
      .locator("#heatmap .slices svg")
      .evaluateAll((all) =>
        all.map((one) => [...one.querySelectorAll("g[text-anchor='end'] text")].map((text) => text.textContent)),
      );
    expect(ticks).toHaveLength(2);
    expect(ticks[0]?.length).toBeGreaterThan(1);
    expect(ticks[0]).toEqual(ticks[1]);
  });

  test("a map without confirmed cells is pale", async () => {
    const view = grid(4, 3);
    for (const each of view.cells) Object.assign(each, { stage: "confirm", trials: 1, above_best_upper: null });
    const { page } = await open(fileOf([view]));
    const map = page.locator("#heatmap");
    expect(await map.locator(".reading").first().textContent()).toContain(
      "All tiles are pale, since they have one trial each",
    );
    expect(await map.locator('.board g[fill-opacity="0.4"] rect').count()).toBe(12);
    expect(await map.locator('.board g[fill-opacity="1"] rect').count()).toBe(0);
    expect(await map.locator(".selected").textContent()).toContain("1 trial, not compared yet");
  });

  test("long names of a map are at an angle", async () => {
    const engines = ["blocking", "epoll:edge:batch", "uring:multishot", "uring:bundle"];
    const cells = engines.flatMap((server_engine) =>
      [1024, 2048].map((rcvbuf) =>
        cell({ id: `${server_engine}${rcvbuf}`, factors: { transport: "tcp", server_engine, rcvbuf } }),
      ),
    );
    const view = session(cells, { varied: ["server_engine", "rcvbuf"] });
    view.plan.varied = ["server_engine", "rcvbuf"];
    const { page } = await open(fileOf([view]), { viewport: { width: 400, height: 800 } });
    for (const drawing of ["#heatmap .board svg", "#heatmap .slices svg"]) {
      const turned = page.locator(drawing).first().locator("text[transform*='rotate(-30)']");
      expect(await turned.allTextContents(), drawing).toEqual(engines);
    }
  });

  test("cells with one reason are one row", async () => {
    const view = grid(3, 2);
    for (const each of view.cells.slice(0, 4))
      Object.assign(each, { outcome: "skipped", reason: each === view.cells[0] ? "no room" : "no io_uring here" });
    const { page } = await open(fileOf([view]));
    expect(await page.locator("#missing tbody tr").count()).toBe(2);
    const row = (await page.locator("#missing tbody tr").last().locator("td").allTextContents()).map((text) => text);
    expect(row.slice(1)).toEqual(["skipped", "no io_uring here"]);
    expect(row[0]?.split("; ")).toHaveLength(3);
  });

  test("a map without screened cells has no hatching", async () => {
    const view = grid(3, 3);
    for (const each of view.cells) {
      each.stage = "confirm";
      if (each.id.startsWith("c2")) Object.assign(each, { outcome: "skipped", stage: null, reason: "not built in" });
    }
    const { page } = await open(fileOf([view]));
    expect(await page.locator("#heatmap .reading").first().textContent()).not.toContain("screened");
  });

  test("one level alone has no legend, and is named", async () => {
    const cells = ["unix", "tcp"].flatMap((transport) =>
      [1024, 2048, 4096].map((size) =>
        cell({
          id: `${transport}${size}`,
          group: transport,
          factors: { transport, read_size: size },
          outcome: transport === "tcp" ? "failed" : "measured",
          rate: transport === "tcp" ? null : 1e9,
        }),
      ),
    );
    const view = session(cells, { varied: ["read_size"] });
    view.plan.varied = ["transport", "read_size"];
    const { page } = await open(fileOf([view]));
    await page.locator("#sweep").getByLabel("colour").selectOption("transport");
    expect(await page.locator("#sweep .drawing > svg").count()).toBe(0);
    expect(await page.locator("#sweep .reading").first().textContent()).toContain("All marks have transport unix.");
  });

  test("a line goes along the axis, in whatever order they were measured, and not on to a name", async () => {
    const cells = [20_000, 50_000, "max", 5000].flatMap((call_rate) =>
      ["a", "b"].map((engine) =>
        cell({ id: `${engine}${call_rate}`, factors: { transport: "tcp", call_rate, server_engine: engine } }),
      ),
    );
    const view = session(cells, { varied: ["server_engine"] });
    view.plan.varied = ["call_rate", "server_engine"];
    const { page } = await open(fileOf([view]));
    const lines = await page
      .locator("#sweep .drawing .side svg path[d]")
      .evaluateAll((all) =>
        all.map((each) => each.getAttribute("d") ?? "").filter((d) => /^M[^L]+L[^L]+L[^L]+$/.test(d)),
      );
    expect(lines).toHaveLength(2);
    for (const d of lines) {
      const places = d
        .slice(1)
        .split("L")
        .map((point) => Number(point.split(",")[0]));
      expect(places, d).toEqual(places.toSorted((a, b) => a - b));
    }
  });

  test("two levels have options side by side", async () => {
    const cells = [1, 50].flatMap((flows) =>
      ["a", "b", "c"].map((engine) =>
        cell({
          id: `${engine}${flows}`,
          label: `server ${engine}`,
          factors: { transport: "tcp", flows, server_engine: engine },
        }),
      ),
    );
    const view = session(cells, { varied: ["server_engine"] });
    view.plan.varied = ["flows", "server_engine"];
    const { page } = await open(fileOf([view]));
    const marks = await page
      .locator("#sweep .side svg g:not([aria-hidden]) > :is(circle, path[transform])")
      .evaluateAll((all) => all.map((each) => each.getBoundingClientRect()).map((box) => [box.left, box.right]));
    expect(marks).toHaveLength(6);
    const sorted = marks.toSorted(([a = 0], [b = 0]) => a - b);
    for (const [at, [, right = 0]] of sorted.slice(0, -1).entries())
      expect(right, `mark ${at}`).toBeLessThan(sorted[at + 1]?.[0] ?? 0);
  });

  test("options with equal times are side by side", async () => {
    const key = (p: number) => `total_p${p}_ns`;
    const time = (median: number) => ({ median, lower: null, upper: null, unit: "ns", metric: "time" });
    const call = (id: string, known: number[]) => {
      const found = cell({ id, label: `server ${id}`, factors: { server_engine: id } });
      found.call = { timing: "open loop", errors: [], knee: { probes: [] } } as unknown as NonNullable<
        typeof found.call
      >;
      found.more = Object.fromEntries(known.map((p, at) => [key(p), time(1e6 * (at + 1))])) as never;
      return found;
    };
    const view = session([call("a", [50, 90, 99]), call("b", [50])], { varied: ["server_engine"] });
    const { page } = await open(fileOf([view]));
    const drawing = page.locator("#percentiles .drawing > svg").first();
    const marks = await drawing
      .locator("g:not([aria-hidden]) > :is(circle, path[transform])")
      .evaluateAll((all) => all.map((each) => each.getBoundingClientRect().x));
    expect(marks).toHaveLength(4);
    expect(new Set(marks).size, "both at p50").toBe(4);
    const legend = await page.locator("#percentiles .drawing > svg").last().locator("text").allTextContents();
    expect(legend.filter((text) => text !== "").map((text) => text.replaceAll("\u00a0", " "))).toEqual([
      "server a, at 954 MiB/s",
      "server b, at 954 MiB/s",
    ]);
  });

  test("commands are code, and no flag is broken", async () => {
    const view = grid(2, 2);
    view.notes = ["2 cells skipped: `--format csv` lists every reason"];
    const [first] = view.cells;
    if (first) Object.assign(first, { outcome: "failed", reason: "leave out --implementation liburing" });
    const { page } = await open(fileOf([view]));
    expect(await page.locator("#notes li code").textContent()).toBe("--format csv");
    expect(await page.locator("#notes").textContent()).not.toContain("`");
    expect(await page.locator("#missing td .flag").first().textContent()).toBe("--implementation");
  });

  test("no line joins what was screened to what was confirmed", async () => {
    const cells = [1, 2, 4, 8].map((size, at) =>
      cell({
        id: `c${size}`,
        factors: { transport: "unix", read_size: size * 1024 },
        stage: at < 2 ? "screen" : "confirm",
        bound: at < 2 ? null : [0, 0.1],
      }),
    );
    const { page } = await open(fileOf([session(cells, { varied: ["read_size"], recommended: "c4" })]));
    const lines = await page
      .locator("#sweep .drawing svg path[d]")
      .evaluateAll((all) =>
        all.map((each) => each.getAttribute("d") ?? "").filter((d) => /^M[\d.,]+(L[\d.,]+)+$/.test(d)),
      );
    expect(lines.length).toBeGreaterThan(1);
    for (const d of lines) expect(d.split("L"), d).toHaveLength(2);
    expect(await page.locator("#sweep .reading").textContent()).toContain("in other trials than the confirmed ones");
  });

  test("a click leaves no tip behind", async () => {
    const { page } = await open(fileOf([grid(5, 4)]));
    const map = page.locator("#heatmap .board svg").first();
    await map.scrollIntoViewIfNeeded();
    const box = await map.boundingBox();
    if (!box) throw new Error("a heat map has a place");
    const tips = () => map.locator('[aria-label="tip"] text').count();
    await page.mouse.move(box.x + box.width - 40, box.y + 40);
    await expect.poll(tips).toBeGreaterThan(0);
    await page.mouse.click(box.x + box.width - 30, box.y + 40);
    await page.mouse.move(2, 2);
    await expect.poll(tips).toBe(0);
  });

  test("marks at the ends of their axes are seen whole", async () => {
    const sizes = [1, 4].map((size) =>
      cell({ id: `c${size}`, factors: { transport: "unix", read_size: size * 1024, write_size: 1024 } }),
    );
    for (const [at, each] of sizes.entries())
      for (const [part, ns] of Object.entries({ p50: 2e4, p90: 5e4, p99: 9e4 }))
        each.more[`total_${part}_ns`] = { metric: part, unit: "ns", median: ns * (at + 1), lower: null, upper: null };
    const { page, trouble } = await open(fileOf([session(sizes, { varied: ["read_size"] })]));
    const cut = await page
      .locator("#percentiles .drawing > svg")
      .first()
      .evaluate((drawing) => {
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
});
