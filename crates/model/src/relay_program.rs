//! Relays that are external programs: the words that start them, and ready definitions of common ones.
//!
//! A program gets its addresses by placeholders in its command or in its configuration, which are
//! replaced for every trial.
//!
//! Never starts a program and never checks whether it is installed.
//!
//! Also the choice between them and our own methods.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::level::COMMAND;
use crate::name_tables::Transport;
use crate::place::Place;
use crate::relay::{RELAY_METHODS, RelayMethod};
use crate::unit::TextError;
use crate::{shell, suggest, task};

/// Most characters of a command in a table.
const SHORT: usize = 24;

/// The word for every method of bytegauge.
pub const ALL: &str = "all";

/// The placeholder for the path of a configuration.
const CONFIG: &str = "{config}";

/// A file of the user's with placeholders to be replaced: `{config:relay.cfg}`.
const CONFIG_FILE: &str = "{config:";

/// A relay that is a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelayProgram {
    /// Its display name: `haproxy`.
    pub name: String,
    /// The words that start it, with their placeholders. It must stay in the foreground.
    pub command: Vec<String>,
    /// The configuration that it reads, with its placeholders.
    pub config: Option<RelayConfig>,
    /// The words that print its version.
    pub version: Vec<String>,
    /// How to install it, where that is known.
    pub install: Option<String>,
}

/// A configuration with placeholders.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RelayConfig {
    /// The text itself.
    Text(String),
    /// A file that holds it.
    File(PathBuf),
}

/// The values of the placeholders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayPlaces {
    /// The address where it listens: `{listen}`, or `{listen.host}` and `{listen.port}`.
    pub listen: SocketAddr,
    /// The address that it connects to: `{upstream}`, or `{upstream.host}` and `{upstream.port}`.
    pub upstream: SocketAddr,
    /// A folder for its files: `{folder}`.
    pub folder: PathBuf,
    /// Its configuration, with values: `{config}`.
    pub config: PathBuf,
}

/// A relay with a ready definition.
#[derive(Clone, Copy, Debug)]
pub struct ReadyRelay {
    /// Its name in flags, plans, tables and documents.
    pub name: &'static str,
    /// One line of help.
    pub summary: &'static str,
    /// The program and its arguments.
    pub command: &'static [&'static str],
    /// Its configuration; empty where it has none.
    pub config: &'static str,
    /// The argument by which it prints its version.
    pub version: &'static str,
    /// How to install it.
    pub install: &'static str,
}

const HAPROXY: ReadyRelay = ReadyRelay {
    name: "haproxy",
    summary: "HAProxy, copying through buffers of 64 KiB",
    command: &["haproxy", "-db", "-f", CONFIG],
    config: include_str!("relay_program/haproxy.cfg"),
    version: "-v",
    install: "install HAProxy (Debian: apt-get install haproxy)",
};

const GO: ReadyRelay = ReadyRelay {
    name: "go-copy",
    summary: "Go, io.Copy between two TCP connections: splice(2)",
    command: &["bytegauge-go-relays", "-relay", "copy={listen}", "-upstream", "{upstream}"],
    config: "",
    version: "-version",
    install: "build it (in peers/go: go build -o bytegauge-go-relays .) and put it into a folder of PATH",
};

/// One of the Go relays: a method of the program in `peers/go`.
macro_rules! go {
    ($method:literal, $summary:literal) => {
        ReadyRelay {
            name: concat!("go-", $method),
            summary: $summary,
            command: &["bytegauge-go-relays", "-relay", concat!($method, "={listen}"), "-upstream", "{upstream}"],
            ..GO
        }
    };
}

/// The ready ones.
pub const READY_RELAYS: &[ReadyRelay] = &[
    HAPROXY,
    ReadyRelay {
        name: "haproxy-splice",
        summary: "HAProxy, splicing through pipes of 1 MiB where it decides to",
        config: include_str!("relay_program/haproxy-splice.cfg"),
        ..HAPROXY
    },
    ReadyRelay {
        name: "nginx",
        summary: "nginx, its stream module, one process with buffers of 64 KiB",
        command: &["nginx", "-e", "stderr", "-c", CONFIG],
        config: include_str!("relay_program/nginx.conf"),
        version: "-v",
        install: "install nginx with its stream module (Debian: apt-get install nginx libnginx-mod-stream)",
    },
    ReadyRelay {
        name: "socat",
        summary: "socat, a process for each connection, buffers of 64 KiB",
        command: &[
            "socat",
            "-b65536",
            "-t60",
            "TCP{ip}-LISTEN:{listen.port},bind={listen.host},reuseaddr,fork,backlog=4096,nodelay",
            "TCP{ip}:{upstream},nodelay",
        ],
        config: "",
        version: "-V",
        install: "install socat (Debian: apt-get install socat)",
    },
    go!("pipe", "Go, io.Pipe between a goroutine that reads and one that writes"),
    GO,
    go!("copy-buffer", "Go, io.CopyBuffer with 32 KiB between plain readers and writers: no splice"),
    go!("syscall", "Go, raw system calls of the package syscall, 32 KiB"),
    go!("direct", "Go, TCPConn.WriteTo: as io.Copy calls it, called directly"),
    go!("unix", "Go, system calls of the package golang.org/x/sys/unix, 32 KiB"),
    go!("bufio", "Go, bufio.Reader into bufio.Writer, flushed after every read"),
    go!("splice", "Go, splice(2) through a pipe, by hand"),
    go!("sendfile", "Go, sendfile(2) into a pipe and splice(2) out of it, by hand"),
    go!("readv-writev", "Go, readv(2) and writev(2) with the buffer in four parts"),
];

/// The canonical name of a relay: a method, a ready program, a command of the user's, or one that runs already.
///
/// # Errors
/// If it is none of them, with a similar name; if a command has no placeholders, or a running one no addresses.
pub fn relay_name(text: &str) -> Result<String, TextError> {
    if let Some(command) = text.strip_prefix(COMMAND) {
        let listens = ["{listen}", "{listen.port}", CONFIG_FILE].iter().any(|place| command.contains(place));
        let connects = ["{upstream}", "{upstream.port}", CONFIG_FILE].iter().any(|place| command.contains(place));
        let config = command.matches(CONFIG_FILE).count();
        return if listens && connects && !command.contains(CONFIG) && config <= 1 && config_file(command).is_some() {
            Ok(text.to_owned())
        } else {
            Err(TextError::malformed(
                text,
                "the command of a relay: write {listen} and {upstream} (or {listen.port} and {upstream.port}) where it \
                 takes them, or {config:FILE} with a file that holds them",
            ))
        };
    }
    if text.starts_with(RUNNING) {
        return text.parse::<RunningRelay>().map(|relay| relay.to_string());
    }
    if let Ok(method) = text.parse::<RelayMethod>() {
        return Ok(method.to_string());
    }
    let ready = READY_RELAYS.iter().find(|ready| ready.name == text);
    ready.map(|ready| ready.name.to_owned()).ok_or_else(|| {
        let names = RELAY_METHODS.iter().map(|row| row.name).chain(READY_RELAYS.iter().map(|ready| ready.name));
        suggest::unknown("relay", text, names)
    })
}

/// A list of relays; [`ALL`] at its beginning is replaced by every method of bytegauge.
pub fn relay_names(list: &str) -> Cow<'_, str> {
    let rest = list.trim_start().strip_prefix(ALL).map(str::trim_end);
    let Some(rest) = rest.filter(|rest| rest.is_empty() || rest.starts_with(',')) else { return Cow::Borrowed(list) };
    let names: Vec<&str> = RELAY_METHODS.iter().map(|row| row.name).collect();
    Cow::Owned(names.join(",") + rest)
}

/// A short name of a relay: the beginning of a command, the listening address of a running one.
pub fn short_relay_name(name: &str) -> String {
    if let Some((listens, _)) = name.split_once('=').filter(|_| name.starts_with(RUNNING)) {
        return listens.to_owned();
    }
    match name.starts_with(COMMAND) && name.chars().count() > SHORT {
        true => name.chars().take(SHORT - 1).chain(['…']).collect(),
        false => name.to_owned(),
    }
}

/// The text after `{config:`, up to its end; empty if there is none, `None` if it has no end.
fn config_file(command: &str) -> Option<&str> {
    match command.split_once(CONFIG_FILE) {
        None => Some(""),
        Some((_, rest)) => rest.split_once('}').map(|(file, _)| file).filter(|file| !file.is_empty()),
    }
}

impl RelayProgram {
    /// The program of a level; `None` for a method of bytegauge.
    pub fn of(level: &str) -> Option<RelayProgram> {
        if let Some(command) = level.strip_prefix(COMMAND) {
            return Some(RelayProgram::of_user(command));
        }
        let ready = READY_RELAYS.iter().find(|ready| ready.name == level)?;
        let program = ready.command.first().copied().unwrap_or_default();
        Some(RelayProgram {
            name: ready.name.to_owned(),
            command: ready.command.iter().map(|word| (*word).to_owned()).collect(),
            config: (!ready.config.is_empty()).then(|| RelayConfig::Text(ready.config.to_owned())),
            version: [program, ready.version].map(str::to_owned).to_vec(),
            install: Some(ready.install.to_owned()),
        })
    }

    fn of_user(command: &str) -> RelayProgram {
        let file = config_file(command).filter(|file| !file.is_empty());
        let text = match file {
            Some(file) => command.replace(&format!("{CONFIG_FILE}{file}}}"), CONFIG),
            None => command.to_owned(),
        };
        let program = task::first_word(&text).to_owned();
        RelayProgram {
            name: program.rsplit('/').next().unwrap_or(&program).to_owned(),
            version: vec![program, "--version".to_owned()],
            config: file.map(|file| RelayConfig::File(file.into())),
            command: task::by_shell(&text),
            install: None,
        }
    }
}

impl RelayPlaces {
    /// A text with its placeholders replaced.
    pub fn fill(&self, text: &str) -> String {
        shell::plain(&shell::pieces(text, &self.places()))
    }

    /// The words of a program with their placeholders replaced; in a script for a shell, as data.
    pub fn fill_words(&self, words: &[String]) -> Vec<String> {
        let places = self.places();
        match shell::filled(words, |word| Ok::<_, Infallible>(shell::pieces(word, &places))) {
            Ok(words) => words,
        }
    }

    fn places(&self) -> Vec<(String, String)> {
        let host = |address: &SocketAddr| match address {
            SocketAddr::V4(address) => address.ip().to_string(),
            SocketAddr::V6(address) => format!("[{}]", address.ip()),
        };
        [
            ("{listen}", self.listen.to_string()),
            ("{listen.host}", host(&self.listen)),
            ("{listen.port}", self.listen.port().to_string()),
            ("{upstream}", self.upstream.to_string()),
            ("{upstream.host}", host(&self.upstream)),
            ("{upstream.port}", self.upstream.port().to_string()),
            ("{ip}", if self.listen.is_ipv4() { "4" } else { "6" }.to_owned()),
            ("{folder}", self.folder.display().to_string()),
            (CONFIG, self.config.display().to_string()),
        ]
        .map(|(place, value)| (place.to_owned(), value))
        .to_vec()
    }
}

/// Facts about a program that was a relay.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RelayProgramReport {
    /// The output of its version option; absent if it has none.
    pub version: Option<String>,
    /// Its processes when the window closed, those that it started included.
    pub processes: u64,
    /// Processes that remained after it had ended, and were ended.
    pub left_behind: u64,
    /// It ignored `SIGTERM` and was killed.
    pub stopped_by_force: bool,
    /// The source of its CPU time, or why there is none; absent in sessions of older versions, which read
    /// that of its process tree.
    pub charged: Option<String>,
}

// The relay between the ends of a path: the levels of the factor `relay`.

/// The relay between the ends.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RelayChoice {
    /// A method of bytegauge; [`RelayMethod::Direct`] is a path without a relay.
    Method(RelayMethod),
    /// A program that is started for the trial, by its level: a ready one, or a command of the user's.
    Program(Arc<str>),
    /// A program that runs already.
    Running(RunningRelay),
}

impl RelayChoice {
    /// The method, if it is one of bytegauge.
    pub fn method(&self) -> Option<RelayMethod> {
        match self {
            RelayChoice::Method(method) => Some(*method),
            _ => None,
        }
    }

    /// The program that is started.
    pub fn program(&self) -> Option<RelayProgram> {
        match self {
            RelayChoice::Program(name) => RelayProgram::of(name),
            _ => None,
        }
    }

    /// The program that runs already.
    pub fn running(&self) -> Option<&RunningRelay> {
        match self {
            RelayChoice::Running(running) => Some(running),
            _ => None,
        }
    }
}

impl FromStr for RelayChoice {
    type Err = TextError;

    fn from_str(text: &str) -> Result<RelayChoice, TextError> {
        let name = relay_name(text)?;
        if let Ok(method) = name.parse() {
            return Ok(RelayChoice::Method(method));
        }
        Ok(match RunningRelay::of(&name) {
            Some(running) => RelayChoice::Running(running),
            None => RelayChoice::Program(name.into()),
        })
    }
}

impl fmt::Display for RelayChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RelayChoice::Method(method) => method.fmt(f),
            RelayChoice::Program(name) => f.pad(name),
            RelayChoice::Running(running) => running.fmt(f),
        }
    }
}

// A relay that runs already: its listening address, its target, and the process that is charged.
//
// It is an external program: bytegauge neither starts nor ends it.

/// Prefix of the name of one.
const RUNNING: &str = "addr:";

/// The expected form.
const RUNNING_EXPECTED: &str = "a relay that runs already: write addr:LISTEN=UPSTREAM, such as addr:127.0.0.1:9000=127.0.0.1:9001, with two different \
     addresses of one family and their ports (where it listens, and what it connects to: our server listens there), and \
     @PID behind them where the owner of its port is not to be charged";

/// A relay that runs already.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RunningRelay {
    /// Where it listens.
    pub listen: SocketAddr,
    /// The address that it connects to: bytegauge's end behind it must listen there.
    pub upstream: SocketAddr,
    /// The process whose tree is charged; absent: the trees of those that hold the listening port.
    pub pid: Option<u32>,
}

impl RunningRelay {
    /// The relay of a level; `None` where it is another one.
    pub fn of(level: &str) -> Option<RunningRelay> {
        level.parse().ok()
    }

    /// The transport that reaches it.
    pub fn transport(&self) -> Transport {
        if self.listen.is_ipv6() { Transport::Tcp6 } else { Transport::Tcp }
    }

    /// The running relays among levels, each once.
    pub fn among<'a>(levels: impl Iterator<Item = &'a str>) -> Vec<RunningRelay> {
        let names: BTreeSet<&str> = levels.collect();
        names.into_iter().filter_map(RunningRelay::of).collect()
    }
}

impl FromStr for RunningRelay {
    type Err = TextError;

    fn from_str(text: &str) -> Result<RunningRelay, TextError> {
        let address = |text: &str| match text.parse() {
            Ok(Place::Ip(address)) if address.port() != 0 && !address.ip().is_unspecified() => Some(address),
            _ => None,
        };
        let parsed = || {
            let (listen, rest) = text.strip_prefix(RUNNING)?.split_once('=')?;
            let (upstream, pid) = match rest.split_once('@') {
                Some((upstream, pid)) => (upstream, Some(pid.parse().ok().filter(|pid: &u32| *pid > 0)?)),
                None => (rest, None),
            };
            let relay = RunningRelay { listen: address(listen)?, upstream: address(upstream)?, pid };
            let fits = relay.listen != relay.upstream && relay.listen.is_ipv6() == relay.upstream.is_ipv6();
            fits.then_some(relay)
        };
        parsed().ok_or_else(|| TextError::malformed(text, RUNNING_EXPECTED))
    }
}

impl fmt::Display for RunningRelay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RunningRelay { listen, upstream, pid } = self;
        write!(f, "{RUNNING}{listen}={upstream}")?;
        pid.map_or(Ok(()), |pid| write!(f, "@{pid}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(listen: &str, upstream: &str) -> RelayPlaces {
        RelayPlaces {
            listen: listen.parse().unwrap(),
            upstream: upstream.parse().unwrap(),
            folder: "/f".into(),
            config: "/f/c".into(),
        }
    }

    #[test]
    fn ready_relays_have_places_and_unique_names() {
        let mut names: BTreeSet<&str> = RELAY_METHODS.iter().map(|row| row.name).collect();
        for ready in READY_RELAYS {
            assert!(names.insert(ready.name), "{}", ready.name);
            assert_eq!(relay_name(ready.name).unwrap(), ready.name);
            let program = RelayProgram::of(ready.name).unwrap();
            let all = format!("{} {}", program.command.join(" "), ready.config);
            let filled = places("127.0.0.1:4711", "127.0.0.1:4712").fill(&all);
            for part in ["4711", "4712"] {
                assert!(filled.contains(part), "{filled}");
            }
            for place in ["{listen", "{upstream", "{config", "{folder", "{ip"] {
                assert!(!filled.contains(place), "{filled}");
            }
            assert_eq!(all.contains(CONFIG), !ready.config.is_empty());
        }
        assert_eq!(RelayProgram::of("splice"), None);
    }

    #[test]
    fn commands_need_placeholders() {
        let check = |text: &str, good: bool| assert_eq!(relay_name(text).is_ok(), good, "{text}");
        check("cmd:proxy -l {listen} -u {upstream}", true);
        check("cmd:proxy {listen.port} {upstream.host} {upstream.port}", true);
        check("cmd:haproxy -f {config:relay.cfg}", true);
        check("cmd:proxy -l {listen}", false);
        check("cmd:proxy {upstream}", false);
        check("cmd:haproxy -f {config}", false);
        check("cmd:haproxy -f {config:relay.cfg", false);
        check("cmd:haproxy -f {config:}", false);
        check("cmd:", false);
        let error = relay_name("haprxy").unwrap_err().to_string();
        assert!(error.contains("did you mean `haproxy`?"), "{error}");
        assert_eq!(relay_name("addr::9000=:9001").unwrap(), "addr:127.0.0.1:9000=127.0.0.1:9001");
        assert!(relay_name("addr::9000").unwrap_err().to_string().contains("runs already"));
    }

    #[test]
    fn all_at_the_beginning_means_every_method() {
        let count = |list: &str| relay_names(list).split(',').filter(|name| relay_name(name).is_ok()).count();
        assert_eq!(count("all"), RELAY_METHODS.len());
        assert_eq!(count("all,haproxy,go-copy"), RELAY_METHODS.len() + 2);
        assert_eq!(relay_names("splice,tokio"), "splice,tokio");
        assert_eq!(relay_names("allx"), "allx");
    }

    #[test]
    fn a_table_has_the_beginning_of_a_command() {
        assert_eq!(short_relay_name("haproxy-splice-and-more-of-it"), "haproxy-splice-and-more-of-it");
        assert_eq!(short_relay_name("cmd:x {listen}"), "cmd:x {listen}");
        assert_eq!(short_relay_name("addr:127.0.0.1:9000=127.0.0.1:9001@4711"), "addr:127.0.0.1:9000");
        assert_eq!(short_relay_name("cmd:proxy -l {listen} -u {upstream}"), "cmd:proxy -l {listen} -…");
    }

    #[test]
    fn commands_are_filled_and_named_by_their_program() {
        let program = RelayProgram::of("cmd:exec /opt/x/proxy -f {config:my files/a.cfg} -p {listen.port}").unwrap();
        assert_eq!(program.name, "proxy");
        assert_eq!(program.version, ["/opt/x/proxy", "--version"]);
        assert_eq!(program.config, Some(RelayConfig::File("my files/a.cfg".into())));
        let filled = places("[::1]:80", "[::1]:81").fill(&program.command[2]);
        assert_eq!(filled, "exec /opt/x/proxy -f /f/c -p 80");
        assert_eq!(
            places("[::1]:80", "[::1]:81").fill("{ip} {listen} {upstream.host} {folder}"),
            "6 [::1]:80 [::1] /f"
        );
    }
}

#[cfg(test)]
mod choice_tests {
    use super::*;

    fn check(text: &str, expected: fn(&RelayChoice) -> bool) {
        let choice: RelayChoice = text.parse().unwrap();
        assert!(expected(&choice), "{choice:?}");
        assert_eq!(choice.to_string(), text);
    }

    #[test]
    fn a_relay_is_a_method_or_a_program() {
        check("splice", |choice| choice.method() == Some(RelayMethod::Splice));
        check("haproxy", |choice| choice.program().is_some());
        check("cmd:x {listen} {upstream}", |choice| choice.program().is_some());
        check("addr:127.0.0.1:1=127.0.0.1:2", |choice| choice.running().is_some());
        assert!("splce".parse::<RelayChoice>().is_err());
    }
}

#[cfg(test)]
mod running_relay_tests {
    use super::*;

    #[test]
    fn both_addresses_are_needed_the_host_is_optional() {
        let check = |text: &str, expected: &str| {
            let relay: RunningRelay = text.parse().unwrap();
            assert_eq!((relay.to_string().as_str(), RunningRelay::of(expected)), (expected, Some(relay)));
        };
        check("addr:127.0.0.1:9000=127.0.0.1:9001", "addr:127.0.0.1:9000=127.0.0.1:9001");
        check("addr::9000=:9001@4711", "addr:127.0.0.1:9000=127.0.0.1:9001@4711");
        check("addr:[::1]:9000=[::1]:9001", "addr:[::1]:9000=[::1]:9001");
        assert_eq!(RunningRelay::of("addr:[::1]:1=[::1]:2").unwrap().transport(), Transport::Tcp6);
    }

    #[test]
    fn incomplete_names_are_refused_with_an_example() {
        for bad in [
            "addr:127.0.0.1:9000",
            "addr:127.0.0.1:9000=",
            "addr::9000=:9000",
            "addr::9000=:0",
            "addr::9000=:9001@",
            "addr::9000=:9001@0",
            "addr:localhost:9000=:9001",
            "addr:0.0.0.0:9000=:9001",
            "addr:[::1]:9000=:9001",
            "addr:unix:/a=unix:/b",
        ] {
            let error = bad.parse::<RunningRelay>().unwrap_err().to_string();
            assert!(error.contains("write addr:LISTEN=UPSTREAM, such as addr:127.0.0.1:9000="), "{bad}: {error}");
        }
        assert!(RunningRelay::of("splice").is_none() && RunningRelay::of("cmd:x {listen} {upstream}").is_none());
    }
}
