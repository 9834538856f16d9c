//! The command line, made from the tables: a factor that is declared in `model` is an option here.
//!
//! `stream` and `call` have the options of their workload. `run` learns the workload from the plan, so it has the options
//! of all, and the plan settles what one means ([`crate::args::factors`]).

mod commands;
mod help;
pub mod measuring;
pub mod option;

use bytegauge_model::{WORKLOADS, Workload};
use clap::Command;

use crate::{agent, exit_code, mesh, serve};

pub use help::{completions, explained, full_help, is_full_help, man};

/// The commands of the help, by what they are for.
const GROUPS: &[(&str, &[&str])] = &[
    ("Measure", &["run", "stream", "call", "ring"]),
    ("Your program", &["tune", "ab", "observe"]),
    ("Results", &["report"]),
    ("Hosts", &["serve", "agent", "mesh"]),
    ("This machine", &["doctor"]),
];

/// Adds the options of a command that has those of all factors.
type AddOptions = fn(Command) -> Command;

/// The whole command, for texts about it.
pub fn command() -> Command {
    made(|command, options| options(command))
}

/// The same command to parse words: a command with many options gets them when the words name it, since each end that is a
/// process starts the program too.
pub fn lazy_command() -> Command {
    made(Command::defer)
}

fn made(add: fn(Command, AddOptions) -> Command) -> Command {
    let large = |name, about, options: AddOptions| add(Command::new(name).about(about), options);
    let workloads = WORKLOADS.iter().map(|row| large(row.name, row.about, workload));
    let others = [
        large("run", "Run a plan: a built-in one, or a TOML file", commands::run),
        large("ab", "Compare two commands, servers or settings; exit 1 if B is worse", commands::ab),
        commands::observe(),
        commands::report(),
        serve::command(),
        agent::command(),
        add(mesh::command(), |command| help::shortened(mesh::options(command))),
        commands::doctor(),
        commands::completions(),
        Command::new("man").about("Print the manual page").hide(true),
        commands::end(),
    ];
    let command = Command::new("bytegauge")
        .version(clap::crate_version!())
        .about("Measure how bytes move on this machine, and find the settings to use")
        .after_help(exit_code::help())
        .arg(option::store())
        .subcommands(workloads.chain(others));
    let groups = groups(&command);
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}\nOptions:\n{{options}}{{after-help}}\n"
    ))
}

/// Adds the options of the workload that a command is named after.
fn workload(command: Command) -> Command {
    help::shortened(match command.get_name().parse() {
        Ok(Workload::Tune) => commands::tune(command),
        workload => measuring::measuring(command, workload.ok()),
    })
}

/// The commands under their headings, a line each.
fn groups(command: &Command) -> String {
    let line = |name: &&str| {
        let about = command.find_subcommand(name).and_then(Command::get_about).map(ToString::to_string);
        format!("  {name:<12} {}\n", about.unwrap_or_default())
    };
    let group =
        |(heading, names): &(&str, &[&str])| format!("{heading}:\n{}", names.iter().map(line).collect::<String>());
    GROUPS.iter().map(group).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use bytegauge_model::factor;

    use super::*;
    use crate::args;

    #[test]
    fn help_lists_every_command_once() {
        let command = command();
        let listed: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        for known in command.get_subcommands().filter(|command| !command.is_hide_set()) {
            let name = known.get_name();
            assert_eq!(listed.iter().filter(|listed| **listed == name).count(), 1, "{name}");
            let about = known.get_about().map(ToString::to_string).unwrap_or_default();
            // A line of help has 80 columns.
            assert!((1..=65).contains(&about.chars().count()) && !about.ends_with('.'), "{name}: {about}");
        }
        assert_eq!(listed.len(), command.get_subcommands().filter(|command| !command.is_hide_set()).count());
    }

    #[test]
    fn the_command_is_sound() {
        command().debug_assert();
        lazy_command().debug_assert();
    }

    #[test]
    fn lazy_commands_have_the_same_help() {
        let help = |mut root: Command| -> Vec<String> {
            root.build();
            let all =
                root.get_subcommands().flat_map(|command| std::iter::once(command).chain(command.get_subcommands()));
            all.flat_map(|command| {
                command.clone().render_long_help().to_string().lines().map(str::to_owned).collect::<Vec<_>>()
            })
            .collect()
        };
        let (lazy, whole) = (help(lazy_command()), help(command()));
        for (lazy, whole) in lazy.iter().zip(&whole) {
            assert_eq!(lazy, whole);
        }
        assert_eq!(lazy.len(), whole.len());
    }

    fn given(words: &str, workload: Workload) -> Vec<(&'static str, String)> {
        let words = words.split(' ').map(str::to_owned);
        let matches = command().try_get_matches_from(["bytegauge".to_owned()].into_iter().chain(words)).unwrap();
        let (_, matches) = matches.subcommand().unwrap();
        args::factors(matches, workload).unwrap().into_iter().map(|(factor, text)| (factor.name, text)).collect()
    }

    #[test]
    fn every_factor_is_a_flag() {
        for row in WORKLOADS {
            for factor in factor::of(row.value) {
                let level = factor.default_in(row.value).and_then(|levels| levels.split(',').next()).unwrap();
                for command in [row.name, "run x"] {
                    let words = format!("{command} --{} {level}", factor.flag());
                    assert_eq!(given(&words, row.value), [(factor.name, level.to_owned())], "{words}");
                }
            }
        }
    }

    #[test]
    fn an_engine_of_one_end_has_priority() {
        let check = |words: &str, expected: &[(&str, &str)]| {
            let given = given(words, Workload::Call);
            assert!(given.iter().map(|(name, text)| (*name, text.as_str())).eq(expected.iter().copied()), "{given:?}");
        };
        check("call --engine epoll", &[("client_engine", "epoll"), ("server_engine", "epoll")]);
        check(
            "call --engine epoll --client-engine blocking",
            &[("client_engine", "blocking"), ("server_engine", "epoll")],
        );
        check("call --connect-per-call --depth 2", &[("depth", "2"), ("connect_per_call", "on")]);
    }
}
