//! MPTCP and TLS as a user asks for them: on one host, between two hosts, and against external servers.

use std::process::Command;

use bytegauge_model::Transport;
use bytegauge_traffic::{tls, transport};
use serde_json::Value;

use crate::bench::{Bench, Ran, python};
use crate::connect::answering;
use crate::far::{agent, check_cells, stopped};

const SHORT: &str = "--trial-time 300ms --blocks 2 --analyses 1 --long-trials off --time 6s --seed 1";

const STREAM: &str = "stream --profile drain --read-size 64K --write-size 64K";

/// The cells of a session that have a level.
#[track_caller]
fn cells_with(bench: &Bench, factor: &str, level: &str) -> Vec<Value> {
    let document = bench.run("report --format json").exits(0).json();
    let cells = document["cells"].as_array().unwrap().iter();
    cells.filter(|cell| cell["factors"][factor] == level && cell["kind"] != "floor").cloned().collect()
}

/// Whether there are such cells, and all of them have an outcome.
#[track_caller]
fn check_outcome(bench: &Bench, (factor, level): (&str, &str), expected: &str) {
    let cells = cells_with(bench, factor, level);
    let outcomes: Vec<_> = cells.iter().map(|cell| (&cell["outcome"], &cell["reason"])).collect();
    assert!(!cells.is_empty() && outcomes.iter().all(|(outcome, _)| *outcome == expected), "{level}: {outcomes:?}");
}

fn has_mptcp() -> bool {
    let missing = transport::missing(&Transport::Mptcp);
    missing.iter().for_each(|reason| eprintln!("SKIPPED: {reason}"));
    missing.is_none()
}

#[test]
fn mptcp_and_tcp_are_compared() {
    if !has_mptcp() {
        return;
    }
    for words in [STREAM, "call --profile echo --server-engine epoll"] {
        let bench = Bench::new();
        let ran = bench.measures(&format!("{words} --transport tcp,mptcp --compare transport {SHORT}"));
        ran.prints(&["mptcp"]);
        for transport in ["tcp", "mptcp"] {
            check_outcome(&bench, ("transport", transport), "measured");
        }
    }
}

#[test]
fn hosts_are_joined_by_mptcp() {
    if !has_mptcp() {
        return;
    }
    let bench = Bench::new();
    let (agent, place) = agent(&bench, "");
    for (words, roles) in [
        (format!("{STREAM} --rate 50M").as_str(), ["source", "sink"]),
        (format!("{STREAM} --rate 50M --direction from --flows 3").as_str(), ["source", "sink"]),
        ("call --profile echo --flows 4 --server-engine epoll", ["client", "server"]),
        ("call --profile echo --flows 2 --server-engine blocking --direction from", ["client", "server"]),
    ] {
        let words =
            format!("{words} --transport tcp,mptcp --host {place} --key-file key {SHORT} --quiet --format json");
        let ran = bench.measures(&words);
        check_cells(&ran, &place, roles, &bench);
        assert!(!cells_with(&bench, "transport", "mptcp").is_empty(), "{ran}");
    }
    stopped(agent);
}

/// A server that accepts TCP alone: its clients fall back, and TCP is not reported as MPTCP.
#[test]
fn external_server_without_mptcp_is_named() {
    if !has_mptcp() {
        return;
    }
    let (bench, server) = (Bench::new(), answering(100, |_| ()));
    let words = format!("call --connect {} --transport tcp,mptcp --request 100 --timeout 5s {SHORT}", server.address);
    bench.measures(&words).complains(&["fell back from MPTCP to TCP: measure with --transport tcp"]);
    check_outcome(&bench, ("transport", "tcp"), "measured");
}

/// A screen without its line breaks.
fn screen(ran: &Ran) -> String {
    ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn encryption_is_compared() {
    for words in [
        "stream --profile program --read-size 64K --write-size 64K",
        "call --profile rpc --server-engine epoll --request 512",
    ] {
        let bench = Bench::new();
        let words =
            format!("{words} --transport tcp --tls none,rustls,kernel --compare tls --placement unpinned {SHORT}");
        let ran = bench.measures(&words);
        for kind in ["none", "rustls"] {
            check_outcome(&bench, ("tls", kind), "measured");
        }
        // The kernel encrypts, or the reason is on the screen.
        let expected = if tls::lacks_kernel().is_some() { "skipped" } else { "measured" };
        check_outcome(&bench, ("tls", "kernel"), expected);
        let screen = screen(&ran);
        assert!(screen.contains("rustls"), "{screen}");
        assert_eq!(screen.contains("--tls kernel: "), expected == "skipped", "{screen}");
    }
}

#[test]
fn profiles_with_encryption_are_measured() {
    for (words, profile) in
        [("stream --read-size 64K --write-size 64K", "tls"), ("call --server-engine epoll", "tls-rpc")]
    {
        let bench = Bench::new();
        bench.measures(&format!("{words} --transport tcp --profile {profile} --placement unpinned {SHORT}"));
        let cells = cells_with(&bench, "profile", profile);
        let measured = cells.iter().filter(|cell| cell["outcome"] == "measured");
        assert!(measured.clone().count() > 0, "{cells:?}");
        assert!(measured.clone().all(|cell| cell["factors"]["tls"] == "rustls"), "{cells:?}");
    }
}

#[test]
fn unfit_encryption_is_reported_with_advice() {
    let check = |words: &str, expected: &str| {
        let bench = Bench::new();
        let ran = bench.run(&format!("{words} {SHORT}"));
        assert!(ran.status.code() == Some(5), "{ran}");
        let all = format!("{} {}", screen(&ran), ran.stderr.split_whitespace().collect::<Vec<_>>().join(" "));
        assert!(all.contains(expected), "{ran}");
    };
    check(
        &format!("{STREAM} --transport tcp --engine epoll --tls rustls"),
        "engine epoll does not work with --tls rustls: use blocking",
    );
    check(
        "call --transport tcp --server-engine tokio --tls rustls",
        "engine tokio does not work with --tls rustls: use blocking or epoll",
    );
    let bench = Bench::new();
    if tls::lacks_kernel().is_some() {
        let words = "stream --transport tcp --tls kernel --engine blocking";
        bench
            .run(words)
            .exits(2)
            .complains(&["nothing of this plan can be measured here: --tls kernel:", "--tls rustls"]);
    }
    bench.run("stream --transport udp --tls rustls").exits(2).complains(&["--tls fits none", "applies to unix, tcp"]);
}

#[test]
fn streams_between_hosts_are_encrypted() {
    let bench = Bench::new();
    let (agent, place) = agent(&bench, "");
    let words = format!("{STREAM} --tls rustls --host {place} --key-file key --rate 50M {SHORT} --quiet --format json");
    for flags in ["--verify", "--direction from --flows 3"] {
        let ran = bench.measures(&format!("{words} {flags}"));
        check_cells(&ran, &place, ["source", "sink"], &bench);
    }
    let calls = format!("call --profile echo --server-engine epoll --tls rustls --host {place} --key-file key {SHORT}");
    let ran = bench.run(&calls);
    let all = format!("{} {}", ran.stdout, ran.stderr);
    let all = all.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(all.contains("calls between two hosts are not encrypted: use --tls none"), "{ran}");
    stopped(agent);
}

/// A server of OpenSSL: it returns what it receives, each connection in a thread.
const OPENSSL_ECHO: &str = r#"
import base64, socket, ssl, sys, threading

def pem(path, label):
    text = base64.encodebytes(open(path, "rb").read()).decode()
    return f"-----BEGIN {label}-----\n{text}-----END {label}-----\n"

with open("pair.pem", "w") as file:
    file.write(pem(sys.argv[2], "PRIVATE KEY") + pem(sys.argv[1], "CERTIFICATE"))
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("pair.pem")
context.minimum_version = ssl.TLSVersion.TLSv1_3

def serve(connection):
    try:
        with context.wrap_socket(connection, server_side=True) as stream:
            while data := stream.recv(65536):
                if sys.argv[3] == "echo":
                    stream.sendall(data)
    except (OSError, ssl.SSLError):
        pass

listener = socket.create_server(("127.0.0.1", 0))
print(f"listening on 127.0.0.1:{listener.getsockname()[1]}", flush=True)
while True:
    connection = listener.accept()[0]
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    threading.Thread(target=serve, args=(connection,), daemon=True).start()
"#;

/// An independent implementation of TLS understands ours.
#[test]
fn external_servers_of_openssl_are_measured() {
    let Some(python) = python("a server that encrypts", "import ssl; assert ssl.HAS_TLSv1_3") else { return };
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../traffic/src/tls");
    for (words, does) in [
        ("call --flows 3 --request 3000 --client-engine blocking,epoll --verify --timeout 5s", "echo"),
        ("call --flows 2 --connect-per-call on --client-engine epoll --request 100 --timeout 5s", "echo"),
        ("stream --write-size 64K", "discard"),
    ] {
        let bench = Bench::new();
        let script = bench.write("server.py", OPENSSL_ECHO);
        let mut command = Command::new(&python);
        command.args([&script, &format!("{folder}/certificate.der"), &format!("{folder}/key.der"), does]);
        let mut server = bench.spawn(command, script);
        let at = server.place();
        bench.measures(&format!("{words} --connect {at} --tls rustls {SHORT}"));
        check_outcome(&bench, ("tls", "rustls"), "measured");
    }
}
