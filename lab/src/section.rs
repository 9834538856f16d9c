//! The generated part of a document, between two markers. Text around it stays.

use std::fs;
use std::path::Path;
use std::process::Command as Process;

use anyhow::{Context, Result, bail};

use xtask::cargo;

const END: &str = "<!-- end -->";

/// Replaces the section of that name in the file, or starts the file with `header` and the section.
pub fn write(file: &Path, name: &str, header: &str, body: &str) -> Result<()> {
    let old = match fs::read_to_string(file) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(error).with_context(|| format!("reading {}", file.display())),
    };
    let new = replaced(old.as_deref(), name, header, body).with_context(|| file.display().to_string())?;
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    }
    fs::write(file, new).with_context(|| format!("writing {}", file.display()))
}

/// Puts a section into `docs/research/verification.md`, or prints it alone.
pub fn of_verification(name: &str, text: &str, print_only: bool) -> Result<()> {
    const DOCUMENT: &str = "docs/research/verification.md";
    const HEADER: &str =
        "# Verification\n\nThe properties of the statistical method, tested on simulations with known truth.";
    if print_only {
        println!("{text}");
        return Ok(());
    }
    write(&cargo::root().join(DOCUMENT), name, HEADER, text)?;
    println!("wrote {DOCUMENT}");
    Ok(())
}

/// Today's date, UTC, as `2030-01-31`: the date of measurement in a generated part.
///
/// # Errors
/// When there is no `date`.
pub fn today() -> Result<String> {
    let output = Process::new("date").args(["-u", "+%F"]).output().context("getting the date from `date`")?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn replaced(old: Option<&str>, name: &str, header: &str, body: &str) -> Result<String> {
    let start = format!("<!-- generated: {name} -->");
    let section = format!("{start}\n{}\n{END}", body.trim_end());
    let Some(old) = old else { return Ok(format!("{}\n\n{section}\n", header.trim_end())) };
    let Some((before, rest)) = old.split_once(&start) else {
        // A document written by hand keeps its text; the figures follow it.
        return Ok(format!("{}\n\n{section}\n", old.trim_end()));
    };
    let Some((_, after)) = rest.split_once(END) else {
        bail!("the section `{start}` has no end: put `{END}` after it");
    };
    Ok(format!("{before}{section}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(old: Option<&str>, expected: &str) {
        assert_eq!(replaced(old, "it", "# Title", "new\n").unwrap(), expected);
    }

    #[test]
    fn sections() {
        check(None, "# Title\n\n<!-- generated: it -->\nnew\n<!-- end -->\n");
        check(
            Some("by hand\n<!-- generated: it -->\nold\n<!-- end -->\nafter\n"),
            "by hand\n<!-- generated: it -->\nnew\n<!-- end -->\nafter\n",
        );
        check(
            Some("<!-- generated: other -->\nx\n<!-- end -->\n"),
            "<!-- generated: other -->\nx\n<!-- end -->\n\n<!-- generated: it -->\nnew\n<!-- end -->\n",
        );
        assert!(replaced(Some("<!-- generated: it -->\nold"), "it", "", "new").is_err());
    }
}
