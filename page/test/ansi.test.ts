import { expect, test } from "vitest";
import { html } from "../scripts/ansi.mjs";

test("a terminal screen as HTML", () => {
  expect(html("a \u001b[1m\u001b[33m○\u001b[0m <b> & c\r\n", "light")).toBe(
    'a <span style="font-weight: 700; color: #8a5a00">○</span> &lt;b&gt; &amp; c\n',
  );
  expect(html("\u001b[2mdim\u001b[22m plain\u001b[m", "dark")).toBe('<span style="opacity: 0.7">dim</span> plain');
});
