//! The short help (`-h`): of each command the options that most users need. `--help` shows all.

use clap::{Arg, Command};

/// The options in the short help of the commands that have many.
const SHORT: &[(&str, &str)] = &[
    (
        "stream",
        "transport role flows profile engine read-size write-size sndbuf rcvbuf congestion compare time until resume",
    ),
    (
        "call",
        "transport flows profile request response depth rate slo server-engine server-threads compare time until resume",
    ),
    ("ring", "mode entries submit-batch implementation setup time until resume dry-run format"),
    ("run", "transport role flows profile host key-file time until resume dry-run save against format"),
    (
        "mesh",
        "rank size coordinator listen key-file workload pattern replicates concurrent transport flows out resume dry-run",
    ),
    ("tune", "command option on values now metric prepare start ready load time until resume margin format"),
    ("ab", "command a b metric prepare ready time until resume margin undecided format"),
];

/// The command with its short help.
pub fn shortened(command: Command) -> Command {
    let Some((_, shown)) = SHORT.iter().find(|(name, _)| *name == command.get_name()) else { return command };
    command.mut_args(|arg: Arg| {
        let is_shown = arg.is_positional() || shown.split(' ').any(|id| arg.get_id() == id);
        arg.hide_short_help(!is_shown)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_line::command;

    /// The most options that a short help may list, `-h` included.
    const OPTIONS_MAX: usize = 15;
    /// The most characters of a line of help in it.
    const LINE_MAX: usize = 60;

    fn each(visit: impl Fn(&Command)) {
        let mut root = command();
        root.build();
        for command in root.get_subcommands().filter(|command| !command.is_hide_set()) {
            visit(command);
            command.get_subcommands().for_each(&visit);
        }
    }

    fn in_short_help(command: &Command) -> impl Iterator<Item = &Arg> {
        command.get_arguments().filter(|arg| !arg.is_hide_set() && !arg.is_hide_short_help_set())
    }

    #[test]
    fn short_help_lists_few_options() {
        each(|command| {
            let count = in_short_help(command).filter(|arg| !arg.is_positional()).count();
            assert!(count <= OPTIONS_MAX, "{} lists {count} options", command.get_name());
        });
    }

    #[test]
    fn help_lines_are_short() {
        each(|command| {
            for arg in in_short_help(command) {
                let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
                let text = help.split(" [default: ").next().unwrap_or_default();
                assert!(
                    (1..=LINE_MAX).contains(&text.chars().count()),
                    "{} --{}: {help}",
                    command.get_name(),
                    arg.get_id()
                );
            }
        });
    }

    #[test]
    fn listed_options_exist() {
        let root = command();
        for (name, shown) in SHORT {
            let command = root.find_subcommand(name).expect(name);
            for id in shown.split(' ') {
                assert!(command.get_arguments().any(|arg| arg.get_id() == id), "{name}: {id}");
            }
        }
    }
}
