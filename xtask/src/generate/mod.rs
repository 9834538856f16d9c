//! `cargo xtask generate`: documents generated from the product's tables.

mod factors;

use std::fs::{self, File};

use anyhow::{Context, Result, bail};
use bytegauge_compare::history_schema;
use bytegauge_import::ImportOptions;
use bytegauge_model::Nanos;
use bytegauge_plan::{Catalog, Plan, built_in, resolve};
use bytegauge_report::render::{self, json};
use bytegauge_report::{Report, SessionData, Settings};
use bytegauge_store::Store;
use clap::{Arg, ArgAction, ArgMatches, Command};
use flate2::read::GzDecoder;
use xtask::cargo;
use xtask::markdown::{code, table};

/// A generated file: its path in the repository, and the function that makes its text.
struct Document {
    path: &'static str,
    /// A notice before the text that the file is generated.
    notice: &'static str,
    text: fn() -> Result<String>,
}

const DOCUMENTS: &[Document] = &[
    Document { path: "docs/factors.md", notice: NOTICE, text: factors::text },
    Document { path: "docs/plans.md", notice: NOTICE, text: plans_text },
    // Only the screen of these two is generated.
    Document { path: "README.md", notice: "", text: || within("README.md") },
    Document { path: "docs/tutorial.md", notice: "", text: || within("docs/tutorial.md") },
    // JSON has no comments; the README describes how it is made.
    Document { path: "crates/report/schema/report.schema.json", notice: "", text: || Ok(json::schema()) },
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

// `docs/plans.md`: the ready plans, resolved as on a machine with every feature.

const INTRODUCTION: &str = "# Built-in plans

`bytegauge run NAME` runs one of these plans. `--dry-run` prints what it measures on your machine, and flags change it
(`--read-size 4K..64K`). The plans are the files of `crates/plan/plans/`: copy one to write your own, and run it by its path.

The table is for a machine that has every CPU and file that a plan uses. If yours lacks something, its options are skipped with the reason.

";

/// Only orders depend on the seed, and none is printed here.
const SEED: u64 = 1;

/// The document.
pub fn plans_text() -> Result<String> {
    let mut rows = Vec::new();
    for (name, _) in built_in::PLANS {
        let spec = built_in::shown(name)?;
        let plan = resolve(&spec, &Catalog::default(), SEED)?;
        rows.push(row(name, &spec.summary, &plan));
    }
    Ok(format!("{INTRODUCTION}{}", table(&["plan", "measures", "tests", "options", "time"], rows)))
}

/// The row of a plan.
fn row(name: &str, summary: &str, plan: &Plan) -> Vec<String> {
    let options: usize = plan.families.iter().map(|family| family.choices * family.groups.len()).sum();
    vec![
        code(name),
        summary.to_owned(),
        plan.groups.len().to_string(),
        options.to_string(),
        format!("{:.0} s", Nanos(plan.schedule().total_ns()).seconds()),
    ]
}

// The screen in the README and the tutorial: the report of a stored session.

/// Made by `bytegauge report export`.
const SESSION: &str = "docs/example/session.jsonl.gz";
/// The lines before and after the screen.
const BEGINS: &str = "<!-- the screen: made by `cargo xtask generate` of docs/example/session.jsonl.gz -->\n```\n";
const ENDS: &str = "```\n";
/// As wide as a usual terminal.
const COLUMNS: usize = 80;

/// A document with the screen in its place.
///
/// # Errors
/// When the session cannot be read, or the document has no place for it.
pub fn within(path: &str) -> Result<String> {
    let screen = screen()?;
    let document = fs::read_to_string(cargo::root().join(path)).with_context(|| format!("reading {path}"))?;
    let missing = || format!("{path} has no lines `{}` and a block of code below it", BEGINS.trim_end());
    let (before, rest) = document.split_once(BEGINS).with_context(missing)?;
    let (_, behind) = rest.split_once(ENDS).with_context(missing)?;
    Ok(format!("{before}{BEGINS}{screen}{ENDS}{behind}"))
}

/// The screen of the stored session, as shown on the machine where it was measured.
fn screen() -> Result<String> {
    let folder = tempfile::tempdir()?;
    let mut store = Store::open(&folder.path().join("results.db"))?;
    let session = File::open(cargo::root().join(SESSION)).with_context(|| format!("opening {SESSION}"))?;
    let imported = bytegauge_import::import(&mut store, GzDecoder::new(session), &ImportOptions::default())?;
    let mut data = SessionData::load(&store, imported.session)?;
    data.record.imported = false;
    let style = render::TerminalStyle { columns: COLUMNS, ..render::TerminalStyle::default() };
    Ok(render::screen::render(&Report::of(&data, &Settings::default()), &style))
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

#[cfg(test)]
mod plans_tests {
    use super::*;

    #[test]
    fn every_plan_has_a_row() {
        let text = plans_text().unwrap();
        for (name, _) in built_in::PLANS {
            assert!(text.contains(&format!("\n| `{name}` | ")), "{name}");
        }
    }
}

#[cfg(test)]
mod screen_tests {
    use super::*;

    #[test]
    fn readme_has_one_screen() {
        let screen = screen().unwrap();
        assert!(screen.starts_with("bytegauge buffer-size #1  "), "{screen}");
        let widest = screen.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= COLUMNS && screen.lines().count() <= 25, "{screen}");
    }
}
