//! Fits the piecewise linear curve in relative error for given breaks.
//!
//! Gauss and Newton's method: near the current curve f, ln t − ln f is linear in the parameters with weights 1/f, and
//! every step is a small least-squares problem with parameters at least 0. The parameters are the cost of a call and
//! the slope of every segment, so "no negative slope" is "no negative parameter". With at most four parameters, the
//! constrained problem is solved by trying every set of zero parameters.
//!
//! Trials of one size share f, so they enter as their mean ln time and their count.

use super::Point;
use serde::{Deserialize, Serialize};

/// A straight piece of the curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Segment {
    /// Where it starts, in bytes; 0 for the first.
    pub from_bytes: f64,
    /// Time per byte in this segment, in ns.
    pub per_byte_ns: f64,
}

/// The fitted curve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CostCurve {
    /// Time per call without its bytes, in ns.
    pub fixed_ns: f64,
    /// Its segments, ascending.
    pub segments: Vec<Segment>,
    /// Root mean square of ln(measured / fitted): the typical relative error.
    pub relative_error: f64,
    /// Number of fitted trials.
    pub n: usize,
}

impl CostCurve {
    /// Time of a call that moves `bytes`, in ns.
    #[must_use]
    pub fn ns(&self, bytes: f64) -> f64 {
        let ends = self.segments.iter().skip(1).map(|s| s.from_bytes).chain([f64::INFINITY]);
        let pieces = self.segments.iter().zip(ends);
        pieces.fold(self.fixed_ns, |ns, (segment, end)| {
            ns + segment.per_byte_ns * (bytes.min(end) - segment.from_bytes).max(0.0)
        })
    }

    /// Rate at `bytes` a call, in bytes per ns (= GB/s).
    #[must_use]
    pub fn bytes_per_ns(&self, bytes: f64) -> f64 {
        bytes / self.ns(bytes)
    }
}

/// All trials of (about) one size.
#[derive(Clone, Copy, Debug)]
pub(super) struct SizeLevel {
    pub bytes: f64,
    pub ln_ns: f64,
    pub weight: f64,
}

/// The most levels: the search tries hundreds of curves on them.
const MOST_LEVELS: usize = 64;

/// Trials grouped by size, and the level of every trial. Sizes within half a percent count as one. Where every trial
/// moved a different number of bytes, wider levels are used. Their spread of sizes counts as noise, which leads to
/// fewer breaks.
pub(super) fn levels(points: &[Point]) -> (Vec<SizeLevel>, Vec<usize>) {
    let (levels, of_point) = levels_within(points, 1.005);
    if levels.len() <= MOST_LEVELS {
        return (levels, of_point);
    }
    let range = levels[levels.len() - 1].bytes / levels[0].bytes;
    levels_within(points, range.powf(1.0 / MOST_LEVELS as f64).max(1.005))
}

fn levels_within(points: &[Point], width: f64) -> (Vec<SizeLevel>, Vec<usize>) {
    let mut order: Vec<usize> = (0..points.len()).collect();
    order.sort_by(|&a, &b| points[a].bytes.total_cmp(&points[b].bytes));
    let mut levels: Vec<SizeLevel> = Vec::new();
    let mut of_point = vec![0; points.len()];
    let mut start = 0.0;
    for i in order {
        let point = points[i];
        if levels.is_empty() || point.bytes > start * width {
            start = point.bytes;
            levels.push(SizeLevel { bytes: 0.0, ln_ns: 0.0, weight: 0.0 });
        }
        let level = levels.last_mut().expect("one was just made");
        level.weight += 1.0;
        level.bytes += (point.bytes - level.bytes) / level.weight;
        level.ln_ns += (point.ns.ln() - level.ln_ns) / level.weight;
        of_point[i] = levels.len() - 1;
    }
    (levels, of_point)
}

/// A fit for given breaks: parameters (fixed, slope of each segment) and the weighted sum of squared
/// ln errors between the levels' means and the curve.
#[derive(Clone, Debug)]
pub(super) struct Fitted {
    pub parameters: Vec<f64>,
    pub square: f64,
}

/// The most parameters of a curve: the cost of a call and three slopes.
const MOST: usize = 4;
/// The factors of every parameter at one size; unused entries are 0.
type Basis = [f64; MOST];

/// Fits the curve with breaks at `breaks` (ascending, in bytes, at most two).
pub(super) fn fit(levels: &[SizeLevel], breaks: &[f64]) -> Fitted {
    fit_until(levels, breaks, 1e-9)
}

/// The same with a low precision, sufficient to select among places for a break.
pub(super) fn fit_roughly(levels: &[SizeLevel], breaks: &[f64]) -> Fitted {
    fit_until(levels, breaks, 1e-2)
}

fn fit_until(levels: &[SizeLevel], breaks: &[f64], gain_least: f64) -> Fitted {
    let count = breaks.len() + 2;
    let design: Vec<Basis> = levels.iter().map(|level| basis(level.bytes, breaks)).collect();
    let mut curve: Vec<f64> = levels.iter().map(|level| level.ln_ns.exp()).collect();
    let mut parameters = [0.0; MOST];
    let mut square = f64::INFINITY;
    for _ in 0..20 {
        let step = step(&design, levels, &curve, count);
        let (next, next_square, next_curve) = descend(&design, levels, &parameters, &step, square);
        let gain = square - next_square;
        if gain.is_nan() || gain <= 0.0 {
            break;
        }
        (parameters, square, curve) = (next, next_square, next_curve);
        if gain <= gain_least * square {
            break;
        }
    }
    Fitted { parameters: parameters[..count].to_vec(), square }
}

/// Steps from `from` towards `to`, halving the step until the error falls.
fn descend(design: &[Basis], levels: &[SizeLevel], from: &Basis, to: &Basis, square: f64) -> (Basis, f64, Vec<f64>) {
    let mut share = 1.0;
    loop {
        let here: Basis = std::array::from_fn(|a| from[a] + share * (to[a] - from[a]));
        let curve: Vec<f64> = design.iter().map(|row| dot(row, &here)).collect();
        let here_square = error(levels, &curve);
        if here_square < square || share < 1e-3 {
            return (here, here_square, curve);
        }
        share *= 0.5;
    }
}

fn basis(bytes: f64, breaks: &[f64]) -> Basis {
    let mut basis = [1.0, 0.0, 0.0, 0.0];
    let mut start = 0.0;
    for (part, end) in basis[1..].iter_mut().zip(breaks.iter().copied().chain([f64::INFINITY])) {
        *part = (bytes.min(end) - start).max(0.0);
        start = end;
    }
    basis
}

fn dot(row: &Basis, parameters: &Basis) -> f64 {
    row.iter().zip(parameters).map(|(x, p)| x * p).sum()
}

fn error(levels: &[SizeLevel], curve: &[f64]) -> f64 {
    let terms = levels.iter().zip(curve).map(|(level, f)| {
        // A curve that touches 0 is invalid.
        if *f > 0.0 { level.weight * (level.ln_ns - f.ln()).powi(2) } else { f64::INFINITY }
    });
    terms.sum()
}

/// Least squares of (target − design·p)/curve with p ≥ 0, where target = f·(1 + ln t − ln f).
fn step(design: &[Basis], levels: &[SizeLevel], curve: &[f64], count: usize) -> Basis {
    let mut gram = [[0.0; MOST]; MOST];
    let mut right = [0.0; MOST];
    for ((row, level), f) in design.iter().zip(levels).zip(curve) {
        let weight = level.weight / (f * f);
        let target = f * (1.0 + level.ln_ns - f.ln());
        for a in 0..count {
            right[a] += weight * row[a] * target;
            for b in 0..=a {
                gram[a][b] += weight * row[a] * row[b];
            }
        }
    }
    nonnegative(&gram, &right, count)
}

/// Minimises the quadratic with p ≥ 0. An unconstrained solution without negative parameters is the result; otherwise
/// every set of nonzero parameters is tried.
fn nonnegative(gram: &[Basis; MOST], right: &Basis, count: usize) -> Basis {
    let all: Vec<usize> = (0..count).collect();
    let mut best = (0.0, [0.0; MOST]);
    let full = (1_usize << count) - 1;
    for set in (1..=full).rev() {
        let members: Vec<usize> = all.iter().copied().filter(|a| set >> a & 1 == 1).collect();
        let Some(solution) = solve(gram, right, &members) else { continue };
        if members.iter().any(|&a| solution[a] < 0.0) {
            continue;
        }
        if set == full {
            return solution;
        }
        // The reduction of the squared error compared with all zeros.
        let gain = dot(right, &solution);
        if gain > best.0 {
            best = (gain, solution);
        }
    }
    best.1
}

/// Solves the normal equations of the selected parameters by Cholesky's method; `None` when they are collinear.
/// Parameters are scaled, since a byte costs a millionth of a call.
fn solve(gram: &[Basis; MOST], right: &Basis, members: &[usize]) -> Option<Basis> {
    let n = members.len();
    let mut root = [[0.0; MOST]; MOST];
    let mut half = [0.0; MOST];
    let scale: [f64; MOST] = std::array::from_fn(|a| gram[a][a].sqrt());
    if members.iter().any(|&a| scale[a] <= 0.0) {
        return None;
    }
    for i in 0..n {
        let a = members[i];
        for j in 0..=i {
            let b = members[j];
            let known: f64 = (0..j).map(|k| root[i][k] * root[j][k]).sum();
            let value = gram[a][b] / (scale[a] * scale[b]) - known;
            if i == j {
                if value < 1e-12 {
                    return None;
                }
                root[i][i] = value.sqrt();
            } else {
                root[i][j] = value / root[j][j];
            }
        }
        let known: f64 = (0..i).map(|k| root[i][k] * half[k]).sum();
        half[i] = (right[a] / scale[a] - known) / root[i][i];
    }
    let mut scaled = [0.0; MOST];
    for i in (0..n).rev() {
        let known: f64 = (i + 1..n).map(|k| root[k][i] * scaled[k]).sum();
        scaled[i] = (half[i] - known) / root[i][i];
    }
    let mut solution = [0.0; MOST];
    members.iter().enumerate().for_each(|(i, &a)| solution[a] = scaled[i] / scale[a]);
    Some(solution)
}
