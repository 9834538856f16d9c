//! Reads numbers as tables print them: `11,090`, `1_000`, `3.8 GiB/s`.

/// Units of a rate of bytes in cells of a table, bytes per second. `MB/s` is not among them: some mean bytes, others bits.
pub const RATE_UNITS: &[(&str, f64)] = &[
    ("B/s", 1.0),
    ("KiB/s", 1024.0),
    ("MiB/s", 1_048_576.0),
    ("GiB/s", 1_073_741_824.0),
    ("kbit/s", 1e3 / 8.0),
    ("Mbit/s", 1e6 / 8.0),
    ("Gbit/s", 1e9 / 8.0),
    ("Mbits/sec", 1e6 / 8.0),
    ("Gbits/sec", 1e9 / 8.0),
    ("Mbps", 1e6 / 8.0),
    ("Gbps", 1e9 / 8.0),
];

/// Without separators of thousands; unchanged where they do not separate groups of three digits.
pub(super) fn plain(text: &str) -> String {
    let (whole, fraction) = text.split_once('.').map_or((text, None), |(whole, fraction)| (whole, Some(fraction)));
    let separator = [',', '_', '\u{a0}', '\u{202f}', '\''].into_iter().find(|separator| whole.contains(*separator));
    let Some(separator) = separator else { return text.to_owned() };
    let groups: Vec<&str> = whole.split(separator).collect();
    let digits = |group: &str| group.bytes().all(|byte| byte.is_ascii_digit());
    let first = groups[0].trim_start_matches('-');
    let is_grouped = (1..=3).contains(&first.len())
        && digits(first)
        && groups[1..].iter().all(|group| group.len() == 3 && digits(group));
    match (is_grouped, fraction) {
        (false, _) => text.to_owned(),
        (true, None) => groups.concat(),
        (true, Some(fraction)) => format!("{}.{fraction}", groups.concat()),
    }
}

/// A number from 0 up.
pub(super) fn number(text: &str) -> Result<f64, String> {
    let number = plain(text).parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
    number.ok_or_else(|| format!("`{text}` is no number from 0 up"))
}

/// The digits of a rate and its unit, bytes per second: its own, or that of its column.
pub(super) fn rate(text: &str, column: Option<f64>) -> Result<(&str, f64), String> {
    // The longest unit first: `MiB/s` ends in `B/s`.
    let own = RATE_UNITS.iter().filter_map(|(name, unit)| Some((text.strip_suffix(name)?.trim(), *unit, name.len())));
    let own = own.filter(|(digits, ..)| digits.ends_with(|last: char| last.is_ascii_digit()));
    match (own.max_by_key(|(.., len)| *len), column) {
        (Some((digits, unit, _)), _) => Ok((digits, unit)),
        (None, Some(unit)) => Ok((text, unit)),
        (None, None) => Err(format!("`{text}` has no unit: write it in the heading or the cell, such as {}", units())),
    }
}

/// The units that are recognised, for help and errors.
pub fn units() -> String {
    RATE_UNITS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_have_separators() {
        let check = |text: &str, expected: Option<f64>| assert_eq!(number(text).ok(), expected, "{text}");
        check("11,090", Some(11_090.0));
        check("1,234,567.5", Some(1_234_567.5));
        check("1_000", Some(1000.0));
        check("12'345", Some(12_345.0));
        check("3.8", Some(3.8));
        // A decimal comma is no separator of thousands.
        check("3,8", None);
        check("11,09,000", None);
        check("1,2345", None);
        check("-1,000", None);
    }

    #[test]
    fn unit_is_in_the_cell_or_column() {
        assert_eq!(rate("3.8 GiB/s", None), Ok(("3.8", 1_073_741_824.0)));
        assert_eq!(rate("940Mbps", Some(1.0)), Ok(("940", 125_000.0)));
        assert_eq!(rate("7", Some(8.0)), Ok(("7", 8.0)));
        assert!(rate("7", None).unwrap_err().contains("Gbit/s"));
        assert!(rate("7 MB/s", None).is_err());
    }
}
