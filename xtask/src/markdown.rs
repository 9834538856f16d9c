//! Tables in Markdown.

/// A table; every row has as many cells as there are headings.
pub fn table(headings: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut text = format!("| {} |\n|{}\n", headings.join(" | "), "---|".repeat(headings.len()));
    for row in rows {
        let cells: Vec<String> = row.iter().map(|cell| cell.replace('|', "\\|").replace('\n', " ")).collect();
        text.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    text
}

/// Text as code.
pub fn code(text: impl std::fmt::Display) -> String {
    format!("`{text}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables() {
        let got = table(&["a", "b"], [vec!["1|2".to_owned(), code("x")]]);
        assert_eq!(got, "| a | b |\n|---|---|\n| 1\\|2 | `x` |\n");
    }
}
