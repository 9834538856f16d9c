//! What stands below the table of what to use: what to avoid, what limits, how far it holds, what disturbed, and what to
//! do next.

use bytegauge_model::unit::{counted, significant};
use bytegauge_model::{CellId, CellKind, Level, Levels, Nanos, SessionStatus, Stage, factor};

use super::super::document::{
    AuditView, AvoidLevel, AvoidLine, CellView, GroupView, LeverView, Standing, UseView, View,
};
use super::super::relays;
use super::super::stolen::TOLD_P;
use super::{Questions, levels};
use crate::phrase;
use crate::sentence::{budget, percent};

/// Of more questions than this only the number is said with a limit.
const LIMITS_NAMED: usize = 8;
/// Other programs that took less than this, in CPUs, are not worth a line.
const FOREIGN_TOLD: f64 = 0.05;
/// The harness's cost above which it is said; the aim is 1 % of the fastest real call.
const FLOOR_AIM: f64 = 0.01;
/// Settings that are told before the answer.
const LEVERS_TOLD: usize = 2;
/// Trials of this length need no audit, nanoseconds.
const LONG_NS: u64 = 250_000_000;
/// Runs shorter than this measure a good deal of starting, nanoseconds.
const RUN_SHORT_NS: f64 = 20e6;
/// Budgets that are offered, as multiples of the one that was given.
const LONGER: [f64; 3] = [2.0, 4.0, 8.0];
/// A forecast this far beyond what was measured is no plan.
const FORECAST_MAX_S: f64 = 3600.0;

/// Levels that are shown to be worse, the worst question first.
pub fn avoid(view: &View, questions: &Questions) -> Vec<AvoidLine> {
    let mut lines: Vec<AvoidLine> = Vec::new();
    for group in &view.groups {
        for found in &group.avoid {
            let shown = |value: &serde_json::Value| {
                let level: Level = serde_json::from_value(value.clone()).unwrap_or(Level::Absent);
                factor::find(&found.factor).map_or_else(|| level.to_string(), |factor| factor.kind.compact(&level))
            };
            let one = AvoidLevel {
                level: shown(&found.level),
                dearer_lower: found.dearer_lower,
                dearer_upper: found.dearer_upper,
            };
            match lines.iter_mut().find(|line| line.group == group.id && line.factor == found.factor) {
                Some(line) => line.levels.push(one),
                None => lines.push(AvoidLine {
                    question: questions.of_group(group),
                    group: group.id.clone(),
                    factor: found.factor.clone(),
                    heading: phrase::in_code(&found.factor).to_owned(),
                    against: shown(&found.against),
                    levels: vec![one],
                }),
            }
        }
    }
    let worst = |line: &AvoidLine| line.levels.iter().map(|one| one.dearer_lower).fold(0.0, f64::max);
    for line in &mut lines {
        line.levels.sort_by(|a, b| a.dearer_lower.total_cmp(&b.dearer_lower));
    }
    lines.sort_by(|a, b| worst(b).total_cmp(&worst(a)));
    lines
}

/// What a program gains over what it has now, and whether what was advised held there.
pub fn gain(view: &View) -> Vec<String> {
    let Some(check) = &view.check else { return Vec::new() };
    let gains = check.gains.iter().map(|gain| gain.text.clone());
    gains.chain(check.advice.iter().map(|advice| format!("advice: {}", advice.text))).collect()
}

/// What limits the cells that are named, a line a limit; with the evidence where there is one alone.
pub fn why(view: &View, to_use: &UseView) -> Vec<String> {
    let mut limits: Vec<(&'static str, Vec<String>, &str)> = Vec::new();
    for row in &to_use.rows {
        // One for all readers repeats what stands with each of them.
        if row.one_for_all || row.standing == Standing::Nothing {
            continue;
        }
        let named = row.groups.iter().filter_map(|id| {
            let group = view.groups.iter().find(|group| group.id == *id)?;
            let cell = group.recommendation.cell.as_ref().and_then(|id| view.cell(id));
            cell.or_else(|| view.cells_of(&group.id).find(|cell| cell.kind == CellKind::Candidate))
        });
        for cell in named {
            let label = [row.question.as_str(), row.who.as_str()].map(str::trim);
            let label = label.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ");
            match limits.iter_mut().find(|(name, ..)| *name == cell.limit.name) {
                Some((_, labels, _)) if labels.contains(&label) => {}
                Some((_, labels, _)) => labels.push(label),
                None => limits.push((cell.limit.name, vec![label], &cell.limit.sentence)),
            }
        }
    }
    limits.sort_by_key(|(_, labels, _)| std::cmp::Reverse(labels.len()));
    let all: usize = limits.iter().map(|(_, labels, _)| labels.len()).sum();
    let said = |labels: &[String]| match labels.len() {
        _ if all <= LIMITS_NAMED => labels.join("; "),
        1 => labels.join("; "),
        many => format!("{many} of the {all} questions"),
    };
    let name = |name: &str| if name == "unknown" { "no limit was found".to_owned() } else { name.to_owned() };
    match limits.as_slice() {
        [] => Vec::new(),
        [(limit, labels, sentence)] if labels.len() == 1 => vec![format!("{}: {sentence}", name(limit))],
        [(limit, ..)] => vec![format!("{}, everywhere", name(limit))],
        several => several.iter().map(|(limit, labels, _)| format!("{}: {}", name(limit), said(labels))).collect(),
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
        "congestion" => "congestion control".to_owned(),
        "write_size" if group.factors.contains_key("write_size") => "the size of the peer's writes".to_owned(),
        "read_size" if group.factors.contains_key("read_size") => "the size of the peer's reads".to_owned(),
        other => heading(other),
    };
    let rate = cell.estimate.median.map(|rate| {
        let (divisor, unit) = phrase::rate_unit(cell.estimate.unit, rate);
        format!(" reaches {} {unit},", significant(rate / divisor, 3))
    });
    let times = |times: f64| significant(times, 2);
    let range = match lever.times_upper {
        Some(upper) => format!("{} to {} ×", times(lever.times_lower), times(upper)),
        None => format!("at least {} ×", times(lever.times_lower)),
    };
    Some(format!(
        "{name} matters more than {what} here: {}{} {range} {} ({})",
        shown(&lever.to),
        rate.unwrap_or_default(),
        shown(&lever.from),
        questions.of_group(group)
    ))
}

/// What trials far longer than those of the confirmation say of the answers.
pub fn audit(view: &View, questions: &Questions) -> Vec<String> {
    let Some(all) = view.audit else { return Vec::new() };
    let long = Nanos(all.window_ns / 1_000_000 * 1_000_000);
    let audited = || view.groups.iter().filter_map(|group| Some((group, group.audit.as_ref()?)));
    let label = |id: &CellId| view.cell(id).map_or_else(|| id.to_string(), |cell| cell.label.clone());
    let split = |(group, audit): (&GroupView, &AuditView)| {
        let better = audit.better.as_ref()?;
        let rival = audit.rivals.iter().find(|rival| rival.cell == *better)?;
        Some(format!(
            "{}: short-lived connections: {}; long-lived: {}, {} cheaper in trials of {long}",
            questions.of_group(group),
            label(&audit.choice),
            label(better),
            range(cheaper(rival.dearer_lower?), cheaper(rival.dearer_upper?))
        ))
    };
    let mut said: Vec<String> = audited().filter_map(split).collect();
    said.extend(held(view, questions, &audited().collect::<Vec<_>>(), long));
    let open = all.questions - all.hold - all.contradicted;
    if open > 0 {
        let questions = counted(open, "question");
        said.push(format!("trials of {long} are too few to tell for {questions} alone"));
    }
    if let (Some(lower), Some(upper), 3..) = (all.dearer_lower, all.dearer_upper, all.questions) {
        let finding = if all.finding == "contradicts" { "do not trust the choices there: " } else { "" };
        let of = |share: f64| match share {
            share if share < 0.0 => format!("{} cheaper", percent(cheaper(share).abs())),
            share => format!("{} dearer", percent(share)),
        };
        let (lower, upper, all) = (of(lower), of(upper), all.questions);
        said.push(format!("{finding}over all {all} together the choices were {lower} to {upper} than the runner-up"));
    }
    said
}

/// Where long trials show the choice within the margin of its rivals.
fn held(view: &View, questions: &Questions, audited: &[(&GroupView, &AuditView)], long: Nanos) -> Option<String> {
    let held: Vec<_> = audited.iter().filter(|(_, audit)| audit.finding == "holds").collect();
    let (group, _) = held.first()?;
    let who = match held.len() {
        n if n == view.groups.len() => String::new(),
        1 => format!(" for {}", questions.of_group(group)),
        n => format!(" for {}", counted(n, "question")),
    };
    let bound = held.iter().filter_map(|(_, audit)| audit.bound).fold(0.0, f64::max);
    Some(format!("held in trials of {long}{who}: at most {} dearer than its rivals", percent(bound)))
}

/// By so much less a rival costs where the choice costs so much more.
fn cheaper(dearer: f64) -> f64 {
    dearer / (1.0 + dearer)
}

/// `12 to 40 %`, `-3 to 7 %`.
fn range(lower: f64, upper: f64) -> String {
    let whole = |share: f64| significant((share * 100.0).round(), 3);
    format!("{} to {} %", whole(lower), whole(upper))
}

/// What relays are worth, where there are any: the question, and the lines of its group.
pub fn relays(view: &View, questions: &Questions) -> Vec<String> {
    let alone = view.groups.len() == 1;
    let told = |group: &GroupView| {
        let lines = relays::lines(view, group);
        let label = if alone { String::new() } else { format!("{}: ", questions.of_group(group)) };
        (!lines.is_empty()).then(|| label + &lines.join("; "))
    };
    view.groups.iter().filter_map(told).collect()
}

/// What the answer holds for, and what was not looked at.
pub fn holds(view: &View, questions: &Questions) -> Vec<String> {
    let mut said = vec![scope(view)];
    let everywhere: Vec<String> = view.verdicts.first().map_or_else(Vec::new, |verdict| {
        let conditions = levels(&verdict.factors);
        let common =
            conditions.present().filter(|(factor, _)| !questions.varying.iter().any(|name| name == factor.name));
        common.filter_map(|(factor, _)| phrase::condition(factor.name, &conditions)).collect()
    });
    if !everywhere.is_empty() {
        said.push(format!("asked: {}", everywhere.join(", ")));
    }
    let compared = view.cells.iter().filter(|cell| cell.kind == CellKind::Candidate && cell.outcome == "measured");
    let screened = compared.clone().filter(|cell| cell.stage != Some(Stage::Confirm)).count();
    let all = compared.count();
    if screened > 0 && screened < all {
        said.push(format!(
            "“best” is the best of the {} confirmed; {screened} others were only screened",
            all - screened
        ));
    }
    if !view.groups.is_empty() && view.groups.iter().all(|group| group.throws_away) {
        said.push(match view.plan.workload.as_str() {
            "call" => {
                "the server does nothing with a request: one that works shifts this (--profile rpc,many-idle)".into()
            }
            _ => "the reader throws the bytes away: one that works shifts this (--profile sum,parser)".to_owned(),
        });
    }
    let not_asked = not_asked(view);
    if !not_asked.is_empty() {
        said.push(format!("not asked: {}", not_asked.join(", ")));
    }
    said
}

/// What a program may well have otherwise, and the plan did not look at.
fn not_asked(view: &View) -> Vec<String> {
    let mut said: Vec<String> = not_audited(view).into_iter().collect();
    let groups: Vec<Levels> = view.groups.iter().map(|group| levels(&group.factors)).collect();
    let is_tcp = |levels: &Levels| levels.transport().is_some_and(|transport| transport.is_tcp());
    if groups.iter().any(is_tcp) && !view.plan.varied.iter().any(|name| name == "congestion") {
        let set = view.environment.facts.get("network").and_then(|network| network.get("congestion_control")?.as_str());
        let set = set.map_or_else(String::new, |name| format!(" ({name})"));
        said.push(format!("congestion control{set}, which may matter more (--congestion)"));
    }
    let pinned = |levels: &Levels| levels.get("placement").name().is_some_and(|name| name != "unpinned");
    if !groups.is_empty() && groups.iter().all(pinned) {
        said.push("unpinned ends (--placement)".into());
    }
    if view.plan.ends.as_deref() == Some("threads")
        && groups.iter().any(|levels| *levels.get("placement") != Level::Absent && levels.workload().has_path())
    {
        said.push("processes (--ends)".into());
    }
    let candidates = view.cells.iter().filter(|cell| cell.kind == CellKind::Candidate);
    let smallest = candidates.filter_map(|cell| cell.level("write_size").number()).min();
    if let Some(size) = smallest.filter(|size| *size > 1 && view.plan.varied.iter().any(|name| name == "write_size")) {
        said.push(format!("writes below {}", phrase::level("write_size", &Level::Number(size))));
    }
    if let Some("buffer-size") = (!said.is_empty()).then_some(view.plan.name.as_str()) {
        said.push("most pairs of sizes, other readers (--full-grid)".into());
    }
    said
}

/// Connections that live longer than any that was measured.
fn not_audited(view: &View) -> Option<String> {
    let compares =
        view.groups.iter().any(|group| group.best_set.len() + group.undecided.len() > 1 && group.twin.is_some());
    let oldest = view.groups.iter().filter_map(|group| group.age_ns).map(|(_, to)| to).max()?;
    if view.audit.is_some() || !compares || oldest >= LONG_NS || view.status != SessionStatus::Complete {
        return None;
    }
    let why = match view.plan.audit_share {
        Some(share) if share > 0.0 => " (no time)",
        _ => "",
    };
    Some(format!("connections older than {}{why}", Nanos(oldest / 1_000_000 * 1_000_000)))
}

fn scope(view: &View) -> String {
    let ages = view.groups.iter().filter_map(|group| group.age_ns);
    let age = ages.reduce(|all, one| (all.0.min(one.0), all.1.max(one.1)));
    let seconds = view.elapsed_ns.map(|ns| format!("these {} s", significant(ns as f64 / 1e9, 2)));
    let seconds = match view.status {
        SessionStatus::Imported => Some("these trials alone".to_owned()),
        _ => seconds,
    };
    let fact = |path: [&str; 2]| {
        let first = view.environment.facts.get(path[0])?;
        first.get(path[1]).cloned()
    };
    let cpus = fact(["cpu", "allowed"]).and_then(|list| list.as_array().map(Vec::len)).map(|n| counted(n, "CPU"));
    let kernel = view.environment.facts.get("kernel_release").and_then(|kernel| kernel.as_str());
    let parts = [
        seconds,
        age.map(|(from, to)| format!("connections {} to {} old", Nanos(from), Nanos(to))),
        cpus,
        kernel.map(|kernel| format!("Linux {kernel}")),
        Some(view.started.get(..10).unwrap_or(&view.started).to_owned()),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// What disturbed, and whom.
pub fn noise(view: &View, questions: &Questions) -> Vec<String> {
    let mut said = Vec::new();
    let sum = |of: fn(&CellView) -> usize| view.cells.iter().map(of).sum::<usize>();
    let (hit, trials) = (sum(|cell| cell.stolen_trials), sum(|cell| cell.trials));
    if hit > 0 {
        said.push(format!("the host took CPU in {hit} of {trials} trials"));
    }
    said.extend(uneven(view, questions));
    said.extend(twins(view, questions));
    if let Some(us) = view.environment.throttled_us.filter(|us| *us > 0) {
        said.push(format!("the control group held the session up for {}", Nanos(us.saturating_mul(1000))));
    }
    if let Some(cpus) = view.environment.foreign_cpus.filter(|cpus| *cpus >= FOREIGN_TOLD) {
        said.push(format!("other programs kept {} CPUs busy meanwhile", significant(cpus, 2)));
    }
    if let Some(share) = view.floor.share.filter(|share| *share >= FLOOR_AIM) {
        said.push(format!("the harness takes {} of the fastest real call", percent(share)));
    }
    if let Some(check) = &view.check {
        let runs = |count: usize, what: &str| (count > 0).then(|| format!("after {} {what}", counted(count, "run")));
        said.extend(short_runs(view));
        said.extend(runs(check.left_behind, "processes were left behind, and ended"));
        said.extend(runs(check.stopped_by_force, "the server did not heed its signal, and was killed (--stop)"));
    }
    let failed = view.cells.iter().filter(|cell| cell.kind == CellKind::Candidate && cell.outcome == "failed");
    if let Some(reason) = failed.clone().find_map(|cell| cell.reason.as_ref()) {
        let which = match (&view.check, failed.clone().next()) {
            (Some(_), Some(cell)) => {
                format!("{} (of {} in all)", cell.label, counted(failed.clone().count(), "choice"))
            }
            _ => counted(failed.count(), "choice"),
        };
        said.push(format!("{which} failed: {reason}"));
    }
    if said.is_empty() {
        let reach = view.environment.twin_reach;
        said.push(match reach {
            Some(reach) => {
                format!("nothing was noticed; the same cell measured twice agreed within {}", percent(reach))
            }
            None => "nothing was noticed".into(),
        });
    }
    said
}

/// Runs that are hardly longer than it takes to start a program, which a shell and a dynamic linker do in milliseconds.
fn short_runs(view: &View) -> Option<String> {
    let run_ns = |cell: &CellView| cell.more.get("ns_per_run").and_then(|estimate| estimate.median);
    let shortest_ns = view.cells.iter().filter_map(run_ns).reduce(f64::min)?;
    (shortest_ns < RUN_SHORT_NS).then(|| {
        format!("a run takes {}, and starting a program is part of that: give it more to do", Nanos(shortest_ns as u64))
    })
}

/// Where the host took CPU time from some choices more than from others: the clearest case, and how many more.
fn uneven(view: &View, questions: &Questions) -> Option<String> {
    let mut hit: Vec<_> = view
        .groups
        .iter()
        .filter_map(|group| Some((group, group.stolen.as_ref().filter(|stolen| stolen.p <= TOLD_P)?)))
        .collect();
    hit.sort_by(|a, b| a.1.p.total_cmp(&b.1.p));
    let (group, stolen) = hit.first()?;
    let named = |id: &CellId| view.cell(id).map_or_else(|| id.to_string(), |cell| cell.label.clone());
    let more = match hit.len() {
        1 => String::new(),
        n => format!("; as in {}", counted(n - 1, "more question")),
    };
    Some(format!(
        "{}: it hit “{}” in {} of trials, “{}” in {} (p = {}): part of why they differ{more}",
        questions.of_group(group),
        named(&stolen.most),
        percent(stolen.most_share),
        named(&stolen.least),
        percent(stolen.least_share),
        significant(stolen.p, 1)
    ))
}

/// Where the same cell measured twice was not the same.
fn twins(view: &View, questions: &Questions) -> Vec<String> {
    let named = |groups: &[&GroupView]| {
        let first = groups.first().map(|group| questions.of_group(group)).unwrap_or_default();
        match groups.len() {
            1 => first,
            n => format!("{first} and {} more", n - 1),
        }
    };
    let alarms: Vec<&GroupView> =
        view.groups.iter().filter(|group| group.twin.as_ref().is_some_and(|twin| twin.alarm)).collect();
    let unsure: Vec<&GroupView> =
        view.groups.iter().filter(|group| group.recommendation.survives_exchange == Some(false)).collect();
    let mut said = Vec::new();
    if let Some(first) = alarms.first() {
        let apart = first.twin.as_ref().and_then(|twin| twin.difference).map_or(0.0, f64::abs);
        said.push(format!(
            "{}: the same cell measured twice differs by {}, so something other than the settings decides",
            named(&alarms),
            percent(apart)
        ));
    }
    if let Some(first) = unsure.first() {
        let bound = first.twin.as_ref().and_then(|twin| twin.exchanged_bound);
        let bound = bound.map_or_else(String::new, |bound| format!(" (then at most {} dearer)", percent(bound)));
        said.push(format!("{}: with leader and twin exchanged it is not shown{bound}; trust it less", named(&unsure)));
    }
    said
}

/// What to do next. A copy of a session goes on where it was begun, and not here.
pub fn next(view: &View, to_use: &UseView, imported: bool) -> Vec<String> {
    match view.status {
        SessionStatus::Incomplete | SessionStatus::Running if imported => {
            return vec!["it was interrupted where it was measured, and goes on only there".into()];
        }
        SessionStatus::Incomplete | SessionStatus::Running => {
            let resume = format!("--resume {}", view.session);
            return vec![format!("the same command with {resume} goes on; until then nothing more is proven")];
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
        return vec!["measure here: bytegauge run buffer-size".into()];
    }
    let asked: Vec<&GroupView> = view.groups.iter().filter(|group| !group.varied.is_empty()).collect();
    if asked.is_empty() {
        return vec![format!("give a choice two levels or more: bytegauge {} --help", view.plan.workload)];
    }
    let open: Vec<&GroupView> = asked.iter().copied().filter(|group| !group.recommendation.proven).collect();
    if open.is_empty() {
        let readers = to_use.rows.iter().any(|row| row.standing == Standing::Open && row.one_for_all);
        return vec![match readers {
            true => "say which of the readers is yours: --profile NAME, or take the one for all".to_owned(),
            false => "all is shown; the same command in another hour tells whether it lasts".into(),
        }];
    }
    longer(view, &open, imported).unwrap_or_else(|| {
        vec![
            "more time alone would hardly prove more: take the choice with its bound, or ask".into(),
            match view.check {
                Some(_) => "less at once (fewer --values), or give a run more to do".into(),
                None => "less at once (one --transport, one --placement, fewer levels)".into(),
            },
        ]
    })
}

/// The shortest of the longer budgets that likely proves half of what the longest would.
fn longer(view: &View, open: &[&GroupView], imported: bool) -> Option<Vec<String>> {
    let elapsed_s = view.elapsed_ns? as f64 / 1e9;
    let given_s = view.plan.budget_ns.map_or(elapsed_s, |ns| ns as f64 / 1e9);
    // Every group gets blocks in proportion.
    let times: Vec<f64> = open
        .iter()
        .filter_map(|group| {
            let more = group.recommendation.more_blocks? as f64;
            Some(1.0 + more / group.blocks.used.max(1) as f64)
        })
        .collect();
    let within = |factor: f64| times.iter().filter(|times| **times <= factor).count();
    let most = within(LONGER[LONGER.len() - 1]);
    let factor = LONGER.into_iter().find(|factor| most > 0 && 2 * within(*factor) >= most)?;
    let budget_s = given_s * factor;
    if budget_s > FORECAST_MAX_S {
        return None;
    }
    let looks = view.groups.iter().any(|group| group.look.as_ref().is_some_and(|look| look.next_blocks.is_some()));
    let how = if looks && !imported { format!("--resume {} ", view.session) } else { String::new() };
    // Where too few blocks were measured for any bound, the forecast is of the first one, not of a proof.
    let unbounded = open.iter().filter(|group| group.recommendation.bound.is_none()).count();
    let what = match 2 * unbounded > open.len() {
        true => format!("would give {} of the {} that are open their first bound", within(factor), open.len()),
        false => format!("would likely prove {} of the {} that are open", within(factor), open.len()),
    };
    Some(vec![format!("the same command with {how}--budget {}", budget(budget_s)), what])
}

/// Commands that show the rest.
pub fn more(view: &View) -> Vec<String> {
    let report = format!("bytegauge report {}", view.session);
    let group = view.groups.first().map(|group| format!("--group {}", group.id));
    [Some(format!("{report} --full")), group, Some("--html p.html".into()), Some("--format json".into())]
        .into_iter()
        .flatten()
        .collect()
}
