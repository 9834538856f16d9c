//! Options for factors, made from the table of factors. In `stream` and `call` an option has the meaning of the workload;
//! in `run`, which learns the workload from the plan, two meanings are described together.

use bytegauge_model::factor::{FACTORS, Factor, HelpSection, SECTIONS};
use bytegauge_model::level::LevelKind;
use bytegauge_model::{WORKLOADS, Workload};
use clap::Arg;

/// The heading of options for other hosts and links.
pub const HOSTS: &str = HelpSection::Hosts.title();

/// One option for each flag: two factors of different workloads may share one.
pub fn args(workload: Option<Workload>) -> Vec<Arg> {
    let has = |factor: &&Factor| workload.is_none_or(|workload| factor.is_in(workload));
    let mut flags: Vec<(String, Vec<&'static Factor>)> = Vec::new();
    for (section, _) in SECTIONS {
        for factor in FACTORS.iter().filter(|factor| factor.section == *section).filter(has) {
            match flags.iter_mut().find(|(flag, _)| *flag == factor.flag()) {
                Some((_, factors)) => factors.push(factor),
                None => flags.push((factor.flag(), vec![factor])),
            }
        }
    }
    let mut args: Vec<Arg> = flags.into_iter().map(|(flag, factors)| factor_arg(flag, &factors, workload)).collect();
    if workload == Some(Workload::Call) {
        let help = "Set --server-engine and --client-engine";
        args.push(
            Arg::new("engine").long("engine").value_name("LIST").help(help).help_heading(HelpSection::Engines.title()),
        );
    }
    args
}

fn factor_arg(flag: String, factors: &[&'static Factor], workload: Option<Workload>) -> Arg {
    let default_of = |factor: &Factor| {
        let rows = WORKLOADS.iter().filter(|row| workload.is_none_or(|workload| workload == row.value));
        let defaults = rows.filter_map(|row| Some((row.name, factor.default_in(row.value)?)));
        let shown = |(name, default): (&str, &str)| match workload {
            Some(_) => factor.shown_default(default),
            None => format!("{} ({name})", factor.shown_default(default)),
        };
        defaults.map(shown).collect::<Vec<_>>().join(", ")
    };
    let long_of = |factor: &&Factor| {
        let details = if factor.details.is_empty() { String::new() } else { format!("; {}", factor.details) };
        format!("{}{details} [default: {}]", factor.summary, default_of(factor))
    };
    let long: Vec<String> = factors.iter().map(long_of).collect();
    // Clap needs names that live as long as the program; each is made once.
    let flag: &'static str = Box::leak(flag.into_boxed_str());
    let arg = Arg::new(flag).long(flag).value_name("LIST").help(factors[0].summary).long_help(long.join("\nor: "));
    let arg = arg.help_heading(factors[0].section.title());
    // A switch that is off by default is turned on by its name alone.
    match factors.iter().all(|factor| matches!(factor.kind, LevelKind::Switch { auto: false })) {
        true => arg.num_args(0..=1).default_missing_value("on"),
        false => arg,
    }
}
