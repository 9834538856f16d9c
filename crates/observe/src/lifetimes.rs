//! From when to when connections and threads were in use, and how many at once. Pure: a moment is a position in the
//! order of observations.

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
