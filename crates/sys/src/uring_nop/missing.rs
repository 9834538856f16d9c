//! Reasons why a ring of NOPs is not available, each with the next step. Callers skip the measurement.

use std::io;

use thiserror::Error;

use super::NopSetup;
use crate::uring::Missing;

/// A missing requirement of this machine or this build.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MissingRing {
    /// The program was built without liburing.
    #[error(
        "this program was built without liburing: install its headers (Debian: apt-get install liburing-dev \
         pkg-config) and build it again, or leave out --implementation liburing"
    )]
    Liburing,
    /// The library is too old for a set-up.
    #[error(
        "liburing {} does not support IORING_SETUP_NO_SQARRAY and would write to invalid memory: build with liburing 2.5 or \
         newer, or leave out --setup no-sqarray with it",
        super::liburing_version().unwrap_or("here")
    )]
    LiburingWithoutNoSqarray,
    /// The kernel does not support a set-up, or not in this combination.
    #[error("the kernel refuses the set-up {setup} ({needs}): use a newer kernel, or leave it out of --setup")]
    SetupRefused {
        /// The parts of the set-up.
        setup: String,
        /// The requirement of each part.
        needs: String,
    },
    /// io_uring is not available.
    #[error("{}", without_an_engine(.0))]
    Uring(#[from] Missing),
}

/// One part of a set-up.
struct SetupPart {
    asked: fn(&NopSetup) -> bool,
    name: &'static str,
    /// The kernel release that added it (io_uring_setup(2), io_uring_register(2)).
    since: &'static str,
}

const PARTS: &[SetupPart] = &[
    SetupPart { asked: |setup| setup.single_issuer, name: "single-issuer", since: "6.1" },
    SetupPart { asked: |setup| setup.coop, name: "coop", since: "5.19" },
    SetupPart { asked: |setup| setup.sqpoll, name: "sqpoll", since: "5.13, without single-issuer and coop" },
    SetupPart { asked: |setup| setup.no_sqarray, name: "no-sqarray", since: "6.6" },
    SetupPart { asked: |setup| setup.registered, name: "registered", since: "5.18" },
];

impl MissingRing {
    /// The kernel returns `EINVAL` for unknown flags; the set-up is the reason then.
    pub(super) fn of(self, setup: &NopSetup) -> MissingRing {
        let asked: Vec<&SetupPart> = PARTS.iter().filter(|part| (part.asked)(setup)).collect();
        match self {
            MissingRing::Uring(Missing::Refused { errno: libc::EINVAL, .. }) if !asked.is_empty() => {
                let names: Vec<&str> = asked.iter().map(|part| part.name).collect();
                let needs = asked.iter().map(|part| format!("{} needs Linux {}", part.name, part.since));
                let needs = needs.collect::<Vec<_>>().join(", ");
                MissingRing::SetupRefused { setup: names.join("+"), needs }
            }
            other => other,
        }
    }
}

/// The message for an unavailable io_uring: another engine cannot replace it here.
fn without_an_engine(missing: &Missing) -> String {
    match missing {
        Missing::NotBuilt => {
            "this kernel has no io_uring (CONFIG_IO_URING is off, or Linux is older than 5.11): there is no ring to \
             measure here"
                .into()
        }
        Missing::SwitchedOff(value) => format!(
            "io_uring is switched off by kernel.io_uring_disabled={value}: run `sysctl kernel.io_uring_disabled=0` as root"
        ),
        Missing::Filtered => "io_uring is refused here although kernel.io_uring_disabled permits it: a container or \
                              sandbox filters it; allow io_uring_setup, io_uring_enter and io_uring_register there"
            .into(),
        Missing::LockedMemory { doing, limit_kib } => format!(
            "{doing}: the kernel has no memory for it; if `ulimit -l` ({limit_kib} KiB here) is the limit, raise it with \
             `ulimit -l unlimited`, or use fewer --entries"
        ),
        Missing::NoDescriptor => "no descriptor is available for an io_uring: raise `ulimit -n`".into(),
        Missing::Refused { doing, errno } => {
            format!("{doing}: {}: use another --setup", io::Error::from_raw_os_error(*errno))
        }
        Missing::Feature { .. } | Missing::UnsafeWithPollThread => missing.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(missing: Missing, setup: &NopSetup, expected: &str) {
        let message = MissingRing::from(missing).of(setup).to_string();
        assert!(message.contains(expected) && !message.contains("--engine"), "{message}");
    }

    #[test]
    fn every_refusal_has_its_own_next_step() {
        let plain = NopSetup { entries: 8, ..NopSetup::default() };
        let invalid = || Missing::Refused { doing: "making an io_uring", errno: libc::EINVAL };
        check(Missing::SwitchedOff(2), &plain, "run `sysctl kernel.io_uring_disabled=0` as root");
        check(Missing::NotBuilt, &plain, "no ring to measure");
        check(Missing::Filtered, &plain, "a container or sandbox filters it");
        check(Missing::LockedMemory { doing: "making an io_uring", limit_kib: 64 }, &plain, "use fewer --entries");
        check(Missing::NoDescriptor, &plain, "ulimit -n");
        check(invalid(), &plain, "use another --setup");
        let young = NopSetup { no_sqarray: true, single_issuer: true, ..plain };
        check(
            invalid(),
            &young,
            "the set-up single-issuer+no-sqarray (single-issuer needs Linux 6.1, no-sqarray needs",
        );
        let message = MissingRing::Liburing.to_string();
        assert!(message.contains("apt-get install liburing-dev"), "{message}");
    }
}
