//! The version of the running kernel.

use std::fs;

/// The release of the running kernel, as `uname -r` prints it.
pub(crate) fn text() -> Option<String> {
    Some(fs::read_to_string("/proc/sys/kernel/osrelease").ok()?.trim().to_owned())
}

/// Major and minor of a release.
pub(crate) fn numbers(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Major and minor of the running kernel.
pub(crate) fn running() -> Option<(u32, u32)> {
    numbers(&text()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_begins_with_two_numbers() {
        assert_eq!(
            [numbers("6.18.1-cloud"), numbers("5.4"), numbers("6"), numbers("")],
            [Some((6, 18)), Some((5, 4)), None, None]
        );
        assert!(running().is_some());
    }
}
