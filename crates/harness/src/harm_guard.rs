//! Ends a session that makes a running program worse: a change that was harmful in two trials in a row.
//!
//! A trial is harmful if it took more than the worst trial of the program as it is by the share that the user allows: of the
//! quantity that is compared, or of time for its bytes. A service has a load of its own, so a single slow trial shows nothing.

use std::collections::BTreeMap;

use bytegauge_model::{CellId, Level, Outcome, Trial};
use bytegauge_stats::quantile::median;

/// Trials of the program as it is that are needed for a comparison.
const UNCHANGED_MIN: usize = 3;

/// Harmful trials in a row.
const HARMFUL_MAX: u32 = 2;

/// What the trials of a session have shown so far.
#[derive(Debug, Default)]
pub(crate) struct HarmGuard {
    /// Of the program as it is: the compared quantity, and the time for a byte.
    unchanged: [Vec<f64>; 2],
    /// Harmful trials of a cell since its last harmless one.
    harmful: BTreeMap<CellId, u32>,
}

impl HarmGuard {
    /// Adds a trial. Returns why the session ends, if it does.
    pub(crate) fn add(&mut self, trial: &Trial, value: &Level, is_unchanged: bool, max_harm: f64) -> Option<String> {
        let costs = costs(trial);
        if is_unchanged {
            let both = self.unchanged.iter_mut().zip(costs.into_iter().flatten());
            both.for_each(|(known, cost)| known.push(cost));
            return None;
        }
        let harm = match costs {
            Some(costs) => {
                let both = self.unchanged.iter().zip(costs).zip(["took", "moved its bytes in a time of"]);
                both.filter_map(|((known, cost), verb)| Some((harm(known, cost, max_harm)?, verb)))
                    .map(|(harm, verb)| format!("it {verb} {:.0} % more than as it is", harm * 100.0))
                    .next()
            }
            // A trial without a byte.
            None => matches!(trial.outcome, Outcome::Failed(_))
                .then(|| trial.outcome.reason().unwrap_or("it failed").to_owned())
                .filter(|_| self.unchanged[0].len() >= UNCHANGED_MIN),
        };
        let Some(harm) = harm else {
            self.harmful.remove(&trial.cell);
            return None;
        };
        let count = self.harmful.entry(trial.cell.clone()).or_default();
        *count += 1;
        (*count >= HARMFUL_MAX).then(|| {
            format!(
                "{value} made the program worse in {HARMFUL_MAX} trials in a row ({harm}; --max-harm {:.0}%), so it was set back",
                max_harm * 100.0
            )
        })
    }
}

/// The compared quantity of a trial and its time for a byte, nanoseconds.
fn costs(trial: &Trial) -> Option<[f64; 2]> {
    let rate = trial.rate()?;
    (trial.bytes > 0).then(|| [1e9 / rate, trial.wall_ns as f64 / trial.bytes as f64])
}

/// By which share a cost is above the median of others, if it is above all of them by more than is allowed.
fn harm(known: &[f64], cost: f64, max_harm: f64) -> Option<f64> {
    let usual = median(known).filter(|_| known.len() >= UNCHANGED_MIN)?;
    known.iter().all(|other| cost > other * (1.0 + max_harm)).then(|| cost / usual - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn harm_exceeds_all_and_the_allowed_share() {
        let check = |known: &[f64], cost, expected| assert_eq!(harm(known, cost, 0.25), expected, "{known:?} {cost}");
        check(&[1.0, 1.0], 9.0, None);
        check(&[1.0, 1.0, 1.0], 1.25, None);
        check(&[1.0, 1.0, 1.0], 1.5, Some(0.5));
        check(&[1.0, 1.0, 2.0], 2.5, None);
        check(&[1.0, 1.0, 2.0], 3.0, Some(2.0));
    }
}
