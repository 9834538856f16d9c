//! Settings whose effect over loopback has little to do with that on a network, or is the opposite.

use bytegauge_model::Level;

/// A setting, and what it does beyond loopback.
pub struct BeyondLoopback {
    /// The factor.
    pub factor: &'static str,
    /// Whether a level of it is concerned.
    pub concerns: fn(&Level) -> bool,
    /// What it does on a network, after the name of the setting.
    pub sentence: &'static str,
    /// The delay of the emulated link that shows it.
    pub delay: &'static str,
}

const ANY: fn(&Level) -> bool = |level| *level != Level::Absent;
const FIXED: fn(&Level) -> bool = |level| level.number().is_some();

/// Every such setting. The kernel facts are from tcp(7) and socket(7).
pub const TABLE: &[BeyondLoopback] = &[
    BeyondLoopback {
        factor: "congestion",
        concerns: ANY,
        sentence: "loopback has no queue and no loss: on a network another one may be best",
        delay: "20ms",
    },
    BeyondLoopback {
        factor: "sndbuf",
        concerns: FIXED,
        sentence: "a fixed size ends autotuning and caps the rate at its size per round trip",
        delay: "20ms",
    },
    BeyondLoopback {
        factor: "rcvbuf",
        concerns: FIXED,
        sentence: "a fixed size ends autotuning and caps the rate at its size per round trip",
        delay: "20ms",
    },
    BeyondLoopback {
        factor: "nodelay",
        concerns: ANY,
        sentence: "without it small writes wait for an acknowledgement, which takes a round trip on a network",
        delay: "2ms",
    },
    BeyondLoopback {
        factor: "quickack",
        concerns: ANY,
        sentence: "over loopback an acknowledgement takes no time; on a network writers may wait for it",
        delay: "2ms",
    },
    BeyondLoopback {
        factor: "zerocopy",
        concerns: ANY,
        sentence: "loopback copies every zero-copy send; a network card may not",
        delay: "2ms",
    },
];
