//! The page holds what was settled, as data alone, and does not grow with the trials.

use crate::support::{Plan, session};
use bytegauge_report::render::json;
use bytegauge_report::render::page;
use bytegauge_report::{Report, SessionData, Settings};
use serde_json::Value;

fn view(data: &SessionData) -> Report {
    Report::of(data, &Settings::default())
}

/// The data of the page, as the browser would read it.
fn data_of(page: &str) -> String {
    page::documents_in(page).expect("the data")
}

fn small() -> Plan {
    Plan { transports: vec!["unix"], placements: vec!["same-cpu"], profiles: vec!["sum"], ..Plan::default() }
}

/// Keys that are left out where they repeat another one.
const REPEATED: [&str; 2] = ["residuals", "metric"];

/// Whether a value of the page is that of the document: numbers have six digits there, and unknown values are absent.
fn agrees(shown: &Value, known: &Value) -> bool {
    match (shown, known) {
        (Value::Object(shown), Value::Object(known)) => {
            shown.iter().all(|(name, value)| agrees(value, known.get(name).unwrap_or(&Value::Null)))
                && known.iter().all(|(name, value)| {
                    shown.contains_key(name) || value.is_null() || REPEATED.contains(&name.as_str())
                })
        }
        (Value::Array(shown), Value::Array(known)) => {
            shown.len() == known.len() && shown.iter().zip(known).all(|(shown, known)| agrees(shown, known))
        }
        (Value::Number(shown), Value::Number(known)) if known.is_f64() => {
            let (shown, known) = (shown.as_f64().expect("a number"), known.as_f64().expect("a number"));
            (shown - known).abs() <= 5e-6 * known.abs()
        }
        _ => shown == known,
    }
}

#[test]
fn page_and_document_agree() {
    let view = view(&session(&Plan { confirm_blocks: 40, ..small() }));
    let shown: Value = serde_json::from_str(&data_of(&page::render(std::slice::from_ref(&view)))).expect("JSON");
    let known: Value = serde_json::from_str(&json::render(&view)).expect("JSON");
    for (name, value) in shown[0].as_object().expect("an object") {
        assert!(agrees(value, &known[name]), "{name}");
    }
    assert!(agrees(&shown[0], &known));
}

#[test]
fn many_trials_are_no_larger_a_page() {
    let bytes = |confirm_blocks| {
        let data = session(&Plan { confirm_blocks, ..small() });
        (data.trials.len(), page::render(&[view(&data)]).len())
    };
    let (few, many) = (bytes(130), bytes(2_500));
    assert!(many.0 >= 20_000, "{few:?} {many:?}");
    assert!(many.1 < few.1 + 40_000, "{few:?} {many:?}");
    assert!(many.1 < 500_000, "{many:?}");
}

#[test]
fn usual_session_has_a_small_page() {
    let data = session(&Plan { confirm_blocks: 60, profiles: vec!["sum"], ..Plan::default() });
    let bytes = page::render(&[view(&data)]).len();
    assert!(data.trials.len() >= 500 && bytes < 250_000, "{} trials, {bytes} bytes", data.trials.len());
}

#[test]
fn names_that_look_like_markup_are_data() {
    let mut data = session(&small());
    let nasty = "</script><script>alert(1)</script><img src=x onerror=alert(1)><!--";
    data.record.plan_name = nasty.into();
    let page = page::render(&[view(&data)]);
    assert!(!page.contains("<script>alert") && !page.contains("<img src=x"));
    let documents: Value = serde_json::from_str(&data_of(&page)).expect("JSON");
    assert_eq!(documents[0]["plan"]["name"], nasty);
}
