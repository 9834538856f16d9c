//! The flags of factors, made from the table: a factor that is declared in `model` is a flag here.

use bytegauge_model::factor::{FACTORS, Factor};
use bytegauge_model::level::Kind;
use bytegauge_model::{WORKLOADS, Workload};
use clap::Arg;

/// One argument a flag: two factors of different workloads may share one.
pub fn args(workload: Option<Workload>) -> Vec<Arg> {
    let has = |factor: &&Factor| workload.is_none_or(|workload| factor.is_in(workload));
    let mut flags: Vec<(String, Vec<&'static Factor>)> = Vec::new();
    for factor in FACTORS.iter().filter(has) {
        match flags.iter_mut().find(|(flag, _)| *flag == factor.flag()) {
            Some((_, factors)) => factors.push(factor),
            None => flags.push((factor.flag(), vec![factor])),
        }
    }
    let mut args: Vec<Arg> = flags.into_iter().map(|(flag, factors)| factor_arg(flag, &factors, workload)).collect();
    if workload == Some(Workload::Call) {
        let help = "Both --server-engine and --client-engine";
        args.push(Arg::new("engine").long("engine").value_name("LIST").help(help));
    }
    args
}

fn factor_arg(flag: String, factors: &[&'static Factor], workload: Option<Workload>) -> Arg {
    let help: Vec<String> = factors
        .iter()
        .map(|factor| {
            let defaults: Vec<String> = WORKLOADS
                .iter()
                .filter(|row| workload.is_none_or(|workload| workload == row.value))
                .filter_map(|row| Some((row.name, factor.default_in(row.value)?)))
                .map(|(name, default)| if workload.is_some() { default.into() } else { format!("{default} ({name})") })
                .collect();
            format!("{} [default: {}]", factor.summary, defaults.join(", "))
        })
        .collect();
    // Clap wants its names to live as long as the program; each is made once.
    let flag: &'static str = Box::leak(flag.into_boxed_str());
    let arg = Arg::new(flag).long(flag).value_name("LIST").help(help.join("; or "));
    // Where a switch is off unless it is asked for, to name it is to ask for it.
    match factors.iter().all(|factor| matches!(factor.kind, Kind::Switch { auto: false })) {
        true => arg.num_args(0..=1).default_missing_value("on"),
        false => arg,
    }
}
