//! Reads a Markdown table, in the text around it. Its columns are recognised and mapped as those of CSV.

use super::csv::table;
use super::{Format, ImportDraft, ImportError, Parser};

/// A table between pipes.
pub(super) struct Markdown;

impl Parser for Markdown {
    fn format(&self) -> Format {
        Format::Markdown
    }

    fn recognises(&self, text: &str, _first: &str) -> bool {
        let lines: Vec<&str> = text.lines().collect();
        lines.windows(2).any(|pair| cells(pair[0]).is_some() && is_rule(pair[1]))
    }

    fn parse(&self, text: &str, map: &[(String, String)], name: Option<String>) -> Result<ImportDraft, ImportError> {
        let lines: Vec<(u64, &str)> = (1..).zip(text.lines()).collect();
        let mut header: Option<Vec<String>> = None;
        let mut rows = Vec::new();
        let mut in_table = false;
        for (at, (number, line)) in lines.iter().enumerate() {
            let next_is_rule = lines.get(at + 1).is_some_and(|(_, next)| is_rule(next));
            match cells(line) {
                Some(found) if next_is_rule => {
                    // Further tables with the same columns go on with the first one.
                    in_table = header.as_ref().is_none_or(|header| *header == found);
                    header.get_or_insert(found);
                }
                Some(_) if is_rule(line) => {}
                Some(found) if in_table => rows.push((*number, found)),
                _ => in_table = false,
            }
        }
        table(&header.ok_or(ImportError::Empty)?, rows.into_iter().map(Ok), map, name)
    }
}

/// The cells of a line between pipes, without emphasis and code marks.
fn cells(line: &str) -> Option<Vec<String>> {
    let inner = line.trim().strip_prefix('|')?;
    let inner = inner.strip_suffix('|').unwrap_or(inner);
    Some(inner.split('|').map(|cell| cell.trim().trim_matches(['*', '`']).trim().to_owned()).collect())
}

/// Whether a line is the rule under a header: `|---|:--:|`.
fn is_rule(line: &str) -> bool {
    let is_dashes = |cell: &String| cell.contains('-') && cell.bytes().all(|byte| matches!(byte, b'-' | b':' | b' '));
    cells(line).is_some_and(|cells| cells.iter().all(is_dashes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_and_cells() {
        assert!(is_rule("|---|:--:|") && !is_rule("| a | b |") && !is_rule("text"));
        assert_eq!(cells("| **64K** | `tcp` |").unwrap(), ["64K", "tcp"]);
        assert!(Markdown.recognises("text\n\n| a | b |\n|---|---|\n| 1 | 2 |\n", "text"));
        assert!(!Markdown.recognises("a | b\n", "a | b"));
    }
}
