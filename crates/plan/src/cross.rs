//! Crossing: every combination of a part's levels, without what means nothing together.

use bytegauge_model::catalog::PROFILES;
use bytegauge_model::factor::{self, Role};
use bytegauge_model::{Level, Levels, Transport, Workload};

use crate::engines::suiting;
use crate::foreign;
use crate::meaning::is_moot;
use crate::spec::{Part, PlanError, SET_BY_PROFILES, Spec};

/// Every combination of the levels of one role's factors, in the order of the table; a factor that does not
/// fit the transport, where there is one, or means nothing beside the others' levels, is absent.
pub(crate) fn cross(workload: Workload, part: &Part, role: Role, transport: Option<&Transport>) -> Vec<Levels> {
    let mut combinations = vec![Levels::default()];
    for factor in factor::of(workload).filter(|factor| factor.role == role) {
        let levels = match factor.name {
            "transport" => transport.iter().map(|transport| Level::Name(transport.to_string())).collect(),
            "profile" if sets_by_hand(part) => vec![Level::Absent],
            name if foreign::is_foreign(part) && foreign::is_of_our_server(workload, name) => {
                vec![Level::Absent]
            }
            _ if !factor.applies(workload, transport) => vec![Level::Absent],
            name => match transport {
                Some(transport) if name == "profile" && !part.levels.contains_key("profile") => {
                    let levels = part.levels(workload, factor, Some(transport));
                    levels.into_iter().filter(|level| means_something(level, transport)).collect()
                }
                Some(transport) => suiting(factor, part.levels(workload, factor, Some(transport)), transport),
                None => part.levels(workload, factor, None),
            },
        };
        combinations = combinations
            .into_iter()
            .flat_map(|combination| {
                let levels = if is_moot(factor, &combination) { vec![Level::Absent] } else { levels.clone() };
                levels.into_iter().map(move |level| {
                    let mut longer = combination.clone();
                    longer.set(factor.name, level);
                    longer
                })
            })
            .collect();
    }
    combinations
}

/// Whether a profile that nobody named says something over a transport: idle connections are none of datagrams.
fn means_something(profile: &Level, transport: &Transport) -> bool {
    let row = PROFILES.iter().find(|row| Some(row.name) == profile.name());
    let fits = |name: &str| factor::find(name).is_none_or(|factor| (factor.fits)(transport));
    !transport.is_datagram() || row.is_none_or(|row| row.sets.iter().all(|(name, level)| *level == "0" || fits(name)))
}

/// Whether the part names something itself that profiles set, so that no profile has a say.
fn sets_by_hand(part: &Part) -> bool {
    !part.levels.contains_key("profile") && SET_BY_PROFILES.iter().any(|name| part.levels.contains_key(name))
}

/// Replaces a profile's name by its name and the levels it sets.
pub(crate) fn apply_profile(spec: &Spec, part: &Part, mut conditions: Levels) -> Result<Levels, PlanError> {
    let Some(name) = conditions.get("profile").name().map(str::to_owned) else { return Ok(conditions) };
    for (factor, level) in spec.profile(&name)? {
        if part.levels.contains_key(factor) {
            return Err(PlanError::SetByProfile { flag: factor.replace('_', "-") });
        }
        // What does not apply here stays absent (a device has no writer to fill).
        if *conditions.get(factor) != Level::Absent {
            conditions.set(factor, level);
        }
    }
    Ok(conditions)
}
