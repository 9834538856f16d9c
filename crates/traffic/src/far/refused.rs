//! What the log tells of callers without the key: the first few of a minute in full, of the others how many there were, so that
//! strangers neither fill a disk nor drown the lines of those who measure. Never reads the clock.

use std::fmt::Write;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Callers of a minute that are told of in full.
const IN_FULL: u32 = 8;

/// How often the others are told of.
const MINUTE: Duration = Duration::from_secs(60);

/// Callers without the key, as far as they were told of.
#[derive(Debug, Default)]
pub(super) struct Refused {
    minute: Option<Minute>,
}

/// A minute, from its first caller on.
#[derive(Clone, Copy, Debug)]
struct Minute {
    began: Instant,
    in_full: u32,
    more: u64,
    /// Who came last of those.
    last: SocketAddr,
}

impl Refused {
    /// A caller was refused: the lines that are due.
    pub(super) fn enter(&mut self, now: Instant, peer: SocketAddr, why: &str) -> Vec<String> {
        let mut lines = Vec::from_iter(self.look(now));
        let minute = self.minute.get_or_insert(Minute { began: now, in_full: 0, more: 0, last: peer });
        if minute.in_full < IN_FULL {
            minute.in_full += 1;
            lines.push(format!("{peer} {why}"));
        } else {
            minute.more += 1;
            minute.last = peer;
        }
        lines
    }

    /// The line that is due by now, if any.
    pub(super) fn look(&mut self, now: Instant) -> Option<String> {
        let minute = self.minute.filter(|minute| now.saturating_duration_since(minute.began) >= MINUTE)?;
        // After a minute with more than were told of in full nobody is, until there was one without.
        let next = Minute { began: now, in_full: IN_FULL, more: 0, ..minute };
        self.minute = (minute.more > 0).then_some(next);
        minute.told(now)
    }

    /// What is left to tell when nobody is heard any more.
    pub(super) fn rest(&mut self, now: Instant) -> Option<String> {
        self.minute.take()?.told(now)
    }
}

impl Minute {
    fn told(&self, now: Instant) -> Option<String> {
        let Minute { began, more, last, .. } = self;
        let mut line = match more {
            0 => return None,
            1 => "1 more caller without the key was".to_owned(),
            more => format!("{more} more callers without the key were"),
        };
        let seconds = now.saturating_duration_since(*began).as_secs() + 1;
        // Writing to a string does not fail.
        let _ = write!(line, " refused within {seconds} s, the last from {last}");
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHY: &str = "was turned away: it does not begin as callers do";

    fn peer(port: u16) -> SocketAddr {
        ([192, 0, 2, 7], port).into()
    }

    #[test]
    fn the_first_are_told_of_in_full_and_the_others_once_a_minute() {
        let (mut refused, start) = (Refused::default(), Instant::now());
        let mut enter = |at_s, port| refused.enter(start + Duration::from_secs(at_s), peer(port), WHY);
        let lines: Vec<String> = (1..=500).flat_map(|port| enter(0, port)).collect();
        assert_eq!(lines.len(), IN_FULL as usize);
        assert_eq!(lines[7], format!("192.0.2.7:8 {WHY}"));
        // The next minute of a flood is one line, and so is every other one.
        assert_eq!(
            enter(60, 501),
            ["492 more callers without the key were refused within 61 s, the last from 192.0.2.7:500"]
        );
        assert!(enter(61, 502).is_empty());
        assert_eq!(
            enter(125, 503),
            ["2 more callers without the key were refused within 66 s, the last from 192.0.2.7:502"]
        );
        let at = |s| start + Duration::from_secs(s);
        assert_eq!(refused.look(at(184)), None);
        let last = "1 more caller without the key was refused within 61 s, the last from 192.0.2.7:503";
        assert_eq!(refused.look(at(185)).as_deref(), Some(last));
        // After a minute in which nobody was left out, callers are told of again.
        assert_eq!(refused.look(at(245)), None);
        assert_eq!(refused.enter(at(246), peer(504), WHY), [format!("192.0.2.7:504 {WHY}")]);
    }

    #[test]
    fn a_few_now_and_then_are_all_told_of_and_nothing_else_is() {
        let (mut refused, start) = (Refused::default(), Instant::now());
        for second in (0..3600).step_by(20) {
            let now = start + Duration::from_secs(second);
            assert_eq!(refused.look(now), None);
            assert_eq!(refused.enter(now, peer(1), WHY).len(), 1);
        }
        assert_eq!(refused.rest(start + Duration::from_secs(3600)), None);
    }

    #[test]
    fn who_was_left_out_is_told_of_when_the_agent_leaves() {
        let (mut refused, now) = (Refused::default(), Instant::now());
        (0..20).for_each(|port| drop(refused.enter(now, peer(port), WHY)));
        let told = refused.rest(now).unwrap();
        assert_eq!(told, "12 more callers without the key were refused within 1 s, the last from 192.0.2.7:19");
        assert_eq!(refused.rest(now), None);
    }
}
