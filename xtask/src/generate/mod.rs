//! `cargo xtask generate`: documents generated from the product's tables.

mod factors;

use std::fs::{self, File};

use anyhow::{Context, Result, ensure};
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
type Document = (&'static str, fn() -> Result<String>);

const DOCUMENTS: &[Document] = &[
    ("docs/factors.md", factors::text),
    ("docs/plans.md", plans_text),
    // Only the screen of these two is generated.
    ("README.md", || within("README.md")),
    ("docs/tutorial.md", || within("docs/tutorial.md")),
    // JSON has no comments; the README describes how it is made.
    ("crates/report/schema/report.schema.json", || Ok(json::schema())),
    ("crates/compare/schema/compare.schema.json", || Ok(history_schema())),
];

/// The first line of a document that is generated as a whole.
const NOTICE: &str = "<!-- Made by `cargo xtask generate`; edit the tables that it reads instead. -->\n\n";

/// `cargo xtask generate [--check]`.
pub fn command() -> Command {
    Command::new("generate").about("Write the documents that are made from the product's tables").arg(
        Arg::new("check")
            .long("check")
            .action(ArgAction::SetTrue)
            .help("Write nothing; fail if a document is not what would be written"),
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
    for (path, text) in DOCUMENTS {
        fs::write(cargo::root().join(path), text()?).with_context(|| format!("writing {path}"))?;
        println!("wrote {path}");
    }
    Ok(())
}

/// Compares what is on disk with what would be written.
///
/// # Errors
/// With the documents that differ.
pub fn check() -> Result<()> {
    let mut stale = Vec::new();
    for (path, text) in DOCUMENTS {
        if fs::read_to_string(cargo::root().join(path)).unwrap_or_default() != text()? {
            stale.push(*path);
        }
    }
    ensure!(stale.is_empty(), "stale: {}: run `cargo xtask generate`", stale.join(", "));
    Ok(())
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
    Ok(format!("{NOTICE}{INTRODUCTION}{}", table(&["plan", "measures", "tests", "options", "time"], rows)))
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
        for (path, text) in DOCUMENTS {
            let (made, again) = (text().unwrap(), text().unwrap());
            let title = if path.ends_with(".md") { "\n# " } else { "\"title\"" };
            assert!(format!("\n{made}").contains(title), "{path} has no title");
            assert_eq!(made, again);
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
