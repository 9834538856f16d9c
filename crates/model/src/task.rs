//! The user's own program as it is tuned: its words, with a placeholder for the value that is varied, how it is measured,
//! and its server, if there is one.
//!
//! Only the definition. Nothing is run here.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::level::Level;
use crate::metric::{Counted, Metric};
use crate::name_tables::text_serde;
use crate::shell;
use crate::socket_changes::{ServiceCounts, SocketChanges};
use crate::sockets_seen::SocketsSeen;
use crate::unit::{Bytes, TextError};

/// The placeholder for the value, in any word, any number of times.
const VALUE: &str = "{value}";

/// The end of the placeholder for a number of bytes divided by the value: `{256M/value}`.
const PER_VALUE: &str = "/value}";

/// The address of a server in the same network.
pub const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// The placeholder for the address of the server: its own over an emulated link, and that of loopback otherwise.
const SERVER: &str = "{server}";

/// The command of a trial, and how it is measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProgramTask {
    /// The words of the command that is measured.
    pub command: Vec<String>,
    /// The words of each value, if values are commands of their own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub by_value: BTreeMap<String, Vec<String>>,
    /// The command that is run before each trial, unmeasured.
    pub prepare: Option<Vec<String>>,
    /// The server that the command talks to, started for every trial.
    pub server: Option<ServerTask>,
    /// The metric.
    pub metric: Metric,
    /// The options that values change on the sockets of the program.
    pub changes: Option<SocketChanges>,
    /// The value that the user has now.
    pub default: Option<Level>,
    /// The recommendation of an earlier session.
    pub advice: Option<Advice>,
}

/// A server that is started for a trial and stopped after it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServerTask {
    /// Its words.
    pub command: Vec<String>,
    /// The words of each value, if values are servers of their own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub by_value: BTreeMap<String, Vec<String>>,
    /// The test that it is ready.
    pub ready: ReadyWhen,
    /// The signal that stops it.
    pub stop: i32,
}

/// The values that an earlier session recommended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Advice {
    /// The session's number in the same store.
    pub session: i64,
    /// The recommended values.
    pub values: Vec<AdvisedValue>,
}

/// A recommended value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AdvisedValue {
    /// The value.
    pub value: Level,
    /// The test that it is for: `Unix, 2 CPUs`.
    pub question: String,
    /// The factor whose level it was: `read_size`.
    pub factor: String,
}

/// The test that a server is ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadyWhen {
    /// The port has a listener.
    Tcp(u16),
    /// The path has a listener.
    Unix(PathBuf),
    /// It has printed this.
    Printed(String),
}

/// The result of a run, in addition to the counters of an end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskReport {
    /// The rate, by the metric; more is better.
    pub rate: f64,
    /// The unit of the rate.
    pub counted: Counted,
    /// CPU time of the server and its children from when it was ready to its end, nanoseconds; absent where there is none.
    pub server_cpu_ns: Option<u64>,
    /// What a running program did; absent where the trial started the program.
    pub service: Option<Box<ServiceCounts>>,
    /// The running program has ended, or could not be left as it was: no other trial can be made.
    pub service_lost: bool,
    /// Its server had no sign of being ready in time, so it did not run.
    pub server_not_ready: bool,
    /// The TCP ports at which such a server listened.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub server_ports: Vec<u16>,
    /// No connection of the command reached its server.
    pub server_unreached: bool,
    /// Processes that remained when the command had ended, and were ended.
    pub left_behind: u64,
    /// The server ignored its signal and was killed.
    pub stopped_by_force: bool,
    /// The sockets of the changed program; absent where none is changed.
    pub sockets: Option<Box<SocketsSeen>>,
    /// Those of the command, where a watched run has those of its server above.
    pub command_sockets: Option<Box<SocketsSeen>>,
    /// The counter's value while the command ran; absent without a counter.
    pub events: Option<u64>,
}

impl ProgramTask {
    /// A command and its metric, without anything else.
    pub fn of(command: Vec<String>, metric: Metric) -> ProgramTask {
        ProgramTask {
            command,
            by_value: BTreeMap::new(),
            prepare: None,
            server: None,
            metric,
            changes: None,
            default: None,
            advice: None,
        }
    }

    /// The words of each program that it starts: the command, the one before each trial, and the server.
    pub fn commands(&self) -> impl Iterator<Item = &Vec<String>> {
        let server = self.server.as_ref().map(|server| &server.command);
        [Some(&self.command), self.prepare.as_ref(), server].into_iter().flatten()
    }

    /// The words of the command for a value, with the server at this address.
    ///
    /// # Errors
    /// When a count does not come out even.
    pub fn command_for(&self, value: &Level, server: IpAddr) -> Result<Vec<String>, TextError> {
        filled(self.by_value.get(&text(value)).unwrap_or(&self.command), value, server)
    }

    /// Whether the command and all its variants have a place for the address of the server.
    pub fn names_server(&self) -> bool {
        let all = self.by_value.values().chain([&self.command]);
        all.filter(|words| !words.is_empty()).all(|words| words.iter().any(|word| word.contains(SERVER)))
    }

    /// The words of the command that is run before.
    ///
    /// # Errors
    /// When a count does not come out even.
    pub fn prepare_for(&self, value: &Level, server: IpAddr) -> Result<Option<Vec<String>>, TextError> {
        self.prepare.as_ref().map(|words| filled(words, value, server)).transpose()
    }

    /// The server for a value.
    ///
    /// # Errors
    /// When a count does not come out even.
    pub fn server_for(&self, value: &Level, address: IpAddr) -> Result<Option<ServerTask>, TextError> {
        let fill = |server: &ServerTask| {
            let words = server.by_value.get(&text(value)).unwrap_or(&server.command);
            Ok(ServerTask { command: filled(words, value, address)?, by_value: BTreeMap::new(), ..server.clone() })
        };
        self.server.as_ref().map(fill).transpose()
    }

    /// Whether its server, and what runs before it, are the same with every value.
    pub fn has_fixed_server(&self) -> bool {
        let Some(server) = &self.server else { return false };
        let mut words = server.command.iter().chain(self.prepare.iter().flatten());
        server.by_value.is_empty() && !words.any(|word| has_place(word))
    }

    /// Refuses a task in which the value has no effect, and one that cannot take all of these values.
    ///
    /// # Errors
    /// The problem, and what to write instead.
    pub fn check(&self, values: &[Level]) -> Result<(), TextError> {
        let words = || self.commands().flatten();
        let servers = self.server.as_ref().is_some_and(|server| !server.by_value.is_empty());
        if self.by_value.is_empty() && self.changes.is_none() && !servers && !words().any(|word| has_place(word)) {
            return Err(no_place(words().find_map(|word| in_braces(word))));
        }
        for value in values {
            self.command_for(value, LOOPBACK)?;
            self.prepare_for(value, LOOPBACK)?;
            self.server_for(value, LOOPBACK)?;
        }
        Ok(())
    }

    /// The program's display name: `dd`.
    pub fn name(&self) -> String {
        let words = self.server.as_ref().map_or(&self.command, |server| &server.command);
        let first = match words.as_slice() {
            [shell, flag, script] if shell.ends_with("/sh") && flag == "-c" => first_word(script),
            [first, ..] => first,
            [] => "?",
        };
        first.rsplit('/').next().unwrap_or(first).to_owned()
    }
}

/// The error of a command without a placeholder, which may have another name in braces.
fn no_place(other: Option<String>) -> TextError {
    let place = other.map_or("the value, such as `dd bs={value} …`".into(), |other| format!("`{other}`"));
    TextError(format!("{{value}} is not in the command, so every run would be the same: write it in place of {place}"))
}

/// A name in braces that is no variable of a shell: `{size}`.
fn in_braces(word: &str) -> Option<String> {
    let (before, rest) = word.split_once('{')?;
    let (name, after) = rest.split_once('}')?;
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    if is_name && !before.ends_with('$') && name != "server" { Some(format!("{{{name}}}")) } else { in_braces(after) }
}

/// Whether a word has a placeholder.
fn has_place(word: &str) -> bool {
    word.contains(VALUE) || word.contains(PER_VALUE)
}

/// A value as written in a command: sizes in bytes.
pub fn text(value: &Level) -> String {
    value.to_string()
}

/// A text as words: a shell interprets it.
pub fn by_shell(text: &str) -> Vec<String> {
    ["/bin/sh", "-c", text].map(str::to_owned).to_vec()
}

/// The first word of a text for a shell that names a program.
pub(crate) fn first_word(script: &str) -> &str {
    script.split_whitespace().find(|word| *word != "exec" && !word.contains('=')).unwrap_or(script)
}

/// The words with a value in place of its placeholders.
fn filled(words: &[String], value: &Level, server: IpAddr) -> Result<Vec<String>, TextError> {
    shell::filled(words, |word| {
        let mut places = vec![(VALUE.to_owned(), text(value)), (SERVER.to_owned(), server.to_string())];
        for (at, _) in word.match_indices(PER_VALUE) {
            let (_, size) = word[..at].rsplit_once('{').ok_or_else(|| bad_count(word))?;
            places.push((format!("{{{size}{PER_VALUE}"), count(word, size, value)?));
        }
        Ok(shell::pieces(word, &places))
    })
}

fn bad_count(word: &str) -> TextError {
    TextError(format!("`{word}` is no count: write the bytes that every run moves, such as {{256M/value}}"))
}

/// The number of values in a size.
fn count(word: &str, size: &str, value: &Level) -> Result<String, TextError> {
    let bad = || bad_count(word);
    let Bytes(bytes) = size.parse().map_err(|_| bad())?;
    let each = value.number().or_else(|| value.name()?.parse().ok()).filter(|each| *each > 0);
    let each = each.ok_or_else(|| {
        TextError(format!(
            "{{…/value}} divides bytes by the value, but `{value}` is not a size: write values such as 4K"
        ))
    })?;
    if bytes % each != 0 || bytes == 0 {
        let (value, bytes) = (Bytes(each), Bytes(bytes));
        return Err(TextError(format!(
            "{value} does not divide the {bytes} of {{…/value}}: runs would not move the same; use a multiple of all values"
        )));
    }
    Ok((bytes / each).to_string())
}

impl FromStr for ReadyWhen {
    type Err = TextError;

    fn from_str(text: &str) -> Result<ReadyWhen, TextError> {
        let bad = || {
            let expected = "a test that a server is ready: use tcp:PORT, unix:PATH or regex:RE (of what it prints)";
            TextError::malformed(text, expected)
        };
        Ok(match text.split_once(':') {
            Some(("tcp", port)) => ReadyWhen::Tcp(port.parse().ok().filter(|port| *port > 0).ok_or_else(bad)?),
            Some(("unix", path)) if !path.is_empty() => ReadyWhen::Unix(path.into()),
            Some(("regex", pattern)) if !pattern.is_empty() => ReadyWhen::Printed(pattern.into()),
            _ => return Err(bad()),
        })
    }
}

impl fmt::Display for ReadyWhen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadyWhen::Tcp(port) => write!(f, "tcp:{port}"),
            ReadyWhen::Unix(path) => write!(f, "unix:{}", path.display()),
            ReadyWhen::Printed(pattern) => write!(f, "regex:{pattern}"),
        }
    }
}
text_serde!(ReadyWhen);

#[cfg(test)]
mod tests {
    use super::*;

    fn task(words: &[&str]) -> ProgramTask {
        ProgramTask::of(words.iter().map(|word| (*word).to_owned()).collect(), Metric::Wall)
    }

    fn check(words: &[&str], value: &Level, expected: Result<&str, &str>) {
        let task = task(words);
        let got = task.check(std::slice::from_ref(value)).and_then(|()| task.command_for(value, LOOPBACK));
        let got = got.map(|words| words.join(" ")).map_err(|error| error.to_string());
        assert_eq!(got.as_deref().map_err(String::as_str), expected, "{words:?}");
    }

    #[test]
    fn the_address_of_the_server_is_filled_in() {
        let far = IpAddr::from([198, 18, 0, 2]);
        let with = task(&["x", "{server}:7000"]);
        assert_eq!(with.command_for(&Level::Absent, far).unwrap(), ["x", "198.18.0.2:7000"]);
        assert!(with.names_server() && !task(&["x", "127.0.0.1:7000"]).names_server());
        let nowhere = no_place(None);
        assert_eq!(with.check(&[Level::Number(1)]), Err(nowhere), "it is no value");
    }

    #[test]
    fn a_value_replaces_all_placeholders() {
        check(&["dd", "bs={value}"], &Level::Number(4096), Ok("dd bs=4096"));
        check(&["x", "{value}", "--also={value}:{value}"], &Level::Name("lz4".into()), Ok("x lz4 --also=lz4:lz4"));
        check(&["dd", "bs={value}", "count={1M/value}"], &Level::Number(4096), Ok("dd bs=4096 count=256"));
        check(&["dd", "count={1M/value}"], &Level::Number(1 << 20), Ok("dd count=1"));
        let nowhere = no_place(None).to_string();
        check(&["dd", "bs=4096"], &Level::Number(1), Err(&nowhere));
        let other = no_place(Some("{size}".into())).to_string();
        assert!(other.ends_with("write it in place of `{size}`"), "{other}");
        check(&["sh", "-c", "x ${HOME} {a,b} bs={size}"], &Level::Number(1), Err(&other));
        check(
            &["dd", "count={1M/value}"],
            &Level::Number(3000),
            Err(
                "3000 B does not divide the 1 MiB of {…/value}: runs would not move the same; use a multiple of all values",
            ),
        );
        check(
            &["dd", "count={1M/value}"],
            &Level::Name("big".into()),
            Err("{…/value} divides bytes by the value, but `big` is not a size: write values such as 4K"),
        );
        check(
            &["dd", "count={big/value}"],
            &Level::Number(1),
            Err("`count={big/value}` is no count: write the bytes that every run moves, such as {256M/value}"),
        );
    }

    #[test]
    fn readiness_tests_round_trip() {
        for text in ["tcp:8080", "unix:/run/x.sock", "regex:listening"] {
            assert_eq!(text.parse::<ReadyWhen>().unwrap().to_string(), text);
        }
        for text in ["tcp", "tcp:0", "tcp:99999", "unix:", "8080"] {
            assert!(text.parse::<ReadyWhen>().is_err(), "{text}");
        }
    }

    #[test]
    fn programs_are_named_by_their_first_word() {
        assert_eq!(task(&["/usr/bin/dd", "bs={value}"]).name(), "dd");
        assert_eq!(ProgramTask { command: by_shell("A=1 exec socat -b {value} - -"), ..task(&[]) }.name(), "socat");
    }
}
