//! A bench: a folder of its own, the binary, and what a run of it left behind.

use std::fs::{self, File};
use std::io::Read;
use std::net::SocketAddr;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use bytegauge_sys::children as sys;
use serde_json::Value;
use tempfile::TempDir;

/// The binary under test.
pub const BINARY: &str = env!("CARGO_BIN_EXE_bytegauge");
/// The name by which a shell finds it: printed commands begin as it was called.
const NAME: &str = "bytegauge";

/// The longest run of a test on a busy machine: a run beyond it hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// How often a running process is looked at.
const LOOK: Duration = Duration::from_millis(5);

/// Two cells, one group, half a second or so.
pub const QUICK: &str = "stream --connection-age fresh --transport unix --profile drain --read-size 4K,64K --write-size 64K \
                         --trial-time 5ms --blocks 6 --time 2s --seed 1";

/// Reasons of trials whose ends got no CPU within their window.
const STARVED: [&str; 2] = ["use a longer --trial-time", "are mostly their first ones"];

/// A command with twice the time for its trials. The session takes longer by itself.
fn longer(words: &str) -> String {
    let mut is_time = false;
    let longer = words.split_whitespace().map(|word| {
        let unit = word.trim_start_matches(|c: char| c.is_ascii_digit());
        let number = word[..word.len() - unit.len()].parse::<u64>();
        match (std::mem::replace(&mut is_time, word == "--trial-time"), number) {
            (true, Ok(number)) => format!("{}{unit}", 2 * number),
            _ => word.to_owned(),
        }
    });
    longer.collect::<Vec<_>>().join(" ")
}

/// A folder with a home of its own, so that the default store is in it.
pub struct Bench {
    folder: TempDir,
    runs: AtomicU32,
}

/// A run that ended.
#[derive(Debug)]
pub struct Ran {
    /// A finished run.
    pub words: String,
    /// How it ended.
    pub status: ExitStatus,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// A run that goes on.
pub struct Running {
    words: String,
    child: Child,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl Bench {
    /// An empty bench.
    pub fn new() -> Bench {
        Bench { folder: tempfile::tempdir().expect("a folder"), runs: AtomicU32::new(0) }
    }

    /// A path on the bench.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Where results go when no `--store` is given.
    pub fn store(&self) -> PathBuf {
        self.path("data/bytegauge/results.db")
    }

    /// Writes a file and returns its path as text.
    pub fn write(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        fs::write(&path, text).expect("a file on the bench");
        path.display().to_string()
    }

    /// A bench whose store has the session of the README, with effects that a busy machine may hide.
    pub fn with_known_session() -> Bench {
        let bench = Bench::new();
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/example/session.jsonl.gz");
        bench.shell(&format!("zcat '{file}' | \"$BYTEGAUGE\" report import -")).exits(0);
        bench
    }

    /// Runs the binary with words separated by white space, and waits.
    pub fn run(&self, words: &str) -> Ran {
        self.start(words).wait()
    }

    /// Runs the binary with arguments that may hold white space, and waits.
    pub fn run_args(&self, arguments: &[&str]) -> Ran {
        let mut command = Command::new(BINARY);
        command.arg0(NAME).args(arguments);
        self.spawn(command, arguments.join(" ")).wait()
    }

    /// Starts the binary by its name, which hears SIGHUP even where the tests themselves were started by nohup(1).
    pub fn start(&self, words: &str) -> Running {
        let mut command = Command::new("env");
        let path = std::env::var("PATH").unwrap_or_default();
        let folder = BINARY.trim_end_matches(NAME);
        command.args(["--default-signal=HUP", NAME]).args(words.split_whitespace());
        command.env("PATH", format!("{folder}:{path}"));
        self.spawn(command, words.to_owned())
    }

    /// Runs a session of which every option can be measured. If the machine kept an end from running in trials that are so
    /// short, the session is repeated with trials twice as long: with eight times the time it must succeed.
    #[track_caller]
    pub fn measures(&self, words: &str) -> Ran {
        let mut words = words.to_owned();
        for _ in 0..3 {
            let ran = self.run(&words);
            if !STARVED.iter().any(|reason| ran.to_string().contains(reason)) {
                return ran.exits(0);
            }
            words = longer(&words);
        }
        self.run(&words).exits(0)
    }

    /// Runs a script of `sh` on the bench, with the binary as `$BYTEGAUGE`. `timeout` ends it with all that
    /// it started, should it hang.
    pub fn shell(&self, script: &str) -> Ran {
        let mut command = Command::new("timeout");
        command.args(["-k", "5", "100", "sh", "-c", script]);
        self.spawn(command, script.to_owned()).wait()
    }

    /// The processes that were started from this bench and still run, with those that they started.
    pub fn processes(&self) -> Vec<u32> {
        let mark = format!("XDG_DATA_HOME={}", self.path("data").display());
        let ours = |id: &u32| {
            let variables = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
            variables.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
        };
        processes().filter(ours).collect()
    }

    /// Those of them that are ends.
    pub fn ends(&self) -> Vec<u32> {
        let is_end = |id: &u32| {
            let words = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
            words.split(|byte| *byte == 0).nth(1) == Some(b"end")
        };
        self.processes().into_iter().filter(is_end).collect()
    }

    /// Runs a bytegauge command on this bench.
    pub fn spawn(&self, mut command: Command, words: String) -> Running {
        let run = self.runs.fetch_add(1, Ordering::Relaxed);
        // Files, not pipes: an end that outlives its parent must not keep a test waiting.
        let (stdout, stderr) = (self.path(&format!("{run}.out")), self.path(&format!("{run}.err")));
        let child = command
            .current_dir(self.folder.path())
            .env("BYTEGAUGE", BINARY)
            .env("HOME", self.folder.path())
            .env("XDG_DATA_HOME", self.path("data"))
            .env_remove("NO_COLOR")
            .env_remove("COLUMNS")
            .env_remove("CLICOLOR_FORCE")
            .env_remove("CI")
            .env_remove("RUST_BACKTRACE")
            .stdin(Stdio::null())
            .stdout(File::create(&stdout).expect("a file for standard output"))
            .stderr(File::create(&stderr).expect("a file for standard error"))
            .spawn()
            .unwrap_or_else(|error| panic!("{words}: {error}"));
        Running { words, child, stdout, stderr }
    }
}

impl Ran {
    /// The same run, if it exited with this code.
    #[track_caller]
    pub fn exits(self, code: i32) -> Ran {
        assert_eq!(self.status.code(), Some(code), "{self}");
        self
    }

    /// The same run, if standard error holds each of these texts.
    #[track_caller]
    pub fn complains(self, texts: &[&str]) -> Ran {
        for text in texts {
            assert!(self.stderr.contains(text), "no `{text}` in standard error of {self}");
        }
        self
    }

    /// The same run, if standard output holds each of these texts.
    #[track_caller]
    pub fn prints(self, texts: &[&str]) -> Ran {
        let in_one_line = words(&self.stdout);
        for text in texts {
            let is_there = self.stdout.contains(text) || in_one_line.contains(&words(text));
            assert!(is_there, "no `{text}` in standard output of {self}");
        }
        self
    }

    /// A plan that was printed as JSON, without the words by which it was asked for.
    #[track_caller]
    pub fn plan(&self) -> Value {
        let mut plan = self.json();
        assert!(plan.as_object_mut().and_then(|plan| plan.remove("asked")).is_some(), "{self}");
        plan
    }

    /// Standard output as the one JSON document that it must be.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self}"))
    }

    /// Standard output as JSON lines. A last line without its end does not count.
    #[track_caller]
    pub fn json_lines(&self) -> Vec<Value> {
        json_lines(&self.stdout)
    }
}

impl std::fmt::Display for Ran {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Ran { words, status, stdout, stderr } = self;
        writeln!(f, "`{words}` ({status})\n--- standard error\n{stderr}")?;
        // Documents are long: the outcomes of the cells come first.
        let document: Value = serde_json::from_str(stdout).unwrap_or_default();
        for cell in document["cells"].as_array().into_iter().flatten() {
            writeln!(f, "{} {}: {}", cell["id"], cell["outcome"], cell["reason"])?;
        }
        write!(f, "--- standard output\n{stdout}")
    }
}

impl Running {
    /// The process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal by name: `INT`, `TERM`. A process that has just ended takes none.
    pub fn signal(&self, name: &str) {
        signal(self.id(), name);
    }

    /// Ends it with SIGKILL and waits.
    pub fn kill(mut self) -> Ran {
        self.child.kill().expect("a child process");
        self.wait()
    }

    /// Standard output so far.
    pub fn stdout(&self) -> String {
        text(&self.stdout)
    }

    /// Standard error so far.
    pub fn stderr(&self) -> String {
        text(&self.stderr)
    }

    /// Waits until something is the case, or fails if the process ends before.
    #[track_caller]
    pub fn until(&mut self, what: &str, is: impl FnMut(&Running) -> bool) {
        assert!(self.comes_to(what, is), "{} ended before {what}: {}", self.words, self.stderr());
    }

    /// Waits until something is the case, or the process ends: which of both.
    #[track_caller]
    pub fn comes_to(&mut self, what: &str, mut is: impl FnMut(&Running) -> bool) -> bool {
        let deadline = Instant::now() + PATIENCE;
        while !is(self) {
            if self.child.try_wait().expect("a child process").is_some() {
                return false;
            }
            assert!(Instant::now() < deadline, "{}: no {what}: {}", self.words, self.stderr());
            std::thread::sleep(LOOK);
        }
        true
    }

    /// Waits until a server prints its address.
    #[track_caller]
    pub fn place(&mut self) -> String {
        self.until("a place", |server| server.stdout().ends_with('\n'));
        self.stdout().trim().strip_prefix("listening on ").expect("a place").to_owned()
    }

    /// Waits for the end.
    #[track_caller]
    pub fn wait(self) -> Ran {
        self.wait_with(|_| {})
    }

    /// Sends a signal until the process has ended: of several close ones it handles one.
    #[track_caller]
    pub fn insist(self, name: &str) -> Ran {
        self.wait_with(|running| running.signal(name))
    }

    /// Waits for the end, and does something until then.
    #[track_caller]
    pub fn wait_with(mut self, meanwhile: impl Fn(&Running)) -> Ran {
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("a child process") {
                break status;
            }
            if Instant::now() > deadline {
                let message = self.stderr();
                panic!("`{}` hangs: {message}", self.words);
            }
            meanwhile(&self);
            std::thread::sleep(LOOK);
        };
        Ran { words: self.words.clone(), status, stdout: self.stdout(), stderr: self.stderr() }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// A process that is killed at the end of its test, also of one that fails.
pub struct Killed(pub Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A text without its line breaks, so that wrapping does not matter.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Sends a signal to a process by its number; false if it is gone. Uses a system call: a program that sends it could start too
/// late.
pub fn signal(id: u32, name: &str) -> bool {
    let number = match name {
        "STOP" => sys::STOP,
        "CONT" => sys::CONT,
        "TSTP" => signal_hook::consts::SIGTSTP,
        name => sys::signal_number(name).expect("a signal"),
    };
    sys::signal(id, number)
}

/// An address without a listener while this is held: its port is not given to another socket.
pub fn unused_address() -> (socket2::Socket, String) {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).expect("a port");
    let at = socket.local_addr().ok().and_then(|at| at.as_socket()).expect("its number").to_string();
    (socket, at)
}

/// The children of a process, by number.
pub fn children(parent: u32) -> Vec<u32> {
    processes().filter(|id| parent_of(*id) == Some(parent)).collect()
}

pub fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").expect("Linux").flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn parent_of(id: u32) -> Option<u32> {
    stat_field(id, 1)
}

/// Which session a process is of: the number of its leader (setsid(2)).
pub fn session_of(id: u32) -> Option<u32> {
    stat_field(id, 3)
}

/// The state of a process: `T` for a stopped one.
pub fn state(id: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}

/// A number of a process after its name in brackets, which can contain any character: from 0, its state, parent, group,
/// session (proc_pid_stat(5)).
fn stat_field(id: u32, index: usize) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(index)?.parse().ok()
}

/// Whether a program can run that way here; prints the reason if not, so that a skip is visible.
pub fn possible(why: &str, program: &str, arguments: &[&str]) -> bool {
    let tried = Command::new(program).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
    let possible = tried.is_ok_and(|status| status.success());
    if !possible {
        eprintln!("SKIPPED: {why}: `{program} {}` does not work here", arguments.join(" "));
    }
    possible
}

/// The Python interpreter with the modules of a script; prints the reason if there is none. The interpreter itself, since a
/// script that searches for it takes longer than the programs of the tests.
pub fn python(why: &str, needs: &str) -> Option<String> {
    if !possible(why, "python3", &["-c", needs]) {
        return None;
    }
    let asked = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output().expect("python3");
    Some(String::from_utf8_lossy(&asked.stdout).trim().to_owned())
}

/// Text as JSON lines.
#[track_caller]
pub fn json_lines(text: &str) -> Vec<Value> {
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

/// A number that no two processes of a test run share.
pub fn clock_seed() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    since.as_nanos() as u64
}

fn text(path: &Path) -> String {
    let mut bytes = Vec::new();
    File::open(path).and_then(|mut file| file.read_to_end(&mut bytes)).expect("the output");
    String::from_utf8_lossy(&bytes).into_owned()
}

/// How a process that a signal ended shows.
pub fn killed_by(status: ExitStatus) -> Option<i32> {
    status.signal()
}
