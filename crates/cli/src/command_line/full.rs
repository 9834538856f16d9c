//! The full help (`--help`): all options of a command under their headings, in one line each. The manual has the details.

use std::ffi::OsString;

use clap::builder::StyledStr;
use clap::{Arg, Command};

use super::command;

/// Where the details of options are.
const DETAILS: &str = "Details and values of each option: bytegauge man | man -l -";

/// Characters of a default that fits behind the help of an option.
const DEFAULT_MAX: usize = 20;

/// Whether the words of a command line ask for the full help: `--help`, or the command `help`.
pub fn is_full_help(words: &[OsString]) -> bool {
    let own = words.iter().take_while(|word| *word != "--");
    own.skip(1).any(|word| word == "--help" || word == "help")
}

/// The full help of the command that the words name.
pub fn full_help(words: &[OsString]) -> StyledStr {
    let mut root = command();
    root.build();
    let mut named = &root;
    let given = words.iter().skip(1).filter_map(|word| word.to_str());
    for word in given {
        named = named.find_subcommand(word).unwrap_or(named);
    }
    compact(named.clone()).render_help()
}

/// The command with every option in its short help, without details.
fn compact(command: Command) -> Command {
    let has_details = command.get_arguments().any(|arg| arg.get_long_help().is_some());
    let after = command.get_after_long_help().or(command.get_after_help()).map(ToString::to_string);
    let command = command.mut_args(|arg| {
        let help = with_default(&arg);
        let arg = arg.hide_short_help(false).long_help(None);
        match help {
            _ if arg.get_id() == "help" => arg.help("Print this list; -h prints the usual options"),
            Some(help) => arg.help(help),
            None => arg,
        }
    });
    if !has_details {
        return command;
    }
    let after = after.map_or_else(|| DETAILS.to_owned(), |after| format!("{after}\n\n{DETAILS}"));
    command.after_help(after)
}

/// The help of a factor with its default, where that is short.
fn with_default(arg: &Arg) -> Option<String> {
    let (help, details) = (arg.get_help()?.to_string(), arg.get_long_help()?.to_string());
    let (_, default) = details.rsplit_once(" [default: ")?;
    // The default of one of several workloads is no default of the option.
    let is_short = default.len() <= DEFAULT_MAX
        && !default.ends_with(")]")
        && !details.contains("\nor: ")
        && !help.contains("[default: ");
    is_short.then(|| format!("{help} [default: {default}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn full_help_lists_every_option_briefly() {
        let text = full_help(&words("bytegauge --store x.db run --help")).to_string();
        let command = command();
        let run = command.find_subcommand("run").expect("run");
        let flags = run.get_arguments().filter(|arg| !arg.is_hide_set()).filter_map(Arg::get_long);
        for flag in flags {
            assert!(text.contains(&format!("--{flag}")), "{flag}: {text}");
        }
        assert!(text.contains("Usage: bytegauge run") && text.contains(DETAILS), "{text}");
        assert!(text.lines().count() < 200 && !text.contains("'--help'"), "{text}");
    }

    #[test]
    fn the_words_decide_which_help_it_is() {
        for (line, expected) in [
            ("bytegauge run --help", true),
            ("bytegauge help run", true),
            ("bytegauge run -h", false),
            ("bytegauge tune -h -- cat --help", false),
        ] {
            assert_eq!(is_full_help(&words(line)), expected, "{line}");
        }
    }
}
