//! Comparisons of two: the three results with their exit codes, comparable sides, and failures.
//!
//! Results depend on what programs print, which is the same on every machine; of workloads only counts and states are checked.

use std::net::TcpListener;

use serde_json::Value;

use crate::bench::{Bench, Ran, possible, python};
use crate::contract::check_schema;
use crate::raw::Raw;
use crate::running_relays::free_address;

/// Six blocks of both and an A/A control.
const QUICK: [&str; 7] = ["ab", "--blocks", "6", "--analyses", "1", "--seed", "1"];

fn ab(bench: &Bench, words: &[&str]) -> Ran {
    bench.run_args(&QUICK.iter().chain(words).copied().collect::<Vec<_>>())
}

/// Two commands that print how long they took.
fn took(bench: &Bench, a: &str, b: &str, more: &[&str]) -> Ran {
    let (a, b) = (format!("cmd:echo took {a}"), format!("cmd:echo took {b}"));
    let words = ["--metric", "time:took (.*)", "--a", &a, "--b", &b];
    ab(bench, &words.iter().chain(more).copied().collect::<Vec<_>>())
}

fn versus(ran: &Ran) -> Value {
    let document = ran.json();
    check_schema(&document);
    document["versus"].clone()
}

#[test]
fn worse_better_and_equal_sides_differ() {
    let bench = Bench::new();
    took(&bench, "2", "3", &[]).exits(1).prints(&["SLOWER B takes 50 % longer than A", "5 % is allowed", "keep A"]);
    took(&bench, "3", "2", &[]).exits(0).prints(&["FASTER B takes 33 to 34 % less time than A", "use B"]);
    let ran = took(&bench, "2", "2.02", &[]).exits(0);
    ran.prints(&["NOT SLOWER", "5 % is allowed", "use either"]);
    took(&bench, "2", "2.02", &["--margin", "0.5%"]).exits(1).prints(&["0.5 % is allowed"]);
    let reported = versus(&took(&bench, "2", "3", &["--format", "json"]).exits(1));
    assert_eq!(
        (&reported["verdict"], &reported["blocks"], &reported["margin"]),
        (&"worse".into(), &6.into(), &0.05.into())
    );
    assert!((reported["longer"].as_f64().unwrap() - 0.5).abs() < 1e-9, "{reported}");
    assert!(reported["lower"].as_f64() <= reported["longer"].as_f64(), "{reported}");
    // Stored like any session, and reported again from the store.
    bench.run("report 1").exits(1).prints(&["SLOWER"]);
    bench.run("report 2 --full").exits(0).prints(&["FASTER"]);
    bench.run("report 1 --format markdown").exits(1).prints(&["B takes 50 % longer than A"]);
    bench.run("report list").exits(0).prints(&["ab"]);
    let raw = Raw::of(&bench, 1);
    raw.check_sound();
    assert_eq!(raw.confirmed()["g1"], 6);
}

#[test]
fn more_cpu_time_decides_where_time_is_noise() {
    let Some(python) = python("the programs are written in Python", "import random") else { return };
    let bench = Bench::new();
    let works = |rounds: u64| {
        // Time would call B not slower if A slept in all six pairs: once in 4,096 sessions.
        let code = format!("import random, time; sum(range({rounds})); time.sleep(random.choice([0, 0, 0, 0.5]))");
        bench.write(&format!("works-{rounds}.py"), &code)
    };
    let [a, b] = [works(2_000_000), works(10_000_000)].map(|file| format!("cmd:{python} -S {file}"));
    ab(&bench, &["--a", &a, "--b", &b, "--margin", "50%"]).exits(1).prints(&["SLOWER", "50 % is allowed"]);
}

#[test]
fn inconclusive_comparison_continues_until_conclusive() {
    let bench = Bench::new();
    let few = bench.run_args(&["ab", "--blocks", "1", "--analyses", "1", "--a", "cmd:true", "--b", "cmd:true"]);
    few.exits(3).prints(&["UNDECIDED", "1 usable block; at least 2 are needed"]);
    let words =
        ["ab", "--blocks", "3", "--metric", "time:took (.*)", "--a", "cmd:echo took 2", "--b", "cmd:echo took 3"];
    // Three blocks without spread show nothing, six do.
    let decided = bench.run_args(&words.iter().copied().chain(["--until", "conclusive"]).collect::<Vec<_>>());
    decided.exits(1).prints(&["SLOWER", "B takes 5", "6 pairs"]);
    bench.run_args(&words).exits(3).prints(&["UNDECIDED", "ab --resume 3"]);
    let passes: Vec<&str> = words.iter().copied().chain(["--undecided", "pass"]).collect();
    bench.run_args(&passes).exits(0).prints(&["UNDECIDED"]);
    bench.run("ab --resume 3 --until conclusive").exits(1).prints(&["SLOWER", "B takes 5", "6 pairs"]);
    bench.run("ab --resume 1").exits(2).complains(&["session 1"]);
    bench.run("ab --until proven --a cmd:true --b cmd:true").exits(2).complains(&["conclusive"]);
}

#[test]
fn flag_sets_are_compared_for_any_difference() {
    let bench = Bench::new();
    let flags =
        ["--a", "run:stream --transport unix --trial-time 50ms", "--b", "run:stream --read-size 4K --trial-time 50ms"];
    let words: Vec<&str> = flags.iter().chain(&["--format", "json"]).copied().collect();
    let ran = ab(&bench, &words);
    assert!(matches!(ran.status.code(), Some(0 | 1 | 3)), "{ran}");
    let reported = versus(&ran);
    assert_eq!(
        (&reported["a"]["differs"]["transport"], &reported["b"]["differs"]["read"]),
        (&"unix".into(), &"4 KiB".into())
    );
    assert_eq!((&reported["a"]["trials"], &reported["b"]["trials"]), (&6.into(), &6.into()));
    let document = ran.json();
    assert_eq!(document["groups"].as_array().map(Vec::len), Some(1));
    Raw::of(&bench, 1).check_sound();
    let call = "run:call --flows 2 --trial-time 100ms";
    let ran = ab(&bench, &["--a", call, "--b", &format!("{call} --server-engine blocking")]);
    assert!(matches!(ran.status.code(), Some(0 | 1 | 3)), "{ran}");
    ran.prints(&["  A  ", "  B  ", "server-engine blocking", "pairs, 95 %"]);
    // The same twice is a fair question: what does chance make?
    let same = "run:stream --transport unix --read-size 64K --trial-time 20ms";
    let ran = ab(&bench, &["--a", same, "--b", same, "--format", "json"]);
    let reported = versus(&ran);
    assert_eq!((&reported["a"]["trials"], &reported["b"]["trials"]), (&6.into(), &6.into()), "{ran}");
}

#[test]
fn incomparable_sides_are_refused() {
    let bench = Bench::new();
    let wrong = |words: &[&str], message: &str| {
        ab(&bench, words).exits(2).complains(&[message]);
    };
    wrong(&[], "ab needs two sides");
    wrong(&["--a", "cmd:true"], "ab needs two sides");
    wrong(&["--a", "cmd:true", "--b", "run:stream"], "of different kinds");
    wrong(&["--a", "cmd:true", "--b", "cmd:no-such-program-at-all"], "was not found");
    wrong(&["--a", "run:strem", "--b", "run:stream"], "--a: unrecognized subcommand 'strem'");
    wrong(&["--a", "run:tune", "--b", "run:stream"], "--a: write a workload and its flags");
    wrong(&["--a", "run:stream", "--b", "run:call"], "--a is a stream, --b a call");
    wrong(&["--a", "run:stream --read-size 1K,2K", "--b", "run:stream"], "give one level each to --read-size");
    wrong(&["--a", "run:stream --time 5s", "--b", "run:stream"], "--time applies to both sides");
    wrong(&["--a", "run:stream --rate 1G", "--b", "run:stream"], "different values of --rate");
    wrong(&["--a", "run:stream", "--b", "run:stream", "--metric", "bytes:1M"], "--metric applies to programs");
    wrong(&["--a", "start:true", "--b", "start:true", "--", "true"], "a server needs --ready");
    wrong(&["--a", "start:true", "--b", "start:true", "--ready", "tcp:9"], "a command to measure is missing");
    wrong(&["--a", "cmd:true", "--b", "cmd:true", "--", "true"], "the command is given twice");
    assert!(!bench.store().exists());
}

#[test]
fn failed_side_is_reported_and_other_kept() {
    let bench = Bench::new();
    let ran = ab(&bench, &["--a", "cmd:true", "--b", "cmd:echo no room >&2; exit 7"]).exits(5);
    ran.prints(&["NOT COMPARED", "B – cmd:echo no room", "The command exited with 7: it printed “no room”"]);
    let both = ab(&bench, &["--a", "cmd:sh -c 'exit 7'", "--b", "cmd:sh -c 'exit 8'"]).exits(5);
    both.prints(&["NOT COMPARED", "The command exited with 7"])
        .complains(&["B gets no further trials: the command exited with 8"]);
    assert!(Raw::of(&bench, 1).confirmed()["g1"] >= 6);
}

#[test]
fn failures_among_good_runs_are_repeated() {
    let bench = Bench::new();
    let count = bench.path("count").display().to_string();
    let b = format!("cmd:sh -c 'echo >>{count}; n=$(wc -l <{count}); [ $n -lt 11 ] || [ $n -gt 14 ]'");
    ab(&bench, &["--a", "cmd:true", "--b", &b]);
    let raw = Raw::of(&bench, 1);
    assert_eq!((raw.status(), raw.troubles().len()), ("complete", 4), "{:?}", raw.troubles());
    assert!(raw.confirmed()["g1"] >= 6);
}

/// A server that sends its name to each client.
const SERVER: &str = "import socket, sys
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(('127.0.0.1', int(sys.argv[1])))
s.listen()
while True:
    c, _ = s.accept()
    c.sendall(sys.argv[2].encode())
    c.close()
";

const CLIENT: &str = "import socket, sys
s = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
print('took', s.recv(99).decode())
";

#[test]
fn two_servers_are_compared_by_one_client() {
    let Some(python) = python("the servers are written in Python", "import socket") else { return };
    let bench = Bench::new();
    let port = free_address().port();
    let (server, client) = (bench.write("server.py", SERVER), bench.write("client.py", CLIENT));
    let (a, b) = (format!("start:{python} -S {server} {port} 4"), format!("start:{python} -S {server} {port} 5"));
    let (ready, port) = (format!("tcp:{port}"), port.to_string());
    let words =
        ["--a", &a, "--b", &b, "--ready", &ready, "--metric", "time:took (.*)", "--", &python, "-S", &client, &port];
    ab(&bench, &words).exits(1).prints(&["B takes 25 % longer than A"]);
}

/// An echo server of the test, for the duration of the tests.
fn echo() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            std::thread::spawn(move || std::io::copy(&mut &connection, &mut &connection));
        }
    });
    format!("addr:{address}")
}

#[test]
fn running_servers_are_compared_by_address() {
    let bench = Bench::new();
    let (a, b) = (echo(), echo());
    let [with_a, with_b] = [&a, &b].map(|side| format!("{side} --flows 2 --request 100 --trial-time 100ms"));
    let ran = ab(&bench, &["--a", &with_a, "--b", &with_b, "--format", "json"]);
    // Which is faster is the machine's business.
    assert!(matches!(ran.status.code(), Some(0 | 1 | 3)), "{ran}");
    assert!(versus(&ran)["verdict"].is_string());
    let document = ran.json();
    let cells = document["cells"].as_array().expect("cells");
    for address in [&a, &b] {
        let address = address.trim_start_matches("addr:");
        let is_it = |cell: &&Value| cell["factors"]["connect"] == address && cell["kind"] == "candidate";
        let cell = cells.iter().find(is_it).unwrap_or_else(|| panic!("no {address} in {document:#}"));
        assert_eq!(cell["outcome"], "measured", "{cell:#}");
    }
    assert_eq!(Raw::of(&bench, 1).confirmed()["g1"], 6);
}

#[test]
fn export_can_redact_both_commands() {
    let bench = Bench::new();
    ab(&bench, &["--a", "cmd:true hunter2", "--b", "cmd:true"]);
    assert!(bench.run("report export").exits(0).stdout.contains("hunter2"));
    assert!(!bench.run("report export --redact").exits(0).stdout.contains("hunter2"));
}

/// The script of the action, as a job runs it.
fn gate(bench: &Bench, b: &str, undecided: &str, blocks: &str) -> Ran {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../.github/actions/gate/gate.sh");
    let bin = std::path::Path::new(crate::bench::BINARY).parent().expect("a folder").display();
    let folder = bench.path("").display().to_string();
    bench.shell(&format!(
        "export PATH={bin}:$PATH RUNNER_TEMP={folder} GITHUB_OUTPUT={folder}/output GITHUB_STEP_SUMMARY={folder}/summary \
         A='cmd:echo took=2' B='cmd:echo took={b}' MARGIN=5% BUDGET=5s UNTIL_MAX=20s LOAD= UNDECIDED={undecided} \
         FLAGS='--metric time:took=(.*) --blocks {blocks} --analyses 2 --seed 1'; exec bash {script}"
    ))
}

#[test]
fn a_job_fails_where_it_has_become_slower() {
    if !possible("the action is a script of bash", "bash", &["--version"]) {
        return;
    }
    let bench = Bench::new();
    gate(&bench, "3", "pass", "6").exits(1).prints(&["SLOWER"]);
    gate(&bench, "2.01", "fail", "6").exits(0).prints(&["NOT SLOWER"]);
    gate(&bench, "2", "pass", "1").exits(0).prints(&["::warning::"]);
    gate(&bench, "2", "fail", "1").exits(3);
    // A side that cannot be measured, and wrong usage, are shown as well.
    gate(&bench, "3; exit 7", "pass", "6").exits(5);
    gate(&bench, "2", "pass", "none<&>").exits(2);
    let outputs = std::fs::read_to_string(bench.path("output")).expect("the outputs");
    let verdicts: Vec<&str> = outputs.lines().filter_map(|line| line.strip_prefix("verdict=")).collect();
    assert_eq!(verdicts, ["worse", "equivalent", "open", "open", "error", "error"]);
    let files: Vec<&str> = outputs.lines().filter_map(|line| line.strip_prefix("junit=")).collect();
    let cases: Vec<String> = files.iter().map(|file| std::fs::read_to_string(file).expect("the cases")).collect();
    let signs = ["<failure", "</system-out>", "<skipped", "<skipped", "<error", "<error"];
    assert!(cases.iter().zip(signs).all(|(text, sign)| text.contains(sign)), "each gate has its own: {cases:?}");
    assert!(!cases[5].contains("<&>") && cases[5].contains("&lt;&amp;&gt;"), "{}", cases[5]);
    assert!(std::fs::read_to_string(bench.path("summary")).expect("the summary").contains("SLOWER"));
}
