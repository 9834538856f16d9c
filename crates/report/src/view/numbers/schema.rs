//! The JSON Schemas of the documents, derived from their types; doc comments become descriptions.
//!
//! Factors and limits are taken from their tables. Written to `schema/` by `cargo xtask generate`. Below: how the levels of cells are
//! written.

use std::borrow::Cow;
use std::collections::BTreeMap;

use bytegauge_model::factor::{self, Factor};
use bytegauge_model::level::LevelKind;
use bytegauge_model::{FACTORS, Level, Spec};
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

/// Version of the JSON document. Rises when a key changes its meaning or goes away.
pub const VERSION: u32 = 4;

/// The schema of a document of this name and title.
pub fn of<Document: JsonSchema>(name: &str, title: &str) -> String {
    let mut schema = SchemaSettings::draft2020_12()
        .for_serialize()
        .with_transform(RecursiveTransform(closed))
        .into_generator()
        .into_root_schema_for::<Document>();
    schema.insert("$id".into(), json!(format!("https://bytegauge.invalid/schema/{name}/{VERSION}")));
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

// Levels by factor as JSON, and their schema, from the table of factors.

/// The schema of the levels of a cell, from the table of factors.
pub struct FactorLevels;

impl JsonSchema for FactorLevels {
    fn schema_name() -> Cow<'static, str> {
        "Factors".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let level = |factor: &Factor| json!({ "description": factor.description(), "type": types(factor.kind) });
        let levels: Map<String, Value> = FACTORS.iter().map(|factor| (factor.name.to_owned(), level(factor))).collect();
        json_schema!({
            "type": "object",
            "description": "The level of every factor of the workload; `null` where it does not apply.",
            "properties": levels,
            // An imported table may have conditions of its own.
            "additionalProperties": { "type": ["integer", "string", "boolean", "null"] },
        })
    }
}

/// The JSON of levels of a kind. A name represents the system's default, or a level without a number.
fn types(kind: LevelKind) -> &'static [&'static str] {
    match kind {
        LevelKind::Size { word: None, .. }
        | LevelKind::Count { auto: false, .. }
        | LevelKind::Duration { auto: false, .. } => &["integer", "null"],
        LevelKind::PowerOfTwo { .. } => &["integer", "null"],
        LevelKind::Switch { auto: false } => &["boolean", "null"],
        LevelKind::Switch { auto: true } => &["boolean", "string", "null"],
        LevelKind::Name(_) => &["string", "null"],
        _ => &["integer", "string", "null"],
    }
}

/// A level as JSON, `null` for one that is absent.
pub fn json_of(level: &Level) -> Value {
    match level {
        Level::Absent => Value::Null,
        level => serde_json::to_value(level).unwrap_or_default(),
    }
}

/// Writes the level of every factor of the workload, `null` where it does not apply.
///
/// # Errors
/// Those of the serializer.
pub fn all_levels<S: Serializer>(spec: &Spec, serializer: S) -> Result<S::Ok, S::Error> {
    let levels = factor::of(spec.workload()).map(|factor| (factor.name, json_of(&spec.get(factor.name))));
    levels.collect::<BTreeMap<_, _>>().serialize(serializer)
}

/// Writes the levels that are there.
///
/// # Errors
/// Those of the serializer.
pub fn present_levels<S: Serializer>(spec: &Spec, serializer: S) -> Result<S::Ok, S::Error> {
    let levels = spec.iter().filter(|(_, level)| *level != Level::Absent);
    levels.map(|(name, level)| (name, json_of(&level))).collect::<BTreeMap<_, _>>().serialize(serializer)
}
