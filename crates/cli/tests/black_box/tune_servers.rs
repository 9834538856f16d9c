//! The user's own program with a server, which is started for each run: ready, stopped, and each way in which it can misbehave.

use std::io::Read;
use std::net::TcpListener;

use crate::bench::{Bench, Killed, Ran, possible, python};
use crate::contract::check_schema;
use crate::raw::Raw;
use crate::running_relays::free_address;
use crate::tune_values::{QUICK, check_no_process_is_left, reason};

/// A server of a few lines, by what is everywhere that tests run.
pub(crate) const SERVER: &str = "import socket, signal, sys
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(('127.0.0.1', int(sys.argv[1])))
if 'deaf' in sys.argv: signal.signal(signal.SIGTERM, signal.SIG_IGN)
if 'mute' in sys.argv: signal.pause()
s.listen()
print('listening', flush=True)
while True:
    c, _ = s.accept()
    c.sendall(b'x' * int(sys.argv[2]))
    c.close()
";

pub(crate) const CLIENT: &str = "import socket, sys
s = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
while s.recv(65536): pass
";

/// A check of that server: `{}` in the flags is its port.
pub(crate) fn serve(bench: &Bench, python: &str, port: u16, more: &str, ready: &str, flags: &[&str]) -> Ran {
    let (server, client) = (bench.write("server.py", SERVER), bench.write("client.py", CLIENT));
    let (start, port) = (format!("exec {python} -S {server} {port} {{value}} {more}"), port.to_string());
    let words: Vec<&str> = QUICK
        .iter()
        .copied()
        .chain(["--values", "1K,2K", "--start", &start, "--ready", ready])
        .chain(flags.iter().copied())
        .chain(["--", python, "-S", &client, &port])
        .collect();
    bench.run_args(&words)
}

#[test]
fn server_is_restarted_for_each_run() {
    let Some(python) = python("the server is written in Python", "import socket") else { return };
    let bench = Bench::new();
    let port = free_address().port();
    let document = serve(&bench, &python, port, "", &format!("tcp:{port}"), &["--format", "json"]).exits(0).json();
    check_schema(&document);
    let cells = document["cells"].as_array().unwrap();
    assert!(
        cells.iter().all(|cell| cell["more"]["server_cpu_ns_per_run"]["median"].as_f64() > Some(0.0)),
        "{document}"
    );
    assert_eq!(document["tune"]["stopped_by_force"], 0);
    serve(&bench, &python, port, "", "regex:listening", &["--placement", "same-cpu"]).exits(0);
    check_no_process_is_left(&bench);
    assert!(TcpListener::bind(("127.0.0.1", port)).is_ok());
}

/// The example of a server in the help runs as it is printed, with less to do and at a free port; the guide has the same one.
#[test]
fn documented_server_runs() {
    let bench = Bench::new();
    let help = bench.run("tune --help").exits(0).stdout;
    let joined = |text: &str| text.replace("\\\n", " ").split_whitespace().collect::<Vec<_>>().join(" ");
    let of = |text: &str| {
        let text = joined(text);
        let from = text.find("bytegauge tune --values 4K..256K").expect("the example");
        let end = text[from..].find(":7007'").expect("its end");
        text[from..from + end + 6].to_owned()
    };
    let example = of(&help);
    if !possible("the server of the example is socat", "socat", &["-V"]) {
        return;
    }
    let port = free_address().port().to_string();
    let quick = example.replace("7007", &port).replace("256M", "4M").replace("4K..256K", "4K,64K");
    let words = shlex::split(&quick).expect("quotes");
    let words: Vec<&str> = words[1..].iter().map(String::as_str).chain(QUICK[1..].iter().copied()).collect();
    let ran = bench.run_args(&words).exits(0).prints(&["iB/s", "8K", "64K"]);
    assert!(!ran.stdout.contains("left behind") && !ran.stdout.contains("killed"), "{ran}");
    check_no_process_is_left(&bench);
}

#[test]
fn misbehaving_server_is_reported_and_ended() {
    let Some(python) = python("the server is written in Python", "import socket") else { return };
    let bench = Bench::new();
    let port = free_address().port();
    let tcp = format!("tcp:{port}");
    let first = |more: &str, flags: &[&str]| {
        let flags: Vec<&str> = flags.iter().copied().chain(["--format", "json"]).collect();
        let document = serve(&bench, &python, port, more, &tcp, &flags).exits(5).json();
        check_schema(&document);
        document["cells"][0]["reason"].as_str().unwrap_or_default().to_owned()
    };
    let never = first("mute", &["--timeout", "1500ms"]);
    assert!(never.starts_with("the server was not ready after 1.5 s (tcp:"), "{never}");
    let taken = TcpListener::bind(("127.0.0.1", port)).expect("the port");
    let reason = first("", &[]);
    assert!(reason.starts_with(&format!("port {port} is taken by pid {} ", std::process::id())), "{reason}");
    drop(taken);
    // Long enough for a Python that starts on a busy machine.
    let flags = ["--format", "json", "--timeout", "5s"];
    let broken = serve(&bench, &python, port, "", "regex:never", &flags).exits(5).json();
    let reason = broken["cells"][0]["reason"].as_str().unwrap();
    assert!(
        reason.contains(&format!("it printed “listening”: it listens at port {port}: use --ready {tcp}")),
        "{reason}"
    );
    check_no_process_is_left(&bench);
}

/// Passes its listening socket to the process that waits at a path, as systemd does, and serves.
const GIVER: &str = "import socket, sys
s = socket.socket()
s.bind(('127.0.0.1', int(sys.argv[1])))
u = socket.socket(socket.AF_UNIX)
u.connect(sys.argv[2])
socket.send_fds(u, [b'x'], [s.fileno()])
u.recv(1)
s.listen()
while True:
    c, _ = s.accept()
    c.close()
";

/// Keeps such a socket.
const KEEPER: &str = "import signal, socket, sys
u = socket.socket(socket.AF_UNIX)
u.bind(sys.argv[1])
u.listen()
print('waiting', flush=True)
c, _ = u.accept()
kept = socket.recv_fds(c, 1, 1)
c.send(b'x')
signal.pause()
";

#[test]
fn taken_port_is_reported_with_its_owner() {
    let Some(python) = python("the server is written in Python", "import socket; socket.recv_fds") else { return };
    let bench = Bench::new();
    let (giver, keeper) = (bench.write("giver.py", GIVER), bench.write("keeper.py", KEEPER));
    let path = bench.path("keeper").display().to_string();
    let mut command = std::process::Command::new(&python);
    command.args(["-S", &keeper, &path]).stdout(std::process::Stdio::piped());
    let mut keeper = Killed(command.spawn().expect("python3"));
    let mut message = [0; 8];
    keeper.0.stdout.as_mut().expect("its output").read_exact(&mut message).expect("that it waits");
    let port = free_address().port();
    let (start, ready) = (format!("exec {python} -S {giver} {port} {path} {{value}}"), format!("tcp:{port}"));
    let flags = ["--values", "1,2", "--start", &start, "--ready", &ready, "--format", "json", "--", "true"];
    let document = bench.run_args(&QUICK.iter().chain(&flags).copied().collect::<Vec<_>>()).exits(5).json();
    check_schema(&document);
    let pid = keeper.0.id();
    drop(keeper);
    let reasons: Vec<String> = ["1", "2"].iter().map(|value| reason(&document, value)).collect();
    let (stays, taken) = (format!("port {port} stays taken by pid "), format!("port {port} is taken by pid "));
    assert!(reasons.iter().all(|reason| reason.starts_with(&stays) || reason.starts_with(&taken)), "{reasons:?}");
    let first = Raw::of(&bench, 1).reasons().first().cloned().unwrap_or_default();
    assert!(first.starts_with(&stays) && first.contains(&pid.to_string()), "{first}");
    check_no_process_is_left(&bench);
}

#[test]
fn early_exit_is_reported_with_last_output() {
    let bench = Bench::new();
    let check = |start: &str, command: &str| {
        let ready = "regex:ready";
        let flags =
            ["--values", "1,2", "--start", start, "--ready", ready, "--format", "json", "--", "sh", "-c", command];
        let document = bench.run_args(&QUICK.iter().chain(&flags).copied().collect::<Vec<_>>()).exits(5).json();
        reason(&document, "1")
    };
    let early = check("echo no such file >&2; exit 3 # {value}", "true");
    assert_eq!(early, "the server ended before it was ready: it exited with 3: it printed “no such file”");
    // It leaves when the command has begun, however long that takes.
    let begun = bench.path("begun").display().to_string();
    let start = format!("rm -f {begun}; echo ready; until test -e {begun}; do sleep 0.01; done; exit 4 # {{value}}");
    let meanwhile = check(&start, &format!("touch {begun}; exec sleep 30"));
    assert!(meanwhile.starts_with("the server ended while the command ran: it exited with 4"), "{meanwhile}");
    let missing = check("exec no-such-server-at-all {value}", "true");
    assert!(missing.contains("exited with 127, as a shell does if it does not find a command"), "{missing}");
    check_no_process_is_left(&bench);
}

#[test]
fn server_that_ignores_its_signal_is_killed() {
    let Some(python) = python("the server is written in Python", "import socket") else { return };
    let bench = Bench::new();
    let port = free_address().port();
    let script = |stop: &str| {
        let (server, client) = (bench.write("server.py", SERVER), bench.write("client.py", CLIENT));
        let start = format!("exec {python} -S {server} {port} {{value}} deaf");
        let words =
            ["tune", "--blocks", "1", "--analyses", "1", "--values", "1K,2K", "--stop", stop, "--start", &start];
        let ready = format!("tcp:{port}");
        let port = port.to_string();
        let words: Vec<&str> =
            words.iter().copied().chain(["--ready", &ready, "--", &python, "-S", &client, &port]).collect();
        bench.run_args(&words).exits(0)
    };
    script("TERM").prints(&["The server ignored its stop signal and was killed after"]);
    let obedient = script("INT");
    assert!(!obedient.stdout.contains("ignored"), "{obedient}");
    check_no_process_is_left(&bench);
}
