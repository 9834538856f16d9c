//! Programs in networks of their own: settings of the kernel that only they have, and an emulated link to their server.
//!
//! Programs print what is in force and how long a connection took; a link is never faster than its delay.

use std::fs;

use crate::bench::{Bench, Ran, possible, python};
use crate::contract::check_schema;
use crate::emulated_link::links_are_possible;
use crate::running_relays::free_address;
use crate::tune_values::check_no_process_is_left;

/// Sends each client the setting in force here.
const SERVER: &str = "import socket, sys
server = socket.create_server(('0.0.0.0', int(sys.argv[1])))
while True:
    s = server.accept()[0]
    s.sendall(open('/proc/sys/net/ipv4/tcp_notsent_lowat').read().encode())
    s.close()
";

/// Prints the setting in force at both ends, and the milliseconds until it was connected.
const CLIENT: &str = "import socket, sys, time
began = time.monotonic()
s = socket.create_connection((sys.argv[1], int(sys.argv[2])))
ms = (time.monotonic() - began) * 1000
here, there = open('/proc/sys/net/ipv4/tcp_notsent_lowat').read().strip(), s.recv(100).decode().strip()
assert here == there, (here, there)
print('setting', here, 'ms', ms)
";

fn tune(bench: &Bench, flags: &[&str], host: &str) -> Ran {
    with_server(bench, |python, client, port| {
        let program = ["--", python, "-S", client, host, port];
        ["tune"].iter().chain(flags).chain(&program).map(|word| (*word).to_owned()).collect()
    })
}

/// Runs bytegauge with the words for the client and its port, and with its server.
fn with_server(bench: &Bench, words: impl Fn(&str, &str, &str) -> Vec<String>) -> Ran {
    with_program(bench, SERVER, words)
}

/// The same with the program of another server.
fn with_program(bench: &Bench, server: &str, words: impl Fn(&str, &str, &str) -> Vec<String>) -> Ran {
    let python = python("the program is written in Python", "import socket").unwrap_or_default();
    let (server, client) = (bench.write("server.py", server), bench.write("client.py", CLIENT));
    let port = free_address().port().to_string();
    let (start, ready) = (format!("exec {python} -S {server} {port}"), format!("tcp:{port}"));
    let mut all = words(&python, &client, &port);
    let quick = ["--blocks", "6", "--analyses", "1", "--seed", "1", "--start", &start, "--ready", &ready];
    all.splice(1..1, quick.map(str::to_owned));
    bench.run_args(&all.iter().map(String::as_str).collect::<Vec<_>>())
}

fn is_possible() -> bool {
    python("the program is written in Python", "import socket").is_some() && links_are_possible()
}

/// In a network of its own, where no connection of another program is counted.
#[test]
fn a_refused_connection_is_no_work() {
    if !is_possible() {
        return;
    }
    let python = python("the program is written in Python", "import socket").unwrap_or_default();
    let program = "import socket; print('status', socket.socket().connect_ex(('127.0.0.1', 9)))";
    let words =
        ["tune", "--option", "nodelay=on", "--sysctl", "net.ipv4.tcp_sack=0", "--", &python, "-S", "-c", program];
    let ran = Bench::new().run_args(&words).exits(5);
    assert!(ran.stderr.contains("every connection of the command failed: start its server before"), "{ran}");
}

/// As sshd and nginx do. A user namespace with one user would refuse it.
#[test]
fn a_server_can_change_its_user() {
    if !is_possible() || !possible("the caller may make a network", "unshare", &["-n", "true"]) {
        return;
    }
    let changes = "import os; os.setgroups([]); os.setgid(65534); os.setuid(65534)\n";
    // The user may not read the modules.
    let server = SERVER.replacen("server =", &format!("{changes}server ="), 1);
    let flags = ["--option", "nodelay=on", "--sysctl", "net.ipv4.tcp_sack=0"];
    let ran = with_program(&Bench::new(), &server, |python, client, port| {
        let program = ["--", python, "-S", client, "127.0.0.1", port];
        ["tune"].iter().chain(&flags).chain(&program).map(|word| (*word).to_owned()).collect()
    });
    ran.exits(0);
}

#[test]
fn a_setting_of_the_kernel_is_tried_on_the_program_alone() {
    if !is_possible() {
        return;
    }
    let bench = Bench::new();
    let read = || fs::read_to_string("/proc/sys/net/ipv4/tcp_notsent_lowat").expect("a setting");
    let before = read();
    let flags = ["--metric", "regex:setting ([0-9]+)", "--sysctl", "net.ipv4.tcp_notsent_lowat=1000,3000,default"];
    tune(&bench, &flags, "127.0.0.1").exits(0).prints(&[
        "net.ipv4.tcp_notsent_lowat = 1000",
        "keep the program as it is",
        "in one of their own, and reach each other over its loopback",
    ]);
    assert_eq!(read(), before, "the machine keeps its own");
    let document = bench.run("report --format json").exits(0).json();
    check_schema(&document);
    let rate = |value: &str| {
        let cells = document["cells"].as_array().expect("cells").iter();
        let mut of_value = cells.filter(|cell| cell["factors"]["value"] == value && cell["kind"] == "candidate");
        of_value.next().and_then(|cell| cell["estimate"]["median"].as_f64()).unwrap_or_else(|| panic!("{document:#}"))
    };
    let name = "net.ipv4.tcp_notsent_lowat";
    let rates = [rate("as-it-is"), rate(&format!("{name}=1000")), rate(&format!("{name}=3000"))];
    assert_eq!(rates, [before.trim().parse().expect("a number"), 1000.0, 3000.0]);
    assert!(document["tune"]["changes"]["task"]["filter_ns"].is_null(), "no filter is needed: {document:#}");
    check_no_process_is_left(&bench);
}

#[test]
fn sides_differ_by_a_setting_of_the_kernel() {
    if !is_possible() {
        return;
    }
    let bench = Bench::new();
    let compare = |setting: &str| {
        with_server(&bench, |python, client, port| {
            let side = format!("{python} -S {client} 127.0.0.1 {port}");
            ["ab", "--metric", "regex:setting ([0-9]+)", "--b-sysctl", setting, &side].map(str::to_owned).into()
        })
    };
    compare("net.ipv4.tcp_notsent_lowat=1000").exits(1).prints(&["SLOWER"]);
    compare("net.ipv4.tcp_notsent_lowat=1000,2000").exits(2).complains(&["--b-sysctl", "a side takes one"]);
    compare("net.ipv4.nosuch=1").exits(2).complains(&["nosuch is none of this kernel"]);
}

#[test]
fn a_link_joins_a_program_to_its_server() {
    if !is_possible() {
        return;
    }
    let bench = Bench::new();
    let flags = ["--metric", "regex:ms ([0-9.]+)", "--option", "nodelay=on", "--link-delay", "40ms", "--strict"];
    let ran = tune(&bench, &flags, "{server}");
    // A busy machine may make the link late, which fails a trial.
    ran.prints(&["an emulated link between the program and its server: 40 ms, 1 Gbit/s"]);
    let document = bench.run("report --format json").json();
    let least =
        document["cells"].as_array().expect("cells").iter().filter_map(|cell| cell["estimate"]["median"].as_f64());
    let least: Vec<f64> = least.collect();
    assert!(!least.is_empty() && least.iter().all(|ms| *ms >= 40.0), "{least:?}");
    check_no_process_is_left(&bench);
}

#[test]
fn networks_that_cannot_be_are_refused_before_the_program_runs() {
    if !is_possible() {
        return;
    }
    let bench = Bench::new();
    let refused = |flags: &[&str], host: &str, expected: &str| {
        let ran = tune(&bench, flags, host);
        assert!(ran.stderr.split_whitespace().collect::<Vec<_>>().join(" ").contains(expected), "{ran}");
        assert!(!ran.status.success(), "{ran}");
    };
    let delay = ["--link-delay", "5ms"];
    refused(&delay, "127.0.0.1", "write {server} in its place in the command");
    refused(&["--link-delay", "5ms,9ms"], "{server}", "joined by one link");
    refused(&["--sysctl", "net.ipv4.tcp_sack=maybe"], "127.0.0.1", "net.ipv4.tcp_sack: the kernel refuses `maybe`");
    refused(&["--sysctl", "net.ipv4.tcp_nosuch=1"], "127.0.0.1", "sysctl -a lists all names");
    refused(&["--sysctl", "vm.swappiness=1"], "127.0.0.1", "is no setting of a network");
    refused(&["--sysctl", "net.core.rmem_max=1"], "127.0.0.1", "a setting of the whole machine");
    let alone = ["tune", "--link-delay", "5ms", "--", "/bin/true", "{server}"];
    bench.run_args(&alone).exits(2).complains(&["needs a server at the far side of the link"]);
    let running = ["tune", "--pid", "1", "--port", "1", "--option", "nodelay=on", "--link-delay", "5ms"];
    bench.run_args(&running).exits(2).complains(&["is for programs that bytegauge starts"]);
    let outside = "import socket; socket.create_connection(('192.0.2.1', 80), 2)";
    let python = python("the program is written in Python", "import socket").expect("it is here");
    let ran = bench.run_args(&["tune", "--sysctl", "net.ipv4.tcp_sack=0", "--", &python, "-S", "-c", outside]);
    assert!(ran.stderr.contains("reaches no other host"), "{ran}");
}
