//! Counts of a program's calls. Pure: uses no process.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use bytegauge_sys::copy_probe::SLOW_OFFSETS;
use bytegauge_sys::trace::Transfer;
use serde::Serialize;

/// Offsets of buffers are counted within this.
const PAGE: u64 = 4096;

/// How often each size occurred.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SizeCounts(BTreeMap<u64, u64>);

impl SizeCounts {
    /// Counts a size.
    pub fn add(&mut self, size: u64) {
        *self.0.entry(size).or_default() += 1;
    }

    /// The share of the calls whose size is in a range; 0 without calls.
    pub fn share_in(&self, range: RangeInclusive<u64>) -> f64 {
        self.0.range(range).map(|(_, count)| count).sum::<u64>() as f64 / self.count().max(1) as f64
    }

    /// Adds the counts of another one.
    pub fn merge(&mut self, other: &SizeCounts) {
        for (size, count) in &other.0 {
            *self.0.entry(*size).or_default() += count;
        }
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.0.values().sum()
    }

    /// The size that a share of the calls do not exceed; `None` without calls.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let wanted = (share * self.count() as f64).ceil().max(1.0) as u64;
        let mut so_far = 0;
        self.0.iter().find(|(_, count)| (so_far += *count, so_far >= wanted).1).map(|(size, _)| *size)
    }

    /// The summary for output; `None` without calls.
    pub fn summary(&self) -> Option<SizeSummary> {
        let (most_often, times) = self.0.iter().max_by_key(|(size, count)| (**count, **size))?;
        Some(SizeSummary {
            least: *self.0.keys().next()?,
            median: self.quantile(0.5)?,
            p90: self.quantile(0.9)?,
            largest: *self.0.keys().next_back()?,
            most_often: *most_often,
            most_often_share: *times as f64 / self.count() as f64,
        })
    }
}

/// A summary of sizes, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SizeSummary {
    /// The least.
    pub least: u64,
    /// Half are no larger.
    pub median: u64,
    /// Nine in ten are no larger.
    pub p90: u64,
    /// The largest.
    pub largest: u64,
    /// The most frequent one.
    pub most_often: u64,
    /// Its share of all.
    pub most_often_share: f64,
}

/// How many calls in one direction did what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CallTotals {
    /// Calls that moved bytes.
    pub calls: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Calls that found nothing to read, or no room: `EAGAIN`.
    pub not_yet: u64,
    /// Calls that failed otherwise.
    pub failed: u64,
    /// Calls that moved all that was asked for.
    pub full: u64,
}

/// Calls in one direction over one or more descriptors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OneWay {
    /// What they did.
    pub totals: CallTotals,
    /// Pieces of memory that the calls named.
    pub pieces: u64,
    /// Messages that they moved.
    pub messages: u64,
    /// Bytes and calls of the turns that were seen whole, and how many: all that moved this way between two calls the other way.
    pub turns: (u64, u64, u64),
    /// Bytes asked for, of calls that moved bytes.
    pub asked: SizeCounts,
    /// Bytes moved, a call.
    pub moved: SizeCounts,
    /// Bytes from a page to the first byte of the buffer.
    pub page_offset: SizeCounts,
    /// Names of the calls, by how often they occurred.
    pub names: BTreeMap<&'static str, u64>,
}

impl OneWay {
    /// Counts a call.
    pub fn add(&mut self, name: &'static str, transfer: &Transfer) {
        let Transfer { asked, address, moved, pieces, messages, .. } = *transfer;
        let Ok(bytes) = u64::try_from(moved) else {
            match moved == -i64::from(bytegauge_sys::errno::EAGAIN) {
                true => self.totals.not_yet += 1,
                false => self.totals.failed += 1,
            }
            return;
        };
        // No bytes mean the end of a stream, which is not a size.
        if bytes == 0 {
            return;
        }
        self.totals.calls += 1;
        self.totals.bytes += bytes;
        self.totals.full += u64::from(asked == Some(bytes));
        self.pieces += pieces;
        self.messages += messages;
        asked.into_iter().for_each(|asked| self.asked.add(asked));
        address.into_iter().for_each(|address| self.page_offset.add(address % PAGE));
        // The sizes of a call with many messages are those of all of them together.
        self.moved.add(bytes / messages.max(1));
        *self.names.entry(name).or_default() += 1;
    }

    /// Adds the counts of another one.
    pub fn merge(&mut self, other: &OneWay) {
        self.totals.calls += other.totals.calls;
        self.totals.bytes += other.totals.bytes;
        self.totals.not_yet += other.totals.not_yet;
        self.totals.failed += other.totals.failed;
        self.totals.full += other.totals.full;
        self.pieces += other.pieces;
        self.messages += other.messages;
        self.turns = (self.turns.0 + other.turns.0, self.turns.1 + other.turns.1, self.turns.2 + other.turns.2);
        self.asked.merge(&other.asked);
        self.moved.merge(&other.moved);
        self.page_offset.merge(&other.page_offset);
        for (name, count) in &other.names {
            *self.names.entry(name).or_default() += count;
        }
    }

    /// The summary for screens and documents; `None` if no byte moved.
    pub fn view(&self) -> Option<SideView> {
        let (asked, moved) = (self.asked.summary(), self.moved.summary()?);
        let mut names: Vec<(&str, u64)> = self.names.iter().map(|(name, count)| (*name, *count)).collect();
        names.sort_by_key(|(name, count)| (u64::MAX - count, *name));
        Some(SideView {
            totals: self.totals,
            by: names.into_iter().map(|(name, _)| name.to_owned()).collect(),
            asked,
            moved,
            page_offset: self.page_offset.summary(),
            slow_addresses: self.page_offset.share_in(SLOW_OFFSETS),
            pieces_per_call: self.pieces as f64 / self.totals.calls as f64,
            messages_per_call: self.messages as f64 / self.totals.calls as f64,
            bytes_per_turn: self.turns.0.checked_div(self.turns.2),
            calls_per_turn: (self.turns.2 > 0).then(|| self.turns.1 as f64 / self.turns.2 as f64),
        })
    }
}

/// One direction, as reported.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SideView {
    /// What they did.
    #[serde(flatten)]
    pub totals: CallTotals,
    /// The system calls, those made most often first.
    pub by: Vec<String>,
    /// Bytes asked for in a call, where that could be read: the program's buffer.
    pub asked: Option<SizeSummary>,
    /// Bytes moved by a call; for calls with many messages, by a message.
    pub moved: SizeSummary,
    /// Bytes from a page to the buffer, where that could be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_offset: Option<SizeSummary>,
    /// Share of the calls whose buffer begins 1 to 31 bytes after a page: on some CPUs the kernel copies to there slowly.
    pub slow_addresses: f64,
    /// Pieces of memory in a call.
    pub pieces_per_call: f64,
    /// Messages in a call.
    pub messages_per_call: f64,
    /// Bytes between two calls the other way, on average: a request, or a response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_turn: Option<u64>,
    /// Calls between two calls the other way, on average: how many make a message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls_per_turn: Option<f64>,
}

#[cfg(test)]
mod tests {
    use bytegauge_sys::trace::Way;

    use super::*;

    fn transfer(asked: Option<u64>, moved: i64, messages: u64) -> Transfer {
        let address = asked.map(|_| 0x7010);
        Transfer { fd: 3, way: Way::In, asked, address, moved, pieces: messages.max(1), messages }
    }

    #[test]
    fn addresses_are_counted_within_their_page() {
        let mut side = OneWay::default();
        for address in [0x5000, 0x5001, 0x501f, 0x5020] {
            side.add("read", &Transfer { address: Some(address), ..transfer(Some(9), 9, 1) });
        }
        side.add("read", &Transfer { address: Some(0x5001), ..transfer(Some(9), 0, 1) });
        let view = side.view().unwrap();
        assert_eq!(view.slow_addresses, 0.5);
        assert_eq!(view.page_offset.unwrap().largest, 32);
    }

    #[test]
    fn sizes_are_counted_and_summarised() {
        let mut side = OneWay::default();
        for _ in 0..9 {
            side.add("read", &transfer(Some(4096), 4096, 1));
        }
        side.add("recv", &transfer(Some(4096), 100, 1));
        side.add("read", &transfer(Some(4096), -i64::from(bytegauge_sys::errno::EAGAIN), 0));
        side.add("read", &transfer(Some(4096), -i64::from(bytegauge_sys::errno::EPIPE), 0));
        side.add("read", &transfer(Some(4096), 0, 1));
        let view = side.view().unwrap();
        assert_eq!((view.totals.calls, view.totals.bytes, view.totals.full), (10, 9 * 4096 + 100, 9));
        assert_eq!((view.totals.not_yet, view.totals.failed), (1, 1));
        assert_eq!((view.moved.least, view.moved.median, view.moved.p90, view.moved.largest), (100, 4096, 4096, 4096));
        assert_eq!((view.moved.most_often, view.moved.most_often_share), (4096, 0.9));
        assert_eq!(view.by, ["read", "recv"]);
        let mut both = OneWay::default();
        both.merge(&side);
        both.merge(&side);
        assert_eq!(both.view().unwrap().totals.calls, 20);
        assert_eq!(both.view().unwrap().asked.unwrap().median, 4096);
        assert!(OneWay::default().view().is_none());
    }

    #[test]
    fn many_messages_in_a_call_are_counted_each() {
        let mut side = OneWay::default();
        side.add("recvmmsg", &transfer(None, 800, 8));
        let view = side.view().unwrap();
        assert_eq!((view.messages_per_call, view.moved.median, view.asked), (8.0, 100, None));
    }
}
