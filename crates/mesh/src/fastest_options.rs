//! Which options are the fastest over all pairs of hosts.
//!
//! Each part of a test measures every option once per direction, so differences are paired within it: the rates of hosts and
//! links cancel. Bounds are simultaneous over all options (multiple comparisons with the best, [`best_set`]).

use std::collections::BTreeMap;

use bytegauge_stats::best_set::best_set;
use bytegauge_stats::group::Method;
use bytegauge_stats::quantile::median;

use crate::Rank;
use crate::row::MeshRow;

/// Parts that a comparison needs.
const BLOCKS_MIN: usize = 6;

/// The most blocks that are compared: those of a larger mesh are means of consecutive parts.
const BLOCKS_MAX: usize = 500;

/// An option compared with the best one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeshStanding {
    /// Its position in the settings.
    pub option: usize,
    /// The median of its rates in all parts that measured every option.
    pub rate: f64,
    /// How much slower than the best option it is, shares of the best rate, 95 % confidence; `None` with too few parts.
    pub slower: Option<(f64, f64)>,
    /// Whether it may be the best.
    pub may_be_best: bool,
}

/// Options from the fastest; those that were never measured are left out. Empty with fewer than two.
pub fn standings(rows: &[MeshRow], options: usize) -> Vec<MeshStanding> {
    let mut parts: BTreeMap<(u32, Rank, Rank), Vec<Option<f64>>> = BTreeMap::new();
    for row in rows {
        let (Some(option), Some(sample)) = (row.option, row.sample()) else { continue };
        let (slot, client) = row.place.part();
        let part = parts.entry((slot, client, sample.sender)).or_insert_with(|| vec![None; options]);
        if let Some(rate) = part.get_mut(option as usize) {
            *rate = Some(sample.ln_rate);
        }
    }
    let measured: Vec<usize> =
        (0..options).filter(|option| parts.values().any(|part| part[*option].is_some())).collect();
    let complete = |part: &Vec<Option<f64>>| measured.iter().map(|option| part[*option]).collect::<Option<Vec<f64>>>();
    let ln_rates: Vec<Vec<f64>> = parts.values().filter_map(complete).collect();
    if measured.len() < 2 || ln_rates.is_empty() {
        return Vec::new();
    }
    let each = ln_rates.len().div_ceil(BLOCKS_MAX);
    let column = |rows: &[Vec<f64>], at: usize| rows.iter().map(|row| row[at]).collect::<Vec<f64>>();
    // A cost is the reciprocal of a rate.
    let cost = |rows: &[Vec<f64>], at: usize| -column(rows, at).iter().sum::<f64>() / rows.len() as f64;
    let blocks: Vec<Vec<f64>> =
        ln_rates.chunks(each).map(|rows| (0..measured.len()).map(|at| cost(rows, at)).collect()).collect();
    let best = (blocks.len() >= BLOCKS_MIN).then(|| best_set(&blocks, 1.0, &Method::default()));
    // ln(cost of this option / cost of the best one) as a share of the best rate.
    let share = |ln: f64| 1.0 - (-ln.max(0.0)).exp();
    let standing = |(at, option): (usize, &usize)| MeshStanding {
        option: *option,
        rate: median(&column(&ln_rates, at)).unwrap_or(0.0).exp(),
        slower: best.as_ref().map(|best| (share(best.lower[at]), share(best.upper[at]))),
        may_be_best: best.as_ref().is_none_or(|best| best.kept[at]),
    };
    let mut all: Vec<MeshStanding> = measured.iter().enumerate().map(standing).collect();
    all.sort_by(|one, other| other.rate.total_cmp(&one.rate));
    all
}

#[cfg(test)]
mod tests {
    use bytegauge_model::Outcome;

    use super::*;
    use crate::row::SlotPlace;

    /// Rows of `slots` pairs, whose own rates differ by far more than options: `factor` of an option and a slot.
    fn rows(slots: u32, options: u32, factor: impl Fn(u32, u32) -> f64) -> Vec<MeshRow> {
        let cells = (0..slots).flat_map(|slot| (0..options).map(move |option| (slot, option)));
        cells
            .map(|(slot, option)| {
                let place = SlotPlace { replicate: 0, round: slot, slot, hub: 0, client: 1, clients: 1 };
                let rate = 1e9 * (1.0 + f64::from(slot % 5)) * factor(option, slot);
                let row = MeshRow::without_numbers(place, Outcome::Measured, 1);
                MeshRow { option: Some(option), sender: Some(1), rate: Some(rate), ..row }
            })
            .collect()
    }

    #[test]
    fn the_slower_option_is_bounded() {
        let noise = |option: u32, slot: u32| 1.0 + f64::from((slot * 7 + option * 3) % 4) / 200.0;
        let all = standings(&rows(40, 2, |option, slot| noise(option, slot) * [0.8, 1.0][option as usize]), 2);
        assert_eq!((all[0].option, all[0].may_be_best, all[1].may_be_best), (1, true, false));
        let (low, high) = all[1].slower.unwrap();
        assert!(0.18 < low && low < 0.2 && 0.2 < high && high < 0.22, "{all:?}");
    }

    #[test]
    fn options_without_a_difference_are_tied() {
        let noise = |option: u32, slot: u32| 1.0 + f64::from((slot * 7 + option * 13) % 11) / 100.0;
        let all = standings(&rows(2_000, 3, noise), 3);
        assert!(all.iter().all(|standing| standing.may_be_best), "{all:?}");
    }

    #[test]
    fn few_parts_are_not_judged() {
        let all = standings(&rows(5, 2, |option, _| f64::from(option + 1)), 2);
        assert!(all.iter().all(|standing| standing.slower.is_none() && standing.may_be_best), "{all:?}");
        assert_eq!(standings(&rows(5, 1, |_, _| 1.0), 1), Vec::new());
    }
}
