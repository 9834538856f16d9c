//! The answer on one screen, put together from the settled numbers: what to use and to avoid, what limits it, how far
//! it holds, what disturbed, and what to do next.
//!
//! Words and choices of what comes first; no rule of evidence stands here, and no number that the document does not
//! hold elsewhere. An explanation is said once: rows that agree in it share a line.

mod audit;
mod holds;
mod memory;
mod noise;
mod rows;
mod ties;
mod told;
mod two;

use bytegauge_model::unit::{counted, significant};
use bytegauge_model::{GroupId, Level, SessionStatus, Spec};

pub use audit::{is_audited as audit_is_audited, missing as audit_is_missing};
pub use holds::{holds as valid_for_lines, is_loopback};
pub use noise::drifted;
pub use rows::{all_trials, for_others};
pub use two::cpu as cpu_of_unit;

use super::document::{AnswerView, Factors, GroupView, UseView, View};
use super::link;
use crate::phrase::{self, brief};
use crate::sentence::percent;

/// Steal below this share is not worth the first line.
const STEAL_TOLD: f64 = 0.0005;

/// Of more questions that no row names only the number is said.
const NAMED_MAX: usize = 3;

/// Other programs that take this share of all CPUs decide what can be shown.
const CROWDED: f64 = 0.25;

/// Everything that the page says in a line.
pub fn answer(view: &View) -> AnswerView {
    if let Some(versus) = &view.versus {
        return two::answer(view, versus);
    }
    let questions = Questions::of(view);
    let to_use = rows::to_use(view, &questions);
    let questions = questions.beside(&to_use);
    AnswerView {
        head: heading(view),
        lever: told::lever(view, &questions),
        gain: told::gain(view),
        avoid: told::avoid(view, &to_use, &questions),
        why: link::products(view).into_iter().chain(told::why(view, &to_use, &questions)).collect(),
        audit: audit::audit(view, &questions),
        holds: holds::holds(view, &questions),
        noise: noise::noise(view, &questions),
        next: Vec::new(),
        more: more(view),
        relays: told::relays(view, &questions),
        to_use,
    }
}

/// What the results are valid for.
pub fn valid_for(view: &View) -> Vec<String> {
    valid_for_lines(view, &Questions::of(view))
}

/// Whether a group was measured over the loopback interface.
pub fn group_is_loopback(group: &GroupView) -> bool {
    is_loopback(&levels(&group.factors))
}

/// Commands that show the rest, each by itself.
pub fn more(view: &View) -> Vec<String> {
    let group = view.groups.first().map(|group| format!("--group {}", group.id));
    let shown = [Some("--full".to_owned()), group, Some("--html p.html".into()), Some("--format json".into())];
    shown.into_iter().flatten().map(|flag| format!("bytegauge report {} {flag}", view.session)).collect()
}

/// How groups are named where their names mean nothing: by the conditions that vary.
pub struct Questions {
    /// The transport, and every condition with more than one level, in the order of the factor table.
    pub varying: Vec<String>,
    /// What workers do differs between groups, so that it tells them apart.
    pub workers_differ: bool,
    /// The groups, in the order of the plan.
    groups: Vec<GroupId>,
    /// Those whose name stands before a row of what to use.
    shown: Vec<GroupId>,
    /// The program that was checked, where one was.
    pub program: Option<String>,
}

impl Questions {
    /// The groups of a session by the conditions that tell them apart.
    pub fn of(view: &View) -> Questions {
        let conditions: Vec<Spec> = view.verdicts.iter().map(|verdict| levels(&verdict.factors)).collect();
        // Where a condition does not exist it has no level: what TCP alone has tells no questions over TCP apart.
        let varies = |name: &str| {
            let mut present = conditions.iter().map(|levels| levels.get(name)).filter(|level| *level != Level::Absent);
            present.next().is_some_and(|first| present.any(|other| other != first))
        };
        let known = bytegauge_model::FACTORS.iter().map(|factor| factor.name.to_owned());
        // A condition that only an import knows separates groups as well.
        let foreign = conditions.iter().flat_map(|levels| levels.iter().map(|(name, _)| name.to_owned()));
        let mut names: Vec<String> = known.collect();
        names.extend(foreign);
        let mut varying: Vec<String> = Vec::new();
        for name in names {
            if !varying.contains(&name) && (matches!(name.as_str(), "transport" | "mode") || varies(&name)) {
                varying.push(name);
            }
        }
        let mut workers: Vec<String> = view.groups.iter().map(who).collect();
        workers.dedup();
        Questions {
            varying,
            workers_differ: workers.len() > 1,
            groups: view.groups.iter().map(|group| group.id.clone()).collect(),
            shown: Vec::new(),
            program: view.check.as_ref().map(|check| check.program.clone()),
        }
    }

    /// The same beside the rows of what to use. A grid has no room for the names of its groups, and a row that stands for
    /// several shows one of them alone.
    fn beside(self, to_use: &UseView) -> Questions {
        let named = to_use.rows.iter().filter(|_| to_use.grid.is_none() && to_use.rows.len() > 1);
        let own = named.filter_map(|row| row.groups.first().filter(|_| row.groups.len() == 1).cloned());
        Questions { shown: own.collect(), ..self }
    }

    /// Groups as a sentence names them: by the names that stand before the rows of what to use, `g2, g6`; where no row
    /// shows one, in words. Nothing where they are all.
    pub fn names(&self, view: &View, ids: &[&GroupId]) -> String {
        let named = |id: &&GroupId| view.groups.iter().find(|group| group.id == **id);
        match ids {
            _ if self.groups.iter().all(|group| ids.contains(&group)) => String::new(),
            _ if ids.iter().all(|id| self.shown.contains(id)) => {
                ids.iter().map(|id| id.0.as_str()).collect::<Vec<_>>().join(", ")
            }
            _ if ids.len() <= NAMED_MAX => {
                ids.iter().filter_map(named).map(|group| self.of_group(group)).collect::<Vec<_>>().join("; ")
            }
            many => format!("{} of the {} questions", many.len(), self.groups.len()),
        }
    }

    /// `Unix, 2 CPUs`.
    pub fn label(&self, factors: &Factors) -> String {
        match (brief(&levels(factors), &self.varying), &self.program) {
            (label, Some(program)) if label == "all" => program.clone(),
            (label, _) => label,
        }
    }

    /// The same of several levels each.
    pub fn of_several(&self, conditions: &[(String, Vec<Level>)]) -> String {
        match (phrase::brief_of_several(conditions), &self.program) {
            (label, Some(program)) if label == "all" => program.clone(),
            (label, _) => label,
        }
    }

    /// The same with who reads, where readers differ: `TCP, 2 CPUs, parses`. Behind its name where there are several:
    /// `g3 TCP, 2 CPUs`.
    pub fn of_group(&self, group: &GroupView) -> String {
        let who = Some(who(group)).filter(|who| self.workers_differ && !who.is_empty());
        let label = [Some(self.label(&group.factors)), who].into_iter().flatten().collect::<Vec<_>>().join(", ");
        if self.shown.contains(&group.id) { format!("{} {label}", group.id) } else { label }
    }
}

/// What the worker of a group does, in a word.
pub fn who(group: &GroupView) -> String {
    let conditions = levels(&group.factors);
    // Whoever compares the bytes does not drain them alone, whatever the profile is called.
    match phrase::throws_away(&conditions) && !group.throws_away {
        true => "compares".to_owned(),
        false => phrase::profile_brief(&conditions),
    }
}

/// What a choice takes more of than another: what costs are, in a word.
fn resource(view: &View) -> &'static str {
    match view.groups.iter().any(|group| group.cost.starts_with("cpu_")) {
        true => "CPU time",
        false => "time",
    }
}

/// Levels from a document.
pub fn levels(factors: &Factors) -> Spec {
    let mut levels = Spec::default();
    for (name, value) in factors {
        match serde_json::from_value::<Level>(value.clone()) {
            Ok(level) if level != Level::Absent => levels.set(name, level),
            _ => {}
        }
    }
    levels
}

/// How long a session measured, as every line of the screen says it.
fn seconds(ns: u64) -> String {
    format!("{} s", significant(ns as f64 / 1e9, 2))
}

/// The CPUs that other programs kept busy, and how many there are, where that decides what can be shown.
pub fn crowd(view: &View) -> Option<(f64, usize)> {
    let cpus = view.environment.allowed_cpus()?;
    let busy = view.environment.foreign_cpus?;
    (busy >= CROWDED * cpus as f64).then_some((busy, cpus))
}

/// What was run, and on which machine: without it an answer is of no use to whom it is passed on. Parts at the end give way
/// where the line is full.
pub fn heading(view: &View) -> String {
    let took = view.elapsed_ns.filter(|ns| *ns >= 1_000_000_000).map(seconds);
    let status = match view.status {
        SessionStatus::Complete => None,
        other => Some(other.name().to_owned()),
    };
    let steal = view.environment.steal_share.filter(|share| *share >= STEAL_TOLD);
    let steal = steal.map(|share| format!("steal {}", percent(share)));
    let crowd = crowd(view).map(|(busy, cpus)| format!("others used {} of {cpus} CPUs", significant(busy, 2)));
    let program = view.check.as_ref().map(|check| check.program.clone());
    // Of a crowd the CPUs are told already.
    let cpus = view.environment.allowed_cpus().filter(|_| crowd.is_none()).map(|n| counted(n, "CPU"));
    let kernel = view.environment.fact(&["kernel_release"]).and_then(|kernel| kernel.as_str());
    let kernel = kernel.map(|release| format!("Linux {}", release.split('-').next().unwrap_or(release)));
    let machine = [cpus, kernel].into_iter().flatten().collect::<Vec<_>>().join(", ");
    let machine = Some(machine).filter(|machine| !machine.is_empty());
    let parts = [program, Some(format!("session {}", view.session)), took, status, crowd, machine, steal];
    let rest: Vec<String> = parts.into_iter().flatten().collect();
    format!("bytegauge {} · {}", view.plan.name, rest.join(" · "))
}
