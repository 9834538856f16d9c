// Writes the types of the documents from their JSON Schemas, those that `cargo xtask generate` derives from the Rust types.
import { readFile, writeFile } from "node:fs/promises";
import { compile } from "json-schema-to-typescript";

for (const [crate, name, file] of [
  ["report", "report", "document"],
  ["compare", "between", "between"],
]) {
  const schema = new URL(`../../crates/${crate}/schema/${name}.schema.json`, import.meta.url);
  const types = new URL(`../src/${file}.ts`, import.meta.url);
  const text = await compile(JSON.parse(await readFile(schema, "utf8")), "View", {
    additionalProperties: false,
    bannerComment: "// Made from the JSON Schema by `npm run types`.",
  });
  await writeFile(types, text);
}
