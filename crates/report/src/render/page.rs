//! Sessions as one page for a browser: the built page of `page/`, with the documents inside. It needs no network and
//! allows none; all that it draws stands in the documents.

use serde_json::Value;

use crate::{BetweenView, View};

/// The page as `page/` builds it: `cargo xtask page`.
const TEMPLATE: &str = include_str!("../../page/page.html");

/// Where the documents go: of each session, and of several beside each other.
const SLOTS: [(&str, &str); 2] = [("sessions", "[]"), ("between", "null")];

/// More trials than this a picture of what is left over does not tell apart: every n-th stands in the page.
const RESIDUALS_MAX: usize = 600;

/// The page of some sessions, the first of which it opens with, and what they show beside each other.
pub fn render(views: &[View], between: Option<&BetweenView>) -> String {
    let documents: Vec<Value> = views.iter().map(document).collect();
    let mut between = serde_json::to_value(between).expect("a view is plain data");
    drop_unknown(&mut between);
    SLOTS
        .into_iter()
        .zip([Value::Array(documents), between])
        .fold(TEMPLATE.to_owned(), |page, ((name, empty), value)| {
            page.replacen(&slot(name, empty), &slot(name, &embedded(&value)), 1)
        })
}

/// An element of data.
fn slot(name: &str, json: &str) -> String {
    format!("<script type=\"application/json\" id=\"{name}\">{json}</script>")
}

/// Data as it may stand in a page: within a string of JSON `<` may be written thus; then no name can end the element.
fn embedded(value: &Value) -> String {
    value.to_string().replace('<', "\\u003c")
}

/// A document without what is not known, and with as many residuals as can be seen.
fn document(view: &View) -> Value {
    let mut value = serde_json::to_value(view).expect("a view is plain data");
    drop_unknown(&mut value);
    let groups = value.get_mut("groups").and_then(Value::as_array_mut);
    for model in groups.into_iter().flatten().filter_map(|group| group.get_mut("cost_model")?.as_object_mut()) {
        // What stands here as well is the reader's.
        model.remove("residuals");
        for end in ["reader", "writer"] {
            if let Some(residuals) = model.get_mut(end).and_then(|end| end.get_mut("residuals")?.as_array_mut()) {
                let step = residuals.len().div_ceil(RESIDUALS_MAX).max(1);
                *residuals = std::mem::take(residuals).into_iter().step_by(step).collect();
            }
        }
    }
    value
}

/// Half of a document's keys are `null`; a list keeps its places.
fn drop_unknown(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(drop_unknown);
        }
        Value::Array(list) => list.iter_mut().for_each(drop_unknown),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_has_one_place_for_each_document_and_a_policy_before_them() {
        let policy = TEMPLATE.find("Content-Security-Policy").expect("a policy");
        for (name, empty) in SLOTS {
            assert_eq!(TEMPLATE.matches(&slot(name, empty)).count(), 1, "{name}");
            assert!(policy < TEMPLATE.find(&slot(name, empty)).expect("a place"), "{name}");
        }
        for address in ["src=\"http", "href=\"http", "@import", "url(http", "-inline'", "-eval'"] {
            assert!(!TEMPLATE.contains(address), "{address}");
        }
    }

    #[test]
    fn what_is_not_known_takes_no_room_but_its_place_in_a_list() {
        let mut value = serde_json::json!({ "a": null, "b": [null, { "c": null, "d": 1 }] });
        drop_unknown(&mut value);
        assert_eq!(value, serde_json::json!({ "b": [null, { "d": 1 }] }));
    }
}
