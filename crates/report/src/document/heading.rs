//! The first line: plan, session, duration, where, processor, kernel.

use bytegauge_model::unit::{counted, significant};
use bytegauge_model::{SessionStatus, Workload};

use super::Results;
use crate::findings::is_loopback;
use crate::words::fit::chars;

/// The width of a usual terminal.
const COLUMNS: usize = 80;

/// A duration in seconds.
pub fn seconds(ns: u64) -> String {
    format!("{} s", significant(ns as f64 / 1e9, 2))
}

/// `bytegauge buffer-size #1  56 s · loopback · Intel Xeon, 2 CPUs · Linux 6.18.44`.
pub fn heading(results: &Results) -> String {
    let status = match results.status {
        SessionStatus::Complete => None,
        other => Some(other.name().to_owned()),
    };
    let took = results.elapsed_ns.filter(|ns| *ns >= 1_000_000_000).map(seconds);
    let blocks = results.groups.first().map_or(0, |group| group.blocks.used);
    let runs = (blocks > 0).then(|| match (&results.versus, &results.check) {
        (Some(_), _) => Some(format!("{}, random order", counted(blocks, "pair"))),
        (None, Some(_)) => Some(format!("{} each, random order", counted(blocks, "run"))),
        _ => None,
    });
    let cpus = results.environment.allowed_cpus().map(|n| counted(n, "CPU"));
    let kernel = results.environment.fact(&["kernel_release"]).and_then(|kernel| kernel.as_str());
    let kernel = kernel.map(|release| format!("Linux {}", release.split('-').next().unwrap_or(release)));
    let model = results.environment.fact(&["cpu", "model"]).and_then(|model| model.as_str()).map(short_name);
    let with = |model: &str, kernel: Option<&String>| {
        let model = Some(model.to_owned()).filter(|model| !model.is_empty());
        let machine = [model, cpus.clone()].into_iter().flatten().collect::<Vec<_>>().join(", ");
        let machine = Some(machine).filter(|machine| !machine.is_empty());
        let kernel = kernel.cloned();
        let parts = [status.clone(), took.clone(), runs.clone().flatten(), place(results), machine, kernel];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        format!("bytegauge {} #{}  {}", results.plan.name, results.session, parts.join(" · "))
    };
    // A long name of a processor gives way, word by word, then the kernel.
    let model = model.unwrap_or_default();
    let mut words: Vec<&str> = model.split(' ').filter(|word| !word.is_empty()).collect();
    while words.len() > 1 && chars(&with(&words.join(" "), kernel.as_ref())) > COLUMNS {
        words.pop();
    }
    let short = words.join(" ");
    let whole = with(&short, kernel.as_ref());
    if chars(&whole) > COLUMNS { with(&short, None) } else { whole }
}

/// Loopback, an emulated link, or other hosts; nothing for programs without a link, and for rings.
fn place(results: &Results) -> Option<String> {
    let specs = || results.groups.iter().map(|group| &group.factors);
    if let Some(place) = specs().find_map(|spec| Some(spec.far()?.0.to_string())) {
        return Some(format!("host {place}"));
    }
    if specs().any(|spec| spec.emulated_link().is_some()) {
        return Some("emulated link".into());
    }
    let is_program = results.plan.workload == Workload::Check.to_string();
    let over = !is_program && specs().any(is_loopback) && results.status != SessionStatus::Imported;
    over.then(|| "loopback".into())
}

/// A processor without trademarks and clock: `Intel Xeon`, `AMD EPYC`.
fn short_name(model: &str) -> String {
    let plain = model.replace("(R)", "").replace("(TM)", "").replace("(tm)", "");
    let before_clock = plain.split('@').next().unwrap_or_default();
    let is_filler = |word: &&str| !matches!(*word, "CPU" | "Processor" | "processor") && !word.ends_with("-Core");
    before_clock.split_whitespace().filter(is_filler).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_have_short_names() {
        assert_eq!(short_name("Intel(R) Xeon(R) Processor @ 2.10GHz"), "Intel Xeon");
        assert_eq!(short_name("AMD EPYC 7763 64-Core Processor"), "AMD EPYC 7763");
    }
}
