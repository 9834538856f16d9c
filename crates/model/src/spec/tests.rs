//! Tests of specs.

use proptest::prelude::*;

use super::*;
use crate::name_tables::Fill;

/// Texts of which each factor accepts some.
const TEXTS: &[&str] = &[
    "auto",
    "max",
    "same",
    "none",
    "0.5ns",
    "sum",
    "touch",
    "reader",
    "flows",
    "steady",
    "on",
    "off",
    "p99=2ms",
    "127.0.0.1:7",
    "unix:/x",
    "iperf3://127.0.0.1",
    "0.1%",
    "10Mbit",
    "bbr",
    "haproxy",
    "uring:zc",
    "/dev/zero",
    "1",
    "2",
    "1024",
    "64K",
    "15ms",
    "15us",
];

/// Any level that the factor accepts.
fn level(index: usize) -> impl Strategy<Value = Level> {
    let factor = &FACTORS[index];
    let names = (factor.listed)().into_iter().map(|(name, _)| name);
    let levels = names.chain(TEXTS.iter().copied()).filter_map(|text| factor.kind.parse(text).ok());
    prop::sample::select(levels.collect::<Vec<_>>())
}

fn any_level() -> impl Strategy<Value = (usize, Level)> {
    (0..FACTORS.len()).prop_flat_map(|index| (Just(index), level(index)))
}

proptest! {
    #[test]
    fn a_level_is_read_as_it_was_set((index, level) in any_level()) {
        let key = FACTORS[index].key;
        let mut spec = Spec::default();
        spec.set_level(key, level.clone());
        prop_assert_eq!(spec.level(key), level);
    }

    #[test]
    fn a_spec_survives_its_stored_form(
        given in prop::collection::vec(any_level(), 0..20),
        unknown in prop::collection::btree_map("[a-z]{3}-[a-z]", any::<u64>(), 0..3),
    ) {
        let mut map: BTreeMap<String, Level> = BTreeMap::new();
        map.extend(given.into_iter().map(|(index, level)| (FACTORS[index].name.to_owned(), level)));
        map.extend(unknown.into_iter().map(|(name, number)| (name, Level::Number(number))));
        map.insert("writer_work".into(), Level::Absent);
        let spec = Spec::from(map.clone());
        prop_assert_eq!(BTreeMap::from(spec.clone()), map);
        let text = serde_json::to_string(&spec).unwrap();
        prop_assert_eq!(serde_json::from_str::<Spec>(&text).unwrap(), spec);
    }
}

#[test]
fn levels_of_another_kind_are_kept_unread() {
    let mut spec = Spec::from([("flows", "many".into()), ("engine", "from-a-newer-version".into())]);
    assert_eq!((spec.flows(), spec.engine()), (None, None));
    assert_eq!(serde_json::to_string(&spec).unwrap(), r#"{"engine":"from-a-newer-version","flows":"many"}"#);
    spec.set("flows", 2.into());
    assert_eq!((spec.flows(), spec.get("flows")), (Some(2), Level::Number(2)));
}

#[test]
fn only_known_levels_are_continued() {
    let check = |name: &str, level: Level, expected| {
        let spec = Spec::from([("engine", "epoll".into()), ("sndbuf", Level::auto()), (name, level)]);
        assert_eq!(spec.is_known(), expected, "{name}");
    };
    check("relay", "splice".into(), true);
    check("profile", "of-a-plan".into(), true);
    check("engine", "uring:bundle".into(), true);
    check("engine", "from-a-newer-version".into(), false);
    check("from_a_newer_version", 1.into(), false);
    check("fd_table", "private".into(), false);
    // As trials are without it: no difference to be shown.
    check("fd_table", "shared".into(), true);
    check("zerocopy_receive", Level::auto(), true);
    check("min_wait", 20_000.into(), false);
    assert!(!Spec::from([("fd_table", "shared".into())]).states("fd_table"));
}

#[test]
fn absent_factors_are_stored_and_equal_none() {
    let mut spec = Spec::from([("flows", 2.into()), ("writer_work", Level::Absent)]);
    assert_eq!(spec, Spec::from([("flows", 2.into())]));
    assert!(spec.states("writer_work") && !spec.states("working_set"));
    assert_eq!(serde_json::to_string(&spec).unwrap(), r#"{"flows":2,"writer_work":null}"#);
    spec.put(FactorKey::writer_work, Fill::Touch);
    spec.set_level(FactorKey::flows, Level::Absent);
    assert_eq!(serde_json::to_string(&spec).unwrap(), r#"{"flows":null,"writer_work":"touch"}"#);
    let mut other = Spec::from([("writer_work", Level::Absent), ("working_set", 1.into())]);
    other.extend(&Spec::from([("writer_work", "touch".into()), ("working_set", Level::Absent)]));
    assert_eq!(serde_json::to_string(&other).unwrap(), r#"{"working_set":null,"writer_work":"touch"}"#);
    other.retain(|name| name == "working_set");
    assert_eq!(serde_json::to_string(&other).unwrap(), r#"{"working_set":null}"#);
}

#[test]
fn the_workload_is_stored_next_to_the_levels() {
    let mut spec = Spec::of(Workload::Call);
    spec.set("depth", Level::Number(2));
    let text = serde_json::to_string(&spec).unwrap();
    assert_eq!(text, r#"{"depth":2,"workload":"call"}"#);
    let read: Spec = serde_json::from_str(&text).unwrap();
    assert_eq!((read.workload(), &read), (Workload::Call, &spec));
    assert_eq!(read.of_role(crate::Role::Choice).workload(), Workload::Call);
}
