//! Ready plans and plans from a file, dry and for real.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::bench::Bench;
use crate::contract::check_document;
use crate::raw::{Raw, name};

#[test]
fn every_ready_plan_is_planned() {
    let bench = Bench::new();
    for (name, fewest) in [
        ("buffer-size", 25),
        ("buffer-alignment", 12),
        ("buffer-grid", 1000),
        ("read-sweep", 100),
        ("pipe-sizes", 10),
        ("socket-buffers", 100),
        ("tcp-echo", 96),
        ("udp-echo", 144),
        ("receive-buffer", 120),
        ("part-written", 14),
        ("streaming", 2),
        ("relay-copy", 8),
        ("relay-calls", 6),
        ("remote-tcp --host 127.0.0.1:1", 15),
        ("delay-loss", 39),
        ("ring-nop", 42),
    ] {
        let ran = bench.run(&format!("run {name} --dry-run")).exits(0);
        let plan = name.split(' ').next().unwrap_or_default();
        assert!(ran.stdout.starts_with(&format!("plan {plan}: ")), "{ran}");
        let plan = bench.run(&format!("run {name} --dry-run --format json")).exits(0).json();
        assert!(plan["cells"].as_array().is_some_and(|cells| cells.len() >= fewest), "{name}");
    }
    let help = bench.run("run -h").exits(0).stdout;
    let names = "buffer-size buffer-alignment buffer-grid read-sweep pipe-sizes socket-buffers tcp-echo udp-echo receive-buffer \
                 part-written streaming relay-copy relay-calls remote-tcp delay-loss ring-nop";
    for name in names.split(' ') {
        assert!(help.lines().any(|line| line.starts_with(&format!("  {name} "))), "{name}: {help}");
    }
    assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
}

#[test]
fn the_main_plan_asks_for_every_program() {
    let plan = Bench::new().run("run buffer-size --dry-run --format json").exits(0).json();
    assert_eq!(plan["budget_ns"], 60_000_000_000_u64);
    let groups = groups(&plan, ["transport", "role", "connection_age"]);
    for transport in ["unix", "tcp"] {
        for program in ["reader", "writer"] {
            let group = format!("\"{transport}\" \"{program}\" \"steady\"");
            assert!(groups.contains(&group), "{group} is not in {groups:?}");
        }
    }
    let congestion = |cell: &Value| cell["factors"]["role"] == "writer" && cell["factors"]["congestion"] == "bbr";
    assert!(plan["cells"].as_array().expect("cells").iter().any(congestion));
}

#[test]
fn the_grid_asks_for_every_reader_and_place() {
    let plan = Bench::new().run("run buffer-grid --dry-run --format json").exits(0).json();
    let groups = groups(&plan, ["transport", "placement", "profile"]);
    for transport in ["unix", "tcp"] {
        for placement in ["cross-core", "same-cpu"] {
            for profile in ["drain", "sum", "parser"] {
                let group = format!("\"{transport}\" \"{placement}\" \"{profile}\"");
                assert!(groups.contains(&group), "{group} is not in {groups:?}");
            }
        }
    }
    assert!(
        groups.iter().any(|group| group.contains("/dev/zero")) && groups.iter().any(|group| group.contains("urandom"))
    );
}

/// The levels of three factors in the groups of a plan.
fn groups(plan: &Value, names: [&str; 3]) -> Vec<String> {
    let groups = plan["groups"].as_array().expect("groups").iter();
    groups.map(|group| names.map(|name| group["factors"][name].to_string()).join(" ")).collect()
}

#[test]
fn call_plans_cover_their_grids() {
    let bench = Bench::new();
    let levels = |plan: &Value, name: &str| -> BTreeSet<String> {
        plan["cells"].as_array().expect("cells").iter().map(|cell| cell["factors"][name].to_string()).collect()
    };
    let set = |texts: &str| -> BTreeSet<String> { texts.split(' ').map(str::to_owned).collect() };
    let plan = bench.run("run tcp-echo --dry-run --format json").exits(0).json();
    assert_eq!((&plan["workload"], &plan["budget_ns"]), (&"call".into(), &180_000_000_000_u64.into()));
    assert_eq!(levels(&plan, "flows"), set("1 50 150 300 500 1000"));
    assert_eq!(levels(&plan, "request"), set("1 128 512 1000"));
    let plan = bench.run("run receive-buffer --dry-run --format json").exits(0).json();
    assert_eq!(levels(&plan, "connect_per_call"), set("true"));
    assert_eq!(levels(&plan, "competing_flows").len(), 2);
    let buffers = levels(&plan, "rcvbuf");
    assert!(set("\"auto\" 1024 5000 4194304").is_subset(&buffers) && buffers.len() == 15, "{buffers:?}");
}

#[test]
fn built_in_plan_runs_briefly() {
    let bench = Bench::new();
    let words = "run socket-buffers --transport unix --profile drain --sndbuf auto,64K --rcvbuf auto --rcvlowat auto \
                 --trial-time 20ms --blocks 6 --time 2s --seed 2 --format json";
    let document = bench.run(words).exits(0).json();
    check_document(&document);
    assert_eq!(document["plan"]["name"], "socket-buffers");
    assert_eq!(document["groups"].as_array().map(Vec::len), Some(1), "parts that became the same are measured once");
}

const SCREENED: &str = "\
name = \"mine\"
time = \"7s\"
[[part]]
transport = \"unix\"
placement = \"cross-core,same-cpu\"
profile = \"drain,slow\"
connection-age = \"fresh\"
read-size = \"4K..32K\"
write-size = [16384, \"64K\"]
finalists = 2
trial = \"60ms\"
screen = { placement = \"same-cpu\", profile = \"slow\" }
[[part]]
transport = \"/dev/zero\"
profile = \"drain\"
read-size = \"64K\"
finalists = \"all\"
trial = \"20ms\"
[profiles.slow]
work = \"0.1ns\"
working-set = \"4K\"
";

#[test]
fn plan_with_parts_and_own_profile() {
    let bench = Bench::new();
    let file = bench.write("any.toml", SCREENED);
    bench.run(&format!("run {file} --dry-run")).exits(0).prints(&[
        "plan mine: 33 options in 5 tests",
        "all options under same-cpu/slow",
        "drain slow",
        "none 0.1ns",
    ]);
    let document = bench.run(&format!("run {file} --seed 9 --format json")).exits(0).json();
    check_document(&document);
    let raw = Raw::of(&bench, 1);
    raw.check_sound();
    let stages = |stage: &str| raw.trials.iter().filter(|trial| trial["stage"] == stage).count();
    assert!(stages("calibrate") > 0 && stages("screen") >= 8 && stages("confirm") > 0);
    let mut common: Option<BTreeSet<String>> = None;
    let screened: Vec<&Value> = raw.blocks.iter().filter(|block| block["stage"] == "screen").collect();
    let groups = document["groups"].as_array().expect("groups");
    for block in screened {
        let group = groups.iter().find(|group| group["id"] == block["group"]).expect("the block's group");
        assert_eq!(
            (&group["factors"]["profile"], &group["factors"]["placement"]),
            (&"slow".into(), &"same-cpu".into())
        );
    }
    // The same two choices are confirmed in all four groups; where all eight were looked at, six stay undecided.
    for group in groups.iter().filter(|group| group["factors"]["transport"] == "unix") {
        let all = group["factors"]["profile"] == "slow" && group["factors"]["placement"] == "same-cpu";
        let confirmed = raw.trials.iter().filter(|trial| trial["stage"] == "confirm");
        let cells: BTreeSet<String> = confirmed.map(|trial| name(&trial["cell"])).collect();
        let ours = |cell: &&Value| cell["group"] == group["id"] && cell["kind"] == "candidate";
        let of_group = || document["cells"].as_array().expect("cells").iter().filter(ours);
        let is_screened = |cell: &&Value| cell["trials"] != 0 && !cells.contains(&name(&cell["id"]));
        assert_eq!(of_group().filter(is_screened).count(), if all { 6 } else { 0 }, "{group}");
        let choices: BTreeSet<String> = of_group()
            .filter(|cell| cells.contains(&name(&cell["id"])))
            .map(|cell| format!("{} {}", cell["factors"]["read_size"], cell["factors"]["write_size"]))
            .collect();
        assert_eq!(choices.len(), 2, "{group}");
        assert_eq!(*common.get_or_insert_with(|| choices.clone()), choices, "{group}");
    }
}

#[test]
fn budgets_are_kept_within_reason() {
    let bench = Bench::new();
    let plan =
        bench.run("stream --connection-age fresh --transport unix --time 20s --dry-run --format json").exits(0).json();
    assert_eq!(plan["budget_ns"], 20_000_000_000_u64);
    bench
        .run("stream --read-size 1..16M --write-size 1..16M --time 1s")
        .exits(2)
        .complains(&["a budget of 1 s is too short", "give --time"]);
}
