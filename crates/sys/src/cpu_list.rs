//! Reads the kernel's list format, `0-3,8,10-11`.
//!
//! The format is defined under "cpuset(7), List format" and used throughout
//! `/sys/devices/system`. Never touches a file.

/// The numbers of a list, in the order written. `None` if the text is not a list.
///
/// An empty text is an empty list: sysfs has one for a node without CPUs.
pub(crate) fn parse(text: &str) -> Option<Vec<usize>> {
    let text = text.trim();
    let mut numbers = Vec::new();
    if text.is_empty() {
        return Some(numbers);
    }
    for part in text.split(',') {
        match part.split_once('-') {
            None => numbers.push(part.trim().parse().ok()?),
            Some((first, last)) => {
                let first: usize = first.trim().parse().ok()?;
                let last: usize = last.trim().parse().ok()?;
                if last < first {
                    return None;
                }
                numbers.extend(first..=last);
            }
        }
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<&[usize]>) {
        assert_eq!(parse(text).as_deref(), expected, "{text:?}");
    }

    #[test]
    fn lists() {
        check("0\n", Some(&[0]));
        check("0-3,8,10-11\n", Some(&[0, 1, 2, 3, 8, 10, 11]));
        check("", Some(&[]));
        check("\n", Some(&[]));
        check("3-1", None);
        check("0,", None);
        check("ff", None);
    }
}
