//! Bounds and ends of intervals as texts: the one rule for all of them.
//!
//! An upper end is rounded up and a lower end down, so that a printed interval always contains the computed one and a bound
//! never claims more than was shown. Estimates between them are rounded to the nearest ([`percent`]).

use bytegauge_model::Nanos;
use bytegauge_model::unit::{significant, significant_down, significant_up};

/// Above this share, a bound only shows that it is large.
pub const BOUND_MAX: f64 = 9.0;

/// A share that is printed as 0.
pub const NOTHING: f64 = 0.0005;

/// A difference above this share is shown as a multiple: `5.2×`.
const SHARE_MAX: f64 = 4.0;

/// Digits of a share in per cent.
fn digits(share: f64) -> usize {
    if share.abs() >= 0.1 { 3 } else { 2 }
}

/// An upper bound of a share, in per cent: `5.1 %`, `33 %`, `>900 %`.
pub fn at_most(share: f64) -> String {
    // Nothing is +0: -0 is printed with its sign.
    let up = |parts: f64| ((share * parts - 1e-9).ceil().max(0.0) + 0.0) / parts * 100.0;
    match share {
        share if share >= BOUND_MAX => format!(">{:.0} %", BOUND_MAX * 100.0),
        share if share >= 0.1 => format!("{:.0} %", up(100.0)),
        _ => format!("{} %", significant(up(1000.0), 2)),
    }
}

/// A lower bound of a share, in per cent, with as many digits as in an interval: `5.1 %`, `37 %`.
pub fn at_least(share: f64) -> String {
    match share {
        share if share >= 0.1 => format!("{:.0} %", (share * 100.0 + 1e-9).floor()),
        _ => format!("{} %", significant_down(share * 100.0, digits(share))),
    }
}

/// An interval of shares in per cent: `0–5.3 %`, `45–125 %`. Whole per cents from 10 % on, tenths below. A lower end above 0 has as
/// many digits as show it, two at most: an option that is slower must not look like one that may be as fast.
pub fn share_range(lower: f64, upper: f64) -> String {
    let shown = |per_cent: f64, decimals: usize| {
        let text = format!("{:.decimals$}", per_cent + 0.0);
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
    };
    let down = |decimals: usize| {
        let steps = 100.0 * 10f64.powi(decimals as i32);
        (lower * steps + 1e-9).floor() / steps * 100.0
    };
    let usual = usize::from(upper < 0.1);
    let of_lower = usize::from(lower < 0.1);
    let decimals =
        if lower > 0.0 { (of_lower..=2).find(|&decimals| down(decimals) > 0.0).unwrap_or(of_lower) } else { usual };
    let steps = 100.0 * 10f64.powi(usual as i32);
    let (from, to) = (down(decimals), (upper * steps - 1e-9).ceil() / steps * 100.0);
    if from >= to {
        format!("{} %", shown(to, usual))
    } else {
        format!("{}–{} %", shown(from, decimals), shown(to, usual))
    }
}

/// The ends of an interval, and their significant digits: three, or as many as distinguish them.
pub fn ends(lower: f64, upper: f64) -> ([String; 2], usize) {
    let digits = (3..=5).find(|&digits| significant(lower, digits) != significant(upper, digits)).unwrap_or(3);
    ([significant_down(lower, digits), significant_up(upper, digits)], digits)
}

/// Differences that are shown together: all in per cent, `45–85 %`, or all as multiples where the largest is above 400 %,
/// `1.45–5.3×`, so that they can be compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShareScale {
    /// As multiples, `3× as long`; else as percentages, `5 % longer`.
    pub multiples: bool,
}

impl ShareScale {
    /// The scale for shares that are shown together.
    pub fn of(shares: impl IntoIterator<Item = f64>) -> ShareScale {
        ShareScale { multiples: shares.into_iter().any(|share| share > SHARE_MAX) }
    }

    /// An interval of extra time, rounded outward.
    pub fn interval(self, lower: f64, upper: f64) -> String {
        if !self.multiples {
            return match upper < BOUND_MAX {
                true => share_range(lower, upper),
                false if lower <= 0.0 => "0 % or more".into(),
                false => format!("at least {}", at_least(lower)),
            };
        }
        // A lower end above 0 is shown as such.
        let is_one = |digits: &usize| lower > 0.0 && significant_down(1.0 + lower, *digits) == "1";
        let from = significant_down(1.0 + lower, (times_digits(lower)..=6).find(|digits| !is_one(digits)).unwrap_or(3));
        match upper {
            upper if upper >= BOUND_MAX && lower <= 0.0 => "1× or more".into(),
            upper if upper >= BOUND_MAX => format!("at least {from}×"),
            upper if upper <= 0.0 => "1×".into(),
            upper => match significant_up(1.0 + upper, times_digits(upper)) {
                to if to == from => format!("{to}×"),
                to => format!("{from}–{to}×"),
            },
        }
    }

    /// A lower bound: `5 %`, `1.05×`.
    pub fn at_least(self, share: f64) -> String {
        if self.multiples { self.shown(share, significant_down) } else { at_least(share) }
    }

    /// The estimate, to the nearest.
    pub fn estimate(self, share: f64) -> String {
        self.shown(share, significant)
    }

    /// [`ShareScale::estimate`] with its sign where it is a percentage: `+12 %`.
    pub fn signed(self, share: f64) -> String {
        self.with_sign(self.estimate(share))
    }

    /// `+2 % to +10 %`.
    pub fn signed_interval(self, lower: f64, upper: f64) -> String {
        let lower = self.shown(lower, significant_down);
        format!("{} to {}", self.with_sign(lower), self.with_sign(self.shown(upper, significant_up)))
    }

    fn shown(self, share: f64, round: fn(f64, usize) -> String) -> String {
        match share {
            share if !share.is_finite() => "?".into(),
            share if self.multiples => format!("{}×", round(1.0 + share, times_digits(share))),
            share => format!("{} %", round(share * 100.0, digits(share))),
        }
    }

    fn with_sign(self, text: String) -> String {
        match text.strip_prefix('-') {
            _ if self.multiples || text == "0 %" => text,
            Some(less) => format!("−{less}"),
            None => format!("+{text}"),
        }
    }
}

/// Digits of a multiple: a thousandth near 1, since a margin of 5 % is 1.05×.
fn times_digits(share: f64) -> usize {
    if share.abs() < 0.1 { 4 } else { 3 }
}

/// A difference from the other side: half of the time is 100 % faster.
pub fn reversed(share: f64) -> f64 {
    1.0 / (1.0 + share) - 1.0
}

/// A share in per cent, two significant digits: `5 %`, `1.8 %`, `0.3 %`.
pub fn percent(share: f64) -> String {
    format!("{} %", significant(share * 100.0, digits(share)))
}

/// The forecast of a bound after more blocks: it falls with the root of their number.
///
/// In a replay of 290 cuts of 37 stored sessions this held in 195 of 250. Differences of pairs forecast 31 significant results, of
/// which only 9 occurred (docs/research/statistics.md).
pub fn likely_bound(bound: f64, blocks_now: f64, blocks_then: f64) -> f64 {
    bound * (blocks_now / blocks_then).sqrt()
}

/// The age of connections during the measurement: `connections 50 ms to 76 ms after they opened`. Windows open and close with a lap,
/// so more digits have no meaning.
pub fn aged(from_ns: u64, to_ns: u64) -> String {
    let [from, to] = [from_ns, to_ns].map(|ns| {
        let step = 10u64.pow(ns.max(1).ilog10().saturating_sub(1));
        Nanos(ns.saturating_add(step / 2) / step * step)
    });
    format!("connections {from} to {to} after they opened")
}

/// A forecast this far beyond the measured blocks is no plan.
pub const FORECAST_MAX_S: f64 = 3600.0;

/// Seconds of a test that usually decide something.
pub const TEST_S: f64 = 15.0;

/// A budget as the flag takes it, rounded up to a usual number.
pub fn budget(seconds: f64) -> String {
    match seconds {
        s if s <= 55.0 => format!("{:.0}s", (s / 5.0).ceil() * 5.0),
        s if s <= 90.0 => "90s".into(),
        s => format!("{:.0}m", (s / 60.0).ceil()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_lower_end_above_zero_is_shown() {
        let shown: Vec<String> =
            [(0.0, 0.053), (0.45, 1.25), (0.004, 0.66), (0.0004, 0.66), (0.00001, 0.66), (0.021, 0.47)]
                .into_iter()
                .map(|(lower, upper)| share_range(lower, upper))
                .collect();
        assert_eq!(shown, ["0–5.3 %", "45–125 %", "0.4–66 %", "0.04–66 %", "0–66 %", "2.1–47 %"]);
        assert_eq!([share_range(-0.004, 0.02), share_range(0.1, 0.1)], ["-0.4–2 %", "10 %"]);
    }

    /// The first number of a text.
    fn number(text: &str) -> f64 {
        let text = text.replace('−', "-");
        let digits: String =
            text.chars().skip_while(|c| !c.is_ascii_digit() && *c != '-').take_while(|c| !" %×".contains(*c)).collect();
        digits.parse().expect(&text)
    }

    /// The share in a text of either scale.
    fn share(text: &str) -> f64 {
        if text.contains('×') { number(text) - 1.0 } else { number(text) / 100.0 }
    }

    /// The rounding error of the last digit.
    fn slack(value: f64) -> f64 {
        1e-9 * value.abs().max(1.0)
    }

    /// The page prints the same: `page/test/outward.test.ts` reads this table.
    #[test]
    fn every_example_is_rounded_outwards() {
        let table: serde_json::Value = serde_json::from_str(include_str!("../../tests/outward.json")).expect("a table");
        type Rule = fn(f64) -> String;
        let rules: [(&str, Rule); 2] = [("at_most", at_most), ("at_least", at_least)];
        let rows = |name: &str| table[name].as_array().expect(name).clone();
        let number = |value: &serde_json::Value| value.as_f64().expect("a number");
        for (name, rule) in rules {
            rows(name).iter().for_each(|row| assert_eq!(rule(number(&row[0])), row[1].as_str().expect(name), "{name}"));
        }
        for row in rows("range") {
            let text = ends(number(&row[0]), number(&row[1])).0.join(" to ").replace('-', "−");
            assert_eq!(text, row[2].as_str().expect("a text"));
        }
    }

    #[test]
    fn intervals_have_one_scale() {
        let percents = ShareScale::of([1.456, 0.352, 3.104]);
        assert_eq!((percents.signed(1.456), percents.interval(0.352, 3.104)), ("+146 %".into(), "35–311 %".into()));
        let times = ShareScale::of([0.0, 4.104]);
        assert_eq!([times.interval(0.0, 0.0), times.interval(0.352, 4.104)], ["1×", "1.35–5.11×"]);
        assert_eq!(times.at_least(0.16), "1.16×");
        assert_eq!(ShareScale::of([0.05]).signed_interval(-0.0213, 0.1104), "−2.2 % to +11.1 %");
        // An interval without an end is one.
        assert_eq!(percents.interval(0.36, f64::INFINITY), "at least 36 %");
    }

    #[test]
    fn bounds_are_forecast_by_the_root_of_blocks() {
        assert_eq!(likely_bound(0.46, 6.0, 24.0), 0.23);
    }

    #[test]
    fn ages_have_few_digits() {
        let check = |from_ns: u64, to_ns: u64, expected: &str| assert_eq!(aged(from_ns, to_ns), expected);
        check(50_012_345, 75_702_111, "connections 50 ms to 76 ms after they opened");
        check(900, 2_540_000, "connections 900 ns to 2.5 ms after they opened");
    }

    #[test]
    fn budgets_round_up_to_usual_numbers() {
        for (seconds, expected) in [(12.0, "15s"), (55.0, "55s"), (56.0, "90s"), (91.0, "2m"), (180.0, "3m")] {
            assert_eq!(budget(seconds), expected);
        }
    }

    proptest! {
        #[test]
        fn a_printed_interval_contains_the_computed_one(a in -0.99f64..12.0, b in -0.99f64..12.0, shrink in 0u32..6) {
            let [a, b] = [a, b].map(|value| value / f64::from(10u32.pow(shrink)));
            let (lower, upper) = (a.min(b), a.max(b));
            prop_assert!(share(&at_least(lower)) <= lower + slack(lower), "{lower}: {}", at_least(lower));
            if (0.0..BOUND_MAX).contains(&upper) {
                prop_assert!(share(&at_most(upper)) >= upper - slack(upper), "{upper}: {}", at_most(upper));
            }
            for text in [ends(lower, upper).0.join(" to "), ShareScale::of([lower, upper]).signed_interval(lower, upper)] {
                let (from, to) = text.split_once(" to ").expect("two ends");
                let shares = if text.contains(['%', '×']) { [share(from), share(to)] } else { [number(from), number(to)] };
                prop_assert!(shares[0] <= lower + slack(lower) && shares[1] >= upper - slack(upper), "{lower} {upper}: {text}");
            }
        }
    }
}
