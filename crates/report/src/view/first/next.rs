//! What to do next, and the commands that show the rest: each command one line that can be copied.

use bytegauge_model::forecast::{audit_after_ns, forecast};
use bytegauge_model::{CellKind, SessionStatus};
use bytegauge_stats::serial::MIN_BLOCKS;

use super::super::document::{CellView, GroupView, LookView, Standing, UseRow, UseView, View};
use super::{audit, crowd};
use crate::outward::at_most;
use crate::sentence::{FORECAST_MAX_S, budget, excludes_nothing, likely_bound};

/// So many times as long is a new session, which brings half of the bounds.
const LONGER: f64 = 4.0;

/// Said of a session that is being measured.
pub const GOES_ON: &str = "the session goes on; nothing is proven before the moment at which it is judged";

/// What to do next: a command, where there is one, and what it may bring. A copy of a session goes on where it was begun,
/// and not here.
pub fn next(view: &View, to_use: &UseView, imported: bool) -> Vec<String> {
    match view.status {
        SessionStatus::Running => return vec![GOES_ON.into()],
        SessionStatus::Incomplete if imported => {
            return vec!["it was interrupted where it was measured, and goes on only there".into()];
        }
        SessionStatus::Incomplete => {
            let asked = view.plan.asked.iter().flatten().map(String::as_str).take_while(|word| *word != "--");
            let until: Vec<&str> = asked.skip_while(|word| *word != "--until").take(2).collect();
            let command = [resume(view)].into_iter().chain(until.into_iter().map(str::to_owned));
            let command = command.collect::<Vec<_>>().join(" ");
            let time = blocks_ns(view, |look| look.next_blocks).filter(|ns| *ns > 0).map(forecast);
            let time = time.map_or_else(String::new, |time| format!(", about {time} more at this pace"));
            let goes_on = format!("goes on where it stopped{time}; until then nothing more is proven");
            let doctor = crowd(view)
                .map(|_| ["bytegauge doctor", "names the other programs, which had better rest first; then:"]);
            let doctor = doctor.into_iter().flatten().map(str::to_owned);
            return doctor.chain([command, goes_on]).collect();
        }
        SessionStatus::Complete | SessionStatus::Imported => {}
    }
    if let Some(check) = view.check.as_ref().filter(|check| check.default.is_none()) {
        return vec![format!(
            "say what {} has now, and it is told what is gained over it: --default VALUE",
            check.program
        )];
    }
    if view.status == SessionStatus::Imported {
        let command = match view.plan.workload.as_str() {
            "call" => "bytegauge run receive-buffer",
            "ring" => "bytegauge run ring-nop",
            "check" => "bytegauge check --help",
            _ => "bytegauge run buffer-size",
        };
        return vec![command.into(), "measures here".into()];
    }
    if !view.cells.iter().any(|cell| cell.outcome == "measured" && cell.kind == CellKind::Candidate) {
        let once = "runs it again, once what is said above is mended";
        return again_with(view, None).into_iter().chain([once.to_owned()]).collect();
    }
    let asked: Vec<&GroupView> = view.groups.iter().filter(|group| !group.varied.is_empty()).collect();
    if asked.is_empty() {
        return vec![
            format!("bytegauge {} --help", view.plan.workload),
            "names what can be compared: give one of it two levels or more".into(),
        ];
    }
    let is_compared = |group: &&GroupView| {
        let of_it = |cell: &&CellView| cell.kind == CellKind::Candidate && cell.trials > 0;
        view.cells_of(&group.id).filter(of_it).count() > 1
    };
    let compared: Vec<&GroupView> = asked.into_iter().filter(is_compared).collect();
    if compared.is_empty() {
        return vec!["name another choice that this machine has, or see bytegauge doctor for what it lacks".into()];
    }
    let open: Vec<&GroupView> = compared.iter().copied().filter(|group| !group.recommendation.proven).collect();
    if open.is_empty() {
        let readers = to_use.rows.iter().any(|row| row.standing == Standing::Open && row.one_for_all);
        if readers {
            return vec!["say which of the readers is yours: --profile NAME, or take the one for all".to_owned()];
        }
        let again = "the same once more in another hour tells whether it lasts";
        return again_with(view, None).into_iter().chain([again.to_owned()]).collect();
    }
    if let (Some(_), None) = (crowd(view), &view.check) {
        let says = "what disturbs: measure again while other programs rest";
        let doctor = "bytegauge doctor".to_owned();
        // Those of others cannot be ended.
        return match rest_of_looks(view, to_use, &open) {
            None if open.iter().all(|group| group.blocks.used < MIN_BLOCKS) => {
                let says = format!("{says}, and longer: so few blocks bound nothing");
                [doctor, says].into_iter().chain(longer(view, to_use, &open).into_iter().flatten().take(1)).collect()
            }
            None => {
                let says = format!("{says}, which helps more than time does");
                [doctor, says].into_iter().chain(again_with(view, None)).collect()
            }
            Some([command, may]) => vec![doctor, format!("{says}; if they cannot:"), command, may],
        };
    }
    longer(view, to_use, &open).unwrap_or_else(|| {
        let less = match view.check {
            Some(_) => "less at once (fewer --values), or give a run more to do",
            None => "less at once (one --transport, one --placement, fewer levels)",
        };
        let is_bounded = |group: &&GroupView| group.recommendation.bound.is_some_and(|bound| !excludes_nothing(bound));
        let take = if open.iter().all(is_bounded) { "take the choice with its bound, or " } else { "" };
        vec![format!("more time alone hardly pays: {take}ask {less}")]
    })
}

/// How long the blocks of the looks that are left take, with their audits, nanoseconds; `None` where none is left. By the
/// blocks that were measured, as the progress of a session that goes on forecasts them.
pub fn rest_ns(view: &View) -> Option<u64> {
    blocks_ns(view, LookView::left_until)
}

/// The same of the blocks until another moment.
fn blocks_ns(view: &View, until: impl Fn(&LookView) -> Option<usize>) -> Option<u64> {
    let had = |group: &GroupView, look: &LookView| (group.blocks.used + look.so_far).max(1) as f64;
    let left = view.groups.iter().filter_map(|group| {
        let look = group.look.as_ref()?;
        Some((group, had(group, look), until(look)? as f64))
    });
    let left: Vec<_> = left.collect();
    let factor = left.iter().map(|(_, had, last)| last / had).reduce(f64::max)?;
    let of_group =
        |(group, had, last): &(&GroupView, f64, f64)| Some((last - had).max(0.0) as u64 * group.blocks.mean_ns?);
    let blocks_ns: u64 = left.iter().filter_map(of_group).fold(0, u64::saturating_add);
    let share = view.plan.audit_share.filter(|_| view.groups.iter().any(audit::is_audited)).unwrap_or(0.0);
    // Without the lengths of blocks there is still that of the session.
    let by_session = || view.elapsed_ns.map(|ns| (ns as f64 * (factor - 1.0)) as u64);
    if blocks_ns > 0 { Some(blocks_ns.saturating_add(audit_after_ns(share, blocks_ns))) } else { by_session() }
}

/// The command for the looks that are left, how long they take, and what they likely bring; `None` where none is left here,
/// or where nothing that is open gains by them.
fn rest_of_looks(view: &View, to_use: &UseView, open: &[&GroupView]) -> Option<[String; 2]> {
    let gains: Vec<&GroupView> =
        open.iter().copied().filter(|group| group.recommendation.more_blocks.is_some()).collect();
    if gains.is_empty() {
        return None;
    }
    // The bounds of the rows above, for those are what is read.
    let of_row = |row: &UseRow| {
        let own = gains.iter().filter(|group| row.groups.contains(&group.id)).map(|group| &group.recommendation);
        let shrinks = own.filter_map(|own| Some(own.likely_bound? / own.bound?)).reduce(f64::max)?;
        Some((row.within?, row.within? * shrinks))
    };
    let bounds: Vec<(f64, f64)> = to_use.rows.iter().filter(|row| !row.one_for_all).filter_map(of_row).collect();
    let what = brings(&bounds).unwrap_or_else(|| "may bring a bound that is an answer".to_owned());
    // A command that names a proof is not to be taken for the promise of one.
    let is_wide = !bounds.is_empty() && bounds.iter().all(|(_, then)| *then > view.plan.margin);
    let what = if is_wide { format!("{what}, so hardly a proof") } else { what };
    let time = forecast(rest_ns(view)?);
    Some([
        format!("{} --until conclusive", resume(view)),
        format!("up to about {time} more at this pace; if the noise stays, {what}"),
    ])
}

/// `likely brings bounds of 9.3–46 % to 4.6–23 %`, of bounds as they are and as they are forecast; `None` of none.
fn brings(bounds: &[(f64, f64)]) -> Option<String> {
    let span = |bounds: &mut dyn Iterator<Item = f64>| {
        let (low, high) = bounds.fold((f64::INFINITY, 0.0), |(low, high), bound| (bound.min(low), bound.max(high)));
        let [low, high] = [low, high].map(at_most);
        if low == high { high } else { format!("{}–{high}", low.trim_end_matches(" %")) }
    };
    let (now, then) = (span(&mut bounds.iter().map(|both| both.0)), span(&mut bounds.iter().map(|both| both.1)));
    let subject = if bounds.len() == 1 { "the bound" } else { "bounds" };
    (!bounds.is_empty()).then(|| format!("likely brings {subject} of {now} to {then}"))
}

/// The looks that are left; else a longer session, which begins anew.
fn longer(view: &View, to_use: &UseView, open: &[&GroupView]) -> Option<Vec<String>> {
    if let Some(steps) = rest_of_looks(view, to_use, open) {
        return Some(steps.to_vec());
    }
    let own_s = view.plan.budget_ns.or(view.elapsed_ns)? as f64 / 1e9;
    let bounds = open.iter().filter_map(|group| group.recommendation.bound).filter(|bound| !excludes_nothing(*bound));
    let bounds: Vec<(f64, f64)> = bounds.map(|bound| (bound, likely_bound(bound, 1.0, LONGER))).collect();
    let is_short = open.iter().any(|group| group.blocks.used < MIN_BLOCKS);
    if own_s * LONGER > FORECAST_MAX_S || (bounds.is_empty() && !is_short) {
        return None;
    }
    let what = brings(&bounds).unwrap_or_else(|| "may bring a bound that is an answer".to_owned());
    let budget = budget(own_s * LONGER);
    let command = again_with(view, Some(&budget));
    let how = command.unwrap_or_else(|| format!("the command that you gave, with --time {budget}"));
    Some(vec![how, format!("a new session, which takes nothing over from this one; {what}")])
}

/// The command that goes on with a session. It needs no flags: what is asked stands in the store.
pub fn resume(view: &View) -> String {
    let plan = view.plan.asked.as_deref().and_then(|asked| match asked {
        [run, plan, ..] if run == "run" && !plan.starts_with('-') && !plan.contains(['/', '.']) => Some(plan),
        _ => None,
    });
    match plan {
        _ if view.versus.is_some() => format!("bytegauge ab --resume {}", view.session),
        Some(plan) => format!("bytegauge run {plan} --resume {}", view.session),
        None => {
            // `relay` is a command of its own, which asks a stream or calls; a plan in a file is named by its session alone.
            let asked = view.plan.asked.as_ref().and_then(|asked| asked.first());
            // A part of a survey was asked by no words of its own; `run` takes any.
            let command = asked.map_or("run", String::as_str);
            format!("bytegauge {command} --resume {}", view.session)
        }
    }
}

/// The command that asks the same in a new session, with another budget where one is given; `None` where it is not known.
pub fn again_with(view: &View, budget: Option<&str>) -> Option<String> {
    let asked = view.plan.asked.as_deref()?;
    // What stands behind -- is the command of a program.
    let flags = asked.iter().position(|word| word == "--").unwrap_or(asked.len());
    let (own, program) = asked.split_at(flags);
    let mut words: Vec<&str> = vec!["bytegauge"];
    let mut skip = false;
    for word in own {
        let is_replaced = budget.is_some() && (word == "--time" || word.starts_with("--time="));
        if !std::mem::take(&mut skip) && !is_replaced {
            words.push(word);
        }
        skip |= is_replaced && word == "--time";
    }
    words.extend(budget.iter().flat_map(|budget| ["--time", *budget]));
    words.extend(program.iter().map(String::as_str));
    Some(words.into_iter().map(quoted).collect::<Vec<_>>().join(" "))
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_./:,=@%+-".contains(&byte);
    match !word.is_empty() && word.bytes().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// Commands that show the rest, each by itself.
pub fn more(view: &View) -> Vec<String> {
    let group = view.groups.first().map(|group| format!("--group {}", group.id));
    let shown = [Some("--full".to_owned()), group, Some("--html p.html".into()), Some("--format json".into())];
    shown.into_iter().flatten().map(|flag| format!("bytegauge report {} {flag}", view.session)).collect()
}
