//! Levels by factor as JSON, and their schema, from the table of factors.

use std::borrow::Cow;

use bytegauge_model::factor::Factor;
use bytegauge_model::{FACTORS, level::LevelKind};
use bytegauge_model::{Level, Spec, factor};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

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
        LevelKind::Size { auto: false, .. }
        | LevelKind::Count { auto: false, .. }
        | LevelKind::Duration { auto: false, .. } => &["integer", "null"],
        LevelKind::PowerOfTwo { .. } => &["integer", "null"],
        LevelKind::Switch { auto: false } => &["boolean", "null"],
        LevelKind::Switch { auto: true } => &["boolean", "string", "null"],
        LevelKind::Name(_) => &["string", "null"],
        _ => &["integer", "string", "null"],
    }
}

/// Writes the level of every factor of the workload, `null` where it does not apply.
///
/// # Errors
/// Those of the serializer.
pub fn all_levels<S: Serializer>(spec: &Spec, serializer: S) -> Result<S::Ok, S::Error> {
    let level = |name: &str| match spec.get(name) {
        Level::Absent => Value::Null,
        level => serde_json::to_value(level).unwrap_or(Value::Null),
    };
    let levels = factor::of(spec.workload()).map(|factor| (factor.name.to_owned(), level(factor.name)));
    levels.collect::<Map<String, Value>>().serialize(serializer)
}

/// Writes the levels that are there.
///
/// # Errors
/// Those of the serializer.
pub fn present_levels<S: Serializer>(spec: &Spec, serializer: S) -> Result<S::Ok, S::Error> {
    let levels = spec.iter().filter(|(_, level)| *level != Level::Absent);
    let levels = levels.map(|(name, level)| (name.to_owned(), serde_json::to_value(level).unwrap_or(Value::Null)));
    levels.collect::<Map<String, Value>>().serialize(serializer)
}
