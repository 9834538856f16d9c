//! The program: flags, progress, exit codes. Other crates measure, store and report.
#![forbid(unsafe_code)]

mod ab;
mod across;
mod agent;
mod agent_sessions;
mod analysis;
mod args;
mod capabilities;
mod check;
mod command_line;
mod completions;
mod connect;
mod design_flags;
mod doctor;
mod dry_run;
mod earlier_sessions;
mod exit_code;
mod expired;
mod factor_args;
mod history;
mod interrupt;
mod interval_lines;
mod iperf3_server;
mod json_stream;
mod leftovers;
mod machine_changes;
mod measure;
mod mesh;
mod observe;
mod page;
mod page_server;
mod print;
mod progress;
mod resume;
mod selftest;
mod serve;
mod session_list;
mod stored;
mod survey;
mod terminal;
mod unknown_option;
mod watch;

use std::ffi::OsString;
use std::process::ExitCode;

use bytegauge_traffic::keeper;
use clap::ArgMatches;
use clap::error::ErrorKind;

use exit_code::Failure;

fn main() -> ExitCode {
    plain_on_dumb_terminals();
    interrupt::survive_file_limits();
    let words = args::joined(std::env::args_os());
    let matches = match command_line::lazy_command().try_get_matches_from(&words) {
        Ok(matches) => matches,
        Err(error) if error.kind() == ErrorKind::DisplayHelp && command_line::is_full_help(&words) => {
            terminal::help(&command_line::full_help(&words));
            return ExitCode::from(exit_code::DONE);
        }
        // Help and version are asked for and succeed; anything else is wrong usage.
        Err(error) if !error.use_stderr() => {
            terminal::clap_message(&error);
            return ExitCode::from(exit_code::DONE);
        }
        Err(error) => {
            terminal::clap_message(&unknown_option::explained(error, &command_line::command(), &words));
            return ExitCode::from(exit_code::USAGE);
        }
    };
    let code = dispatch(&matches).unwrap_or_else(|failure| failed(&failure, &matches));
    match terminal::output_failure() {
        None => ExitCode::from(code),
        Some(error) => {
            let output_failed = failed(&Failure::output(error), &matches);
            ExitCode::from(if code == exit_code::DONE { output_failed } else { code })
        }
    }
}

/// Prints an error. Returns the exit code.
fn failed(failure: &Failure, matches: &ArgMatches) -> u8 {
    // Commands in the message contain the store, so that they find the same results when they are copied.
    let message = failure.to_string();
    let message = stored::store_path(matches).map_or(message.clone(), |path| stored::naming(&message, &path));
    terminal::note(&format!("bytegauge: {message}"));
    failure.code()
}

/// A dumb terminal gets no colour. `anstream` alone would send it some where `CI` is set, since the logs of
/// most CI services show colour.
fn plain_on_dumb_terminals() {
    if print::terminal_is_dumb() && std::env::var_os("CLICOLOR_FORCE").is_none() {
        anstream::ColorChoice::Never.write_global();
    }
}

fn dispatch(matches: &ArgMatches) -> Result<u8, Failure> {
    match matches.subcommand() {
        Some(("ab", matches)) => ab::ab(matches),
        Some(("check", matches)) => check::check(matches),
        Some(("observe", matches)) => observe::run(matches),
        Some(("survey", matches)) => survey::survey(matches),
        Some(("doctor", matches)) => doctor::doctor(matches),
        Some(("compare", matches)) => history::compare(matches),
        Some(("run", matches)) => measure::run(matches),
        Some(("serve", matches)) => serve::run(matches),
        Some(("agent", matches)) => agent::run(matches),
        Some(("mesh", matches)) => mesh::run(matches),
        Some(("watch", matches)) => watch::run(matches),
        Some(("sessions", matches)) => stored::sessions(matches),
        Some(("report", matches)) if matches.get_flag("across") => across::report(matches),
        Some(("report", matches)) => stored::report(matches),
        Some(("export", matches)) => stored::export(matches),
        Some(("import", matches)) => stored::import(matches),
        Some(("selftest", matches)) => selftest::run(matches),
        Some(("completions", matches)) => completions::completions(matches),
        Some(("man", _)) => completions::man(),
        Some(("end", matches)) => {
            let served = match args::text(matches, "role") {
                Some(bytegauge_emulated_link::ROLE) => bytegauge_emulated_link::serve_stdio().map(|()| exit_code::DONE),
                Some(keeper::ROLE) => {
                    let words = matches.get_many::<OsString>("words").unwrap_or_default();
                    keeper::keep(&words.cloned().collect::<Vec<_>>())
                }
                _ => bytegauge_traffic::end::serve_stdio().map(|()| exit_code::DONE),
            };
            served.map_err(|error| Failure::failed(format!("this end: {error}")))
        }
        Some((name, matches)) => match name.parse() {
            Ok(workload) => measure::workload(workload, matches),
            Err(_) => welcome(),
        },
        None => welcome(),
    }
}

fn welcome() -> Result<u8, Failure> {
    terminal::print(print::WELCOME);
    Ok(exit_code::DONE)
}
