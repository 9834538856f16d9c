//! Plain least squares: t = fixed + per byte · s, every point with the same weight in ns.
//!
//! Published tables have been fitted this way. It follows the largest sizes, so it is never the only fit.

use super::Point;
use serde::{Deserialize, Serialize};

/// A straight line through time against size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlainFit {
    /// Time per call without its bytes, in ns.
    pub fixed_ns: f64,
    /// Time per byte, in ns.
    pub per_byte_ns: f64,
    /// Share of the variance explained.
    pub r_squared: f64,
    /// Number of points.
    pub n: usize,
}

/// Fits the line. `None` for fewer than two different sizes.
#[must_use]
pub fn plain_fit(points: &[Point]) -> Option<PlainFit> {
    let n = points.len() as f64;
    let mean_bytes = points.iter().map(|p| p.bytes).sum::<f64>() / n;
    let mean_ns = points.iter().map(|p| p.ns).sum::<f64>() / n;
    let square_bytes: f64 = points.iter().map(|p| (p.bytes - mean_bytes).powi(2)).sum();
    let square_ns: f64 = points.iter().map(|p| (p.ns - mean_ns).powi(2)).sum();
    let product: f64 = points.iter().map(|p| (p.bytes - mean_bytes) * (p.ns - mean_ns)).sum();
    let per_byte_ns = product / square_bytes;
    (square_bytes > 0.0).then(|| PlainFit {
        fixed_ns: mean_ns - per_byte_ns * mean_bytes,
        per_byte_ns,
        r_squared: if square_ns > 0.0 { product * per_byte_ns / square_ns } else { 1.0 },
        n: points.len(),
    })
}
