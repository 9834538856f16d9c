//! Selects finalists: the few cells that go on to confirmation, chosen by the screening trials.
//!
//! Measuring few finalists often proves more than measuring many cells rarely. With paired noise of 14 % and 48 blocks,
//! 6 finalists settle 79 % of groups, 10 finalists only 57 % in more time. Half of the places go to the fastest cells:
//! "within 5 % of the best" needs the best among the finalists. The other half goes to the smallest footprints that
//! look good enough, because these will be recommended. Over several profiles each profile's leader gets a place first.
//! Without leaders, compromises are compared only with each other, and "within 5 % of the best" is wrong in 5 to 10 %
//! of the claims (4 profiles, 64 cells); with leaders, in 1 to 3 %.
//!
//! Never reports a screening number: screening only selects.

use crate::quantile::sorted;

/// A cell with fewer visits than this share of the most visited cell's was left out of a later screening stage.
const SEEN_SHARE: f64 = 0.75;

/// The finalists common to several profiles. First each profile's leader, then the cells with the least *worst* excess
/// over the profiles (at least two, and up to half of the places), then the smallest footprints whose worst excess is
/// within the margin. A cell must have been screened in every profile. Returns at most `cap` distinct indices; if
/// leaders exceed the places, the earlier profiles' leaders win.
///
/// `ln_cost` is each cell's screening [`score`] by profile (`None`: not screened), `footprint_bytes` its footprint (`None` where no
/// factor is a size), `cap` the number of places, `margin` a share (0.05).
///
/// # Panics
/// If the slices differ in length.
pub fn choose_over_profiles(
    ln_cost: &[Vec<Option<f64>>],
    footprint_bytes: &[Option<f64>],
    cap: usize,
    margin: f64,
) -> Vec<usize> {
    let cells = footprint_bytes.len();
    assert!(ln_cost.iter().all(|profile| profile.len() == cells), "profiles differ in their cells");
    let worst = worst_excess(ln_cost, cells);
    let mut by_rate: Vec<usize> = (0..cells).filter(|&i| worst[i].is_some()).collect();
    by_rate.sort_by(|&a, &b| worst[a].unwrap_or(0.0).total_cmp(&worst[b].unwrap_or(0.0)));
    let mut chosen = Vec::with_capacity(cap);
    for profile in ln_cost {
        let leader = by_rate
            .iter()
            .copied()
            .min_by(|&a, &b| profile[a].unwrap_or(f64::INFINITY).total_cmp(&profile[b].unwrap_or(f64::INFINITY)));
        take(&mut chosen, leader.into_iter(), cap);
    }
    // Leaders serve as references; at least two places must go to candidates for all profiles.
    let by_rate_places = if ln_cost.len() > 1 { chosen.len() + 2 } else { 0 };
    take(&mut chosen, by_rate.iter().copied(), cap.div_ceil(2).max(by_rate_places).min(cap));
    let good_enough = by_rate.first().and_then(|&i| worst[i]).unwrap_or(0.0).max(0.0) + margin.ln_1p();
    let mut by_footprint: Vec<usize> = by_rate
        .iter()
        .copied()
        .filter(|&i| footprint_bytes[i].is_some() && worst[i].is_some_and(|x| x <= good_enough))
        .collect();
    by_footprint.sort_by(|&a, &b| footprint_bytes[a].unwrap_or(0.0).total_cmp(&footprint_bytes[b].unwrap_or(0.0)));
    take(&mut chosen, by_footprint.into_iter(), cap);
    take(&mut chosen, by_rate.into_iter(), cap);
    chosen
}

/// Each cell's screening score: its ln cost without the levels common to a block, so that cells from different blocks
/// can be ranked together. `blocks` has one row per block, `None` where the cell was not visited. Only differences
/// between scores have a meaning.
///
/// A cell that was left out of later blocks has no score. Its few early values may come from a moment that was bad for
/// the other cells, and must not beat cells with later values.
///
/// The score is the cell's effect in the least-squares fit of ln cost = cell + block. A more robust fit is not possible
/// with two to four values per cell: an outlier cannot be distinguished from a true value.
pub fn score(blocks: &[Vec<Option<f64>>]) -> Vec<Option<f64>> {
    let cells = blocks.iter().map(Vec::len).max().unwrap_or(0);
    let ln = |block: &Vec<Option<f64>>, cell: usize| {
        let cost = block.get(cell).copied().flatten()?;
        (cost.is_finite() && cost > 0.0).then(|| cost.ln())
    };
    let mut of_cell: Vec<Option<f64>> = vec![None; cells];
    let mut of_block = start_levels(blocks, cells, &ln);
    // Alternating means converge quickly; a complete table ends after two steps.
    for _ in 0..200 {
        let mut step: f64 = 0.0;
        for (cell, level) in of_cell.iter_mut().enumerate() {
            let left = blocks.iter().zip(&of_block).filter_map(|(b, base)| Some(ln(b, cell)? - base));
            let new = mean(left);
            step = step.max((new.unwrap_or(0.0) - level.unwrap_or(f64::INFINITY)).abs());
            *level = new;
        }
        for (block, base) in blocks.iter().zip(&mut of_block) {
            let left = of_cell.iter().enumerate().filter_map(|(i, level)| Some(ln(block, i)? - (*level)?));
            *base = mean(left).unwrap_or(0.0);
        }
        if step < 1e-9 {
            break;
        }
    }
    let visits = |cell: usize| blocks.iter().filter(|block| ln(block, cell).is_some()).count();
    let most = (0..cells).map(visits).max().unwrap_or(0) as f64;
    for (cell, level) in of_cell.iter_mut().enumerate() {
        *level = level.filter(|_| visits(cell) as f64 >= most * SEEN_SHARE);
    }
    of_cell
}

/// The median of each block over the cells that every block visits: a fair first guess even when later blocks visit
/// only good cells. Zero if no such cell exists.
fn start_levels(
    blocks: &[Vec<Option<f64>>],
    cells: usize,
    ln: &impl Fn(&Vec<Option<f64>>, usize) -> Option<f64>,
) -> Vec<f64> {
    let common: Vec<usize> = (0..cells).filter(|&i| blocks.iter().all(|block| ln(block, i).is_some())).collect();
    let level = |block: &Vec<Option<f64>>| {
        let values: Vec<f64> = common.iter().filter_map(|&i| ln(block, i)).collect();
        let ordered = sorted(&values);
        ordered.get(ordered.len() / 2).copied().unwrap_or(0.0)
    };
    blocks.iter().map(level).collect()
}

/// The largest excess over the profile's leader, over all profiles; `None` unless screened in all profiles.
pub fn worst_excess(ln_cost: &[Vec<Option<f64>>], cells: usize) -> Vec<Option<f64>> {
    let least: Vec<f64> =
        ln_cost.iter().map(|profile| profile.iter().flatten().copied().fold(f64::INFINITY, f64::min)).collect();
    let worst = |cell: usize| -> Option<f64> {
        let excess: Option<Vec<f64>> =
            ln_cost.iter().zip(&least).map(|(profile, least)| Some(profile[cell]? - least)).collect();
        excess?.into_iter().reduce(f64::max)
    };
    (0..cells).map(worst).collect()
}

fn take(chosen: &mut Vec<usize>, from: impl Iterator<Item = usize>, places: usize) {
    for cell in from {
        if chosen.len() >= places {
            return;
        }
        if !chosen.contains(&cell) {
            chosen.push(cell);
        }
    }
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, n) = values.fold((0.0, 0), |(sum, n), x| (sum + x, n + 1));
    (n > 0).then(|| sum / f64::from(n))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(ln_cost: &[&[f64]], footprint: &[f64], cap: usize, expected: &[usize]) {
        let profiles: Vec<Vec<Option<f64>>> =
            ln_cost.iter().map(|p| p.iter().map(|x| x.is_finite().then_some(*x)).collect()).collect();
        let footprint: Vec<Option<f64>> = footprint.iter().map(|x| x.is_finite().then_some(*x)).collect();
        assert_eq!(choose_over_profiles(&profiles, &footprint, cap, 0.05), expected);
    }

    const NO: f64 = f64::NAN;

    #[test]
    fn half_by_rate_half_by_footprint() {
        let cost = [0.30, 0.04, 0.03, 0.02, 0.01, 0.00];
        check(&[&cost], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 4, &[5, 4, 1, 2]);
        check(&[&cost], &[NO; 6], 4, &[5, 4, 3, 2]);
        check(&[&[0.0, NO, 0.5]], &[9.0, 1.0, 2.0], 4, &[0, 2]);
        check(&[&[]], &[], 4, &[]);
    }

    #[test]
    fn every_profile_has_its_leader() {
        let drain = [0.00, 0.01, 0.20];
        let parser = [0.20, 0.01, 0.00];
        check(&[&drain, &parser], &[1.0, 2.0, 3.0], 3, &[0, 2, 1]);
    }

    #[test]
    fn scores_do_not_depend_on_visited_blocks() {
        // Cell 0 is missing from the block that ran 30 % slower.
        let x = |ln: f64| Some(f64::exp(ln));
        let all = || vec![x(0.5), x(0.1), x(0.2)];
        let blocks = [all(), all(), vec![None, x(0.4), x(0.5)], all()];
        let got = score(&blocks);
        let difference = |i: usize, j: usize| got[i].unwrap() - got[j].unwrap();
        assert!((difference(0, 1) - 0.4).abs() < 1e-6 && (difference(2, 1) - 0.1).abs() < 1e-6, "{got:?}");
    }

    #[test]
    fn cells_left_out_later_have_no_score() {
        let x = |ln: f64| Some(f64::exp(ln));
        // Cell 0 is best in two blocks that were bad for all other cells.
        let bad = || vec![x(0.0), x(2.0), x(2.1)];
        let good = || vec![None, x(0.1), x(0.2)];
        let got = score(&[bad(), bad(), good(), good()]);
        assert!(got[0].is_none() && got[1] < got[2], "{got:?}");
    }

    proptest! {
        #[test]
        fn finalists_are_distinct_and_capped(
            cost in prop::collection::vec(prop::option::of(-1.0_f64..1.0), 0..40), cap in 1_usize..10
        ) {
            let footprint: Vec<Option<f64>> = (0..cost.len()).map(|i| Some((i * 7 % 11) as f64)).collect();
            let mut got = choose_over_profiles(std::slice::from_ref(&cost), &footprint, cap, 0.05);
            prop_assert_eq!(got.len(), cap.min(cost.iter().flatten().count()));
            prop_assert!(got.iter().all(|&i| cost[i].is_some()));
            if let Some(&leader) = got.first() {
                prop_assert!(cost.iter().flatten().all(|x| cost[leader].unwrap() <= *x));
            }
            got.sort_unstable();
            got.dedup();
            prop_assert_eq!(got.len(), cap.min(cost.iter().flatten().count()));
        }
    }
}
