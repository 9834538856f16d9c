//! Arbitrary words: any command line has a reply, never a panic.

use bytegauge_model::FACTORS;
use proptest::prelude::*;

use crate::bench::{Bench, Ran};

/// A start of the program per case: a few dozen are a second or two.
fn few() -> ProptestConfig {
    ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() }
}

fn check_answered(ran: &Ran) {
    assert!(matches!(ran.status.code(), Some(0 | 2)), "{ran}");
    assert!(!ran.stderr.contains("panicked"), "{ran}");
    assert_eq!(ran.stderr.is_empty(), ran.status.success(), "an error has a reason: {ran}");
}

/// Text of an argument: no NUL, which ends one.
fn texts() -> impl Strategy<Value = String> {
    prop_oneof![
        "[0-9.,KMGib]{0,12}",
        "[a-z0-9,./:=%-]{0,16}",
        "-?[0-9]{1,25}[a-zA-Z%]{0,3}",
        "[^\0]{0,12}",
        Just("1..16M,..,".to_owned()),
        Just("\u{feff}4K".to_owned()),
    ]
}

fn flags() -> impl Strategy<Value = String> {
    let design = ["time", "blocks", "margin", "seed", "ends", "fit-max", "format", "plant", "grace", "store"];
    let flags: Vec<String> =
        FACTORS.iter().map(bytegauge_model::Factor::flag).chain(design.map(str::to_owned)).collect();
    proptest::sample::select(flags)
}

#[test]
fn names_of_files_may_be_no_text() {
    let bench = Bench::with_known_session();
    let ran = bench.shell(
        "name=$(printf 'a\\377') && \"$BYTEGAUGE\" report export 1 -o \"$name.jsonl\" && \"$BYTEGAUGE\" report import \"$name.jsonl\" && \
         \"$BYTEGAUGE\" report --html \"$name.html\" && printf 'workload = \"ring\"' > \"$name.toml\" && \
         \"$BYTEGAUGE\" run \"$name.toml\" --dry-run && rm \"$name.jsonl\" \"$name.html\" \"$name.toml\"",
    );
    ran.exits(0).prints(&["session 2: ", "the page is in "]);
}

proptest! {
    #![proptest_config(few())]

    #[test]
    fn any_value_of_a_flag(flag in flags(), value in texts()) {
        let bench = Bench::new();
        check_answered(&bench.run_args(&["stream", "--dry-run", "--transport", "unix", &format!("--{flag}={value}")]));
        check_answered(&bench.run_args(&["stream", "--dry-run", &format!("--{flag}={value}")]));
    }

    #[test]
    fn any_value_of_a_plan(key in flags(), value in texts(), quoted: bool) {
        let bench = Bench::new();
        let value = if quoted { format!("{value:?}") } else { value };
        let file = bench.write("plan.toml", &format!("{key} = {value}\n"));
        check_answered(&bench.run_args(&["run", &file, "--dry-run"]));
    }

    #[test]
    fn in_tables(rows in proptest::collection::vec(proptest::collection::vec(texts(), 3), 1..4)) {
        let bench = Bench::new();
        let mut table = "connection_type,read_buffer_bytes,duration_sec\n".to_owned();
        for row in rows {
            table.push_str(&row.join(","));
            table.push('\n');
        }
        bench.write("table.csv", &table);
        let ran = bench.run("report import table.csv --map bytes==4096 --map write_size==4096");
        prop_assert!(matches!(ran.status.code(), Some(0 | 2)) && !ran.stderr.contains("panicked"), "{}", ran);
        if ran.status.success() {
            bench.run("report --format json").exits(0);
            bench.run("report").exits(0);
        }
    }

    #[test]
    fn cells_are_the_product_of_choices(
        reads in proptest::collection::btree_set(1u64..=16 << 20, 1..5),
        writes in proptest::collection::btree_set(1u64..=16 << 20, 1..5),
        flows in proptest::collection::btree_set(1u64..=8, 1..3),
        seed: u64,
    ) {
        let list = |numbers: &std::collections::BTreeSet<u64>| {
            numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(",")
        };
        let words = format!(
            "stream --connection-age fresh --transport unix,tcp --profile drain --read-size {} --write-size {} --flows {} --seed {seed} \
             --blocks 1 --dry-run --format json",
            list(&reads), list(&writes), list(&flows)
        );
        let plan = Bench::new().run(&words).exits(0).json();
        let count = |key: &str| plan[key].as_array().map_or(0, Vec::len);
        prop_assert_eq!(count("cells"), 2 * reads.len() * writes.len() * flows.len());
        prop_assert_eq!(count("groups"), 2 * flows.len());
        prop_assert_eq!(plan["seed"].as_u64(), Some(seed));
    }
}
