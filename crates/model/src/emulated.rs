//! An emulated link between two ends on one host: its settings, and its counts.
//!
//! Delay is the whole round trip, as it is usually measured and quoted; loss and rate are those of each direction. Rates of
//! links are in bits, and are written so that they cannot be confused with bytes: `1Gbit`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::sums::sums;
use crate::unit::{Nanos, TextError, significant};

/// The largest packet of an emulated link, bytes with its IP header: Ethernet's.
pub const LINK_MTU: u64 = 1500;

/// Least queue before an emulated link, however short the link is: the bytes of this number of nanoseconds at its rate,
/// since a sender is ahead of a rate by bursts and by the moments without a CPU; and this number of packets of [`LINK_MTU`].
const QUEUE_MIN: (u64, u64) = (10_000_000, 32);

/// Parts per million of packets or datagrams that are lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LossShare(pub u32);

/// Bits per second that a link carries, IP headers included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LinkRate(pub u64);

/// The effect of an emulated link on every packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmulatedLink {
    /// The round trip that it adds, half of it in each direction, nanoseconds.
    pub delay_ns: u64,
    /// Loss, in each direction.
    pub loss: LossShare,
    /// Rate, in each direction.
    pub rate: LinkRate,
}

impl EmulatedLink {
    /// Bytes under way in one round trip at the full rate: the bandwidth-delay product.
    pub fn product_bytes(&self) -> u64 {
        self.carries_in(self.delay_ns)
    }

    /// Most bytes that wait before it, in each direction; a packet that finds a full queue is dropped. One bandwidth-delay
    /// product keeps a link busy while a sender halves its window after a loss (Villamizar and Song, 1994).
    pub fn queue_bytes(&self) -> u64 {
        let (least_ns, least_packets) = QUEUE_MIN;
        self.carries_in(self.delay_ns.max(least_ns)).max(least_packets * LINK_MTU)
    }

    fn carries_in(&self, ns: u64) -> u64 {
        (u128::from(self.rate.0) * u128::from(ns) / 8_000_000_000) as u64
    }

    /// Bytes of data that TCP can transfer over it in one direction, per second: of each packet 40 bytes are headers, and 12
    /// more are its time stamps (RFC 7323).
    pub fn data_rate(&self) -> f64 {
        self.rate.0 as f64 / 8.0 * (LINK_MTU - 52) as f64 / LINK_MTU as f64
    }

    /// Time that `bytes` take to pass, nanoseconds.
    pub fn passing_ns(&self, bytes: u64) -> u64 {
        (u128::from(bytes) * 8_000_000_000).div_ceil(u128::from(self.rate.0.max(1))) as u64
    }
}

/// Counts of an emulated link in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WayUse {
    /// Packets that arrived at the other side.
    pub passed: u64,
    /// Their bytes, with their IP headers.
    pub passed_bytes: u64,
    /// Packets that it lost on purpose.
    pub lost: u64,
    /// Packets that found its queue full.
    pub queue_drops: u64,
    /// Packets that the kernel dropped since the emulator had not yet read those before them.
    pub missed: u64,
    /// Sum of the packets' delays beyond the setting since the emulator ran again, nanoseconds; an upper limit of that.
    pub late_ns: u64,
    /// The same of the latest packet.
    pub late_max_ns: u64,
}

impl WayUse {
    fn late_mean_ns(&self) -> u64 {
        self.late_ns / self.passed.max(1)
    }
}

sums!(WayUse { passed, passed_bytes, lost, queue_drops, missed, late_ns } max { late_max_ns });

/// Counts of an emulated link in a trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LinkUse {
    /// From the end that connects to the end that accepts.
    pub there: WayUse,
    /// The other direction.
    pub back: WayUse,
    /// CPU time of the emulator, including the kernel's delivery of packets in its context, nanoseconds.
    pub cpu_ns: u64,
}

impl LinkUse {
    /// How much longer than set a round trip took on average, for lack of a CPU, nanoseconds.
    pub fn late_ns(&self) -> u64 {
        self.there.late_mean_ns() + self.back.late_mean_ns()
    }

    /// Both directions together.
    pub fn both(&self) -> WayUse {
        self.there.plus(&self.back)
    }
}

sums!(LinkUse { there, back, cpu_ns });

impl LossShare {
    fn percent(self) -> f64 {
        f64::from(self.0) / 1e4
    }
}

impl fmt::Display for LossShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}%", self.percent()))
    }
}

impl FromStr for LossShare {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        let wrong = || TextError::malformed(text, "a share that is lost: write 0%, 0.0001% or 1%, up to 50%");
        let percent = match text.strip_suffix('%') {
            Some(percent) => percent.trim().parse().map_err(|_| wrong())?,
            // `1` could be either 1 % or 100 %.
            None => text.parse().ok().filter(|share: &f64| *share < 0.5).ok_or_else(wrong)? * 100.0,
        };
        // With a higher loss no connection is made within a reasonable time.
        let share = LossShare((percent * 1e4).round() as u32);
        // Less than the smallest share would be none.
        if !(0.0..=50.0).contains(&percent) || percent > 0.0 && share == LossShare(0) {
            return Err(wrong());
        }
        Ok(share)
    }
}

/// Units of a link's rate, largest first.
const RATE_UNITS: [(u64, &str); 3] = [(1_000_000_000, "Gbit"), (1_000_000, "Mbit"), (1_000, "kbit")];

impl LinkRate {
    /// The shortest exact number, and its unit.
    fn number_and_unit(self) -> (String, &'static str) {
        let fits = |(unit, _): &&(u64, _)| self.0 >= *unit && self.0.is_multiple_of(unit / 10);
        let (unit, name) = RATE_UNITS.iter().find(fits).copied().unwrap_or((1_000, "kbit"));
        (significant(self.0 as f64 / unit as f64, 12), name)
    }
}

impl fmt::Display for LinkRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, unit) = self.number_and_unit();
        f.pad(&format!("{number}{unit}"))
    }
}

impl FromStr for LinkRate {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        let wrong = || {
            let what = "a link's rate in bits per second: write 100Mbit or 1Gbit, from 100kbit to 10Gbit";
            TextError::malformed(text, what)
        };
        let lower = text.trim_end_matches("/s").to_ascii_lowercase();
        // A link's rate has no other unit than bits.
        let lower = if lower.ends_with(['k', 'm', 'g']) { lower + "bit" } else { lower };
        let split = |(unit, name): &(u64, &str)| Some((*unit, lower.strip_suffix(&name.to_ascii_lowercase())?));
        let (unit, number) = RATE_UNITS.iter().find_map(split).ok_or_else(wrong)?;
        let bits = number.trim().parse::<f64>().map_err(|_| wrong())? * unit as f64;
        if !(1e5..=1e10).contains(&bits) {
            return Err(wrong());
        }
        Ok(LinkRate(bits.round() as u64))
    }
}

/// `20 ms, 1 Gbit/s, 0.1 % lost`.
impl fmt::Display for EmulatedLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, unit) = self.rate.number_and_unit();
        write!(f, "{}, {number} {unit}/s", Nanos(self.delay_ns))?;
        if self.loss.0 > 0 { write!(f, ", {} % lost", self.loss.percent()) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_without_bit_are_bits() {
        for (text, bits) in [("100M", 100_000_000), ("1g", 1_000_000_000), ("10Mbit/s", 10_000_000)] {
            assert_eq!(text.parse(), Ok(LinkRate(bits)), "{text}");
        }
        assert!("100".parse::<LinkRate>().is_err());
    }

    #[test]
    fn rates_and_losses_round_trip() {
        for (text, bits) in
            [("1Gbit", 1_000_000_000), ("2.5Gbit", 2_500_000_000), ("100Mbit", 100_000_000), ("250kbit", 250_000)]
        {
            assert_eq!(text.parse::<LinkRate>().unwrap(), LinkRate(bits));
            assert_eq!(LinkRate(bits).to_string(), text);
            assert_eq!(text.to_ascii_lowercase().parse::<LinkRate>().unwrap(), LinkRate(bits));
        }
        for (text, millionths) in [("0%", 0), ("0.01%", 100), ("0.1%", 1000), ("1%", 10_000), ("50%", 500_000)] {
            assert_eq!(text.parse::<LossShare>().unwrap(), LossShare(millionths));
            assert_eq!(LossShare(millionths).to_string(), text);
        }
        assert_eq!("0".parse::<LossShare>().unwrap(), LossShare(0));
        assert_eq!("0.01".parse::<LossShare>().unwrap(), LossShare(10_000));
        for bad in ["", "1", "1GB", "100X/s", "20Gbit", "1kbit", "NaNGbit", "-1Gbit", "Gbit"] {
            assert!(bad.parse::<LinkRate>().is_err(), "{bad}");
        }
        for bad in ["", "1", "0.6", "51%", "-1%", "NaN%", "%"] {
            assert!(bad.parse::<LossShare>().is_err(), "{bad}");
        }
    }

    #[test]
    fn bytes_under_way_are_delay_times_rate() {
        let link = |delay_ns, bits| EmulatedLink { delay_ns, loss: LossShare(0), rate: LinkRate(bits) };
        let long = link(20_000_000, 1_000_000_000);
        assert_eq!((long.product_bytes(), long.queue_bytes(), long.passing_ns(1500)), (2_500_000, 2_500_000, 12_000));
        // A short one has a queue all the same, and a slow one.
        let short = link(100_000, 100_000_000);
        assert_eq!((short.product_bytes(), short.queue_bytes(), short.passing_ns(1)), (1250, 125_000, 80));
        assert_eq!(link(0, 1_000_000).queue_bytes(), 48_000);
        assert_eq!(link(0, 3).passing_ns(3), 8_000_000_000);
        assert_eq!(long.to_string(), "20 ms, 1 Gbit/s");
        assert_eq!(EmulatedLink { loss: LossShare(1000), ..short }.to_string(), "100 µs, 100 Mbit/s, 0.1 % lost");
    }

    #[test]
    fn a_round_trip_adds_both_delays() {
        let way = |passed, late_ns| WayUse { passed, late_ns, ..WayUse::default() };
        let used = LinkUse { there: way(10, 1000), back: way(2, 60), cpu_ns: 7 };
        assert_eq!((used.late_ns(), used.both().passed, used.plus(&used).cpu_ns), (130, 12, 14));
        assert_eq!(LinkUse::default().late_ns(), 0);
    }
}
