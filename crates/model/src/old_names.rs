//! Names of factors and options that earlier versions used, each with its present name.
//!
//! Stores and exported tables of earlier versions are read with it, and an error about an old option names the new one.
//! Nothing is ever written under an old name.

/// Factors as keys of stored data and headings of tables: the old name, the present one.
pub const FACTORS: &[(&str, &str)] = &[
    ("i_am", "role"),
    ("choose", "compare"),
    ("age", "connection_age"),
    ("walk", "working_set"),
    ("fill", "writer_work"),
    ("think", "think_time"),
];

/// Options of the command line and keys of plans that are no factors, or whose option is not the factor's name.
const OPTIONS: &[(&str, &str)] = &[
    ("budget", "time"),
    ("until_max", "max_time"),
    ("duration", "trial_time"),
    ("looks", "analyses"),
    ("audit", "long_trials"),
    ("gentle", "half_load"),
    ("advice", "recommendation"),
    ("for", "time"),
];

/// Values of options: the option, the old value, the present one.
const VALUES: &[(&str, &str, &str)] =
    &[("until", "proven", "conclusive"), ("until", "decided", "conclusive"), ("values", "answer", "recommended")];

/// The present name of a factor that is stored under this name; the name itself, where it was not renamed.
pub fn factor(name: &str) -> &str {
    FACTORS.iter().find(|(old, _)| *old == name).map_or(name, |(_, new)| new)
}

/// The present name of an option or a key of a plan that was renamed. Dashes and underscores are the same.
pub fn option(name: &str) -> Option<String> {
    let name = name.replace('-', "_");
    let renamed = FACTORS.iter().chain(OPTIONS).find(|(old, _)| *old == name);
    renamed.map(|(_, new)| new.replace('_', "-"))
}

/// The present form of a value of an option that was renamed.
pub fn value(option: &str, value: &str) -> Option<&'static str> {
    VALUES.iter().find(|(of, old, _)| *of == option && *old == value).map(|(_, _, new)| *new)
}

/// The words of a command that an earlier version stored, in the form of this version. Words after `--` belong to a program.
pub fn command(stored: Vec<String>) -> Vec<String> {
    let own = stored.iter().position(|word| word == "--").unwrap_or(stored.len());
    let mut present: Vec<String> = Vec::with_capacity(stored.len());
    for (at, word) in stored.into_iter().enumerate() {
        let before = present.last().and_then(|word| word.strip_prefix("--"));
        let new = match word.strip_prefix("--") {
            _ if at >= own => None,
            Some(rest) => option_word(rest),
            None => before.and_then(|option| value(option, &word)).map(str::to_owned),
        };
        present.push(new.unwrap_or(word));
    }
    present
}

/// `--new` or `--new=VALUE` for what follows the dashes of an old word; `None` where nothing of it was renamed.
fn option_word(rest: &str) -> Option<String> {
    let Some((old, given)) = rest.split_once('=') else { return option(rest).map(|new| format!("--{new}")) };
    let (name, shown) = (option(old), value(old, given));
    (name.is_some() || shown.is_some())
        .then(|| format!("--{}={}", name.as_deref().unwrap_or(old), shown.unwrap_or(given)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::factor::find;

    #[test]
    fn old_names_lead_to_factors() {
        for (old, new) in FACTORS {
            assert!(find(old).is_none() && find(new).is_some(), "{old}");
            assert_eq!(factor(old), *new);
        }
        assert_eq!(factor("flows"), "flows");
    }

    #[test]
    fn options_are_known_with_dashes_and_underscores() {
        assert_eq!(option("i-am").as_deref(), Some("role"));
        assert_eq!(option("i_am").as_deref(), Some("role"));
        assert_eq!(option("role"), None);
    }

    #[test]
    fn stored_commands_get_present_options() {
        let check = |old: &str, new: &str| {
            let words = old.split(' ').map(str::to_owned).collect();
            assert_eq!(command(words).join(" "), new);
        };
        check("stream --i-am reader --age=fresh", "stream --role reader --connection-age=fresh");
        check("run buffer-size --budget 60s --until proven", "run buffer-size --time 60s --until conclusive");
        check("ab --a x --until=decided", "ab --a x --until=conclusive");
        check("check --values 1,2 -- prog --age 3", "check --values 1,2 -- prog --age 3");
    }
}
