// The map: a row for each sender, a column for each receiver, a colour for the rate compared with the typical one. It is one
// canvas, since a mesh of 1,000 hosts has a million cells; large meshes begin with one cell for each pair of racks.

import { arrow, h } from "../dom";
import { type Band, type Cells, between, grouped, type Mesh, type MeshOption, single, rateOf, shareOf } from "./data";
import { colour, DARK, key } from "./colours";

/** Meshes of more hosts begin with racks. */
const SINGLE_MAX = 320;

/** The longest side of the canvas, pixels. */
const SIDE = 640;

/** Maps of more rows or columns have no names at their sides, on narrow screens of more than the second number. */
const NAMED_MAX = [48, 20] as const;

/** The rows and columns of the map at the moment, and the cell under the pointer. */
interface Shown {
  senders: Band[];
  receivers: Band[];
  at: [number, number] | null;
}

/** The map of an option, with a line that describes the cell under the pointer. */
export function map(mesh: Mesh, option: MeshOption, cells: Cells): HTMLElement {
  const all = single(mesh, 0, cells.size);
  const groups = grouped(mesh);
  const isLarge = cells.size > SINGLE_MAX && groups.length > 1;
  const shown: Shown = { senders: all, receivers: all, at: null };
  const canvas = h("canvas", {
    tabindex: 0,
    role: "img",
    "aria-label":
      "Rate from each sender (row) to each receiver (column). The tables below have the slow hosts and links.",
  });
  const mark = h("div", { class: "mark", hidden: true });
  const [rows, columns] = [h("div", { class: "senders" }), h("div", { class: "receivers" })];
  const detail = h("p", { class: "detail", "aria-live": "polite" });
  const back = h("button", { type: "button", hidden: true, onclick: () => show(groups, groups) }, "All racks");
  const each = h("button", { type: "button", hidden: !isLarge, onclick: () => show(all, all) }, "All hosts");

  function show(senders: Band[], receivers: Band[]): void {
    Object.assign(shown, { senders, receivers, at: null });
    back.hidden = !isLarge || senders === groups;
    each.hidden = !isLarge || senders === all;
    paint(canvas, mesh, option, cells, shown);
    name(rows, senders);
    name(columns, receivers);
    describe();
  }

  function describe(): void {
    const hint =
      isLarge && shown.senders === groups
        ? "A dot marks a slow host or link. Select a cell to see the hosts of two racks."
        : " ";
    detail.textContent = described(mesh, option, cells, shown) ?? hint;
    mark.hidden = !shown.at;
    const [row, column] = shown.at ?? [0, 0];
    const percent = (part: number, all: number): string => `${(100 * part) / all}%`;
    Object.assign(mark.style, {
      top: percent(row, shown.senders.length),
      left: percent(column, shown.receivers.length),
      height: percent(1, shown.senders.length),
      width: percent(1, shown.receivers.length),
    });
  }

  function open(): void {
    const [sender, receiver] = selected(shown);
    if (!sender || !receiver || sender.count * receiver.count === 1) return;
    show(single(mesh, sender.first, sender.count), single(mesh, receiver.first, receiver.count));
  }

  listen(canvas, shown, describe, open);
  show(isLarge ? groups : all, isLarge ? groups : all);
  return h(
    "div",
    { class: "map" },
    h("div", { class: "buttons" }, back, each),
    h("p", { class: "soft" }, "Rows send, columns receive."),
    h("div", { class: "plot" }, columns, rows, h("div", { class: "cells" }, canvas, mark)),
    detail,
    key(),
  );
}

/** Follows the pointer and the keys. */
function listen(canvas: HTMLCanvasElement, shown: Shown, describe: () => void, open: () => void): void {
  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    const row = Math.floor(((event.clientY - box.top) / box.height) * shown.senders.length);
    const column = Math.floor(((event.clientX - box.left) / box.width) * shown.receivers.length);
    shown.at = within(shown, row, column);
    describe();
  });
  canvas.addEventListener("pointerleave", () => {
    shown.at = null;
    describe();
  });
  canvas.addEventListener("click", open);
  canvas.addEventListener("keydown", (event) => {
    const step = arrow(event);
    if (event.key === "Enter") open();
    if (!step) return;
    const [row, column] = shown.at ?? [0, 0];
    shown.at = within(shown, row + step[1], column + step[0]);
    describe();
  });
}

/** Writes the names of bands at a side of the map; none if there are too many. */
function name(side: HTMLElement, bands: Band[]): void {
  const [most, narrow] = NAMED_MAX;
  side.classList.toggle("wide", bands.length > narrow);
  side.replaceChildren(...(bands.length > most ? [] : bands.map((band) => h("span", { title: band.name }, band.name))));
}

/** The nearest cell of the map. */
const within = (shown: Shown, row: number, column: number): [number, number] => [
  Math.min(shown.senders.length - 1, Math.max(0, row)),
  Math.min(shown.receivers.length - 1, Math.max(0, column)),
];

const selected = ({ senders, receivers, at }: Shown): [Band | undefined, Band | undefined] =>
  at ? [senders[at[0]], receivers[at[1]]] : [undefined, undefined];

/** Draws one pixel per cell, enlarged by a whole number. */
function paint(
  canvas: HTMLCanvasElement,
  mesh: Mesh,
  option: MeshOption,
  cells: Cells,
  { senders, receivers }: Shown,
): void {
  const [width, height] = [receivers.length, senders.length];
  const pixels = new ImageData(width, height);
  senders.forEach((sender, row) =>
    receivers.forEach((receiver, column) => {
      const self = sender.count === 1 && receiver.count === 1 && sender.first === receiver.first;
      const share = between(cells, sender, receiver) / option.typical;
      pixels.data.set(self ? [0, 0, 0, 0] : [...colour(share), 255], 4 * (row * width + column));
    }),
  );
  const scale = Math.max(1, Math.floor(SIDE / Math.max(width, height)));
  const small = document.createElement("canvas");
  [small.width, small.height] = [width, height];
  small.getContext("2d")?.putImageData(pixels, 0, 0);
  [canvas.width, canvas.height] = [scale * width, scale * height];
  const drawing = canvas.getContext("2d");
  if (!drawing) return;
  drawing.imageSmoothingEnabled = false;
  drawing.drawImage(small, 0, 0, canvas.width, canvas.height);
  if (senders.some((band) => band.count > 1)) markSlow(drawing, option, senders, receivers, scale);
  if (scale <= 3) return;
  drawing.strokeStyle = DARK.matches ? "#fff6" : "#0006";
  for (const row of begins(mesh, senders)) line(drawing, 0, row * scale, canvas.width, 0);
  for (const column of begins(mesh, receivers)) line(drawing, column * scale, 0, 0, canvas.height);
}

/** Marks groups of cells with a slow host or link, which the median hides. */
function markSlow(
  drawing: CanvasRenderingContext2D,
  option: MeshOption,
  senders: Band[],
  receivers: Band[],
  scale: number,
): void {
  const of = (bands: Band[], host: number): number =>
    bands.findIndex((band) => host >= band.first && host < band.first + band.count);
  const hosts = option.slow_hosts.map((host) => [host, host] as const);
  const links = option.slow_links.map((link) => [link.sender, link.receiver] as const);
  drawing.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--warn");
  for (const [sender, receiver] of [...hosts, ...links]) {
    const [row, column] = [of(senders, sender), of(receivers, receiver)];
    if (row < 0 || column < 0) continue;
    drawing.beginPath();
    drawing.arc((column + 0.5) * scale, (row + 0.5) * scale, Math.max(1, scale / 5), 0, 2 * Math.PI);
    drawing.fill();
  }
}

/** The positions at which a rack begins, except the first one. */
function begins(mesh: Mesh, bands: Band[]): number[] {
  const rack = (at: number): string | undefined => mesh.hosts[bands[at]?.first ?? -1]?.rack;
  return bands.map((_, at) => at).filter((at) => at > 0 && rack(at) !== rack(at - 1));
}

/** The cell under the pointer as text; null without one. */
function described(mesh: Mesh, option: MeshOption, cells: Cells, shown: Shown): string | null {
  const [sender, receiver] = selected(shown);
  if (!sender || !receiver) return null;
  const rate = between(cells, sender, receiver);
  const pair = `${sender.name} to ${receiver.name}`;
  const many = sender.count * receiver.count > 1;
  if (Number.isNaN(rate)) return !many && sender.first === receiver.first ? pair : `${pair}: not measured`;
  const interval = many ? null : cells.interval(sender.first, receiver.first);
  const range = interval ? ` (95 % interval ${rateOf(mesh, interval[0])} to ${rateOf(mesh, interval[1])})` : "";
  const share = shareOf(rate / option.typical - 1);
  return `${pair}: ${many ? "median " : ""}${rateOf(mesh, rate)}${range}, ${share} typical`;
}

function line(drawing: CanvasRenderingContext2D, x: number, y: number, width: number, height: number): void {
  drawing.beginPath();
  drawing.moveTo(x, y);
  drawing.lineTo(x + width, y + height);
  drawing.stroke();
}
