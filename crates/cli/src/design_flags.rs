//! Flags of the session rather than of its factors: budget, blocks, analyses, margin, seed.

use std::ops::RangeInclusive;
use std::time::{SystemTime, UNIX_EPOCH};

use bytegauge_plan::{PlanSpec, spec};
use clap::ArgMatches;

use crate::args::wrong;
use crate::exit_code::Failure;

/// Applies them to a plan.
pub fn apply(spec: &mut PlanSpec, matches: &ArgMatches) -> Result<(), Failure> {
    // Switches have no text.
    for key in spec::DESIGN_KEYS {
        if let Ok(Some(text)) = matches.try_get_one::<String>(key) {
            spec.set_design(key, text).map_err(wrong(key))?;
        }
    }
    if let Ok(Some(names)) = matches.try_get_one::<String>("also") {
        spec.add_lists(names)?;
    }
    if let Ok(Some(text)) = matches.try_get_one::<String>("finalists") {
        let finalists = spec::finalists(text).map_err(wrong("finalists"))?;
        spec.parts.iter_mut().for_each(|part| part.finalists = Some(finalists));
    }
    spec.verify |= matches!(matches.try_get_one::<bool>("verify"), Ok(Some(true)));
    spec.gentle |= matches!(matches.try_get_one::<bool>("half-load"), Ok(Some(true)));
    Ok(())
}

/// The share that a flag gives: `5%` or `0.05`.
pub fn share(flag: &str, text: &str, range: RangeInclusive<f64>) -> Result<f64, Failure> {
    spec::share(text, range).map_err(wrong(flag))
}

/// The seed that was given, or a new one.
pub fn seed(matches: &ArgMatches) -> u64 {
    matches.get_one::<u64>("seed").copied().unwrap_or_else(seed_from_clock)
}

fn seed_from_clock() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    // Kept below 2^53, so that no reader of JSON rounds it.
    (since.as_nanos() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 11
}
