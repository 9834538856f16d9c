// Two factors against each other on band axes, and the two lines through the selected cell. Hatched tiles were screened only.

import { axisName, factorOf, level } from "../data";
import { h } from "../dom";
import { capital } from "../format";
import { type Figure, select } from "../frame";
import { levels, named } from "../levels";
import { choicesOf, usualMeasure } from "../measure";
import type { Looking } from "../state";
import { board } from "./heatmap/board";
import { caption, type HeatMap, heatMap, notes, table, type Wish } from "./heatmap/contents";

const wishes = new Map<string, Wish>();
/** The last measure in any group: another group begins with it. */
let lastMeasure: string | null = null;

export function heatmap(looking: Looking, redraw: () => void, selectCell: (id: string) => void): Figure | null {
  const { group } = looking;
  const map = heatMap(looking, wishes.get(group.id), lastMeasure ?? usualMeasure(group));
  if (!map) return null;
  const { wish, fx, fy, measure } = map;
  const choose = (change: Partial<Wish>) => {
    const next = { ...wish, ...change };
    if (next.x === next.y) Object.assign(next, change.x ? { y: wish.x } : { x: wish.y });
    wishes.set(group.id, next);
    lastMeasure = next.measure;
    redraw();
  };
  return {
    id: "heatmap",
    title: capital(`${measure.label} by ${axisName(fx)} × ${axisName(fy)}`),
    caption: caption(map),
    notes: notes(map),
    asks: "Click a cell, or use the arrow keys, to see the two lines through it.",
    controls: controls(map, choose, (id) => {
      selectCell(id);
      redraw();
    }),
    table: () => table(map),
    draw: (width) => board(map, width, selectCell),
  };
}

/** Axes, measure, and a level of each factor that is not an axis. */
function controls(map: HeatMap, choose: (change: Partial<Wish>) => void, open: (id: string) => void): HTMLElement {
  const { view, all, factors, wish, known, measure, chosen } = map;
  const option = (factor: string) => ({ value: factor, text: axisName(factorOf(view, factor)) });
  const others = factors.filter((factor) => factor !== wish.x && factor !== wish.y);
  const fixed = (factor: string) => {
    const values = levels(all, factor);
    const own = factorOf(view, factor);
    const options = values.map((value, at) => ({ value: String(at), text: named(value, own) }));
    return select(own.heading, options, String(values.indexOf(level(chosen, factor))), (at) => {
      const wanted = values[Number(at)] ?? null;
      const found = all.filter((cell) => level(cell, factor) === wanted);
      const same = found.find((cell) =>
        factors.every((name) => name === factor || level(cell, name) === level(chosen, name)),
      );
      const near = same ?? found[0];
      if (near) open(near.id);
    });
  };
  return h(
    "div",
    { class: "controls" },
    select("across", factors.map(option), wish.x, (x) => choose({ x })),
    select("down", factors.map(option), wish.y, (y) => choose({ y })),
    select("colour", choicesOf(known), measure.key, (key) => choose({ measure: key })),
    ...others.map(fixed),
  );
}
