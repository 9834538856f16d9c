//! Options of a program's sockets, set from outside: planted faults are found and named, and each program that cannot be
//! changed is reported.
//!
//! Programs print what is in force, which is the same on every machine; nothing rests on their times.

use std::os::unix::fs::{PermissionsExt, chown};
use std::{fs, process};

use serde_json::Value;

use crate::bench::{Bench, Ran, python};
use crate::contract::check_schema;
use crate::raw::Raw;
use crate::running_relays::free_address;
use crate::tune_values::check_no_process_is_left;

/// Sets a small receive buffer, connects to itself, and prints the buffer in force.
const CLIENT: &str = "import socket
server = socket.create_server(('127.0.0.1', 0))
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
s.connect(server.getsockname())
print('rate', s.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF))
";

/// Sets TCP_NODELAY after accept, and sends each client the value in force.
const SERVER: &str = "import socket, sys
server = socket.create_server(('127.0.0.1', int(sys.argv[1])))
while True:
    s = server.accept()[0]
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    s.sendall(b'rate %d' % (1 + (s.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0)))
    s.close()
";

/// Prints the reply of the server.
const ASKS: &str = "import socket, sys
s = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
print(s.recv(100).decode())
";

/// Fixes its small send buffer, and sends each client 1, or 2 without it.
const FIXED_SERVER: &str = "import socket, sys
SNDBUF = (socket.SOL_SOCKET, socket.SO_SNDBUF)
server = socket.socket()
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
server.setsockopt(*SNDBUF, 8192)
server.bind(('127.0.0.1', int(sys.argv[1])))
server.listen()
while True:
    s = server.accept()[0]
    s.sendall(b'%d' % (1 + (s.getsockopt(*SNDBUF) > 16384)))
    s.close()
";

/// Fixes its small receive buffer, and prints what the server sends, or three times that without it.
const FIXED_CLIENT: &str = "import socket, sys
RCVBUF = (socket.SOL_SOCKET, socket.SO_RCVBUF)
s = socket.socket()
s.setsockopt(*RCVBUF, 8192)
s.connect(('127.0.0.1', int(sys.argv[1])))
print('rate', int(s.recv(100)) * (1 + 2 * (s.getsockopt(*RCVBUF) > 16384)))
";

/// Makes five calls that slow a program, and prints a rate that is a multiple of 2, 3, 5 or 7 without the one or the other.
const FAULTS: &str = "import socket, sys
SOL, TCP = socket.SOL_SOCKET, socket.IPPROTO_TCP
server = socket.create_server(('127.0.0.1', 0))
s = socket.socket()
s.setsockopt(SOL, socket.SO_REUSEADDR, 1)
s.setsockopt(SOL, socket.SO_RCVBUF, 8192)
s.setsockopt(SOL, socket.SO_SNDBUF, 8192)
s.setsockopt(TCP, socket.TCP_CONGESTION, sys.argv[1].encode())
s.connect(server.getsockname())
s.setsockopt(TCP, socket.TCP_QUICKACK, 0)
rate = 2 if s.getsockopt(SOL, socket.SO_RCVBUF) > 16384 else 1
rate *= 3 if s.getsockopt(SOL, socket.SO_SNDBUF) > 16384 else 1
rate *= 5 if s.getsockopt(TCP, socket.TCP_QUICKACK) else 1
rate *= 7 if s.getsockopt(TCP, socket.TCP_CONGESTION, 16).strip(b'\\0') != sys.argv[1].encode() else 1
print('rate', rate)
";

/// Sends each request by two calls, and prints how many it could make in a second: the least of the last eight, since the first
/// segments of a connection are acknowledged at once; 200 at most, however busy the machine is.
const TWO_WRITES: &str = "import socket, threading, time
server = socket.create_server(('127.0.0.1', 0))
def serve():
    s = server.accept()[0]
    while True:
        request = b''
        while len(request) < 8:
            part = s.recv(8 - len(request))
            if not part:
                return
            request += part
        s.sendall(b'reply')
threading.Thread(target=serve, daemon=True).start()
s = socket.create_connection(server.getsockname())
took = []
for _ in range(24):
    began = time.monotonic()
    s.sendall(b'head')
    s.sendall(b'body')
    s.recv(5)
    took.append(time.monotonic() - began)
print('rate', round(1 / max(min(took[-8:]), 0.005)))
";

/// Reads from itself into a buffer at page + 16: in its second run until its calls are sampled, in others once.
const MISALIGNED: &str = "import mmap, os, socket, sys, threading, time
server = socket.create_server(('127.0.0.1', 0))
s = socket.create_connection(server.getsockname())
peer = server.accept()[0]
def send():
    try:
        while True: peer.sendall(bytes(65536))
    except OSError: pass
threading.Thread(target=send, daemon=True).start()
room = memoryview(mmap.mmap(-1, 1 << 20))[16:65552]
read = lambda: [s.recv_into(room) for _ in range(16)]
with open(sys.argv[1], 'a') as runs: runs.write('.')
until = time.monotonic() + (60 if os.path.getsize(sys.argv[1]) == 2 else 0)
is_traced = lambda: 'TracerPid:\\t0' not in open('/proc/self/status').read()
while time.monotonic() < until and not is_traced(): read()
read()
print('rate', 1)
";

fn tune(bench: &Bench, flags: &[&str], program: &[&str]) -> Ran {
    let quick = ["tune", "--blocks", "6", "--analyses", "1", "--seed", "1", "--metric", "regex:rate ([0-9]+)"];
    let words: Vec<&str> = quick.iter().chain(flags).chain(&["--"]).chain(program).copied().collect();
    bench.run_args(&words)
}

fn change<'a>(document: &'a Value, value: &str) -> &'a Value {
    let all = document["tune"]["changes"]["changes"].as_array().expect("changes");
    all.iter().find(|change| change["value"] == value).unwrap_or_else(|| panic!("no {value} in {document:#}"))
}

#[test]
fn a_harmful_call_is_found_and_named() {
    let Some(python) = python("the program is written in Python", "import socket") else { return };
    let bench = Bench::new();
    let client = bench.write("client.py", CLIENT);
    let flags = ["--option", "rcvbuf=unset", "--option", "nodelay=on,off", "--option", "congestion=nosuch"];
    let ran = tune(&bench, &flags, &[&python, "-S", &client]).exits(0).prints(&[
        "sets SO_RCVBUF = 8192",
        "without its SO_RCVBUF",
        "remove sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192): ",
        "<- use",
        "No effect  nodelay on",
        "Skipped",
        "net.ipv4.tcp_available_congestion_control",
        "nodelay=off: it is so already, and the program does not set TCP_NODELAY itself",
    ]);
    assert!(!ran.stdout.contains("--values"), "{ran}");
    bench.run("report 1 --full").exits(0).prints(&["the filter adds ", "Details of the measurement"]);
    let document = bench.run("report --format json").exits(0).json();
    check_schema(&document);
    let removed = change(&document, "rcvbuf=unset");
    assert!(removed["upper"].as_f64() < Some(-0.5), "{removed}");
    assert!(change(&document, "congestion=nosuch")["reason"].is_string(), "{document:#}");
    assert!(document["sentence"].as_str().is_some_and(|text| text.starts_with("Run it without its SO_RCVBUF: ")));
    assert_eq!((&document["tests"][0]["recommended"], &removed["is_best"]), (&removed["cell"], &true.into()));
    let line = "In the program: remove sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)";
    bench.run("report --full").exits(0).prints(&["without its SO_RCVBUF", line]);
    bench.run("report --format markdown").exits(0).prints(&["without its SO\\_RCVBUF"]);
    check_no_process_is_left(&bench);
}

#[test]
fn reads_to_slow_addresses_are_seen_in_the_first_run() {
    let Some(python) = python("the program is written in Python", "import mmap") else { return };
    let bench = Bench::new();
    let (client, marker) = (bench.write("client.py", MISALIGNED), bench.write("ran", ""));
    tune(&bench, &["--option", "nodelay=on", "--time", "300s"], &[&python, "-S", &client, &marker]).exits(0);
    // Without --full only where this CPU copies slowly to there.
    bench.run("report --full").exits(0).prints(&["reads 64 KiB a call (recvfrom", "of the reads go to page + 16"]);
}

#[test]
fn another_command_prints_the_number() {
    let Some(python) = python("the program is written in Python", "import socket") else { return };
    let bench = Bench::new();
    let client = bench.write("client.py", CLIENT);
    let file = bench.write("rate", "");
    let load = format!("{python} -S {client} > {file}");
    let tune = |metric: &str| {
        let flags =
            ["--option", "rcvbuf=unset", "--blocks", "6", "--analyses", "1", "--metric", metric, "--load", &load];
        bench.run_args(&["tune"].iter().chain(&flags).copied().collect::<Vec<_>>())
    };
    tune(&format!("cmd:cat {file}")).exits(0).prints(&["without its SO_RCVBUF", "<- use"]);
    // Seconds: less is better.
    tune(&format!("cmd-time:cat {file}")).exits(0).prints(&["without its SO_RCVBUF", "keep the program as it is"]);
    assert!(tune("cmd:exit 3").stderr.contains("the command of --metric exited with 3"));
}

#[test]
fn planted_faults_are_named_with_their_lines() {
    let Some(python) = python("the program is written in Python", "import socket") else { return };
    let bench = Bench::new();
    let faults = bench.write("faults.py", FAULTS);
    let read = |name: &str| fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).expect("a setting");
    let (all, default) = (read("tcp_available_congestion_control"), read("tcp_congestion_control"));
    let wrong = all.split_whitespace().find(|name| *name != default.trim());
    let flags = |names: &[&'static str]| -> Vec<&str> { names.iter().flat_map(|name| ["--option", name]).collect() };
    let mut options = vec!["rcvbuf=unset", "sndbuf=unset", "quickack=unset"];
    options.extend(wrong.map(|_| "congestion=unset"));
    let ran = tune(&bench, &flags(&options), &[&python, "-S", &faults, wrong.unwrap_or(default.trim())]).exits(0);
    let ran = ran.prints(&[
        "remove sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192): 2× as fast",
        "remove sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192): 3× as fast",
        "remove sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0): 5× as fast",
    ]);
    let line = wrong.map(|wrong| {
        format!("remove sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b\"{wrong}\"): 7× as fast")
    });
    let ran = ran.prints(&line.iter().map(String::as_str).collect::<Vec<_>>());
    // SO_REUSEADDR changes no speed, and is no option that can be tried.
    assert!(!ran.stdout.contains("option 2") && !ran.stdout.contains("REUSEADDR"), "{ran}");
}

#[test]
fn a_held_message_is_noticed_and_proven() {
    let Some(python) = python("the program is written in Python", "import socket") else { return };
    let bench = Bench::new();
    let program = bench.write("two-writes.py", TWO_WRITES);
    tune(&bench, &["--option", "nodelay=on"], &[&python, "-S", &program]).exits(0).prints(&[
        "part of a message waits for an acknowledgement",
        "consistent with Nagle's algorithm",
        "add sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1): ",
    ]);
}

#[test]
fn a_program_that_is_too_slow_shows_why_it_waits() {
    let Some(python) = python("the program is written in Python", "import socket") else { return };
    let bench = Bench::new();
    let program = bench.write("endless.py", &TWO_WRITES.replace("range(24)", "range(1 << 30)"));
    let ran = tune(&bench, &["--timeout", "5s"], &[&python, "-S", &program]).exits(5);
    assert!(ran.stderr.contains("took longer than 5 s"), "{ran}");
    assert!(ran.stderr.contains("Until then, part of a message waits for an acknowledgement"), "{ran}");
}

#[test]
fn long_runs_keep_the_time_and_give_facts() {
    let Some(python) = python("the program is written in Python", "import socket") else { return };
    let bench = Bench::new();
    // Three seconds with the small buffer, until the file is gone.
    let slow = "
import os, time
if s.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) <= 16384:
    time.sleep(3 if os.path.exists(__file__ + '.slow') else 0.3)
";
    let program = bench.write("slow.py", &format!("{CLIENT}{slow}"));
    fs::write(format!("{program}.slow"), "").expect("a file");
    let ran =
        bench.run_args(&["tune", "--seed", "1", "--time", "5s", "--", &python, "-S", &program]).exits(0).prints(&[
            "as it is ",
            "undecided: “without its SO_RCVBUF” took ",
            " tune --resume 1 ",
            "no time for a run of it: ",
        ]);
    assert!(!ran.stdout.contains("<- use") && !ran.stdout.contains("setsockopt("), "nothing is decided: {ran}");
    let before = Raw::of(&bench, 1);
    before.check_sound();
    let of_program = |raw: &Raw| raw.trials.iter().filter(|trial| trial["cell"] == "c1").count();
    assert!(before.status() == "incomplete" && of_program(&before) <= 1, "two long runs do not fit 5 s");
    fs::remove_file(format!("{program}.slow")).expect("the file");
    bench.run("tune --resume 1").exits(0);
    let after = Raw::of(&bench, 1);
    after.check_sound();
    assert!(after.status() == "complete" && of_program(&after) >= 6, "the blocks of an interval");
}

#[test]
fn what_to_try_follows_from_the_first_run() {
    let Some(python) = python("the program is written in Python", "import socket") else { return };
    let bench = Bench::new();
    let client = bench.write("client.py", CLIENT);
    let ran = tune(&bench, &[], &[&python, "-S", &client]).exits(0).prints(&[
        "opens 1 TCP connection; listens on 1 TCP socket",
        "without its SO_RCVBUF",
        "nodelay on",
        "notsent-lowat 128 KiB",
    ]);
    // Where its short connection was seen to be over loopback, a fixed buffer is no change to make.
    let own = "sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)";
    let screen = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    let replaced = format!("replace {own} by sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4194304): ");
    assert!(screen.contains(&replaced) || screen.contains(&format!("remove {own}: ")), "{ran}");
}

#[test]
fn faults_of_both_programs_are_found() {
    let Some(python) = python("the programs are written in Python", "import socket") else { return };
    let bench = Bench::new();
    let (server, client) = (bench.write("server.py", FIXED_SERVER), bench.write("client.py", FIXED_CLIENT));
    let port = free_address().port().to_string();
    let (start, ready) = (format!("exec {python} -S {server} {port}"), format!("tcp:{port}"));
    tune(&bench, &["--start", &start, "--ready", &ready], &[&python, "-S", &client, &port]).exits(0).prints(&[
        "Server     listens on 1 TCP socket; sets ",
        "Client     opens 1 TCP connection; sets SO_RCVBUF = 8192 itself",
        "client: without its SO_RCVBUF",
        "server: without its SO_SNDBUF",
        "in the client, remove sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192): 3× as fast",
        "in the server, remove sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192): 2× as fast",
    ]);
    let document = bench.run("report --format json").exits(0).json();
    assert_eq!(document["tune"]["changes"]["on"], "both");
    check_no_process_is_left(&bench);
}

#[test]
fn options_of_accepted_connections_are_changed() {
    let Some(python) = python("the server is written in Python", "import socket") else { return };
    let bench = Bench::new();
    let (server, client) = (bench.write("server.py", SERVER), bench.write("asks.py", ASKS));
    let port = free_address().port().to_string();
    let start = format!("exec {python} -S {server} {port}");
    let ready = format!("tcp:{port}");
    let flags = ["--option", "nodelay=off", "--start", &start, "--ready", &ready, "--format", "json"];
    let document = tune(&bench, &flags, &[&python, "-S", &client, &port]).exits(0).json();
    check_schema(&document);
    assert_eq!(document["tune"]["changes"]["on"], "server");
    assert!(change(&document, "nodelay=off")["lower"].as_f64() > Some(0.5), "{document:#}");
    check_no_process_is_left(&bench);
}

#[test]
fn the_end_that_waits_is_changed() {
    let Some(python) = python("the programs are written in Python", "import socket") else { return };
    let bench = Bench::new();
    let (served, client) = TWO_WRITES.split_once("threading.Thread").expect("a server and its client");
    let at_port = "server = socket.create_server(('127.0.0.1', int(sys.argv[1])))";
    let served = served.replace("server = socket.create_server(('127.0.0.1', 0))", at_port).replace("threading", "sys");
    let server = bench.write("server.py", &format!("{served}while True:\n    serve()\n"));
    let (_, client) = client.split_once('\n').expect("its first line");
    let client = client.replace("server.getsockname()", "('127.0.0.1', int(sys.argv[1]))").replace("24", "12");
    let client = bench.write("client.py", &format!("import socket, sys, time\n{client}"));
    let port = free_address().port().to_string();
    let (start, ready) = (format!("exec {python} -S {server} {port}"), format!("tcp:{port}"));
    let flags = ["--option", "nodelay=on", "--start", &start, "--ready", &ready];
    let program = [&python, "-S", client.as_str(), port.as_str()];
    tune(&bench, &flags, &program).exits(0).prints(&["of the client alone", "TCP_NODELAY, 1): "]);
}

/// Like many databases: over TCP and over a Unix socket, whose connections inherit no buffer.
#[test]
fn a_unix_listener_does_not_keep_an_option_from_the_others() {
    let Some(python) = python("the server is written in Python", "import socket") else { return };
    let bench = Bench::new();
    let unix = bench.write("unix.sock", "");
    let also = format!("import os\nos.unlink('{unix}')\nlocal = socket.socket(socket.AF_UNIX)\nlocal.bind('{unix}')\n");
    let body = SERVER.replace("while True", &format!("{also}local.listen()\nwhile True"));
    let rated =
        body.replace("socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0", "socket.SOL_SOCKET, socket.SO_SNDBUF) == 131072");
    let (server, client) = (bench.write("server.py", &rated), bench.write("asks.py", ASKS));
    let port = free_address().port().to_string();
    let start = format!("exec {python} -S {server} {port}");
    let ready = format!("tcp:{port}");
    let prepare = format!("touch {unix}");
    let flags =
        ["--option", "sndbuf=64K", "--start", &start, "--ready", &ready, "--prepare", &prepare, "--format", "json"];
    let document = tune(&bench, &flags, &[&python, "-S", &client, &port]).exits(0).json();
    assert!(change(&document, "sndbuf=64K")["upper"].as_f64() < Some(-0.4), "{document:#}");
}

#[test]
fn an_option_that_is_not_in_force_is_skipped() {
    let Some(python) = python("the program is written in Python", "import socket") else { return };
    let bench = Bench::new();
    let client = bench.write("client.py", CLIENT);
    let flags = ["--option", "nodelay=on", "--option", "sndbuf=1G"];
    tune(&bench, &flags, &[&python, "-S", &client]).exits(0).prints(&["Skipped", "net.core.wmem_max"]);
}

#[test]
fn a_program_that_cannot_be_changed_is_reported() {
    let bench = Bench::new();
    let failed = |program: &[&str], expected: &str| {
        let ran = tune(&bench, &[], program);
        assert!(!ran.status.success() && ran.stderr.contains(expected), "{ran}");
    };
    failed(&["/no/such/program"], "was not found");
    failed(&["true"], "the first run of the program, which is only watched, failed: the command printed no number");
    failed(&["false"], "the first run of the program, which is only watched, failed: the command exited with 1");
    let program = |name: &str, mode: u32| {
        let path = bench.write(name, "\u{7f}ELF\u{1}");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("a mode");
        path
    };
    failed(&[&program("small", 0o755)], "is a 32-bit program");
    failed(&[&bench.write("not-executable", "#!/bin/sh\n")], "may not be run");
    let watched = |more: &[&str], expected: &str| {
        let ran = bench.run_args(&[&["tune", "--blocks", "6"], more].concat());
        assert!(!ran.status.success() && (ran.stderr.contains(expected) || ran.stdout.contains(expected)), "{ran}");
    };
    watched(&["--", "true"], "it connects no socket and listens on none");
    if let Some(python) = python("two programs are written in Python", "import ctypes") {
        let ring = "import ctypes; ctypes.CDLL(None).syscall(425, 1, ctypes.create_string_buffer(120))";
        watched(&["--", &python, "-S", "-c", ring], "turn io_uring off in the program");
        let unix = "import socket; s = socket.socket(socket.AF_UNIX); s.bind(''); s.listen(); c = socket.socket(socket.AF_UNIX); \
                    c.connect(s.getsockname())";
        watched(&["--option", "nodelay=on", "--", &python, "-S", "-c", unix], "none of its sockets has the option");
    }
    let other = bench.write("other", "#!/bin/sh\n");
    if chown(&other, Some(65_534), None).is_ok() {
        fs::set_permissions(&other, fs::Permissions::from_mode(0o4755)).expect("a mode");
        failed(&[&other], "set-user-id");
    } else {
        println!("skipped: process {} may not give files away", process::id());
    }
    let wrong = |flags: &[&str], expected: &str| {
        let ran = tune(&bench, flags, &["true"]).exits(2);
        assert!(ran.stderr.contains(expected), "{ran}");
    };
    wrong(&["--option", "nodelai=on"], "did you mean `nodelay`?");
    wrong(&["--option", "nodelay"], "write NAME=VALUES");
    wrong(&["--option", "nodelay=on", "--on", "server"], "--on server needs a server");
    tune(&bench, &["--dry-run"], &["touch", "ran"]).exits(0).prints(&["as-it-is nodelay=on"]);
    tune(&bench, &["--dry-run", "--option", "nodelay=on"], &["touch", "ran"]).exits(0).prints(&["nodelay=on"]);
    assert!(!bench.path("ran").exists());
}

#[test]
fn sides_differ_by_an_option() {
    let Some(python) = python("the program is written in Python", "import socket") else { return };
    let bench = Bench::new();
    let client = bench.write("client.py", CLIENT);
    let side = format!("{python} -S {client}");
    let quick = ["ab", "--blocks", "6", "--analyses", "1", "--seed", "1", "--metric", "regex:rate ([0-9]+)"];
    let compare = |more: &[&str]| bench.run_args(&[&quick[..], &[&side], more].concat());
    compare(&["--b-option", "rcvbuf=unset"]).exits(0).prints(&["FASTER", "8 times as fast as A"]);
    compare(&["--a-option", "rcvbuf=unset"]).exits(1);
    compare(&["--b-option", "rcvbuf=1K,2K"]).exits(2);
}
