//! One descriptor of a program: its target, its peer and its options.
//!
//! Never reads from it and never keeps it: a socket held here would not end when its owner closes it.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use bytegauge_sys::network::NetworkTables;
use bytegauge_sys::option::{self, KernelOption, Value};
use bytegauge_sys::{listening, process_descriptor};
use serde::Serialize;

/// Options that are reported, by the kernel's name.
const OPTIONS: [KernelOption; 4] = [option::RECEIVE_BUFFER, option::SEND_BUFFER, option::NO_DELAY, option::CONGESTION];

/// The target of a descriptor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Leads {
    /// A connected socket that was accepted, or a bound one, by its own port or path's owner.
    Accepted {
        /// The transport: `tcp`, `udp6`, …
        transport: String,
        /// The own port.
        port: u16,
    },
    /// A socket that was connected to an address.
    Connected {
        /// The transport.
        transport: String,
        /// The peer's address.
        peer: String,
    },
    /// A Unix socket, with the name of the program at the other end.
    Unix {
        /// `unix` or `unix-dgram`.
        transport: String,
        /// The program's name, or `?`.
        peer: String,
    },
    /// A pipe.
    Pipe {
        /// The descriptor's number.
        fd: i32,
    },
    /// A file or a device.
    File {
        /// Its path.
        path: String,
    },
    /// Anything else: an eventfd, a timer.
    #[default]
    Other,
}

impl Leads {
    /// The transport's name on the command line of bytegauge, if it has one.
    pub fn transport(&self) -> Option<&str> {
        match self {
            Leads::Accepted { transport, .. } | Leads::Connected { transport, .. } | Leads::Unix { transport, .. } => {
                Some(transport)
            }
            Leads::Pipe { .. } => Some("pipe"),
            Leads::File { .. } | Leads::Other => None,
        }
    }

    /// Whether it is a socket.
    pub fn is_socket(&self) -> bool {
        matches!(self, Leads::Accepted { .. } | Leads::Connected { .. } | Leads::Unix { .. })
    }

    /// The name for output.
    pub fn label(&self) -> String {
        match self {
            Leads::Accepted { transport, port } => format!("{transport} port {port}, accepted"),
            Leads::Connected { transport, peer } => format!("{transport} to {peer}"),
            Leads::Unix { transport, peer } => format!("{transport} with {peer}"),
            Leads::Pipe { fd } => format!("pipe {fd}"),
            Leads::File { path } => path.clone(),
            Leads::Other => "something else".into(),
        }
    }
}

/// A process at the other end.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct PeerProcess {
    /// It had ended when the observation was over.
    pub ended: bool,
    /// Its number.
    pub pid: u32,
    /// Its name.
    pub name: String,
}

/// A descriptor, inspected once.
#[derive(Clone, Debug, Default)]
pub(super) struct InspectedFd {
    /// Its name in `/proc/PID/fd`.
    pub(super) link: String,
    pub(super) leads: Leads,
    /// Options in force, by the kernel's name.
    pub(super) options: BTreeMap<&'static str, String>,
    /// The name of the other end in `/proc/PID/fd`, if it is on this machine.
    pub(super) other: Option<String>,
    /// The processes there, by number; names as they were when they were found.
    pub(super) peers: BTreeMap<u32, String>,
    /// Why the socket could not be inspected.
    pub(super) unasked: Option<String>,
    /// A file that the program only reads at its start.
    pub(super) start_up: bool,
}

impl InspectedFd {
    /// Inspects a descriptor of a program with this name and command line; `None` if it is closed by now.
    pub(super) fn look(pid: u32, fd: i32, program: &str, command: &[String]) -> Option<InspectedFd> {
        let link = fs::read_link(format!("/proc/{pid}/fd/{fd}")).ok()?.to_string_lossy().into_owned();
        let mut end = InspectedFd { link, ..InspectedFd::default() };
        if end.link.starts_with("socket:") {
            match process_descriptor::descriptor(pid, fd) {
                Ok(socket) => end.ask(socket.as_fd()),
                Err(error) => end.unasked = Some(error.to_string()),
            }
        } else if end.link.starts_with("pipe:") {
            end.leads = Leads::Pipe { fd };
            end.other = Some(end.link.clone());
            if let Ok(pipe) = process_descriptor::descriptor(pid, fd)
                && let Ok(value) = option::read(pipe.as_fd(), option::PIPE_SIZE)
            {
                end.options.insert(option::PIPE_SIZE.name, as_text(value));
            }
        } else if end.link.starts_with('/') {
            end.leads = Leads::File { path: end.link.clone() };
            end.start_up = is_start_up(program, command, &end.link);
        }
        Some(end)
    }

    fn ask(&mut self, socket: std::os::fd::BorrowedFd<'_>) {
        let Some(transport) = process_descriptor::transport_of(socket) else { return };
        let transport = transport.to_owned();
        for known in OPTIONS {
            // A Unix socket has buffers in the kernel, and none of TCP's options.
            if let Ok(value) = option::read(socket, known) {
                self.options.insert(known.name, as_text(value));
            }
        }
        self.leads = match process_descriptor::addresses(socket) {
            _ if transport.starts_with("unix") => {
                self.peers = process_descriptor::unix_peer(socket).map(|pid| (pid, name_of(pid))).into_iter().collect();
                let peer = self.peers.values().next().map_or_else(|| "?".to_owned(), String::clone);
                Leads::Unix { transport, peer }
            }
            (Some(own), Some(peer)) => {
                self.other = listening::other_end(own, peer);
                match transport.starts_with("tcp") && listening::at_port(NetworkTables::own(), own.port()) {
                    true => Leads::Accepted { transport, port: own.port() },
                    false => Leads::Connected { transport, peer: shown(peer) },
                }
            }
            (Some(own), None) => Leads::Accepted { transport, port: own.port() },
            _ => Leads::Other,
        };
    }
}

fn as_text(value: Value) -> String {
    match value {
        Value::Number(number) => number.to_string(),
        Value::Switch(on) => if on { "on" } else { "off" }.into(),
        Value::Text(text) => text,
    }
}

/// An IPv4 address in its own notation, even if the socket maps it to IPv6.
fn shown(address: SocketAddr) -> String {
    SocketAddr::new(address.ip().to_canonical(), address.port()).to_string()
}

/// A process's name, or `?`.
pub(super) fn name_of(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).map_or_else(|_| "?".into(), |name| name.trim().to_owned())
}

// Files that a program reads at its start, regardless of its task: libraries, settings, an interpreter's modules and
// its script. Pure: uses names only.

/// Programs that read their own program from a file.
const INTERPRETERS: [&str; 16] = [
    "sh", "bash", "dash", "ash", "zsh", "ksh", "fish", "python", "pypy", "perl", "ruby", "node", "php", "lua", "java",
    "Rscript",
];

/// Extensions of interpreters' modules.
const MODULES: [&str; 20] = [
    "bash", "zsh", "pyc", "py", "pth", "pm", "pl", "rb", "js", "mjs", "cjs", "lua", "luac", "php", "class", "jar",
    "jsa", "sh", "zwc", "R",
];

/// Whether a program with this name and command line reads `path` only at its start.
pub(super) fn is_start_up(program: &str, command: &[String], path: &str) -> bool {
    let file = path.rsplit('/').next().unwrap_or(path);
    let settings = ["/etc/", "/proc/", "/sys/", "/usr/lib/locale/", "/usr/share/locale/", "/usr/share/zoneinfo/"];
    if file.ends_with(".so") || file.contains(".so.") || settings.iter().any(|folder| path.starts_with(folder)) {
        return true;
    }
    if !is_interpreter(program) {
        return false;
    }
    let ending = file.rsplit_once('.').map(|(_, ending)| ending);
    let is_module = ending.is_some_and(|ending| MODULES.contains(&ending));
    let is_installed = path.contains("/lib/")
        && ["python", "ruby", "perl", "node_modules", "jvm", "php", "lua"].iter().any(|of| path.contains(of));
    // The first word that is no flag is the script; the words after it are arguments of the script.
    let script = command.iter().skip(1).find(|word| !word.starts_with('-'));
    let is_script = script.is_some_and(|script| path.ends_with(script.trim_start_matches("./")));
    is_module || is_installed || is_script || file == "pyvenv.cfg"
}

/// By its name, with or without a version (`python3.12`).
fn is_interpreter(program: &str) -> bool {
    let plain = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
    INTERPRETERS.contains(&plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_up_files_differ_from_data() {
        let words = |words: &str| -> Vec<String> { words.split(' ').map(str::to_owned).collect() };
        for (program, command, path, expected) in [
            ("dd", "dd if=x", "/usr/lib/x86_64-linux-gnu/libc.so.6", true),
            ("dd", "dd if=x", "/etc/ld.so.cache", true),
            ("date", "date", "/usr/share/zoneinfo/Etc/UTC", true),
            ("dd", "dd if=x", "/data/x", false),
            ("dd", "dd if=/dev/zero", "/dev/zero", false),
            ("wc", "wc a.py", "/home/me/a.py", false),
            ("python3.12", "python3 server.py 7000", "/usr/lib/python3.12/__pycache__/socket.cpython-312.pyc", true),
            ("python3", "python3 server.py 7000", "/home/me/server.py", true),
            ("python3", "python3 sum.py data.bin", "/home/me/data.bin", false),
            ("bash", "bash ./shim --fast", "/home/me/shim", true),
            ("bash", "bash -c cat<data", "/home/me/data", false),
            ("grep", "grep x /usr/share/dict/words", "/usr/share/dict/words", false),
        ] {
            assert_eq!(is_start_up(program, &words(command), path), expected, "{program} {path}");
        }
    }
}
