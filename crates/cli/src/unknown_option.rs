//! Options and commands that do not exist: suggests the intended one.
//!
//! An option that an earlier version had leads to its present name. Other unknown names lead to the nearest existing one,
//! if it differs by a typing error. Never accepts an unknown name.

use std::ffi::OsString;

use bytegauge_model::{old_names, suggest};
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};
use clap::{Arg, Command};

use crate::mesh;

/// Replaced options and commands of earlier versions: the name, and the replacement.
const REMOVED: &[(&str, &str)] = &[
    ("relay", "use `bytegauge run relay-copy` for bulk data, `bytegauge run relay-calls` for messages"),
    ("--full-grid", "use `bytegauge run buffer-grid`"),
    ("--all", "use --full"),
    ("--list", "the built-in plans are in: bytegauge run -h"),
    ("list", "built-in plans: bytegauge run -h; stored sessions: bytegauge sessions"),
    ("plans", "the built-in plans are in: bytegauge run -h"),
];

/// The error with advice about an unknown option or command. `words` is the command line with the program's name.
pub fn explained(mut error: Error, command: &Command, words: &[OsString]) -> Error {
    let kind = match error.kind() {
        ErrorKind::UnknownArgument => ContextKind::InvalidArg,
        ErrorKind::InvalidSubcommand => ContextKind::InvalidSubcommand,
        _ => return error,
    };
    let Some(ContextValue::String(name)) = error.get(kind).cloned() else { return error };
    let removed = REMOVED.iter().find(|(removed, _)| *removed == name).map(|(_, advice)| (*advice).to_owned());
    let inner = named(command, words);
    let advice = removed.or_else(|| match kind {
        ContextKind::InvalidArg => about_option(command, inner, &name),
        _ => about_command(inner, &name),
    });
    if let Some(advice) = advice {
        // The nearest name by its letters is another option, and its usage would be shown.
        error.remove(ContextKind::SuggestedArg);
        error.remove(ContextKind::Usage);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(advice)]));
    }
    error
}

/// The innermost command that the words name.
fn named<'a>(command: &'a Command, words: &[OsString]) -> &'a Command {
    let words = words.iter().skip(1).take_while(|word| *word != "--");
    words
        .filter_map(|word| word.to_str())
        .fold(command, |command, word| command.find_subcommand(word).unwrap_or(command))
}

fn about_option(program: &Command, command: &Command, name: &str) -> Option<String> {
    let name = name.strip_prefix("--")?;
    if let Some(why) = mesh::refused(name).filter(|_| command.get_name() == "mesh") {
        return Some(why.to_owned());
    }
    let arguments = command.get_arguments().chain(program.get_arguments().filter(|arg| arg.is_global_set()));
    let known: Vec<&str> = arguments.filter(|arg| !arg.is_hide_set()).filter_map(Arg::get_long).collect();
    if let Some(new) = old_names::option(name).filter(|new| known.contains(&new.as_str())) {
        return Some(format!("the option was renamed: use --{new}"));
    }
    suggest::nearest(name, known).map(|nearest| format!("a similar option exists: --{nearest}"))
}

fn about_command(command: &Command, name: &str) -> Option<String> {
    let known = command.get_subcommands().filter(|command| !command.is_hide_set()).map(Command::get_name);
    suggest::nearest(name, known).map(|nearest| format!("a similar command exists: {nearest}"))
}

#[cfg(test)]
mod tests {
    use crate::command_line;

    use super::*;

    fn error_of(line: &str) -> String {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let command = command_line::command();
        let error = command.clone().try_get_matches_from(&words).unwrap_err();
        explained(error, &command, &words).render().to_string()
    }

    #[test]
    fn renamed_option_names_the_new_one() {
        for (line, expected) in [
            ("bytegauge stream --i-am reader", "use --role"),
            ("bytegauge stream --choose role", "use --compare"),
            ("bytegauge run buffer-size --age=fresh", "use --connection-age"),
            ("bytegauge stream --walk 1M", "use --working-set"),
            ("bytegauge stream --fill touch", "use --writer-work"),
            ("bytegauge call --gentle", "use --half-load"),
            ("bytegauge stream --looks 2", "use --analyses"),
            ("bytegauge stream --audit off", "use --long-trials"),
            ("bytegauge run buffer-size --budget 60s", "use --time"),
            ("bytegauge call --think 1ms", "use --think-time"),
            ("bytegauge check --advice latest", "use --recommendation"),
            ("bytegauge stream --until-max 5m", "use --max-time"),
            ("bytegauge stream --duration 20ms", "use --trial-time"),
        ] {
            let text = error_of(line);
            assert!(text.contains(&format!("renamed: {expected}")), "{text}");
        }
    }

    #[test]
    fn refused_options_of_a_mesh_have_a_reason() {
        for (line, expected) in [
            ("bytegauge mesh --slo p99=2ms", "levels of --rate"),
            ("bytegauge mesh --placement same-core", "use taskset"),
            ("bytegauge mesh --link-delay 1ms", "emulate one by"),
            ("bytegauge mesh --blocks 9", "use --replicates"),
        ] {
            let text = error_of(line);
            assert!(text.contains(expected), "{text}");
        }
        assert!(!error_of("bytegauge mesh --xyzzy red").contains("tip:"));
    }

    #[test]
    fn removed_names_lead_to_their_replacement() {
        for (line, expected) in [
            ("bytegauge relay --relay splice", "bytegauge run relay-copy"),
            ("bytegauge run buffer-size --full-grid", "bytegauge run buffer-grid"),
            ("bytegauge report --all", "use --full"),
            ("bytegauge run --list", "bytegauge run -h"),
            ("bytegauge list", "bytegauge sessions"),
            ("bytegauge plans", "bytegauge run -h"),
        ] {
            let text = error_of(line);
            assert!(text.contains(expected), "{text}");
        }
    }

    #[test]
    fn words_of_other_tools_lead_to_ours() {
        for (line, expected) in [
            ("bytegauge report --db results.db", "--store"),
            ("bytegauge stream --delay 10ms", "--link-delay"),
            ("bytegauge stream --loss 1%", "--link-loss"),
            ("bytegauge stream --bandwidth 10M", "--rate"),
            ("bytegauge stream --parallel 4", "--flows"),
            ("bytegauge stream --length 4K", "--read-size"),
            ("bytegauge call --msg-size 512", "--request"),
            ("bytegauge call --threads 4", "--server-threads"),
            ("bytegauge stream --rtt 20ms", "--link-delay"),
            ("bytegauge stream --window 1M", "--rcvbuf"),
            ("bytegauge run tcp-echo --connections 9", "--flows"),
        ] {
            let text = error_of(line);
            assert!(text.contains(&format!("exists: {expected}\n")), "{text}");
        }
    }

    #[test]
    fn slip_of_the_finger_names_the_nearest() {
        let of_option = error_of("bytegauge stream --read-sise 4K");
        assert!(of_option.contains("a similar option exists: --read-size"), "{of_option}");
        let of_command = error_of("bytegauge strem");
        assert!(of_command.contains("a similar command exists: stream"), "{of_command}");
        let unlike = error_of("bytegauge stream --xyzzy red");
        assert!(!unlike.contains("tip:"), "{unlike}");
    }
}
