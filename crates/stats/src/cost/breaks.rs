//! Finds the sizes at which the cost per byte changes.
//!
//! One more break is accepted when the likelihood ratio of the fit with it to the fit without it is larger than in 95 %
//! of bootstrap samples without it. These use the curve without it and resampled residuals of the trials. The usual χ²
//! table does not apply: without a break its place has no meaning. The bootstrap accepts slightly too often, so a claim
//! needs p < 0.035 to be wrong in at most 5 %. The interval contains every place whose fit is not significantly worse
//! than the best (F test).
//!
//! Never looks outside the measured sizes: a break needs two sizes on either side.

use super::fit::{CostCurve, Fitted, Segment, SizeLevel, fit, fit_roughly, levels};
use super::{CostSearch, Point};
use crate::rng::{RandomStream, seeded};
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, FisherSnedecor};

/// The most breaks that are searched; the solver has room for these.
const MOST_BREAKS: usize = 2;
/// The least ratio of two breaks. Where a call moves a varying number of bytes, two breaks at one size would follow the
/// noise of that size.
const APART: f64 = 2.0;
/// Different sizes that a break needs: two on either side and two more.
const MIN_SIZES: usize = 6;
/// A break is claimed below this share of alpha. At 0.05, 5.5 to 6 % of straight lines get a break (3,000 lines),
/// slightly too many.
const CLAIM_SHARE: f64 = 0.7;
/// Places to try between neighbouring sizes.
const PLACES: usize = 2;
/// The most places to try before the exact search.
const MOST_CANDIDATES: usize = 32;

/// A size at which the cost per byte changes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Break {
    /// The size, in bytes.
    pub at_bytes: f64,
    /// Lower end of its interval, in bytes.
    pub lower_bytes: f64,
    /// Upper end of its interval, in bytes.
    pub upper_bytes: f64,
    /// Bootstrap p-value of "no such break".
    pub p_value: f64,
}

/// The curve with as many breaks as the test supports. `None` for fewer than three sizes.
pub(super) fn search(points: &[Point], search: &CostSearch) -> Option<(CostCurve, Vec<Break>)> {
    let (levels, of_point) = levels(points);
    if levels.len() < 3 {
        return None;
    }
    let mut random = seeded(search.seed, 0xb4ea);
    let mut places: Vec<f64> = Vec::new();
    let mut p_values = Vec::new();
    let mut current = fit(&levels, &places);
    while places.len() < search.max_breaks.min(MOST_BREAKS) && levels.len() >= MIN_SIZES + 2 * places.len() {
        let (more, better) = best_break_more(&levels, &places);
        let within = square_within(points, &levels, &of_point);
        let seen = ratio(points.len(), within, &current, &better);
        let source = BootstrapSource { points, levels: &levels, of_point: &of_point, places: &places, null: &current };
        let p = source.p_value(seen, search, &mut random);
        if p >= CLAIM_SHARE * (1.0 - search.level) {
            break;
        }
        (places, current) = (more, better);
        p_values.push(p);
    }
    let within = square_within(points, &levels, &of_point);
    // The later test adds a break without identifying it; the weaker p-value applies to both.
    let p_value = p_values.iter().copied().fold(0.0, f64::max);
    let breaks = (0..places.len())
        .map(|k| {
            let limit = square_limit(points.len(), places.len(), current.square + within, search.level) - within;
            let (lower_bytes, upper_bytes) = interval(&levels, &places, k, limit);
            Break { at_bytes: places[k], lower_bytes, upper_bytes, p_value }
        })
        .collect();
    let n = points.len();
    let starts = std::iter::once(0.0).chain(places);
    let segments = starts
        .zip(&current.parameters[1..])
        .map(|(from_bytes, &per_byte_ns)| Segment { from_bytes, per_byte_ns })
        .collect();
    let relative_error = ((current.square + within) / n as f64).sqrt();
    Some((CostCurve { fixed_ns: current.parameters[0], segments, relative_error, n }, breaks))
}

/// The source of bootstrap samples: the curve without the break in question and the trials' residuals.
struct BootstrapSource<'a> {
    points: &'a [Point],
    levels: &'a [SizeLevel],
    of_point: &'a [usize],
    places: &'a [f64],
    null: &'a Fitted,
}

impl BootstrapSource<'_> {
    /// The share of bootstrap samples whose ratio reaches the observed one, itself included.
    fn p_value(&self, seen: f64, search: &CostSearch, random: &mut RandomStream) -> f64 {
        let curve: Vec<f64> = self.levels.iter().map(|level| self.ln_of_null(level)).collect();
        let residuals: Vec<f64> =
            self.points.iter().zip(self.of_point).map(|(point, &level)| point.ns.ln() - curve[level]).collect();
        let mean = residuals.iter().sum::<f64>() / residuals.len() as f64;
        let mut reached = 1;
        for drawn in 1..=search.bootstrap {
            let (levels, within) = self.draw(&curve, &residuals, mean, random);
            let (_, null) = refined(&levels, self.places.to_vec());
            let (_, better) = best_break_more(&levels, self.places);
            reached += usize::from(ratio(self.points.len(), within, &null, &better) >= seen);
            // Stop early when the result is clear (sequential Monte-Carlo test; Besag and Clifford 1991): significance
            // is out of reach, or no ratio was as large in four times 1/alpha draws.
            let alpha = 1.0 - search.level;
            let hopeless = reached as f64 > 2.0 * alpha * (search.bootstrap + 1) as f64 + 2.0;
            let clear = reached == 1 && drawn as f64 >= 4.0 / alpha;
            if hopeless || clear {
                return reached as f64 / (drawn + 1) as f64;
            }
        }
        reached as f64 / (search.bootstrap + 1) as f64
    }

    fn ln_of_null(&self, level: &SizeLevel) -> f64 {
        let starts = std::iter::once(0.0).chain(self.places.iter().copied());
        let ends = self.places.iter().copied().chain([f64::INFINITY]);
        let pieces = starts.zip(ends).zip(&self.null.parameters[1..]);
        let ns = pieces.fold(self.null.parameters[0], |ns, ((start, end), slope)| {
            ns + slope * (level.bytes.min(end) - start).max(0.0)
        });
        ns.ln()
    }

    /// One bootstrap sample: its levels and the sum of squares within them.
    fn draw(&self, curve: &[f64], residuals: &[f64], mean: f64, random: &mut RandomStream) -> (Vec<SizeLevel>, f64) {
        let mut levels: Vec<SizeLevel> = self.levels.to_vec();
        let mut sums = vec![(0.0, 0.0); levels.len()];
        for &level in self.of_point {
            let drawn = residuals[random.below(residuals.len())] - mean;
            sums[level].0 += drawn;
            sums[level].1 += drawn * drawn;
        }
        let mut within = 0.0;
        for ((level, base), (sum, square)) in levels.iter_mut().zip(curve).zip(sums) {
            level.ln_ns = base + sum / level.weight;
            within += square - sum * sum / level.weight;
        }
        (levels, within.max(0.0))
    }
}

/// The best places with one more break: found on a grid of candidates, then refined. An existing break is moved too, in
/// alternation.
fn best_break_more(levels: &[SizeLevel], places: &[f64]) -> (Vec<f64>, Fitted) {
    let mut best = (places.to_vec(), fit(levels, places));
    let candidates = candidates(levels);
    let mut fixed = places.to_vec();
    // One round finds the new break; a second one lets the older one move.
    let rounds = if places.is_empty() { 1 } else { 2 };
    for _ in 0..rounds {
        for &candidate in &candidates {
            let mut all = fixed.clone();
            all.push(candidate);
            all.sort_by(f64::total_cmp);
            if !separated(levels, &all) {
                continue;
            }
            let fitted = fit_roughly(levels, &all);
            if fitted.square < best.1.square {
                best = (all, fitted);
            }
        }
        // In the next round, hold the new break and move the older one.
        let moved = best.0.iter().copied().find(|p| !fixed.contains(p));
        fixed = moved.into_iter().take(places.len()).collect();
    }
    if best.0.len() == places.len() { best } else { refined(levels, best.0) }
}

/// Moves each break to its exact optimum nearby. The error is smooth between grid points, and a break left on the grid
/// would leave a bump that looks like another break.
fn refined(levels: &[SizeLevel], mut places: Vec<f64>) -> (Vec<f64>, Fitted) {
    let mut best = fit(levels, &places);
    for k in 0..places.len() {
        let mut step = 1.2_f64;
        while step > 1.002 {
            let moved = [places[k] * step, places[k] / step].into_iter().find_map(|at| {
                let mut all = places.clone();
                all[k] = at;
                let valid = all.is_sorted() && separated(levels, &all);
                let fitted = valid.then(|| fit(levels, &all))?;
                (fitted.square < best.square).then_some((all, fitted))
            });
            match moved {
                Some((all, fitted)) => (places, best) = (all, fitted),
                None => step = step.sqrt(),
            }
        }
    }
    (places, best)
}

/// Places to try between neighbouring sizes, thinned out for many sizes.
fn candidates(levels: &[SizeLevel]) -> Vec<f64> {
    let inner = &levels[1..levels.len() - 1];
    let between = inner.windows(2).flat_map(|pair| {
        let (a, b) = (pair[0].bytes.ln(), pair[1].bytes.ln());
        (0..PLACES).map(move |k| (a + (b - a) * k as f64 / PLACES as f64).exp())
    });
    let all: Vec<f64> = between.chain(inner.last().map(|level| level.bytes)).collect();
    let stride = all.len().div_ceil(MOST_CANDIDATES).max(1);
    all.into_iter().step_by(stride).collect()
}

/// Whether every segment contains at least two sizes, so that its slope is defined, and no two breaks are at one size.
fn separated(levels: &[SizeLevel], places: &[f64]) -> bool {
    if places.windows(2).any(|pair| pair[1] < APART * pair[0]) {
        return false;
    }
    let starts = std::iter::once(0.0).chain(places.iter().copied());
    let ends = places.iter().copied().chain([f64::INFINITY]);
    starts
        .zip(ends)
        .all(|(start, end)| levels.iter().filter(|level| level.bytes >= start && level.bytes <= end).count() >= 2)
}

fn ratio(n: usize, within: f64, null: &Fitted, better: &Fitted) -> f64 {
    // Data without any noise would divide 0 by 0.
    let tiny = 1e-18 * n as f64;
    n as f64 * ((null.square + within + tiny) / (better.square + within + tiny)).ln()
}

fn square_within(points: &[Point], levels: &[SizeLevel], of_point: &[usize]) -> f64 {
    let pairs = points.iter().zip(of_point);
    pairs.map(|(point, &level)| (point.ns.ln() - levels[level].ln_ns).powi(2)).sum()
}

/// The largest sum of squares that is not significantly worse than the least one (F test at `level`).
fn square_limit(n: usize, breaks: usize, least: f64, level: f64) -> f64 {
    let freedom = n as f64 - 2.0 - 2.0 * breaks as f64;
    if freedom < 1.0 {
        return f64::INFINITY;
    }
    let f = FisherSnedecor::new(1.0, freedom).expect("freedom is positive").inverse_cdf(level);
    least * (1.0 + f / freedom)
}

/// The range of places of break `k`, the others held, whose fit stays within `limit`.
fn interval(levels: &[SizeLevel], places: &[f64], k: usize, limit: f64) -> (f64, f64) {
    let fits = |at: f64| {
        let mut all = places.to_vec();
        all[k] = at;
        all.is_sorted() && fit(levels, &all).square <= limit
    };
    let inner = &levels[1..levels.len() - 1];
    let (least, most) = (inner[0].bytes, inner[inner.len() - 1].bytes);
    let edge = |towards: f64| {
        // Step outwards on a log scale while the fit holds, then bisect to the edge.
        let step = (towards / places[k]).ln() / 64.0;
        let mut inside = places[k];
        for i in 1..=64 {
            let at = places[k] * (step * f64::from(i)).exp();
            if fits(at) {
                inside = at;
                continue;
            }
            let (mut low, mut high) = (inside, at);
            for _ in 0..12 {
                let middle = (low * high).sqrt();
                if fits(middle) { low = middle } else { high = middle }
            }
            return low;
        }
        inside
    };
    (edge(least), edge(most))
}
