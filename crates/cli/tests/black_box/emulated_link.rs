//! An emulated link between two networks of a user namespace: each trial uses the link of its cell, and the facts of the link
//! are stored. Its accuracy on a busy machine is not tested: a trial whose link was late fails with that reason.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use serde_json::Value;

use crate::bench::{BINARY, Bench, Running, json_lines, possible, signal};
use crate::call_faults::role;
use crate::raw::Raw;

/// Whether such networks, and devices in them, are allowed.
pub fn links_are_possible() -> bool {
    let tried = "test -w /proc/sys/net/ipv4/tcp_no_metrics_save && exec 3<>/dev/net/tun";
    possible("a link is emulated between a network namespace", "unshare", &["-Urn", "sh", "-c", tried])
}

/// The facts of a trial's link, both directions together.
fn of_link(trial: &Value, count: &str) -> u64 {
    ["there", "back"].iter().filter_map(|way| trial["machine"]["link"][way][count].as_u64()).sum()
}

/// Every trial of a session that came so far as to move something, with its cell's levels.
fn carried(raw: &Raw) -> Vec<(&Value, &Value)> {
    let levels = |trial: &Value| {
        let cell = raw.cells.iter().find(|line| line["cell"]["id"] == trial["cell"]);
        &cell.unwrap_or_else(|| panic!("no cell of {trial}"))["cell"]["factors"]
    };
    // The null engine does not use it.
    let moves = |trial: &&Value| of_link(trial, "passed") > 100;
    raw.trials.iter().filter(moves).map(|trial| (trial, levels(trial))).collect()
}

/// A busy machine may make a link late, and nothing else may happen.
fn check_reasons(raw: &Raw) {
    for reason in raw.troubles() {
        assert!(reason.contains("emulated link") || reason.contains("measured once more"), "{reason}");
    }
}

/// The others run as the user of the tests, often root.
#[test]
fn ordinary_users_have_links() {
    let ordinary = "setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all --bounding-set=-all";
    let tried =
        format!("{ordinary} unshare -Urn true && {ordinary} {BINARY} --version && {ordinary} test -w /dev/net/tun");
    if !links_are_possible() || !possible("another user makes a link", "sh", &["-c", &tried]) {
        return;
    }
    let bench = Bench::new();
    fs::set_permissions(bench.path("."), fs::Permissions::from_mode(0o777)).unwrap();
    let flags = "stream --transport tcp --link-delay 2ms --read-size 64K --write-size 64K --trial-time 100ms --blocks 1 \
                 --analyses 1 --long-trials off --time 20s --quiet";
    let ran = bench.shell(&format!("{ordinary} \"$BYTEGAUGE\" {flags}"));
    check_reasons(&Raw::of(&bench, 1));
    assert!(matches!(ran.status.code(), Some(0 | 5)), "{ran}");
}

#[test]
fn stream_crosses_the_link_of_its_cell() {
    let bench = Bench::new();
    if !links_are_possible() {
        return;
    }
    bench.run(
        "stream --link-delay 40ms,80ms --link-loss 0%,2% --link-rate 50Mbit --flows 2 --profile drain --read-size 64K \
         --write-size 64K --trial-time 200ms --blocks 1 --analyses 1 --long-trials off --time 60s --seed 1 --quiet --ends threads",
    );
    let raw = Raw::of(&bench, 1);
    check_reasons(&raw);
    let carried = carried(&raw);
    let mut lost = 0;
    for (delay_ms, loss) in [(40, "0%"), (40, "2%"), (80, "0%"), (80, "2%")] {
        let is = |levels: &Value| levels["link_delay"] == delay_ms * 1_000_000 && levels["link_loss"] == loss;
        let trials: Vec<&Value> = carried.iter().filter(|(_, levels)| is(levels)).map(|(trial, _)| *trial).collect();
        assert!(!trials.is_empty(), "nothing went over {delay_ms} ms with {loss}: {:?}", raw.reasons());
        for trial in trials {
            lost += of_link(trial, "lost");
            assert!(loss == "2%" || of_link(trial, "lost") == 0, "{trial}");
            let [sent, came] = ["source", "sink"].map(|role| &trial["ends"][role]);
            assert_eq!(sent["total_bytes"], came["total_bytes"], "{trial}");
            // The link passed all of them, and their headers.
            let passed = trial["machine"]["link"]["there"]["passed_bytes"].as_u64();
            assert!(passed > came["total_bytes"].as_u64() && came["total_bytes"].as_u64() > Some(0), "{trial}");
            let flows = sent["flows"].as_array().unwrap();
            assert_eq!(flows.len(), 2, "{trial}");
            for flow in flows {
                // No packet is ever early.
                let trip_us = flow["tcp"]["min_rtt_us"].as_u64().unwrap();
                assert!(trip_us >= delay_ms * 1000, "{trip_us} µs over {delay_ms} ms: {trial}");
            }
        }
    }
    // Hundreds of packets came to the lossy ones.
    assert!(lost > 0, "{:?}", raw.trials);
}

#[test]
fn trials_with_a_late_link_are_omitted() {
    let bench = Bench::new();
    if !links_are_possible() {
        return;
    }
    // So far away that a busy machine alone makes no link late: by a tenth of the round trip on average.
    let mut session = bench.start(
        "stream --link-delay 100ms --link-rate 50Mbit --profile drain --read-size 64K --write-size 64K --trial-time 200ms \
         --blocks 500 --analyses 1 --long-trials off --time 3000s --seed 1 --json-stream",
    );
    let trials = |session: &Running| {
        let lines = json_lines(&session.stdout());
        let is = |line: &&Value, outcome: &str| line["event"] == "trial" && line["outcome"] == outcome;
        ["measured", "failed"].map(|outcome| lines.iter().filter(|line| is(line, outcome)).count())
    };
    session.until("a trial in time", |session| trials(session)[0] >= 1);
    // Kept from running most of the time, until a trial has felt it.
    session.until("a late trial", |session| {
        let is_late = trials(session)[1] > 0;
        for id in bench.processes().into_iter().filter(|id| !is_late && role(*id) == "link") {
            signal(id, "STOP");
            std::thread::sleep(Duration::from_millis(300));
            signal(id, "CONT");
            std::thread::sleep(Duration::from_millis(100));
        }
        is_late
    });
    let so_far = trials(&session)[0];
    session.until("trials afterwards", |session| trials(session)[0] > so_far);
    session.insist("INT").exits(130);
    let raw = Raw::of(&bench, 1);
    check_reasons(&raw);
    assert!(raw.reasons().iter().any(|reason| reason.contains("the emulated link took")), "{:?}", raw.reasons());
    // Late trials are not counted, the others are.
    let cell = &bench.run("report --format json").json()["cells"][0];
    let of_stage = |trial: &&Value| trial["cell"] == cell["id"] && trial["stage"] == "confirm";
    let count =
        |kind: &str| raw.trials.iter().filter(of_stage).filter(|trial| trial["outcome"]["kind"] == kind).count() as u64;
    assert_eq!(
        (cell["outcome"].as_str(), cell["trials"].as_u64()),
        (Some("measured"), Some(count("measured"))),
        "{cell}"
    );
    assert!(cell["failed_trials"].as_u64() >= Some(count("failed")), "{cell}");
}

#[test]
fn calls_cross_a_link_over_both_protocols() {
    let bench = Bench::new();
    if !links_are_possible() {
        return;
    }
    for (session, transport, engine) in [(1, "tcp", "epoll"), (2, "udp", "plain")] {
        bench.run(&format!(
            "call --profile echo --flows 4 --transport {transport} --server-engine {engine} --link-delay 20ms --trial-time 200ms \
             --blocks 1 --analyses 1 --long-trials off --time 60s --seed 1 --quiet"
        ));
        let raw = Raw::of(&bench, session);
        check_reasons(&raw);
        let over_link: Vec<&Value> = raw.trials.iter().filter(|trial| trial["calls"].as_u64() > Some(0)).collect();
        let crossed: Vec<&Value> = over_link.into_iter().filter(|trial| of_link(trial, "passed") > 0).collect();
        assert!(!crossed.is_empty(), "{transport}: {:?}", raw.reasons());
        for trial in crossed {
            // A request and its reply, both of which it carried.
            assert!(of_link(trial, "passed") >= 2 * trial["calls"].as_u64().unwrap(), "{trial}");
        }
    }
}

#[test]
fn link_without_namespaces_is_skipped_with_reason() {
    let bench = Bench::new();
    // In a user namespace that may have none of its own.
    let close = "echo 0 > /proc/sys/user/max_user_namespaces; echo 0 > /proc/sys/user/max_net_namespaces";
    let closed = format!("{close}; ! unshare -U true && ! unshare -n true");
    if !possible("a user without namespaces", "unshare", &["-Ur", "sh", "-c", &closed]) {
        return;
    }
    let inner = |flags: &str| {
        let shell = format!("{close}; exec \"$BYTEGAUGE\" {flags}");
        bench.shell(&format!("exec unshare -Ur sh -c '{shell}'"))
    };
    let sizes = "--profile drain --read-size 64K --write-size 64K";
    let why = "needs a user namespace (the user's limit is 0): run as root, allow them";
    inner(&format!("stream --link-delay 1ms {sizes} --dry-run")).exits(2).complains(&[why, "--host"]);
    fs::write(bench.path("some.toml"), "[[part]]\ntransport = \"unix\"\n[[part]]\nlink-delay = \"1ms\"\n").unwrap();
    inner(&format!("run some.toml {sizes} --dry-run")).exits(0).prints(&[why]);
}

/// An urgent message is behind bulk data on the same connection: no packet is early. A small backlog of unsent bytes is not compared
/// with a large one, since a busy machine delays both.
#[test]
fn urgent_messages_cross_the_link() {
    let bench = Bench::new();
    if !links_are_possible() {
        return;
    }
    bench.run(
        "stream --link-delay 40ms --link-rate 20Mbit --urgent 10ms --notsent-lowat auto,16K --profile drain --read-size 64K \
         --write-size 64K --trial-time 400ms --blocks 2 --analyses 1 --long-trials off --time 60s --seed 1 --quiet",
    );
    let raw = Raw::of(&bench, 1);
    check_reasons(&raw);
    if carried(&raw).is_empty() {
        return;
    }
    let document = bench.run("report 1 --format json").exits(0).json();
    let cells = document["cells"].as_array().expect("cells").iter().filter(|cell| cell["outcome"] == "measured");
    let mut delays = cells.filter_map(|cell| cell["more"]["urgent_p50_ns"]["median"].as_f64()).peekable();
    assert!(delays.peek().is_some(), "{document}");
    assert!(delays.all(|ns| ns >= 20e6), "{document}");
    bench.run("report 1").exits(0).prints(&["urgent p50"]);
}
