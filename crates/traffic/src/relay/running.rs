//! Relays that run already: whether one is there, and whose CPU time is its own.
//!
//! Everything is read off `/proc`: who connected to find out would reach the end behind it.

use std::collections::BTreeSet;
use std::io;

use bytegauge_model::RunningRelay;
use bytegauge_sys::descendants::{self, TreeUse};
use bytegauge_sys::{holders, listening};

use crate::fault::Fault;

/// What is done where `/proc` is read.
const LOOKING: &str = "looking for the processes of a relay that runs already";

/// What is missing of a relay that runs already, if anything, with the next step.
pub fn lacks_running(relay: &RunningRelay) -> Option<String> {
    if listening::sockets_at(relay.listen).is_empty() {
        return Some(format!(
            "nothing listens at {} in this network namespace, where --relay {relay} says that a relay runs: start it, or \
             correct the address",
            relay.listen
        ));
    }
    let gone = relay.pid.filter(|pid| descendants::tree(*pid).is_ok_and(|tree| tree.is_empty()));
    gone.map(|pid| format!("no process {pid} runs: correct the @{pid} of --relay {relay}, or leave it out"))
}

/// Who is charged for a relay that runs already, as found at one moment.
pub(crate) struct Charged {
    relay: RunningRelay,
    /// None of them is below another one.
    roots: BTreeSet<u32>,
    /// The same in words, or why it is nobody.
    pub(crate) text: String,
}

/// Finds who is charged: the process that was named, or all that hold a socket which listens for the relay, each with its
/// tree. Whoever is above this process is not: it holds the socket for another one, and what we run is in its tree as well.
pub(crate) fn charged(relay: &RunningRelay) -> Result<Charged, Fault> {
    found(relay).map_err(Fault::io(LOOKING))
}

fn found(relay: &RunningRelay) -> io::Result<Charged> {
    let found: BTreeSet<u32> = match relay.pid {
        Some(pid) => BTreeSet::from([pid]),
        None => holders::of(&listening::sockets_at(relay.listen)).into_values().flatten().collect(),
    };
    let above = descendants::ancestry()?;
    let roots = descendants::heads(&found.difference(&above).copied().collect())?;
    let named: Vec<String> = roots.iter().map(|pid| format!("{} (pid {pid})", holders::name(*pid))).collect();
    let text = match (named.is_empty(), found.is_empty()) {
        (false, _) => format!("the process tree of {}, which ran already", named.join(", ")),
        (true, true) => format!(
            "nobody, since this user may not see who holds {}: say @PID behind the relay's addresses, or run as root",
            relay.listen
        ),
        (true, false) => {
            "nobody, since the process has started this program as well: say the @PID of another one".to_owned()
        }
    };
    Ok(Charged { relay: relay.clone(), roots, text })
}

/// The processes that are charged, each with its descendants.
pub fn processes_of(relay: &RunningRelay) -> Vec<u32> {
    let roots = found(relay).map(|charged| charged.roots).unwrap_or_default();
    let trees = roots.into_iter().filter_map(|pid| descendants::tree(pid).ok());
    trees.flatten().collect::<BTreeSet<u32>>().into_iter().collect()
}

/// What all of them have used until now, each process once.
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
    /// What they have used until now; nothing, where nobody can be charged.
    ///
    /// # Errors
    /// [`Fault::Program`] if none of them runs any more, [`Fault::Io`] if `/proc` cannot be read.
    pub(crate) fn used(&self) -> Result<TreeUse, Fault> {
        if self.roots.is_empty() {
            return Ok(TreeUse::default());
        }
        match descendants::used_by(&self.roots).map_err(Fault::io(LOOKING))? {
            used if used.processes == 0 => Err(self.replaced(&BTreeSet::new())),
            used => Ok(used),
        }
    }

    /// Looks whether they are still who holds the relay's sockets: of one that has gone nobody knows what it used, and what
    /// came in its place was not looked at when the window opened.
    ///
    /// # Errors
    /// [`Fault::Program`] if they are others, [`Fault::Io`] if `/proc` cannot be read.
    pub(crate) fn stayed(&self) -> Result<(), Fault> {
        let now = charged(&self.relay)?.roots;
        if now == self.roots { Ok(()) } else { Err(self.replaced(&now)) }
    }

    fn replaced(&self, now: &BTreeSet<u32>) -> Fault {
        let named = |pids: &BTreeSet<u32>| match pids.is_empty() {
            true => "nobody".to_owned(),
            false => format!("pid {}", pids.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")),
        };
        Fault::Program(format!(
            "the relay at {} was {} when it was looked at first and {} later, so that nobody knows what it used: measure it \
             while nothing restarts it, or say the @PID of the process above them behind the relay's addresses",
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

    use super::*;

    /// What is found once it is as it should be, or what it is in the end: who is being started by another test holds a copy of
    /// every descriptor for a moment.
    fn soon<T>(look: impl Fn() -> T, is: impl Fn(&T) -> bool) -> T {
        std::iter::repeat_with(&look).take(1000).find(is).unwrap_or_else(look)
    }

    #[test]
    fn a_relay_is_there_as_long_as_somebody_listens_and_its_process_runs() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let of = |pid: &str| {
            format!("addr:{}=127.0.0.1:1{pid}", listener.local_addr().unwrap()).parse::<RunningRelay>().unwrap()
        };
        assert_eq!(lacks_running(&of("")), None);
        assert_eq!(lacks_running(&of(&format!("@{}", std::process::id()))), None);
        let mut gone = Command::new("true").spawn().unwrap();
        gone.wait().unwrap();
        let said = lacks_running(&of(&format!("@{}", gone.id()))).unwrap();
        assert!(said.contains("runs: correct the @"), "{said}");
        let relay = of("");
        drop(listener);
        let said = soon(|| lacks_running(&relay), Option::is_some).unwrap();
        assert!(said.contains("nothing listens at 127.0.0.1:") && said.contains("start it"), "{said}");
    }

    #[test]
    fn whoever_is_above_us_is_not_charged() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let relay = |pid: &str| format!("addr:{}=:1{pid}", listener.local_addr().unwrap()).parse().unwrap();
        let ours = soon(|| charged(&relay("")).unwrap(), |charged| charged.roots.is_empty());
        assert!(ours.text.starts_with("nobody, since the process has started this program"), "{}", ours.text);
        assert_eq!(ours.used().unwrap(), TreeUse::default());
        let mut child = Command::new("sleep").arg("3600").stdin(Stdio::null()).spawn().unwrap();
        let theirs = charged(&relay(&format!("@{}", child.id()))).unwrap();
        let used = theirs.used().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        // Not that it has used nothing.
        let said = theirs.used().unwrap_err().to_string();
        assert!(said.contains(&format!("was pid {} when", child.id())) && said.contains("nobody later"), "{said}");
        assert!(theirs.text.contains(&format!("(pid {})", child.id())), "{}", theirs.text);
        assert_eq!(used.processes, 1);
    }

    #[test]
    fn one_of_which_a_part_has_gone_is_not_charged_for_the_rest_alone() {
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
        let says_so =
            |stayed: &Result<(), Fault>| stayed.as_ref().is_err_and(|fault| fault.to_string().contains(&later));
        let gone = soon(|| both.stayed(), says_so);
        second.kill().unwrap();
        second.wait().unwrap();
        assert!(stayed.is_ok(), "{stayed:?}");
        assert!(says_so(&gone), "{gone:?}");
    }
}
