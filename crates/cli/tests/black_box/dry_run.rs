//! `--dry-run`: the measured cells, the time, the collapsed levels; flags and TOML keys are equivalent.

use bytegauge_model::WORKLOADS;
use bytegauge_model::Workload;
use bytegauge_model::factor::{self, Factor};
use bytegauge_model::level::LevelKind;
use bytegauge_model::option;
use serde_json::Value;

use crate::bench::{Bench, QUICK};

include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../model/tests/support/examples.rs"));

/// Two levels of a factor, as a flag takes them.
fn levels(workload: Workload, factor: &Factor) -> [&'static str; 2] {
    if let Some(row) = option::of_factor(factor.name) {
        return [if factor.name == "reuseport" { "off" } else { "auto" }, example(row.factor)];
    }
    match (factor.kind, factor.name) {
        (_, "transport") if workload == Workload::Call => ["unix", "tcp"],
        (_, "profile") if workload == Workload::Call => ["echo", "rpc"],
        (_, "buffer_offset") => ["malloc", "16"],
        (LevelKind::Size { word: Some("auto"), .. }, _) => ["auto", "64K"],
        (LevelKind::Size { word: Some(word), .. }, _) => [word, "4K"],
        (LevelKind::Size { .. }, _) => ["4K", "100"],
        (LevelKind::Count { auto: true, .. }, _) => ["auto", "3"],
        (LevelKind::Count { .. }, _) => ["1", "3"],
        (LevelKind::CallRate, _) => ["max", "20k"],
        (LevelKind::PowerOfTwo { .. }, _) => ["64", "1"],
        (LevelKind::Duration { .. }, _) => ["20ms", "1500us"],
        (LevelKind::Rate { word }, _) => [word, "100M"],
        (LevelKind::Switch { .. }, _) => ["on", "off"],
        (_, "transport") => ["unix", "/dev/zero"],
        (_, "role") => ["reader", "both"],
        (_, "connection_age") => ["fresh", "steady"],
        (_, "compare") => ["none", "flows"],
        (_, "tls") => ["none", "rustls"],
        (_, "placement") => ["same-cpu", "unpinned"],
        (_, "profile") => ["drain", "parser"],
        (_, "work") => ["copy", "0.5ns"],
        (_, "writer_work") => ["none", "touch"],
        (_, "send_from") => ["file", "memory"],
        (_, "arrivals") => ["constant", "poisson"],
        (_, "slo") => ["none", "p99=2ms"],
        (_, "rcvbuf_on") => ["listener", "client"],
        (_, "nodelay_at") => ["both", "server"],
        (_, "message_writes") => ["separate", "writev"],
        (_, "server_engine" | "client_engine") => ["blocking", "epoll"],
        (_, "engine") => ["blocking", "null"],
        (_, "mode") => ["checked", "ceiling"],
        (_, "user_data") => ["boxed", "none"],
        (_, "implementation") => ["raw", "io-uring"],
        (_, "setup") => ["coop", "default"],
        (_, "connect") => ["unix:/one", "unix:/two"],
        (_, "host" | "relay_host") => ["127.0.0.1:1", "127.0.0.1:2"],
        (_, "direction") => ["to", "from"],
        (_, "link_loss") => ["0%", "0.1%"],
        (_, "max_loss") => ["none", "0.1%"],
        (_, "link_rate") => ["1Gbit", "100Mbit"],
        (_, "relay") => ["direct", "read-write"],
        (_, "relay_placement") => ["unpinned", "client"],
        (_, "relay_threads") => ["direction", "one"],
        (_, name) => panic!("{name}: add here two levels to try"),
    }
}

/// A transport that the factor fits.
fn transport(factor: &Factor) -> &'static str {
    let fits = |name: &&str| name.parse().is_ok_and(|transport| (factor.fits)(&transport));
    ["unix", "tcp", "pipe", "udp"].into_iter().find(fits).expect("a transport that the factor fits")
}

/// The other factors of such a plan: few cells.
fn others(workload: Workload, factor: &Factor) -> Vec<(&'static str, &'static str)> {
    let mut small = if workload.has_path() { vec![("transport", transport(factor))] } else { Vec::new() };
    if let "relay_host" | "relay_placement" | "relay_threads" | "relay_buffer" | "relay_pipe" | "relay_nodelay" =
        factor.name
    {
        // A way to pass on that has what the factor sets.
        small.push(("relay", if factor.name == "relay_buffer" { "read-write" } else { "splice" }));
    }
    if factor.name == "direction" {
        small.push(("host", "127.0.0.1:1"));
    }
    small.extend(match (workload, factor.name) {
        (Workload::Stream, "connect") => vec![("write_size", "64K")],
        (Workload::Stream, "batch") => vec![("engine", "mmsg"), ("read_size", "4K"), ("write_size", "1000")],
        (Workload::Stream, "gro") => vec![("engine", "gso"), ("read_size", "64K"), ("write_size", "1000")],
        (Workload::Stream, "outstanding") => {
            vec![("engine", "uring:plain"), ("read_size", "4K"), ("write_size", "1000")]
        }
        (Workload::Call, "incoming_cpu") => vec![("reuseport", "on")],
        (Workload::Stream, "max_loss") => vec![("engine", "plain"), ("read_size", "4K"), ("write_size", "1000")],
        (Workload::Stream, "every") => vec![("burst", "3"), ("read_size", "4K"), ("write_size", "64K")],
        (Workload::Stream, _) => vec![("read_size", "4K"), ("write_size", "64K")],
        (Workload::Call, "arrivals") => vec![("rate", "10k")],
        (Workload::Call, "rcvbuf_on") => vec![("rcvbuf", "64K")],
        (Workload::Call, "nodelay_at") => vec![("nodelay", "on")],
        (Workload::Call, "response_gap") => vec![("response_chunk", "64")],
        (Workload::Call, "message_writes") => vec![("response_chunk", "64"), ("server_engine", "epoll")],
        (Workload::Call, "quickack_again") => vec![("quickack", "on"), ("server_engine", "epoll")],
        (Workload::Call, "server_threads" | "server_engine") => vec![("server_engine", "epoll")],
        (Workload::Call, "read_once") => vec![("connect_per_call", "on")],
        (Workload::Call, "client_threads") => vec![("client_engine", "epoll")],
        (Workload::Call, _) => Vec::new(),
        (Workload::Ring, "submit_batch") => vec![("entries", "64")],
        (Workload::Ring, _) => vec![("implementation", "raw")],
        (Workload::Tune, _) => Vec::new(),
    });
    small.into_iter().filter(|(name, _)| *name != factor.name).collect()
}

#[test]
fn every_flag_is_a_toml_key() {
    let bench = Bench::new();
    // A program is given on the command line only, so that no file starts one.
    let rows = WORKLOADS.iter().map(|row| row.value).filter(|workload| *workload != Workload::Tune);
    let all = rows.flat_map(|workload| factor::of(workload).map(move |factor| (workload, factor)));
    for (number, (workload, factor)) in all.enumerate() {
        let [first, second] = levels(workload, factor);
        let mut flags = format!("{workload} --dry-run --format json --seed 5 --{} {first},{second}", factor.flag());
        let mut toml = format!("name = \"{workload}\"\nworkload = \"{workload}\"\n");
        for (name, level) in others(workload, factor) {
            flags.push_str(&format!(" --{} {level}", name.replace('_', "-")));
            toml.push_str(&format!("{name} = \"{level}\"\n"));
        }
        let by_flags = bench.run(&flags).exits(0);
        // In turn either way to write a name and a list, which no factor reads for itself.
        let (key, value) = match number % 2 {
            0 => (factor.flag(), format!("\"{first},{second}\"")),
            _ => (factor.flag().replace('-', "_"), format!("[\"{first}\", \"{second}\"]")),
        };
        let plan = bench.write("plan.toml", &format!("{toml}{key} = {value}\n"));
        let by_file = bench.run(&format!("run {plan} --dry-run --format json --seed 5")).exits(0);
        assert_eq!(by_file.plan(), by_flags.plan(), "{key} = {value}");
    }
}

#[test]
fn every_design_flag_is_a_toml_key() {
    let bench = Bench::new();
    let factors = "--transport unix --read-size 4K --write-size 64K --dry-run --format json --seed 5";
    let flags = "--time 7s --blocks 9 --analyses 2 --margin 10% --ends processes --verify";
    let by_flags = bench.run(&format!("stream {factors} {flags}")).exits(0).plan();
    let keys = "name = \"stream\"\ntime = \"7s\"\nblocks = 9\nanalyses = 2\nmargin = 0.1\nends = \"processes\"\nverify = true\n";
    let plan = bench.write("plan.toml", keys);
    let by_file = bench.run(&format!("run {plan} {factors}")).exits(0).plan();
    assert_eq!(by_file, by_flags);
    assert_eq!(
        (&by_flags["blocks"], &by_flags["ends"], &by_flags["verify"]),
        (&9.into(), &"processes".into(), &true.into())
    );
}

#[test]
fn a_flag_outranks_the_plan() {
    let bench = Bench::new();
    let plan = bench.write("mine.toml", "transport = \"tcp\"\nread-size = \"1K..2M\"\nwrite-size = \"64K\"\n");
    let ran = bench.run(&format!("run {plan} --transport unix --read-size 4K --dry-run")).exits(0);
    ran.prints(&["plan mine: 1 option in 1 test", "unix", "read-size  fixed     4K\n"]);
}

#[test]
fn lists_and_ranges() {
    let check = |flag: &str, expected: &str| {
        let ran = Bench::new()
            .run(&format!("stream --connection-age fresh --transport unix --dry-run --read-size {flag}"))
            .exits(0);
        // A long list continues under its column.
        let text = ran.stdout.replace(&format!("\n{:26}", ""), " ");
        let line = text.lines().find(|line| line.contains("read-size")).expect("the factor's line").to_owned();
        assert!(line.ends_with(&format!("compared  {expected}")), "{line}");
    };
    check("1K..8K", "1K 2K 4K 8K");
    check("1000..5000", "1000 2000 4000 5000");
    check("4096,100,16MiB", "4K 100 16M");
    check("1,1K..4K,1M", "1 1K 2K 4K 1M");
    check("1..16M", &(0..=24).map(|n| bytegauge_model::Bytes(1 << n).compact()).collect::<Vec<_>>().join(" "));
}

#[test]
fn dry_run_shows_cells_blocks_and_time() {
    let bench = Bench::new();
    let words = "stream --connection-age fresh --transport unix,tcp,/dev/zero --nodelay on,off --read-size 1K..2M --write-size 4K..2M --finalists 6 --dry-run";
    let ran = bench.run(words).exits(0).prints(&[
        "options in",
        "nodelay does not apply to unix: collapsed there",
        "write-size does not apply to /dev/zero: collapsed there",
        "until analysis 1 of 3: ",
        " to calibrate, ",
        " to screen all options, ",
        " blocks of each test",
        "--resume measures tests further that are undecided then",
    ]);
    assert_eq!(ran.stderr, "");
    bench.run(&format!("{words} --until conclusive")).exits(0).prints(&["are measured further at once (--until)"]);
}

#[test]
fn missing_options_are_named_in_the_plan() {
    let bench = Bench::new();
    let missing = bench.path("missing").display().to_string();
    let words = format!(
        "stream --connection-age fresh --transport unix,{missing} --read-size 4K --write-size 64K --profile drain --dry-run"
    );
    let ran = bench.run(&words).exits(0).prints(&["1 option in 2 tests", "skipped: "]);
    let words = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(&format!("{missing} cannot be read")), "{ran}");
}

#[test]
fn tests_alike_are_one_line_each() {
    let bench = Bench::new();
    let links = bench.run("run delay-loss --dry-run").exits(0);
    // Both links of the first two tests, although one has the default rate and all have the default loss.
    links.prints(&[
        "link-delay  fixed     10ms\n",
        "link-rate  fixed     100Mbit\n",
        "the same with  link-rate 1Gbit\n",
    ]);
    let calls = bench.run("run tcp-echo --dry-run").exits(0);
    assert!(calls.stdout.lines().count() < 100, "{calls}");
}

#[test]
fn resumed_plan_is_shown_first() {
    let bench = Bench::new();
    bench.run(&format!("{QUICK} --quiet")).exits(0);
    let before = bench.run("report export").exits(0).stdout;
    bench
        .run("stream --resume 1 --dry-run")
        .exits(0)
        .prints(&["session 1 of plan stream continues to analysis 2 of 3\n", "read-size  compared  4K 64K"]);
    bench.run("stream --resume 1 --until conclusive --dry-run").exits(0).prints(&["continues to analysis 3 of 3\n"]);
    bench.run("run --resume --dry-run").exits(0).prints(&["session 1 of plan stream continues to analysis 2 of 3"]);
    assert_eq!(bench.run("report export").exits(0).stdout, before, "nothing was measured");
}

#[test]
fn nothing_is_run_and_nothing_is_written() {
    let bench = Bench::new();
    for words in ["stream --dry-run", "run buffer-size --dry-run", "stream --dry-run --format json"] {
        bench.run(words).exits(0);
    }
    bench.run("stream --dry-run --resume").exits(2).complains(&["no results yet"]);
    assert!(!bench.path("data").exists());
    bench.run("report list").exits(2).complains(&["no results yet"]);
}

#[test]
fn the_seed_decides() {
    let bench = Bench::new();
    let plan = |seed: &str| {
        bench
            .run(&format!("stream --connection-age fresh --transport unix --dry-run --format json {seed}"))
            .exits(0)
            .json()
    };
    assert_eq!(plan("--seed 4"), plan("--seed 4"));
    assert_ne!(plan("--seed 4"), plan("--seed 5"));
    assert_ne!(plan("")["seed"], plan("")["seed"], "without a seed there is a new one each time");
}

#[test]
fn the_seed_decides_the_order_of_measurement() {
    let bench = Bench::new();
    // The null engine never fails, so no block is ever repeated.
    let words = "stream --engine null --connection-age fresh --transport unix --profile drain --read-size 1K..8K --write-size 64K \
                 --trial-time 1ms --blocks 6 --time 1s --quiet";
    let mut orders: Vec<Vec<Value>> = Vec::new();
    for (session, seed) in (1..).zip([11, 11, 12]) {
        bench.run(&format!("{words} --seed {seed}")).exits(0);
        let raw = crate::raw::Raw::of(&bench, session);
        raw.check_sound();
        orders.push(raw.trials.iter().map(|trial| trial["cell"].clone()).collect());
    }
    assert_eq!(orders[0].len(), orders[2].len());
    // The A/A control repeats the first finalist, which no measurement selects here.
    assert_eq!(orders[0], orders[1]);
    assert_ne!(orders[0], orders[2]);
}
