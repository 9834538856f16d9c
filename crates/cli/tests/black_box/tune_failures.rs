//! The user's own program where some of it fails: each failure is reported in the place and the unit that belong to it.

use std::process::Command;

use serde_json::Value;

use crate::bench::{BINARY, Bench, possible, python};
use crate::contract::check_schema;
use crate::raw::Raw;
use crate::running_relays::free_address;
use crate::tune_servers::{CLIENT, SERVER, serve};
use crate::tune_values::{QUICK, check, reason};

/// The first value of the list fails: the unit of the others is that of the metric.
#[test]
fn a_failing_first_value_leaves_the_unit() {
    let bench = Bench::new();
    let script = "test {value} = 1 && exit 7; echo {value}";
    let flags = ["--values", "1,2,3", "--metric", "bytes:64M", "--format", "json"];
    let document = check(&bench, &flags, script).exits(0).json();
    assert_eq!(reason(&document, "1"), "the command exited with 7");
    let cells = document["cells"].as_array().expect("cells").iter().map(|cell| &cell["estimate"]["unit"]);
    let units: Vec<&Value> = std::iter::once(&document["tests"][0]["unit"]).chain(cells).collect();
    assert!(units.iter().all(|unit| *unit == "bytes/s"), "{units:?}");
}

/// A server that listens at another port does so with every value: one wait is enough.
#[test]
fn a_wrong_port_is_waited_for_once() {
    let Some(python) = python("the server is written in Python", "import socket") else { return };
    let bench = Bench::new();
    let (port, wrong) = (free_address().port(), free_address().port());
    let flags = ["--timeout", "4s", "--format", "json"];
    let ran = serve(&bench, &python, port, "", &format!("tcp:{wrong}"), &flags).exits(5);
    let document = ran.json();
    check_schema(&document);
    let advice = format!("it listens at port {port}: use --ready tcp:{port}");
    let cells = document["cells"].as_array().expect("cells");
    let is_advised = |cell: &&Value| cell["reason"].as_str().is_some_and(|reason| reason.ends_with(&advice));
    assert!(cells.len() >= 2 && cells.iter().filter(is_advised).count() == cells.len(), "{document:#}");
    assert_eq!(Raw::of(&bench, 1).trials.len(), 1, "one trial");
}

/// Computes for 0.4 s of CPU time before it listens.
const SLOW_START: &str = "import socket, sys, time
while time.process_time() < 0.4: pass
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(('127.0.0.1', int(sys.argv[1])))
s.listen()
while True: s.accept()[0].close()
";

#[test]
fn start_of_a_server_is_not_counted() {
    let Some(python) = python("the server is written in Python", "import socket") else { return };
    let bench = Bench::new();
    let (server, client) = (bench.write("server.py", SLOW_START), bench.write("client.py", CLIENT));
    let port = free_address().port().to_string();
    let (start, ready) = (format!("exec {python} -S {server} {port} {{value}}"), format!("tcp:{port}"));
    let few = ["tune", "--blocks", "1", "--analyses", "1", "--values", "1,2", "--format", "json"];
    let program = ["--start", &start, "--ready", &ready, "--", &python, "-S", &client, &port];
    let words: Vec<&str> = few.iter().chain(&program).copied().collect();
    let document = bench.run_args(&words).exits(0).json();
    for cell in document["cells"].as_array().expect("cells") {
        let cpu_ns = cell["more"]["server_cpu_ns_per_run"]["median"].as_f64().expect("CPU time");
        assert!(cpu_ns < 0.3e9, "{cell:#}");
    }
}

/// Every block has a failure, and hardly any value fails twice: without a bound, no number of blocks would be reached.
#[test]
fn blocks_that_are_never_complete_are_bounded() {
    let bench = Bench::new();
    let script = "n=$(cat n 2>/dev/null || echo 0); n=$((n + 1)); echo $n > n; test $((n % 5)) != 0";
    let flags = ["--blocks", "6", "--analyses", "1", "--values", "1,2,3,4", "--seed", "1", "--quiet", "--save", "v"];
    let words = [&["tune"][..], &flags, &["--", "sh", "-c", script, "{value}"]].concat();
    let ran = bench.run_args(&words);
    let blocks = Raw::of(&bench, 1).blocks.iter().filter(|block| block["stage"] == "confirm").count();
    assert!(blocks <= 6 * 6 + 5, "{blocks} blocks: {ran}");
}

#[test]
fn a_failing_command_names_its_servers_error() {
    let bench = Bench::new();
    let [asked, answered] = ["asked", "answered"].map(|name| bench.path(name).display().to_string());
    let until = |path: &str| format!("until test -e {path}; do sleep 0.01; done");
    let serves = format!("{}; echo bad size >&2; touch {answered}; exec sleep 60", until(&asked));
    let start = format!("rm -f {asked} {answered}; echo ready; {serves} # {{value}}");
    let command = format!("touch {asked}; {}; echo no answer >&2; exit 1", until(&answered));
    let flags = ["--values", "1,2", "--start", &start, "--ready", "regex:ready", "--format", "json"];
    let program = ["--", "sh", "-c", &command];
    let words: Vec<&str> = QUICK.iter().chain(&flags).chain(&program).copied().collect();
    let document = bench.run_args(&words).exits(5).json();
    let reason = reason(&document, "1");
    assert_eq!(reason, "the command exited with 1: it printed “no answer”; the server printed “bad size”");
}

#[test]
fn a_single_measured_value_has_no_gain() {
    let bench = Bench::new();
    let flags = ["--values", "1,2", "--now", "2", "--format", "json"];
    let document = check(&bench, &flags, "test {value} = 2").exits(5).json();
    assert!(document["tune"]["gains"][0]["gain"].is_null(), "no value but the present one was measured");
}

/// The next step after a failed value is a command without it.
#[test]
fn a_failed_value_is_left_out_next() {
    let bench = Bench::new();
    let flags = ["--values", "1,2,3", "--now", "2", "--metric", "regex:is ([0-9]+)", "--format", "json"];
    let script = "test {value} = 3 && { echo too many >&2; exit 3; }; echo is 7";
    let document = check(&bench, &flags, script).exits(0).json();
    let step = &document["next"][0];
    let [command, text] = [&step["command"], &step["text"]].map(|text| text.as_str().unwrap_or_default());
    assert!(text.starts_with("3 failed (the reason is above): fix it"), "{step}");
    assert!(command.contains(" --values=1,2 -- sh -c ") && !command.contains("1,2,3"), "{step}");
    // The present value is what the others are compared with.
    let bench = Bench::new();
    let flags = ["--values", "1,2,3", "--now", "3", "--metric", "regex:is ([0-9]+)", "--format", "json"];
    let document = check(&bench, &flags, script).exits(0).json();
    let step = &document["next"][0];
    assert!(
        step["command"].is_null()
            && step["text"].as_str().is_some_and(|text| text.contains("present value is missing: 3 "))
    );
}

/// The mark of each value, and the result, of values that all print the same; some print a number that varies from run to run,
/// by the number `n` of all runs or that `m` of the value's.
fn without_difference(flags: &[&str], number: &str) -> (Value, String) {
    let bench = Bench::new();
    let runs = bench.path("runs").display().to_string();
    let count = |name: &str, runs: &str| format!("printf x >> {runs}; {name}=$(wc -c < {runs})");
    let counts = [count("n", &runs), count("m", &format!("{runs}-{{value}}"))].join("; ");
    let script = format!("{counts}; echo is $(({number}))");
    let all: Vec<&str> =
        ["--values", "1K,2K,4K", "--metric", "regex:is ([0-9]+)"].iter().chain(flags).copied().collect();
    let screen = check(&bench, &all, &script).exits(0).stdout;
    (bench.run("report --format json").exits(0).json(), screen.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[test]
fn without_a_difference_the_present_value_is_kept() {
    let used = |document: &Value| {
        let test = &document["tests"][0];
        let of = |option: &&Value| option["id"] == test["recommended"];
        let option = test["options"].as_array().and_then(|all| all.iter().find(of));
        option.map(|option| option["label"].clone())
    };
    let (document, screen) = without_difference(&["--now", "2K"], "100");
    check_schema(&document);
    assert_eq!(used(&document), Some("2K".into()));
    assert!(!screen.contains("<-"), "{screen}");
    // Numbers that differ by more than the values decide nothing.
    let (document, screen) = without_difference(&["--now", "4K"], "100 + n * 37 % 61");
    assert_eq!(used(&document), None, "{screen}");
    assert_eq!(document["decisions"][0]["set"], "keep 4K", "{screen}");
    let (document, _) = without_difference(&[], "100");
    assert_eq!(used(&document), Some("1K".into()));
    let (document, screen) = without_difference(&[], "100 + n * 37 % 61");
    assert_eq!(document["decisions"][0]["set"], "keep yours", "{screen}");
    // The command below has one.
    let table = screen.split("Next").next().unwrap_or_default();
    assert!(!table.contains('*'), "{screen}");
}

/// A stored recommendation, in a program whose printed times differ by planted amounts and vary from run to run.
#[test]
fn advice_has_the_interval_of_the_table() {
    let bench = Bench::with_known_session();
    let runs = bench.path("runs").display().to_string();
    let number = "case {value} in 262144) t=1060;; 4096) t=1200;; *) t=1000;; esac";
    let script = format!("printf x >> {runs}; n=$(wc -c < {runs}); {number}; echo took $((t + n * 37 % 61))");
    let values = ["--values", "64K,1M", "--now", "4K", "--recommendation", "1", "--blocks", "12"];
    let advised = |program: &[&str], metric: &str| {
        let flags: Vec<&str> = values.iter().copied().chain(["--metric", metric, "--format", "json"]).collect();
        let words = ["tune", "--analyses", "1", "--seed", "1"].iter().chain(&flags).copied();
        let words: Vec<&str> = words.chain(["--", "sh", "-c", &script]).collect();
        let mut command = Command::new(program[0]);
        command.args(&program[1..]).args(&words);
        let document = bench.spawn(command, words.join(" ")).wait().exits(0).json();
        check_schema(&document);
        let options = document["tests"][0]["options"].as_array().expect("options").clone();
        let option = options.into_iter().find(|option| option["label"] == "256K").expect("the advised value");
        let findings = document["findings"].as_array().expect("findings");
        let is_own = |finding: &&Value| finding["fact"]["kind"] == "advice";
        let text = findings.iter().find(is_own).expect("advice")["text"].as_str().expect("a text").to_owned();
        (option["status"].clone(), option["slower_upper"].as_f64(), text)
    };
    let (status, slower, text) = advised(&[BINARY], "time:took (.*)");
    assert!(slower.is_some() && (status == "avoid" || status == "undecided"), "{status}");
    assert!(text.starts_with("256K: the recommendation of session 1 (reads TCP) "), "{text}");
    // A prediction of rates is none of a count. The kernel counts per network namespace: in a shared one, drops of other tests
    // may leave no interval.
    let alone = possible("a network namespace", "unshare", &["-Urn", "true"]);
    let program: &[&str] = if alone { &["unshare", "-Urn", BINARY] } else { &[BINARY] };
    let (_, slower, text) = advised(program, "counter:TcpExt.TCPBacklogDrop");
    assert!(slower.is_some() || !alone, "{text}");
}

/// A sign that never comes is waited for with two values at most: with one where the value is not in the server's words.
#[test]
fn a_wrong_pattern_is_waited_for_twice() {
    let waits = |start: &str, expected: usize| {
        let bench = Bench::new();
        let flags = ["--values", "1,2,3,4", "--timeout", "4s", "--start", start, "--ready", "regex:Ready"];
        let words = ["--format", "json", "--", "true", "{value}"];
        let words: Vec<&str> = QUICK.iter().chain(&flags).chain(&words).copied().collect();
        let document = bench.run_args(&words).exits(5).json();
        let cells = document["cells"].as_array().expect("cells");
        let reasons: Vec<&str> = cells.iter().filter_map(|cell| cell["reason"].as_str()).collect();
        let printed = "(regex:Ready did not appear): it printed “threads 4”, “serves at last”: check --ready";
        assert!(reasons.iter().all(|reason| reason.contains(printed)) && reasons.len() == cells.len(), "{reasons:?}");
        assert_eq!(Raw::of(&bench, 1).trials.len(), expected, "{document:#}");
    };
    waits("echo threads 4; echo serves at last; exec sleep 60", 1);
    waits("echo threads 4; echo serves at last; exec sleep 60 # {value}", 2);
}

/// In a network namespace of its own, where no other program opens connections.
#[test]
fn a_command_that_connects_to_nothing_fails() {
    let Some(python) = python("the server is written in Python", "import socket") else { return };
    let up = "ip link set lo up";
    if !possible("a network namespace", "unshare", &["-Urn", "sh", "-c", up]) {
        return;
    }
    let ran = |load: &str, more: &str, code: i32| {
        let bench = Bench::new();
        let (server, client) = (bench.write("server.py", SERVER), bench.write("client.py", CLIENT));
        let start = format!("exec {python} -S {server} 7007 {{value}}");
        let load = load.replace("CLIENT", &format!("{python} -S {client}"));
        let flags = format!("--values 1K,2K --start '{start}' --ready tcp:7007 --load '{load}' {more} --format json");
        let script = bench.write("script", &format!("{up} && exec \"$BYTEGAUGE\" {} {flags}", QUICK.join(" ")));
        let document = bench.shell(&format!("exec unshare -Urn sh {script}")).exits(code).json();
        check_schema(&document);
        (document, Raw::of(&bench, 1).trials.len())
    };
    let recommended = |document: &Value| document["tests"][0]["recommended"].clone();
    let text = |text: &Value| text.as_str().unwrap_or_default().to_owned();
    // The others are refused at another port, and do not tell.
    let no_work = "the command opened no TCP connection, so the server had no work (if it uses no TCP, give --ready \
                   regex:RE); the server listens at port 7007";
    let unreached = "the server listens at port 7007";
    for (load, reported) in [("true", no_work), ("CLIENT 7008 2>&1 || true", unreached), ("CLIENT 7008", unreached)] {
        let (document, count) = ran(load, "", 5);
        let (reason, step) = (text(&document["cells"][0]["reason"]), &document["next"][0]);
        assert!(reason.ends_with(reported) && count == 2, "{load}: {count}: {reason}");
        let is_fixed_first = text(&step["text"]).starts_with("fix the reason above");
        assert!(is_fixed_first && recommended(&document).is_null(), "{load}: {step}");
    }
    // Equal times are decided in every session; the wall times of a client in Python vary too much for that.
    let (document, _) = ran("CLIENT 7007 && echo took 1", "--metric 'time:took (.*)'", 0);
    assert!(document["cells"][0]["reason"].is_null() && !recommended(&document).is_null(), "{document}");
}

/// A program that computes ten times as long with one value as with the other.
#[test]
fn cpu_time_can_be_the_metric() {
    let Some(python) = python("the program is written in Python", "import time") else { return };
    let bench = Bench::new();
    let spin = "import sys, time\nwhile time.process_time() < int(sys.argv[1]) / 1000: pass\n";
    let program = bench.write("spin.py", spin);
    let flags = ["--values", "60,600", "--now", "600", "--metric", "cpu", "--format", "json"];
    let words = ["--", &python, "-S", &program, "{value}"];
    let words: Vec<&str> = QUICK.iter().chain(&flags).chain(&words).copied().collect();
    let document = bench.run_args(&words).exits(0).json();
    check_schema(&document);
    let compares = (&document["groups"][0]["cost"], &document["tests"][0]["compares"]);
    assert_eq!(compares, (&"cpu_ns_per_run".into(), &"cpu".into()));
    // Six blocks of times may depend on each other and have no interval: the rates are there all the same.
    let cells = document["cells"].as_array().expect("cells").iter().filter(|cell| cell["kind"] == "candidate");
    let rates = cells.map(|cell| {
        let [rate, cpu_ns] = [&cell["estimate"]["median"], &cell["more"]["cpu_ns_per_run"]["median"]]
            .map(|number| number.as_f64().expect("a number"));
        assert!((rate * cpu_ns / 1e9 - 1.0).abs() < 0.05, "{cell:#}");
        rate
    });
    let rates: Vec<f64> = rates.collect();
    assert!(rates.len() == 2 && rates[0] > 3.0 * rates[1], "{rates:?}");
}

/// The present value is confirmed in addition to the finalists: the plan states the rows that the report has.
#[test]
fn the_plan_counts_the_present_value() {
    let bench = Bench::new();
    let plan = |default: &[&str]| {
        let values = ["tune", "--values", "4K..1M", "--dry-run"];
        let words: Vec<&str> = values.iter().chain(default).chain(&["--", "true", "{value}"]).copied().collect();
        bench.run_args(&words).exits(0).stdout
    };
    assert!(plan(&["--now", "512"]).contains("6 and the present value confirmed in each"), "{}", plan(&[]));
    assert!(plan(&[]).contains("6 confirmed in each"), "{}", plan(&[]));
}
