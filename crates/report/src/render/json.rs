//! The whole view as one JSON document (`schema/report.schema.json`).

use bytegauge_model::escape;

use crate::View;

/// JSON Schema (2020-12) of the document.
pub const SCHEMA: &str = include_str!("../../schema/report.schema.json");

/// One document, indented, with a newline at its end.
pub fn render(view: &View) -> String {
    // Keys are strings and numbers finite or null: nothing in a view can fail to serialise.
    let text = serde_json::to_string_pretty(view).expect("a view is plain data");
    format!("{}\n", escape::json(&text))
}
