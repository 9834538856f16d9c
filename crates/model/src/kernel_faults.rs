//! Faults of Linux versions that change results, by the kernel's release.

/// A fault, and the versions that have it.
#[derive(Clone, Copy, Debug)]
pub struct KernelFault {
    /// The first version with it.
    first: [u32; 3],
    /// The last one of the main line; a distribution may have the repair earlier.
    last: [u32; 3],
    /// What it does.
    pub sentence: &'static str,
}

/// Every known fault. Commits are of Linux.
const FAULTS: &[KernelFault] = &[KernelFault {
    // From 1d2fbaad7cd8, reverted in 026dfef287c0.
    first: [6, 17, 0],
    last: [6, 19, 6],
    sentence: "Linux 6.17 to 6.19.6 may drop segments of calls of 20 to 80 KB over loopback (TCPRcvQDrop), \
               unless the repair was backported",
}];

/// The fault of a release such as `6.18.44-1-amd64`, if one is known.
pub fn of(release: &str) -> Option<&'static KernelFault> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map_while(|part| part.parse().ok());
    let version = [numbers.next()?, numbers.next()?, numbers.next().unwrap_or(0)];
    FAULTS.iter().find(|fault| (fault.first..=fault.last).contains(&version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_a_fault_are_found() {
        for (release, expected) in [
            ("6.16.12", false),
            ("6.17", true),
            ("6.18.44-fc-v857", true),
            ("6.19.6", true),
            ("6.19.7-arch1", false),
            ("7.0.0-rc1", false),
            ("unknown", false),
        ] {
            assert_eq!(of(release).is_some(), expected, "{release}");
        }
    }
}
