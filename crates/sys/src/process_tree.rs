//! Processes, their trees and the resources that a tree has used: from `/proc/PID/stat`. A tree is that of the calling process,
//! adopted children included, or that of other processes.
//!
//! For a live process the CPU clock is exact; the time of children that it has waited for comes in ticks
//! (proc_pid_stat(5)). One reading walks through `/proc` once; the difference of two readings is the use between them.
//!
//! Never sends a signal.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::{fs, io, iter};

use crate::cpu_time::counts;
use crate::proc_stat::tick_ns;
use crate::process;

/// Resources used by descendants until now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeUse {
    /// Processes that live.
    pub processes: u64,
    /// CPU time, nanoseconds.
    pub cpu_ns: u64,
    /// CPU time in user mode, in ticks, nanoseconds.
    pub user_ns: u64,
    /// CPU time in the kernel, in ticks, nanoseconds.
    pub system_ns: u64,
}

// The use of processes that have ended since is missing, unless they were waited for within the tree.
counts!(TreeUse { cpu_ns, user_ns, system_ns } keeps { processes });

/// Reads the use of all descendants of the calling process.
///
/// # Errors
///
/// When `/proc` cannot be read.
pub fn used() -> io::Result<TreeUse> {
    let (all, own) = (processes()?, BTreeSet::from([std::process::id()]));
    Ok(sum(all.iter().filter(|(_, stat)| above(&all, stat.parent).any(|pid| own.contains(&pid)))))
}

/// Reads the use of processes and all their descendants.
///
/// # Errors
///
/// When `/proc` cannot be read.
pub fn used_by(roots: &BTreeSet<u32>) -> io::Result<TreeUse> {
    let all = processes()?;
    Ok(sum(all.iter().filter(|(pid, _)| above(&all, **pid).any(|pid| roots.contains(&pid)))))
}

/// The calling process and all its ancestors.
///
/// # Errors
///
/// When `/proc` cannot be read.
pub fn ancestry() -> io::Result<BTreeSet<u32>> {
    let all = processes()?;
    Ok(above(&all, std::process::id()).collect())
}

/// The processes that are not below another one of the set: their trees contain all of them.
///
/// # Errors
///
/// When `/proc` cannot be read.
pub fn heads(of: &BTreeSet<u32>) -> io::Result<BTreeSet<u32>> {
    let all = processes()?;
    Ok(of.iter().copied().filter(|pid| !above(&all, *pid).skip(1).any(|parent| of.contains(&parent))).collect())
}

/// A process, its parent, and so on. A chain of parents is at most as long as the number of processes.
fn above(all: &BTreeMap<u32, Stat>, pid: u32) -> impl Iterator<Item = u32> {
    iter::successors(Some(pid), |pid| Some(all.get(pid)?.parent)).take(all.len() + 1)
}

fn sum<'a>(processes: impl Iterator<Item = (&'a u32, &'a Stat)>) -> TreeUse {
    let mut sum = TreeUse::default();
    for (pid, stat) in processes {
        let ticks = |range: Range<usize>| stat.ticks[range].iter().sum::<u64>() * tick_ns();
        // For a process that has ended meanwhile, or is a zombie, only its ticks are known.
        sum.cpu_ns += process::cpu_time_ns(*pid).unwrap_or_else(|_| ticks(0..2)) + ticks(2..4);
        sum.user_ns += ticks(0..1) + ticks(2..3);
        sum.system_ns += ticks(1..2) + ticks(3..4);
        sum.processes += u64::from(stat.lives());
    }
    sum
}

/// A process and all its descendants that have not ended, from `/proc`.
///
/// # Errors
///
/// When `/proc` cannot be read.
pub fn tree(root: u32) -> io::Result<BTreeSet<u32>> {
    let all = processes()?;
    let mut found = BTreeSet::from([root]);
    loop {
        let is_new = |(pid, stat): &(&u32, &Stat)| stat.lives() && found.contains(&stat.parent) && !found.contains(pid);
        let more: Vec<u32> = all.iter().filter(is_new).map(|(pid, _)| *pid).collect();
        if more.is_empty() {
            found.retain(|pid| all.get(pid).is_some_and(Stat::lives));
            return Ok(found);
        }
        found.extend(more);
    }
}

/// CPU time in user mode of all threads of a process, ended ones included, ns, in ticks (proc_pid_stat(5)); `None` if
/// the process does not exist.
pub fn user_ns(pid: u32) -> Option<u64> {
    Some(Stat::of(pid)?.ticks[0] * tick_ns())
}

/// CPU time of every live process of the machine, without its children, ns, in ticks (proc_pid_stat(5)), by process
/// number.
///
/// # Errors
///
/// When `/proc` cannot be read.
pub fn used_by_each() -> io::Result<BTreeMap<u32, u64>> {
    let own = |stat: Stat| (stat.ticks[0] + stat.ticks[1]) * tick_ns();
    Ok(processes()?.into_iter().map(|(pid, stat)| (pid, own(stat))).collect())
}

/// The name of a process, at most 15 bytes (proc_pid_comm(5)); `None` if it does not exist.
pub fn name(pid: u32) -> Option<String> {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(name.trim_end().replace(char::is_control, "?"))
}

/// The process of a thread; `None` if it does not exist.
pub(crate) fn process_of(thread: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok())
}

/// Whether a process is stopped, by a signal or a tracer (proc_pid_stat(5), `T` and `t`); `None` if it does not exist.
pub fn is_stopped(pid: u32) -> Option<bool> {
    Stat::of(pid).filter(Stat::lives).map(|stat| matches!(stat.state, 'T' | 't'))
}

/// The needed fields of `/proc/PID/stat`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stat {
    state: char,
    pub(crate) parent: u32,
    /// Its leader (setsid(2)); 0 if that is outside of this process namespace.
    pub(crate) session: u32,
    /// `utime`, `stime`, and the same of the children that were waited for.
    ticks: [u64; 4],
    /// Clock ticks since boot.
    pub(crate) start_ticks: u64,
}

impl Stat {
    /// Of a process; `None` if it does not exist.
    pub(crate) fn of(pid: u32) -> Option<Stat> {
        Stat::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Whether it has not ended.
    pub(crate) fn lives(&self) -> bool {
        !matches!(self.state, 'Z' | 'X')
    }

    fn parse(text: &str) -> Option<Stat> {
        // The name in brackets may contain any character; the fields after it do not contain brackets.
        let mut rest = text.rsplit(')').next()?.split_whitespace();
        let state = rest.next()?.chars().next()?;
        let parent = rest.next()?.parse().ok()?;
        // The first after the parent is field 5, the session field 6, `utime` field 14, `starttime` field 22.
        let session = rest.nth(1)?.parse().ok()?;
        let mut ticks = rest.skip(7).map(|field| field.parse().unwrap_or(0));
        let used = [ticks.next()?, ticks.next()?, ticks.next()?, ticks.next()?];
        Some(Stat { state, parent, session, ticks: used, start_ticks: ticks.nth(4)? })
    }
}

/// All processes by number. One that ends meanwhile does not count.
pub(crate) fn processes() -> io::Result<BTreeMap<u32, Stat>> {
    Ok(numbers("/proc")?.filter_map(|pid| Some((pid, Stat::of(pid)?))).collect())
}

/// The numbers among the names in a folder of `/proc`: of processes, threads or descriptors.
pub(crate) fn numbers(folder: &str) -> io::Result<impl Iterator<Item = u32> + use<>> {
    Ok(fs::read_dir(folder)?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()))
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_line_is_read_with_any_name() {
        let text = "7 (a) R 9 (x)) S 3 7 7 0 -1 4194304 1 2 3 4 50 60 70 80 20 0 1 0 5 6 7";
        let stat = Stat::parse(text).unwrap();
        assert_eq!((stat.state, stat.parent, stat.ticks, stat.start_ticks), ('S', 3, [50, 60, 70, 80], 5));
        assert!(Stat::parse("7 (a) S 3").is_none());
    }

    #[test]
    fn grandchildren_and_reaped_children_count() {
        // One child works and is waited for, another one waits.
        let script = "sh -c 'i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done'; sleep 3600 & echo ready; wait";
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::piped());
        crate::children::in_own_session(&mut command, &[]);
        let before = used().unwrap();
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let all = processes().unwrap();
        let sleeps = all.values().filter(|stat| stat.parent == child.id()).count();
        let now = used().unwrap();
        let [alone, with_ours] = [child.id(), std::process::id()].map(|pid| used_by(&BTreeSet::from([pid])).unwrap());
        let heads = heads(&BTreeSet::from([child.id(), std::process::id()]));
        crate::children::signal_group(child.id(), 9);
        child.wait().unwrap();
        assert_eq!((line.trim(), sleeps), ("ready", 1));
        // Other tests may have children meanwhile, so only lower bounds are known.
        assert!(now.processes >= 2 && now.cpu_ns > 0 && now.since(&before).processes == now.processes);
        assert_eq!(heads.unwrap(), BTreeSet::from([std::process::id()]));
        assert!(alone.processes == 2 && alone.cpu_ns > 0 && with_ours.processes > alone.processes);
        assert!(
            ancestry().unwrap().contains(&std::process::id())
                && used_by(&BTreeSet::new()).unwrap() == TreeUse::default()
        );
    }
}
