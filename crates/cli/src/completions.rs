//! Texts made from the command line itself: completions for shells, the manual page.

use std::io::Write as _;

use clap::{ArgMatches, Command};

use crate::command_line;
use crate::exit_code::{DONE, Failure};
use crate::terminal;

/// Completions for a shell.
pub fn completions(matches: &ArgMatches) -> Result<u8, Failure> {
    // Made in memory first: a reader that leaves early is no panic.
    let mut script = Vec::new();
    if let Some(shell) = matches.get_one::<clap_complete::Shell>("shell") {
        clap_complete::generate(*shell, &mut command_line::command(), "bytegauge", &mut script);
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
    let command = whole(command_line::command().mut_subcommands(whole));
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
