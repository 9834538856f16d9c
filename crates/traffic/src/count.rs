//! A count that others look at while it is kept.
//!
//! Where one thread keeps it, adding is a load and a store: a locked instruction takes several nanoseconds of every
//! call and waits for the stores before it. Never orders other memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How often something happened.
#[derive(Debug)]
pub struct Count {
    value: Arc<AtomicU64>,
    /// Whether several threads add to it.
    shared: bool,
}

impl Count {
    /// A count that starts at 0; `shared` if more than one thread adds to it.
    pub fn new(shared: bool) -> Count {
        Count { value: Arc::default(), shared }
    }

    /// One more. The new value.
    #[inline]
    pub fn add(&self) -> u64 {
        if self.shared {
            return self.value.fetch_add(1, Ordering::Relaxed) + 1;
        }
        let value = self.value.load(Ordering::Relaxed) + 1;
        self.value.store(value, Ordering::Relaxed);
        value
    }

    /// The value now.
    pub fn value(&self) -> u64 {
        self.value.load(Ordering::Relaxed)
    }

    /// Where the value stands, for those who look at it meanwhile.
    pub fn watched(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(threads: u64, shared: bool) {
        let count = Count::new(shared);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        count.add();
                    }
                });
            }
        });
        assert_eq!((count.value(), count.watched().load(Ordering::Relaxed)), (threads * 10_000, threads * 10_000));
    }

    #[test]
    fn nothing_is_lost() {
        check(1, false);
        check(4, true);
    }
}
