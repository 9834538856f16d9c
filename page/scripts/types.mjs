// Writes the types of the document from its JSON Schema, which `cargo xtask generate` derives from the Rust types.
import { readFile, writeFile } from "node:fs/promises";
import { compile } from "json-schema-to-typescript";

const schema = new URL("../../crates/report/schema/report.schema.json", import.meta.url);
const types = await compile(JSON.parse(await readFile(schema, "utf8")), "View", {
  additionalProperties: false,
  bannerComment: "// Made from the JSON Schema by `npm run types`.",
});
await writeFile(new URL("../src/document.ts", import.meta.url), types);
