//! The A/A control: the difference that the harness measures between two equal cells.
//!
//! A group's leader runs twice in every block under two names. The interval of their difference shows how far apart
//! equal cells may still be at this number of blocks. It shrinks with more blocks, so it is no property of the machine.
//! A difference that chance cannot explain means that something other than the cell affects the result; then no claim
//! may be made in the group.
//!
//! Swapping the two names changes nothing, so the difference is symmetric by construction, and Student's interval is
//! valid for it even when the noise is skewed. It also works with few blocks, where sign flips cannot reach a
//! Bonferroni level.
//!
//! Never compares different cells.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// Level of the interval whose outer end is [`Twin::reach`].
const REACH_LEVEL: f64 = 0.95;
/// Level of the alarm before it is divided among the groups.
const ALARM_LEVEL: f64 = 0.99;

/// The result of the A/A control of one group.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Twin {
    /// Mean of ln(cost of the control / cost of the leader).
    pub difference: f64,
    /// Standard deviation of that difference between blocks, in ln.
    pub spread: f64,
    /// The larger absolute end of the 95 % interval, in ln: the largest plausible difference of the two.
    pub reach: f64,
    /// Whether the 99 % interval, Bonferroni over the groups, excludes 0.
    pub alarm: bool,
    /// Number of blocks.
    pub blocks: usize,
}

/// Judges ln(control / leader), one value per block, in a session of `groups` groups, with standard errors that grow by the
/// factor `widening`. `None` for fewer than two blocks.
#[must_use]
pub fn judge(differences: &[f64], widening: f64, groups: usize) -> Option<Twin> {
    let blocks = differences.len();
    if blocks < 2 {
        return None;
    }
    let n = blocks as f64;
    let mean = differences.iter().sum::<f64>() / n;
    let variance = differences.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let error = widening * (variance / n).sqrt();
    let quantile = |level: f64| {
        let student = StudentsT::new(0.0, 1.0, n - 1.0).expect("blocks give degrees of freedom");
        student.inverse_cdf(0.5 + level / 2.0)
    };
    let alarm_level = 1.0 - (1.0 - ALARM_LEVEL) / groups.max(1) as f64;
    Some(Twin {
        difference: mean,
        spread: variance.sqrt(),
        reach: mean.abs() + quantile(REACH_LEVEL) * error,
        alarm: mean.abs() > quantile(alarm_level) * error,
        blocks,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::seeded;

    fn check(differences: &[f64], groups: usize, reach: f64, alarm: bool) {
        let got = judge(differences, 1.0, groups).unwrap();
        assert!((got.reach - reach).abs() < 1e-4, "{got:?}");
        assert_eq!(got.alarm, alarm, "{got:?}");
    }

    #[test]
    fn known_cases() {
        // Mean 0.01, sd 0.01, n = 4: t(3, 0.975) = 3.1824.
        let values = [0.0, 0.01, 0.01, 0.02];
        check(&values, 1, 0.01 + 3.1824 * 0.008_165 / 2.0, false);
        check(&[0.02, 0.021, 0.019, 0.02, 0.02, 0.02], 1, 0.020_66, true);
        assert_eq!(judge(&[0.1], 1.0, 1), None);
    }

    #[test]
    fn more_groups_need_more_evidence() {
        let mut random = seeded(5, 0);
        let values: Vec<f64> = (0..20).map(|_| 0.007 + 0.01 * random.normal()).collect();
        assert!(judge(&values, 1.0, 1).unwrap().alarm);
        assert!(!judge(&values, 1.0, 5000).unwrap().alarm);
    }
}
