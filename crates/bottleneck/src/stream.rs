//! The limits that streams alone have: the source, the link, a window, a buffer.

use bytegauge_model::unit::byte_rate;

use super::path::PathSigns;
use super::{BUSY, Evidence, QUEUED, evidence, percent};

/// A link used to nine tenths can gain at most a tenth from anything else.
const LINK_FULL: f64 = 0.90;
/// `TCP_INFO` counts limits in jiffies (1 to 10 ms): below a third of the busy time the count is mostly
/// rounding, and other waits are at least as long.
const TCP_LIMITED: f64 = 0.33;
/// A larger kernel buffer with all else equal must gain this much, well above noise and the bias of selecting the best
/// sibling.
const BUFFER_GAIN: f64 = 0.10;

pub(super) fn source_itself(signs: &PathSigns) -> Option<Evidence> {
    if signs.two_ended {
        return None;
    }
    let busy = signs.ends[1].busy?;
    let system = signs.reader_system_share?;
    let numbers = [("receiver_busy", busy), ("receiver_system_share", system)];
    if busy >= BUSY {
        // With most of the time in user mode, the reader's own work is the limit.
        (system > 0.5).then(|| {
            let (busy, system) = (percent(busy), percent(system));
            evidence(format!("the reader runs {busy} of the time, {system} of it inside read(2)"), numbers)
        })
    } else if signs.ends[1].queued_share.is_some_and(|share| share >= QUEUED) {
        None
    } else {
        let idle = signs.ends[1].idle_per_sleep_us?;
        let sentence = format!("the reader runs {} of the time and waits for the source in between", percent(busy));
        Some(evidence(sentence, numbers.into_iter().chain([("receiver_idle_per_sleep_us", idle)])))
    }
}

pub(super) fn link(signs: &PathSigns) -> Option<Evidence> {
    let (carries, rate) = signs.link_rate.zip(signs.rate)?;
    let sentence = format!("the emulated link is full: it carries {} of data at most", byte_rate(carries));
    (rate >= LINK_FULL * carries)
        .then(|| evidence(sentence, [("link_bytes_per_s", carries), ("rate_bytes_per_s", rate)]))
}

pub(super) fn window(signs: &PathSigns) -> Option<Evidence> {
    let share = signs.rwnd_limited_share.filter(|share| *share >= TCP_LIMITED)?;
    let whose = if signs.relay.is_some() { "relay" } else { "receiver" };
    let sentence = format!(
        "the sender waits for the {whose}'s window {} of the time in which it has data to send",
        percent(share)
    );
    (share >= signs.sndbuf_limited_share.unwrap_or(0.0)).then(|| evidence(sentence, [("rwnd_limited_share", share)]))
}

pub(super) fn socket_buffer(signs: &PathSigns) -> Option<Evidence> {
    if let Some(share) = signs.sndbuf_limited_share.filter(|share| *share >= TCP_LIMITED) {
        let sentence =
            format!("the send buffer was the limit {} of the time in which the sender has data", percent(share));
        return Some(evidence(sentence, [("sndbuf_limited_share", share)]));
    }
    // Unix sockets and pipes count no limits. Only a sibling with a larger buffer proves it there: blocked writers and
    // readers look alike whether the buffer is small or waking up is slow.
    let (name, gain) = signs.larger_buffer.filter(|(_, gain)| *gain >= BUFFER_GAIN)?;
    let sentence = format!("with a larger {name} and all else equal it is {} faster", percent(gain));
    Some(evidence(sentence, [("larger_buffer_gain", gain)]))
}
