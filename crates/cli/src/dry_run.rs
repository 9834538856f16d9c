//! Prints the plan before it starts: the options, the number of blocks and the time.

use std::collections::{BTreeSet, HashSet};
use std::fmt::Write as _;

use bytegauge_model::factor::{FACTORS, Factor, Role};
use bytegauge_model::unit::{counted, forecast};
use bytegauge_model::{COMPARED_CONDITIONS, Cell, Level, Nanos};
use bytegauge_plan::{Family, Plan, trial_length};
use bytegauge_report::words::interval_rounding::{TEST_S, budget};
use bytegauge_report::words::phrase::PROFILE_FACTORS;

use crate::resume::Begun;
use crate::terminal::{COLUMNS, fitted};

/// A few lines: options, tests, time, notes.
pub fn summary(plan: &Plan) -> String {
    fitted((size(plan) + &notes(plan)).lines(), COLUMNS)
}

/// Options, tests and time.
fn size(plan: &Plan) -> String {
    format!(
        "plan {}: {} in {}, {}, seed {}\n",
        plan.name,
        counted(plan.cells.len() - plan.skipped.len(), "option"),
        counted(plan.groups.len(), "test"),
        time(plan),
        plan.seed,
    )
}

/// How long the session is likely to take; a program's runs are not known before.
fn time(plan: &Plan) -> String {
    match has_known_blocks(plan) {
        true => format!("about {}", forecast(plan.schedule().total_ns())),
        false if plan.keeps_budget() => format!("up to {}", Nanos(plan.budget_ns)),
        false => format!("up to {} (longer if runs are long)", Nanos(plan.budget_ns)),
    }
}

/// The stages until the first analysis with their times, and what follows it.
fn stages(plan: &Plan, goes_on: bool) -> String {
    let schedule = plan.schedule();
    let fewest = plan.design.blocks_min;
    let blocks = match has_known_blocks(plan) {
        // The pace of this machine is not known yet.
        true if plan.blocks.is_none() => format!("at most {}", counted(schedule.blocks as usize, "block")),
        true => counted(schedule.blocks as usize, "block"),
        false => format!("as many blocks as fit, at least {fewest},"),
    };
    let stages = [
        (schedule.calibrate_ns, "to calibrate".to_owned()),
        (schedule.screen_ns + schedule.narrow_ns, "to screen all options".to_owned()),
        (schedule.confirm_ns(), format!("for {blocks}{}", if plan.groups.len() > 1 { " of each test" } else { "" })),
        (schedule.audit_ns, "for long trials".to_owned()),
    ];
    let stages = stages.into_iter().filter(|(ns, _)| *ns > 0).map(|(ns, what)| format!("{} {what}", Nanos(ns)));
    let stages = stages.collect::<Vec<_>>().join(", ");
    let further = match goes_on {
        _ if plan.analyses == 1 => "",
        true => "  tests that are undecided then are measured further at once (--until)\n",
        false => "  --resume measures tests further that are undecided then\n",
    };
    format!("  until analysis 1 of {}: {stages}\n{further}", plan.analyses)
}

/// Facts that may be a reason to change the plan before the session.
fn notes(plan: &Plan) -> String {
    let schedule = plan.schedule();
    let mut text = String::new();
    if schedule.total_ns() > plan.budget_ns.saturating_add(plan.budget_ns / 50) {
        let (needs, given) = (forecast(schedule.total_ns()), Nanos(plan.budget_ns));
        let _ = writeln!(
            text,
            "  note: this takes about {needs}, more than the given {given}: fewer blocks show large effects only"
        );
    }
    if let Some(short) = short_of_time(plan) {
        let _ = writeln!(text, "  note: {short}");
    }
    if let Some(server) = plan.task.as_ref().and_then(|task| task.server.as_ref()) {
        let timeout_ns = plan.cells.iter().filter_map(|cell| cell.factors.run_timeout()).max().unwrap_or(u64::MAX);
        let (ready, most) = (&server.ready, Nanos(plan.ready_ns(timeout_ns)));
        let _ = writeln!(text, "  note: each run starts the server and waits for {ready} (--ready), at most {most}");
    }
    for note in &plan.notes {
        let _ = writeln!(text, "  note: {note}");
    }
    for name in separate_conditions(plan) {
        let _ = writeln!(text, "  note: each --{name} is a test of its own; to compare them: --compare {name}");
    }
    text
}

/// Whether the number of blocks is known before a session: the length of a program's runs is not.
fn has_known_blocks(plan: &Plan) -> bool {
    plan.task.is_none() || plan.blocks.is_some()
}

/// The time that many tests need, where they were given less than half of it.
fn short_of_time(plan: &Plan) -> Option<String> {
    let tests = plan.groups.len();
    let (needed_s, given_s) = (tests as f64 * TEST_S, plan.budget_ns as f64 / 1e9);
    let is_short = tests > 1 && plan.blocks.is_none() && plan.task.is_none() && 2.0 * given_s < needed_s;
    // A profile sets conditions of its own.
    let is_own = |factor: &&Factor| !PROFILE_FACTORS[1..].contains(&factor.name);
    let varied = FACTORS.iter().filter(is_own).filter(|factor| has_levels(plan, factor.name));
    let flags: Vec<String> = varied.map(|factor| format!("--{}", factor.flag())).collect();
    is_short.then(|| {
        format!(
            "{} for {tests} tests are likely too short to decide them: give about {} (--time), or fewer levels ({})",
            Nanos(plan.budget_ns),
            budget(needed_s),
            flags.join(", ")
        )
    })
}

/// The analysis that a resumed session continues to, and its plan.
pub fn resumed(Begun { id, plan, analysis }: &Begun) -> String {
    let begin = format!("session {id} of plan {} continues to analysis {analysis} of {}\n", plan.name, plan.analyses);
    fitted((begin + &families(plan)).lines(), COLUMNS)
}

/// Conditions with several levels that could be compared, in a session that no plan describes.
fn separate_conditions(plan: &Plan) -> Vec<&'static str> {
    let names = COMPARED_CONDITIONS.iter().map(|row| row.name);
    let is_unnamed = plan.name == plan.workload.row().name;
    names.filter(|name| is_unnamed && has_levels(plan, &name.replace('-', "_"))).collect()
}

/// Whether the tests of a plan have several levels of a factor.
fn has_levels(plan: &Plan, factor: &str) -> bool {
    let levels = plan.groups.iter().map(|group| group.factors.get(factor));
    levels.filter(|level| *level != Level::Absent).collect::<BTreeSet<_>>().len() > 1
}

/// The whole plan: its stages and times, and every family with its levels.
pub fn full(plan: &Plan, goes_on: bool) -> String {
    fitted((size(plan) + &stages(plan, goes_on) + &notes(plan) + &families(plan)).lines(), COLUMNS)
}

/// Whether a level is that of a session whose plan does not state the factor.
fn is_default(factor: &Factor, level: &Level, cells: &[&Cell]) -> bool {
    let spec = cells.first().map(|cell| &cell.factors);
    let default = spec.and_then(|spec| factor.default_over(spec.workload(), spec.transport()));
    level.is_auto()
        || *level == Level::Switch(false)
        || default.and_then(|text| factor.kind.parse(text).ok()).is_some_and(|default| default == *level)
}

/// The length of the trials of cells: their own, that of their family, or that of the calls that they need where these take longer by half.
fn lengths(plan: &Plan, cells: &[&Cell], family: &Family) -> String {
    let needed = |cell: &&Cell| {
        let own_ns = cell.factors.duration().unwrap_or(family.trial_ns);
        let pace = plan.pace(&cell.group, &cell.factors);
        let (_, needed_ns) = trial_length::lengths_ns(&cell.factors, plan.objective, (0, own_ns), pace);
        if needed_ns > own_ns / 2 * 3 { needed_ns / 10_000_000 * 10_000_000 } else { own_ns }
    };
    let own = cells.iter().map(needed);
    let lengths: BTreeSet<u64> = own.collect();
    lengths.into_iter().map(|ns| Nanos(ns).to_string()).collect::<Vec<_>>().join(", ")
}

/// The levels of each factor in cells, in the order in which they occur.
fn levels_of(cells: &[&Cell]) -> Vec<Vec<Level>> {
    let mut found = vec![Vec::new(); FACTORS.len()];
    for cell in cells {
        for (factor, levels) in FACTORS.iter().zip(&mut found) {
            let level = cell.factors.level(factor.key);
            if level != Level::Absent && !levels.contains(&level) {
                levels.push(level);
            }
        }
    }
    found
}

/// The lines of a family: those of fixed factors by flag, and all others.
#[derive(Default)]
struct FamilyLines {
    fixed: Vec<(String, String)>,
    compared: String,
}

/// Every family. One that has the options of the family before follows as a line with its own conditions.
fn families(plan: &Plan) -> String {
    let cells: Vec<Vec<&Cell>> = plan.families.iter().map(|family| cells_of(plan, family)).collect();
    let levels: Vec<Vec<Vec<Level>>> = cells.iter().map(|cells| levels_of(cells)).collect();
    // A default has to be listed where another family has another level.
    let varies = |at: usize| {
        let mut present = levels.iter().map(|levels| &levels[at]).filter(|levels| !levels.is_empty());
        present.next().is_some_and(|first| present.any(|other| other != first))
    };
    let varying: Vec<bool> = (0..FACTORS.len()).map(varies).collect();
    let (mut text, mut shown) = (String::new(), FamilyLines::default());
    for ((family, cells), levels) in plan.families.iter().zip(&cells).zip(levels) {
        let lines = describe(plan, family, cells, levels, &varying);
        let flags = |lines: &FamilyLines| lines.fixed.iter().map(|(flag, _)| flag.clone()).collect::<Vec<_>>();
        if lines.compared == shown.compared && flags(&lines) == flags(&shown) {
            let own = lines.fixed.iter().filter(|line| !shown.fixed.contains(line));
            let own: Vec<String> = own.map(|(flag, levels)| format!("{flag} {levels}")).collect();
            let _ = writeln!(text, "{:>14}  {}", "the same with", own.join(", "));
            continue;
        }
        text.push('\n');
        for (flag, levels) in &lines.fixed {
            let _ = writeln!(text, "{flag:>14}  fixed     {levels}");
        }
        text += &lines.compared;
        shown = lines;
    }
    text
}

fn cells_of<'a>(plan: &'a Plan, family: &Family) -> Vec<&'a Cell> {
    let groups: HashSet<_> = family.groups.iter().collect();
    plan.cells.iter().filter(|cell| groups.contains(&cell.group)).collect()
}

fn describe(plan: &Plan, family: &Family, cells: &[&Cell], levels: Vec<Vec<Level>>, varying: &[bool]) -> FamilyLines {
    let mut lines = FamilyLines::default();
    let text = &mut lines.compared;
    for ((factor, levels), varies) in FACTORS.iter().zip(levels).zip(varying) {
        // All cells of a family belong to one program.
        let role = cells.first().map_or(factor.role, |cell| cell.factors.role_of(factor.name));
        let is_compared = role == Role::Choice && levels.len() > 1;
        let is_shown = matches!(factor.name, "transport" | "role")
            || is_compared
            || *varies && levels.iter().any(|level| !level.is_auto());
        if levels.is_empty() || !is_shown && levels.iter().all(|level| is_default(factor, level, cells)) {
            continue;
        }
        let shown: Vec<String> = levels.iter().map(|level| factor.kind.compact(level)).collect();
        match is_compared {
            true => {
                let _ = writeln!(text, "{:>14}  compared  {}", factor.flag(), shown.join(" "));
            }
            false => lines.fixed.push((factor.flag(), shown.join(" "))),
        }
    }
    // Values that are confirmed although they may be no finalists: one more than the finalists may have a row.
    let always = cells.iter().filter(|cell| plan.always_confirms(&cell.factors)).count().min(cells.len());
    let confirmed = match (family.is_screened(), always, plan.task.as_ref().and_then(|task| task.default.as_ref())) {
        (true, ..) if family.confirmed() == family.choices => "as many as fit".to_owned(),
        (true, 1, Some(_)) => format!("{} and the present value", family.confirmed()),
        (true, 1.., _) => format!("{} and {} that you named", family.confirmed(), counted(always, "value")),
        _ => family.confirmed().to_string(),
    };
    let _ = writeln!(
        text,
        "{:>14}  {} in {}, {confirmed} confirmed in each, {}",
        "=",
        counted(cells.len(), "option"),
        counted(family.groups.len(), "test"),
        match plan.task {
            Some(_) => "a trial is a run".to_owned(),
            None => format!("trials of {}", lengths(plan, cells, family)),
        }
    );
    if family.is_screened() {
        let screened: Vec<String> = family
            .screened
            .iter()
            .filter_map(|id| plan.group(id))
            .map(|group| {
                let parts = ["placement", "profile", "work", "working_set"].map(|name| group.factors.get(name).clone());
                let named: Vec<String> = parts.iter().filter_map(|level| level.name()).map(str::to_owned).collect();
                named.join("/")
            })
            .collect();
        let _ = writeln!(text, "{:>14}  all options under {}", "screened", screened.join(", "));
    }
    lines
}
