use super::*;
use crate::rng::seeded;
use proptest::prelude::*;

/// Read sizes and ns per call of a public /dev/zero measurement (duration over number of calls).
pub(crate) fn dev_zero() -> Vec<Point> {
    let row = |&(bytes, seconds, calls): &(f64, f64, f64)| Point { bytes, ns: seconds * 1e9 / calls };
    DEV_ZERO.iter().map(row).collect()
}

fn trials(model: impl Fn(f64) -> f64, sizes: u32, per_size: usize, spread: f64, seed: u64) -> Vec<Point> {
    let mut random = seeded(seed, 0);
    (0..sizes)
        .flat_map(|k| std::iter::repeat_n(f64::from(1_u32 << k), per_size))
        .map(|bytes| Point { bytes, ns: model(bytes) * (spread * random.normal()).exp() })
        .collect()
}

#[test]
fn the_public_table_by_plain_least_squares() {
    let search = CostSearch { fit_max_bytes: Some(262_144.0), ..CostSearch::default() };
    let got = analyse(&dev_zero(), &search).unwrap().plain.unwrap();
    assert_eq!(got.n, 19);
    assert!((got.fixed_ns - 162.3).abs() < 0.05, "{got:?}");
    assert!((got.per_byte_ns - 0.02197).abs() < 0.000_005, "{got:?}");
}

#[test]
fn a_line_is_found_without_a_break() {
    let got = analyse(&trials(|s| 200.0 + 0.05 * s, 20, 5, 0.03, 1), &CostSearch::default()).unwrap();
    assert_eq!(got.breaks, []);
    assert!((got.model.fixed_ns / 200.0 - 1.0).abs() < 0.03, "{:?}", got.model);
    assert!((got.model.segments[0].per_byte_ns / 0.05 - 1.0).abs() < 0.03, "{:?}", got.model);
}

#[test]
fn a_break_is_found_where_it_is() {
    let at = 100_000.0;
    let curve = |s: f64| 200.0 + 0.02 * s + 0.03 * (s - at).max(0.0);
    let got = analyse(&trials(curve, 24, 5, 0.03, 2), &CostSearch::default()).unwrap();
    assert_eq!(got.breaks.len(), 1, "{:?}", got.breaks);
    let found = got.breaks[0];
    assert!(found.lower_bytes <= at && at <= found.upper_bytes, "{found:?}");
    assert!(found.p_value <= 0.02, "{found:?}");
}

#[test]
fn two_breaks_are_found() {
    let curve = |s: f64| 200.0 + 0.05 * s - 0.04 * (s - 4000.0).max(0.0) + 0.05 * (s - 500_000.0).max(0.0);
    let got = analyse(&trials(curve, 24, 8, 0.02, 3), &CostSearch::default()).unwrap();
    let places: Vec<f64> = got.breaks.iter().map(|b| b.at_bytes).collect();
    assert!(matches!(places[..], [a, b] if (a / 4000.0).ln().abs() < 0.4 && (b / 5e5).ln().abs() < 0.4), "{places:?}");
}

#[test]
fn sizes_for_half_and_most_of_the_rate() {
    // Without noise: f = 100 + 0.1 s, half of the asymptote at 1,000 bytes, 95 % at 19,000.
    let got = analyse(&trials(|s| 100.0 + 0.1 * s, 21, 1, 0.0, 1), &CostSearch::default()).unwrap();
    let near = |got: Option<f64>, expected: f64| (got.unwrap() / expected - 1.0).abs() < 1e-6;
    assert!(near(got.reach.half_of_asymptote_bytes, 1000.0), "{:?}", got.reach);
    assert!(near(got.reach.most_of_asymptote_bytes, 19_000.0), "{:?}", got.reach);
    assert!(got.reach.half_of_observed_bytes.unwrap() < 1000.0);
}

#[test]
fn correlation_of_known_pairs() {
    assert_eq!(correlation(&[1.0, 2.0, 3.0], &[2.0, 4.0, 6.0]), Some(1.0));
    assert_eq!(correlation(&[1.0, 2.0, f64::NAN], &[2.0, 4.0, 6.0]), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn no_slope_is_negative_and_the_curve_rises(seed: u64, fixed in 1.0_f64..1e4, slope in 1e-4_f64..1.0) {
        let search = CostSearch { bootstrap: 19, ..CostSearch::default() };
        let got = analyse(&trials(|s| fixed + slope * s, 12, 2, 0.2, seed), &search).unwrap();
        prop_assert!(got.model.fixed_ns >= 0.0);
        prop_assert!(got.model.segments.iter().all(|s| s.per_byte_ns >= 0.0));
        prop_assert!(got.model.ns(10.0) <= got.model.ns(1e6));
    }
}
