//! Draws lines over the ones drawn before, by cursor movements that every terminal since the VT100 knows. Writes nothing
//! itself.

use bytegauge_report::words::fit::columns as columns_of;

/// The lines that are on the terminal now.
#[derive(Debug, Default)]
pub struct Redraw {
    /// Their widths in columns. The cursor is at the start of the row below the last one.
    widths: Vec<usize>,
}

impl Redraw {
    /// Replaces the lines, on a terminal of this width.
    pub fn draw(&mut self, lines: &[String], columns: usize) -> String {
        let mut text = self.to_first_row(columns);
        for line in lines {
            // Erases the rest of each row instead of everything beforehand: the display does not flicker.
            text.push_str(line);
            text.push_str("\x1b[K\n");
        }
        text.push_str("\x1b[J");
        self.widths = lines.iter().map(|line| columns_of(line)).collect();
        text
    }

    /// Removes the lines.
    pub fn clear(&mut self, columns: usize) -> String {
        if self.widths.is_empty() {
            return String::new();
        }
        let text = self.to_first_row(columns) + "\x1b[J";
        self.widths.clear();
        text
    }

    /// Moves the cursor to the start of the first line. A terminal that became narrower has wrapped long lines.
    fn to_first_row(&self, columns: usize) -> String {
        let rows: usize = self.widths.iter().map(|width| width.div_ceil(columns.max(1)).max(1)).sum();
        if rows == 0 { String::new() } else { format!("\r\x1b[{rows}A") }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZero;

    use super::*;

    /// A terminal as it is after some output. The kernel turns each newline into a carriage return and a newline.
    fn shown(columns: u16, output: &[String]) -> String {
        let of = |size| NonZero::new(size).expect("a size");
        let mut terminal = vt100::Parser::new(of(8), of(columns), 0);
        output.iter().for_each(|text| terminal.process(text.replace('\n', "\r\n").as_bytes()));
        terminal.screen().contents()
    }

    fn lines(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|&text| text.to_owned()).collect()
    }

    #[test]
    fn lines_replace_those_before() {
        let mut redraw = Redraw::default();
        let first = redraw.draw(&lines(&["confirmation: 1 of 9 blocks", "TCP 64K", "pipe 4K"]), 40);
        let second = redraw.draw(&lines(&["screening: 2", "TCP 1M"]), 40);
        let start = "$ bytegauge run\n".to_owned();
        let expected = "$ bytegauge run\nscreening: 2\nTCP 1M";
        assert_eq!(shown(40, &[start.clone(), first.clone(), second.clone()]), expected);
        let cleared = redraw.clear(40);
        assert_eq!(shown(40, &[start, first, second, cleared, "done\n".into()]), "$ bytegauge run\ndone");
        assert_eq!(redraw.clear(40), "");
    }

    #[test]
    fn full_screen_keeps_its_first_line() {
        let mut redraw = Redraw::default();
        let seven: Vec<String> = (0..7).map(|line| format!("line {line}")).collect();
        let output: Vec<String> = (0..3).map(|_| redraw.draw(&seven, 40)).collect();
        assert_eq!(shown(40, &output), seven.join("\n"));
    }

    #[test]
    fn wrapped_lines_are_replaced_whole() {
        let mut redraw = Redraw::default();
        // On 40 columns each line is one row; a terminal of 20 columns that wraps them shows two of each.
        let first = redraw.draw(&lines(&["a line of thirty columns ......", "a line of thirty columns ......"]), 40);
        let second = redraw.draw(&lines(&["short"]), 20);
        assert_eq!(shown(20, &["$\n".into(), first, second]), "$\nshort");
    }
}
