//! What to avoid: a line a question and setting, its levels with their bounds.

use super::fit::{chars, cut, cut_parts};
use super::paint::wrap;
use super::use_table::{QUESTION_MIN, mark};
use crate::outward::{BOUND_MAX, whole_percents};
use crate::view::document::{AvoidLine, Standing};

/// By which a line of what to avoid is set in.
pub const INDENT: usize = 2;

/// Each level of a line with its bounds.
fn levels(line: &AvoidLine) -> Vec<String> {
    let each = line.levels.iter().enumerate().map(|(at, level)| {
        let range = match level.dearer_upper.filter(|upper| *upper < BOUND_MAX) {
            Some(upper) => whole_percents(level.dearer_lower, upper).join("–") + " %",
            _ if level.dearer_lower >= BOUND_MAX => format!(">{:.0} %", BOUND_MAX * 100.0),
            _ => format!("≥ {} %", whole_percents(level.dearer_lower, level.dearer_lower)[0]),
        };
        format!("{} {} {range}", if at == 0 { "" } else { "," }, level.level)
    });
    each.collect()
}

/// The mark before a line of a question whose answer something speaks against.
fn contested(line: &AvoidLine) -> &'static str {
    if line.contested { mark(Standing::Doubtful) } else { "" }
}

/// The whole of a line, however many it takes.
pub fn uncut(line: &AvoidLine, width: usize) -> Vec<String> {
    let text = format!("{}: {}{} above {}", line.question, line.heading, levels(line).concat(), line.against);
    let parts = wrap(&text, width - INDENT).into_iter().enumerate();
    parts.map(|(at, part)| format!("{:INDENT$}{part}", if at == 0 { contested(line) } else { "" })).collect()
}

/// `g2 TCP, you read: read 4K 90–140 %, 16K 20–60 % above the best`, as much of it as one line holds.
pub fn cut_to(line: &AvoidLine, width: usize) -> String {
    let end = format!(" above {}", line.against);
    let each = levels(line);
    // A question may be shortened; the worst level stands in full.
    let behind = format!(": {}{}{end}", line.heading, each.first().map_or("", String::as_str));
    let more = if each.len() > 1 { chars(" … 00 more") } else { 0 };
    let room = width.saturating_sub(INDENT + chars(&behind) + more).max(QUESTION_MIN);
    let mut text = format!("{:INDENT$}{}: {}", contested(line), cut_parts(&line.question, room), line.heading);
    for (at, one) in each.iter().enumerate() {
        let rest = line.levels.len() - at;
        let more = format!(" … {rest} more");
        let after = if rest > 1 { chars(&more) } else { 0 };
        if at > 0 && chars(&text) + chars(one) + after + chars(&end) > width {
            return cut(&format!("{text}{end}{more}"), width);
        }
        text.push_str(one);
    }
    cut(&format!("{text}{end}"), width)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::document::AvoidLevel;

    #[test]
    fn a_level_stands_in_full_or_is_counted() {
        let question = "TCP, 2 CPUs, 50 flows, 20 competing";
        let long = AvoidLine {
            question: question.into(),
            group: bytegauge_model::GroupId("g1".into()),
            factor: "server_engine".into(),
            heading: "server".into(),
            against: "the best".into(),
            age_ns: None,
            contested: false,
            levels: [(0.359, Some(0.821)), (0.085, Some(0.4601))]
                .map(|(dearer_lower, dearer_upper)| AvoidLevel { level: "blocking".into(), dearer_lower, dearer_upper })
                .to_vec(),
        };
        // Bounds are rounded outwards: 35.9 to 82.1 % is no more than 35 % at least.
        let text = cut_to(&long, 70);
        assert_eq!(text, "  TCP, 2 CPUs…: server blocking 35–83 % above the best … 1 more");
        assert!(cut_to(&long, 100).contains("blocking 35–83 %, blocking 8–47 % above"), "{}", cut_to(&long, 100));
        // Where there is room for everything, nothing is counted away.
        let whole = uncut(&long, 50);
        assert!(whole.len() > 1 && whole.iter().all(|line| chars(line) <= 50), "{whole:?}");
        assert!(whole.join(" ").contains("20 competing: server") && !whole.join("").contains('…'), "{whole:?}");
    }
}
