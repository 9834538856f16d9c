//! The program: flags, progress, exit codes. Other crates measure, store and report.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod ab;
mod agent;
mod args;
mod command_line;
mod doctor;
mod dry_run;
mod exit_code;
mod history;
mod interrupt;
mod measure;
mod mesh;
mod observe;
mod page;
mod progress;
mod resume;
mod serve;
mod stored;
mod survey;
mod terminal;
mod tune;
mod tune_options;
mod tune_service_flags;

use std::ffi::OsString;
use std::process::ExitCode;

use bytegauge_model::EndRole;
use bytegauge_traffic::keeper;
use clap::ArgMatches;
use clap::error::ErrorKind;

use exit_code::Failure;

fn main() -> ExitCode {
    plain_on_dumb_terminals();
    interrupt::survive_file_limits();
    let words: Vec<OsString> = std::env::args_os().collect();
    let (code, matches) = match command_line::lazy_command().try_get_matches_from(&words) {
        Ok(matches) => (dispatch(&matches).unwrap_or_else(|failure| failed(&failure, Some(&matches))), Some(matches)),
        Err(error) if error.kind() == ErrorKind::DisplayHelp && command_line::is_full_help(&words) => {
            terminal::help(&command_line::full_help(&words));
            (exit_code::DONE, None)
        }
        // Help and version are asked for and succeed; anything else is wrong usage.
        Err(error) if !error.use_stderr() => {
            terminal::clap_message(&error);
            (exit_code::DONE, None)
        }
        Err(error) => {
            terminal::clap_message(&command_line::explained(error, &command_line::command(), &words));
            return ExitCode::from(exit_code::USAGE);
        }
    };
    match terminal::output_failure() {
        None => ExitCode::from(code),
        Some(error) => {
            let incomplete = Failure::failed(format!(
                "standard output is incomplete: {error}: write to another place; stored results are kept, and `bytegauge report` \
                 prints the latest again"
            ));
            let output_failed = failed(&incomplete, matches.as_ref());
            ExitCode::from(if code == exit_code::DONE { output_failed } else { code })
        }
    }
}

/// Prints an error. Returns the exit code.
fn failed(failure: &Failure, matches: Option<&ArgMatches>) -> u8 {
    // Commands in the message contain the store, so that they find the same results when they are copied.
    let message = failure.to_string();
    let path = matches.and_then(|matches| stored::store_path(matches).ok());
    let message = path.map_or(message.clone(), |path| stored::naming(&message, &path));
    terminal::note(&format!("bytegauge: {message}"));
    failure.code()
}

/// A dumb terminal gets no colour. `anstream` alone would send it some where `CI` is set, since the logs of
/// most CI services show colour.
fn plain_on_dumb_terminals() {
    if terminal::is_dumb() && std::env::var_os("CLICOLOR_FORCE").is_none() {
        anstream::ColorChoice::Never.write_global();
    }
}

fn dispatch(matches: &ArgMatches) -> Result<u8, Failure> {
    match matches.subcommand() {
        Some(("ab", matches)) => ab::ab(matches),
        Some(("tune", matches)) => tune::tune(matches),
        Some(("observe", matches)) => observe::run(matches),
        Some(("doctor", matches)) if matches.get_flag("selftest") => doctor::selftest(matches),
        Some(("doctor", matches)) => doctor::doctor(matches),
        Some(("report", matches)) => report(matches),
        Some(("run", matches)) if matches.get_one::<OsString>("plan").is_some_and(|plan| plan == survey::SURVEY) => {
            survey::survey(matches)
        }
        Some(("run", matches)) => measure::run(matches),
        Some(("serve", matches)) => serve::run(matches),
        Some(("agent", matches)) => agent::run(matches),
        Some(("mesh", matches)) => mesh::run(matches),
        Some(("completions", matches)) => command_line::completions(matches),
        Some(("man", _)) => command_line::man(),
        Some(("end", matches)) => {
            let served = match args::text(matches, "role") {
                Some(bytegauge_emulated_link::ROLE) => bytegauge_emulated_link::serve_stdio().map(|()| exit_code::DONE),
                Some(keeper::ROLE) => {
                    let words = matches.get_many::<OsString>("words").unwrap_or_default();
                    keeper::keep(&words.cloned().collect::<Vec<_>>())
                }
                role => {
                    if role == Some(EndRole::Command.name()) {
                        interrupt::leave_at_the_end_of_input();
                    }
                    bytegauge_traffic::end::serve_stdio().map(|()| exit_code::DONE)
                }
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

fn report(matches: &ArgMatches) -> Result<u8, Failure> {
    match matches.subcommand() {
        Some(("list", matches)) => stored::sessions(matches),
        Some(("compare", matches)) => history::compare(matches),
        Some(("export", matches)) => stored::export(matches),
        Some(("import", matches)) => stored::import(matches),
        _ if matches.get_flag("across") => history::report_across(matches),
        _ => stored::report(matches),
    }
}

fn welcome() -> Result<u8, Failure> {
    terminal::print(terminal::WELCOME);
    Ok(exit_code::DONE)
}
