//! The running kernel: its version and its architecture.

/// Major and minor of a release, as `uname -r` prints it: `6.18.1-cloud`.
#[cfg(test)]
pub(crate) fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Major and minor of the running kernel.
#[cfg(test)]
pub(crate) fn running_version() -> Option<(u32, u32)> {
    version(&std::fs::read_to_string("/proc/sys/kernel/osrelease").ok()?)
}

/// `AUDIT_ARCH_*` of this build's own programs: the ELF machine, 64 bits, little-endian (linux/audit.h). `None` where nothing here
/// knows the calls of programs.
pub(crate) const OWN_ARCH: Option<u32> = if cfg!(target_arch = "x86_64") {
    Some(0xC000_003E)
} else if cfg!(target_arch = "aarch64") {
    Some(0xC000_00B7)
} else if cfg!(target_arch = "riscv64") {
    Some(0xC000_00F3)
} else {
    None
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_begins_with_two_numbers() {
        assert_eq!(
            [version("6.18.1-cloud"), version("5.4"), version("6"), version("")],
            [Some((6, 18)), Some((5, 4)), None, None]
        );
        assert!(running_version().is_some());
    }
}
