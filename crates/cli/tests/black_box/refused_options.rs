//! Options that a user, a kernel or a missing module refuses: the cell is skipped with the reason, and the others are measured.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use bytegauge_model::level::LevelKind;
use bytegauge_model::option::{OPTIONS, OptionRow, ValueForm};
use bytegauge_model::{EndRole, Transport, Workload, factor};
use serde_json::Value;

use crate::bench::{BINARY, Bench, Ran, possible};
use crate::raw::Raw;
use crate::refusing_kernel::{self, Refused};

include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../model/tests/support/examples.rs"));

/// One option: the default lists have 63.
const SHORT: &str = "--profile drain --read-size 64K --write-size 64K --trial-time 50ms --blocks 2 --long-trials off --time 6s \
                     --seed 1 --engine blocking";

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
    let stored = bench.run("report export 1").exits(0).stdout;
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

/// The answers of a kernel to a user without privileges, without the option, and to a value that it does not take.
const ANSWERS: [(i32, &str); 3] =
    [(libc::EPERM, "CAP_NET_ADMIN"), (libc::ENOPROTOOPT, "lacks the option"), (libc::EINVAL, "choose another value")];

/// The call by which an option of the table is set over a transport, and the text that names it in a reason.
fn setting(row: &OptionRow, setter: EndRole, transport: &Transport) -> (Refused, &'static str) {
    match row.factor {
        "pipe_size" => return (Refused::with(libc::SYS_fcntl, 1, libc::F_SETPIPE_SZ as u64), row.name),
        _ => assert!(row.form != ValueForm::Pipe, "{}: state its system call", row.factor),
    }
    let congestion = matches!(row.factor, "congestion").then_some(example(row.factor));
    let (name, layer, number, _) =
        (row.variant)(setter, transport).unwrap_or((row.name, row.layer, row.number, row.form));
    (Refused::option(layer as i32, number), congestion.unwrap_or(name))
}

/// The command that asks for an option.
fn words(workload: Workload, transport: &str, row: &OptionRow) -> String {
    let flag = factor::find(row.factor).unwrap().flag();
    // A switch without `auto` is off by default.
    let usual = if matches!(row.kind, LevelKind::Switch { auto: false }) { "off" } else { "auto" };
    let with = if row.factor == "incoming_cpu" { "--reuseport on" } else { "" };
    let of_workload = match workload {
        Workload::Call => "call --profile echo --flows 2 --client-engine blocking --server-engine blocking",
        _ => "stream --profile drain --engine blocking",
    };
    format!(
        "{of_workload} --transport {transport} --placement unpinned --{flag} {usual},{} {with} --trial-time 10ms --blocks 2 \
         --analyses 1 --long-trials off --time 1s --seed 1",
        example(row.factor)
    )
}

/// The reasons of the cells that have an option, in the document.
fn reasons<'a>(document: &'a Value, factor: &str) -> Vec<&'a str> {
    let cells = document["cells"].as_array().unwrap().iter();
    let has = |cell: &&Value| !matches!(&cell["factors"][factor], Value::Null) && cell["factors"][factor] != "auto";
    cells.filter(has).filter(|cell| cell["outcome"] == "skipped").filter_map(|cell| cell["reason"].as_str()).collect()
}

/// A run without its line breaks.
fn screen(ran: &Ran) -> String {
    ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// An option that the kernel refuses: the reason is on the screen and in the document.
fn check_refused(workload: Workload, name: &str, row: &OptionRow, (errno, next): (i32, &str)) {
    let transport: Transport = name.parse().unwrap();
    let ends = workload.path_ends().unwrap();
    let (setters, _) = (row.sites)(&Default::default());
    // The end that listens opens its sockets first.
    let setter = [ends[1], ends[0]].into_iter().find(|end| setters.contains(end)).unwrap();
    let (call, named) = setting(row, setter, &transport);
    let bench = Bench::new();
    let ran = refusing_kernel::run(&bench, &[call], errno, &words(workload, name, row));
    // Without `auto` both levels are set; and a busy machine may let no call end within a short window.
    assert!(matches!(ran.status.code(), Some(0 | 5)), "{ran}");
    let document = bench.run("report 1 --format json").json();
    let reasons = reasons(&document, row.factor);
    assert!(!reasons.is_empty(), "{}: {ran}", row.factor);
    let has_own_words = matches!(row.factor, "congestion" | "fastopen") || row.form == ValueForm::Pipe;
    for reason in reasons {
        assert!(reason.contains(named) && (has_own_words || reason.contains(next)), "{}: {reason}", row.factor);
        let shown = reason.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(screen(&ran).contains(&shown), "{}: {reason} is not on the screen: {ran}", row.factor);
    }
}

const TESTED: [(Workload, &str); 3] = [(Workload::Stream, "tcp"), (Workload::Stream, "pipe"), (Workload::Call, "tcp")];

fn rows_of(workload: Workload, transport: &str) -> Vec<&'static OptionRow> {
    let transport: Transport = transport.parse().unwrap();
    let is_set = |row: &OptionRow| {
        let ends = workload.path_ends().unwrap();
        (row.sites)(&Default::default()).0.iter().any(|setter| ends.contains(setter))
    };
    let applies = |row: &OptionRow| factor::find(row.factor).unwrap().applies(workload, Some(&transport));
    OPTIONS.iter().filter(|row| is_set(row) && applies(row)).collect()
}

/// Each option once, the answers by turns.
fn check_all(workload: Workload, transport: &str) {
    for (row, answer) in rows_of(workload, transport).into_iter().zip(ANSWERS.into_iter().cycle()) {
        check_refused(workload, transport, row, answer);
    }
}

#[test]
fn refused_options_of_streams_have_reasons() {
    check_all(Workload::Stream, "tcp");
    check_all(Workload::Stream, "pipe");
}

#[test]
fn refused_options_of_calls_have_reasons() {
    check_all(Workload::Call, "tcp");
}

#[test]
fn every_option_is_refused_in_a_test() {
    let is_tested = |row: &&OptionRow| {
        let mut all = TESTED.iter().flat_map(|(workload, transport)| rows_of(*workload, transport));
        all.any(|tested| tested.factor == row.factor)
    };
    for row in OPTIONS.iter() {
        assert!(is_tested(&row), "{}", row.factor);
    }
}

/// A feature that a kernel may lack: the words of a user, the call that asks for it, and the text of its reason by answer.
struct Feature {
    words: &'static str,
    factor: &'static str,
    level: &'static str,
    call: Refused,
    answers: &'static [(i32, &'static str)],
}

/// `IPPROTO_MPTCP` and `TCP_ULP`.
const MPTCP: u64 = libc::IPPROTO_MPTCP as u64;
const TCP_ULP: i32 = libc::TCP_ULP;

const FEATURES: &[Feature] = &[
    Feature {
        words: "--transport tcp,mptcp",
        factor: "transport",
        level: "mptcp",
        call: Refused::with(libc::SYS_socket, 2, MPTCP),
        answers: &[
            (libc::ENOPROTOOPT, "mptcp: it is switched off here: sysctl -w net.mptcp.enabled=1"),
            (libc::EPROTONOSUPPORT, "mptcp: this kernel has no MPTCP"),
            (libc::EPERM, "leave out --transport mptcp"),
        ],
    },
    Feature {
        words: "--transport tcp,vsock",
        factor: "transport",
        level: "vsock",
        call: Refused::with(libc::SYS_socket, 0, libc::AF_VSOCK as u64),
        answers: &[(libc::EAFNOSUPPORT, "modprobe vsock vsock_loopback"), (libc::EPERM, "leave out --transport vsock")],
    },
    Feature {
        words: "--transport tcp,unix-seqpacket",
        factor: "transport",
        level: "unix-seqpacket",
        call: Refused::with(libc::SYS_socket, 1, (libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC) as u64),
        answers: &[(libc::ESOCKTNOSUPPORT, "leave out --transport unix-seqpacket")],
    },
    Feature {
        words: "--transport tcp,tcp6",
        factor: "transport",
        level: "tcp6",
        call: Refused::with(libc::SYS_socket, 0, libc::AF_INET6 as u64),
        answers: &[(libc::EAFNOSUPPORT, "tcp6: this machine has no IPv6 loopback")],
    },
    Feature {
        words: "--transport tcp --tls none,kernel",
        factor: "tls",
        level: "kernel",
        call: Refused::option(libc::IPPROTO_TCP, TCP_ULP),
        answers: &[
            (libc::ENOENT, "run `modprobe tls` as root, or use --tls rustls"),
            (libc::EPERM, "the kernel refuses it (Operation not permitted"),
        ],
    },
];

/// Modes of io_uring, each with a plain one that needs no ring.
const URING_MODES: &str = "uring:plain,uring:multishot,uring:bundle,uring:zc";

#[test]
fn absent_features_have_reasons() {
    let short = "--trial-time 50ms --blocks 2 --long-trials off --time 6s --seed 1";
    for feature in FEATURES {
        for (errno, expected) in feature.answers {
            for workload in [
                "stream --profile drain --read-size 64K --write-size 64K --engine blocking",
                "call --profile echo --server-engine blocking",
            ] {
                let bench = Bench::new();
                let words = format!("{workload} {} {short}", feature.words);
                let ran = refusing_kernel::run(&bench, &[feature.call], *errno, &words);
                check_reason(&bench, &ran, (feature.factor, feature.level), expected);
            }
        }
    }
}

#[test]
fn absent_rings_have_reasons() {
    let short = "--transport tcp --placement unpinned --trial-time 30ms --blocks 2 --analyses 1 --long-trials off --time 5s --seed 1";
    for errno in [libc::ENOSYS, libc::EPERM] {
        for (workload, factor) in [
            ("stream --profile drain --read-size 64K --write-size 64K --engine", "engine"),
            ("call --profile echo --client-engine blocking --server-engine", "server_engine"),
        ] {
            let bench = Bench::new();
            let words = format!("{workload} epoll,{URING_MODES} {short}");
            let ran = refusing_kernel::run(&bench, &[Refused::call(libc::SYS_io_uring_setup)], errno, &words);
            for mode in URING_MODES.split(',') {
                check_reason(&bench, &ran, (factor, mode), "use --engine epoll");
            }
        }
    }
}

/// A cell with a level was skipped, with a reason on the screen and in the document; others were tried.
fn check_reason(bench: &Bench, ran: &Ran, (factor, level): (&str, &str), expected: &str) {
    assert!(matches!(ran.status.code(), Some(0 | 5)), "{ran}");
    let document = bench.run("report 1 --format json").json();
    let cells = document["cells"].as_array().unwrap();
    assert!(cells.iter().any(|cell| cell["outcome"] != "skipped"), "{ran}");
    let cell =
        cells.iter().find(|cell| cell["factors"][factor] == level).unwrap_or_else(|| panic!("no {level}: {ran}"));
    let reason = cell["reason"].as_str().unwrap_or_default();
    assert!(cell["outcome"] == "skipped" && reason.contains(expected), "{level}: {cell}");
    let full = screen(&bench.run("report 1 --full"));
    assert!(full.contains(expected), "{level}: {reason} is not on the screen: {full}");
}
