// Saves a figure as SVG or PNG and its data as CSV. Nothing leaves the machine: files are made in memory.

/** Columns and rows of a figure's data. */
export interface Table {
  columns: string[];
  rows: (string | number | null)[][];
}

/** RFC 4180; a text that a spreadsheet would take for a formula is quoted with a leading apostrophe. */
export function csv(table: Table): string {
  const field = (value: string | number | null): string => {
    if (value == null) return "";
    if (typeof value === "number") return String(value);
    const safe = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
    return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  return [table.columns, ...table.rows].map((row) => row.map(field).join(",")).join("\r\n") + "\r\n";
}

export function save(name: string, type: string, content: BlobPart): void {
  const address = URL.createObjectURL(new Blob([content], { type }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** The drawings of a figure where they stand on the page, as one file that needs no style sheet. */
export function standalone(
  drawings: SVGSVGElement[],
  title: string,
  /** Beneath the title: under which conditions it holds, where and when it was measured. */
  lines: string[],
  /** How to read it, beneath the drawings. */
  caption: string,
  background: string,
  colour: string,
): string {
  const sized = drawings.map((drawing) => {
    const width = drawing.width.baseVal.value || drawing.viewBox.baseVal.width;
    const height = drawing.height.baseVal.value || drawing.viewBox.baseVal.height;
    return { drawing, width, height };
  });
  const root = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const boxes = drawings.map((drawing) => drawing.getBoundingClientRect());
  const [left, top] = [Math.min(...boxes.map((box) => box.left)), Math.min(...boxes.map((box) => box.top))];
  const parts: Node[] = [];
  let [right, bottom] = [0, 0];
  for (const [at, each] of sized.entries()) {
    const [x, y] = [16 + (boxes[at]?.left ?? left) - left, HEAD + LINE * lines.length + (boxes[at]?.top ?? top) - top];
    const copy = each.drawing.cloneNode(true) as SVGSVGElement;
    copy.removeAttribute("style");
    // What a finger left standing.
    for (const tip of copy.querySelectorAll('[aria-label="tip"]')) tip.remove();
    copy.setAttribute("x", String(x));
    copy.setAttribute("y", String(y));
    copy.setAttribute("width", String(each.width));
    copy.setAttribute("height", String(each.height));
    copy.setAttribute("overflow", "visible");
    parts.push(copy);
    [right, bottom] = [Math.max(right, x + each.width), Math.max(bottom, y + each.height)];
  }
  const width = Math.ceil(Math.max(right + 16, NARROWEST));
  const told = wrapped(caption, Math.floor((width - 32) / LETTER));
  const height = Math.ceil(bottom + 12 + (told.length > 0 ? LINE * told.length + 8 : 0));
  root.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  root.setAttribute("viewBox", `0 0 ${width} ${height}`);
  root.setAttribute("width", String(width));
  root.setAttribute("height", String(height));
  root.setAttribute("color", colour);
  root.setAttribute("font-family", "system-ui, sans-serif");
  root.setAttribute("font-size", "12");
  const paper = document.createElementNS(root.namespaceURI, "rect") as SVGRectElement;
  for (const [key, value] of Object.entries({ width: "100%", height: "100%", fill: background }))
    paper.setAttribute(key, value);
  const text = (content: string, y: number, look: Record<string, string>) => {
    const line = document.createElementNS(root.namespaceURI, "text") as SVGTextElement;
    for (const [key, value] of Object.entries({ x: "16", y: String(y), fill: colour, ...look }))
      line.setAttribute(key, value);
    line.textContent = content;
    return line;
  };
  const faint = { "fill-opacity": "0.75" };
  root.append(
    paper,
    text(title, 26, { "font-size": "15", "font-weight": "600" }),
    ...lines.map((line, at) => text(line, 45 + LINE * at, faint)),
    ...parts,
    ...told.map((line, at) => text(line, bottom + 24 + LINE * at, faint)),
  );
  return new XMLSerializer().serializeToString(root);
}

/** What stands above the drawings but the lines beneath the title, a line's height, a letter's width; pixels. */
const [HEAD, LINE, LETTER] = [46, 16, 6.4];
/** The narrowest that a caption is readable in; pixels. */
const NARROWEST = 420;

/** A text in lines of so many letters at most, but for words that are longer. */
export function wrapped(text: string, letters: number): string[] {
  const lines: string[] = [];
  for (const word of text.split(" ").filter((part) => part !== "")) {
    const last = lines.at(-1);
    if (last != null && last.length + 1 + word.length <= letters) lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(word);
  }
  return lines;
}

/** The same as a picture of dots, twice as fine as the screen of old. */
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
