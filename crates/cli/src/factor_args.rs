//! Options for factors, made from the table of factors. In `stream` and `call` an option has the meaning of the workload;
//! in `run`, which learns the workload from the plan, two meanings are described together.

use bytegauge_model::factor::{self, Factor};
use bytegauge_model::level::LevelKind;
use bytegauge_model::option::OPTIONS;
use bytegauge_model::{WORKLOADS, Workload};
use clap::Arg;

/// The heading of options for other hosts and links.
pub const HOSTS: &str = "Hosts and links";

/// The heading of the factors of the table of options, and of two that go with them.
const SOCKET_OPTIONS: &str = "Options of sockets and pipes";

/// The factors under the headings of the help.
const HEADINGS: &[(&str, &[&str])] = &[
    (
        "Test (factors take one level, a list or a range: 4K,64K or 4K..1M)",
        &[
            "transport",
            "role",
            "compare",
            "profile",
            "flows",
            "placement",
            "connection_age",
            "fd_table",
            "tls",
            "value",
        ],
    ),
    (
        "Messages and load",
        &[
            "request",
            "response",
            "request_chunk",
            "depth",
            "connect_per_call",
            "read_once",
            "max_loss",
            "rate",
            "call_rate",
            "slo",
            "arrivals",
            "burst",
            "every",
            "think_time",
            "timeout",
            "idle_flows",
            "competing_flows",
            "load_flows",
        ],
    ),
    ("Work of the program", &["work", "working_set", "writer_work", "call_work"]),
    ("Engines and threads", &["engine", "server_engine", "server_threads", "client_engine", "client_threads"]),
    ("Sizes", &["read_size", "write_size", "send_from", "batch", "outstanding"]),
    (SOCKET_OPTIONS, &["rcvbuf_on", "backlog"]),
    ("Relays", &["relay", "relay_threads", "relay_buffer", "relay_pipe", "relay_placement", "relay_host"]),
    (HOSTS, &["connect", "host", "direction", "link_delay", "link_loss", "link_rate"]),
    ("Ring", &["mode", "user_data", "entries", "submit_batch", "implementation", "setup"]),
    ("Trials", &["duration", "run_timeout"]),
];

/// The names of the factors under each heading.
fn headings() -> impl Iterator<Item = (&'static str, Vec<&'static str>)> {
    HEADINGS.iter().map(|(heading, names)| {
        let options = OPTIONS.iter().filter(|_| *heading == SOCKET_OPTIONS).map(|row| row.factor);
        (*heading, options.chain(names.iter().copied()).collect())
    })
}

/// One option for each flag: two factors of different workloads may share one.
pub fn args(workload: Option<Workload>) -> Vec<Arg> {
    let has = |factor: &&Factor| workload.is_none_or(|workload| factor.is_in(workload));
    let mut flags: Vec<(String, &'static str, Vec<&'static Factor>)> = Vec::new();
    for (heading, names) in headings() {
        for factor in names.iter().filter_map(|name| factor::find(name)).filter(has) {
            match flags.iter_mut().find(|(flag, ..)| *flag == factor.flag()) {
                Some((.., factors)) => factors.push(factor),
                None => flags.push((factor.flag(), heading, vec![factor])),
            }
        }
    }
    let made = |(flag, heading, factors): (String, &'static str, Vec<&'static Factor>)| {
        factor_arg(flag, &factors, workload).help_heading(heading)
    };
    let mut args: Vec<Arg> = flags.into_iter().map(made).collect();
    if workload == Some(Workload::Call) {
        let help = "Set --server-engine and --client-engine";
        args.push(Arg::new("engine").long("engine").value_name("LIST").help(help).help_heading("Engines and threads"));
    }
    args
}

fn factor_arg(flag: String, factors: &[&'static Factor], workload: Option<Workload>) -> Arg {
    let default_of = |factor: &Factor| {
        let rows = WORKLOADS.iter().filter(|row| workload.is_none_or(|workload| workload == row.value));
        let defaults = rows.filter_map(|row| Some((row.name, factor.default_in(row.value)?)));
        let shown = |(name, default): (&str, &str)| match workload {
            Some(_) => default.to_owned(),
            None => format!("{default} ({name})"),
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
    // A switch that is off by default is turned on by its name alone.
    match factors.iter().all(|factor| matches!(factor.kind, LevelKind::Switch { auto: false })) {
        true => arg.num_args(0..=1).default_missing_value("on"),
        false => arg,
    }
}

#[cfg(test)]
mod tests {
    use bytegauge_model::FACTORS;

    use super::*;

    #[test]
    fn every_factor_has_one_heading() {
        for factor in FACTORS {
            let count = headings().flat_map(|(_, names)| names).filter(|name| *name == factor.name).count();
            assert_eq!(count, 1, "{}", factor.name);
        }
        assert_eq!(headings().map(|(_, names)| names.len()).sum::<usize>(), FACTORS.len());
    }
}
