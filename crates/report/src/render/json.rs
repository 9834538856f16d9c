//! The whole view as one JSON document (`schema/report.schema.json`).

use bytegauge_model::escape;

use crate::Report;

/// JSON Schema (2020-12) of the document.
pub const SCHEMA: &str = include_str!("../../schema/report.schema.json");

/// One document, indented, with a newline at its end.
pub fn render(view: &Report) -> String {
    // Keys are strings and numbers finite or null: nothing in a view can fail to serialise.
    let text = serde_json::to_string_pretty(view).expect("a view is plain data");
    format!("{}\n", escape::json(&text))
}

/// JSON Schema (2020-12) of the document, from its types.
pub fn schema() -> String {
    crate::view::numbers::schema::of::<Report>("report", "bytegauge report")
}
