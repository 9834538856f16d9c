//! Options that a user, a kernel or a missing module refuses: the cell is skipped with the reason, and the others are measured.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::bench::{BINARY, Bench, possible};
use crate::raw::Raw;

const SHORT: &str =
    "--profile drain --trial-time 50ms --blocks 2 --long-trials off --time 6s --seed 1 --engine blocking";

/// The reasons of the cells of a session that were skipped.
fn skipped(bench: &Bench, words: &str) -> String {
    let ran = bench.run(words);
    assert!(matches!(ran.status.code(), Some(0 | 5)), "{ran:?}");
    Raw::of(bench, 1).cells.iter().map(|cell| cell["outcome"].to_string()).collect()
}

#[test]
fn ordinary_users_may_not_prefer_busy_polling() {
    let ordinary = "--reuid 65534 --regid 65534 --clear-groups --inh-caps=-all --bounding-set=-all";
    // The program may be in a folder that other users may not enter.
    let words: Vec<&str> = ordinary.split(' ').chain([BINARY, "--version"]).collect();
    if !possible("another user runs the program", "setpriv", &words) {
        return;
    }
    let bench = Bench::new();
    fs::set_permissions(bench.path("."), fs::Permissions::from_mode(0o777)).unwrap();
    let flags = format!("stream --transport tcp --prefer-busy-poll auto,on {SHORT} --format csv");
    let ran = bench.shell(&format!("setpriv {ordinary} \"$BYTEGAUGE\" {flags}")).exits(0);
    assert!(ran.stdout.contains("SO_PREFER_BUSY_POLL=true: ") && ran.stdout.contains("CAP_NET_ADMIN"), "{ran:?}");
    assert!(ran.stdout.contains("measured"), "{ran:?}");
}

#[test]
fn refused_values_are_skipped() {
    let bench = Bench::new();
    // Less than the kernel takes, or an option that it does not have yet.
    let reasons = skipped(&bench, &format!("stream --transport tcp --rto-max auto,1ms {SHORT}"));
    assert!(reasons.contains("TCP_RTO_MAX_MS=1ms: "), "{reasons}");
    assert!(["choose another value", "lacks the option"].iter().any(|next| reasons.contains(next)), "{reasons}");
}

#[test]
fn absent_modules_are_named() {
    let bench = Bench::new();
    bench.run(&format!("stream --transport tcp,vsock {SHORT}")).exits(0);
    let stored = bench.run("export 1").exits(0).stdout;
    let is_here = stored.contains("\"transport\":\"vsock\"");
    assert!(is_here || stored.contains("modprobe vsock_loopback, or leave out --transport vsock"), "{stored}");
}

#[test]
fn fast_open_is_proven_where_it_is_allowed() {
    // In a network of its own, where the sysctl can be set.
    let network = "ip link set lo up && echo 3 > /proc/sys/net/ipv4/tcp_fastopen";
    if !possible("a network of its own", "unshare", &["-rn", "sh", "-c", network]) {
        return;
    }
    let bench = Bench::new();
    let flags = "--transport tcp --connect-per-call on --fastopen 256 --flows 4 --server-engine epoll --profile rpc \
                 --trial-time 300ms --blocks 2 --long-trials off --time 8s --seed 1 --format json";
    bench.shell(&format!("unshare -rn sh -c '{network} && exec \"$BYTEGAUGE\" call {flags}'")).exits(0);
    let raw = Raw::of(&bench, 1);
    let of_server = raw.trials.iter().map(|trial| &trial["ends"]["server"]["flows"]).filter(|flows| !flows.is_null());
    let flows: Vec<_> = of_server.flat_map(|flows| flows.as_array().unwrap().iter()).collect();
    assert!(flows.iter().any(|flow| flow["tcp"]["syn_data"] == true), "{flows:?}");
}
