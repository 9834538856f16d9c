//! "Did you mean": the known name nearest to an unknown one.

/// The nearest of `known` to `given`, if it is near enough to be a likely slip of the finger.
pub fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let given = given.to_ascii_lowercase().replace('_', "-");
    known
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(&given, &name.replace('_', "-")), name))
        .min()
        .filter(|(distance, name)| *distance <= 1 + name.len() / 4)
        .map(|(_, name)| name)
}

/// The tail of an error message: `: did you mean \`x\`?` or `: known are a, b, c`.
pub fn hint<'a>(given: &str, known: impl IntoIterator<Item = &'a str> + Clone) -> String {
    match nearest(given, known.clone()) {
        Some(name) => format!(": did you mean `{name}`?"),
        None => format!(": known are {}", known.into_iter().collect::<Vec<_>>().join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(given: &str, expected: Option<&str>) {
        assert_eq!(nearest(given, ["read-size", "write-size", "flows"]), expected, "{given}");
    }

    #[test]
    fn near_names() {
        check("read-sise", Some("read-size"));
        check("reed_size", Some("read-size"));
        check("flwos", Some("flows"));
        check("colour", None);
    }
}
