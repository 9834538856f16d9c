//! The JSON Schema of levels by factor, from the table of factors.

use std::borrow::Cow;

use bytegauge_model::factor::Factor;
use bytegauge_model::{FACTORS, level::LevelKind};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

/// The schema of [`super::Factors`], from the table of factors.
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
