//! The published schema describes what is really printed.

use crate::support::{self, Plan, session};
use bytegauge_model::{FACTORS, Outcome, SessionStatus};
use bytegauge_report::{Report, SessionData, Settings, render};
use serde_json::{Value, json};

fn schema() -> Value {
    serde_json::from_str(render::json::SCHEMA).expect("the schema is JSON")
}

fn check(name: &str, data: &SessionData) {
    let document: Value =
        serde_json::from_str(&render::json::render(&Report::of(data, &Settings::default()))).expect("one document");
    let validator = jsonschema::draft202012::new(&schema()).expect("the schema is a schema");
    let errors: Vec<String> =
        validator.iter_errors(&document).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(errors.is_empty(), "{name}: {errors:#?}");
}

fn small() -> Plan {
    Plan { transports: vec!["tcp"], confirm_blocks: 12, ..Plan::default() }
}

#[test]
fn names_that_occur_are_explained_and_no_others() {
    let view = Report::of(&session(&small()), &Settings::default());
    let names = |name: &str| {
        let factor = view.plan.factors.iter().find(|factor| factor.name == name).expect("a factor of streams");
        factor.names.keys().copied().collect::<Vec<_>>()
    };
    assert_eq!(names("transport"), ["tcp"]);
    assert!(names("profile").contains(&"sum"), "{:?}", names("profile"));
    assert!(names("read_size").is_empty(), "numbers have none");
}

#[test]
fn every_kind_of_session_is_valid() {
    check("planted", &session(&small()));
    check("devices", &session(&Plan { transports: vec!["/dev/zero"], profiles: vec!["drain"], ..small() }));
    check("screened", &session(&Plan { confirm_blocks: 0, ..small() }));
    check("alarm", &session(&Plan { twin_bias: 0.1, ..small() }));
    let mut analyses = session(&small());
    for row in &mut analyses.groups {
        row.facts.insert("looks".into(), json!(3));
        row.facts.insert("blocks_fixed".into(), json!(5));
    }
    for trial in analyses.trials.iter_mut().step_by(3) {
        trial.machine.as_mut().expect("the machine's use").steal_ns = 10_000_000;
    }
    check("looks", &analyses);
    let mut audited = session(&small());
    crate::audit::audit(&mut audited, "g1", 4, |_| 1.0);
    check("audited", &audited);
    let empty = SessionData {
        groups: Vec::new(),
        cells: Vec::new(),
        blocks: Vec::new(),
        trials: Vec::new(),
        ..session(&small())
    };
    check("empty", &empty);
    let mut failed = session(&small());
    failed.trials.iter_mut().for_each(|trial| trial.outcome = Outcome::Failed("it stalled".into()));
    failed.record.status = SessionStatus::Incomplete;
    check("failed", &failed);
}

#[test]
fn a_stored_session_is_valid_and_equal() {
    let data = session(&small());
    let folder = tempfile::tempdir().expect("a folder");
    let (store, id) = support::stored(&data, folder.path());
    let loaded = SessionData::load(&store, id).expect("the session");
    check("stored", &loaded);
    let mut direct = data;
    direct.record.id = id;
    let text = |data: &SessionData| render::json::render(&Report::of(data, &Settings::default()));
    assert_eq!(text(&loaded), text(&direct));
}

/// A key without a description is refused.
#[test]
fn an_undescribed_key_is_an_error() {
    let mut document: Value =
        serde_json::from_str(&render::json::render(&Report::of(&session(&small()), &Settings::default())))
            .expect("one");
    let validator = jsonschema::draft202012::new(&schema()).expect("the schema is a schema");
    assert!(validator.is_valid(&document));
    // An imported table may have factors of its own.
    for path in ["", "/cells/0", "/groups/0/cost_model", "/tests/0"] {
        let object = document.pointer_mut(path).and_then(Value::as_object_mut).expect("an object");
        object.insert("not_described".into(), json!(1));
        assert!(!validator.is_valid(&document), "{path}");
        document.pointer_mut(path).and_then(Value::as_object_mut).expect("an object").remove("not_described");
    }
}

#[test]
fn the_schema_lists_every_factor_and_every_limit() {
    let schema = schema();
    let factors = schema["$defs"]["Factors"]["properties"].as_object().expect("factors");
    let known: Vec<&str> = FACTORS.iter().map(|factor| factor.name).collect();
    assert!(known.iter().all(|name| factors.contains_key(*name)));
    assert!(factors.keys().all(|name| known.contains(&name.as_str())));
    let listed: Vec<&str> = schema["$defs"]["LimitView"]["properties"]["name"]["enum"]
        .as_array()
        .expect("names")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert_eq!(listed, bytegauge_bottleneck::names().collect::<Vec<_>>());
}

#[test]
fn every_property_is_described() {
    fn walk(value: &Value, path: &str, missing: &mut Vec<String>) {
        if let Some(properties) = value.get("properties").and_then(Value::as_object) {
            for (name, property) in properties {
                if property.get("description").is_none()
                    && property.get("$ref").is_none()
                    && property.get("const").is_none()
                {
                    missing.push(format!("{path}/{name}"));
                }
            }
        }
        match value {
            Value::Object(map) => map.iter().for_each(|(name, inner)| walk(inner, &format!("{path}/{name}"), missing)),
            Value::Array(list) => list.iter().for_each(|inner| walk(inner, path, missing)),
            _ => {}
        }
    }
    let mut missing = Vec::new();
    walk(&schema(), "", &mut missing);
    assert!(missing.is_empty(), "{missing:#?}");
}
