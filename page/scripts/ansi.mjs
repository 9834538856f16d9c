// What a terminal shows, as HTML: bold, dim and the eight colours, which is all that the program uses.

const COLOURS = {
  light: ["#1c1917", "#b42318", "#0f766e", "#8a5a00", "#0b62a4", "#9d3c8e", "#0f6674", "#57534e"],
  dark: ["#1c1917", "#ff8f85", "#3fd0a8", "#e6c34a", "#6cb6f5", "#eb9fd6", "#5cc8d6", "#e7e5e4"],
};

const escaped = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

/** Text with its escape sequences turned into elements; unknown ones are left out. */
export function html(text, scheme) {
  let style = { bold: false, dim: false, colour: null };
  const parts = text.replaceAll("\r\n", "\n").split(/\u001b\[([0-9;]*)m/);
  return parts
    .map((part, at) => {
      if (at % 2 === 0) return part && styled(part, style, scheme);
      for (const code of (part || "0").split(";").map(Number)) style = next(style, code);
      return "";
    })
    .join("");
}

function next(style, code) {
  if (code === 0) return { bold: false, dim: false, colour: null };
  if (code === 1) return { ...style, bold: true };
  if (code === 2) return { ...style, dim: true };
  if (code === 22) return { ...style, bold: false, dim: false };
  if (code === 39) return { ...style, colour: null };
  if (code >= 30 && code <= 37) return { ...style, colour: code - 30 };
  if (code >= 90 && code <= 97) return { ...style, colour: code - 90 };
  return style;
}

function styled(part, { bold, dim, colour }, scheme) {
  const rules = [
    bold && "font-weight: 700",
    dim && "opacity: 0.7",
    colour != null && `color: ${COLOURS[scheme][colour]}`,
  ].filter((rule) => rule);
  return rules.length > 0 ? `<span style="${rules.join("; ")}">${escaped(part)}</span>` : escaped(part);
}
