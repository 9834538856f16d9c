//! Counts of the kernel, read twice: what was gained between the two, field by field, from one list of the fields.

/// Gives a struct of counts its `since`. Fields after `keeps` keep their later value.
macro_rules! counts {
    ($of:ident { $($count:ident),* $(,)? } $(keeps { $($kept:ident),* })?) => {
        impl $of {
            /// The counts gained since an earlier reading; none is below zero.
            #[must_use]
            pub fn since(&self, earlier: &$of) -> $of {
                self.with(earlier, u64::saturating_sub)
            }

            /// Each count from those of two readings.
            fn with(&self, other: &$of, of: impl Fn(u64, u64) -> u64) -> $of {
                $of {
                    $($count: of(self.$count, other.$count),)*
                    $($($kept: self.$kept,)*)?
                }
            }
        }
    };
}

pub(crate) use counts;
