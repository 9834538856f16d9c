// The map: a row for each sender, a column for each receiver, a colour for the rate compared with the typical one. It is one
// canvas, since a mesh of 1,000 hosts has a million cells; large meshes begin with one cell for each pair of racks.

import { h } from "../dom";
import { type Band, type Cells, between, grouped, type Mesh, type MeshOption, single } from "./data";
import { rateOf, shareOf } from "./words";

/** Meshes of more hosts begin with racks. */
const SINGLE_MAX = 150;

const SIDE = 640;

/** Colours by the share of the typical rate: slow is orange to red, typical is pale, fast is blue. */
const STOPS: [number, [number, number, number]][] = [
  [0.3, [127, 29, 29]],
  [0.6, [220, 88, 42]],
  [0.85, [250, 190, 110]],
  [1, [236, 240, 243]],
  [1.15, [140, 187, 224]],
  [1.6, [11, 98, 164]],
];

const UNMEASURED: [number, number, number] = [150, 150, 150];

/** The colour of a share of the typical rate. */
export function colour(share: number): [number, number, number] {
  if (Number.isNaN(share)) return UNMEASURED;
  const above = STOPS.findIndex(([at]) => share <= at);
  if (above === 0) return STOPS[0]![1];
  const [upper, lower] = [STOPS.at(above), STOPS.at(above === -1 ? -1 : above - 1)];
  if (!upper || !lower || above === -1) return STOPS.at(-1)![1];
  const part = (share - lower[0]) / (upper[0] - lower[0]);
  return lower[1].map((low, at) => Math.round(low + part * (upper[1][at]! - low))) as [number, number, number];
}

/** The rows and columns of the map at the moment, and the cell under the pointer. */
interface Shown {
  senders: Band[];
  receivers: Band[];
  at: [number, number] | null;
}

const STEPS: Record<string, [number, number]> = {
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
};

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
  const detail = h("p", { class: "detail", "aria-live": "polite" });
  const back = h("button", { type: "button", hidden: true, onclick: () => show(groups, groups) }, "All racks");
  const each = h("button", { type: "button", hidden: !isLarge, onclick: () => show(all, all) }, "All hosts");

  function show(senders: Band[], receivers: Band[]): void {
    Object.assign(shown, { senders, receivers, at: null });
    back.hidden = !isLarge || senders === groups;
    each.hidden = !isLarge || senders === all;
    paint(canvas, mesh, option, cells, shown);
    describe();
  }

  function describe(): void {
    const hint = isLarge && shown.senders === groups ? "Select a cell to see the hosts of two racks." : " ";
    detail.textContent = described(mesh, option, cells, shown) ?? hint;
  }

  function open(): void {
    const [sender, receiver] = selected(shown);
    if (!sender || !receiver || sender.count * receiver.count === 1) return;
    show(single(mesh, sender.first, sender.count), single(mesh, receiver.first, receiver.count));
  }

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
    const step = STEPS[event.key];
    if (event.key === "Enter") open();
    if (!step) return;
    event.preventDefault();
    const [row, column] = shown.at ?? [0, 0];
    shown.at = within(shown, row + step[0], column + step[1]);
    describe();
  });
  show(isLarge ? groups : all, isLarge ? groups : all);
  return h("div", { class: "map" }, h("div", { class: "buttons" }, back, each), canvas, detail, key());
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
  if (scale <= 3) return;
  drawing.strokeStyle = "#0006";
  for (const row of begins(mesh, senders)) line(drawing, 0, row * scale, canvas.width, 0);
  for (const column of begins(mesh, receivers)) line(drawing, column * scale, 0, 0, canvas.height);
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

/** The colours with their shares. */
function key(): HTMLElement {
  const shares = [0.3, 0.6, 0.85, 1, 1.15, 1.6];
  const entry = (share: number, text: string): HTMLElement => {
    const box = h("span", { class: "box" });
    box.style.background = `rgb(${colour(share).join(" ")})`;
    return h("span", { class: "entry" }, box, text);
  };
  const named = shares.map((share) => entry(share, `${Math.round(share * 100)} %`));
  return h("p", { class: "key" }, "Share of the typical rate: ", ...named, entry(NaN, "not measured"));
}
