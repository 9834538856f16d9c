// The licences of third-party code in the built page: each copy has to contain them.

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

const isCopyright = (line: string): boolean => /^copyright (\(c\) )?\d/i.test(line.trim());

/** The notices for some modules, by their files: each text once, after the packages that it is for with their copyrights. */
export function notices(modules: string[]): string {
  const folders = new Set(
    modules.flatMap((file) => file.replace(/^\0/, "").match(/^.*\/node_modules\/(?:@[^/]+\/)?[^/]+/)?.[0] ?? []),
  );
  const texts = new Map<string, string[]>();
  for (const folder of folders) {
    const { name, version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as Record<
      string,
      string
    >;
    const file = existsSync(folder) ? readdirSync(folder).find((each) => /^licen[cs]e/i.test(each)) : undefined;
    const lines = file ? readFileSync(join(folder, file), "utf8").trim().split("\n") : [`${license}`];
    const text = lines
      .filter((line) => !isCopyright(line))
      .join("\n")
      .trim();
    const own = [`${name} ${version}`, ...lines.filter(isCopyright).map((line) => line.trim())].join(": ");
    texts.set(text, [...(texts.get(text) ?? []), own]);
  }
  const parts = [...texts].map(([text, names]) => `${names.sort().join("\n")}\n\n${text}`);
  return parts.sort().join("\n\n* * *\n\n");
}
