//! Combines the results of several sessions, with the session as the unit of replication.
//!
//! Sessions of one plan on one machine differ more than their blocks show: another time, another boot, other memory
//! pages. So each session contributes one value per difference, regardless of its number of blocks. The variance of
//! these values has two parts: the sessions' own errors, and the variance *between* sessions, estimated by the method
//! of moments (DerSimonian and Laird 1986, with equal weights).
//!
//! The bounds are multiple comparisons with the best (Hsu 1984). For each reference, all differences from it hold
//! together (Bonferroni), so the bound of any selected cell holds.
//!
//! Never pools blocks of different sessions.

use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::quantile::moments;

/// The fewest sessions that give a bound.
pub const MIN_SESSIONS: usize = 3;

/// The result of one session for the compared cells.
#[derive(Clone, Debug, PartialEq)]
pub struct Replicate {
    /// Mean ln cost of every cell, up to a constant per session.
    pub means: Vec<f64>,
    /// Standard error of the difference of cells i and j, row by row.
    pub errors: Vec<Vec<f64>>,
}

/// The combined result of all sessions. Vectors are in cell order.
#[derive(Clone, Debug, PartialEq)]
pub struct Across {
    /// Number of sessions.
    pub sessions: usize,
    /// Mean ln(cost / cost of the cell with the least mean) over the sessions.
    pub excess: Vec<f64>,
    /// Upper bound of ln(cost / cost of the best) in the mean session, at least 0; `None` for fewer than
    /// [`MIN_SESSIONS`].
    pub upper: Option<Vec<f64>>,
    /// Whether a cell costs significantly more than some other cell in the mean session, simultaneous over all
    /// comparisons with one reference. All `false` for fewer than [`MIN_SESSIONS`].
    pub worse: Vec<bool>,
    /// Standard deviation, in ln, of the differences of two cells caused by differences between sessions, pooled over
    /// all pairs; `None` for one session.
    pub between: Option<f64>,
}

/// Combines sessions at confidence `level` (a share).
///
/// # Panics
/// If the sessions differ in their number of cells.
pub fn across(sessions: &[Replicate], level: f64) -> Across {
    let cells = sessions.first().map_or(0, |session| session.means.len());
    assert!(sessions.iter().all(|session| session.means.len() == cells), "sessions differ in their number of cells");
    let pairs: Vec<(usize, usize)> = (0..cells).flat_map(|i| (i + 1..cells).map(move |j| (i, j))).collect();
    let pair = |(i, j): (usize, usize)| difference(sessions, i, j);
    let mean = |cell: usize| sessions.iter().map(|session| session.means[cell]).sum::<f64>() / sessions.len() as f64;
    let least = (0..cells).map(mean).fold(f64::INFINITY, f64::min);
    // The variance that the sessions' own errors do not explain; can be negative by chance.
    let squares: Vec<f64> = pairs.iter().map(|&ends| pair(ends)).map(|found| found.square - found.own).collect();
    let between = (sessions.len() > 1 && !squares.is_empty())
        .then(|| (squares.iter().sum::<f64>() / squares.len() as f64).max(0.0).sqrt());
    let critical = critical_value(sessions.len(), cells, level);
    let rivals = |i: usize| (0..cells).filter(move |&j| j != i).map(move |j| pair((i, j)));
    let worst = |i: usize, critical: f64| rivals(i).map(|d| d.mean + critical * d.error).fold(0.0, f64::max);
    let is_worse = |i: usize| critical.is_some_and(|critical| rivals(i).any(|d| d.mean > critical * d.error));
    Across {
        sessions: sessions.len(),
        excess: (0..cells).map(|cell| mean(cell) - least).collect(),
        upper: critical.map(|critical| (0..cells).map(|cell| worst(cell, critical)).collect()),
        worse: (0..cells).map(is_worse).collect(),
        between,
    }
}

/// The difference of two cells over sessions.
struct Difference {
    mean: f64,
    /// Standard error of the mean, with sessions as replicates.
    error: f64,
    /// Sample variance over sessions.
    square: f64,
    /// Mean squared error of the single sessions.
    own: f64,
}

fn difference(sessions: &[Replicate], i: usize, j: usize) -> Difference {
    let values: Vec<f64> = sessions.iter().map(|session| session.means[i] - session.means[j]).collect();
    let n = values.len() as f64;
    let (mean, square) = moments(&values);
    let own = sessions.iter().map(|session| session.errors[i][j].powi(2)).sum::<f64>() / n;
    Difference { mean, error: (square / n).sqrt(), square, own }
}

/// Student's one-sided critical value for all differences from one reference together.
fn critical_value(sessions: usize, cells: usize, level: f64) -> Option<f64> {
    let student = StudentsT::new(0.0, 1.0, sessions as f64 - 1.0).ok().filter(|_| sessions >= MIN_SESSIONS)?;
    Some(student.inverse_cdf(1.0 - (1.0 - level) / cells.saturating_sub(1).max(1) as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::seeded;

    fn world(effects: &[f64], between: f64, own: f64, sessions: usize, seed: u64) -> Vec<Replicate> {
        let mut random = seeded(seed, 0xac05);
        let cells = effects.len();
        let errors = vec![vec![own; cells]; cells];
        // Each of the two cells contributes half of the variance of a difference.
        let spread = ((between.powi(2) + own.powi(2)) / 2.0).sqrt();
        let session = |random: &mut crate::rng::RandomStream| {
            let level = random.normal();
            effects.iter().map(|effect| level + effect + spread * random.normal()).collect()
        };
        (0..sessions).map(|_| Replicate { means: session(&mut random), errors: errors.clone() }).collect()
    }

    #[test]
    fn agreeing_sessions_give_a_bound() {
        let calm = across(&world(&[0.0, 0.02, 0.4], 0.005, 0.01, 6, 1), 0.95);
        assert!(calm.upper.as_ref().is_some_and(|upper| upper[0] < 0.05 && upper[2] > 0.3), "{calm:?}");
        assert_eq!(calm.worse, [false, calm.worse[1], true], "{calm:?}");
        assert!(across(&world(&[0.0, 0.4], 0.005, 0.01, 2, 1), 0.95).worse.iter().all(|worse| !worse));
        let wild = across(&world(&[0.0, 0.02, 0.4], 0.3, 0.01, 6, 1), 0.95);
        assert!(wild.upper.as_ref().is_some_and(|upper| upper.iter().all(|bound| *bound > 0.05)), "{wild:?}");
    }

    #[test]
    fn variance_between_sessions_excludes_their_errors() {
        let check = |between: f64, own: f64| {
            let got = across(&world(&[0.0, 0.1, 0.2], between, own, 400, 2), 0.95).between.expect("sessions");
            assert!((got - between).abs() < 0.02, "{got} for {between}, own errors {own}");
        };
        check(0.2, 0.02);
        check(0.2, 0.2);
        check(0.0, 0.02);
    }

    #[test]
    fn two_sessions_give_no_bound() {
        let two = across(&world(&[0.0, 0.1], 0.0, 0.001, 2, 3), 0.95);
        assert_eq!((two.sessions, two.upper.is_none(), two.between.is_some()), (2, true, true));
        let one = across(&world(&[0.0, 0.1], 0.0, 0.001, 1, 3), 0.95);
        assert_eq!((one.upper, one.between), (None, None));
        assert_eq!(across(&[], 0.95).sessions, 0);
    }

    #[test]
    fn a_single_cell_has_bound_zero() {
        let alone = across(&world(&[0.3], 0.1, 0.1, 4, 4), 0.95);
        assert_eq!((alone.excess, alone.upper), (vec![0.0], Some(vec![0.0])));
    }
}
