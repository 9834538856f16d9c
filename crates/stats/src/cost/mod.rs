//! Models the time per call by its bytes: the cost of a call, the cost of a byte, and the sizes where that changes.
//!
//! t(s) = a + b·s + Σ cₖ·(s − ψₖ)₊, with a and every slope at least 0, minimising the squared *relative* error Σ(ln t −
//! ln f)². Noise is proportional to time, and a fit of absolute errors would follow only the largest sizes. A break ψ
//! is claimed only if a bootstrap likelihood-ratio test supports it. Plain least squares are included because published
//! tables use them.
//!
//! Descriptive: fitted to all trials, so it never enters a recommendation.

mod breaks;
mod dev_zero;
mod fit;
mod plain;
mod reach;

pub use breaks::Break;
pub use dev_zero::DEV_ZERO;
pub use fit::{CostCurve, Segment};
pub use plain::{PlainFit, plain_fit};
pub use reach::{Reach, reach};

use serde::{Deserialize, Serialize};

/// One trial: bytes and time per call.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Mean bytes per call.
    pub bytes: f64,
    /// Mean time per call, in ns.
    pub ns: f64,
}

/// Settings of the search.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CostSearch {
    /// The most breaks to search for.
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

impl Default for CostSearch {
    fn default() -> Self {
        Self { max_breaks: 2, bootstrap: 199, level: 0.95, fit_max_bytes: None, seed: 1 }
    }
}

/// The cost model of one source or one end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CostAnalysis {
    /// The fitted curve with the breaks that the test supports.
    pub model: CostCurve,
    /// The breaks, ascending.
    pub breaks: Vec<Break>,
    /// Plain least squares up to `fit_max_bytes`.
    pub plain: Option<PlainFit>,
    /// Sizes that reach half and 95 % of the possible rate.
    pub reach: Reach,
    /// ln(measured / fitted) of every point, in the given order.
    pub residuals: Vec<f64>,
}

/// Fits the model. `None` for fewer than three different sizes, which a line always fits.
///
/// Points that are not positive and finite are left out of the fit and have a NaN residual.
#[must_use]
pub fn analyse(points: &[Point], search: &CostSearch) -> Option<CostAnalysis> {
    let valid: Vec<Point> = points.iter().copied().filter(is_valid).collect();
    let (model, breaks) = breaks::search(&valid, search)?;
    let residual = |p: &Point| if is_valid(p) { (p.ns / model.ns(p.bytes)).ln() } else { f64::NAN };
    let below = |p: &Point| search.fit_max_bytes.is_none_or(|most| p.bytes <= most);
    let plain_points: Vec<Point> = valid.iter().copied().filter(below).collect();
    Some(CostAnalysis {
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
