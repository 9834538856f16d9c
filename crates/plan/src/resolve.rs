//! From a spec to groups, families and cells: crosses levels, collapses what does not apply, names what
//! cannot be measured here.

use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use bytegauge_model::factor::{self, FACTORS, Role};
use bytegauge_model::{Cell, CellId, CellKind, Group, GroupId, Level, Spec, Transport, Workload};

use crate::asked;
use crate::catalog::Catalog;
use crate::cross::{apply_profile, count, cross, longest};
use crate::design::{
    BLOCKS_STATED_MAX, BUDGET_NS, Design, FINALISTS, Finalists, OVERRUN_STATED, OVERRUN_UNSTATED, SEARCH_BUDGET_NS,
};
use crate::engines;
use crate::index::Index;
use crate::meaning::{joints, note_collapsed, refuse_what_fits_nothing, refuse_what_is_elsewhere, refuse_what_is_moot};
use crate::missing::skip_what_is_missing;
use crate::plan::{Family, Plan, SeenPace};
use crate::relay;
use crate::ring::{is_artefact, is_too_large, note_artefacts, refuse_what_no_ring_can, shows_artefacts};
use crate::search;
use crate::spec::{Part, PlanError, PlanSpec, SET_BY_PROFILES};
use crate::task::refuse_what_no_task_can;
use crate::{emulated, external, far};

/// More cells than this is a mistake in a range, not an experiment.
const CELLS_MAX: u64 = 100_000;

/// Conditions that vary within a family: one recommendation may serve all of them.
const WITHIN_FAMILY: &[&str] = &[
    "placement",
    "profile",
    "work",
    "working_set",
    "writer_work",
    "call_work",
    "idle_flows",
    "competing_flows",
    "load_flows",
];

/// Resolves a spec on the machine that the catalog describes.
///
/// # Errors
/// [`PlanError`] when the spec contradicts itself, or nothing of it can be measured here.
pub fn resolve(spec: &PlanSpec, catalog: &Catalog, seed: u64) -> Result<Plan, PlanError> {
    let is_given = |name: &str| spec.parts.iter().any(|part| part.levels.contains_key(name));
    if let Some(factor) = spec.wants.iter().filter(|name| !is_given(name)).find_map(|name| factor::find(name)) {
        return Err(PlanError::Wanted { plan: spec.name.clone(), flag: factor.flag(), summary: factor.summary });
    }
    let mut spec = spec.clone();
    for part in &mut spec.parts {
        external::settle(part, spec.workload, spec.verify)?;
        far::settle(part, spec.workload)?;
        emulated::settle(part, spec.workload)?;
        part.one_each |= part.names_options();
    }
    let spec = &spec;
    let mut plan = Plan {
        name: spec.name.clone(),
        workload: spec.workload,
        task: spec.task.clone(),
        versus: None,
        saved: None,
        asked: Vec::new(),
        seed,
        margin: spec.margin,
        budget_ns: spec.budget_ns.unwrap_or(BUDGET_NS),
        blocks: spec.blocks,
        looks: spec.looks,
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
        design: Design::of(spec.workload),
        seen: SeenPace::default(),
    };
    if spec.budget_ns.is_some() {
        plan.design.blocks_max = BLOCKS_STATED_MAX;
    }
    if spec.budget_ns.is_none() && search::is_wanted(spec) {
        plan.budget_ns = SEARCH_BUDGET_NS;
    }
    refuse_what_is_elsewhere(spec)?;
    refuse_what_no_ring_can(spec)?;
    refuse_what_no_task_can(spec)?;
    refuse_what_fits_nothing(spec)?;
    engines::refuse_what_suits_nothing(spec)?;
    refuse_too_many(spec)?;
    let mut asked = OptionsByCondition::new();
    for part in spec.parts.iter().flat_map(Part::by_program) {
        relay::refuse_without_one(spec.workload, &part)?;
        add_part(&mut plan, spec, &part, &mut asked)?;
    }
    if let ([], Some(artefact)) = (plan.cells.as_slice(), plan.artefacts.first()) {
        return Err(PlanError::ArtefactAlone { name: artefact.factors.get("implementation").to_string() });
    }
    refuse_what_is_moot(&plan, spec)?;
    refuse_transports_apart(&plan, spec)?;
    let left =
        spec.parts.iter().filter(|part| part.names_options()).filter_map(|part| asked::note(spec.workload, part));
    left.for_each(|note| plan.note(note));
    note_collapsed(&mut plan, spec);
    engines::note_left_out(&mut plan, spec);
    external::note(&mut plan);
    relay::note_sizes_of_ends(&mut plan);
    let shown: Vec<&Cell> = plan.cells.iter().chain(&plan.artefacts).collect();
    let notes = [far::notes(plan.workload, &shown), emulated::notes(&shown)].concat();
    notes.into_iter().for_each(|note| plan.note(note));
    skip_what_is_missing(&mut plan, catalog);
    note_artefacts(&mut plan);
    plan.screen_what_is_left(&Index::of(&plan));
    if plan.skipped.len() == plan.cells.len() {
        let reason = plan.skipped.first().and_then(|(_, outcome)| outcome.reason()).unwrap_or("it has no cells");
        return Err(PlanError::NothingLeft(reason.to_owned()));
    }
    // How long a program runs is seen first.
    let is_stated = spec.budget_ns.is_some() && spec.workload != Workload::Check;
    let overrun = if is_stated { OVERRUN_STATED } else { OVERRUN_UNSTATED };
    plan.fit_or_refuse(overrun)?;
    Ok(plan)
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

/// Counts the cells before any is made: ranges multiply, and so does the memory for what they make.
fn refuse_too_many(spec: &PlanSpec) -> Result<(), PlanError> {
    let workload = spec.workload;
    let cells_of = |part: &Part| {
        let counted = |role, joint: Option<&Transport>| count(workload, part, role, joint, CELLS_MAX);
        let over = |joint: Option<Transport>| {
            counted(Role::Condition, joint.as_ref()).saturating_mul(counted(Role::Choice, joint.as_ref()))
        };
        joints(workload, part).into_iter().map(over).fold(0, u64::saturating_add)
    };
    let cells = spec.parts.iter().flat_map(Part::by_program).map(|part| cells_of(&part)).fold(0, u64::saturating_add);
    if cells <= CELLS_MAX {
        return Ok(());
    }
    let longest = spec.parts.iter().filter_map(|part| longest(workload, part)).max_by_key(|(_, levels)| *levels);
    let (flag, levels) = longest.map_or_else(Default::default, |(factor, levels)| (factor.flag(), levels));
    Err(PlanError::TooManyCells { cells, max: CELLS_MAX, flag, levels })
}

/// Options of one test in two parts would be ranked separately and never compared with each other.
const ASKED_BEFORE: &str = "a [[part]] repeats a test of an earlier part with other options: they were left out; \
                            write all options of a test into one [[part]]";

/// Options by the conditions under which they are compared. Conditions of one part share them.
type OptionsByCondition = HashMap<Spec, Rc<[Spec]>>;

/// Crosses one part's levels and adds its groups, families and cells, except groups that an earlier part added.
fn add_part(plan: &mut Plan, spec: &PlanSpec, part: &Part, asked: &mut OptionsByCondition) -> Result<(), PlanError> {
    let mut families: HashMap<Spec, Family> = HashMap::new();
    let mut family_order = Vec::new();
    let mut own: HashMap<Spec, GroupId> = HashMap::new();
    for joint in joints(spec.workload, part) {
        let crossed = |role| cross(spec.workload, part, role, joint.as_ref());
        let (fitting, too_large): (Vec<_>, Vec<_>) = crossed(Role::Choice).into_iter().partition(|c| !is_too_large(c));
        if !too_large.is_empty() {
            plan.note("batches larger than their ring were left out".into());
        }
        let (choices, shown): (Vec<Spec>, Vec<Spec>) =
            fitting.into_iter().partition(|choice| kind_of(part, choice) == CellKind::Candidate);
        let choices: Rc<[Spec]> = choices.into();
        for conditions in crossed(Role::Condition) {
            let mut conditions = apply_profile(spec, part, conditions)?;
            if part.compares_transports() {
                drop_usual_of_few(spec.workload, part, &mut conditions);
            }
            // Transports that are compared share their groups.
            if let Some(group) = own.get(&conditions).filter(|_| part.compares_transports()) {
                add_cells(plan, part, group, &conditions, (&choices, &shown));
                let first = families.values_mut().find(|family| family.groups.first() == Some(group));
                first.into_iter().for_each(|family| family.choices += choices.len());
                continue;
            }
            if let Some(earlier) = asked.get(&conditions) {
                if choices.iter().any(|choice| !earlier.contains(choice)) {
                    plan.note(ASKED_BEFORE.into());
                }
                continue;
            }
            asked.insert(conditions.clone(), Rc::clone(&choices));
            let group = GroupId(format!("g{}", plan.groups.len() + 1));
            own.insert(conditions.clone(), group.clone());
            add_cells(plan, part, &group, &conditions, (&choices, &shown));
            let mut key = conditions.clone();
            key.retain(|name| !WITHIN_FAMILY.contains(&name));
            // How long a program runs is not known beforehand: its values are screened.
            let names_options = part.one_each && spec.workload != Workload::Check;
            let usual = if names_options { Finalists::All } else { Finalists::Cap(FINALISTS) };
            let family = families.entry(key.clone()).or_insert_with(|| {
                family_order.push(key);
                Family {
                    groups: Vec::new(),
                    screened: Vec::new(),
                    aside: Vec::new(),
                    finalists: part.finalists.unwrap_or(usual),
                    named: names_options && part.finalists.is_none(),
                    choices: choices.len(),
                    trial_ns: part.trial_ns.unwrap_or_else(|| plan.design.confirm_length_ns(&conditions)),
                }
            });
            if is_screened(spec.workload, part, &conditions) {
                family.screened.push(group.clone());
            }
            if !part.aside.is_empty() && part.aside.iter().all(|(name, levels)| levels.contains(&conditions.get(name)))
            {
                family.aside.push(group.clone());
            }
            family.groups.push(group.clone());
            plan.groups.push(Group { id: group, factors: conditions });
        }
    }
    for key in family_order {
        if let Some(mut family) = families.remove(&key) {
            if !family.is_screened() {
                family.screened.clear();
            } else if family.screened.is_empty() {
                // The screen names levels that do not go together: every group is screened then.
                family.screened.clone_from(&family.groups);
            }
            plan.families.push(family);
        }
    }
    Ok(())
}

/// The kind of the cell of a combination.
fn kind_of(part: &Part, choice: &Spec) -> CellKind {
    if is_artefact(choice) { CellKind::Artefact } else { relay::kind(part, choice) }
}

/// Adds a cell for each combination of options: those that are compared, and those that are shown with them.
fn add_cells(plan: &mut Plan, part: &Part, group: &GroupId, conditions: &Spec, (choices, shown): (&[Spec], &[Spec])) {
    let factors = |choice: &Spec| {
        let mut factors = conditions.clone();
        factors.extend(choice);
        factors
    };
    for choice in choices {
        let (id, kind) = (CellId(format!("c{}", plan.cells.len() + 1)), CellKind::Candidate);
        plan.cells.push(Cell { id, group: group.clone(), kind, twin_of: None, factors: factors(choice) });
    }
    for choice in shown {
        let kind = kind_of(part, choice);
        if kind == CellKind::Artefact && !shows_artefacts(conditions) {
            continue;
        }
        let id = CellId(format!("a{}", plan.artefacts.len() + 1));
        plan.artefacts.push(Cell { id, group: group.clone(), kind, twin_of: None, factors: factors(choice) });
    }
}

/// Drops the usual level of conditions that only some of the compared transports have (no load on the path of calls, which a
/// Unix socket cannot have): it makes no difference between them.
fn drop_usual_of_few(workload: Workload, part: &Part, conditions: &mut Spec) {
    let transports = part.transports(workload);
    for factor in FACTORS.iter().filter(|factor| factor.role == Role::Condition) {
        let usual = factor.default_in(workload).and_then(|text| factor.kind.parse(text).ok());
        let is_usual = usual.is_some_and(|usual| conditions.get(factor.name) == usual);
        if is_usual && transports.iter().any(|transport| !(factor.fits)(transport)) {
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
    Err(PlanError::TransportsApart { transports: names.join(" and "), differs })
}

/// Whether all cells are screened under these conditions: those the part names, else the first placement and
/// the two extremes of every other condition within the family.
fn is_screened(workload: Workload, part: &Part, conditions: &Spec) -> bool {
    WITHIN_FAMILY.iter().all(|name| {
        let level = conditions.get(name);
        if level == Level::Absent {
            return true;
        }
        if let Some(named) = part.screen.get(name) {
            return named.contains(&level);
        }
        let Some(factor) = FACTORS.iter().find(|factor| factor.name == *name) else { return true };
        let Some(transport) = conditions.transport() else { return true };
        let levels = part.levels(workload, factor, Some(transport));
        let by_profiles = SET_BY_PROFILES.contains(name) || matches!(*name, "writer_work" | "call_work");
        let set_by_profile = conditions.profile().is_some() && by_profiles;
        set_by_profile || levels.first() == Some(&level) || (*name != "placement" && levels.last() == Some(&level))
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
mod tests {
    use bytegauge_model::{Arrivals, Work};

    use super::*;
    use crate::file::parse;
    use crate::ready;

    fn plan_of(text: &str) -> Result<Plan, PlanError> {
        resolve(&parse("t", text).unwrap(), &Catalog::default(), 1)
    }

    fn check_error(text: &str, expected: &str) {
        assert_eq!(plan_of(text).expect_err(text).to_string(), expected, "{text}");
    }

    #[test]
    fn every_ready_plan_resolves_within_its_budget() {
        for (name, _) in ready::PLANS {
            let spec = ready::shown(name).unwrap();
            let plan = resolve(&spec, &Catalog::default(), 1).unwrap();
            let schedule = plan.schedule();
            assert!(schedule.blocks >= plan.design.blocks_min, "{name}: {schedule:?}");
            assert!(schedule.total_ns() <= plan.budget_ns, "{name}: {schedule:?}");
            assert_eq!(spec.budget_ns, Some(plan.budget_ns), "{name}: {:?}", plan.notes);
            assert!(!plan.notes.iter().any(|note| note.contains("too short")), "{name}: {:?}", plan.notes);
        }
    }

    #[test]
    fn repeated_tests_are_left_out_with_a_note() {
        let plan = |second: &str| {
            let head =
                "transport = \"unix\"\nprofile = \"sum\"\nwrite_size = \"64K\"\n[[part]]\nread_size = \"4K,64K\"\n";
            let spec = parse("t", &format!("{head}[[part]]\nread_size = \"{second}\"")).unwrap();
            resolve(&spec, &Catalog::default(), 1).unwrap()
        };
        let (same, other) = (plan("64K"), plan("1M"));
        assert_eq!((same.cells.len(), other.cells.len()), (2, 2));
        let count = |plan: &Plan| plan.notes.iter().filter(|note| *note == ASKED_BEFORE).count();
        assert_eq!((count(&same), count(&other)), (0, 1));
    }

    #[test]
    fn conditions_make_groups_and_choices_make_cells() {
        let plan =
            plan_of("transport = \"unix,tcp\"\nread-size = \"4K,8K\"\nwrite-size = \"64K\"\nprofile = \"drain,sum\"");
        let plan = plan.unwrap();
        assert_eq!((plan.groups.len(), plan.cells.len(), plan.families.len()), (4, 8, 2));
        assert_eq!(plan.groups[1].factors.work(), Some(Work::Sum));
        assert!(!plan.families[0].is_screened());
    }

    #[test]
    fn what_the_peer_decides_makes_groups() {
        let text = "transport = \"unix\"\nprofile = \"sum\"\nread-size = \"4K,8K\"\nalso = \"write-size\"";
        let shape = |more: &str| {
            let plan = plan_of(&format!("{text}\n{more}")).unwrap();
            (plan.groups.len(), plan.cells.len(), plan.families.iter().map(|family| family.choices).max())
        };
        // By default the peer writes small, middling and large.
        assert_eq!(shape("role = \"reader\""), (3, 6, Some(2)));
        assert_eq!(shape("role = \"reader\"\nwrite-size = \"4K,64K\""), (2, 4, Some(2)));
        assert_eq!(shape("role = \"writer\"\nwrite-size = \"4K,64K,1M\""), (2, 6, Some(3)));
        assert_eq!(shape("role = \"both\"\nwrite-size = \"4K,64K\""), (1, 4, Some(4)));
        assert_eq!(shape("role = \"reader,both\"\nwrite-size = \"4K,64K\""), (3, 8, Some(4)));
    }

    #[test]
    fn steady_paths_are_warmed_before_they_are_measured() {
        let text = "transport = \"unix\"\nprofile = \"sum\"\nread-size = \"4K,8K\"\nwrite-size = \"64K\"";
        let plan = |more: &str| plan_of(&format!("{text}\nplacement = \"cross-core\"\n{more}")).unwrap();
        let (steady, fresh) = (plan(""), plan("connection-age = \"fresh\""));
        let lengths = |plan: &Plan| {
            let conditions = &plan.groups[0].factors;
            (plan.design.confirm_warmup_ns(conditions, Some(2_500_000)), plan.families[0].trial_ns)
        };
        assert_eq!(lengths(&steady), (50_000_000, 25_000_000));
        assert_eq!(lengths(&fresh), (2_500_000, 6_000_000));
        assert_eq!(steady.schedule().calibrate_ns, 0);
        assert!(fresh.schedule().calibrate_ns > 0);
        assert!(steady.schedule().confirm_round_ns > 3 * 75_000_000);
    }

    #[test]
    fn one_ended_sources_have_no_writer() {
        let plan =
            plan_of("transport = \"unix,/dev/zero\"\nread-size = \"4K\"\nwrite-size = \"4K,8K\"\nalso = \"profile\"")
                .unwrap();
        let device: Vec<_> = plan.cells.iter().filter(|c| c.factors.get("transport") == "/dev/zero".into()).collect();
        // Three profiles, one cell each.
        assert_eq!(device.len(), 3);
        assert!(device.iter().all(|cell| cell.factors.write_size().is_none()));
        assert_eq!(plan.notes[plan.notes.len() - 1..], ["write-size does not apply to /dev/zero: collapsed there"]);
    }

    #[test]
    fn contradictions_are_wrong_usage() {
        check_error(
            "transport = \"/dev/zero\"\nwrite-size = 4096",
            "--write-size fits none of the chosen transports (/dev/zero): it applies to unix, tcp, tcp6, mptcp, unix-seqpacket, vsock, pipe, udp, udp6, unix-dgram",
        );
        check_error(
            "profile = \"sum\"\nwork = \"copy\"",
            "--work is set by the profiles already: leave out --profile or --work",
        );
        check_error("profile = \"summ\"", "no profile is called `summ`: did you mean `sum`?");
        let error = plan_of("read-size = \"1..16M\"\nwrite-size=\"1..16M\"\ntime = \"1s\"").unwrap_err().to_string();
        assert!(error.starts_with("a budget of 1 s is too short for 625 cells in 1 group: give --time "), "{error}");
    }

    #[test]
    fn too_many_cells_are_counted_and_not_made() {
        let text = "workload = \"call\"\ntransport = \"tcp\"\nprofile = \"rpc\"\nserver-engine = \"blocking\"\n\
                    request = \"1..16M\"\nresponse = \"1..16M\"\nflows = \"1..1024\"\ndepth = \"1..1024\"\nthink-time = \"1ns..1s\"";
        check_error(
            text,
            "2344375 cells are too many (100000 at most): use shorter lists or ranges, above all of --think-time, which has 31 levels",
        );
        let part = text.replace("workload = \"call\"\n", "");
        let parts = format!("workload = \"call\"\n[[part]]\n{part}\n[[part]]\n{part}");
        let error = plan_of(&parts).unwrap_err().to_string();
        assert!(error.starts_with("4688750 cells are too many"), "{error}");
    }

    #[test]
    fn calls_are_crossed_by_their_own_factors() {
        let plan =
            plan_of("workload = \"call\"\ntransport = \"tcp\"\nserver-engine = \"blocking,epoll\"\nalso = \"profile\"")
                .unwrap();
        assert_eq!((plan.groups.len(), plan.cells.len(), plan.families.len()), (2, 4, 1));
        let profiles: Vec<_> = plan.groups.iter().map(|group| group.factors.get("profile").to_string()).collect();
        assert_eq!(profiles, ["rpc", "many-idle"]);
        assert_eq!(plan.groups[1].factors.idle_flows(), Some(1000));
        assert_eq!(plan.families[0].trial_ns, 50_000_000);
        let threads: Vec<_> = plan.cells.iter().map(|cell| cell.factors.server_threads()).collect();
        assert_eq!(threads, [None, Some(1), None, Some(1)]);
        assert!(plan.cells.iter().all(|cell| cell.factors.workload() == Workload::Call));
        assert!(plan.cells.iter().all(|cell| !cell.factors.states("write_size")));
    }

    #[test]
    fn a_search_is_a_condition_with_its_time() {
        let text = "workload = \"call\"\ntransport = \"unix\"\nprofile = \"rpc\"\nserver-engine = \"blocking,epoll\"";
        let (plain, searching) = (plan_of(text).unwrap(), plan_of(&format!("{text}\nslo = \"p99=2ms\"")).unwrap());
        assert_eq!((searching.groups.len(), searching.cells.len()), (1, 2));
        for cell in &searching.cells {
            assert_eq!((cell.factors.call_rate, cell.factors.think_time), (None, None));
            assert_eq!(cell.factors.arrivals(), Some(Arrivals::Constant));
            assert!(!cell.factors.offers_load() && cell.factors.slo().is_some());
        }
        let round_ns = |plan: &Plan| plan.schedule().confirm_round_ns;
        assert!(round_ns(&searching) > 5 * round_ns(&plain), "{} {}", round_ns(&searching), round_ns(&plain));
        assert!(searching.budget_ns > plain.budget_ns);
        let both = plan_of(&format!("{text}\nslo = \"none,p99=2ms\"\nrate = \"max,10k\"")).unwrap();
        assert_eq!(both.groups.len(), 3);
        let error = plan_of(&format!("{text}\nslo = \"p99.99=2ms\"\ntime = \"20s\"")).unwrap_err().to_string();
        assert!(error.starts_with("a budget of 20 s is too short for 2 cells in 1 group: give --time "), "{error}");
    }

    #[test]
    fn factors_without_effect_are_wrong_usage() {
        let check = |text: &str, expected: &str| check_error(&format!("workload = \"call\"\n{text}"), expected);
        check("transport = \"tcp,pipe\"", "--transport: pipe does not carry the workload call: use unix, tcp or tcp6");
        check("arrivals = \"poisson\"", "--arrivals has no effect without --rate or --slo");
        let none = "has no effect without --slo none (a search sets the rates itself): leave one of them out";
        check("slo = \"p99=2ms\"\nrate = \"10k\"", &format!("--rate {none}"));
        check("slo = \"p99=2ms\"\nthink-time = \"1ms\"", &format!("--think-time {none}"));
        check("rcvbuf-on = \"client\"", "--rcvbuf-on has no effect without a size in --rcvbuf");
        check(
            "server-engine = \"blocking\"\nserver-threads = 2",
            "--server-threads has no effect without another --server-engine",
        );
        check(
            "transport = \"unix\"\nlinger = 0",
            "--linger fits none of the chosen transports (unix): it applies to tcp, tcp6, mptcp",
        );
        check("profile = \"drain\"", "no profile is called `drain`: known are echo, rpc, many-idle");
        check(
            "profile = \"rpc\"\nidle-flows = 10",
            "--idle-flows is set by the profiles already: leave out --profile or --idle-flows",
        );
    }

    #[test]
    fn a_missing_engine_is_skipped_with_its_reason() {
        let reason = "epoll is unavailable here: use another --server-engine";
        let catalog =
            Catalog { missing_engines: [("epoll:edge".to_owned(), reason.to_owned())].into(), ..Catalog::default() };
        let text = "workload = \"call\"\ntransport = \"unix\"\nprofile = \"rpc,echo\"\nserver-engine = \"blocking,epoll:edge\"";
        let plan = resolve(&parse("t", text).unwrap(), &catalog, 1).unwrap();
        assert_eq!((plan.skipped.len(), plan.notes.as_slice()), (2, [format!("skipped: {reason}")].as_slice()));
    }

    #[test]
    fn files_of_idle_and_competing_connections_count() {
        let catalog = Catalog { open_files_max: Some(2000), ..Catalog::default() };
        let text = "workload = \"call\"\nflows = 100\nidle-flows = 1000\ncompeting-flows = 50";
        let error = resolve(&parse("t", text).unwrap(), &catalog, 1).unwrap_err().to_string();
        assert!(error.contains("1150 flows need 2314 open files, the hard limit is 2000"), "{error}");
    }

    #[test]
    fn missing_features_are_skipped_with_a_note() {
        let catalog = Catalog {
            missing_placements: [("cross-core".to_owned(), "one CPU only".to_owned())].into(),
            open_files_max: Some(1000),
            ..Catalog::default()
        };
        let text = "transport = \"unix\"\nread-size = \"4K\"\nwrite-size = \"4K\"\nplacement = \"cross-core,same-cpu\"";
        let plan = resolve(&parse("t", text).unwrap(), &catalog, 1).unwrap();
        assert_eq!(plan.skipped.len(), 3);
        assert_eq!(plan.notes, ["skipped: one CPU only"]);
        let error = resolve(&parse("t", &format!("{text}\nflows = 600")).unwrap(), &catalog, 1).unwrap_err();
        assert!(error.to_string().contains("one CPU only"), "{error}");
        let text = "transport = \"unix\"\nplacement = \"same-cpu\"\nflows = 600";
        let error = resolve(&parse("t", text).unwrap(), &catalog, 1).unwrap_err().to_string();
        assert!(error.contains("600 flows need 1264 open files, the hard limit is 1000"), "{error}");
    }

    #[test]
    fn a_missing_screen_moves() {
        let lacks = |name: &str| (name.to_owned(), "one CPU only".to_owned());
        let catalog = Catalog { missing_placements: [lacks("cross-core")].into(), ..Catalog::default() };
        let plan = resolve(&ready::find("buffer-grid").unwrap(), &catalog, 1).unwrap();
        let family = &plan.families[0];
        assert!(!family.screened.is_empty());
        assert!(family.screened.iter().all(|group| plan.measurable(group).next().is_some()));
    }

    #[test]
    fn screening_takes_the_extremes() {
        let plan = plan_of("transport = \"unix\"\nplacement = \"cross-core,same-cpu\"").unwrap();
        let family = &plan.families[0];
        assert!(family.is_screened());
        let shown: Vec<_> = family
            .screened
            .iter()
            .filter_map(|id| plan.group(id))
            .map(|g| format!("{}/{}", g.factors.get("placement"), g.factors.get("profile")))
            .collect();
        assert_eq!(shown, ["cross-core/drain", "cross-core/parser"]);
    }
}
