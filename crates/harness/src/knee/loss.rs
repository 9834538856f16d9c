//! The highest rate of datagrams at which at most a share of them is lost.
//!
//! The first measurement sends as fast as the sender can; if that loses too much, lower rates are probed on fresh sockets. The
//! probe at the highest rate that loses no more is the result. Never adds the losses of two probes.

use std::sync::atomic::AtomicBool;

use bytegauge_model::slo::PROBE_MAX_NS;
use bytegauge_model::unit::byte_rate;
use bytegauge_model::{Deaths, EndRole, FactorKey, LossShare, Outcome};
use bytegauge_traffic::{EndPool, Setup};

use super::{Found, Probed, search};
use crate::environment::Watch;
use crate::trial::{self, TrialResult};

/// Searches once. `None` if `stop` was set meanwhile.
pub(crate) fn measure(
    pool: &mut EndPool,
    setup: &Setup,
    limit: LossShare,
    stop: &AtomicBool,
    watch: &mut Watch,
) -> Option<TrialResult> {
    let fastest = trial::measure(pool, setup, stop, watch)?;
    let Some((bytes_per_second, datagrams_per_second)) = sent(&fastest) else { return Some(fastest) };
    if fastest.outcome != Outcome::Measured || !fastest.ends_are_sound || keeps(&fastest, limit) {
        return Some(fastest);
    }
    let found = search(bytes_per_second, stop, |offered| {
        let mut step = setup.clone();
        step.window_ns = limit.probe_ns(setup.window_ns, datagrams_per_second * offered as f64 / bytes_per_second);
        step.spec.put(FactorKey::rate, offered);
        step.modes_are_shown = true;
        if step.window_ns > PROBE_MAX_NS {
            return Some(Probed::TooLong);
        }
        let measured = trial::measure(pool, &step, stop, watch)?;
        Some(match measured.outcome != Outcome::Measured || !measured.ends_are_sound {
            true => Probed::Failed(measured),
            false => {
                let kept = keeps(&measured, limit);
                Probed::Seen(measured, kept)
            }
        })
    })?;
    Some(match found {
        Found::Kept(measured) | Found::Failed(measured) => measured,
        Found::Nothing { last, .. } => {
            let last = last.unwrap_or(fastest);
            let at = sent(&last).map_or(0.0, |(bytes, _)| bytes);
            let why = format!(
                "even {} lose more than {limit} of the datagrams (as fast as possible, {} are sent): allow more in --max-loss, \
                 or use a larger --rcvbuf",
                byte_rate(at),
                byte_rate(bytes_per_second)
            );
            TrialResult { outcome: Outcome::Failed(why), ..last }
        }
    })
}

/// Bytes and datagrams that the source sent per second of its window.
fn sent(measured: &TrialResult) -> Option<(f64, f64)> {
    let source = measured.end(EndRole::Source).filter(|source| source.window_ns > 0)?;
    let seconds = source.window_ns as f64 / 1e9;
    Some((source.bytes as f64 / seconds, source.datagrams.as_ref()?.datagrams as f64 / seconds))
}

/// Whether no more than the share was lost.
fn keeps(measured: &TrialResult, limit: LossShare) -> bool {
    let counted = |role| measured.end(role)?.datagrams.as_deref();
    let Some((source, sink)) = counted(EndRole::Source).zip(counted(EndRole::Sink)) else { return false };
    is_within(Deaths::of(source, sink).lost, source.total, limit)
}

fn is_within(lost: u64, sent: u64, limit: LossShare) -> bool {
    u128::from(lost) * 1_000_000 <= u128::from(sent) * u128::from(limit.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_itself_is_kept() {
        for (lost, sent, limit, expected) in
            [(0, 10, 0, true), (1, 1000, 1000, true), (2, 1000, 1000, false), (1, u64::MAX, 0, false)]
        {
            assert_eq!(is_within(lost, sent, LossShare(limit)), expected, "{lost} of {sent}");
        }
    }
}
