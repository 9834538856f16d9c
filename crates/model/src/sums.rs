//! Sums of counts, field by field, from one list of the fields.

/// A count that is added to another one. Counts of a report may come from another host: no sum overflows.
pub(crate) trait AddCounts: Copy {
    /// The sum of both; of an optional count, that of the known ones.
    fn sum(self, other: Self) -> Self;
}

impl AddCounts for u64 {
    fn sum(self, other: u64) -> u64 {
        self.saturating_add(other)
    }
}

impl AddCounts for Option<u64> {
    fn sum(self, other: Option<u64>) -> Option<u64> {
        match (self, other) {
            (Some(ours), Some(theirs)) => Some(ours.sum(theirs)),
            (ours, theirs) => ours.or(theirs),
        }
    }
}

/// Gives a struct of counts its `plus`. Fields after `max` keep the larger value.
macro_rules! sums {
    ($of:ident { $($sum:ident),* $(,)? } $(max { $($max:ident),* $(,)? })?) => {
        impl $crate::sums::AddCounts for $of {
            fn sum(self, other: $of) -> $of {
                self.plus(&other)
            }
        }

        impl $of {
            /// The counts of both together.
            #[must_use]
            pub fn plus(&self, other: &$of) -> $of {
                $of {
                    $($sum: $crate::sums::AddCounts::sum(self.$sum, other.$sum),)*
                    $($($max: self.$max.max(other.$max),)*)?
                }
            }
        }
    };
}

pub(crate) use sums;

#[cfg(test)]
mod tests {
    use crate::{CallDatagrams, EngineReport};

    #[test]
    fn sums_of_reports_never_overflow() {
        let most = CallDatagrams { sent: u64::MAX, received: 3, ..CallDatagrams::default() };
        assert_eq!(most.plus(&most), CallDatagrams { sent: u64::MAX, received: 6, ..CallDatagrams::default() });
        let one = EngineReport { completions: u64::MAX, accepted_at_once: 5, ..EngineReport::default() };
        let other = EngineReport { completions: 1, accepted_at_once: 4, kernel_threads_ns: Some(7), ..one };
        let sum = one.plus(&other);
        assert_eq!((sum.completions, sum.accepted_at_once, sum.kernel_threads_ns), (u64::MAX, 5, Some(7)));
    }
}
