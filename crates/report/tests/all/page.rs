//! The page holds what was settled, as data alone, and does not grow with the trials.

use crate::support::{Plan, session};
use bytegauge_report::render::{json, page};
use bytegauge_report::{SessionData, Settings, View};
use serde_json::Value;

fn view(data: &SessionData) -> View {
    View::of(data, &Settings::default())
}

/// What stands in the page as data, as the browser would read it.
fn data_of(page: &str) -> &str {
    let slot = "<script type=\"application/json\" id=\"sessions\">";
    page.split_once(slot).and_then(|(_, rest)| rest.split_once("</script>")).expect("the data").0
}

fn small() -> Plan {
    Plan { transports: vec!["unix"], placements: vec!["same-cpu"], profiles: vec!["sum"], ..Plan::default() }
}

#[test]
fn the_page_says_what_the_document_says() {
    fn agrees(said: &Value, known: &Value, path: &str) {
        match (said, known) {
            (Value::Object(said), Value::Object(known)) => {
                for (name, value) in said {
                    agrees(value, known.get(name).unwrap_or(&Value::Null), &format!("{path}/{name}"));
                }
                let left_out = known.iter().filter(|(name, value)| !said.contains_key(*name) && !value.is_null());
                let left_out: Vec<&String> = left_out.map(|(name, _)| name).collect();
                assert!(left_out.iter().all(|name| *name == "residuals"), "{path}: {left_out:?}");
            }
            (Value::Array(said), Value::Array(known)) if path.ends_with("/residuals") => {
                assert!(said.iter().all(|one| known.contains(one)), "{path}");
            }
            (Value::Array(said), Value::Array(known)) => {
                assert_eq!(said.len(), known.len(), "{path}");
                said.iter().zip(known).for_each(|(said, known)| agrees(said, known, path));
            }
            _ => assert_eq!(said, known, "{path}"),
        }
    }
    let view = view(&session(&Plan { confirm_blocks: 40, ..small() }));
    let said: Value = serde_json::from_str(data_of(&page::render(std::slice::from_ref(&view), None))).expect("JSON");
    let known: Value = serde_json::from_str(&json::render(&view)).expect("JSON");
    agrees(&said[0], &known, "");
}

#[test]
fn many_trials_are_no_larger_a_page() {
    let bytes = |confirm_blocks| {
        let data = session(&Plan { confirm_blocks, ..small() });
        (data.trials.len(), page::render(&[view(&data)], None).len())
    };
    let (few, many) = (bytes(130), bytes(2_500));
    assert!(many.0 >= 20_000, "{few:?} {many:?}");
    assert!(many.1 < few.1 + 40_000, "{few:?} {many:?}");
    assert!(many.1 < 1_000_000, "{many:?}");
}

#[test]
fn names_that_look_like_markup_are_data() {
    let mut data = session(&small());
    let nasty = "</script><script>alert(1)</script><img src=x onerror=alert(1)><!--";
    data.record.plan_name = nasty.into();
    let page = page::render(&[view(&data)], None);
    assert!(!page.contains("<script>alert") && !page.contains("<img src=x"));
    let documents: Value = serde_json::from_str(data_of(&page)).expect("JSON");
    assert_eq!(documents[0]["plan"]["name"], nasty);
}
