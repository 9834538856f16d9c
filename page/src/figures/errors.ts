// Failed calls by the failure and what the client did at that time, as a share of all calls.

import * as Plot from "@observablehq/plot";
import { candidates, type CellView } from "../data";
import { capital, count, percent } from "../format";
import type { Figure } from "../frame";
import { draw, faint, ink, paper, rows as laidOut, warn } from "../look";
import type { Looking } from "../state";

const ROWS_MAX = 24;
/** The room of a text at the end of a bar, pixels. */
const TEXT = 130;

type Failed = NonNullable<CellView["call"]>["errors"][number];

interface Row {
  id: string;
  cell: CellView;
  error: Failed;
  share: number | null;
}

/** What the client did, by phase. */
const DOING: Record<string, string> = {
  connect: "connecting",
  write: "writing",
  "first-byte": "waiting for the reply",
  reply: "reading the reply",
  idle: "idle",
};

const kind = ({ class: failure, phase }: Failed) => `${failure.replaceAll("-", " ")} while ${DOING[phase] ?? phase}`;

/** The explanation of each kind, once: that of the cell with the most of it. */
export function explained(rows: Pick<Row, "cell" | "error">[]): string[] {
  const found = new Map<string, string>();
  for (const { cell, error } of rows)
    if (!found.has(kind(error)))
      found.set(kind(error), `${capital(kind(error))} (${cell.label || cell.id}): ${error.explanation}.`);
  return [...found.values()];
}

export function errors({ view, group }: Looking): Figure | null {
  const all: Row[] = candidates(view, group).flatMap((cell) =>
    (cell.call?.errors ?? []).map((error, at) => ({
      id: `${cell.id} ${at}`,
      cell,
      error,
      share: cell.call?.begun ? error.count / cell.call.begun : null,
    })),
  );
  if (all.length === 0) return null;
  all.sort((a, b) => (b.share ?? 0) - (a.share ?? 0) || b.error.count - a.error.count);
  const rows = all.slice(0, ROWS_MAX);
  return {
    id: "errors",
    title: "Failed calls by kind",
    caption: "A bar is the share of all calls that failed in this way.",
    notes: [
      ...explained(rows),
      all.length > rows.length && `The first ${rows.length} of ${all.length} rows; the data has all.`,
    ],
    table: () => table(all),
    draw: (width) => [drawn(rows, width)],
  };
}

function table(all: Row[]) {
  return {
    columns: [
      "cell",
      "label",
      "class",
      "phase",
      "calls",
      "begun",
      "request_bytes_lost",
      "reply_bytes_missing",
      "explanation",
    ],
    rows: all.map(({ cell, error }) => [
      cell.id,
      cell.label,
      error.class,
      error.phase,
      error.count,
      cell.call?.begun ?? null,
      error.request_bytes_lost,
      error.reply_bytes_missing,
      error.explanation,
    ]),
  };
}

function drawn(rows: Row[], width: number): SVGSVGElement {
  const name = ({ cell, error }: Row) => `${cell.label || cell.id}: ${kind(error)}`;
  const { left, y, names, height } = laidOut(rows, name, width);
  const most = Math.max(...rows.map((row) => row.share ?? 0));
  const x = (row: Row) => row.share ?? 0;
  return draw(width, {
    height: 50 + height,
    marginLeft: left,
    marginRight: 24,
    marginTop: 6,
    marginBottom: 40,
    x: {
      domain: [0, Math.min(1, most || 1) * (1 + TEXT / Math.max(width - left, 200))],
      grid: true,
      label: "of all calls",
      labelArrow: "none",
      labelAnchor: "center",
      ticks: Math.max(3, Math.floor((width - left) / 110)),
      tickFormat: (share: number) => percent(share),
    },
    y,
    marks: [
      names,
      Plot.barX(rows, { y: "id", x, fill: warn(), fillOpacity: 0.75, insetTop: 3, insetBottom: 3 }),
      Plot.text(rows, {
        y: "id",
        x,
        text: ({ share, error }: Row) => `${share == null ? "" : `${percent(share)}, `}${count(error.count)} calls`,
        textAnchor: "start",
        dx: 6,
        fill: ink(),
        stroke: paper(),
        strokeWidth: 4,
      }),
      Plot.ruleX([0], { stroke: faint() }),
    ],
  });
}
