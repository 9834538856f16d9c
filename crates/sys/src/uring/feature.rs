//! Features of io_uring in this kernel: queried where the kernel reports them, tried where it does not.

use std::fmt;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU32, Ordering};

use io_uring::{Probe, opcode};

use super::{Missing, OpResult, PoolId, Ring, RingSetup};

/// A part of io_uring that younger kernels have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// Buffers that the kernel takes from a ring as data arrives.
    BufferRing,
    /// Such buffers that the kernel fills piece by piece.
    IncrementalBuffers,
    /// One accept that goes on.
    MultishotAccept,
    /// One receive that goes on.
    MultishotReceive,
    /// Receives and sends of several buffers at once.
    Bundles,
    /// Sends that leave the bytes where they are.
    ZeroCopySend,
    /// A kernel thread that takes submissions.
    PollThread,
}

/// Every feature, its name and the release that brought it (io_uring_enter(2), io_uring_register(2)).
const FEATURES: &[(Feature, &str, &str)] = &[
    (Feature::BufferRing, "a ring of provided buffers", "5.19"),
    (Feature::IncrementalBuffers, "provided buffers that are filled in pieces (IOU_PBUF_RING_INC)", "6.12"),
    (Feature::MultishotAccept, "multishot accept", "5.19"),
    (Feature::MultishotReceive, "multishot receive", "6.0"),
    (Feature::Bundles, "a bundle of buffers (IORING_RECVSEND_BUNDLE)", "6.10"),
    (Feature::ZeroCopySend, "a zero-copy send that reports its copies", "6.2"),
    (Feature::PollThread, "a submission thread without privilege (SQPOLL)", "5.13"),
];

impl Feature {
    fn row(self) -> (&'static str, &'static str) {
        // Every variant has its row: a test walks them.
        FEATURES.iter().find(|(feature, ..)| *feature == self).map_or(("?", "?"), |(_, name, since)| (name, since))
    }

    /// The release that brought it.
    #[must_use]
    pub fn since(self) -> &'static str {
        self.row().1
    }
}

impl fmt::Display for Feature {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.row().0)
    }
}

/// Whether this machine has io_uring with these features; the first that is absent is the reason.
///
/// # Errors
///
/// The reason.
pub fn probe(features: &[Feature]) -> Result<(), Missing> {
    let poll_idle_ms = features.contains(&Feature::PollThread).then_some(1);
    let mut ring = Ring::open(&RingSetup { entries: 8, completions: 16, poll_idle_ms })?;
    features.iter().try_for_each(|feature| ring.require(*feature))
}

/// Features that were found, a bit each: the kernel does not lose them, and trying takes time.
static FOUND: AtomicU32 = AtomicU32::new(0);

impl Ring {
    /// Makes sure that the kernel has a feature. A feature that was found once is not tried again.
    ///
    /// # Errors
    ///
    /// Its absence, what kept us from finding out, or that it is not to be used in a ring like this.
    pub fn require(&mut self, feature: Feature) -> Result<(), Missing> {
        if feature == Feature::ZeroCopySend && self.parameters().is_setup_sqpoll() {
            return Err(Missing::UnsafeWithPollThread);
        }
        let bit = 1 << feature as u32;
        // A submission thread is this ring's own, not the kernel's.
        if feature != Feature::PollThread && FOUND.load(Ordering::Relaxed) & bit != 0 {
            return Ok(());
        }
        let present = match feature {
            // Both came with 5.19, and only one of them can be tried without a listener.
            Feature::BufferRing | Feature::MultishotAccept => {
                let made = self.new_pool(1, 64);
                self.was_made(made)?
            }
            Feature::IncrementalBuffers => {
                let made = self.new_incremental_pool(1, 64, 32);
                self.was_made(made)?
            }
            Feature::MultishotReceive => self.receives_on_and_on()?,
            Feature::Bundles => self.parameters().is_feature_recvsend_bundle(),
            Feature::ZeroCopySend => self.knows(opcode::SendZc::CODE),
            Feature::PollThread => self.parameters().is_setup_sqpoll(),
        };
        if !present {
            return Err(Missing::feature(feature));
        }
        FOUND.fetch_or(bit, Ordering::Relaxed);
        Ok(())
    }

    fn was_made(&mut self, made: Result<PoolId, Missing>) -> Result<bool, Missing> {
        match made {
            Ok(pool) => {
                self.retire_pool(pool);
                Ok(true)
            }
            Err(Missing::Refused { errno: libc::EINVAL, .. }) => Ok(false),
            Err(other) => Err(other),
        }
    }

    fn knows(&self, code: u8) -> bool {
        let mut probe = Probe::new();
        self.register_probe(&mut probe).is_ok() && probe.is_supported(code)
    }

    /// Tries: a byte is waiting, so a multishot receive completes at once and reports that it continues.
    fn receives_on_and_on(&mut self) -> Result<bool, Missing> {
        let doing = "trying a multishot receive";
        let refused = |error: std::io::Error| Missing::of(doing, &error);
        self.require(Feature::BufferRing)?;
        let pool = self.new_pool(2, 64)?;
        self.offer_all(pool);
        let (ours, theirs) = UnixStream::pair().map_err(refused)?;
        crate::io::write(theirs.as_fd(), b"?").map_err(refused)?;
        let op = self.receive_multishot(0, ours.as_fd(), pool);
        let mut goes_on = false;
        // A signal may end a wait early; the kernel answers within the first few.
        for _ in 0..100 {
            self.wait(1, Some(10_000_000)).map_err(refused)?;
            let Some(completion) = self.reap() else { continue };
            if let OpResult::Received { taken, .. } = completion.event {
                goes_on = completion.more;
                taken.into_iter().for_each(|taken| self.give_back(taken));
                break;
            }
        }
        if goes_on {
            self.cancel(op);
        }
        self.settle();
        self.retire_pool(pool);
        Ok(goes_on)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::kernel_release;

    #[test]
    fn every_feature_has_a_name_and_a_release() {
        for (feature, name, since) in FEATURES {
            assert_eq!(feature.to_string(), *name);
            assert_eq!(feature.since(), *since);
        }
    }

    #[test]
    fn zero_copy_with_submission_thread_is_refused() {
        // Twice: a feature found without a submission thread must not count.
        for _ in 0..2 {
            let _ = probe(&[Feature::ZeroCopySend]);
            let Err(refused) = probe(&[Feature::PollThread, Feature::ZeroCopySend]) else { panic!("it was permitted") };
            if probe(&[Feature::PollThread]).is_ok() {
                assert_eq!(refused, Missing::UnsafeWithPollThread);
                assert!(refused.to_string().contains("use uring:zc or uring:multishot:sqpoll"));
            }
        }
    }

    #[test]
    fn features_match_the_release_of_the_kernel() {
        let here = kernel_release::running().unwrap();
        for (feature, _, since) in FEATURES {
            match probe(&[*feature]) {
                Ok(()) => {}
                Err(Missing::Feature { .. }) => assert!(here < kernel_release::numbers(since).unwrap(), "{feature}"),
                Err(other) => assert!(other.to_string().contains("use"), "{other}"),
            }
        }
    }
}
