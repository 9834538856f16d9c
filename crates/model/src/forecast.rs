//! Times that are shown before they have passed: one rule for a plan, for progress, and for suggestions.
//!
//! Two shown times may still differ, for one reason: a plan has the lengths of trials and assumes their overhead, while
//! progress, and the report afterwards, use the blocks that this machine has measured.

use crate::unit::Nanos;

/// How long something may take: rounded up to two digits, since the forecast is no more exact.
pub fn forecast(ns: u64) -> Nanos {
    const SECOND: u64 = 1_000_000_000;
    let unit = if ns < SECOND { SECOND / 1000 } else { SECOND };
    let whole = ns.div_ceil(unit).max(1);
    let step = 10_u64.pow(whole.ilog10().saturating_sub(1));
    Nanos(whole.div_ceil(step).saturating_mul(step).saturating_mul(unit))
}

/// Time of a long-trial check with this share of the whole, after `spent_ns` of other work, nanoseconds.
pub fn audit_after_ns(share: f64, spent_ns: u64) -> u64 {
    (spent_ns as f64 * share / (1.0 - share)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forecast_rounds_up_to_two_digits() {
        let cases = [
            (0, "1 ms"),
            (123_400_000, "130 ms"),
            (1_200_000_000, "2 s"),
            (41_200_000_000, "42 s"),
            (99_500_000_000, "100 s"),
            (3_225_000_000_000, "3300 s"),
            (120_000_000_000, "120 s"),
        ];
        for (ns, expected) in cases {
            assert_eq!(forecast(ns).to_string(), expected);
        }
    }

    #[test]
    fn an_audit_has_its_share_of_all() {
        assert_eq!(audit_after_ns(0.1, 90), 10);
        assert_eq!(audit_after_ns(0.0, 90), 0);
    }
}
