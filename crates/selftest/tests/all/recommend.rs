//! The recommendation of a group, on trials whose truth is known.

use std::cmp::Ordering;

use bytegauge_selftest::sim::{Noise, Scenario};
use bytegauge_stats::group::{BlockInput, CellInput, GroupInput, GroupVerdict, Method, analyse};
use bytegauge_stats::recommendation::{Candidate, OptionRecommendation, cheaper, named, recommend};

fn check(effects: &[f64], spread: f64, blocks: usize, expected: &str) -> OptionRecommendation {
    let method = Method::default();
    let input = Scenario::new(effects.to_vec(), Noise::Normal, spread).group(blocks, 0);
    let got = recommend(&input, &analyse(&input, &method), &method);
    assert_eq!(format!("cell {:?}, proven {:?}", got.cell, got.proven_cells), expected, "{got:?}");
    got
}

#[test]
fn the_smallest_that_is_good_enough() {
    check(&[0.2, 0.02, 0.0], 0.01, 20, "cell Some(1), proven [1, 2]");
}

#[test]
fn too_noisy_to_prove() {
    let got = check(&[0.0, 0.0, 0.0], 0.15, 10, "cell Some(2), proven []");
    assert!(got.blocks_more_needed.is_some_and(|more| more > 10), "{got:?}");
}

#[test]
fn the_smallest_bound_wins_without_a_proof() {
    // The first is the cheapest by a small amount, and varies against the last; the second is between the two.
    let block = |at: usize| {
        let swing = if at.is_multiple_of(2) { 0.3 } else { -0.3 } + 0.01 * (at % 5) as f64;
        let cost = [swing, 0.01, 0.02 - swing].map(|ln: f64| Some(ln.exp()));
        BlockInput { cost: cost.to_vec(), twin_cost: None }
    };
    let cell = |order| CellInput { footprint_bytes: None, cpu_per_unit: None, order, is_default: false, unfit: false };
    let blocks = (0..24).map(block).collect();
    let input = GroupInput { cells: (0..3).map(cell).collect(), twin_of: None, blocks };
    let method = Method { limit_outliers: false, merge_dependent_blocks: false, ..Method::default() };
    let mut verdict = analyse(&input, &method);
    let named = |verdict: &GroupVerdict| recommend(&input, verdict, &method);
    let found = named(&verdict);
    assert!(!found.proven && verdict.leader() != found.cell, "{found:?} {verdict:?}");
    assert_eq!((found.cell, found.upper), (Some(1), verdict.upper[1]), "{verdict:?}");
    assert!(verdict.upper.iter().all(|upper| *upper >= found.upper), "{verdict:?}");
    // Without a significant result the default is recommended, unless its bound is far wider.
    let mut with_default = input.clone();
    with_default.cells[2].is_default = true;
    let found_with_default = |verdict: &GroupVerdict| recommend(&with_default, verdict, &method).cell;
    let mut close = verdict.clone();
    close.upper[2] = close.upper[1].map(|upper| 1.4 * upper);
    assert_eq!(found_with_default(&close), Some(2));
    close.upper[2] = close.upper[1].map(|upper| 1.6 * upper);
    assert_eq!(found_with_default(&close), Some(1));
    close.upper = vec![Some(2.0), Some(0.7), Some(3.0)];
    assert_eq!(found_with_default(&close), Some(2), "every bound is too wide");
    close.upper = verdict.upper.clone();
    close.upper[2] = close.upper[1].map(|upper| 1.1 * upper);
    close.best_set.retain(|cell| *cell != 2);
    assert_eq!(found_with_default(&close), Some(1), "it is significantly worse than another");
    // An option that plain means contradict is not recommended while others are uncontradicted.
    verdict.contradicted = vec![1];
    assert_ne!(named(&verdict).cell, Some(1));
    // Without bounds the estimate decides.
    verdict.upper = vec![None; 3];
    assert_eq!(named(&verdict).cell, verdict.leader());
}

#[test]
fn one_of_several_defaults_is_kept() {
    let of =
        |is_default: bool, bound: f64| Candidate { is_default, proven: false, may_be_best: true, bound: Some(bound) };
    let candidates = [of(true, 0.3), of(true, 0.14), of(true, 0.12), of(false, 0.1)];
    assert_eq!(named(&candidates, Some(3)), Some(2), "the closest of those that are close to the best");
}

#[test]
fn too_few_blocks() {
    let got = check(&[0.0, 0.2], 0.01, 1, "cell Some(0), proven []");
    assert_eq!(got.blocks_more_needed, Some(1));
}

#[test]
fn without_sizes_cpu_then_order_decides() {
    let cell = |cpu: Option<f64>, order| CellInput {
        footprint_bytes: None,
        cpu_per_unit: cpu,
        order,
        is_default: false,
        unfit: false,
    };
    assert_eq!(cheaper(&cell(Some(1.0), 5), &cell(Some(2.0), 1)), Ordering::Less);
    assert_eq!(cheaper(&cell(None, 5), &cell(Some(2.0), 9)), Ordering::Greater);
    assert_eq!(cheaper(&cell(None, 5), &cell(None, 9)), Ordering::Less);
    let default = CellInput { is_default: true, ..cell(None, 9) };
    assert_eq!(cheaper(&default, &cell(Some(1.0), 1)), Ordering::Less);
}

#[test]
fn proven_wins_then_default_then_smallest_bound() {
    let check = |default: (bool, bool, Option<f64>), least: f64, proven: bool, expected: usize| {
        let (proves, may_be_best, bound) = default;
        let candidates = [
            Candidate { is_default: true, proven: proves, may_be_best, bound },
            Candidate { is_default: false, proven, may_be_best: true, bound: Some(least) },
        ];
        assert_eq!(named(&candidates, Some(1)), Some(expected), "{candidates:?}");
    };
    check((true, true, Some(0.04)), 0.01, true, 0);
    check((false, true, Some(0.15)), 0.04, true, 1);
    check((false, true, Some(0.15)), 0.10, false, 0);
    check((false, true, Some(0.16)), 0.10, false, 1);
    check((false, true, Some(9.0)), 0.70, false, 0);
    check((false, false, Some(0.10)), 0.10, false, 1);
    check((false, true, None), 0.10, false, 1);
    assert_eq!(named(&[], None), None);
}
