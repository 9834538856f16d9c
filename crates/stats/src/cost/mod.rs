//! Time a call against bytes a call: what a call costs, what a byte costs, and where that changes.
//!
//! t(s) = a + b·s + Σ cₖ·(s − ψₖ)₊, with a and every slope at least 0, minimising the squared
//! *relative* error Σ(ln t − ln f)²: noise is proportional to time, and a plain fit would listen to
//! the largest sizes only. A break ψ is claimed only when a bootstrap likelihood-ratio test says so.
//! Plain least squares stand beside it, as published tables use them.
//!
//! Descriptive: fitted to all trials, so it never enters a recommendation.

mod breaks;
mod fit;
mod plain;
mod reach;

pub use breaks::Break;
pub use fit::{CostModel, Segment};
pub use plain::{PlainFit, plain_fit};
pub use reach::{Reach, reach};

use serde::{Deserialize, Serialize};

/// One trial: how much a call moved and how long it took.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Mean bytes moved a call.
    pub bytes: f64,
    /// Mean time a call, in ns.
    pub ns: f64,
}

/// How the model is searched.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Search {
    /// Most breaks looked for.
    pub max_breaks: usize,
    /// Bootstrap samples of the test for a break.
    pub bootstrap: usize,
    /// Confidence of the test and of the interval of a break, as a share.
    pub level: f64,
    /// Largest size for the plain fit, in bytes; `None` = all.
    pub fit_max_bytes: Option<f64>,
    /// Seed of the bootstrap.
    pub seed: u64,
}

impl Default for Search {
    fn default() -> Self {
        Self { max_breaks: 2, bootstrap: 199, level: 0.95, fit_max_bytes: None, seed: 1 }
    }
}

/// The cost model of one source or one end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// The fitted curve with the breaks that the test supports.
    pub model: CostModel,
    /// Those breaks, ascending.
    pub breaks: Vec<Break>,
    /// Plain least squares up to `fit_max_bytes`.
    pub plain: Option<PlainFit>,
    /// Sizes that reach half and 95 % of the possible.
    pub reach: Reach,
    /// ln(measured / fitted) of every point, in the order given.
    pub residuals: Vec<f64>,
}

/// Fits the model. `None` for fewer than three different sizes: two always fit.
///
/// Points that are not positive and finite are left out of the fit and have a NaN residual.
#[must_use]
pub fn analyse(points: &[Point], search: &Search) -> Option<Cost> {
    let valid: Vec<Point> = points.iter().copied().filter(is_valid).collect();
    let (model, breaks) = breaks::search(&valid, search)?;
    let residual = |p: &Point| if is_valid(p) { (p.ns / model.ns(p.bytes)).ln() } else { f64::NAN };
    let below = |p: &Point| search.fit_max_bytes.is_none_or(|most| p.bytes <= most);
    let plain_points: Vec<Point> = valid.iter().copied().filter(below).collect();
    Some(Cost {
        residuals: points.iter().map(residual).collect(),
        plain: plain_fit(&plain_points),
        reach: reach(&model, &valid),
        breaks,
        model,
    })
}

/// Pearson's correlation of residuals with a covariate (share of short reads, context switches).
/// Pairs with a NaN are skipped; `None` for fewer than three or without spread.
///
/// # Panics
/// If the slices differ in length.
#[must_use]
pub fn correlation(residuals: &[f64], covariate: &[f64]) -> Option<f64> {
    assert_eq!(residuals.len(), covariate.len(), "one covariate a residual");
    let pairs: Vec<(f64, f64)> = residuals
        .iter()
        .copied()
        .zip(covariate.iter().copied())
        .filter(|(r, c)| r.is_finite() && c.is_finite())
        .collect();
    let n = pairs.len() as f64;
    let (mean_r, mean_c) = pairs.iter().fold((0.0, 0.0), |(a, b), (r, c)| (a + r / n, b + c / n));
    let sums = pairs.iter().fold((0.0, 0.0, 0.0), |(rc, rr, cc), (r, c)| {
        let (r, c) = (r - mean_r, c - mean_c);
        (rc + r * c, rr + r * r, cc + c * c)
    });
    let scale = (sums.1 * sums.2).sqrt();
    (pairs.len() >= 3 && scale > 0.0).then(|| sums.0 / scale)
}

fn is_valid(point: &Point) -> bool {
    let positive = |x: f64| x.is_finite() && x > 0.0;
    positive(point.bytes) && positive(point.ns)
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
