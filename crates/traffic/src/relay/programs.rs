//! Relays that are programs: whether one is installed or runs already, its version and configuration, and which processes' CPU time
//! is charged to it.
//!
//! Never runs one as a relay. Facts about a running one come from `/proc`: a connection to test it would reach the end behind it.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use bytegauge_model::relay_program::RelayConfig;
use bytegauge_model::{RelayPlaces, RelayProgram, RunningRelay};
use bytegauge_sys::children::in_own_session;
use bytegauge_sys::input::RELAY_CONFIG;
use bytegauge_sys::new_file::create_fresh;
use bytegauge_sys::process::ended_within;
use bytegauge_sys::process_tree::{self, TreeUse};
use bytegauge_sys::{listening, program_file};

use crate::EndError;

/// Longest time for a program to print its version.
const VERSION_TIME: Duration = Duration::from_secs(2);

/// Most bytes of its output to read.
const VERSION_BYTES: u64 = 4096;

/// The reason why this machine cannot run a program, if any, with the next step; checked before a plan is made. A command of
/// the user's is not checked, since the shell reports its errors.
pub fn lacks_program(program: &RelayProgram) -> Option<String> {
    if let Some(RelayConfig::File(file)) = &program.config
        && let Err(error) = RELAY_CONFIG.read(file)
    {
        return Some(format!("the relay's configuration {} cannot be read ({error}): check its path", file.display()));
    }
    let install = program.install.as_ref()?;
    match program_file::find_program(program.command.first()?) {
        Some(_) => None,
        None => Some(format!(
            "{} is not installed here: {install}, or leave out --relay {}",
            program.command[0], program.name
        )),
    }
}

/// The words that start a program, with their placeholders filled in; writes its configuration to the path in them.
///
/// # Errors
/// [`EndError::Program`] if its configuration cannot be read or written.
pub(crate) fn words(program: &RelayProgram, places: &RelayPlaces) -> Result<Vec<String>, EndError> {
    let at = |path: &Path, error: &dyn Display| {
        EndError::Program(format!("the relay's configuration {}: {error}: check the file", path.display()))
    };
    let text = match &program.config {
        None => None,
        Some(RelayConfig::Text(text)) => Some(text.clone()),
        Some(RelayConfig::File(file)) => Some(RELAY_CONFIG.read(file).map_err(|error| at(file, &error))?),
    };
    if let Some(text) = text {
        let written = create_fresh(&places.config).and_then(|mut file| file.write_all(places.fill(&text).as_bytes()));
        written.map_err(|error| at(&places.config, &error))?;
    }
    let mut words: Vec<String> = places.fill_words(&program.command);
    if let Some(path) = words.first().and_then(|first| program_file::find_program(first)) {
        words[0] = path.display().to_string();
    }
    Ok(words)
}

/// A program's version: the first line of its output that contains `version`, or the first line.
pub(crate) fn version(program: &RelayProgram) -> Option<String> {
    let (first, rest) = program.version.split_first()?;
    let mut command = Command::new(program_file::find_program(first)?);
    command.args(rest).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    in_own_session(&mut command, &[]);
    let mut child = command.spawn().ok()?;
    let ended = ended_within(&mut child, VERSION_TIME, Duration::from_millis(1)).is_some_and(|status| status.success());
    let text = |stream: &mut dyn Read| {
        let mut text = Vec::new();
        let read = stream.take(VERSION_BYTES).read_to_end(&mut text);
        read.map(|_| String::from_utf8_lossy(&text).into_owned()).unwrap_or_default()
    };
    // If it was killed, its descendants may still have the other ends of the pipes.
    if !ended {
        return None;
    }
    let mut printed = child.stdout.take().map(|mut out| text(&mut out)).unwrap_or_default();
    printed += &child.stderr.take().map(|mut out| text(&mut out)).unwrap_or_default();
    let mut lines = printed.lines().map(str::trim).filter(|line| !line.is_empty());
    let named = lines.clone().find(|line| line.to_lowercase().contains("version"));
    named.or_else(|| lines.next()).map(str::to_owned)
}

/// The context of errors while reading `/proc`.
pub(crate) const READING: &str = "looking for the processes of a relay that runs already";

/// The reason why a relay that runs already cannot be used, if any, with the next step.
pub fn lacks_running(relay: &RunningRelay) -> Option<String> {
    if listening::sockets_at(relay.listen).is_empty() {
        return Some(format!(
            "nothing listens at {} in this network namespace, the address of the relay in --relay {relay}: start it, or \
             correct the address",
            relay.listen
        ));
    }
    let gone = relay.pid.filter(|pid| process_tree::tree(*pid).is_ok_and(|tree| tree.is_empty()));
    gone.map(|pid| format!("no process {pid} runs: correct the @{pid} of --relay {relay}, or leave it out"))
}

/// The processes charged for a relay that runs already, as found at one moment.
pub(crate) struct Charged {
    relay: RunningRelay,
    /// None of them is a descendant of another.
    roots: BTreeSet<u32>,
    /// A description of them, or the reason why there are none.
    pub(crate) text: String,
}

/// Finds the charged processes: the named one, or all that have a socket which listens for the relay, each with its
/// descendants. Ancestors of this process are not charged: they hold the socket for another one, and our own processes are
/// their descendants.
pub(crate) fn charged(relay: &RunningRelay) -> io::Result<Charged> {
    let found: BTreeSet<u32> = match relay.pid {
        Some(pid) => BTreeSet::from([pid]),
        None => listening::of(&listening::sockets_at(relay.listen)).into_values().flatten().collect(),
    };
    let above = process_tree::ancestry()?;
    let roots = process_tree::heads(&found.difference(&above).copied().collect())?;
    let named: Vec<String> =
        roots.iter().map(|pid| format!("{} (pid {pid})", process_tree::name(*pid).unwrap_or_default())).collect();
    let text = match (named.is_empty(), found.is_empty()) {
        (false, _) => format!("the process tree of {}, which ran already", named.join(", ")),
        (true, true) => format!(
            "no process, since this user may not see which one has {}: add @PID to the relay's addresses, or run as root",
            relay.listen
        ),
        (true, false) => {
            "no process, since the one found has started this program as well: give the @PID of another one".to_owned()
        }
    };
    Ok(Charged { relay: relay.clone(), roots, text })
}

/// The charged processes, each with its descendants.
pub fn processes_of(relay: &RunningRelay) -> Vec<u32> {
    let roots = charged(relay).map(|charged| charged.roots).unwrap_or_default();
    let trees = roots.into_iter().filter_map(|pid| process_tree::tree(pid).ok());
    trees.flatten().collect::<BTreeSet<u32>>().into_iter().collect()
}

/// The resources that all of them have used until now, each process counted once.
///
/// # Errors
///
/// When `/proc` cannot be read.
pub fn used_by_running(relays: &[RunningRelay]) -> io::Result<TreeUse> {
    let mut roots = BTreeSet::new();
    for relay in relays {
        roots.extend(charged(relay)?.roots);
    }
    if roots.is_empty() { Ok(TreeUse::default()) } else { process_tree::used_by(&roots) }
}

impl Charged {
    /// The resources that they have used until now; none if no process can be charged.
    ///
    /// # Errors
    /// [`EndError::Program`] if none of them runs any more, [`EndError::Io`] if `/proc` cannot be read.
    pub(crate) fn used(&self) -> Result<TreeUse, EndError> {
        if self.roots.is_empty() {
            return Ok(TreeUse::default());
        }
        match process_tree::used_by(&self.roots).map_err(EndError::io(READING))? {
            used if used.processes == 0 => Err(self.replaced(&BTreeSet::new())),
            used => Ok(used),
        }
    }

    /// Checks whether the same processes still have the relay's sockets: the use of a process that has gone is unknown, and
    /// that of a new one was not read when the window opened.
    ///
    /// # Errors
    /// [`EndError::Program`] if they are others, [`EndError::Io`] if `/proc` cannot be read.
    pub(crate) fn stayed(&self) -> Result<(), EndError> {
        let now = charged(&self.relay).map_err(EndError::io(READING))?.roots;
        if now == self.roots { Ok(()) } else { Err(self.replaced(&now)) }
    }

    fn replaced(&self, now: &BTreeSet<u32>) -> EndError {
        let named = |pids: &BTreeSet<u32>| match pids.is_empty() {
            true => "no process".to_owned(),
            false => format!("pid {}", pids.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")),
        };
        EndError::Program(format!(
            "the relay at {} was {} at the first check and {} later, so that its use is unknown: measure it \
             while nothing restarts it, or add the @PID of their parent process to the relay's addresses",
            self.relay.listen,
            named(&self.roots),
            named(now)
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn missing_program_is_reported_with_its_package() {
        let mut program = RelayProgram::of("haproxy").unwrap();
        program.command[0] = "no-such-proxy-anywhere".into();
        let reason = lacks_program(&program).unwrap();
        assert!(reason.contains("no-such-proxy-anywhere is not installed") && reason.contains("apt-get"), "{reason}");
        program.command[0] = "sh".into();
        assert_eq!(lacks_program(&program), None);
        let program = RelayProgram::of("cmd:x {config:/no/such/file}").unwrap();
        assert!(lacks_program(&program).unwrap().contains("/no/such/file cannot be read"));
    }

    #[test]
    fn version_is_the_line_with_the_word() {
        let of = |script: &str| {
            let words = ["sh", "-c", script].map(str::to_owned).to_vec();
            version(&RelayProgram { version: words, ..RelayProgram::of("socat").unwrap() })
        };
        assert_eq!(of("echo x by Y; echo x Version 3 >&2; echo z").as_deref(), Some("x Version 3"));
        assert_eq!(of("echo; echo proxy 4.5").as_deref(), Some("proxy 4.5"));
        assert_eq!(of("echo unknown argument; exit 2"), None);
        assert_eq!(of("true"), None);
    }

    #[test]
    fn placeholders_of_a_configuration_are_filled_in() {
        let folder = tempfile::tempdir().unwrap();
        let places = RelayPlaces {
            listen: "127.0.0.1:4711".parse().unwrap(),
            upstream: "127.0.0.1:4712".parse().unwrap(),
            folder: folder.path().into(),
            config: folder.path().join("relay.conf"),
        };
        let template = folder.path().join("mine");
        fs::write(&template, "from {listen} to {upstream.port}").unwrap();
        let program = RelayProgram::of(&format!("cmd:x -f {{config:{}}}", template.display())).unwrap();
        let words = words(&program, &places).unwrap();
        assert_eq!(words[2], format!("x -f {}", places.config.display()));
        assert_eq!(fs::read_to_string(&places.config).unwrap(), "from 127.0.0.1:4711 to 4712");
    }
}

#[cfg(test)]
mod running_tests {
    use std::net::TcpListener;
    use std::os::fd::OwnedFd;
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    use super::*;

    /// The result once it is as expected, or the last one: a process that another test is starting has a copy of every
    /// descriptor for a moment.
    fn soon<T>(look: impl Fn() -> T, is: impl Fn(&T) -> bool) -> T {
        let began = Instant::now();
        let mut looks = std::iter::repeat_with(|| {
            std::thread::yield_now();
            look()
        });
        looks.find(|found| is(found) || began.elapsed() > Duration::from_secs(60)).expect("looks without an end")
    }

    #[test]
    fn relay_needs_a_listener_and_a_running_process() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let of = |pid: &str| {
            format!("addr:{}=127.0.0.1:1{pid}", listener.local_addr().unwrap()).parse::<RunningRelay>().unwrap()
        };
        assert_eq!(lacks_running(&of("")), None);
        assert_eq!(lacks_running(&of(&format!("@{}", std::process::id()))), None);
        let mut gone = Command::new("true").spawn().unwrap();
        gone.wait().unwrap();
        let message = lacks_running(&of(&format!("@{}", gone.id()))).unwrap();
        assert!(message.contains("runs: correct the @"), "{message}");
        let relay = of("");
        drop(listener);
        let message = soon(|| lacks_running(&relay), Option::is_some).unwrap();
        assert!(message.contains("nothing listens at 127.0.0.1:") && message.contains("start it"), "{message}");
    }

    #[test]
    fn ancestors_are_not_charged() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let relay = |pid: &str| format!("addr:{}=:1{pid}", listener.local_addr().unwrap()).parse().unwrap();
        let ours = soon(|| charged(&relay("")).unwrap(), |charged| charged.roots.is_empty());
        assert!(ours.text.starts_with("no process, since the one found has started this program"), "{}", ours.text);
        assert_eq!(ours.used().unwrap(), TreeUse::default());
        let mut child = Command::new("sleep").arg("3600").stdin(Stdio::null()).spawn().unwrap();
        let theirs = charged(&relay(&format!("@{}", child.id()))).unwrap();
        let used = theirs.used().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        // This is not the same as no use.
        let message = theirs.used().unwrap_err().to_string();
        assert!(
            message.contains(&format!("was pid {} at the first check", child.id()))
                && message.contains("no process later"),
            "{message}"
        );
        assert!(theirs.text.contains(&format!("(pid {})", child.id())), "{}", theirs.text);
        assert_eq!(used.processes, 1);
    }

    #[test]
    fn relay_with_a_lost_process_is_not_charged() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let relay: RunningRelay = format!("addr:{}=:1", listener.local_addr().unwrap()).parse().unwrap();
        let [mut first, mut second] = [(), ()].map(|()| {
            let held = OwnedFd::from(listener.try_clone().unwrap());
            Command::new("sleep").arg("3600").stdin(Stdio::from(held)).spawn().unwrap()
        });
        drop(listener);
        let expected = BTreeSet::from([first.id(), second.id()]);
        let both = soon(|| charged(&relay).unwrap(), |charged| charged.roots == expected);
        let stayed = soon(|| both.stayed(), Result::is_ok);
        first.kill().unwrap();
        first.wait().unwrap();
        let later = format!("and pid {} later", second.id());
        let is_reported =
            |stayed: &Result<(), EndError>| stayed.as_ref().is_err_and(|fault| fault.to_string().contains(&later));
        let gone = soon(|| both.stayed(), is_reported);
        second.kill().unwrap();
        second.wait().unwrap();
        assert!(stayed.is_ok(), "{stayed:?}");
        assert!(is_reported(&gone), "{gone:?}");
    }
}
