//! Comparison of sessions: two kernels, two machines, last week and now, or an imported result.
//!
//! The sessions of one kind are the replicates of a subject, and every subject is compared with the first
//! (`bytegauge_stats::compare::between_sessions`): runs of different sessions differ by more than their trials show, so a few
//! sessions are no evidence for subjects. How far two single runs were apart is reported as such. Whether the choice of one
//! session holds in another depends on the other's own blocks, and needs no history.
//!
//! Never pools trials of different sessions.

use std::collections::{BTreeSet, HashMap};

use bytegauge_model::{CellId, GroupId, SessionId, SessionRecord, Spec};
use bytegauge_report::view::numbers::difference::{longer, share};
use bytegauge_report::view::numbers::{SubjectDifference, Verdict};
use bytegauge_report::view::{varied, verifies};
use bytegauge_report::words::option_label;
use bytegauge_report::words::phrase::{PROFILE_FACTORS, brief, profile_brief};
use bytegauge_report::{ConfirmedCell, SessionData, SessionGroup, Settings};
use bytegauge_stats::compare::{
    Comparison, ComparisonTerms, MIN_SESSIONS, apart, between_sessions, over_cells, typical,
};
use schemars::JsonSchema;
use serde::Serialize;

/// The comparison of several sessions. Shares are between 0 and 1, differences are of cost: above 0 is slower.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct BetweenView {
    /// The difference that matters, as a share.
    pub margin: f64,
    /// Confidence of every interval; its complement is the false discovery rate of the verdicts, cell by cell.
    pub level: f64,
    /// Sessions of the first subject; without them there is no result for subjects.
    pub sessions_min: usize,
    /// The subjects: machines, kernels, releases or imported results with their sessions, in the given order. If all sessions are
    /// of one kind, they are two subjects: the last one, and the ones before. All are compared with the first.
    pub arms: Vec<BetweenArm>,
    /// The groups that more than one of them has.
    pub questions: Vec<BetweenQuestion>,
    /// The choices of the sessions, tested in the others.
    pub choices: Vec<BetweenChoice>,
}

/// A subject.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct BetweenArm {
    /// Its difference from the others, for people.
    pub name: String,
    /// Its sessions.
    pub sessions: Vec<SessionId>,
    /// Imported as a table: its missing levels are taken to be those of the others.
    pub stated_only: bool,
}

/// A group, in all sessions that have it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct BetweenQuestion {
    /// The conditions, for people.
    pub question: String,
    /// The group in each of the sessions.
    pub groups: Vec<BetweenGroup>,
    /// The compared quantity: `ns_per_byte`, `cpu_ns_per_call`, … as in the groups.
    pub cost: &'static str,
    /// The cells that more than one subject confirmed.
    pub cells: Vec<BetweenCell>,
}

/// A group of a session.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct BetweenGroup {
    /// The session.
    pub session: SessionId,
    /// Its group.
    pub group: GroupId,
}

/// A cell in all sessions that confirmed it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct BetweenCell {
    /// Its choices, for people.
    pub label: String,
    /// Its name in each session.
    pub cells: Vec<BetweenPlace>,
    /// Each other subject compared with the first.
    pub differences: Vec<BetweenDifference>,
}

/// A cell of a session.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct BetweenPlace {
    /// The session.
    pub session: SessionId,
    /// Its cell.
    pub cell: CellId,
}

/// How much slower a cell is in a subject's sessions than in the first's.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct BetweenDifference {
    /// The subject's place among the arms.
    pub arm: usize,
    /// The mean of its sessions compared with the mean of the first's, with sessions as replicates, and the result.
    #[serde(flatten)]
    pub difference: SubjectDifference,
    /// Lower end of the interval from the trials of two single sessions: how far apart these two were, for any reason. `null`
    /// if a subject has several sessions here, or a session fewer than six trials.
    pub runs_lower: Option<f64>,
    /// Upper end.
    pub runs_upper: Option<f64>,
    /// Sessions of the first subject with the cell.
    pub sessions_first: usize,
    /// Sessions of this one with it.
    pub sessions: usize,
}

/// The choice of one session, in another with the same group.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct BetweenChoice {
    /// The group, for people.
    pub question: String,
    /// The session of the choice.
    pub session: SessionId,
    /// Its group.
    pub group: GroupId,
    /// The choice, for people.
    pub choice: String,
    /// The session in which it was tested.
    pub tried_in: SessionId,
    /// It is at least this much slower there than the best of its group; `null` if that is not known.
    pub lower: Option<f64>,
    /// It is at most this much slower there.
    pub upper: Option<f64>,
    /// `holds`: within the margin there too; `contradicted`: slower than the best there by more; `open`; `absent`: not
    /// confirmed there.
    #[schemars(extend("enum" = ["holds", "contradicted", "open", "absent"]))]
    pub finding: &'static str,
}

/// A group of a session with its confirmed cells.
struct MeasuredGroup {
    session: usize,
    group: SessionGroup,
    /// The place of the cell with these choices; none if two have them. Sessions have thousands of cells.
    by_choices: HashMap<Spec, Option<usize>>,
}

impl BetweenView {
    /// Compares sessions, in the given order.
    pub fn of(sessions: &[SessionData], settings: &Settings) -> BetweenView {
        let margin = settings.margin.or(sessions.first().map(|session| session.record.margin)).unwrap_or(0.05);
        let terms = ComparisonTerms { level: settings.confidence(), delta: margin };
        let arms = arms(sessions);
        let asked: Vec<MeasuredGroup> =
            sessions.iter().enumerate().flat_map(|(at, data)| asked(at, data, settings)).collect();
        let scene = BetweenInput { sessions, arms: &arms, terms: &terms };
        let lined_up: Vec<Vec<&MeasuredGroup>> = line_up(&asked, sessions);
        let conditions: Vec<&Spec> = lined_up.iter().map(|same| &same[0].group.conditions).collect();
        let mut names = varied(&conditions, |_, _| true);
        names.insert(0, "transport".into());
        names.dedup();
        let mut questions: Vec<BetweenQuestion> = Vec::new();
        let mut choices = Vec::new();
        let mut comparisons: Vec<Vec<Comparison>> = vec![Vec::new(); arms.len()];
        for same in &lined_up {
            let question = worded(&same[0].group.conditions, &names);
            choices.extend(scene.choices(&question, same));
            questions.extend(scene.question(question, same, &mut comparisons));
        }
        // Many cells are many claims: a verdict counts among all of its subject.
        let verdicts: Vec<Vec<Verdict>> = comparisons.iter().map(|all| over_cells(all, &terms)).collect();
        let mut next = vec![0; arms.len()];
        for cell in questions.iter_mut().flat_map(|question| &mut question.cells) {
            for difference in &mut cell.differences {
                difference.difference.verdict = verdicts[difference.arm][next[difference.arm]];
                next[difference.arm] += 1;
            }
        }
        BetweenView { margin, level: terms.level, sessions_min: MIN_SESSIONS, arms, questions, choices }
    }
}

/// The kernel's place among the parts of a kind.
const KERNEL: usize = 1;

/// The properties that make sessions replicates of one subject: processor, kernel, release, kinds of ends, and whether they
/// compared bytes.
fn kind(SessionData { record, trials, .. }: &SessionData) -> [String; 5] {
    let fact = |path: &str| record.machine.pointer(path).and_then(|fact| fact.as_str()).unwrap_or_default().to_owned();
    let ends = record.plan.get("ends").and_then(|ends| ends.as_str()).unwrap_or_default().to_owned();
    let kernel = match fact("/kernel_release") {
        known if known.is_empty() => record.plan_name.clone(),
        known => format!("Linux {known}"),
    };
    let compared = if verifies(trials) { "every byte compared (--verify)" } else { "bytes not compared" };
    [fact("/cpu/model"), kernel, format!("bytegauge {}", record.version), ends, compared.to_owned()]
}

/// Whether the machine is unknown: an imported table, which states some levels and leaves the others open.
fn is_table(record: &SessionRecord) -> bool {
    record.imported && record.machine.pointer("/kernel_release").is_none()
}

fn arms(sessions: &[SessionData]) -> Vec<BetweenArm> {
    let mut kinds: Vec<([String; 5], bool, Vec<SessionId>)> = Vec::new();
    for session @ SessionData { record, .. } in sessions {
        let kind = kind(session);
        match kinds.iter_mut().find(|(known, ..)| *known == kind) {
            Some((_, _, ids)) => ids.push(record.id),
            None => kinds.push((kind, is_table(record), vec![record.id])),
        }
    }
    if let [(_, stated_only, ids)] = kinds.as_slice()
        && let Some((last, before)) = ids.split_last().filter(|(_, before)| !before.is_empty())
    {
        let name = if before.len() == 1 { format!("session {}", before[0]) } else { "the sessions before".to_owned() };
        let arm = |name: String, sessions: &[SessionId]| BetweenArm {
            name,
            sessions: sessions.to_vec(),
            stated_only: *stated_only,
        };
        return vec![arm(name, before), arm(format!("session {last}"), &[*last])];
    }
    // A table has none of this; it goes by its own name.
    let machines: Vec<&[String; 5]> = kinds.iter().filter(|kind| !kind.1).map(|(kind, ..)| kind).collect();
    let differs = |part: usize| machines.iter().any(|kind| kind[part] != machines[0][part]);
    let parts_shown: Vec<usize> =
        (0..5).filter(|part| differs(*part) || (*part == KERNEL && machines.len() == 1)).collect();
    let named = |kind: &[String; 5]| {
        let parts: Vec<&str> =
            parts_shown.iter().map(|part| kind[*part].as_str()).filter(|part| !part.is_empty()).collect();
        parts.join(", ")
    };
    let arm = |(kind, stated_only, sessions): &([String; 5], bool, Vec<SessionId>)| BetweenArm {
        name: if *stated_only { kind[KERNEL].clone() } else { named(kind) },
        sessions: sessions.clone(),
        stated_only: *stated_only,
    };
    kinds.iter().map(arm).collect()
}

/// The groups of a session with compared cells.
fn asked(session: usize, data: &SessionData, settings: &Settings) -> impl Iterator<Item = MeasuredGroup> {
    let groups = SessionGroup::all_of(data, settings).into_iter().filter(|group| !group.cells.is_empty());
    groups.map(move |group| {
        let mut by_choices = HashMap::with_capacity(group.cells.len());
        for (at, cell) in group.cells.iter().enumerate() {
            by_choices.entry(cell.choices.clone()).and_modify(|place| *place = None).or_insert(Some(at));
        }
        MeasuredGroup { session, group, by_choices }
    })
}

/// Whether two have the same levels; for a table, those that it states.
fn agree(one: &Spec, other: &Spec, stated_only: bool) -> bool {
    if !stated_only {
        return one == other;
    }
    one.workload() == other.workload()
        && one.iter().all(|(name, level)| !other.states(name) || other.get(name) == level)
}

/// The groups with the same conditions, those of the earliest session first; only if two sessions or more have them.
fn line_up<'a>(asked: &'a [MeasuredGroup], sessions: &[SessionData]) -> Vec<Vec<&'a MeasuredGroup>> {
    let table = |one: &MeasuredGroup| is_table(&sessions[one.session].record);
    let mut taken: BTreeSet<(usize, &GroupId)> = BTreeSet::new();
    let mut all = Vec::new();
    // A table fits several groups: those with more conditions come first, and it fits all of them.
    let mut order: Vec<&MeasuredGroup> = asked.iter().collect();
    order.sort_by_key(|one| (table(one), one.session));
    for first in order {
        if !taken.insert((first.session, &first.group.id)) {
            continue;
        }
        let mut same = vec![first];
        for session in 0..sessions.len() {
            if session == first.session {
                continue;
            }
            let fits = |one: &&MeasuredGroup| {
                one.session == session
                    && one.group.cost == first.group.cost
                    && agree(&first.group.conditions, &one.group.conditions, table(first) || table(one))
            };
            let mut found = asked.iter().filter(fits);
            // If two fit, they are two groups, and the right one is unknown.
            if let (Some(one), None) = (found.next(), found.next()) {
                taken.insert((one.session, &one.group.id));
                same.push(one);
            }
        }
        same.sort_by_key(|one| one.session);
        if same.len() > 1 {
            all.push(same);
        }
    }
    all
}

fn worded(conditions: &Spec, names: &[String]) -> String {
    let names: Vec<String> = names.iter().filter(|name| !PROFILE_FACTORS.contains(&name.as_str())).cloned().collect();
    let (who, question) = (profile_brief(conditions), brief(conditions, &names));
    if who.is_empty() { question } else { format!("{question}, {who}") }
}

/// The common conditions of all groups.
struct BetweenInput<'a> {
    sessions: &'a [SessionData],
    arms: &'a [BetweenArm],
    terms: &'a ComparisonTerms,
}

impl BetweenInput<'_> {
    fn id(&self, asked: &MeasuredGroup) -> SessionId {
        self.sessions[asked.session].record.id
    }

    fn arm(&self, asked: &MeasuredGroup) -> Option<usize> {
        let id = self.id(asked);
        self.arms.iter().position(|arm| arm.sessions.contains(&id))
    }

    /// The place of the cell of one session in another.
    fn same(&self, choices: &Spec, first: &MeasuredGroup, in_: &MeasuredGroup) -> Option<usize> {
        let stated_only = [first, in_].iter().any(|asked| is_table(&self.sessions[asked.session].record));
        if !stated_only {
            return in_.by_choices.get(choices).copied().flatten();
        }
        let cells = in_.group.cells.iter().enumerate();
        let mut found = cells.filter(|(_, cell)| agree(choices, &cell.choices, true)).map(|(at, _)| at);
        found.next().filter(|_| found.next().is_none())
    }

    /// The cells of a group, with placeholders for their verdicts in `comparisons`, subject by subject.
    fn question(
        &self,
        question: String,
        same: &[&MeasuredGroup],
        comparisons: &mut [Vec<Comparison>],
    ) -> Option<BetweenQuestion> {
        let first = same[0];
        let every: Vec<&Spec> = first.group.cells.iter().map(|cell| &cell.choices).collect();
        let names = varied(&every, |_, _| true);
        let mut cells = Vec::new();
        for cell in &first.group.cells {
            let place = |asked: &MeasuredGroup| self.same(&cell.choices, first, asked);
            let found: Vec<(&MeasuredGroup, &ConfirmedCell)> =
                same.iter().filter_map(|asked| Some((*asked, &asked.group.cells[place(asked)?]))).collect();
            let differences = self.differences(&found, comparisons);
            if !differences.is_empty() {
                let place = |(asked, cell): &(&MeasuredGroup, &ConfirmedCell)| BetweenPlace {
                    session: self.id(asked),
                    cell: cell.id.clone(),
                };
                cells.push(BetweenCell {
                    label: option_label(&names, &cell.choices),
                    cells: found.iter().map(place).collect(),
                    differences,
                });
            }
        }
        let group = |asked: &&MeasuredGroup| BetweenGroup { session: self.id(asked), group: asked.group.id.clone() };
        let groups = same.iter().map(group).collect();
        (!cells.is_empty()).then_some(BetweenQuestion { question, groups, cost: first.group.cost, cells })
    }

    /// Every subject with the cell, compared with the first.
    fn differences(
        &self,
        found: &[(&MeasuredGroup, &ConfirmedCell)],
        comparisons: &mut [Vec<Comparison>],
    ) -> Vec<BetweenDifference> {
        let of_arm = |arm: usize| -> Vec<&[f64]> {
            let own = found.iter().filter(|(asked, _)| self.arm(asked) == Some(arm));
            own.map(|(_, cell)| cell.ln_costs.as_slice()).filter(|costs| !costs.is_empty()).collect()
        };
        let means = |runs: &[&[f64]]| runs.iter().filter_map(|costs| typical(costs)).collect::<Vec<f64>>();
        let first = of_arm(0);
        let mut differences = Vec::new();
        for (arm, of_subject) in comparisons.iter_mut().enumerate().skip(1) {
            let own = of_arm(arm);
            if first.is_empty() || own.is_empty() {
                continue;
            }
            let judged = between_sessions(&means(&first), &means(&own), self.terms);
            let runs = match (first.as_slice(), own.as_slice()) {
                ([before], [after]) => apart(before, after, self.terms.level),
                _ => None,
            };
            let extra = |ln: f64| Some(longer(ln)).filter(|extra| extra.is_finite());
            differences.push(BetweenDifference {
                arm,
                difference: SubjectDifference::of(Some(&judged), judged.verdict),
                runs_lower: runs.and_then(|(lower, _)| extra(lower)),
                runs_upper: runs.and_then(|(_, upper)| extra(upper)),
                sessions_first: first.len(),
                sessions: own.len(),
            });
            of_subject.push(judged);
        }
        differences
    }

    /// The choice of each session, in every other one.
    fn choices(&self, question: &str, same: &[&MeasuredGroup]) -> Vec<BetweenChoice> {
        let every: Vec<&Spec> = same.iter().flat_map(|asked| &asked.group.cells).map(|cell| &cell.choices).collect();
        let names = varied(&every, |_, _| true);
        let mut choices = Vec::new();
        for from in same {
            let Some(chosen) = from.group.chosen.map(|at| &from.group.cells[at]) else { continue };
            for tried in same.iter().filter(|tried| tried.session != from.session) {
                let found = self.same(&chosen.choices, from, tried);
                let verdict = &tried.group.verdict;
                let end = |ends: &[Option<f64>]| ends.get(found?).copied().flatten();
                let (lower, upper) = (end(&verdict.lower), end(&verdict.upper));
                let margin = self.terms.delta.ln_1p();
                let finding = match found {
                    None => "absent",
                    Some(_) if !tried.group.proves || verdict.twin_alarm() => "open",
                    Some(_) if lower.is_some_and(|lower| lower > margin) => "contradicted",
                    Some(_) if upper.is_some_and(|upper| upper <= margin) => "holds",
                    Some(_) => "open",
                };
                choices.push(BetweenChoice {
                    question: question.to_owned(),
                    session: self.id(from),
                    group: from.group.id.clone(),
                    choice: option_label(&names, &chosen.choices),
                    tried_in: self.id(tried),
                    lower: lower.map(f64::exp_m1),
                    upper: upper.and_then(share),
                    finding,
                });
            }
        }
        choices
    }
}
