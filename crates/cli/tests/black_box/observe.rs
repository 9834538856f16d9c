//! Programs looked at while they work: their sizes and calls are seen, the question fits, and they go on unharmed whatever
//! becomes of the one who looks.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::bench::{BINARY, Bench, Killed, Ran, possible, python, state};

/// The end whose label is so.
#[track_caller]
fn end<'a>(document: &'a Value, label: &str) -> &'a Value {
    let ends = document["observed"]["ends"].as_array().expect("ends");
    ends.iter().find(|end| end["label"] == label).unwrap_or_else(|| panic!("no {label} in {document:#}"))
}

/// Starts a program and looks at it to its end.
fn observe(bench: &Bench, command: &[&str]) -> Ran {
    let flags = ["observe", "--time", "60s", "--sample", "60s", "--format", "json", "--"];
    bench.run_args(&[&flags[..], command].concat())
}

/// A program that repeats its input.
struct Parrot {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Parrot {
    fn new() -> Parrot {
        let mut command = Command::new("cat");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("cat");
        let (input, output) = (child.stdin.take().expect("input"), child.stdout.take().expect("output"));
        Parrot { child, input, output: BufReader::new(output) }
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The process that traces it; 0 without one.
    fn tracer(&self) -> u32 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("it lives");
        status.lines().find_map(|line| line.strip_prefix("TracerPid:")?.trim().parse().ok()).expect("a number")
    }

    #[track_caller]
    fn repeats(&mut self, line: &str) {
        writeln!(self.input, "{line}").expect("it reads");
        let mut heard = String::new();
        self.output.read_line(&mut heard).expect("it writes");
        assert_eq!(heard.trim(), line);
    }

    /// It runs, is not traced, and ends normally.
    #[track_caller]
    fn ends_unharmed(mut self) {
        // A killed tracer releases it a moment later.
        while self.tracer() != 0 {
            std::thread::yield_now();
        }
        self.repeats("once more");
        drop(self.input);
        assert!(self.child.wait().expect("a child").success());
    }
}

#[test]
fn calls_are_counted_and_the_plan_runs() {
    let bench = Bench::new();
    let ran = observe(&bench, &["dd", "if=/dev/zero", "of=/dev/null", "bs=12345", "count=40"]).exits(0);
    let document = ran.json();
    let zero = end(&document, "/dev/zero");
    assert_eq!((&zero["reads"]["calls"], &zero["reads"]["bytes"]), (&40.into(), &(40 * 12_345).into()));
    for sizes in [&zero["reads"]["asked"], &zero["reads"]["moved"]] {
        assert_eq!((&sizes["least"], &sizes["largest"]), (&12_345.into(), &12_345.into()));
    }
    assert_eq!(end(&document, "/dev/null")["writes"]["calls"], 40);
    assert_eq!((&document["observed"]["program"], &document["asked"]["kind"]), (&"dd".into(), &"file-reader".into()));
    let check = "bytegauge tune --values 4K..1M --now 12345 -- dd if=/dev/zero of=/dev/null bs={value} \
                 count=493800 iflag=count_bytes";
    assert_eq!(document["asked"]["tune"], check);
    assert_eq!(document["plan_file"], "observed-dd.toml");
    bench.run("run ./observed-dd.toml --dry-run").exits(0).prints(&["/dev/zero"]);
    // Existing files are not overwritten.
    let again = ["observe", "--time", "60s", "--sample", "60s", "--", "dd", "if=/dev/zero", "of=/dev/null", "bs=12345"];
    let again = bench.run_args(&[&again[..], &["count=40"]].concat());
    again.exits(0).prints(&["Ends ", "Cost ", "tracing made it", "Plan   written to ./observed-dd-2.toml", check]);
}

/// Arguments are text from outside: a newline, letters of several bytes, and control characters.
#[test]
fn any_argument_is_shown_on_one_line() {
    let bench = Bench::new();
    let argument = format!("x\n{}\u{1b}[31m", "é".repeat(100));
    let script = "exec dd if=/dev/zero of=/dev/null bs=12345 count=40 2>/dev/null";
    let words = ["observe", "--time", "60s", "--sample", "60s", "--", "sh", "-c", script, &argument];
    let ran = bench.run_args(&words).exits(0).prints(&["Ends ", "\\n", "\\u{1b}[31m"]);
    assert!(!ran.stdout.contains('\u{1b}'), "{ran}");
}

/// Reads of 200 KiB, which no other part of the program makes. A session that got no CPU is given more time.
#[test]
fn buffers_of_engines_begin_at_their_offset() {
    let bench = Bench::new();
    for engine in ["blocking", "epoll", "tokio"] {
        let reads = ["3s", "20s", "30s"].into_iter().find_map(|time| {
            // In short trials on a busy machine, most reads would be those that empty a socket at its end.
            let flags = format!(
                "stream --transport unix --engine {engine} --read-size 200K --write-size 50K --buffer-offset 24 --trial-time 500ms \
                 --time {time} -q"
            );
            let own = [env!("CARGO_BIN_EXE_bytegauge"), "--store", "own.db"];
            let command: Vec<&str> = own.into_iter().chain(flags.split(' ')).collect();
            let document = observe(&bench, &command).exits(0).json();
            let ends = document["observed"]["ends"].as_array().expect("ends");
            let end = ends.iter().find(|end| end["reads"]["asked"]["most_often"] == 200 << 10)?;
            Some(end["reads"].clone())
        });
        let reads = reads.unwrap_or_else(|| panic!("{engine} never read"));
        assert_eq!(reads["page_offset"]["most_often"], 24, "{engine} {reads:#}");
        assert!(reads["slow_addresses"].as_f64() > Some(0.5), "{engine} {reads:#}");
    }
}

/// Aligned reads of dd need no advice.
#[test]
fn slow_addresses_are_compared_with_aligned_ones() {
    let Some(python) = python("the program is written in Python", "import mmap") else { return };
    let bench = Bench::new();
    for (offset, is_slow) in [(16, true), (64, false)] {
        let script = format!(
            "import mmap, os\nroom = memoryview(mmap.mmap(-1, 1 << 20))\nzero = os.open('/dev/zero', os.O_RDONLY)\n\
             for _ in range(60): os.readv(zero, [room[{offset}:{offset} + 200000]])\n"
        );
        let script = bench.write("reads.py", &script);
        let flags = ["observe", "--time", "60s", "--sample", "60s", "--", &python, &script];
        let ran = bench.run_args(&flags).exits(0);
        assert_eq!(ran.stdout.contains("\nBuffer "), is_slow, "{ran}");
        assert_eq!(ran.stdout.contains("docs/buffer-sizes.md"), is_slow, "{ran}");
    }
}

#[test]
fn pipe_between_children_has_both_sides() {
    let bench = Bench::new();
    // Blocks that a pipe takes whole.
    let script = "dd if=/dev/zero bs=2048 count=30 2>/dev/null | dd of=/dev/null bs=4096 2>/dev/null";
    let document = observe(&bench, &["sh", "-c", script]).exits(0).json();
    let (written, read) = (end(&document, "pipe 1"), end(&document, "pipe 0"));
    assert_eq!((&written["writes"]["calls"], &written["writes"]["asked"]["largest"]), (&30.into(), &2048.into()));
    assert_eq!((&read["reads"]["bytes"], &read["reads"]["asked"]["most_often"]), (&(30 * 2048).into(), &4096.into()));
    assert!(document["observed"]["processes"].as_u64() >= Some(2));
}

/// Four threads that read at once, and are made after the look has begun.
const THREADS: &str = "
import os, threading
def read():
    device = os.open('/dev/zero', os.O_RDONLY)
    for _ in range(30):
        os.read(device, 777)
threads = [threading.Thread(target=read) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
";

#[test]
fn the_calls_of_every_thread_are_seen() {
    let Some(python) = python("the program is written in Python", "import threading") else { return };
    let bench = Bench::new();
    let script = bench.write("threads.py", THREADS);
    let document = observe(&bench, &[&python, &script]).exits(0).json();
    let reads = &end(&document, "/dev/zero")["reads"];
    assert_eq!((&reads["calls"], &reads["bytes"]), (&120.into(), &(120 * 777).into()), "{document:#}");
    assert_eq!((&reads["asked"]["least"], &reads["asked"]["largest"]), (&777.into(), &777.into()));
}

/// A program that a shell starts, or becomes, is what is looked at, and not what brought it to life.
#[test]
fn a_shim_is_looked_through() {
    let bench = Bench::new();
    let command = "dd if=/dev/zero of=/dev/null bs=12345 count=40 2>/dev/null";
    for (script, has_parent) in [(format!("{command}\nexit 0\n"), true), (format!("exec {command}\n"), false)] {
        let shim = bench.write("shim", &script);
        let document = observe(&bench, &["sh", &shim]).exits(0).json();
        let observed = &document["observed"];
        assert_eq!(
            (&observed["program"], &observed["ends"][0]["start_up"]),
            (&"dd".into(), &false.into()),
            "{document:#}"
        );
        assert_eq!(observed["under"]["name"] == "sh", has_parent, "{document:#}");
        assert_eq!(document["asked"]["kind"], "file-reader");
        assert_eq!(
            document["asked"]["tune"],
            format!("bytegauge tune --values 4K..1M --now 12345 -- sh {shim} {{value}}")
        );
    }
    let Some(python) = python("an interpreter with modules", "pass") else { return };
    let script = bench.write("reads.py", "import json\nopen('/dev/zero', 'rb', 0).read(1 << 20)\n");
    let document = observe(&bench, &[&python, &script]).exits(0).json();
    let ends = document["observed"]["ends"].as_array().expect("ends");
    assert!(ends.iter().any(|end| end["start_up"] == true), "{document:#}");
    assert_eq!((&ends[0]["label"], &ends[0]["start_up"]), (&"/dev/zero".into(), &false.into()));
}

/// Takes four uploads on a port that it writes to a file, each in its own thread, and prints its duration at the end.
const TAKER: &str = "
import os, socket, sys, threading
listener = socket.socket()
listener.bind(('127.0.0.1', 0))
listener.listen()
with open(sys.argv[1] + '.new', 'w') as file:
    file.write(str(listener.getsockname()[1]))
os.rename(sys.argv[1] + '.new', sys.argv[1])
def take(connection):
    taken = 0
    while piece := connection.recv(65536):
        taken += len(piece)
    connection.sendall(b'%d' % taken)
    connection.close()
threads = []
for _ in range(4):
    connection, _ = listener.accept()
    threads.append(threading.Thread(target=take, args=(connection,)))
    threads[-1].start()
for thread in threads: thread.join()
";

/// Uploads a number of bytes, one upload after another, each with a confirmation.
fn upload(port: &str) {
    for _ in 0..4 {
        let mut client = TcpStream::connect(format!("127.0.0.1:{port}")).expect("it listens");
        client.write_all(&vec![1; 2 << 20]).expect("a server that reads");
        client.shutdown(Shutdown::Write).expect("a connection");
        let mut receipt = String::new();
        client.read_to_string(&mut receipt).expect("an answer");
        assert_eq!(receipt, (2 << 20).to_string());
    }
}

#[test]
fn consecutive_uploads_are_one_stream() {
    let Some(python) = python("a server that is not ours", "pass") else { return };
    let bench = Bench::new();
    let (script, port) = (bench.write("taker.py", TAKER), bench.path("port"));
    let document = std::thread::scope(|scope| {
        let uploads = scope.spawn(|| {
            let until = Instant::now() + Duration::from_secs(60);
            while !port.exists() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(5));
            }
            upload(&fs::read_to_string(&port).expect("a port"));
        });
        let ran = observe(&bench, &[&python, &script, &port.to_string_lossy()]);
        uploads.join().expect("every upload came");
        ran.exits(0).json()
    });
    let accepted = &document["observed"]["ends"][0];
    assert_eq!((&accepted["leads"]["kind"], &accepted["flows"]), (&"accepted".into(), &1.into()), "{document:#}");
    assert!(
        accepted["seen"].as_u64() >= Some(1) && document["observed"]["threads"].as_u64() >= Some(2),
        "{document:#}"
    );
    assert_eq!(document["asked"]["kind"], "reader", "{document:#}");
}

/// Answers 1000 bytes with 300, on whichever port it gets, until the connection ends.
const SERVER: &str = "
import socket
listener = socket.socket()
listener.bind(('127.0.0.1', 0))
listener.listen()
print(listener.getsockname()[1], flush=True)
connection, _ = listener.accept()
while connection.recv(5000):
    connection.sendall(b'x' * 300)
";

#[test]
fn running_server_is_observed_without_harm() {
    let Some(python) = python("a server that is not ours", "pass") else { return };
    let bench = Bench::new();
    let mut server = Command::new(python).args(["-S", "-c", SERVER]).stdout(Stdio::piped()).spawn().expect("python3");
    let mut port = String::new();
    BufReader::new(server.stdout.take().expect("output")).read_line(&mut port).expect("a port");
    let mut client = TcpStream::connect(format!("127.0.0.1:{}", port.trim())).expect("it listens");
    let over = AtomicBool::new(false);
    let document = std::thread::scope(|scope| {
        let calls = scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                client.write_all(&[1; 1000]).expect("a server that reads");
                client.read_exact(&mut [0; 300]).expect("a whole answer");
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let words = format!("observe --pid {} --time 8s --sample 6s --format json", server.id());
        let ran = bench.run(&words);
        over.store(true, Ordering::Relaxed);
        calls.join().expect("every call was answered");
        ran.exits(0).json()
    });
    drop(client);
    assert!(server.wait().expect("a child").success());
    let end = end(&document, &format!("tcp port {}, accepted", port.trim()));
    let (reads, writes) = (&end["reads"], &end["writes"]);
    assert_eq!((&reads["asked"]["least"], &reads["moved"]["largest"]), (&5000.into(), &1000.into()));
    assert_eq!((&writes["moved"]["least"], &writes["asked"]["largest"]), (&300.into(), &300.into()));
    assert_eq!((&reads["by"][0], &end["flows"]), (&"recvfrom".into(), &1.into()));
    assert!(end["options"]["SO_RCVBUF"].is_string() && end["options"]["TCP_CONGESTION"].is_string(), "{end:#}");
    let is_us = |peer: &Value| peer["pid"] == std::process::id();
    assert!(end["peers"].as_array().is_some_and(|peers| peers.iter().any(is_us)), "{end:#}");
    assert_eq!(document["asked"]["kind"], "server");
    assert!(document["observed"]["cost"]["samples"].as_u64() >= Some(1));
    let check = document["asked"]["tune"].as_str().expect("a command");
    assert!(check.contains("--now 5000 --start 'exec ") && check.contains("recv({value})"), "{check}");
    assert!(check.ends_with(&format!("--ready tcp:{} -- CLIENT", port.trim())), "{check}");
    let plans = fs::read_dir(bench.path(".")).expect("the bench").flatten();
    let plan =
        plans.map(|file| file.file_name()).find(|name| name.to_string_lossy().ends_with(".toml")).expect("a plan");
    bench.run(&format!("run ./{} --dry-run", plan.to_string_lossy())).exits(0);
}

#[test]
fn interrupt_leaves_the_program_unharmed() {
    let bench = Bench::new();
    let mut parrot = Parrot::new();
    parrot.repeats("before");
    let mut looking = bench.start(&format!("observe --pid {} --time 100s --sample 90s", parrot.pid()));
    looking.until("tracing", |_| parrot.tracer() != 0);
    parrot.repeats("meanwhile");
    looking.insist("INT").exits(130);
    parrot.ends_unharmed();
}

/// A stopped tracer releases no thread, so the observer lets the program go before it stops.
#[test]
fn stopped_observer_leaves_the_program_unharmed() {
    let bench = Bench::new();
    let mut parrot = Parrot::new();
    let words = format!("observe --pid {} --time 100s --sample 90s", parrot.pid());
    let mut command = Command::new(BINARY);
    // As a shell starts it: a group that no shell could continue does not stop.
    command.args(words.split(' ')).process_group(0);
    let mut looking = bench.spawn(command, words);
    for _ in 0..2 {
        looking.until("tracing", |_| parrot.tracer() != 0);
        parrot.repeats("meanwhile");
        looking.signal("TSTP");
        looking.until("stopping", |looking| state(looking.id()) == Some('T'));
        assert_eq!(parrot.tracer(), 0);
        parrot.repeats("alone");
        looking.signal("CONT");
    }
    looking.insist("INT").exits(130);
    parrot.ends_unharmed();
}

/// The second thread is that for signals, the third one the tracer.
#[test]
fn thread_limit_leaves_the_program_unharmed() {
    // A user without other processes.
    let user = format!("setpriv --reuid {} --clear-groups", 1_000_000 + std::process::id());
    let traces = format!("{user} prlimit --nproc=1 true && ! grep -q '[1-9]' /proc/sys/kernel/yama/ptrace_scope");
    if !possible("another user with a limit, who may trace its processes", "sh", &["-c", &traces]) {
        return;
    }
    let bench = Bench::new();
    bench.shell("chmod 777 . && cp \"$BYTEGAUGE\" here").exits(0);
    for most in 2..6 {
        // The program is one of the user's processes, the shell is not.
        let script = format!(
            "{user} sleep 3600 & PID=$!; until grep -q sleep /proc/$PID/comm; do sleep 0.01; done; {user} prlimit --nproc={most} ./here observe --pid $PID --time 300ms; \
             CODE=$?; kill $PID && ! wait $PID && exit $CODE"
        );
        let ran = bench.shell(&script).exits(5);
        assert!(!ran.stderr.contains("panicked"), "{ran}");
        let texts: &[&str] = if most < 4 { &["limit on processes"] } else { &["moved no bytes"] };
        ran.complains(texts);
    }
}

#[test]
fn killed_observer_leaves_the_program_unharmed() {
    let bench = Bench::new();
    let mut parrot = Parrot::new();
    let mut looking = bench.start(&format!("observe --pid {} --time 100s --sample 90s", parrot.pid()));
    looking.until("tracing", |_| parrot.tracer() != 0);
    parrot.repeats("meanwhile");
    looking.kill();
    parrot.ends_unharmed();
}

/// Between two samples the program ends, and another one gets its number.
const REUSED: &str = r#"
seq inf > /dev/null & P=$!
"$BYTEGAUGE" observe --pid $P --time 90s & O=$!
traced() { ! grep -q '^TracerPid:.0$' /proc/$P/status; }
gone() { grep -q '^State:.Z' /proc/$O/status; }
until traced; do gone && exit 8; sleep 0.01; done
while kill -STOP $O; do
    until grep -q '^State:.T' /proc/$O/status; do gone && exit 8; sleep 0.01; done
    traced || break
    kill -CONT $O
    sleep 0.01
done
kill -KILL $P
wait $P
echo $((P - 1)) > /proc/sys/kernel/ns_last_pid
cat /dev/zero > /dev/null &
[ $! = $P ] || exit 9
kill -CONT $O
wait $O
"#;

#[test]
fn program_with_a_reused_number_is_left_alone() {
    let namespace = ["-pf", "--mount-proc", "--kill-child", "sh", "-c"];
    let is_writable = [&namespace[..], &["echo 1 > /proc/sys/kernel/ns_last_pid"]].concat();
    if !possible("numbers of processes of its own", "unshare", &is_writable) {
        return;
    }
    let bench = Bench::new();
    let script = bench.write("reused.sh", REUSED);
    bench.shell(&format!("exec unshare -pf --mount-proc --kill-child sh {script}")).exits(0).prints(&["then it ended"]);
}

#[test]
fn only_one_observer_is_allowed() {
    let bench = Bench::new();
    let parrot = Parrot::new();
    let words = format!("observe --pid {} --time 100s --sample 90s", parrot.pid());
    let mut looking = bench.start(&words);
    looking.until("tracing", |_| parrot.tracer() != 0);
    bench.run(&words).exits(2).complains(&["is traced by process", "bytegauge", "end that one"]);
    let Parrot { mut child, input, .. } = parrot;
    drop(input);
    looking.wait().exits(5).complains(&["moved no bytes", "has ended"]);
    child.wait().expect("a child");
}

/// A program that only writes a file has no test.
#[test]
fn output_without_a_plan_is_reported() {
    let bench = Bench::new();
    let words = ["observe", "--time", "60s", "--sample", "60s", "--output", "plan.toml", "--", "seq", "1000000"];
    let ran = bench.run_args(&words).exits(5).complains(&["plan.toml was not written"]);
    assert!(!bench.path("plan.toml").exists(), "{ran}");
}

#[test]
fn unobservable_program_gets_advice() {
    let bench = Bench::new();
    let mut gone = Command::new("true").spawn().expect("true");
    gone.wait().expect("a child");
    bench.run(&format!("observe --pid {}", gone.id())).exits(2).complains(&["there is no process", "pgrep"]);
    bench.run("observe --pid 4000000000").exits(2).complains(&["there is no process"]);
    bench.run("observe --pid 0").exits(2);
    bench.run("observe").exits(2).complains(&["observe needs a program"]);
    bench.run("observe --pid 1 -- true").exits(2);
    bench.run("observe -- no-such-program-at-all").exits(2).complains(&["was not found"]);
    bench.run("observe --time 1ms --sample 1s -- true").exits(2).complains(&["--sample"]);
    let mut idle = Killed(Command::new("sleep").arg("3600").spawn().expect("sleep"));
    let words = format!("observe --pid {} --time 300ms --sample 100ms", idle.0.id());
    bench.run(&words).exits(5).complains(&["sleep moved no bytes", "--time 60s"]);
    assert_eq!(idle.0.try_wait().expect("a child"), None, "it sleeps on");
}

#[test]
fn started_program_ends_with_its_children() {
    let bench = Bench::new();
    let script = "sleep 3600 & dd if=/dev/zero of=/dev/null bs=1K count=5 2>/dev/null; sleep 3600";
    let words = ["observe", "--time", "1s", "--format", "json", "--", "sh", "-c", script];
    // A second may be too short to see a call; in both cases no process is left.
    let ran = bench.run_args(&words);
    assert!(matches!(ran.status.code(), Some(0 | 5)), "{ran}");
    assert_eq!(bench.processes(), Vec::<u32>::new());
}
