//! What is counted of a program's descriptors while samples are taken.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use bytegauge_sys::holders;
use bytegauge_sys::trace::{self, Way};

use super::end::{self, End, PeerProcess};
use super::seen::EndView;
use super::tally::OneWay;

/// What is counted of one descriptor.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) end: End,
    pub(super) read: OneWay,
    pub(super) written: OneWay,
    last: Option<Way>,
    turns: u64,
}

/// All that was counted so far.
#[derive(Debug, Default)]
pub(super) struct Counted {
    /// By process and descriptor: those that are open, as far as we know.
    pub(super) open: BTreeMap<(u32, i32), Flow>,
    closed: Vec<Flow>,
    pub(super) waits: u64,
    pub(super) uring: (u64, u64),
    pub(super) seen: BTreeSet<u32>,
    /// What a process became that was started for this: its name and its command line.
    pub(super) became: BTreeMap<u32, (String, Vec<String>)>,
}

impl Counted {
    fn flow(&mut self, pid: u32, fd: i32) -> Option<&mut Flow> {
        match self.open.entry((pid, fd)) {
            Entry::Occupied(flow) => Some(flow.into_mut()),
            Entry::Vacant(place) => {
                let end = End::look(pid, fd)?;
                Some(place.insert(Flow {
                    end,
                    read: OneWay::default(),
                    written: OneWay::default(),
                    last: None,
                    turns: 0,
                }))
            }
        }
    }

    pub(super) fn moved(&mut self, pid: u32, name: &'static str, transfer: &trace::Transfer) {
        let Some(flow) = self.flow(pid, transfer.fd) else { return };
        let side = match transfer.way {
            Way::In => &mut flow.read,
            Way::Out => &mut flow.written,
        };
        side.add(name, transfer.asked, transfer.moved, transfer.pieces, transfer.messages);
        if transfer.moved > 0 {
            flow.turns += u64::from(flow.last.is_some_and(|last| last != transfer.way));
            flow.last = Some(transfer.way);
        }
    }

    pub(super) fn ended(&mut self, pid: u32, fd: i32) {
        self.closed.extend(self.open.remove(&(pid, fd)));
    }

    /// Between samples any descriptor may have become another one.
    pub(super) fn check_open(&mut self) {
        let gone = |((pid, fd), flow): (&(u32, i32), &Flow)| {
            let now = fs::read_link(format!("/proc/{pid}/fd/{fd}"));
            now.map_or(true, |now| now.as_os_str() != &*flow.end.link).then_some((*pid, *fd))
        };
        let gone: Vec<(u32, i32)> = self.open.iter().filter_map(gone).collect();
        gone.into_iter().for_each(|(pid, fd)| self.ended(pid, fd));
    }

    /// Forgets what a process did before it became another program.
    pub(super) fn executed(&mut self, pid: u32) {
        self.open.retain(|(of, _), _| *of != pid);
        self.became.insert(pid, (end::name_of(pid), command_of(pid)));
    }

    /// Who is at the other ends that are on this machine.
    pub(super) fn find_peers(&mut self) {
        let unknown = |flow: &&mut Flow| flow.end.peers.is_empty() && flow.end.other.is_some();
        let wanted: BTreeSet<String> =
            self.open.values_mut().filter(unknown).filter_map(|flow| flow.end.other.clone()).collect();
        if wanted.is_empty() {
            return;
        }
        let found = holders::of(&wanted);
        for ((pid, _), flow) in &mut self.open {
            let Some(holders) = flow.end.other.as_ref().and_then(|other| found.get(other)) else { continue };
            // Both ends of a pipe have one name: whoever else has it is at the other.
            flow.end.peers.extend(holders.iter().filter(|holder| *holder != pid && **holder != std::process::id()));
            // Asked once: who is not found now hides from us.
            flow.end.other = None;
        }
    }

    pub(super) fn views(mut self) -> Vec<EndView> {
        self.closed.extend(std::mem::take(&mut self.open).into_values());
        let mut grouped: BTreeMap<String, (EndView, OneWay, OneWay)> = BTreeMap::new();
        for flow in self.closed {
            if flow.read.calls + flow.written.calls == 0 {
                continue;
            }
            let label = flow.end.leads.label();
            let (view, read, written) = grouped.entry(label.clone()).or_insert_with(|| {
                let view = EndView {
                    label,
                    leads: flow.end.leads.clone(),
                    flows: 0,
                    reads: None,
                    writes: None,
                    turns: 0,
                    peers: BTreeSet::new(),
                    options: flow.end.options.clone(),
                    unasked: flow.end.unasked.clone(),
                };
                (view, OneWay::default(), OneWay::default())
            });
            view.flows += 1;
            view.turns += flow.turns;
            let peers = flow.end.peers.into_iter().map(|pid| PeerProcess { pid, name: end::name_of(pid) });
            view.peers.extend(peers);
            read.merge(&flow.read);
            written.merge(&flow.written);
        }
        let whole = |(view, read, written): (EndView, OneWay, OneWay)| EndView {
            reads: read.view(),
            writes: written.view(),
            ..view
        };
        let mut views: Vec<EndView> = grouped.into_values().map(whole).collect();
        views.sort_by_key(|view| u64::MAX - view.bytes());
        views
    }
}

/// The words of a process's command line; none where it is gone.
pub(super) fn command_of(pid: u32) -> Vec<String> {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = bytes.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned());
    let mut words: Vec<String> = words.collect();
    // Every word ends with a zero.
    words.pop();
    words
}
