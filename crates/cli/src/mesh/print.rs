//! `bytegauge mesh print LAUNCHER`: prints a script or a manifest that starts a mesh. Nothing is started.

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgMatches, Command, value_parser};

use crate::command_line::option::valued;
use crate::exit_code::{DONE, Failure};
use crate::{args, terminal};

/// The launchers with their templates: `@SIZE@` is the number of hosts, `@FLAGS@` the flags of the mesh, `@LIST@` the same as a list of YAML.
const TEMPLATES: &[(&str, &str)] = &[
    ("slurm", include_str!("print/slurm.sh")),
    ("kubernetes", include_str!("print/kubernetes.yaml")),
    ("mpirun", include_str!("print/mpirun.sh")),
    ("pdsh", include_str!("print/pdsh.sh")),
];

/// The subcommand.
pub fn command() -> Command {
    Command::new("print")
        .about("Print a script or manifest that starts a mesh")
        .arg(
            Arg::new("launcher")
                .value_name("LAUNCHER")
                .required(true)
                .value_parser(PossibleValuesParser::new(TEMPLATES.iter().map(|(name, _)| *name)))
                .help("Launcher that is used"),
        )
        .arg(valued("size", "N", "Number of hosts").value_parser(value_parser!(u32)).default_value("16"))
        .arg(
            Arg::new("flags")
                .value_name("FLAG")
                .num_args(0..)
                .last(true)
                .help("Flags of the mesh, such as --pattern matchings:5"),
        )
}

/// Prints the template of a launcher.
pub fn run(matches: &ArgMatches) -> Result<u8, Failure> {
    let name = matches.get_one::<String>("launcher").map_or("", String::as_str);
    let size = matches.get_one::<u32>("size").copied().unwrap_or(16);
    let flags: Vec<&str> = args::texts(matches, "flags").collect();
    let template = TEMPLATES.iter().find(|(known, _)| *known == name).map_or("", |(_, template)| *template);
    terminal::print_data(&filled(template, size, &flags));
    Ok(DONE)
}

fn filled(template: &str, size: u32, flags: &[&str]) -> String {
    let quoted: Vec<String> =
        flags.iter().map(|flag| shlex::try_quote(flag).map_or_else(|_| (*flag).to_owned(), Into::into)).collect();
    let words: String = quoted.iter().map(|flag| format!(" {flag}")).collect();
    // Every JSON string is one of YAML.
    let list: String = flags.iter().map(|flag| format!(", {}", serde_json::Value::from(*flag))).collect();
    template.replace("@SIZE@", &size.to_string()).replace("@FLAGS@", &words).replace("@LIST@", &list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_filled() {
        for (name, template) in TEMPLATES {
            let text = filled(template, 8, &["--pattern", "matchings:5", "--rack", "a b"]);
            assert!(!text.contains('@') && text.contains("matchings:5") && text.contains('8'), "{name}: {text}");
        }
    }
}
