// One cell measured twice in every group: how far apart the same thing came out.

import * as Plot from "@observablehq/plot";
import { percent } from "../format";
import type { Figure } from "../frame";
import { accent, draw, faint, ink, paper, rows as named, warn } from "../look";
import type { Looking } from "../state";

export function twins({ view, group }: Looking): Figure | null {
  const rows = view.groups
    .filter((each) => each.twin?.difference != null)
    .map((each) => ({
      id: each.id,
      label: each.label,
      own: each.id === group.id,
      ...(each.twin as NonNullable<typeof each.twin>),
    }));
  if (rows.length === 0) return null;
  const { margin } = view.plan;
  const ends = rows.flatMap((row) => [row.lower ?? 0, row.upper ?? 0]);
  // What lies beyond is cut off: one group that says nothing must not make the others unreadable.
  const [low, top] = [Math.max(-0.6, Math.min(-margin * 1.4, ...ends)), Math.min(0.6, Math.max(margin * 1.4, ...ends))];
  const clip = (share: number | null | undefined) => (share == null ? null : Math.max(low, Math.min(share, top)));
  return {
    id: "twins",
    title: "The same thing measured twice",
    reading: `In every group the leader runs twice under two names. The bar is the interval of the difference at ${percent(view.plan.level)}; it should cover 0. A crossed row is an alarm: nothing in that group is proven. The shade is the margin.`,
    table: () => ({
      columns: ["group", "label", "cell", "twin", "difference", "lower", "upper", "alarm", "blocks"],
      rows: rows.map((row) => [
        row.id,
        row.label,
        row.cell,
        row.twin,
        row.difference ?? null,
        row.lower ?? null,
        row.upper ?? null,
        row.alarm ? "alarm" : "no",
        row.blocks,
      ]),
    }),
    draw(width) {
      const { left, y, names, height } = named(rows, (row) => `${row.own ? "▸ " : ""}${row.label}`, width);
      const tone = (row: (typeof rows)[number]) => (row.alarm ? warn() : accent());
      return [
        draw(width, {
          height: 62 + height,
          marginLeft: left,
          marginRight: 22,
          marginTop: 8,
          marginBottom: 40,
          x: {
            domain: [low, top],
            grid: true,
            label: "twin dearer than the cell it repeats",
            labelArrow: "none",
            labelAnchor: "center",
            ticks: Math.max(3, Math.floor((width - left) / 90)),
            tickFormat: (share: number) => percent(share).replace("-", "−"),
          },
          y,
          marks: [
            Plot.rectX([margin], { x1: -margin, x2: margin, fill: accent(), fillOpacity: 0.12 }),
            Plot.ruleX([0], { stroke: faint() }),
            names,
            Plot.ruleY(rows, {
              y: "id",
              x1: (row) => clip(row.lower),
              x2: (row) => clip(row.upper),
              stroke: tone,
              strokeWidth: 3,
            }),
            Plot.text(
              rows.filter((row) => (row.upper ?? 0) > top),
              { y: "id", x: top, text: () => "▶", dx: 6, fill: faint() },
            ),
            Plot.text(
              rows.filter((row) => (row.lower ?? 0) < low),
              { y: "id", x: low, text: () => "◀", dx: -6, fill: faint() },
            ),
            Plot.dot(rows, { y: "id", x: (row) => clip(row.difference), fill: tone, r: 4.5 }),
            Plot.dot(
              rows.filter((row) => row.alarm),
              { y: "id", x: (row) => clip(row.difference), symbol: "times", stroke: ink(), r: 8, strokeWidth: 2 },
            ),
            Plot.tip(
              rows,
              Plot.pointerY({
                y: "id",
                x: (row) => clip(row.difference),
                title: (row) =>
                  `${row.label}\n${percent(row.difference ?? 0)} apart (${percent(row.lower ?? 0)} to ${percent(row.upper ?? 0)}), ${row.blocks} blocks`,
                fill: paper(),
                lineHeight: 1.3,
              }),
            ),
          ],
        }),
      ];
    },
  };
}
