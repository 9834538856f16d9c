//! Relays that run already: whether one listens, and which processes' CPU time is charged to it.
//!
//! Everything is read from `/proc`: a connection to test it would reach the end behind it.

use std::collections::BTreeSet;
use std::io;

use bytegauge_model::RunningRelay;
use bytegauge_sys::descendants::{self, TreeUse};
use bytegauge_sys::{listening, socket_holders};

use crate::end_error::EndError;

/// The context of errors while reading `/proc`.
const LOOKING: &str = "looking for the processes of a relay that runs already";

/// The reason why a relay that runs already cannot be used, if any, with the next step.
pub fn lacks_running(relay: &RunningRelay) -> Option<String> {
    if listening::sockets_at(relay.listen).is_empty() {
        return Some(format!(
            "nothing listens at {} in this network namespace, the address of the relay in --relay {relay}: start it, or \
             correct the address",
            relay.listen
        ));
    }
    let gone = relay.pid.filter(|pid| descendants::tree(*pid).is_ok_and(|tree| tree.is_empty()));
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
pub(crate) fn charged(relay: &RunningRelay) -> Result<Charged, EndError> {
    found(relay).map_err(EndError::io(LOOKING))
}

fn found(relay: &RunningRelay) -> io::Result<Charged> {
    let found: BTreeSet<u32> = match relay.pid {
        Some(pid) => BTreeSet::from([pid]),
        None => socket_holders::of(&listening::sockets_at(relay.listen)).into_values().flatten().collect(),
    };
    let above = descendants::ancestry()?;
    let roots = descendants::heads(&found.difference(&above).copied().collect())?;
    let named: Vec<String> = roots.iter().map(|pid| format!("{} (pid {pid})", socket_holders::name(*pid))).collect();
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
    let roots = found(relay).map(|charged| charged.roots).unwrap_or_default();
    let trees = roots.into_iter().filter_map(|pid| descendants::tree(pid).ok());
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
        roots.extend(found(relay)?.roots);
    }
    if roots.is_empty() { Ok(TreeUse::default()) } else { descendants::used_by(&roots) }
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
        match descendants::used_by(&self.roots).map_err(EndError::io(LOOKING))? {
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
        let now = charged(&self.relay)?.roots;
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
