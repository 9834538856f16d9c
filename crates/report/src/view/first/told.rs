//! What stands around the table of what to use: what moves more, what to avoid, what limits, what relays are worth.

use bytegauge_model::unit::{significant, significant_down, significant_up};
use bytegauge_model::{GroupId, Level, Spec, factor};

use super::super::document::{
    AvoidLevel, AvoidLine, AvoidView, CellView, Factors, GroupView, LeverView, LimitView, Standing, UseView, View,
};
use super::super::relays;
use super::{Questions, crowd, rows};
use crate::limit::UNKNOWN;
use crate::phrase;

/// Settings that are told before the answer.
const LEVERS_TOLD: usize = 2;

/// Of more confirmed choices with a level only the number is said.
const WITH_MAX: usize = 3;

/// What a level was compared with where it is whichever choice is the best.
const BEST: &str = "the best";

/// Levels that are shown to be worse: those of a setting that matters most first, then the worst question first, and of each
/// the worst level.
pub fn avoid(view: &View, to_use: &UseView, questions: &Questions) -> Vec<AvoidLine> {
    // What stands against the answer of a question stands against all that is said of it.
    let is_contested = |group: &GroupView| {
        let rows = to_use.rows.iter().filter(|row| row.groups.contains(&group.id));
        let twice = group.recommendation.survives_exchange == Some(false);
        twice || rows.into_iter().any(|row| row.standing == Standing::Doubtful && row.times.is_none())
    };
    let mut lines: Vec<AvoidLine> = Vec::new();
    for group in &view.groups {
        for found in &group.avoid {
            let shown = |value: &serde_json::Value| {
                let level: Level = serde_json::from_value(value.clone()).unwrap_or(Level::Absent);
                phrase::compact(&found.factor, &level)
            };
            let one = AvoidLevel {
                level: shown(&found.level) + &buffer(view, group, found) + &with(&found.with),
                dearer_lower: found.dearer_lower,
                dearer_upper: found.dearer_upper,
            };
            let against = if found.against.is_null() { BEST.to_owned() } else { shown(&found.against) };
            let same = |line: &&mut AvoidLine| {
                line.group == group.id && line.factor == found.factor && line.against == against
            };
            match lines.iter_mut().find(same) {
                Some(line) => line.levels.push(one),
                None => lines.push(AvoidLine {
                    question: questions.of_group(group),
                    group: group.id.clone(),
                    factor: found.factor.clone(),
                    heading: phrase::in_code(&found.factor).to_owned(),
                    against,
                    contested: is_contested(group),
                    levels: vec![one],
                    age_ns: found.age_ns,
                }),
            }
        }
    }
    let worst = |line: &AvoidLine| line.levels.iter().map(|one| one.dearer_lower).fold(0.0, f64::max);
    for line in &mut lines {
        line.levels.sort_by(|a, b| b.dearer_lower.total_cmp(&a.dearer_lower));
    }
    // What the first lines of the screen send the reader here for stands where nothing cuts it.
    let is_first =
        |line: &AvoidLine| view.levers.iter().any(|lever| lever.group == line.group && lever.factor == line.factor);
    lines.sort_by(|a, b| is_first(b).cmp(&is_first(a)).then(worst(b).total_cmp(&worst(a))));
    lines
}

/// ` (8K)`: what a relay moved at a time by its own default, where the others moved more: that may be why it is slow.
fn buffer(view: &View, group: &GroupView, found: &AvoidView) -> String {
    let is_level = |cell: &&CellView| found.factor == "relay" && cell.factors.get("relay") == Some(&found.level);
    let buffer = |cell: &CellView| relays::own_buffer(&cell.spec());
    let own = view.cells_of(&group.id).filter(is_level).map(buffer).collect::<Option<Vec<_>>>();
    own.and_then(|own| own.first().copied())
        .map_or_else(String::new, |bytes| format!(" ({})", phrase::compact("read_size", &Level::Number(bytes.0))))
}

/// ` with read 4K and 64K`: what was confirmed of a level of which not all was; in the order of the plan, each once.
fn with(others: &[Factors]) -> String {
    let each: Vec<Spec> = others.iter().map(super::levels).collect();
    let names = || each.iter().flat_map(Spec::present).map(|(factor, _)| factor.name);
    let first = names().next();
    // What differs in one factor alone names it once.
    let only = first.filter(|first| names().all(|name| name == *first));
    let one = |levels: &Spec| {
        let named = |name: &str, level: &Level| match only {
            Some(_) => phrase::compact(name, level),
            None => format!("{} {}", phrase::in_code(name), phrase::compact(name, level)),
        };
        levels.present().map(|(factor, level)| named(factor.name, &level)).collect::<Vec<_>>().join(", ")
    };
    let mut texts: Vec<String> = each.iter().map(one).collect();
    texts.dedup();
    let name = only.map_or_else(String::new, |name| format!("{} ", phrase::in_code(name)));
    match texts.len() {
        0 => String::new(),
        many if many > WITH_MAX => format!(" with {many} of its choices"),
        _ => format!(" with {name}{}", phrase::join(&texts, "and")),
    }
}

/// What a program gains over what it has now, and whether what was advised held there.
pub fn gain(view: &View) -> Vec<String> {
    let Some(check) = &view.check else { return Vec::new() };
    let gains = check.gains.iter().map(|gain| gain.text.clone());
    gains.chain(check.advice.iter().map(|advice| format!("advice: {}", advice.text))).collect()
}

/// What limits the cells that are named, a line a limit; with the evidence where there is one alone.
pub fn why(view: &View, to_use: &UseView, questions: &Questions) -> Vec<String> {
    // Of a limit in doubt the other one belongs to its name.
    let named_by = |limit: &LimitView| (limit.name, limit.doubt.as_ref().map(|doubt| doubt.other));
    let mut limits: Vec<(&LimitView, Vec<&GroupId>)> = Vec::new();
    for row in &to_use.rows {
        // One for all readers repeats what stands with each of them.
        if row.one_for_all || row.standing == Standing::Nothing {
            continue;
        }
        let named = row.groups.iter().filter_map(|id| {
            let group = view.groups.iter().find(|group| group.id == *id)?;
            rows::shown_in_row(view, group)
        });
        for cell in named {
            match limits.iter_mut().find(|(limit, _)| named_by(limit) == named_by(&cell.limit)) {
                Some((_, groups)) => groups.push(&cell.group),
                None => limits.push((&cell.limit, vec![&cell.group])),
            }
        }
    }
    limits.sort_by_key(|(_, groups)| std::cmp::Reverse(groups.len()));
    let crowd = crowd(view);
    let name = |limit: &LimitView| match (limit.name, crowd) {
        // What others take is a limit, though no sign in the program's own numbers is.
        (UNKNOWN, Some((busy, cpus))) if limit.doubt.is_none() => {
            format!("no limit found but other programs, which used {} of {cpus} CPUs", significant(busy, 2))
        }
        _ => phrase::limit(limit.name).to_owned(),
    };
    // Without its trials, for those of several questions are not the same.
    let either = |limit: &LimitView| match &limit.doubt {
        None => name(limit),
        Some(doubt) if doubt.other == UNKNOWN => format!("perhaps {}", name(limit)),
        Some(doubt) if limit.name == UNKNOWN => format!("perhaps {}", phrase::limit(doubt.other)),
        // What most trials show comes first.
        Some(doubt) if doubt.show_other > doubt.agree => format!("{} or {}", phrase::limit(doubt.other), name(limit)),
        Some(doubt) => format!("{} or {}", name(limit), phrase::limit(doubt.other)),
    };
    match limits.as_slice() {
        [] => Vec::new(),
        [(limit, groups)] if groups.len() == 1 => {
            let name = if limit.doubt.is_some() { phrase::limit_with_doubt(limit) } else { name(limit) };
            vec![format!("{name}: {}", limit.brief)]
        }
        [(limit, groups)] => {
            let first = view.groups.iter().find(|group| group.id == *groups[0]);
            let first = first.map_or_else(String::new, |group| questions.of_group(group));
            vec![format!("{}, everywhere; {first}: {}", either(limit), limit.brief)]
        }
        several => {
            let said = |groups: &[&GroupId]| questions.names(view, groups);
            several.iter().map(|(limit, groups)| format!("{}: {}", either(limit), said(groups))).collect()
        }
    }
}

/// Settings that move more than what was asked about: one line a setting, where it moves most.
pub fn lever(view: &View, questions: &Questions) -> Vec<String> {
    let mut told: Vec<&str> = Vec::new();
    let mut said = Vec::new();
    for lever in &view.levers {
        if told.contains(&lever.factor.as_str()) || told.len() >= LEVERS_TOLD {
            continue;
        }
        told.push(&lever.factor);
        said.extend(lever_text(view, lever, questions));
    }
    said
}

fn lever_text(view: &View, lever: &LeverView, questions: &Questions) -> Option<String> {
    let group = view.groups.iter().find(|group| group.id == lever.group)?;
    let cell = view.cell(&lever.cell)?;
    let shown = |value: &serde_json::Value| {
        let level: Level = serde_json::from_value(value.clone()).unwrap_or(Level::Absent);
        phrase::level(&lever.factor, &level)
    };
    let heading = |name: &str| factor::find(name).map_or(name.to_owned(), |factor| factor.heading.to_owned());
    let others: Vec<&str> = group.varied.iter().map(String::as_str).filter(|name| *name != lever.factor).collect();
    let what = match group.varied.contains(&lever.factor) {
        _ if others.iter().any(|name| name.ends_with("_size")) => "buffers".to_owned(),
        true => others.into_iter().map(heading).collect::<Vec<_>>().join(" and "),
        false => "what was compared".to_owned(),
    };
    let name = match lever.factor.as_str() {
        "placement" => "placement".to_owned(),
        "transport" => "the transport".to_owned(),
        // Whoever sends sets it.
        "congestion" if group.factors.get("role").is_some_and(|who| who == "reader") => {
            "the peer's congestion control".to_owned()
        }
        "congestion" => "congestion control".to_owned(),
        "write_size" if group.factors.contains_key("write_size") => "the size of the peer's writes".to_owned(),
        "read_size" if group.factors.contains_key("read_size") => "the size of the peer's reads".to_owned(),
        other => heading(other),
    };
    let of_cpu = group.cost.starts_with("cpu_");
    // Where a rate is offered all reach it.
    let rate = cell.estimate.median.filter(|_| !of_cpu).map(|rate| {
        let (divisor, unit) = phrase::rate_unit(cell.estimate.unit, rate);
        format!(" reaches {} {unit},", significant(rate / divisor, 3))
    });
    let name = if of_cpu { format!("for CPU time {name}") } else { name };
    // What the rows below say with a bound of their own is not said with another one here.
    if group.avoid.iter().any(|found| found.factor == lever.factor && found.level == lever.from) {
        let (to, from, question) = (shown(&lever.to), shown(&lever.from), questions.of_group(group));
        let reaches = rate.map_or_else(String::new, |rate| rate.trim_end_matches(',').to_owned());
        return Some(format!("{name} matters more than {what} here: {to}{reaches} ({question}); {from}: see AVOID"));
    }
    let least = significant_down(lever.times_lower, 2);
    let range = match lever.times_upper {
        Some(upper) => format!("{least} to {} ×", significant_up(upper, 2)),
        None => format!("at least {least} ×"),
    };
    if of_cpu {
        let (to, from, question) = (shown(&lever.to), shown(&lever.from), questions.of_group(group));
        return Some(format!("{name} matters more than {what} here: {from} takes {range} that of {to} ({question})"));
    }
    Some(format!(
        "{name} matters more than {what} here: {}{} {range} {} ({})",
        shown(&lever.to),
        rate.unwrap_or_default(),
        shown(&lever.from),
        questions.of_group(group)
    ))
}

/// What relays are worth, where there are any: the question, and the lines of its group; then what each of them holds.
pub fn relays(view: &View, questions: &Questions) -> Vec<String> {
    let alone = view.groups.len() == 1;
    let told = |group: &GroupView| {
        let lines = relays::lines(view, group);
        let label = if alone { String::new() } else { format!("{}: ", questions.of_group(group)) };
        (!lines.is_empty()).then(|| label + &lines.join("; "))
    };
    view.groups.iter().filter_map(told).chain(relays::held(view)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_level_was_confirmed_with_names_a_factor_once() {
        let of = |pairs: &[(&str, u64)]| -> Factors {
            pairs.iter().map(|(name, number)| ((*name).to_owned(), json!(number))).collect()
        };
        let reads: Vec<Factors> = [4096, 65_536, 1_048_576].map(|size| of(&[("read_size", size)])).into();
        assert_eq!(with(&[]), "");
        assert_eq!(with(&reads[..1]), " with read 4K");
        assert_eq!(with(&reads), " with read 4K, 64K and 1M");
        let both =
            [of(&[("read_size", 4096), ("write_size", 1024)]), of(&[("read_size", 65_536), ("write_size", 1024)])];
        assert_eq!(with(&both), " with read 4K, write 1K and read 64K, write 1K");
        assert_eq!(with(&[&reads[..], &both[..1]].concat()), " with 4 of its choices");
    }
}
