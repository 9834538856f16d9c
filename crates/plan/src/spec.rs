//! The user's request, typed: parts, factors with their levels, budget and design.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::str::FromStr;

use crate::PlanError;
use crate::design::{ANALYSES, ANALYSES_MAX, AUDIT_MAX, AUDIT_SHARE, FINALISTS_MIN, Finalists};
use bytegauge_model::factor::{self, FACTORS, Factor, Role, role_of};
use bytegauge_model::name_tables::PROFILES;
use bytegauge_model::relay_program::relay_names;
use bytegauge_model::{
    ComparedCondition, Ends, Level, Nanos, Place, ProgramRole, ProgramTask, TextError, Transport, Workload,
};

/// A profile that a plan defines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileSpec {
    /// Its name.
    pub name: String,
    /// The condition factors it sets.
    pub sets: Vec<(&'static str, Level)>,
}

/// Factors that profiles set. A user who sets one of them uses no profile.
pub(crate) const SET_BY_PROFILES: &[&str] = &["work", "working_set", "idle_flows"];

/// The factor for the end that the program controls.
const ROLE: &str = "role";
/// The factor for the condition that is compared.
const COMPARE: &str = "compare";

/// Default options of a relay program if no factor of its copying is given: the buffer.
const ASKED_OF_RELAYS: &[(&str, &str)] = &[("relay", "read-write"), ("relay_buffer", "4K,16K,64K,256K,1M")];

/// One crossing of factors.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Part {
    /// The levels of each factor that was named; the others keep their defaults.
    pub levels: BTreeMap<&'static str, Vec<Level>>,
    /// Levels of the conditions under which all cells are screened; other conditions only measure finalists.
    pub screen: BTreeMap<&'static str, Vec<Level>>,
    /// How many cells a family confirms.
    pub finalists: Option<Finalists>,
    /// Length of a confirmation trial, nanoseconds.
    pub trial_ns: Option<u64>,
    /// Whether factors that are not named have one level instead of their default lists.
    pub(crate) one_each: bool,
}

/// The whole request.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanSpec {
    /// The plan's name.
    pub name: String,
    /// A one-line summary.
    pub summary: String,
    /// The traffic over the paths.
    pub workload: Workload,
    /// Time for the whole session, nanoseconds; `None` takes the default.
    pub budget_ns: Option<u64>,
    /// Confirmation blocks, instead of as many as the budget allows.
    pub blocks: Option<u64>,
    /// Number of planned analyses.
    pub analyses: u64,
    /// Share of the time for the long-trial check.
    pub audit: f64,
    /// "Within x of the best", as a share.
    pub margin: f64,
    /// Threads or processes.
    pub ends: Ends,
    /// Whether every byte is checked at the sink.
    pub verify: bool,
    /// Whether every trial is followed by a pause of its own length.
    pub gentle: bool,
    /// Factors that the plan's user must give.
    pub wants: Vec<&'static str>,
    /// The user's program, in the workload tune.
    pub task: Option<ProgramTask>,
    /// Profiles defined here.
    pub profiles: Vec<ProfileSpec>,
    /// The crossings, measured in one session.
    pub parts: Vec<Part>,
}

/// Default of "within 5 % of the best".
pub const MARGIN: f64 = 0.05;

impl PlanSpec {
    /// A spec with one empty part: every factor at its default.
    pub fn named(name: &str, workload: Workload) -> PlanSpec {
        PlanSpec {
            name: name.into(),
            summary: String::new(),
            workload,
            budget_ns: None,
            blocks: None,
            analyses: ANALYSES,
            audit: AUDIT_SHARE,
            margin: MARGIN,
            ends: Ends::Threads,
            verify: false,
            gentle: false,
            wants: Vec::new(),
            task: None,
            profiles: Vec::new(),
            parts: vec![Part::default()],
        }
    }

    /// Sets factors in every part, as flags do. Work given by hand replaces the plan's profiles, and the
    /// other way round. Both together are a contradiction, which [`crate::resolve()`] refuses.
    ///
    /// # Errors
    /// When a level does not parse.
    pub fn set_all(&mut self, flags: &[(&'static Factor, String)]) -> Result<(), PlanError> {
        let given = |name: &str| flags.iter().any(|(factor, _)| factor.name == name);
        let by_hand = SET_BY_PROFILES.iter().any(|name| given(name));
        for part in &mut self.parts {
            if by_hand && !given("profile") {
                part.levels.remove("profile");
                part.screen.remove("profile");
            }
            if given("profile") && !by_hand {
                part.levels.retain(|name, _| !SET_BY_PROFILES.contains(name));
            }
        }
        for (factor, text) in flags {
            let levels = parse(factor, text)?;
            if factor.name == ROLE && self.asks_by_program() {
                self.ask_of(&levels);
                continue;
            }
            if factor.name == "relay" {
                self.make_time_for(&levels);
            }
            for part in &mut self.parts {
                part.set(factor, levels.clone());
            }
        }
        for part in &mut self.parts {
            if given("transport") {
                // What the plan names and no transport of the user has is left out; what the user names is refused.
                let transports = part.transports(self.workload);
                let fits = |name: &str| factor::find(name).is_none_or(|factor| transports.iter().any(factor.fits));
                part.levels.retain(|name, _| given(name) || fits(name));
            }
            // All levels that the user names are confirmed, even if the plan has fewer finalists.
            let programs = part.by_program();
            let is_named = |(factor, _): &(&'static Factor, String)| {
                programs.iter().any(|program| program.names_levels_of_option(factor.name))
            };
            if flags.iter().any(is_named) {
                part.finalists = None;
            }
        }
        Ok(())
    }

    /// Whether every part names its program.
    fn asks_by_program(&self) -> bool {
        self.parts.len() > 1 && self.parts.iter().all(|part| part.levels.contains_key(ROLE))
    }

    /// Keeps only the tests for these programs. A program without a test in the plan gets its usual test, under the
    /// conditions that all parts have in common.
    fn ask_of(&mut self, programs: &[Level]) {
        let is_asked = |program: &Level| self.parts.iter().any(|part| part.levels[ROLE].contains(program));
        let unasked: Vec<Level> = programs.iter().filter(|program| !is_asked(program)).cloned().collect();
        let (first, others) = (&self.parts[0].levels, &self.parts[1..]);
        let is_common = |(name, levels): &(&&'static str, &Vec<Level>)| {
            others.iter().all(|part| part.levels.get(**name) == Some(*levels))
        };
        let mut common: BTreeMap<_, _> =
            first.iter().filter(is_common).map(|(name, all)| (*name, all.clone())).collect();
        self.parts.retain_mut(|part| {
            let Some(asked) = part.levels.get_mut(ROLE) else { return false };
            asked.retain(|program| programs.contains(program));
            !asked.is_empty()
        });
        if !unasked.is_empty() {
            common.insert(ROLE, unasked);
            self.parts.push(Part { levels: common, ..Part::default() });
        }
    }

    /// Extends the time if the list of relays is longer than the plan's, unless a time is given.
    fn make_time_for(&mut self, relays: &[Level]) {
        let planned = self.parts.iter().filter_map(|part| part.levels.get("relay")).map(Vec::len).max();
        if let (Some(budget_ns), Some(planned)) = (self.budget_ns, planned)
            && relays.len() > planned
        {
            self.budget_ns = Some(budget_ns / planned as u64 * relays.len() as u64);
        }
    }

    /// The conditions that a profile sets.
    ///
    /// # Errors
    /// If neither the product nor the plan defines the profile.
    pub fn profile(&self, name: &str) -> Result<Vec<(&'static str, Level)>, PlanError> {
        if let Some(own) = self.profiles.iter().find(|profile| profile.name == name) {
            return Ok(own.sets.clone());
        }
        let of_workload = || PROFILES.iter().filter(|profile| profile.workload == self.workload);
        let Some(known) = of_workload().find(|profile| profile.name == name) else {
            let names = of_workload().map(|p| p.name).chain(self.profiles.iter().map(|p| p.name.as_str()));
            let hint = bytegauge_model::suggest::hint(name, names);
            return PlanError::usage(format!("no profile is called `{name}`{hint}"));
        };
        known
            .sets
            .iter()
            .map(|(name, text)| {
                let factor = factor::find(name).unwrap_or(&FACTORS[0]);
                let level = factor.kind.parse(text);
                level.map(|level| (factor.name, level)).map_err(|error| at(factor, &error))
            })
            .collect()
    }
}

impl Part {
    /// Sets a factor's levels. Conditions that are screened follow: a level that the factor no longer has is removed.
    pub fn set(&mut self, factor: &'static Factor, levels: Vec<Level>) {
        if let Some(kept) = self.screen.get_mut(factor.name) {
            kept.retain(|level| levels.contains(level));
            if kept.is_empty() {
                self.screen.remove(factor.name);
            }
        }
        self.levels.insert(factor.name, levels);
    }

    /// Sets what follows from other levels.
    pub(crate) fn settle(&mut self, name: &str, levels: Vec<Level>) {
        if let Some(factor) = factor::find(name) {
            self.set(factor, levels);
        }
    }

    /// The places that were given for a factor; none for an end on this host.
    pub(crate) fn places(&self, name: &str) -> Vec<Place> {
        let levels = self.levels.get(name).into_iter().flatten();
        levels.filter_map(Level::parsed).collect()
    }

    /// The same crossing once for each end that a program may control, and each condition that may be compared, since the
    /// options depend on both.
    pub(crate) fn by_program(&self) -> Vec<Part> {
        let alone = |name: &'static str| {
            self.levels.get(name).map_or(vec![None], |levels| levels.iter().map(|level| Some((name, level))).collect())
        };
        let roles =
            alone(ROLE).into_iter().flat_map(|program| alone(COMPARE).into_iter().map(move |chosen| [program, chosen]));
        let one = |roles: [Option<(&'static str, &Level)>; 2]| {
            let mut part = self.clone();
            part.levels.extend(roles.into_iter().flatten().map(|(name, level)| (name, vec![level.clone()])));
            part.one_each |= part.names_options();
            if part.role() == ProgramRole::Relay && !part.levels.contains_key("relay") {
                for (name, levels) in ASKED_OF_RELAYS {
                    let Some(factor) = factor::find(name) else { continue };
                    let mut levels: Vec<Level> =
                        levels.split(',').filter_map(|text| factor.kind.parse(text).ok()).collect();
                    if part.has_one_of(factor) {
                        levels = part.usual(factor, &levels);
                    }
                    part.levels.entry(factor.name).or_insert(levels);
                }
            }
            part
        };
        roles.map(one).collect()
    }

    /// Whether a factor is a choice or a condition for the program of this part.
    pub(crate) fn role_of(&self, factor: &Factor) -> Role {
        role_of(self.role(), self.first(COMPARE), factor)
    }

    /// Whether the transports are options of one test.
    pub(crate) fn compares_transports(&self) -> bool {
        self.first::<ComparedCondition>(COMPARE) == ComparedCondition::Transport
    }

    pub(crate) fn role(&self) -> ProgramRole {
        self.first(ROLE)
    }

    /// The first level given of a factor that has names.
    fn first<T: FromStr + Default>(&self, name: &str) -> T {
        let named = self.levels.get(name).and_then(|levels| levels.first()?.parsed());
        named.unwrap_or_default()
    }

    /// The transports, given or default.
    pub fn transports(&self, workload: Workload) -> Vec<Transport> {
        let levels = self.levels(workload, &FACTORS[0], None);
        levels.iter().filter_map(Level::parsed).collect()
    }

    /// The levels of a factor over a transport, or without one, given or default.
    pub fn levels(&self, workload: Workload, factor: &Factor, transport: Option<&Transport>) -> Vec<Level> {
        let named = self.levels.get(factor.name).cloned();
        named.unwrap_or_else(|| match defaults(workload, factor, transport) {
            levels if self.has_one_of(factor) => self.usual(factor, &levels),
            levels => levels,
        })
    }

    /// The levels of a factor by its name, where there is no transport.
    pub fn levels_of(&self, workload: Workload, name: &str) -> Vec<Level> {
        factor::find(name).map(|factor| self.levels(workload, factor, None)).unwrap_or_default()
    }
}

/// The default list of levels of a factor over a transport, or where there is none.
pub(crate) fn defaults(workload: Workload, factor: &Factor, transport: Option<&Transport>) -> Vec<Level> {
    let default = factor.default_over(workload, transport);
    // The table's own test parses every default.
    factor.kind.parse_list(default.unwrap_or_default()).unwrap_or_default()
}

/// Reads a list of levels for a factor.
///
/// # Errors
/// With the factor's flag and what is wrong.
pub fn parse(factor: &Factor, text: &str) -> Result<Vec<Level>, PlanError> {
    let text = if factor.name == "relay" { relay_names(text) } else { text.into() };
    factor.kind.parse_list(&text).map_err(|error| at(factor, &error))
}

fn at(factor: &Factor, error: &TextError) -> PlanError {
    PlanError::Usage(format!("--{}: {error}", factor.flag()))
}

// The design of a session: keys of a plan, which are flags as well.

/// The keys whose values a plan and a command line write in the same way.
pub const DESIGN_KEYS: [&str; 8] =
    ["time", "blocks", "analyses", "long-trials", "margin", "ends", "verify", "half-load"];

/// The acceptable differences from the best.
pub const MARGINS: RangeInclusive<f64> = 0.001..=1.0;

/// More finalists than this are all of them.
const FINALISTS_MOST: usize = 64;

impl PlanSpec {
    /// Sets one of the [`DESIGN_KEYS`].
    ///
    /// # Errors
    /// What is wrong with the text, and what to write.
    pub fn set_design(&mut self, key: &str, text: &str) -> Result<(), String> {
        let is_on = || match text {
            "on" => Ok(true),
            "off" => Ok(false),
            _ => Err(format!("`{text}` is no switch: use true or false")),
        };
        match key {
            "time" => self.budget_ns = Some(time_ns(text)?),
            "blocks" => self.blocks = Some(count(text, 100_000).map_err(|why| why + " (6 or more for intervals)")?),
            "analyses" => self.analyses = count(text, ANALYSES_MAX)?,
            "long-trials" if text == "off" => self.audit = 0.0,
            "long-trials" => self.audit = share(text, 0.0..=AUDIT_MAX).map_err(|why| why + ", or off")?,
            "margin" => self.margin = share(text, MARGINS)?,
            "ends" => self.ends = text.parse().map_err(|error: TextError| error.to_string())?,
            "verify" => self.verify = is_on()?,
            "half-load" => self.gentle = is_on()?,
            _ => return Err(format!("`{key}` is no key of a design")),
        }
        Ok(())
    }
}

/// A time in which something is measured, nanoseconds.
///
/// # Errors
/// If it is no time, or none at all.
pub fn time_ns(text: &str) -> Result<u64, String> {
    match text.parse().map_err(|error: TextError| error.to_string())? {
        Nanos(0) => Err("a session needs time: give for example 60s".into()),
        Nanos(ns) => Ok(ns),
    }
}

/// A count from 1 to `most`.
fn count(text: &str, most: u64) -> Result<u64, String> {
    let count = text.parse().ok().filter(|count| (1..=most).contains(count));
    count.ok_or_else(|| format!("`{text}` is out of range: use 1 to {most}"))
}

/// How many options are confirmed.
///
/// # Errors
/// The numbers that are allowed.
pub fn finalists(text: &str) -> Result<Finalists, String> {
    let cap = text.parse().ok().filter(|cap| (FINALISTS_MIN..=FINALISTS_MOST).contains(cap)).map(Finalists::Cap);
    cap.or((text == "all").then_some(Finalists::All))
        .ok_or_else(|| format!("`{text}` is out of range: use {FINALISTS_MIN} to {FINALISTS_MOST}, or all"))
}

/// `5%` or `0.05`. `1` could be either 1 % or 100 %.
///
/// # Errors
/// The shares that are allowed.
pub fn share(text: &str, range: RangeInclusive<f64>) -> Result<f64, String> {
    let share = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map(|percent| percent / 100.0).ok(),
        None => text.parse().ok().filter(|share| *share < 0.5),
    };
    share.filter(|share| range.contains(share)).ok_or_else(|| {
        let [least, most] = [range.start(), range.end()].map(|share| share * 100.0);
        format!("`{text}` is not a share: use {least}% to {most}%, such as 5% or 0.05")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares() {
        assert_eq!((share("5%", MARGINS), share("0.1", MARGINS)), (Ok(0.05), Ok(0.1)));
        assert!(share("1", MARGINS).unwrap_err().contains("`1` is not a share: use 0.1% to 100%"));
        assert!(["0", "-5%", "much"].iter().all(|text| share(text, MARGINS).is_err()));
        let mut spec = PlanSpec::named("stream", Workload::Stream);
        for (text, expected) in [("off", 0.0), ("20%", 0.2), ("0", 0.0)] {
            spec.set_design("long-trials", text).unwrap();
            assert_eq!(spec.audit, expected, "{text}");
        }
        assert!(["on", "60%", "-1%"].iter().all(|text| spec.set_design("long-trials", text).is_err()));
    }
}
