//! Options and commands that do not exist: suggests the intended one.
//!
//! Commands that were merged into others lead to them. Other unknown names lead to the nearest existing one, if it differs by
//! a typing error. Never accepts an unknown name.

use std::ffi::OsString;

use bytegauge_model::{factor, suggest};
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};
use clap::{Arg, Command};

use crate::mesh;

/// Names that a user looks for elsewhere, each with the advice.
const MOVED: &[(&str, &str)] = &[
    ("sessions", "stored sessions: bytegauge report list"),
    ("survey", "use: bytegauge run survey"),
    ("watch", "use: bytegauge report --html page.html --open, also while the session runs"),
    ("selftest", "use: bytegauge doctor --selftest"),
    ("--list", "stored sessions: bytegauge report list; built-in plans: bytegauge run -h"),
];

/// The error with advice about an unknown option or command. `words` is the command line with the program's name.
pub fn explained(mut error: Error, command: &Command, words: &[OsString]) -> Error {
    let kind = match error.kind() {
        ErrorKind::UnknownArgument => ContextKind::InvalidArg,
        ErrorKind::InvalidSubcommand => ContextKind::InvalidSubcommand,
        ErrorKind::InvalidUtf8 => return no_text(words).unwrap_or(error),
        _ => return error,
    };
    let Some(ContextValue::String(name)) = error.get(kind).cloned() else { return error };
    let moved = MOVED.iter().find(|(moved, _)| *moved == name).map(|(_, advice)| (*advice).to_owned());
    let inner = named(command, words);
    let advice = moved.or_else(|| match kind {
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

/// The error about the last word that is no text: paths of files may be any bytes, words of a measured program may not.
fn no_text(words: &[OsString]) -> Option<Error> {
    let word = words.iter().rfind(|word| word.to_str().is_none())?;
    let word = word.to_string_lossy();
    let message = format!(
        "`{}` is not valid UTF-8: give the program or the file another name, such as that of a link (ln -s), or start it by a script\n",
        word.escape_debug()
    );
    Some(Error::raw(ErrorKind::InvalidUtf8, message))
}

/// The innermost command that the words name.
fn named<'a>(command: &'a Command, words: &[OsString]) -> &'a Command {
    let words = words.iter().skip(1).take_while(|word| *word != "--");
    words
        .filter_map(|word| word.to_str())
        .fold(command, |command, word| command.find_subcommand(word).unwrap_or(command))
}

fn about_option(program: &Command, command: &Command, name: &str) -> Option<String> {
    let Some(name) = name.strip_prefix("--") else {
        let is_measured = matches!(command.get_name(), "tune" | "observe") && !name.starts_with('-');
        return is_measured
            .then(|| format!("write -- before the program: bytegauge {} -- {name} …", command.get_name()));
    };
    if let Some(why) = mesh::refused(name).filter(|_| command.get_name() == "mesh") {
        return Some(why.to_owned());
    }
    let workload = command.get_name().parse().ok();
    if let Some(other) = workload.and_then(|workload| factor::elsewhere(workload, name)) {
        return Some(format!("--{name} is an option of bytegauge {other}"));
    }
    let arguments = command.get_arguments().chain(program.get_arguments().filter(|arg| arg.is_global_set()));
    let known: Vec<&str> = arguments.filter(|arg| !arg.is_hide_set()).filter_map(Arg::get_long).collect();
    suggest::nearest(name, known).map(|nearest| format!("a similar option exists: --{nearest}"))
}

fn about_command(command: &Command, name: &str) -> Option<String> {
    let shown = || command.get_subcommands().filter(|command| !command.is_hide_set());
    if let Some(parent) = shown().find(|parent| parent.find_subcommand(name).is_some()) {
        return Some(format!("use: bytegauge {} {name}", parent.get_name()));
    }
    suggest::nearest(name, shown().map(Command::get_name)).map(|nearest| format!("a similar command exists: {nearest}"))
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
    fn a_word_that_is_no_text_is_named() {
        use std::os::unix::ffi::OsStringExt;
        let mut words: Vec<OsString> = "bytegauge tune --".split(' ').map(OsString::from).collect();
        words.push(OsString::from_vec(b"./prog\xff\x1b".to_vec()));
        let command = command_line::command();
        let error = command.clone().try_get_matches_from(&words).unwrap_err();
        let text = explained(error, &command, &words).render().to_string();
        assert!(text.contains("`./prog\u{fffd}\\u{1b}` is not valid UTF-8") && text.contains("ln -s"), "{text}");
    }

    #[test]
    fn moved_commands_lead_to_their_new_place() {
        for (line, expected) in [
            ("bytegauge sessions", "bytegauge report list"),
            ("bytegauge compare main 12", "bytegauge report compare"),
            ("bytegauge selftest --full", "bytegauge doctor --selftest"),
            ("bytegauge watch 3", "bytegauge report --html page.html --open"),
            ("bytegauge run --list", "bytegauge run -h"),
            ("bytegauge tune ./fetch 7362", "write -- before the program: bytegauge tune -- ./fetch …"),
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
    fn options_of_other_workloads_are_named() {
        for (line, expected) in [
            ("bytegauge call --urgent 10ms", "--urgent is an option of bytegauge stream"),
            ("bytegauge call --inq on", "--inq is an option of bytegauge stream"),
            ("bytegauge call --burst 9", "--burst is an option of bytegauge stream"),
            ("bytegauge stream --depth 9", "--depth is an option of bytegauge call"),
        ] {
            let text = error_of(line);
            assert!(text.contains(expected), "{text}");
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
