//! External relay programs: started, awaited, charged, stopped, and each way in which they can misbehave: reported and
//! cleaned up.
//!
//! The program is this test binary, run as the relay [`a_relay`], so that none has to be installed; the built-in ones
//! are tried where they are installed.

use std::env;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::bench::{Bench, Ran, possible};
use crate::contract::check_schema;
use crate::raw::{Raw, number, scope};

const QUICK: [&str; 12] =
    ["--trial-time", "100ms", "--blocks", "1", "--analyses", "1", "--time", "3s", "--seed", "1", "--quiet", "--full"];

pub const STREAM: [&str; 9] =
    ["stream", "--transport", "tcp", "--profile", "drain", "--read-size", "64K", "--write-size", "64K"];

const GO: &str = "go-pipe,go-copy,go-copy-buffer,go-syscall,go-direct,go-unix,go-bufio,go-splice,go-sendfile,\
                  go-readv-writev";

pub const CALL: [&str; 11] =
    ["call", "--transport", "tcp", "--profile", "echo", "--flows", "4", "--request", "10K", "--server-engine", "epoll"];

/// A relay that is in no table: it prints its address; its mode states its faults.
#[test]
#[ignore = "the program that the other tests run"]
fn a_relay() {
    let variable = |name: &str| env::var(name).unwrap_or_default();
    let (listen, upstream, mode) = (variable("RELAY_LISTEN"), variable("RELAY_UPSTREAM"), variable("RELAY_MODE"));
    if listen.is_empty() {
        return;
    }
    if mode == "leaves" {
        // In a session of its own, so that no signal to the group reaches it.
        let mut leaves = Command::new("sh");
        leaves.args(["-c", "setsid sleep 3600 &"]).stdin(Stdio::null()).stdout(Stdio::null()).status().unwrap();
    }
    let listener = TcpListener::bind(listen).unwrap();
    println!("listening on {}", listener.local_addr().unwrap());
    for client in listener.incoming() {
        let client = client.unwrap();
        let server = TcpStream::connect(&upstream).unwrap();
        for end in [&client, &server] {
            end.set_nodelay(true).unwrap();
        }
        let (back, there) = (server.try_clone().unwrap(), client.try_clone().unwrap());
        let mode = mode.clone();
        thread::spawn(move || pass(client, server, &mode));
        thread::spawn(move || pass(back, there, "honest"));
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, mode: &str) {
    let mut buffer = vec![0; 65_536];
    let mut passed = 0;
    while let Ok(bytes @ 1..) = from.read(&mut buffer) {
        let (first, mut given) = (passed == 0, &mut buffer[..bytes]);
        match mode {
            "loses" if first => given = &mut given[1..],
            "corrupts" if first => given[0] ^= 1,
            "dies" if passed > 100_000 => {
                eprintln!("out of luck");
                std::process::exit(7);
            }
            _ => {}
        }
        passed += bytes;
        if to.write_all(given).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

/// The level that runs [`a_relay`] in a mode, below a shell that waits for it.
fn relay(mode: &str) -> String {
    let own = env::current_exe().unwrap();
    format!(
        "cmd:RELAY_LISTEN={{listen}} RELAY_UPSTREAM={{upstream}} RELAY_MODE={mode} '{}' --exact relay_programs::a_relay \
         --ignored --nocapture; exit $?",
        own.display()
    )
}

pub fn run(bench: &Bench, workload: &[&str], relay: &str, more: &[&str]) -> Ran {
    let words: Vec<&str> = workload.iter().chain(&["--relay", relay]).chain(&QUICK).chain(more).copied().collect();
    bench.run_args(&words)
}

/// The trials through a relay that came to a number.
pub fn relayed(bench: &Bench) -> Vec<Value> {
    let raw = Raw::of(bench, 1);
    let measured = |trial: &Value| trial["outcome"]["kind"] == "measured" && !trial["ends"]["relay"].is_null();
    raw.trials.into_iter().filter(measured).collect()
}

fn check_no_process_is_left(bench: &Bench) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !bench.processes().is_empty() {
        assert!(Instant::now() < deadline, "left behind: {:?}", bench.processes());
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn relay_program_is_counted_with_children() {
    let bench = Bench::new();
    let list = format!("direct,read-write,{}", relay("honest"));
    run(&bench, &STREAM, &list, &["--verify", "--grace", "20s"]).exits(0);
    let document = bench.run("report --format json").exits(0).json();
    check_schema(&document);
    let through: Vec<Value> =
        relayed(&bench).into_iter().filter(|trial| trial["ends"]["relay"]["relay"].is_null()).collect();
    assert!(!through.is_empty());
    for trial in &through {
        let (ends, known) = (&trial["ends"], &trial["ends"]["relay"]["relay_program"]);
        let [sent, came] = [&ends["source"], &ends["sink"]].map(|end| number(&end["total_bytes"]));
        assert_eq!((sent, number(&ends["sink"]["verified_bytes"])), (came, came), "{trial}");
        // The shell and what it waits for.
        assert!(number(&known["processes"]) >= 2, "{trial}");
    }
    let reported = scope(&document).join(" ");
    assert!(reported.contains("programs: cmd:RELAY_LISTEN="), "{reported}");
    check_no_process_is_left(&bench);
}

/// The start of a program is not part of the cost of bytes: the machine is observed only while they flow.
#[test]
fn start_of_a_program_is_not_observed() {
    const STARTS_MS: u64 = 300;
    let bench = Bench::new();
    let late = relay("honest").replacen("cmd:", &format!("cmd:sleep 0.{STARTS_MS}; "), 1);
    run(&bench, &STREAM, &late, &["--grace", "20s"]).exits(0);
    let mut began: Vec<u64> = Raw::of(&bench, 1).trials.iter().map(|trial| number(&trial["started_unix_ns"])).collect();
    began.sort_unstable();
    let mut watched = 0;
    for trial in relayed(&bench) {
        let here = number(&trial["started_unix_ns"]);
        let Some(next) = began.iter().find(|next| **next > here) else { continue };
        watched += 1;
        assert!(next - here >= STARTS_MS * 1_000_000 + number(&trial["machine"]["wall_ns"]), "{trial}");
    }
    assert!(watched > 0);
}

#[test]
fn calls_go_through_a_program() {
    for per_call in ["off", "on"] {
        // A machine that is busy with other things may complete no call in so short a time, and so again.
        let mut tries = (0..10).map(|_| {
            let bench = Bench::new();
            let flags = ["--verify", "--grace", "20s", "--connect-per-call", per_call];
            let ran = run(&bench, &CALL, &relay("honest"), &flags);
            (bench, ran)
        });
        let (bench, ran) =
            tries.find(|(_, ran)| ran.status.success()).expect("no call goes through in any of ten sessions");
        ran.exits(0);
        let through = relayed(&bench);
        assert!(!through.is_empty());
        for trial in &through {
            assert!(number(&trial["ends"]["client"]["call"]["completed"]) > 0, "{trial}");
            assert!(!trial["ends"]["relay"]["relay_program"].is_null(), "{trial}");
        }
        check_no_process_is_left(&bench);
    }
}

/// A program that fails every trial, and its reason.
fn check_fails(relay: &str, more: &[&str], expected: &[&str]) {
    let bench = Bench::new();
    let ran = run(&bench, &STREAM, relay, more).exits(5);
    assert!(!ran.stderr.contains("panicked"), "{ran}");
    let raw = Raw::of(&bench, 1);
    let reasons: Vec<&str> = raw.trials.iter().filter_map(|trial| trial["outcome"]["reason"].as_str()).collect();
    let message = |reason: &&str| expected.iter().all(|part| reason.contains(part));
    assert!(reasons.iter().any(message), "{relay}: {reasons:?}");
    check_no_process_is_left(&bench);
}

#[test]
fn program_that_cannot_relay_has_a_reason() {
    check_fails("cmd:no-such-relay {listen} {upstream}", &[], &["before it listened", "127", "no-such-relay"]);
    check_fails(
        "cmd:echo no licence >&2; exit 3 # {listen} {upstream}",
        &[],
        &["before it listened", "exited with 3", "“no licence”"],
    );
    check_fails(
        "cmd:echo thinking; sleep 3600 # {listen} {upstream}",
        // Long enough for a shell that starts on a busy machine.
        &["--grace", "3s"],
        &["did not listen on port", "“thinking”", "{listen}"],
    );
    check_fails(&relay("dies"), &[], &["while it was in use", "exited with 7", "“out of luck”"]);
}

#[test]
fn lossy_relay_program_is_detected() {
    check_fails(&relay("loses"), &[], &["the path loses or invents data"]);
    check_fails(&relay("corrupts"), &["--verify"], &["the path corrupts data"]);
}

#[test]
fn left_processes_are_ended_and_reported() {
    let bench = Bench::new();
    run(&bench, &STREAM, &relay("leaves"), &["--grace", "20s"]).exits(0);
    let left: Vec<u64> =
        relayed(&bench).iter().map(|trial| number(&trial["ends"]["relay"]["relay_program"]["left_behind"])).collect();
    // On a busy machine the relay itself may take its time to go, too.
    assert!(!left.is_empty() && left.iter().all(|left| *left >= 1), "{left:?}");
    bench.run("report --full").exits(0).prints(&["processes behind, which were ended"]);
    check_no_process_is_left(&bench);
}

#[test]
fn wrong_words_of_programs_name_the_next_step() {
    let check = |relay: &str, more: &[&str], code: i32, expected: &[&str]| {
        let bench = Bench::new();
        let ran = run(&bench, &STREAM, relay, more).exits(code);
        let message = format!("{}{}", ran.stdout, ran.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(expected.iter().all(|part| message.contains(part)), "{relay}: {ran}");
    };
    check("haprxy", &[], 2, &["did you mean `haproxy`?"]);
    check("cmd:proxy {listen}", &[], 2, &["write {listen} and {upstream}"]);
    check(
        "cmd:proxy -f {config:/no/such/file}",
        &["--dry-run"],
        2,
        &["/no/such/file cannot be read", "check its path"],
    );
    check("haproxy", &["--relay-buffer", "4K"], 2, &["--relay-buffer has no effect"]);
}

#[test]
fn ready_programs_relay_where_they_are_installed() {
    let programs = [
        ("haproxy", "-v", "haproxy,haproxy-splice"),
        ("nginx", "-v", "nginx"),
        ("socat", "-V", "socat"),
        ("bytegauge-go-relays", "-version", GO),
    ];
    let is_here = |(program, version, _): &(&str, &str, &str)| possible("a ready relay", program, &[version]);
    let installed: Vec<&str> = programs.into_iter().filter(is_here).map(|(_, _, names)| names).collect();
    if installed.is_empty() {
        return;
    }
    let bench = Bench::new();
    let list = installed.join(",");
    let words: Vec<&str> =
        STREAM.iter().chain(&["--relay", &list, "--verify", "--grace", "20s"]).chain(&QUICK).copied().collect();
    // nginx may be here without its stream module.
    bench.run_args(&words);
    for trial in relayed(&bench) {
        let (ends, known) = (&trial["ends"], &trial["ends"]["relay"]["relay_program"]);
        let [sent, came] = [&ends["source"], &ends["sink"]].map(|end| number(&end["total_bytes"]));
        assert_eq!((sent, number(&ends["sink"]["verified_bytes"])), (came, came), "{trial}");
        assert!(known["version"].as_str().is_some_and(|version| version.contains("version")), "{trial}");
    }
    assert!(installed == ["nginx"] || !relayed(&bench).is_empty());
    check_no_process_is_left(&bench);
}
