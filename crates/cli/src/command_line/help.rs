//! The help of a command. The full one (`--help`) has all options under their headings, in one line each; the manual has the details. The
//! short one (`-h`) has those that most users need.
//!
//! Also other texts about the command line: completions, the manual page, advice about unknown options and commands.

use std::ffi::OsString;
use std::io::Write as _;

use bytegauge_model::{factor, suggest};
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};
use clap::{Arg, ArgMatches, Command};

use super::command;
use crate::exit_code::{DONE, Failure};
use crate::{mesh, terminal};

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
    compact(named(&root, words).clone()).render_help()
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

// The short help (`-h`): of each command the options that most users need. `--help` shows all.

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

// Texts made from the command line itself: completions for shells, the manual page.

/// Completions for a shell.
pub fn completions(matches: &ArgMatches) -> Result<u8, Failure> {
    // Made in memory first: a reader that leaves early is no panic.
    let mut script = Vec::new();
    if let Some(shell) = matches.get_one::<clap_complete::Shell>("shell") {
        clap_complete::generate(*shell, &mut command(), "bytegauge", &mut script);
    }
    terminal::print_data(&String::from_utf8_lossy(&script));
    Ok(DONE)
}

/// The manual page, in roff.
pub fn man() -> Result<u8, Failure> {
    let mut page = Vec::new();
    let written = |error| Failure::failed(format!("writing the manual page: {error}"));
    // The manual has the options that -h leaves out.
    let whole = |command: Command| command.mut_args(|arg| arg.hide_short_help(false));
    let command = whole(command().mut_subcommands(whole));
    let man = clap_mangen::Man::new(command.clone());
    man.render(&mut page).map_err(written)?;
    // One page for all, as `bytegauge --help` is one: a section for each command that has flags of its own.
    let shown = |command: &Command| !command.is_hide_set() && command.get_name() != "help";
    let sections = command.get_subcommands().filter(|command| shown(command)).flat_map(|command| {
        let name = command.get_name();
        let below = command.get_subcommands().filter(move |command| shown(command));
        [(name.to_owned(), command)]
            .into_iter()
            .chain(below.map(move |sub| (format!("{name} {}", sub.get_name()), sub)))
    });
    for (name, command) in sections {
        let _ = writeln!(page, ".SH \"BYTEGAUGE {}\"", name.to_uppercase());
        let own = clap_mangen::Man::new(command.clone().bin_name(format!("bytegauge {name}")));
        let mut section = Vec::new();
        own.render_description_section(&mut section)
            .and_then(|()| own.render_synopsis_section(&mut section))
            .and_then(|()| own.render_options_section(&mut section))
            .map_err(written)?;
        let has_tables = command.get_after_long_help().is_some();
        if has_tables || command.get_after_help().is_some() {
            own.render_extra_section(&mut section).map_err(written)?;
        }
        // Tables keep their lines, and prose is filled. Sections of a page are subsections here.
        let notes = if has_tables { ".SS NOTES\n.nf" } else { ".SS NOTES" };
        let section = String::from_utf8_lossy(&section).replace(".SH EXTRA", notes).replace(".SH ", ".SS ");
        page.extend((section + ".fi\n").bytes());
    }
    terminal::print_data(&String::from_utf8_lossy(&page));
    Ok(DONE)
}

// Options and commands that do not exist: suggests the intended one.
//
// Unknown names lead to the nearest existing one, if it differs by a typing error. Never accepts an unknown name.

/// The error with advice about an unknown option or command. `words` is the command line with the program's name.
pub fn explained(mut error: Error, command: &Command, words: &[OsString]) -> Error {
    let kind = match error.kind() {
        ErrorKind::UnknownArgument => ContextKind::InvalidArg,
        ErrorKind::InvalidSubcommand => ContextKind::InvalidSubcommand,
        ErrorKind::InvalidUtf8 => return no_text(words).unwrap_or(error),
        _ => return error,
    };
    let Some(ContextValue::String(name)) = error.get(kind).cloned() else { return error };
    let inner = named(command, words);
    let advice = match kind {
        ContextKind::InvalidArg => about_option(command, inner, &name),
        _ => about_command(inner, &name),
    };
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
    use crate::command_line::command;

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

#[cfg(test)]
mod unknown_option_tests {

    use super::*;

    fn error_of(line: &str) -> String {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let command = command();
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
        let command = command();
        let error = command.clone().try_get_matches_from(&words).unwrap_err();
        let text = explained(error, &command, &words).render().to_string();
        assert!(text.contains("`./prog\u{fffd}\\u{1b}` is not valid UTF-8") && text.contains("ln -s"), "{text}");
    }

    #[test]
    fn words_in_a_wrong_place_lead_to_theirs() {
        for (line, expected) in [
            ("bytegauge compare main 12", "bytegauge report compare"),
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
