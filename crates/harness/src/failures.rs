//! When a cell leaves its group because its trials fail.

/// Failures of a cell less its measured trials, of which at most [`CREDIT`] count. It leaves when two are left, since single
/// failures may be caused by the machine: at its second trial if it always fails.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Failures(i32);

/// The most measured trials that count, so that a cell which stops working leaves after five failures.
const CREDIT: i32 = 3;

impl Failures {
    /// Counts a measured trial.
    pub(crate) fn succeed(&mut self) {
        self.0 = (self.0 - 1).max(-CREDIT);
    }

    /// Counts a failure. Returns whether the cell leaves.
    pub(crate) fn fail(&mut self) -> bool {
        self.0 += 1;
        self.0 >= 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of trials (`+` measured, `-` failed) after which a cell leaves.
    fn leaves_after(trials: &str) -> Option<usize> {
        let mut failures = Failures::default();
        let leaves = |trial| {
            if trial == '+' {
                failures.succeed();
            }
            trial == '-' && failures.fail()
        };
        trials.chars().position(leaves).map(|at| at + 1)
    }

    #[test]
    fn only_mostly_failing_cells_leave() {
        for (trials, expected) in [
            ("--", Some(2)),
            ("+--", None),
            ("-+--", Some(4)),
            ("-+-+-+-+", None),
            ("++++++++++--++--+--", None),
            ("++++++++++-----", Some(15)),
        ] {
            assert_eq!(leaves_after(trials), expected, "{trials}");
        }
    }
}
