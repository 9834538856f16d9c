//! Converts outcomes to and from rows: a tag and a reason.
//!
//! Rows and exports that were written before the tag `nothing-moved` existed have `failed`, and only their text shows
//! the difference. That text is read only here.

use bytegauge_model::Outcome;

/// The first words of reasons of stored trials that moved nothing and have the tag `failed`.
const NOTHING_MOVED_BEGINS: [&str; 5] = [
    "no byte arrived within the window",
    "no byte went",
    "the server took no byte within the window",
    "no call was completed within the window",
    "nothing was completed within the window",
];

/// The outcome of a row; `None` if the tag is unknown.
pub fn stored(tag: &str, reason: Option<String>) -> Option<Outcome> {
    let with_reason: [fn(String) -> Outcome; 4] =
        [|_| Outcome::Measured, Outcome::Skipped, Outcome::Failed, Outcome::NothingMoved];
    let reason = reason.unwrap_or_default();
    with_reason.into_iter().map(|outcome| outcome(reason.clone())).find(|outcome| outcome.tag() == tag).map(typed)
}

/// The outcome with its present tag.
pub fn typed(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Failed(reason) if NOTHING_MOVED_BEGINS.iter().any(|begin| reason.starts_with(begin)) => {
            Outcome::NothingMoved(reason)
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(tag: &str, reason: &str, expected: Option<fn(String) -> Outcome>) {
        let expected = expected.map(|outcome| outcome(reason.into()));
        assert_eq!(stored(tag, Some(reason.into())), expected, "{tag}: {reason}");
    }

    #[test]
    fn rows_without_the_tag_become_typed() {
        let texts = [
            "no byte arrived within the window (the reader was kept from running): use a longer --duration",
            "no byte went back within the window (a reader was kept from running): use a longer --duration",
            "the server took no byte within the window: does it read?",
            "no call was completed within the window: 53 times refused in phase connect",
            "nothing was completed within the window (the thread was kept from running)",
        ];
        for text in texts {
            check("failed", text, Some(Outcome::NothingMoved));
            check("skipped", text, Some(Outcome::Skipped));
        }
    }

    #[test]
    fn tags_are_read_with_any_text() {
        check("failed", "the sink died", Some(Outcome::Failed));
        check("nothing-moved", "left out", Some(Outcome::NothingMoved));
        check("measured", "", Some(|_| Outcome::Measured));
        check("lost", "", None);
    }
}
