//! Why a ring of NOPs cannot be had here, in words that name the next step. Each is a skip for whoever measures.

use std::io;

use thiserror::Error;

use super::Setup;
use crate::uring::Missing;

/// What this machine, or this build, lacks.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Lacking {
    /// The program was built where liburing was not.
    #[error(
        "this program was built without liburing: install its headers (Debian: apt-get install liburing-dev \
         pkg-config) and build it again, or leave out --implementation liburing"
    )]
    Liburing,
    /// The library is older than a set-up.
    #[error(
        "liburing {} does not know IORING_SETUP_NO_SQARRAY and would write where nothing is: build with liburing 2.5 or \
         newer, or leave out --setup no-sqarray with it",
        super::liburing_version().unwrap_or("here")
    )]
    LiburingWithoutNoSqarray,
    /// The kernel does not know a set-up, or not together with the others.
    #[error("the kernel refuses the set-up {setup} ({needs}): use a newer kernel, or leave it out of --setup")]
    SetupRefused {
        /// The parts of the set-up.
        setup: String,
        /// What each of them needs.
        needs: String,
    },
    /// io_uring itself.
    #[error("{}", without_an_engine(.0))]
    Uring(#[from] Missing),
}

/// One part of a set-up.
struct Part {
    asked: fn(&Setup) -> bool,
    name: &'static str,
    /// The release that brought it (io_uring_setup(2), io_uring_register(2)).
    since: &'static str,
}

const PARTS: &[Part] = &[
    Part { asked: |setup| setup.single_issuer, name: "single-issuer", since: "6.1" },
    Part { asked: |setup| setup.coop, name: "coop", since: "5.19" },
    Part { asked: |setup| setup.sqpoll, name: "sqpoll", since: "5.13, and neither single-issuer nor coop beside it" },
    Part { asked: |setup| setup.no_sqarray, name: "no-sqarray", since: "6.6" },
    Part { asked: |setup| setup.registered, name: "registered", since: "5.18" },
];

impl Lacking {
    /// What the kernel says of flags that it does not know is `EINVAL`: then the set-up is the reason.
    pub(super) fn of(self, setup: &Setup) -> Lacking {
        let asked: Vec<&Part> = PARTS.iter().filter(|part| (part.asked)(setup)).collect();
        match self {
            Lacking::Uring(Missing::Refused { errno: libc::EINVAL, .. }) if !asked.is_empty() => {
                let names: Vec<&str> = asked.iter().map(|part| part.name).collect();
                let needs = asked.iter().map(|part| format!("{} needs Linux {}", part.name, part.since));
                let needs = needs.collect::<Vec<_>>().join(", ");
                Lacking::SetupRefused { setup: names.join("+"), needs }
            }
            other => other,
        }
    }
}

/// Where io_uring itself is measured no engine can take its place.
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
        Missing::NoDescriptor => "no descriptor is free for an io_uring: raise `ulimit -n`".into(),
        Missing::Refused { doing, errno } => {
            format!("{doing}: {}: use another --setup", io::Error::from_raw_os_error(*errno))
        }
        Missing::Feature { .. } | Missing::UnsafeWithPollThread => missing.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(missing: Missing, setup: &Setup, expected: &str) {
        let said = Lacking::from(missing).of(setup).to_string();
        assert!(said.contains(expected) && !said.contains("--engine"), "{said}");
    }

    #[test]
    fn every_refusal_names_a_next_step_of_its_own() {
        let plain = Setup { entries: 8, ..Setup::default() };
        let invalid = || Missing::Refused { doing: "making an io_uring", errno: libc::EINVAL };
        check(Missing::SwitchedOff(2), &plain, "run `sysctl kernel.io_uring_disabled=0` as root");
        check(Missing::NotBuilt, &plain, "no ring to measure");
        check(Missing::Filtered, &plain, "a container or sandbox filters it");
        check(Missing::LockedMemory { doing: "making an io_uring", limit_kib: 64 }, &plain, "use fewer --entries");
        check(Missing::NoDescriptor, &plain, "ulimit -n");
        check(invalid(), &plain, "use another --setup");
        let young = Setup { no_sqarray: true, single_issuer: true, ..plain };
        check(
            invalid(),
            &young,
            "the set-up single-issuer+no-sqarray (single-issuer needs Linux 6.1, no-sqarray needs",
        );
        let said = Lacking::Liburing.to_string();
        assert!(said.contains("apt-get install liburing-dev"), "{said}");
    }
}
