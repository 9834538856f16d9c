//! The agent's log. In each class, the first lines of a minute are written in full and the others counted, so that unproven
//! connections cannot fill a disk or hide the lines of sessions.
//!
//! Lines about callers with the key are counted per network, so that a network cannot hide the lines of another. Networks
//! beyond [`NETWORKS_MAX`] share one count.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use bytegauge_traffic::lock;

use crate::unproven::network;

/// Interval at which omitted lines are counted in the log.
const MINUTE: Duration = Duration::from_secs(60);

/// The classes of lines, in the order of [`CLASSES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    /// A connection that did not prove the key.
    Unproven,
    /// A caller with the key that got no session.
    Refused,
    /// Sessions: begun, ended.
    Session,
}

struct ClassRow {
    /// Lines per minute written in full.
    in_full: u32,
    /// Most networks with a count of their own.
    networks: usize,
    /// One omitted line, and several.
    left_out: [&'static str; 2],
}

const CLASSES: [ClassRow; 3] = [
    ClassRow::of(8, 0, ["more caller without the key was refused", "more callers without the key were refused"]),
    ClassRow::of(8, NETWORKS_MAX, ["more caller with the key was refused", "more callers with the key were refused"]),
    ClassRow::of(
        240,
        NETWORKS_MAX,
        ["more line about a session was left out", "more lines about sessions were left out"],
    ),
];

impl ClassRow {
    const fn of(in_full: u32, networks: usize, left_out: [&'static str; 2]) -> ClassRow {
        ClassRow { in_full, networks, left_out }
    }
}

/// Most networks whose lines are counted separately: an agent serves far fewer.
const NETWORKS_MAX: usize = 16;

/// The log.
pub(super) struct Log {
    write: fn(&str),
    minutes: Mutex<Minutes>,
}

/// The current minutes by class and network; without a network, that of all others.
type Minutes = BTreeMap<(Class, Option<IpAddr>), Minute>;

/// A minute of a class, from its first line on.
#[derive(Clone, Copy, Debug)]
struct Minute {
    began: Instant,
    in_full: u32,
    left_out: u64,
    /// The peer of the last omitted line.
    last: SocketAddr,
}

impl Log {
    /// A log that is written by `write`.
    pub(super) fn new(write: fn(&str)) -> Log {
        Log { write, minutes: Mutex::default() }
    }

    /// Writes a line about the agent itself. The caller limits how often.
    pub(super) fn own(&self, line: &str) {
        (self.write)(line);
    }

    /// Writes a line about a peer, or counts it.
    pub(super) fn enter(&self, class: Class, peer: SocketAddr, line: &str) {
        self.change(|minutes| entered(minutes, class, Instant::now(), peer, line));
    }

    /// Writes the counts that are due.
    pub(super) fn look(&self, now: Instant) {
        self.change(|minutes| due(minutes, now));
    }

    /// Writes all remaining counts, when the agent ends.
    pub(super) fn finish(&self, now: Instant) {
        self.change(|minutes| {
            let left = std::mem::take(minutes).into_iter();
            left.filter_map(|((class, _), minute)| minute.count(class.row(), now)).collect()
        });
    }

    fn change(&self, lines: impl FnOnce(&mut Minutes) -> Vec<String>) {
        // Written under the lock to keep the order of lines.
        let mut minutes = lock(&self.minutes);
        lines(&mut minutes).iter().for_each(|line| (self.write)(line));
    }
}

impl Class {
    fn row(self) -> &'static ClassRow {
        &CLASSES[self as usize]
    }

    /// The network to whose count a line of this class belongs.
    fn counted_for(self, minutes: &Minutes, peer: SocketAddr) -> Option<IpAddr> {
        let network = network(peer.ip());
        let others = minutes.keys().filter(|(class, of)| *class == self && of.is_some_and(|of| of != network));
        (others.count() < self.row().networks).then_some(network)
    }
}

fn entered(minutes: &mut Minutes, class: Class, now: Instant, peer: SocketAddr, line: &str) -> Vec<String> {
    let mut lines = due(minutes, now);
    let key = (class, class.counted_for(minutes, peer));
    let minute = minutes.entry(key).or_insert(Minute { began: now, in_full: 0, left_out: 0, last: peer });
    if minute.in_full < class.row().in_full {
        minute.in_full += 1;
        lines.push(format!("{peer} {line}"));
    } else {
        minute.left_out += 1;
        minute.last = peer;
    }
    lines
}

/// The counts that are due by now.
fn due(minutes: &mut Minutes, now: Instant) -> Vec<String> {
    let mut lines = Vec::new();
    minutes.retain(|(class, _), minute| {
        if now.saturating_duration_since(minute.began) < MINUTE {
            return true;
        }
        let (row, over) = (class.row(), *minute);
        lines.extend(over.count(row, now));
        // After a minute with omitted lines, none is written in full until a minute omits none.
        *minute = Minute { began: now, in_full: row.in_full, left_out: 0, ..over };
        over.left_out > 0
    });
    lines
}

impl Minute {
    fn count(&self, row: &ClassRow, now: Instant) -> Option<String> {
        let Minute { began, left_out, last, .. } = self;
        let mut line = match left_out {
            0 => return None,
            1 => format!("1 {}", row.left_out[0]),
            count => format!("{count} {}", row.left_out[1]),
        };
        let seconds = now.saturating_duration_since(*began).as_secs() + 1;
        // Writing to a string does not fail.
        let _ = write!(line, " within {seconds} s, the last from {last}");
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHY: &str = "was refused: its first bytes are not those of a caller";

    fn peer(port: u16) -> SocketAddr {
        ([192, 0, 2, 7], port).into()
    }

    #[test]
    fn first_lines_are_full_and_others_counted() {
        let (mut minutes, start) = (Minutes::new(), Instant::now());
        let at = |s| start + Duration::from_secs(s);
        let mut enter = |at_s, port| entered(&mut minutes, Class::Unproven, at(at_s), peer(port), WHY);
        let lines: Vec<String> = (1..=500).flat_map(|port| enter(0, port)).collect();
        assert_eq!(lines.len(), 8);
        assert_eq!(lines[7], format!("192.0.2.7:8 {WHY}"));
        // The next minute of a flood is one line, and so are all later ones.
        assert_eq!(
            enter(60, 501),
            ["492 more callers without the key were refused within 61 s, the last from 192.0.2.7:500"]
        );
        assert!(enter(61, 502).is_empty());
        assert_eq!(
            enter(125, 503),
            ["2 more callers without the key were refused within 66 s, the last from 192.0.2.7:502"]
        );
        assert!(due(&mut minutes, at(184)).is_empty());
        let last = "1 more caller without the key was refused within 61 s, the last from 192.0.2.7:503";
        assert_eq!(due(&mut minutes, at(185)), [last]);
        // A minute without omitted lines ends that.
        assert!(due(&mut minutes, at(245)).is_empty());
        assert_eq!(entered(&mut minutes, Class::Unproven, at(246), peer(504), WHY), [format!("192.0.2.7:504 {WHY}")]);
    }

    #[test]
    fn every_class_is_bounded_by_itself() {
        let (mut minutes, now) = (Minutes::new(), Instant::now());
        for class in [Class::Unproven, Class::Refused, Class::Session] {
            let mut enter = |port| entered(&mut minutes, class, now, peer(port), WHY).len();
            let written: usize = (0..5000).map(&mut enter).sum();
            assert_eq!(written, CLASSES[class as usize].in_full as usize, "{class:?}");
        }
    }

    #[test]
    fn caller_hides_no_lines_of_other_networks() {
        let (mut minutes, now) = (Minutes::new(), Instant::now());
        let mut enter = |host: u16, class| {
            let from: SocketAddr = ([198, 51, (host >> 8) as u8, host as u8], 1).into();
            entered(&mut minutes, class, now, from, WHY).len()
        };
        for class in [Class::Refused, Class::Session] {
            let flood: usize = (0..5000).map(|_| enter(0, class)).sum();
            assert_eq!(flood, class.row().in_full as usize);
            assert_eq!(enter(1, class), 1, "another caller's line");
            // The lines of all networks together are bounded too.
            let crowd: usize = (2..600).flat_map(|host| [host; 300]).map(|host| enter(host, class)).sum();
            assert!(crowd <= (NETWORKS_MAX + 1) * class.row().in_full as usize, "{crowd}");
        }
        // Without the key all networks share one count.
        let lines: usize = (0..600).map(|host| enter(host, Class::Unproven)).sum();
        assert_eq!(lines, 8);
    }

    #[test]
    fn rare_lines_are_all_written() {
        let (mut minutes, start) = (Minutes::new(), Instant::now());
        for second in (0..3600).step_by(20) {
            let now = start + Duration::from_secs(second);
            assert!(due(&mut minutes, now).is_empty());
            assert_eq!(entered(&mut minutes, Class::Unproven, now, peer(1), WHY).len(), 1);
        }
    }
}
