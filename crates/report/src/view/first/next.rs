//! What to do next, and the commands that show the rest: each command one line that can be copied.

use bytegauge_model::{CellKind, SessionStatus};
use bytegauge_stats::serial::MIN_BLOCKS;

use super::super::document::{GroupView, LookView, Standing, UseRow, UseView, View};
use super::crowd;
use crate::outward::at_most;
use crate::sentence::{FORECAST_MAX_S, budget, excludes_nothing, forecast};

/// How much longer a new session is worth a try.
const LONGER: f64 = 4.0;
/// What a forecast may fall short by.
const SPARE: f64 = 1.25;

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
            return vec![command, "goes on where it stopped; until then nothing more is proven".into()];
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
    let asked: Vec<&GroupView> = view.groups.iter().filter(|group| !group.varied.is_empty()).collect();
    if asked.is_empty() {
        return vec![
            format!("bytegauge {} --help", view.plan.workload),
            "names what can be compared: give one of it two levels or more".into(),
        ];
    }
    if !view.cells.iter().any(|cell| cell.outcome == "measured" && cell.kind == CellKind::Candidate) {
        let once = "runs it again, once what is said above is mended";
        return again_with(view, None).into_iter().chain([once.to_owned()]).collect();
    }
    let open: Vec<&GroupView> = asked.iter().copied().filter(|group| !group.recommendation.proven).collect();
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
        return match rest_of_looks(view, to_use, &open, imported) {
            None if open.iter().all(|group| group.blocks.used < MIN_BLOCKS) => {
                let says = format!("{says}, and longer: so few blocks bound nothing");
                [doctor, says]
                    .into_iter()
                    .chain(longer(view, to_use, &open, imported).into_iter().flatten().take(1))
                    .collect()
            }
            None => {
                let says = format!("{says}, which helps more than time does");
                [doctor, says].into_iter().chain(again_with(view, None)).collect()
            }
            Some([command, may]) => vec![doctor, format!("{says}; if they cannot:"), command, may],
        };
    }
    longer(view, to_use, &open, imported).unwrap_or_else(|| {
        let less = match view.check {
            Some(_) => "less at once (fewer --values), or give a run more to do",
            None => "less at once (one --transport, one --placement, fewer levels)",
        };
        let forecasts = open.iter().filter_map(|group| group.recommendation.more_seconds);
        let soonest = forecasts.filter(|seconds| *seconds <= FORECAST_MAX_S).reduce(f64::min);
        let more = match soonest {
            Some(seconds) => format!(
                "more time hardly pays: to prove {} may take {} more",
                if open.len() == 1 { "it" } else { "one of them" },
                forecast(seconds)
            ),
            None => "more time alone would hardly prove more".to_owned(),
        };
        let is_bounded = |group: &&GroupView| group.recommendation.bound.is_some_and(|bound| !excludes_nothing(bound));
        let take = if open.iter().all(is_bounded) { "take the choice with its bound, or " } else { "" };
        vec![format!("{more}: {take}ask {less}")]
    })
}

/// How many of the open groups are settled by so many times as many blocks, as far as can be told.
fn within(open: &[&GroupView], factor: f64) -> usize {
    times(open).filter(|times| *times <= factor).count()
}

/// So many times as many blocks settle each of the open groups of which it can be told. Every group gets blocks in
/// proportion.
fn times<'a>(open: &'a [&GroupView]) -> impl Iterator<Item = f64> + 'a {
    open.iter().filter_map(|group| {
        let more = group.recommendation.more_blocks? as f64;
        Some((had(group) + more) / had(group))
    })
}

/// The blocks that a group has had, judged or not.
fn had(group: &GroupView) -> f64 {
    let waiting = group.look.as_ref().map_or(0, |look| look.so_far);
    (group.blocks.used + waiting).max(1) as f64
}

/// How long the blocks of the looks that are left take, with their audits, seconds.
fn rest_s(view: &View) -> f64 {
    let of_group = |group: &GroupView| {
        let left = group.look.as_ref()?.left_until()? as f64 - had(group);
        Some(left.max(0.0) * group.blocks.mean_ns? as f64 / 1e9)
    };
    let blocks_s: f64 = view.groups.iter().filter_map(of_group).sum();
    blocks_s * (1.0 + view.plan.audit_share.unwrap_or(0.0))
}

/// So many times as many blocks the looks that are left end with; `None` where none is left.
fn blocks_left(open: &[&GroupView]) -> Option<f64> {
    open.iter().filter_map(|group| looks_left(group)).reduce(f64::max)
}

/// The command for the looks that are left, how long they take, and what they may bring; `None` where none is left here.
fn rest_of_looks(view: &View, to_use: &UseView, open: &[&GroupView], imported: bool) -> Option<[String; 2]> {
    let factor = blocks_left(open).filter(|_| !imported)?;
    // Without the lengths of blocks there is still that of the session.
    let rest_s = Some(rest_s(view)).filter(|seconds| *seconds > 0.0);
    let rest_s = rest_s.or_else(|| Some(view.elapsed_ns? as f64 / 1e9 * (factor - 1.0)))?;
    let what = match narrowed(view, to_use) {
        Some(bounds) => format!("likely brings {bounds}"),
        None if open.len() == 1 => "may give the open one a first bound".to_owned(),
        None => "may give the open ones first bounds".to_owned(),
    };
    Some([format!("{} --until proven", resume(view)), format!("at most about {}; {what}", forecast(rest_s))])
}

/// The bounds of the open answers now and after the looks that are left, which narrow them by the root of the blocks; `None`
/// where none has a bound. No proof is promised (docs/statistics.md, "What more time brings").
fn narrowed(view: &View, to_use: &UseView) -> Option<String> {
    let of_row = |row: &UseRow| {
        let groups = row.groups.iter().filter_map(|id| view.groups.iter().find(|group| group.id == *id));
        let times = groups.map(|group| {
            let left = group.look.as_ref().and_then(LookView::left_until);
            left.map_or(1.0, |left| (left as f64 / group.blocks.used.max(1) as f64).max(1.0))
        });
        let now = row.within?;
        Some((now, now / times.reduce(f64::min)?.sqrt()))
    };
    let open = to_use.rows.iter().filter(|row| row.standing == Standing::Open && !row.one_for_all);
    let (now, then): (Vec<f64>, Vec<f64>) = open.filter_map(of_row).unzip();
    let range = |bounds: &[f64]| {
        let [least, most] = [f64::min, f64::max].map(|end| bounds.iter().copied().reduce(end).map(at_most));
        let (least, most) = least.zip(most)?;
        Some(if least == most { most } else { format!("{}–{most}", least.trim_end_matches(" %")) })
    };
    let several = if now.len() == 1 { "the bound of" } else { "bounds of" };
    Some(format!("{several} {} to {}", range(&now)?, range(&then)?))
}

/// The looks that are left, where they may prove something; else a longer session, of which nothing is known yet.
fn longer(view: &View, to_use: &UseView, open: &[&GroupView], imported: bool) -> Option<Vec<String>> {
    let elapsed_s = view.elapsed_ns? as f64 / 1e9;
    if blocks_left(open).is_some_and(|factor| within(open, factor) > 0)
        && let Some(steps) = rest_of_looks(view, to_use, open, imported)
    {
        return Some(steps.to_vec());
    }
    // Long enough for what this session forecasts of the one that is settled soonest, and a little more.
    let soonest = times(open).reduce(f64::min).map_or(0.0, |times| elapsed_s * times * SPARE);
    let budget_s = (view.plan.budget_ns.map_or(elapsed_s, |ns| ns as f64 / 1e9) * LONGER).max(soonest);
    if within(open, 2.0 * LONGER) == 0 || budget_s > FORECAST_MAX_S {
        return None;
    }
    let judged = match blocks_left(open) {
        Some(_) => "what is left of this session would not settle it",
        None => "this session was judged as often as its 95 % allow",
    };
    let anew = format!("{judged}; a new one takes no proof over from it, and may or may not prove more");
    let command = again_with(view, Some(&budget(budget_s)));
    let how = command.unwrap_or_else(|| format!("the command that you gave, with --budget {}", budget(budget_s)));
    Some(vec![how, anew])
}

/// How many times as many blocks as now a group has after the last of its looks.
fn looks_left(group: &GroupView) -> Option<f64> {
    Some(group.look.as_ref()?.left_until()? as f64 / had(group))
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
            let command = asked.map_or(view.plan.workload.as_str(), String::as_str);
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
        let is_replaced = budget.is_some() && (word == "--budget" || word.starts_with("--budget="));
        if !std::mem::take(&mut skip) && !is_replaced {
            words.push(word);
        }
        skip |= is_replaced && word == "--budget";
    }
    words.extend(budget.iter().flat_map(|budget| ["--budget", *budget]));
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
