//! Running relays: measured, charged, never stopped, and each way in which they differ from the flags.

use std::env;
use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;

use crate::bench::Bench;
use crate::contract::check_schema;
use crate::raw::{Raw, number, scope};
use crate::relay_programs::{CALL, STREAM, relayed, run};

/// A relay that a test started long before the program.
struct Running {
    child: Child,
    listens: String,
}

impl Running {
    /// [`crate::relay_programs::a_relay`] before an address.
    fn before(upstream: SocketAddr, mode: &str) -> Running {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", "relay_programs::a_relay", "--ignored", "--nocapture"]).stdin(Stdio::null());
        command.envs([
            ("RELAY_LISTEN", "127.0.0.1:0"),
            ("RELAY_UPSTREAM", &upstream.to_string()),
            ("RELAY_MODE", mode),
        ]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let message = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let listens = message.filter_map(|line| Some(line.split_once("listening on ")?.1.to_owned())).next();
        Running { child, listens: listens.expect("where it listens") }
    }

    fn level(&self, upstream: SocketAddr) -> String {
        format!("addr:{}={upstream}", self.listens)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Gone or not, it is waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An address of this host without a listener, outside the ports that sockets get automatically (`ip_local_port_range`).
pub fn free_address() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Far from those of a process that was started just before or after.
    let first = (std::process::id() % 7000 * 97 % 7000) as u16;
    let mut ports = (0..7000).map(|_| 12_000 + (first + NEXT.fetch_add(1, Ordering::Relaxed)) % 7000);
    let address = ports.find_map(|port| TcpListener::bind(("127.0.0.1", port)).ok()?.local_addr().ok());
    address.expect("an unused port")
}

#[test]
fn one_is_measured_and_charged_and_goes_on() {
    let upstream = free_address();
    let mut relay = Running::before(upstream, "honest");
    // Found by its port, as stated.
    for (workload, owner) in [(&STREAM[..], String::new()), (&CALL[..], format!("@{}", relay.child.id()))] {
        let bench = Bench::new();
        let list = format!("direct,read-write,{}{owner}", relay.level(upstream));
        run(&bench, workload, &list, &["--verify", "--grace", "20s"]).exits(0);
        let document = bench.run("report --format json").exits(0).json();
        check_schema(&document);
        let mut through = relayed(&bench);
        through.retain(|trial| !trial["ends"]["relay"]["relay_program"].is_null());
        assert!(!through.is_empty());
        for trial in &through {
            let (ends, known) = (&trial["ends"], &trial["ends"]["relay"]["relay_program"]);
            let charged = known["charged"].as_str().unwrap_or_default();
            assert!(charged.contains(&format!("(pid {})", relay.child.id())), "{trial}");
            assert_eq!((number(&known["processes"]), number(&known["left_behind"])), (1, 0), "{trial}");
            let moved = [&ends["sink"]["total_bytes"], &ends["client"]["call"]["completed"]];
            assert!(moved.iter().any(|count| count.as_u64() > Some(0)), "{trial}");
        }
        let reported = scope(&document).join(" ");
        assert!(reported.contains("which ran already"), "{reported}");
        assert!(relay.child.try_wait().unwrap().is_none(), "it still runs");
    }
}

/// A relay that fails every trial, and the reason.
fn check_fails(workload: &[&str], level: &str, expected: &[&str]) {
    let bench = Bench::new();
    let ran = run(&bench, workload, level, &["--grace", "20s"]).exits(5);
    assert!(!ran.stderr.contains("panicked"), "{ran}");
    let raw = Raw::of(&bench, 1);
    let reasons: Vec<&str> = raw.trials.iter().filter_map(|trial| trial["outcome"]["reason"].as_str()).collect();
    let message = |reason: &&str| expected.iter().all(|part| reason.contains(part));
    assert!(reasons.iter().any(message), "{level}: {reasons:?}");
}

#[test]
fn relay_to_another_server_is_reported() {
    // The other server takes all bytes and sends none.
    let elsewhere = TcpListener::bind("127.0.0.1:0").unwrap();
    let relay = Running::before(elsewhere.local_addr().unwrap(), "honest");
    let taker = elsewhere.try_clone().unwrap();
    thread::spawn(move || {
        for taken in taker.incoming().flatten() {
            thread::spawn(move || taken.take(1 << 30).read_to_end(&mut Vec::new()));
        }
    });
    let upstream = free_address();
    check_fails(
        &CALL,
        &relay.level(upstream),
        &[&format!("at {upstream}"), "check that the relay forwards to this address"],
    );
}

#[test]
fn taken_side_is_reported_with_its_owner() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let upstream = taken.local_addr().unwrap();
    let relay = Running::before(upstream, "honest");
    let by = format!("port {} is taken by pid {}", upstream.port(), std::process::id());
    for workload in [&STREAM[..], &CALL[..]] {
        check_fails(workload, &relay.level(upstream), &[&by, "bytegauge must listen there"]);
    }
}

#[test]
fn relay_that_ends_is_reported() {
    let upstream = free_address();
    let relay = Running::before(upstream, "dies");
    check_fails(&STREAM, &relay.level(upstream), &["nothing listens at", "start it"]);
}

#[test]
fn missing_relay_is_reported_first() {
    let bench = Bench::new();
    let level = format!("addr:{}={}", free_address(), free_address());
    let ran = run(&bench, &STREAM, &level, &["--dry-run"]).exits(2);
    let message = format!("{}{}", ran.stdout, ran.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(message.contains("nothing listens at") && message.contains("start it"), "{ran}");
}
