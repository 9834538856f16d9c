//! `cargo xtask generate`: documents generated from the product's tables.

mod factors;
mod plans;
mod screen;

use std::fs;

use anyhow::{Context, Result, bail};
use bytegauge_compare::{between_schema, history_schema};
use bytegauge_report::render::json;
use clap::{Arg, ArgAction, ArgMatches, Command};

use xtask::cargo;

/// A generated file: its path in the repository, and the function that makes its text.
struct Document {
    path: &'static str,
    /// A notice before the text that the file is generated.
    notice: &'static str,
    text: fn() -> Result<String>,
}

const DOCUMENTS: &[Document] = &[
    Document { path: "docs/factors.md", notice: NOTICE, text: factors::text },
    Document { path: "docs/plans.md", notice: NOTICE, text: plans::text },
    // Only the screen of these two is generated.
    Document { path: "README.md", notice: "", text: || screen::within("README.md") },
    Document { path: "docs/tutorial.md", notice: "", text: || screen::within("docs/tutorial.md") },
    // JSON has no comments; the README describes how it is made.
    Document { path: "crates/report/schema/report.schema.json", notice: "", text: || Ok(json::schema()) },
    Document { path: "crates/compare/schema/between.schema.json", notice: "", text: || Ok(between_schema()) },
    Document { path: "crates/compare/schema/compare.schema.json", notice: "", text: || Ok(history_schema()) },
];

const NOTICE: &str = "<!-- Made by `cargo xtask generate`; edit the tables that it reads instead. -->\n\n";

/// `cargo xtask generate [--check] [DOCUMENT]…`.
pub fn command() -> Command {
    Command::new("generate")
        .about("Write the documents that are made from the product's tables")
        .arg(
            Arg::new("check")
                .long("check")
                .action(ArgAction::SetTrue)
                .conflicts_with("document")
                .help("Write nothing; fail if a document is not what would be written"),
        )
        .arg(
            Arg::new("document")
                .num_args(0..)
                .value_name("DOCUMENT")
                .help("Write only these, by a part of their paths, such as docs or schema"),
        )
}

/// Writes or checks all documents.
///
/// # Errors
/// When a file cannot be written, or is stale.
pub fn run(matches: &ArgMatches) -> Result<()> {
    if matches.get_flag("check") {
        return check();
    }
    let asked: Vec<&String> = matches.get_many("document").into_iter().flatten().collect();
    let is_asked = |document: &&Document| asked.is_empty() || asked.iter().any(|part| document.path.contains(*part));
    for document in DOCUMENTS.iter().filter(is_asked) {
        let file = cargo::root().join(document.path);
        let folder = file.parent().unwrap_or(cargo::root());
        fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        fs::write(&file, made(document)?).with_context(|| format!("writing {}", file.display()))?;
        println!("wrote {}", document.path);
    }
    Ok(())
}

/// Compares what is on disk with what would be written.
///
/// # Errors
/// With the documents that differ.
pub fn check() -> Result<()> {
    let mut stale = Vec::new();
    for document in DOCUMENTS {
        let on_disk = fs::read_to_string(cargo::root().join(document.path)).unwrap_or_default();
        if on_disk != made(document)? {
            stale.push(document.path);
        }
    }
    if stale.is_empty() { Ok(()) } else { bail!("stale: {}: run `cargo xtask generate`", stale.join(", ")) }
}

fn made(document: &Document) -> Result<String> {
    Ok(format!("{}{}", document.notice, (document.text)()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_reproducible() {
        for document in DOCUMENTS {
            let text = made(document).unwrap();
            let title = if document.path.ends_with(".md") { "\n# " } else { "\"title\"" };
            assert!(format!("\n{text}").contains(title), "{} has no title", document.path);
            assert_eq!(text, made(document).unwrap());
        }
    }
}
