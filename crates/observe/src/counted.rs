//! Counts of a program's descriptors while samples are taken.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use bytegauge_sys::trace::{self, Way};
use bytegauge_sys::{listening, process_tree};

use crate::call_counts::OneWay;
use crate::descriptor::{self, InspectedFd, PeerProcess};
use crate::observations::EndView;

/// Counts of one descriptor.
#[derive(Debug)]
pub(super) struct FdCounts {
    pid: u32,
    pub(super) end: InspectedFd,
    read: OneWay,
    written: OneWay,
    turns: Turns,
    life: Life,
}

/// Changes between reading and writing on a descriptor.
#[derive(Debug, Default)]
struct Turns {
    count: u64,
    last: Option<Way>,
    /// Bytes and calls of the present turn; `None` where its begin was not seen.
    present: Option<(u64, u64)>,
}

impl Turns {
    /// Counts a call that moved bytes one way. Returns the bytes and calls of the turn the other way that it ends, if that was seen
    /// whole.
    fn moved(&mut self, way: Way, bytes: u64) -> Option<(Way, (u64, u64))> {
        let before = self.last.replace(way).filter(|last| *last != way);
        self.count += u64::from(before.is_some());
        let ended = before.and_then(|last| Some((last, self.present.replace((0, 0))?)));
        self.present = self.present.map(|(so_far, calls)| (so_far + bytes, calls + 1));
        ended
    }
}

impl FdCounts {
    fn new(pid: u32, end: InspectedFd) -> FdCounts {
        let (read, written) = (OneWay::default(), OneWay::default());
        FdCounts { pid, end, read, written, turns: Turns::default(), life: Life::default() }
    }

    fn bytes(&self) -> u64 {
        self.read.totals.bytes + self.written.totals.bytes
    }
}

/// The program that a process runs.
#[derive(Clone, Debug, Default)]
pub(super) struct RunningProgram {
    pub(super) name: String,
    pub(super) command: Vec<String>,
    file: Option<PathBuf>,
}

impl RunningProgram {
    fn of(pid: u32) -> RunningProgram {
        RunningProgram { name: descriptor::name_of(pid), command: command_of(pid), file: file_of(pid) }
    }
}

/// All counts so far.
#[derive(Debug, Default)]
pub(super) struct ProgramCounts {
    /// By process and descriptor: those that are open, as far as observed.
    open: BTreeMap<(u32, i32), FdCounts>,
    closed: Vec<FdCounts>,
    /// By process and thread: those that moved bytes of the program's own.
    threads: BTreeMap<(u32, u32), Life>,
    threads_gone: Vec<Life>,
    /// Counts observations: their order is the only measure of time.
    moment: u64,
    pub(super) waits: u64,
    pub(super) uring: (u64, u64),
    /// The program that every observed process runs, or ran last.
    pub(super) programs: BTreeMap<u32, RunningProgram>,
}

/// The result of the counting.
#[derive(Debug)]
pub(super) struct Summary {
    pub(super) ends: Vec<EndView>,
    /// The process that moved most of the bytes, except those read at its start.
    pub(super) worker: u32,
    /// Threads that moved bytes of the program's own: in all, and the most that lived at once.
    pub(super) threads: (u64, u64),
}

impl ProgramCounts {
    /// Registers a process that made a call: its program is read once.
    pub(super) fn met(&mut self, pid: u32) {
        self.programs.entry(pid).or_insert_with(|| RunningProgram::of(pid));
    }

    fn flow(&mut self, pid: u32, fd: i32) -> Option<&mut FdCounts> {
        match self.open.entry((pid, fd)) {
            Entry::Occupied(flow) => Some(flow.into_mut()),
            Entry::Vacant(place) => {
                let program = self.programs.get(&pid)?;
                let end = InspectedFd::look(pid, fd, &program.name, &program.command)?;
                Some(place.insert(FdCounts::new(pid, end)))
            }
        }
    }

    pub(super) fn moved(&mut self, pid: u32, thread: u32, name: &'static str, transfer: &trace::Transfer) {
        self.moment += 1;
        let moment = self.moment;
        self.met(pid);
        let Some(flow) = self.flow(pid, transfer.fd) else { return };
        let side = match transfer.way {
            Way::In => &mut flow.read,
            Way::Out => &mut flow.written,
        };
        side.add(name, transfer);
        if transfer.way == Way::In && transfer.moved >= 0 && transfer.asked != Some(0) {
            flow.life.hears(transfer.moved == 0);
        }
        if transfer.moved > 0 {
            if let Some((way, (bytes, calls))) = flow.turns.moved(transfer.way, transfer.moved.unsigned_abs()) {
                let turns = if way == Way::In { &mut flow.read.turns } else { &mut flow.written.turns };
                *turns = (turns.0 + bytes, turns.1 + calls, turns.2 + 1);
            }
            flow.life.uses(moment);
            if !flow.end.start_up {
                self.threads.entry((pid, thread)).or_default().uses(moment);
            }
        }
    }

    pub(super) fn ended(&mut self, pid: u32, fd: i32) {
        self.moment += 1;
        self.close(pid, fd);
    }

    fn close(&mut self, pid: u32, fd: i32) {
        let Some(mut flow) = self.open.remove(&(pid, fd)) else { return };
        flow.life.ends(self.moment);
        self.closed.push(flow);
    }

    /// A thread has ended; the last one of a process closes all its descriptors.
    pub(super) fn gone(&mut self, thread: u32, is_process: bool) {
        self.moment += 1;
        let of_it = |(pid, other): &(u32, u32)| *other == thread || (is_process && *pid == thread);
        let threads: Vec<(u32, u32)> = self.threads.keys().copied().filter(of_it).collect();
        threads.into_iter().for_each(|thread| self.thread_gone(thread));
        if is_process {
            let open: Vec<(u32, i32)> = self.open.keys().copied().filter(|(pid, _)| *pid == thread).collect();
            open.into_iter().for_each(|(pid, fd)| self.close(pid, fd));
        }
    }

    fn thread_gone(&mut self, thread: (u32, u32)) {
        let Some(mut life) = self.threads.remove(&thread) else { return };
        life.ends(self.moment);
        self.threads_gone.push(life);
    }

    /// Between samples any descriptor may have been reused, any thread may have ended, and any process may have
    /// executed another program.
    pub(super) fn check_open(&mut self) {
        // The bytes that moved between two samples are unknown.
        self.open.values_mut().for_each(|flow| flow.turns.present = None);
        let became = |(pid, program): (&u32, &RunningProgram)| {
            let now = file_of(*pid)?;
            program.file.as_ref().is_some_and(|before| *before != now).then_some(*pid)
        };
        let became: Vec<u32> = self.programs.iter().filter_map(became).collect();
        became.into_iter().for_each(|pid| self.executed(pid));
        let gone = |((pid, fd), flow): (&(u32, i32), &FdCounts)| {
            let now = fs::read_link(format!("/proc/{pid}/fd/{fd}"));
            now.map_or(true, |now| now.as_os_str() != &*flow.end.link).then_some((*pid, *fd))
        };
        let gone: Vec<(u32, i32)> = self.open.iter().filter_map(gone).collect();
        gone.into_iter().for_each(|(pid, fd)| self.close(pid, fd));
        let lives = |(pid, thread): &(u32, u32)| fs::exists(format!("/proc/{pid}/task/{thread}")).unwrap_or(true);
        let gone: Vec<(u32, u32)> = self.threads.keys().copied().filter(|thread| !lives(thread)).collect();
        gone.into_iter().for_each(|thread| self.thread_gone(thread));
    }

    /// Removes the counts of a process from before it executed another program.
    pub(super) fn executed(&mut self, pid: u32) {
        self.open.retain(|(of, _), _| *of != pid);
        self.closed.retain(|flow| flow.pid != pid);
        self.threads.retain(|(of, _), _| *of != pid);
        self.programs.insert(pid, RunningProgram::of(pid));
    }

    /// Finds the processes at the other ends that are on this machine.
    pub(super) fn find_peers(&mut self) {
        let unknown = |flow: &&mut FdCounts| flow.end.peers.is_empty() && flow.end.other.is_some();
        let wanted: BTreeSet<String> =
            self.open.values_mut().filter(unknown).filter_map(|flow| flow.end.other.clone()).collect();
        if wanted.is_empty() {
            return;
        }
        let found = listening::of(&wanted);
        for ((pid, _), flow) in &mut self.open {
            let Some(holders) = flow.end.other.as_ref().and_then(|other| found.get(other)) else { continue };
            // Both ends of a pipe have one name: another process with that name is at the other end.
            let others = holders.iter().filter(|holder| *holder != pid && **holder != std::process::id());
            // Read its name while it lives: it may have ended at the end of the observation.
            flow.end.peers.extend(others.map(|pid| (*pid, descriptor::name_of(*pid))));
            // Asked once: a process that is not found now is hidden from us.
            flow.end.other = None;
        }
    }

    /// Whether most bytes moved by calls that the kernel does not count per process (recv(2), send(2) and similar ones).
    pub(super) fn by_sockets_alone(&self) -> bool {
        let (mut alone, mut all) = (0, 0);
        for flow in self.open.values().chain(&self.closed).filter(|flow| !flow.end.start_up) {
            for side in [&flow.read, &flow.written] {
                all += side.totals.bytes;
                alone += if is_of_sockets_alone(side) { side.totals.bytes } else { 0 };
            }
        }
        alone * 2 > all
    }

    /// Whether more than one read or write in ten only belongs to the program's start.
    pub(super) fn is_coming_to_life(&self) -> bool {
        let (mut of_it, mut all) = (0, 0);
        for flow in self.open.values().chain(&self.closed) {
            let calls = flow.read.totals.calls + flow.written.totals.calls;
            all += calls;
            of_it += if flow.end.start_up { calls } else { 0 };
        }
        of_it * 10 > all
    }

    /// Summarises the process tree of `root`.
    pub(super) fn summary(&mut self, root: u32) -> Summary {
        self.closed.extend(std::mem::take(&mut self.open).into_values());
        self.threads_gone.extend(std::mem::take(&mut self.threads).into_values());
        let threads = (self.threads_gone.len() as u64, most_at_once(self.threads_gone.iter().copied()));
        let mut by_process = BTreeMap::from([(root, 0)]);
        for flow in self.closed.iter().filter(|flow| !flow.end.start_up) {
            *by_process.entry(flow.pid).or_default() += flow.bytes();
        }
        let most = |(pid, bytes): &(&u32, &u64)| (**bytes, **pid == root);
        let worker = by_process.iter().max_by_key(most).map_or(root, |(pid, _)| *pid);
        Summary { ends: views(std::mem::take(&mut self.closed)), worker, threads }
    }
}

/// Groups descriptors by sort: those with the most bytes first, and those that only belong to the program's start last.
fn views(flows: Vec<FdCounts>) -> Vec<EndView> {
    let mut grouped: BTreeMap<String, Vec<FdCounts>> = BTreeMap::new();
    for flow in flows.into_iter().filter(|flow| flow.read.totals.calls + flow.written.totals.calls > 0) {
        grouped.entry(flow.end.leads.label()).or_default().push(flow);
    }
    let mut views: Vec<EndView> = grouped.into_iter().filter_map(|(label, flows)| view(label, &flows)).collect();
    views.sort_by_key(|view| (view.start_up, u64::MAX - view.bytes()));
    views
}

fn view(label: String, flows: &[FdCounts]) -> Option<EndView> {
    let first = &flows.first()?.end;
    let (mut read, mut written) = (OneWay::default(), OneWay::default());
    for flow in flows {
        read.merge(&flow.read);
        written.merge(&flow.written);
    }
    let peers = flows.iter().flat_map(|flow| &flow.end.peers).map(|(pid, name)| PeerProcess {
        ended: process_tree::is_stopped(*pid).is_none(),
        pid: *pid,
        name: name.clone(),
    });
    Some(EndView {
        label,
        leads: first.leads.clone(),
        flows: most_at_once(flows.iter().map(|flow| flow.life)).max(1),
        seen: flows.len() as u64,
        reads: read.view(),
        writes: written.view(),
        turns: flows.iter().map(|flow| flow.turns.count).sum(),
        exchanges: flows.iter().map(|flow| flow.turns.count.div_ceil(2)).sum(),
        peers: peers.collect(),
        options: first.options.clone(),
        unasked: first.unasked.clone(),
        start_up: flows.iter().all(|flow| flow.end.start_up),
    })
}

/// Calls that the counts of a process leave out.
fn is_of_sockets_alone(side: &OneWay) -> bool {
    side.names.keys().any(|name| name.starts_with("recv") || name.starts_with("send"))
}

/// The words of a process's command line; none where it is gone.
pub(super) fn command_of(pid: u32) -> Vec<String> {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = bytes.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned());
    let mut words: Vec<String> = words.collect();
    // Every word ends with a zero.
    words.pop();
    restartable(words)
}

/// The words by which a program can be started again. Some programs, such as nginx, show a title there, which is no command:
/// then a placeholder, which fails if it is run.
fn restartable(words: Vec<String>) -> Vec<String> {
    match words.first() {
        Some(title) if title.contains(' ') && !Path::new(title).exists() => vec!["PROGRAM".to_owned()],
        _ => words,
    }
}

/// The file that a process runs.
fn file_of(pid: u32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/exe")).ok()
}

// From when to when connections and threads were in use, and how many at once. Pure: a moment is a position in the
// order of observations.

/// A connection's time, or a thread's.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Life {
    began: Option<u64>,
    moved: u64,
    /// Its peer has ended the stream: it ends with the last byte, and the rest is closing.
    peer_ended: bool,
    ended: Option<u64>,
}

impl Life {
    /// Bytes were moved.
    pub(super) fn uses(&mut self, moment: u64) {
        self.began.get_or_insert(moment);
        self.moved = moment;
    }

    /// A read found the end of the stream, or bytes after it.
    pub(super) fn hears(&mut self, the_end: bool) {
        self.peer_ended = the_end;
    }

    /// It has ended.
    pub(super) fn ends(&mut self, moment: u64) {
        self.ended.get_or_insert(moment);
    }

    /// First and last moment; none where it moved nothing.
    fn span(self) -> Option<(u64, u64)> {
        let last = if self.peer_ended { self.moved } else { self.ended.unwrap_or(u64::MAX) };
        Some((self.began?, last))
    }
}

/// The most that were in use at once.
pub(super) fn most_at_once(lives: impl IntoIterator<Item = Life>) -> u64 {
    // One that begins at the moment at which another ends overlaps with it.
    let ends_of = |(began, last)| [(began, false), (last, true)];
    let mut ends: Vec<(u64, bool)> = lives.into_iter().filter_map(Life::span).flat_map(ends_of).collect();
    ends.sort_unstable();
    let (mut now, mut most) = (0_u64, 0);
    for (_, is_last) in ends {
        now = if is_last { now - 1 } else { now + 1 };
        most = most.max(now);
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_turns_are_no_messages() {
        let mut turns = Turns::default();
        let mut moved = |way, bytes| turns.moved(way, bytes);
        // The begin of the first turn was not seen.
        assert_eq!([moved(Way::In, 20), moved(Way::Out, 7)], [None, None]);
        assert_eq!([moved(Way::In, 60), moved(Way::In, 40)], [Some((Way::Out, (7, 1))), None]);
        assert_eq!(moved(Way::Out, 7), Some((Way::In, (100, 2))));
        // Between two samples, as `check_open` does.
        turns.present = None;
        assert_eq!([turns.moved(Way::Out, 7), turns.moved(Way::In, 100)], [None, None]);
        assert_eq!((turns.moved(Way::Out, 7), turns.count), (Some((Way::In, (100, 1))), 5));
    }

    #[test]
    fn a_title_is_no_command() {
        let check = |words: &[&str], expected: &[&str]| {
            assert_eq!(restartable(words.iter().map(|word| (*word).to_owned()).collect()), expected);
        };
        check(&["nginx: master process /usr/sbin/nginx -g daemon off;"], &["PROGRAM"]);
        check(&["dd", "if=a b"], &["dd", "if=a b"]);
        check(&[], &[]);
    }
}

#[cfg(test)]
mod lifetimes_tests {
    use super::*;

    fn life(began: u64, moved: u64, peer_ended: bool, ended: Option<u64>) -> Life {
        let mut life = Life::default();
        life.uses(began);
        life.uses(moved);
        life.hears(peer_ended);
        ended.into_iter().for_each(|moment| life.ends(moment));
        life
    }

    #[test]
    fn only_overlapping_lives_count_together() {
        let one_by_one = [life(1, 4, false, Some(5)), life(6, 9, false, Some(10)), life(11, 12, false, None)];
        assert_eq!(most_at_once(one_by_one), 1);
        let both = [life(1, 4, false, Some(8)), life(6, 9, false, Some(10))];
        assert_eq!(most_at_once(both), 2);
        // Closed late, by a server whose client had moved to the next one.
        let tidied = [life(1, 4, true, Some(8)), life(6, 9, true, None)];
        assert_eq!(most_at_once(tidied), 1);
        assert_eq!(most_at_once([Life::default()]), 0);
        assert_eq!(most_at_once([life(3, 3, true, None)]), 1);
    }
}
