// Saves a figure as SVG or PNG and its data as CSV. Files are made in memory; nothing leaves the machine.

import { csvFormatRows } from "d3-dsv";
import type { Level } from "./data";
import { svg } from "./dom";
import { inLines } from "./look";

/** Columns and rows of a figure's data. */
export interface Table {
  columns: string[];
  rows: (Level | undefined)[][];
}

/** RFC 4180; a text that a spreadsheet would run as a formula gets a leading apostrophe. */
export function csv({ columns, rows }: Table): string {
  const field = (value: Level | undefined): string =>
    typeof value === "string" && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value ?? "");
  return `${csvFormatRows([columns, ...rows].map((row) => row.map(field)))}\n`;
}

export function save(name: string, type: string, content: BlobPart): void {
  const address = URL.createObjectURL(new Blob([content], { type }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** The drawings of a figure, in their places on the page, as one file that needs no style sheet. */
export function standalone(
  drawings: SVGSVGElement[],
  title: string,
  /** The lines below the title: the conditions, the place and time of the measurement. */
  lines: string[],
  /** The text below the drawings. */
  caption: string,
  background: string,
  colour: string,
): string {
  const { parts, right, bottom } = placed(drawings, HEAD + LINE * lines.length);
  const width = Math.ceil(Math.max(right + 16, WIDTH_MIN));
  const text = inLines(caption, Math.floor((width - 32) / LETTER), Number.POSITIVE_INFINITY);
  const height = Math.ceil(bottom + 12 + (text.length > 0 ? LINE * text.length + 8 : 0));
  const faint = { fill: colour, "fill-opacity": 0.75, x: 16 };
  const root = svg(
    "svg",
    {
      xmlns: "http://www.w3.org/2000/svg",
      viewBox: `0 0 ${width} ${height}`,
      width,
      height,
      color: colour,
      "font-family": "system-ui, sans-serif",
      "font-size": 12,
    },
    svg("rect", { width: "100%", height: "100%", fill: background }),
    svg("text", { x: 16, y: 26, fill: colour, "font-size": 15, "font-weight": 600 }, title),
    ...lines.map((line, at) => svg("text", { ...faint, y: 45 + LINE * at }, line)),
    ...parts,
    ...text.map((line, at) => svg("text", { ...faint, y: bottom + 24 + LINE * at }, line)),
  );
  return new XMLSerializer().serializeToString(root);
}

/** Copies of the drawings in their places on the page, below `head` pixels, and their right and lower ends. */
function placed(drawings: SVGSVGElement[], head: number): { parts: Node[]; right: number; bottom: number } {
  const boxes = drawings.map((drawing) => drawing.getBoundingClientRect());
  const [left, top] = [Math.min(...boxes.map((box) => box.left)), Math.min(...boxes.map((box) => box.top))];
  const all = drawings.map((drawing, at) => {
    const width = drawing.width.baseVal.value || drawing.viewBox.baseVal.width;
    const height = drawing.height.baseVal.value || drawing.viewBox.baseVal.height;
    const [x, y] = [16 + (boxes[at]?.left ?? left) - left, head + (boxes[at]?.top ?? top) - top];
    const copy = drawing.cloneNode(true) as SVGSVGElement;
    copy.removeAttribute("style");
    for (const tip of copy.querySelectorAll('[aria-label="tip"]')) tip.remove();
    for (const [key, value] of Object.entries({ x, y, width, height, overflow: "visible" }))
      copy.setAttribute(key, String(value));
    return { copy, right: x + width, bottom: y + height };
  });
  return {
    parts: all.map(({ copy }) => copy),
    right: Math.max(0, ...all.map(({ right }) => right)),
    bottom: Math.max(0, ...all.map(({ bottom }) => bottom)),
  };
}

/** The room above the drawings without the lines below the title, the height of a line, the width of a letter; pixels. */
const [HEAD, LINE, LETTER] = [46, 16, 6.4];
/** The least width of a caption; pixels. */
const WIDTH_MIN = 420;

/** The file as a picture of pixels, in double resolution. */
export async function png(svg: string): Promise<Blob> {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = image.width * 2;
  canvas.height = image.height * 2;
  canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
  return await new Promise((resolve, reject) =>
    canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("the picture could not be made"))), "image/png"),
  );
}
