//! A program that runs already: options are switched on its sockets, and set back whatever ends the session.
//!
//! The levels in force are read by `--dry-run`, which changes nothing. Nothing rests on a speed: a service that depends on an option
//! pauses for longer than any machine delays it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::bench::{Bench, Killed, Ran, Running, possible, python, signal};
use crate::contract::check_schema;
use crate::running_relays::free_address;

/// An echo that turns TCP_NODELAY off after accept, and pauses for 50 ms before each reply while it is as `argv[2]` names.
const SLOW: &str = "import socket, sys, threading, time
slow = sys.argv[2] == 'on'
def serve(s):
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 0)
    while True:
        data = s.recv(4096)
        if not data:
            return
        if (s.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0) == slow:
            time.sleep(0.05)
        s.sendall(data)
server = socket.create_server(('127.0.0.1', int(sys.argv[1])))
print('ready', flush=True)
while True:
    threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()
";

/// An echo for two connections. It moves a third one to a process that is no descendant, and accepts others, when it finds files with
/// these names.
const LATE: &str = "import os, socket, threading, time
def serve(s):
    while data := s.recv(4096):
        s.sendall(data)
def wait_for(path):
    while not os.path.exists(path):
        time.sleep(0.01)
def tell(name, sockets):
    # In one call: two processes write at once.
    levels = {s.getsockopt(socket.IPPROTO_TCP, 25) for s in sockets}
    os.write(1, b'%d %s: lowat %s\\n' % (len(sockets), name, str(levels).encode()))
server = socket.create_server(('127.0.0.1', 0))
print('listening on 127.0.0.1:%d' % server.getsockname()[1], flush=True)
for _ in range(2):
    threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()
moved = server.accept()[0]
wait_for('move')
child = os.fork()
if child == 0:
    if os.fork() == 0:
        wait_for('look')
        tell(b'moved', [moved])
    os._exit(0)
moved.close()
os.waitpid(child, 0)
wait_for('look')
tell(b'waited', [server.accept()[0] for _ in range(4)])
";

/// Requests and replies on some connections until it is dropped.
struct Load {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    fn on(place: &str, connections: usize) -> Load {
        let is_over = Arc::new(AtomicBool::new(false));
        let start = |_| {
            let mut stream = TcpStream::connect(place).expect("the service");
            stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a time limit");
            let is_over = Arc::clone(&is_over);
            let mut data = [7; 1024];
            let mut calls = move || stream.write_all(&data).and_then(|()| stream.read_exact(&mut data));
            // Accepted by now.
            calls().expect("a reply");
            thread::spawn(move || {
                // A service that ends closes the connection.
                while !is_over.load(Ordering::Relaxed) && calls().is_ok() {
                    thread::sleep(Duration::from_micros(200));
                }
            })
        };
        let threads = (0..connections).map(start).collect();
        Load { is_over, threads }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

/// A service with a load, and a session that changes it.
struct Service {
    bench: Bench,
    server: Running,
    port: String,
    _load: Load,
}

impl Service {
    /// `None` where descriptors of other processes may not be duplicated.
    fn new() -> Option<Service> {
        if !may_trace() {
            return None;
        }
        let bench = Bench::new();
        let server = bench.start("serve echo");
        Some(Service::of(bench, server))
    }

    fn of(bench: Bench, mut server: Running) -> Service {
        let place = server.place();
        let (_, port) = place.rsplit_once(':').expect("a port");
        let port = port.to_owned();
        Service { bench, server, port, _load: Load::on(&place, 2) }
    }

    fn words(&self, flags: &str) -> String {
        format!("tune --pid {} --port {} {flags}", self.server.id(), self.port)
    }

    /// The lines about the connections, with their levels, in order.
    fn levels(&self) -> Vec<String> {
        let ran = self.bench.run(&self.words("--dry-run --option notsent-lowat=1K --option nodelay=on")).exits(0);
        let is_socket = |line: &&str| line.starts_with("  ") && line.contains("notsent-lowat");
        let mut lines: Vec<String> = ran.stdout.lines().filter(is_socket).map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    }

    /// A session, when the option is in force on all connections.
    fn changed(&self) -> Running {
        let connections = self.levels().len();
        let flags = "--option notsent-lowat=128K --max-harm 1000% --blocks 100 --time 120s --quiet";
        let mut running = self.bench.start(&self.words(flags));
        let is_changed = |levels: Vec<String>| {
            levels.len() == connections && levels.iter().all(|line| line.contains("notsent-lowat 128 KiB"))
        };
        running.until("a change", |_| is_changed(self.levels()));
        running
    }

    /// Waits until all is as it was. After a kill the end of the session sets it back, in a moment.
    #[track_caller]
    fn is_as_before(&self, before: &[String]) {
        self.comes_to(|levels| levels == before);
    }

    #[track_caller]
    fn comes_to(&self, is: impl Fn(&[String]) -> bool) {
        for _ in 0..500 {
            if is(&self.levels()) {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
        panic!("{:?}", self.levels());
    }
}

/// Whether descriptors of another process may be duplicated here.
fn may_trace() -> bool {
    // Of a process that is no child: that is what Yama forbids.
    let program = "import os, ctypes, time
other = os.fork()
if other == 0:
    time.sleep(60)
looks = os.fork()
if looks == 0:
    os._exit(ctypes.CDLL(None).syscall(438, os.pidfd_open(other), 0, 0) < 0)
status = os.waitpid(looks, 0)[1]
os.kill(other, 9)
os.waitpid(other, 0)
raise SystemExit(status != 0)";
    possible("descriptors of other processes are duplicated", "python3", &["-c", program])
}

#[test]
fn options_are_switched_and_set_back() {
    let Some(service) = Service::new() else { return };
    let before = service.levels();
    assert_eq!(before.len(), 2, "two connections: {before:?}");
    let words =
        service.words("--option notsent-lowat=auto,128K --option congestion=nosuch --max-harm 1000% --blocks 6 --analyses 1 --time 12s");
    let ran = service.bench.run(&words).exits(0);
    let ran = ran.prints(&[
        "2 connections at the start",
        "CPU time per GiB",
        "notsent-lowat 128 KiB",
        "Skipped",
        "tcp_available_congestion_control",
        "retransmitted per GiB",
    ]);
    assert!(!ran.stdout.contains("(--on)"), "{ran}");
    let document = service.bench.run("report --format json").exits(0).json();
    check_schema(&document);
    assert!(document["tune"]["changes"]["service"][0]["gib_per_s"].as_f64() > Some(0.0), "{document:#}");
    assert_eq!(service.levels(), before);
}

#[test]
fn an_interrupted_session_sets_all_back() {
    let Some(service) = Service::new() else { return };
    let before = service.levels();
    let session = service.changed();
    session.signal("INT");
    session.wait().exits(130);
    // By now, and not some time later.
    assert_eq!(service.levels(), before);
}

#[test]
fn a_killed_session_sets_all_back() {
    let Some(service) = Service::new() else { return };
    let before = service.levels();
    service.changed().kill();
    service.is_as_before(&before);
    for _ in 0..500 {
        if service.bench.ends().is_empty() {
            return;
        }
        thread::sleep(Duration::from_millis(20));
    }
    panic!("left behind: {:?}", service.bench.ends());
}

#[test]
fn a_lost_trial_is_set_back_by_its_session() {
    let Some(service) = Service::new() else { return };
    let before = service.levels();
    let session = service.changed();
    // Until it is over: one end may be killed before its trial began.
    let kill_ends = |_: &Running| {
        for end in service.bench.ends() {
            signal(end, "KILL");
        }
    };
    session.wait_with(kill_ends).exits(5).prints(&["its options were set back"]);
    assert_eq!(service.levels(), before);
}

#[test]
fn waiting_and_moved_connections_keep_nothing() {
    let bench = Bench::new();
    let Some(python) = python("the service is written in Python", "import socket").filter(|_| may_trace()) else {
        return;
    };
    let program = bench.write("late.py", LATE);
    let mut command = Command::new(python);
    command.args(["-S", &program]);
    let server = bench.spawn(command, program);
    let service = Service::of(bench, server);
    let connect = || TcpStream::connect(("127.0.0.1", service.port.parse().expect("a port"))).expect("a place");
    let _moved = connect();
    service.comes_to(|levels| levels.len() == 3);
    let session = service.changed();
    let _waiting = [(); 4].map(|()| connect());
    service.bench.write("move", "");
    service.comes_to(|levels| levels.len() == 2);
    session.signal("INT");
    session.wait().exits(130);
    service.bench.write("look", "");
    let Service { mut server, .. } = service;
    server.until("its levels", |server| server.stdout().matches("lowat").count() == 2);
    let text = server.stdout();
    assert!(text.contains("1 moved: lowat {0}\n") && text.contains("4 waited: lowat {0}\n"), "{text}");
}

#[test]
fn a_service_that_ends_ends_the_session() {
    let Some(service) = Service::new() else { return };
    let session = service.changed();
    service.server.signal("KILL");
    let ran = session.wait().exits(5);
    assert!(ran.stdout.contains("has ended"), "{ran}");
}

#[test]
fn a_program_has_one_session() {
    let Some(service) = Service::new() else { return };
    let session = service.changed();
    let second = service.bench.run(&service.words("--option nodelay=off --blocks 6")).exits(2);
    assert!(second.stderr.contains("is locked ("), "{second}");
    session.signal("INT");
    session.wait().exits(130);
}

/// The service `SLOW`, which pauses while TCP_NODELAY has a level; `None` where it cannot be changed.
fn slow(bench: &Bench, level: &str) -> Option<(Killed, String, Load)> {
    let python = python("the service is written in Python", "import socket").filter(|_| may_trace())?;
    let program = bench.write("slow.py", SLOW);
    let port = free_address().port().to_string();
    let mut command = Command::new(python);
    let mut child: Child =
        command.args(["-S", &program, &port, level]).stdout(Stdio::piped()).spawn().expect("the service");
    let mut ready = [0; 6];
    child.stdout.take().expect("its output").read_exact(&mut ready).expect("a sign");
    let load = Load::on(&format!("127.0.0.1:{port}"), 4);
    Some((Killed(child), port, load))
}

fn tune_slow(bench: &Bench, child: &Killed, port: &str, flags: &str) -> Ran {
    let pid = child.0.id();
    bench.run(&format!("tune --pid {pid} --port {port} --metric wall --analyses 1 --time 12s {flags}"))
}

#[test]
fn a_planted_effect_is_found() {
    let bench = Bench::new();
    let Some((child, port, _load)) = slow(&bench, "off") else { return };
    tune_slow(&bench, &child, &port, "--option nodelay=on --max-harm 1000% --blocks 6").exits(0).prints(&[
        "time per GiB",
        "<- use",
        "add setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, 1): ",
    ]);
}

#[test]
fn a_command_reports_what_a_service_did() {
    let bench = Bench::new();
    let Some((child, port, _load)) = slow(&bench, "off") else { return };
    let pid = child.0.id().to_string();
    // Each request is waited for.
    let waits =
        format!("cmd-total:awk '/^voluntary/ {{ n += $2 }} END {{ print \"waits\", n }}' /proc/{pid}/task/*/status");
    let tuned = |metric: &str| {
        let flags =
            ["--option", "nodelay=on", "--max-harm", "1000%", "--blocks", "6", "--analyses", "1", "--time", "12s"];
        let words = ["tune", "--pid", &pid, "--port", &port, "--metric", metric];
        bench.run_args(&words.iter().chain(&flags).copied().collect::<Vec<_>>())
    };
    tuned(&waits).exits(0).prints(&["<- use", "add setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, 1): "]);
    let counters = "# HELP x_total five\nx_total{code=\"a b\"} 3 1700000000\nx_total{code=\"c}\"} 2.5e0 # {t=\"q\"} 9\nx_total_more 9\n";
    let counters = bench.write("counters.txt", counters);
    tuned(&format!("prom:file://{counters}#x_total")).prints(&["printed 5.5 after 5.5, which does not grow"]);
    tuned("cmd-total:echo 5").prints(&["printed 5 after 5, which does not grow"]);
    tuned("cmd:echo no number").prints(&["printed no number"]);
}

#[test]
fn a_harmful_change_ends_the_session() {
    let bench = Bench::new();
    let Some((child, port, _load)) = slow(&bench, "on") else { return };
    let ran = tune_slow(&bench, &child, &port, "--option nodelay=on --blocks 20").exits(5);
    assert!(ran.stderr.contains("made the program worse in 2 trials in a row"), "{ran}");
}

/// A user may not see the sockets of another one.
fn check_another_user(service: &Service) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bytegauge"));
    command.args(service.words("--option nodelay=off").split(' ')).uid(65_534);
    let is_possible = command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !is_possible {
        println!("skipped: this user may not start programs as another one");
        return;
    }
    let ran = service.bench.spawn(command, "tune as another user".into()).wait().exits(2);
    assert!(ran.stderr.contains("it belongs to another user: run bytegauge as that user, or as root"), "{ran}");
}

#[test]
fn what_cannot_be_changed_is_refused() {
    let bench = Bench::new();
    let refused = |words: &str, expected: &str| {
        let ran = bench.run(words).exits(2);
        assert!(ran.stderr.contains(expected), "{words}: {ran}");
    };
    refused("tune --pid 4000000 --port 7 --option nodelay=on", "there is no process 4000000");
    refused("tune --pid 1 --option nodelay=on", "<--port <PORT>|--peer <ADDRESS>>");
    refused("tune --pid 1 --port 7", "--pid needs a value");
    refused("tune --pid 1 --port 7 --option nodelay=auto", "--pid needs a value");
    refused("tune --pid 1 --port 7 --option quickack=on", "the kernel changes it by itself");
    refused("tune --pid 1 --port 7 --option reuseport=on", "it takes effect when a socket begins to listen");
    refused("tune --pid 1 --port 7 --option nodelay=on --max-harm much", "--max-harm: `much` is not a share");
    refused("tune --port 7 --option nodelay=on -- true", "add its --pid");
    refused("tune --pid 1 --port 7 --option nodelay=on -- true", "cannot be used with");
    if let Some(service) = Service::new() {
        let words = |flags: &str| format!("tune --pid {} {flags} --option nodelay=on", service.server.id());
        let port = format!("its TCP sockets have the local ports {}", service.port);
        refused(&words("--port 9"), &port);
        refused(&service.words("--metric regex:x --option nodelay=on"), "does not read what a running program prints");
        refused(&words("--peer 192.0.2.1"), "there is no open connection");
        refused(&service.words("--option nodelay=on"), "--option names what 2 connections of");
        check_another_user(&service);
    }
}
