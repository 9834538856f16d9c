//! The JSON Schemas of the documents, derived from their types; doc comments become descriptions.
//!
//! Factors and limits are taken from their tables. Written to `schema/` by `cargo xtask generate`; not used elsewhere in the
//! product.

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::json;

use super::SCHEMA_VERSION;

/// The schema of a document of this name and title.
pub fn of<Document: JsonSchema>(name: &str, title: &str) -> String {
    let mut schema = SchemaSettings::draft2020_12()
        .for_serialize()
        .with_transform(RecursiveTransform(closed))
        .into_generator()
        .into_root_schema_for::<Document>();
    schema.insert("$id".into(), json!(format!("https://bytegauge.invalid/schema/{name}/{SCHEMA_VERSION}")));
    schema.insert("title".into(), json!(title));
    let mut text = serde_json::to_string_pretty(&schema).expect("a schema is plain data");
    text.push('\n');
    text
}

/// Forbids keys that are not described, except in a type that declares that it has others.
fn closed(schema: &mut Schema) {
    if schema.get("properties").is_some() && schema.get("additionalProperties").is_none() {
        schema.insert("additionalProperties".into(), json!(false));
    }
}

/// The names of the limits.
pub(super) fn limit(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "description": "The limit; `unknown` where no number proves one.",
        "enum": bytegauge_bottleneck::names().collect::<Vec<_>>(),
    })
}
