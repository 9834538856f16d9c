//! The time of a call by its bytes: nanoseconds a call and nanoseconds a byte.
//!
//! t(s) = a + b·s with a and b above 0, by least squares of ln t, since noise is proportional to time and a fit of absolute errors
//! follows the largest sizes alone. Plain least squares are included because published tables use them.
//!
//! Descriptive: fitted to all trials, so it never enters a recommendation.

/// One trial: bytes and time per call, both above 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Mean bytes per call.
    pub bytes: f64,
    /// Mean time per call, in ns.
    pub ns: f64,
}

/// A line through the time of calls by their bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CostLine {
    /// Time per call without its bytes, in ns.
    pub fixed_ns: f64,
    /// Time per byte, in ns.
    pub per_byte_ns: f64,
}

impl CostLine {
    /// Time of a call that moves `bytes`, in ns.
    pub fn ns(&self, bytes: f64) -> f64 {
        self.fixed_ns + self.per_byte_ns * bytes
    }

    /// The size of calls that reach a share of the rate at `largest` bytes a call.
    pub fn size_for(&self, share: f64, largest: f64) -> f64 {
        let rate = share * largest / self.ns(largest);
        rate * self.fixed_ns / (1.0 - rate * self.per_byte_ns)
    }
}

/// Steps of the search: first over all ratios of the two costs, then twice around the best one.
const STEPS: u32 = 100;
/// A ratio at which a byte or a call has less than this share of the time at every size is the end of the search.
const NEGLIGIBLE: f64 = 1e-3;

/// The line of least relative error, and that error: the root mean square of ln(measured / fitted). `None` where a call or a byte
/// would cost nothing.
pub fn cost_line(points: &[Point]) -> (Option<CostLine>, f64) {
    let sizes = || points.iter().map(|point| point.bytes);
    let least = NEGLIGIBLE / sizes().fold(0.0, f64::max);
    let most = 1.0 / (NEGLIGIBLE * sizes().fold(f64::INFINITY, f64::min));
    let (mut from, mut to) = (least.ln(), most.ln());
    let mut best = Scaled { ratio: 0.0, fixed_ns: 0.0, square: f64::NAN };
    for _ in 0..3 {
        let step = (to - from) / f64::from(STEPS);
        let tried = (0..=STEPS).map(|at| Scaled::of(points, (from + step * f64::from(at)).exp()));
        best = tried.min_by(|a, b| a.square.total_cmp(&b.square)).unwrap_or(best);
        (from, to) = (best.ratio.ln() - step, best.ratio.ln() + step);
    }
    let line = CostLine { fixed_ns: best.fixed_ns, per_byte_ns: best.fixed_ns * best.ratio };
    ((best.ratio > 2.0 * least && best.ratio < most / 2.0).then_some(line), best.square.sqrt())
}

/// The best line among those with one ratio of the two costs.
struct Scaled {
    ratio: f64,
    fixed_ns: f64,
    /// Mean square of ln(measured / fitted).
    square: f64,
}

impl Scaled {
    fn of(points: &[Point], ratio: f64) -> Self {
        let n = points.len() as f64;
        let ln: Vec<f64> = points.iter().map(|point| point.ns.ln() - (ratio * point.bytes).ln_1p()).collect();
        let mean = ln.iter().sum::<f64>() / n;
        Self { ratio, fixed_ns: mean.exp(), square: ln.iter().map(|ln| (ln - mean).powi(2)).sum::<f64>() / n }
    }
}

/// Plain least squares, every point with the same weight in ns, and the share of the variance explained. `None` for fewer than
/// two different sizes.
pub fn plain_line(points: &[Point]) -> Option<(CostLine, f64)> {
    let n = points.len() as f64;
    let mean_bytes = points.iter().map(|p| p.bytes).sum::<f64>() / n;
    let mean_ns = points.iter().map(|p| p.ns).sum::<f64>() / n;
    let square_bytes: f64 = points.iter().map(|p| (p.bytes - mean_bytes).powi(2)).sum();
    let square_ns: f64 = points.iter().map(|p| (p.ns - mean_ns).powi(2)).sum();
    let product: f64 = points.iter().map(|p| (p.bytes - mean_bytes) * (p.ns - mean_ns)).sum();
    let per_byte_ns = product / square_bytes;
    let line = CostLine { fixed_ns: mean_ns - per_byte_ns * mean_bytes, per_byte_ns };
    (square_bytes > 0.0).then_some((line, if square_ns > 0.0 { product * per_byte_ns / square_ns } else { 1.0 }))
}

/// Bytes a call, seconds, calls of a public /dev/zero measurement (AMD EPYC 7B13, Linux 6.2), by which the fit is tested.
#[cfg(test)]
const DEV_ZERO: [(f64, f64, f64); 25] = [
    (1.0, 2.109977484, 13218770.0),
    (2.0, 2.088255464, 13140604.0),
    (4.0, 1.910415235, 11890607.0),
    (8.0, 2.079450314, 13003902.0),
    (16.0, 1.915836995, 11869437.0),
    (32.0, 2.067651574, 12376238.0),
    (64.0, 1.911540996, 10840109.0),
    (128.0, 2.107312124, 11217050.0),
    (256.0, 1.913087075, 10214505.0),
    (512.0, 1.617278578, 8319468.0),
    (1024.0, 2.167249854, 10706639.0),
    (2048.0, 2.076305115, 10187969.0),
    (4096.0, 2.085769284, 9229350.0),
    (8192.0, 1.492790756, 4774410.0),
    (16384.0, 2.037716318, 4233701.0),
    (32768.0, 2.099627637, 2358213.0),
    (65536.0, 2.056928797, 1290989.0),
    (131072.0, 1.921920749, 627471.0),
    (262144.0, 1.89363303, 320047.0),
    (524288.0, 1.943629078, 154950.0),
    (1048576.0, 2.063054168, 75228.0),
    (2097152.0, 1.957132768, 36103.0),
    (4194304.0, 1.895898789, 17473.0),
    (8388608.0, 1.942115609, 8730.0),
    (16777216.0, 1.88241312, 4192.0),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::seeded;
    use proptest::prelude::*;

    fn trials(model: impl Fn(f64) -> f64, sizes: u32, per_size: usize, spread: f64, seed: u64) -> Vec<Point> {
        let mut random = seeded(seed, 0);
        (0..sizes)
            .flat_map(|k| std::iter::repeat_n(f64::from(1_u32 << k), per_size))
            .map(|bytes| Point { bytes, ns: model(bytes) * (spread * random.normal()).exp() })
            .collect()
    }

    #[test]
    fn the_public_table_by_plain_least_squares() {
        let row = |&(bytes, seconds, calls): &(f64, f64, f64)| Point { bytes, ns: seconds * 1e9 / calls };
        let small: Vec<Point> = DEV_ZERO.iter().map(row).filter(|point| point.bytes <= 262_144.0).collect();
        assert_eq!(small.len(), 19);
        let (line, r_squared) = plain_line(&small).unwrap();
        assert!((line.fixed_ns - 162.3).abs() < 0.05, "{line:?}");
        assert!((line.per_byte_ns - 0.02197).abs() < 0.000_005, "{line:?}");
        assert!(r_squared > 0.99, "{r_squared}");
    }

    #[test]
    fn a_planted_line_is_found() {
        let (line, error) = cost_line(&trials(|s| 200.0 + 0.05 * s, 20, 5, 0.03, 1));
        let line = line.unwrap();
        assert!((line.fixed_ns / 200.0 - 1.0).abs() < 0.03, "{line:?}");
        assert!((line.per_byte_ns / 0.05 - 1.0).abs() < 0.03, "{line:?}");
        assert!((0.02..0.04).contains(&error), "{error}");
    }

    #[test]
    fn a_call_or_a_byte_without_cost_is_no_line() {
        assert_eq!(cost_line(&trials(|s| 0.05 * s, 12, 2, 0.0, 1)).0, None);
        assert_eq!(cost_line(&trials(|_| 200.0, 12, 2, 0.0, 1)).0, None);
        assert_eq!(cost_line(&[]).0, None);
    }

    #[test]
    fn sizes_for_half_and_most_of_the_rate() {
        // 1 MiB reaches 1,048,576 / (100 + 104,857.6) bytes a ns, which is 99.9 % of the rate of an endless call.
        let line = cost_line(&trials(|s| 100.0 + 0.1 * s, 21, 1, 0.0, 1)).0.unwrap();
        let near = |got: f64, expected: f64| assert!((got / expected - 1.0).abs() < 0.01, "{got} {expected}");
        near(line.size_for(0.5, 1_048_576.0), 998.1);
        near(line.size_for(0.95, 1_048_576.0), 18_640.0);
        near(line.size_for(1.0, 1_048_576.0), 1_048_576.0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn no_cost_is_negative(seed: u64, fixed in 1.0_f64..1e4, slope in 1e-4_f64..1.0) {
            let (line, error) = cost_line(&trials(|s| fixed + slope * s, 12, 2, 0.2, seed));
            prop_assert!(line.is_none_or(|line| line.fixed_ns > 0.0 && line.per_byte_ns > 0.0));
            prop_assert!(error > 0.0 && error < 1.0);
        }
    }
}
