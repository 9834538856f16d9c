//! The result of one group, on trials whose truth is known.

use bytegauge_selftest::sim::{Environment, Noise, Scenario};
use bytegauge_stats::group::{BlockInput, GroupInput, GroupVerdict, Method, analyse};
use bytegauge_stats::rng::seeded;
use proptest::prelude::*;

fn check(input: &GroupInput, expected: &str) {
    let got = analyse(input, &Method::default());
    let reason = got.inconclusive.map_or_else(|| "settled".to_owned(), |reason| reason.to_string());
    let absent: Vec<usize> = (0..input.cells.len()).filter(|cell| !got.present.contains(cell)).collect();
    let line = format!("best {:?}, left {:?}, absent {absent:?}, {reason}", got.best_set, got.left);
    assert_eq!(line, expected, "{got:?}");
}

fn clear() -> GroupInput {
    Scenario::new(vec![0.1, 0.0, 0.3], Noise::Normal, 0.01).group(12, 1)
}

#[test]
fn a_clear_group() {
    check(&clear(), "best [1], left [0, 2], absent [], settled");
}

#[test]
fn two_blocks_show_much_and_one_nothing() {
    let mut input = clear();
    input.blocks.truncate(5);
    check(&input, "best [1], left [0, 2], absent [], settled");
    let mut much = Scenario::new(vec![0.0, 2.0], Noise::Normal, 0.01).group(2, 1);
    check(&much, "best [0], left [1], absent [], settled");
    let same = |block: &BlockInput| BlockInput { cost: vec![Some(1.0), Some(9.0)], ..block.clone() };
    let equal = GroupInput { blocks: much.blocks.iter().map(same).collect(), ..much.clone() };
    // Without spread, two blocks do not show it.
    check(&equal, "best [0, 1], left [], absent [], settled");
    much.blocks.truncate(1);
    check(&much, "best [0, 1], left [], absent [], 1 usable block; at least 2 are needed");
}

#[test]
fn incomplete_blocks_are_left_out() {
    let mut input = clear();
    input.blocks[3].cost[2] = None;
    input.blocks[4].cost[0] = Some(f64::NAN);
    let got = analyse(&input, &Method::default());
    assert_eq!((got.blocks_used, input.blocks.len()), (10, 12));
}

#[test]
fn an_absent_cell_leaves_its_blocks_usable() {
    let mut input = clear();
    input.blocks[4..].iter_mut().for_each(|block| block.cost[1] = None);
    check(&input, "best [0], left [2], absent [1], settled");
}

#[test]
fn no_blocks_and_no_cells() {
    let empty = GroupInput { cells: Vec::new(), twin_of: None, blocks: Vec::new() };
    check(&empty, "best [], left [], absent [], no block was measured");
}

#[test]
fn one_cell_is_the_best_of_its_group() {
    let input = Scenario::new(vec![0.0], Noise::Normal, 0.1).group(6, 1);
    check(&input, "best [0], left [], absent [], settled");
    assert_eq!(analyse(&input, &Method::default()).upper, [Some(0.0)]);
}

#[test]
fn bounds_are_never_negative() {
    // The better of two clearly different cells exceeds the best by at most 0, not by −0.29.
    let input = Scenario::new(vec![0.0, 0.3], Noise::Normal, 0.01).group(12, 1);
    let got = analyse(&input, &Method::default());
    assert_eq!((got.lower[0], got.upper[0]), (Some(0.0), Some(0.0)));
    let (lower, upper) = (got.lower[1].unwrap(), got.upper[1].unwrap());
    assert!(0.27 < lower && lower < upper && upper < 0.33, "{lower} {upper}");
}

#[test]
fn only_kept_cells_are_contradicted() {
    // Both cells are slowed by bursts; the typical trials reject the second one anyway.
    let mut input = Scenario::new(vec![0.0, 0.0, 0.3, 0.01], Noise::Normal, 0.01).group(60, 3);
    for block in input.blocks.iter_mut().step_by(4) {
        for cell in [1, 2] {
            block.cost[cell] = block.cost[cell].map(|cost| cost * 3.0);
        }
    }
    let got = analyse(&input, &Method::default());
    assert_eq!(got.contradicted, [1], "{got:?}");
    assert!(!got.best_set.contains(&2));
}

#[test]
fn an_unfit_cell_is_not_recommended() {
    let mut input = Scenario::new(vec![0.0, 0.01, 0.3], Noise::Normal, 0.01).group(40, 3);
    let method = Method::default();
    let recommend = |input: &GroupInput| {
        let verdict = analyse(input, &method);
        let recommendation = bytegauge_stats::recommendation::recommend(input, &verdict, &method);
        (recommendation.cell, recommendation.proven, verdict.contradicted)
    };
    assert_eq!(recommend(&input), (Some(0), true, vec![]));
    input.cells[0].unfit = true;
    assert_eq!(recommend(&input), (Some(1), true, vec![0]));
    input.cells[1].unfit = true;
    // The third is expensive: no claim is made, and the recommendation is the cell that does not stall.
    assert_eq!(recommend(&input), (Some(2), false, vec![0, 1]));
    input.cells[2].unfit = true;
    assert_eq!(recommend(&input), (Some(0), false, vec![0, 1, 2]));
}

#[test]
fn a_control_that_differs_widens_all_bounds() {
    let mut scenario = Scenario::new(vec![0.0, 0.01], Noise::Normal, 0.005);
    scenario.twin_of = Some(0);
    let mut input = scenario.group(20, 2);
    let before = analyse(&input, &Method::default());
    assert!(before.proves(0, &Method::default()) && before.twin.unwrap().reach < 0.01, "{before:?}");
    input.blocks.iter_mut().for_each(|block| block.twin_cost = block.twin_cost.map(|cost| cost * 1.1));
    let after = analyse(&input, &Method::default());
    assert!(after.systematic() > 0.0 && !after.proves(0, &Method::default()));
    assert!(after.twin.unwrap().reach > 0.09);
    let reach = |verdict: &GroupVerdict| verdict.pair(1, 0).unwrap().reach();
    assert!((reach(&after) - reach(&before) - after.systematic()).abs() < 1e-9);
    assert!(after.upper[0] > before.upper[0] && after.lower[1] < before.lower[1], "{after:?}");
}

#[test]
fn claims_on_the_leader_alone_fail_the_exchange() {
    // The control is as good as the leader on average but varies far more: with it nothing is significant.
    let mut scenario = Scenario::new(vec![0.0, 0.07], Noise::Normal, 0.01);
    scenario.twin_of = Some(0);
    let method = Method::default();
    let judged = |unsteady: f64, seed: u64| {
        let mut input = scenario.group(20, seed);
        let mut random = seeded(seed, 8);
        for block in &mut input.blocks {
            block.twin_cost = block.twin_cost.map(|cost| cost * (unsteady * random.normal()).exp());
        }
        let verdict = analyse(&input, &method);
        (verdict.systematic() > 0.0, verdict.survives_exchange(0, &method), verdict.survives_exchange(1, &method))
    };
    let count = |unsteady: f64, expected: (bool, Option<bool>, Option<bool>)| {
        (0..20).filter(|&seed| judged(unsteady, seed) == expected).count()
    };
    // Alarms and dependence occur by chance occasionally.
    assert!(count(0.0, (false, Some(true), None)) > 15);
    assert!(count(0.4, (false, Some(false), None)) > 10);
    let mut alone = scenario.group(20, 1);
    alone.twin_of = None;
    assert_eq!(analyse(&alone, &method).survives_exchange(0, &method), None);
}

#[test]
fn dependent_blocks_widen_the_intervals() {
    // Cell 1 has a slow wave that pairing cannot remove.
    let mut input = Scenario::new(vec![0.0, 0.0], Noise::Normal, 0.002).group(40, 1);
    for (b, block) in input.blocks.iter_mut().enumerate() {
        let wave = (b as f64 / 6.0).sin();
        block.cost[1] = block.cost[1].map(|cost| cost * (1.0 + 0.1 * wave));
    }
    let got = analyse(&input, &Method::default());
    let believing = analyse(&input, &Method { merge_dependent_blocks: false, ..Method::default() });
    assert!(got.merged_by > 1 && got.inconclusive.is_none(), "{got:?}");
    assert!(got.upper[1] > believing.upper[1], "{got:?} {believing:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn the_order_of_cells_does_not_matter(seed: u64, rotate in 0_usize..4) {
        let mut scenario = Scenario::new(vec![0.0, 0.01, 0.03, 0.08], Noise::StudentT3, 0.02);
        scenario.environment = Environment::Swings { rho: 0.5, spread: 0.1 };
        let input = scenario.group(11, seed);
        let mut turned = input.clone();
        turned.cells.rotate_left(rotate);
        turned.blocks.iter_mut().for_each(|block| block.cost.rotate_left(rotate));
        // Eleven blocks use all flips, so the result is not random.
        let (a, b) = (analyse(&input, &Method::default()), analyse(&turned, &Method::default()));
        for cell in 0..4 {
            let there = (cell + 4 - rotate) % 4;
            prop_assert_eq!(a.best_set.contains(&cell), b.best_set.contains(&there));
            if let (Some(x), Some(y)) = (a.upper[cell], b.upper[there]) {
                prop_assert!((x - y).abs() < 1e-9 || (x.is_infinite() && y.is_infinite()));
            }
        }
    }

    #[test]
    fn the_unit_of_cost_does_not_matter(seed: u64) {
        let input = Scenario::new(vec![0.0, 0.02, 0.1], Noise::LogNormal, 0.03).group(10, seed);
        let mut scaled = input.clone();
        for block in &mut scaled.blocks {
            block.cost.iter_mut().for_each(|cost| *cost = cost.map(|x| x * 1024.0));
        }
        let (a, b) = (analyse(&input, &Method::default()), analyse(&scaled, &Method::default()));
        prop_assert_eq!(a.best_set, b.best_set);
    }
}
