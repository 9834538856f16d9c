//! Outcomes as rows hold them: a tag and a reason.
//!
//! Rows and exports that were written before `nothing-moved` had a tag say `failed`, and only their text shows it. It is
//! read here, once, and nowhere else.

use bytegauge_model::Outcome;

/// How the reasons begin of stored trials that moved nothing and were tagged `failed`.
const NOTHING_MOVED_BEGINS: [&str; 5] = [
    "no byte arrived within the window",
    "no byte went",
    "the server took no byte within the window",
    "no call was completed within the window",
    "nothing was completed within the window",
];

/// The outcome of a row; `None` where the tag is unknown.
pub(crate) fn stored(tag: &str, reason: Option<String>) -> Option<Outcome> {
    let with_reason: [fn(String) -> Outcome; 4] =
        [|_| Outcome::Measured, Outcome::Skipped, Outcome::Failed, Outcome::NothingMoved];
    let reason = reason.unwrap_or_default();
    with_reason.into_iter().map(|outcome| outcome(reason.clone())).find(|outcome| outcome.tag() == tag).map(typed)
}

/// An outcome as it is tagged today.
pub(crate) fn typed(outcome: Outcome) -> Outcome {
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
    fn tags_are_read_whatever_the_text() {
        check("failed", "the sink died", Some(Outcome::Failed));
        check("nothing-moved", "left out", Some(Outcome::NothingMoved));
        check("measured", "", Some(|_| Outcome::Measured));
        check("lost", "", None);
    }
}
