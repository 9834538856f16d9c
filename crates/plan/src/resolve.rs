//! From a spec to groups, families and cells: crosses levels, collapses what does not apply, names what
//! cannot be measured here.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;

use bytegauge_model::factor::{self, FACTORS, HelpSection, Role};
use bytegauge_model::{Cell, CellId, CellKind, FactorKey, Group, GroupId, Level, Spec, Workload};

use crate::cross::{CELLS_MAX, apply_profile, cross, longest};
use crate::design::{
    BLOCKS_STATED_MAX, BUDGET_NS, Design, FINALISTS, Finalists, OVERRUN_STATED, OVERRUN_UNSTATED, SEARCH_BUDGET_NS,
};
use crate::effective_factors::{
    joints, note_collapsed, refuse_what_fits_nothing, refuse_what_is_elsewhere, refuse_what_is_moot,
};
use crate::engines::{self, is_artefact, is_too_large, refuse_what_no_ring_can, shows_artefacts};
use crate::missing_features::{Catalog, skip_what_is_missing};
use crate::plan::{Family, Index, Plan, SeenPace};
use crate::spec::{Part, PlanSpec, SET_BY_PROFILES};
use crate::task::refuse_what_no_task_can;
use crate::{PlanError, cross, emulated, external, far, relay, trial_length};

/// Resolves a spec on the machine that the catalog describes.
///
/// # Errors
/// [`PlanError`] when the spec contradicts itself, or nothing of it can be measured here.
pub fn resolve(spec: &PlanSpec, catalog: &Catalog, seed: u64) -> Result<Plan, PlanError> {
    let spec = &settled(spec)?;
    refuse_what_is_elsewhere(spec)?;
    refuse_what_no_ring_can(spec)?;
    refuse_what_no_task_can(spec)?;
    refuse_what_fits_nothing(spec)?;
    engines::refuse_what_suits_nothing(spec)?;
    refuse_too_many(spec)?;
    let mut plan = without_cells(spec, seed);
    let mut asked = OptionsByCondition::new();
    for part in spec.parts.iter().flat_map(Part::by_program) {
        relay::refuse_without_one(spec.workload, &part)?;
        add_part(&mut plan, spec, &part, &mut asked)?;
    }
    if let ([], Some(artefact)) = (plan.cells.as_slice(), plan.artefacts.first()) {
        return PlanError::usage(format!(
            "--implementation {} is an artefact, only shown with others, in mode ceiling without user data, and never \
             measured alone: add liburing to --implementation",
            artefact.factors.get("implementation")
        ));
    }
    refuse_what_is_moot(&plan, spec)?;
    refuse_transports_apart(&plan, spec)?;
    note_what_is_left_out(&mut plan, spec);
    skip_what_is_missing(&mut plan, catalog);
    plan.screen_what_is_left(&Index::of(&plan));
    if plan.skipped.len() == plan.cells.len() {
        let reason = plan.skipped.first().and_then(|(_, outcome)| outcome.reason()).unwrap_or("it has no cells");
        return Err(PlanError::NothingLeft(reason.to_owned()));
    }
    // How long a program runs is seen first.
    let is_stated = spec.budget_ns.is_some() && spec.workload != Workload::Tune;
    let overrun = if is_stated { OVERRUN_STATED } else { OVERRUN_UNSTATED };
    plan.fit_or_refuse(overrun)?;
    Ok(plan)
}

/// How to get the value of a flag that a plan needs.
const START_AGENT: &str = ". Start it there: bytegauge agent --listen ADDRESS:4711 --key-file FILE. Then add here: \
                           --host ADDRESS:4711 --key-file FILE (docs/far-host.md)";

/// The spec with the levels that follow from others.
fn settled(spec: &PlanSpec) -> Result<PlanSpec, PlanError> {
    let is_given = |name: &str| spec.parts.iter().any(|part| part.levels.contains_key(name));
    if let Some(factor) = spec.wants.iter().filter(|name| !is_given(name)).find_map(|name| factor::find(name)) {
        let flag = factor.flag();
        let step = if flag == "host" { START_AGENT } else { "" };
        return PlanError::usage(format!("the plan {} needs --{flag}: {}{step}", spec.name, factor.summary));
    }
    let mut spec = spec.clone();
    for part in &mut spec.parts {
        external::settle(part, spec.workload, spec.verify)?;
        far::settle(part, spec.workload)?;
        emulated::settle(part, spec.workload, spec.task.as_ref())?;
        part.one_each |= part.names_options();
    }
    Ok(spec)
}

/// The plan of a spec before it has groups and cells.
fn without_cells(spec: &PlanSpec, seed: u64) -> Plan {
    let mut design = Design::of(spec.workload);
    if spec.budget_ns.is_some() {
        design.blocks_max = BLOCKS_STATED_MAX;
    }
    let usual_ns = if trial_length::searches_knee(spec) { SEARCH_BUDGET_NS } else { BUDGET_NS };
    Plan {
        name: spec.name.clone(),
        workload: spec.workload,
        task: spec.task.clone(),
        versus: None,
        saved: None,
        asked: Vec::new(),
        seed,
        objective: None,
        margin: spec.margin,
        budget_ns: spec.budget_ns.unwrap_or(usual_ns),
        blocks: spec.blocks,
        analyses: spec.analyses,
        audit: spec.audit,
        ends: spec.ends,
        verify: spec.verify,
        gentle: spec.gentle,
        groups: Vec::new(),
        cells: Vec::new(),
        artefacts: Vec::new(),
        families: Vec::new(),
        skipped: Vec::new(),
        notes: Vec::new(),
        design,
        seen: SeenPace::default(),
    }
}

/// Notes on levels that are not measured, and why.
fn note_what_is_left_out(plan: &mut Plan, spec: &PlanSpec) {
    let left =
        spec.parts.iter().filter(|part| part.names_options()).filter_map(|part| cross::note(spec.workload, part));
    left.for_each(|note| plan.note(note));
    note_collapsed(plan, spec);
    engines::note_left_out(plan, spec);
    let shown: Vec<&Cell> = plan.cells.iter().chain(&plan.artefacts).collect();
    let notes =
        [external::notes(plan.workload, &shown), far::notes(plan.workload, &shown), emulated::notes(&shown)].concat();
    notes.into_iter().for_each(|note| plan.note(note));
}

impl Plan {
    /// Groups that cannot be measured here screen nothing; if those were all, the others do.
    pub(crate) fn screen_what_is_left(&mut self, index: &Index) {
        let live = |groups: &[GroupId]| -> Vec<GroupId> {
            groups.iter().filter(|group| index.is_live(group)).cloned().collect()
        };
        let screened = |family: &Family| match live(&family.screened) {
            screened if screened.is_empty() && family.is_screened() => live(&family.groups),
            screened => screened,
        };
        let screened: Vec<Vec<GroupId>> = self.families.iter().map(screened).collect();
        for (family, screened) in self.families.iter_mut().zip(screened) {
            family.screened = screened;
        }
    }
}

/// Refuses too many cells before any is made: ranges multiply, and so does the memory for what they make.
fn refuse_too_many(spec: &PlanSpec) -> Result<(), PlanError> {
    let (workload, mut cells) = (spec.workload, 0);
    let exceeds = |part: Part| {
        joints(workload, &part).into_iter().any(|joint| {
            let combinations = |role| cross(workload, &part, role, joint.as_ref()).len();
            cells += combinations(Role::Condition) * combinations(Role::Choice);
            cells > CELLS_MAX
        })
    };
    if !spec.parts.iter().flat_map(Part::by_program).any(exceeds) {
        return Ok(());
    }
    let longest = spec.parts.iter().filter_map(|part| longest(workload, part)).max_by_key(|(_, levels)| *levels);
    let (flag, levels) = longest.map_or_else(Default::default, |(factor, levels)| (factor.flag(), levels));
    PlanError::usage(format!(
        "the cells are too many ({CELLS_MAX} at most): use shorter lists or ranges, above all of --{flag}, which has {levels} \
         levels"
    ))
}

/// Options of one test in two parts would be ranked separately and never compared with each other.
const ASKED_BEFORE: &str = "a [[part]] repeats a test of an earlier part with other options: they were left out; \
                            write all options of a test into one [[part]]";

/// Options, by a hash of each, by the conditions under which they are compared. Conditions of one part share them. A plan of
/// 100,000 options has no room for a second copy of each.
type OptionsByCondition = HashMap<Spec, Rc<HashSet<u64>>>;

fn hash_of(choice: &Spec) -> u64 {
    let mut hasher = DefaultHasher::new();
    choice.hash(&mut hasher);
    hasher.finish()
}

/// Crosses one part's levels and adds its groups, families and cells, except groups that an earlier part added.
fn add_part(plan: &mut Plan, spec: &PlanSpec, part: &Part, asked: &mut OptionsByCondition) -> Result<(), PlanError> {
    let mut families: HashMap<Spec, Family> = HashMap::new();
    let mut family_order = Vec::new();
    let mut own: HashMap<Spec, GroupId> = HashMap::new();
    for joint in joints(spec.workload, part) {
        let crossed = |role| cross(spec.workload, part, role, joint.as_ref());
        let mut choices = crossed(Role::Choice);
        if choices.extract_if(.., |choice| is_too_large(choice)).count() > 0 {
            plan.note("batches larger than their ring were left out".into());
        }
        let is_shown = |choice: &mut Spec| kind_of(part, choice) != CellKind::Candidate;
        let shown: Vec<Spec> = choices.extract_if(.., is_shown).collect();
        let hashes: Rc<HashSet<u64>> = Rc::new(choices.iter().map(hash_of).collect());
        let count = choices.len();
        let all = crossed(Role::Condition);
        let last = all.len().saturating_sub(1);
        for (at, conditions) in all.into_iter().enumerate() {
            let mut conditions = apply_profile(spec, part, conditions)?;
            if part.compares_transports() {
                drop_usual_of_few(spec.workload, part, &mut conditions);
            }
            // Transports that are compared share their groups.
            if let Some(group) = own.get(&conditions).filter(|_| part.compares_transports()) {
                add_cells(plan, group, &conditions, of_next(&mut choices, at == last));
                add_shown(plan, part, group, &conditions, &shown);
                let first = families.values_mut().find(|family| family.groups.first() == Some(group));
                first.into_iter().for_each(|family| family.choices += count);
                continue;
            }
            if let Some(earlier) = asked.get(&conditions) {
                if !hashes.is_subset(earlier) {
                    plan.note(ASKED_BEFORE.into());
                }
                continue;
            }
            asked.insert(conditions.clone(), Rc::clone(&hashes));
            let group = GroupId(format!("g{}", plan.groups.len() + 1));
            own.insert(conditions.clone(), group.clone());
            add_cells(plan, &group, &conditions, of_next(&mut choices, at == last));
            add_shown(plan, part, &group, &conditions, &shown);
            let mut key = conditions.clone();
            key.retain(|name| !factor::find(name).is_some_and(|factor| factor.within_test));
            let family = families.entry(key.clone()).or_insert_with(|| {
                family_order.push(key);
                new_family(plan, part, &conditions, count)
            });
            if is_screened(spec.workload, part, &conditions) {
                family.screened.push(group.clone());
            }
            family.groups.push(group.clone());
            plan.groups.push(Group { id: group, factors: conditions });
        }
    }
    for mut family in family_order.iter().filter_map(|key| families.remove(key)) {
        if !family.is_screened() {
            family.screened.clear();
        } else if family.screened.is_empty() {
            // The screen names levels that do not go together: every group is screened then.
            family.screened.clone_from(&family.groups);
        }
        plan.families.push(family);
    }
    Ok(())
}

/// A family without groups, with as many options.
fn new_family(plan: &Plan, part: &Part, conditions: &Spec, choices: usize) -> Family {
    // How long a program runs is not known beforehand: its values are screened, and changes of its sockets that follow from its
    // watched run. Of those that the user named the interval of each one is wanted.
    let (named, usual) = match plan.task.as_ref().map(|task| task.changes.as_ref()) {
        Some(Some(changes)) if changes.are_proposed && plan.blocks.is_none() => (true, Finalists::ThatFit),
        Some(Some(_)) => (true, Finalists::All),
        None if part.one_each => (true, Finalists::All),
        Some(None) | None => (false, Finalists::Cap(FINALISTS)),
    };
    Family {
        groups: Vec::new(),
        screened: Vec::new(),
        finalists: part.finalists.unwrap_or(usual),
        named: named && part.finalists.is_none(),
        choices,
        trial_ns: part.trial_ns.unwrap_or_else(|| plan.design.lengths(conditions).confirm_ns),
    }
}

/// The kind of the cell of a combination.
fn kind_of(part: &Part, choice: &Spec) -> CellKind {
    if is_artefact(choice) { CellKind::Artefact } else { relay::kind(part, choice) }
}

/// The choices for the next conditions: the last ones need no copy.
fn of_next(choices: &mut Vec<Spec>, is_last: bool) -> Vec<Spec> {
    if is_last { std::mem::take(choices) } else { choices.clone() }
}

/// The levels of a cell.
fn factors(conditions: &Spec, choice: &Spec) -> Spec {
    let mut factors = conditions.clone();
    factors.extend(choice);
    factors
}

/// Choices that are freed together, when their cells are made.
const CHOICES_FREED: usize = 4096;

/// Adds a cell for each combination of options that are compared.
fn add_cells(plan: &mut Plan, group: &GroupId, conditions: &Spec, mut choices: Vec<Spec>) {
    choices.reverse();
    while let Some(choice) = choices.pop() {
        let (id, kind) = (CellId(format!("c{}", plan.cells.len() + 1).into()), CellKind::Candidate);
        plan.cells.push(Cell { id, group: group.clone(), kind, twin_of: None, factors: factors(conditions, &choice) });
        if choices.len().is_multiple_of(CHOICES_FREED) {
            choices.shrink_to_fit();
        }
    }
}

/// Adds a cell for each combination of options that are shown with those that are compared.
fn add_shown(plan: &mut Plan, part: &Part, group: &GroupId, conditions: &Spec, shown: &[Spec]) {
    for choice in shown {
        let kind = kind_of(part, choice);
        if kind == CellKind::Artefact && !shows_artefacts(conditions) {
            continue;
        }
        let id = CellId(format!("a{}", plan.artefacts.len() + 1).into());
        plan.artefacts.push(Cell {
            id,
            group: group.clone(),
            kind,
            twin_of: None,
            factors: factors(conditions, choice),
        });
    }
}

/// Drops the usual level of conditions that only some of the compared transports have (no load on the path of calls, which a
/// Unix socket cannot have): it makes no difference between them.
fn drop_usual_of_few(workload: Workload, part: &Part, conditions: &mut Spec) {
    let transports = part.transports(workload);
    for factor in FACTORS.iter().filter(|factor| factor.role == Role::Condition) {
        let usual = factor.default_in(workload).and_then(|text| factor.kind.parse(text).ok());
        let is_usual = usual.is_some_and(|usual| conditions.get(factor.name) == usual);
        // The age of connections decides how long those that have one are warmed up.
        let is_plain = is_usual && factor.key != FactorKey::connection_age;
        if is_plain && transports.iter().any(|transport| !(factor.fits)(transport)) {
            conditions.set(factor.name, Level::Absent);
        }
    }
}

/// Transports are compared where all other conditions are the same over each of them.
fn refuse_transports_apart(plan: &Plan, spec: &PlanSpec) -> Result<(), PlanError> {
    if !spec.parts.iter().any(|part| part.compares_transports() && part.transports(spec.workload).len() > 1) {
        return Ok(());
    }
    let over = |group: &GroupId| -> BTreeSet<String> {
        let cells = plan.cells.iter().filter(|cell| cell.group == *group);
        cells.map(|cell| cell.factors.get("transport").to_string()).collect()
    };
    let apart: Vec<&Group> =
        plan.groups.iter().filter(|group| group.factors.transport().is_none() && over(&group.id).len() == 1).collect();
    let [first, second, ..] = apart[..] else { return Ok(()) };
    let differs = FACTORS.iter().find(|row| first.factors.get(row.name) != second.factors.get(row.name));
    let differs = differs.map_or_else(String::new, |factor| {
        let levels = [first, second].map(|group| group.factors.get(factor.name).to_string());
        format!(" (--{}: {}). Give it one level for both", factor.flag(), levels.join(" and "))
    });
    let names: Vec<String> = [first, second].iter().flat_map(|group| over(&group.id)).collect();
    let names = names.join(" and ");
    PlanError::usage(format!("--compare transport: {names} are measured under different conditions{differs}"))
}

/// Whether all cells are screened under these conditions: those the part names, else the first placement and
/// the two extremes of every other condition within the family.
fn is_screened(workload: Workload, part: &Part, conditions: &Spec) -> bool {
    FACTORS.iter().filter(|factor| factor.within_test).all(|factor| {
        let level = conditions.level(factor.key);
        if level == Level::Absent {
            return true;
        }
        if let Some(named) = part.screen.get(factor.name) {
            return named.contains(&level);
        }
        let Some(transport) = conditions.transport() else { return true };
        let levels = part.levels(workload, factor, Some(transport));
        let by_profiles = SET_BY_PROFILES.contains(&factor.name) || factor.section == HelpSection::Work;
        let set_by_profile = conditions.profile().is_some() && by_profiles;
        let is_last = factor.key != FactorKey::placement && levels.last() == Some(&level);
        set_by_profile || levels.first() == Some(&level) || is_last
    })
}

/// The plan of flags, for tests: factor names with their levels as text.
#[cfg(test)]
pub(crate) fn plan_of_flags(workload: Workload, flags: &[(&str, &str)]) -> Result<Plan, String> {
    let mut spec = PlanSpec::named("a test", workload);
    let flags: Vec<_> = flags.iter().map(|(name, text)| (factor::find(name).unwrap(), (*text).to_owned())).collect();
    spec.set_all(&flags).map_err(|error| error.to_string())?;
    resolve(&spec, &Catalog::default(), 1).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
