//! What a session says to use, in a few lines among other sessions': a mark, the question, the choice, its rate and bound.

use super::fit::{cut, cut_parts};
use super::paint::wrap;
use super::use_table::{QUESTION_MIN, bound, mark, rate};
use crate::View;
use crate::sentence::up_to_times;
use crate::view::document::{Standing, UseRow};

/// At most so many lines of at most so many characters; the last says how many more there are, and how `program`, as it is
/// called to find this session, shows them.
pub fn render(view: &View, lines_max: usize, width: usize, program: &str) -> Vec<String> {
    let to_use = &view.answer.to_use;
    let rows: Vec<&UseRow> = to_use.rows.iter().filter(|row| row.standing != Standing::Nothing).collect();
    if rows.is_empty() {
        let why = view.verdicts.first().map_or("nothing was measured", |verdict| &verdict.recommendation.text);
        return wrap(why, width - 4).into_iter().take(1).map(|line| format!("  - {line}")).collect();
    }
    // The best known first; in the plan's order among those.
    let mut kept: Vec<(usize, &UseRow)> = rows.iter().copied().enumerate().collect();
    kept.sort_by_key(|(at, row)| (row.standing, *at));
    let shown = if kept.len() > lines_max { lines_max.saturating_sub(1).max(1) } else { kept.len() };
    kept.truncate(shown);
    kept.sort_by_key(|(at, _)| *at);
    let mut out: Vec<String> = kept.iter().map(|(_, row)| line(view, row, width)).collect();
    if rows.len() > shown && lines_max > 1 {
        out.push(format!("    … {} more: {program} report {}", rows.len() - shown, view.session));
    }
    out
}

fn line(view: &View, row: &UseRow, width: usize) -> String {
    let to_use = &view.answer.to_use;
    // What is left to the system is what a program has that says nothing; what stands in brackets is the peer's.
    let says = |shown: &String| !matches!(shown.as_str(), "–" | "auto") && !shown.starts_with('(');
    let all_left = !row.shown.iter().any(says);
    let choice: Vec<String> = to_use
        .choices
        .iter()
        .zip(&row.shown)
        .filter(|(_, shown)| *shown != "–" && (all_left || says(shown)))
        .map(|(column, shown)| format!("{} {shown}", column.heading))
        .collect();
    let choice = choice.join(", ");
    // Where others may be the best as well one name alone would pass for an answer.
    let choice = match (&row.tied, row.standing) {
        (Some(tied), _) => format!("{choice} or {tied}"),
        (None, Standing::Doubtful) => format!("{choice} so far"),
        _ => choice,
    };
    let who =
        if row.who.is_empty() || row.question.ends_with(&row.who) { String::new() } else { format!(", {}", row.who) };
    let rate = match (rate(to_use, row), row.rough) {
        (rate, true) => format!("about {} {}", rate.trim_matches(['(', ')']), to_use.rate_unit),
        (rate, false) => format!("{rate} {}", to_use.rate_unit),
    };
    let wide = row.times.map(|times| format!("no answer yet: may take {} the best's time", up_to_times(times - 1.0)));
    let against = wide.into_iter().chain(row.note.clone()).collect::<Vec<_>>().join("; ");
    let each = match Some(against).filter(|against| row.standing == Standing::Doubtful && !against.is_empty()) {
        // What speaks against a choice comes before it.
        Some(note) => {
            [format!("{who}: {note} ({choice}, {rate})"), format!(": {note} ({choice})"), format!(": {note}")]
        }
        None => {
            let dearer = row.within.map_or_else(String::new, |most| format!("≤{} dearer", bound(most)));
            let beside = |parts: &[&str]| {
                let said = parts.iter().filter(|part| !part.is_empty()).copied().collect::<Vec<_>>().join(", ");
                if said.is_empty() { said } else { format!(" ({said})") }
            };
            [
                format!("{who}: {choice}{}", beside(&[&rate, &dearer])),
                format!(": {choice}{}", beside(&[&rate, &dearer])),
                format!(": {choice}{}", beside(&[&dearer])),
            ]
        }
    };
    let room = width.saturating_sub(4);
    let told = |said: &String| {
        // The question gives way first: what is answered has the numbers.
        let left = room.saturating_sub(said.chars().count()).max(QUESTION_MIN);
        cut_parts(&row.question, left) + said
    };
    let each = each.map(|said| told(&said));
    let fits = each.iter().find(|text| text.chars().count() <= room).unwrap_or(&each[2]);
    format!("  {} {}", mark(row.standing), cut(fits, room))
}
