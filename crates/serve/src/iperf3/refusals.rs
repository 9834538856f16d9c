//! Bounds the notices about refused connections, so that a host that opens many does not fill the log.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Notices in each period at most.
const NOTICES_MAX: u32 = 60;

/// The period.
const PERIOD: Duration = Duration::from_secs(60);

/// The notices of the current period.
#[derive(Debug, Default)]
pub(super) struct Refusals(Mutex<Period>);

#[derive(Debug, Default)]
struct Period {
    began: Option<Instant>,
    entered: u32,
    left_out: u64,
}

impl Refusals {
    /// Counts a refused connection. `None`: it has no notice; else how many had none since the notice before.
    pub(super) fn enter(&self, now: Instant) -> Option<u64> {
        let mut period = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if period.began.is_none_or(|began| now.saturating_duration_since(began) >= PERIOD) {
            (period.began, period.entered) = (Some(now), 0);
        }
        if period.entered == NOTICES_MAX {
            period.left_out += 1;
            return None;
        }
        period.entered += 1;
        Some(std::mem::take(&mut period.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_has_few_notices() {
        let (refusals, now) = (Refusals::default(), Instant::now());
        let noticed = (0..1000).filter(|_| refusals.enter(now).is_some()).count();
        assert_eq!(noticed, 60);
        assert_eq!(refusals.enter(now + PERIOD), Some(940));
        assert_eq!(refusals.enter(now + PERIOD), Some(0));
    }
}
