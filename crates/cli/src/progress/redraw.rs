//! Draws a line over the one drawn before, by cursor movements that every terminal since the VT100 knows. Writes nothing
//! itself.

use bytegauge_report::words::fit::columns as columns_of;

/// The line that is on the terminal now: its width, and the cursor is at the start of the row below it.
#[derive(Debug, Default)]
pub struct Redraw(Option<usize>);

impl Redraw {
    /// Replaces the line, on a terminal of this width.
    pub fn draw(&mut self, line: &str, columns: usize) -> String {
        // Erases the rest of the row instead of everything beforehand: the display does not flicker.
        let text = format!("{}{line}\x1b[K\n\x1b[J", self.to_first_row(columns));
        self.0 = Some(columns_of(line));
        text
    }

    /// Removes the line.
    pub fn clear(&mut self, columns: usize) -> String {
        let text = self.to_first_row(columns);
        if self.0.take().is_some() { text + "\x1b[J" } else { text }
    }

    /// Moves the cursor to the start of the line. A terminal that became narrower has wrapped a long one.
    fn to_first_row(&self, columns: usize) -> String {
        let rows = |width: usize| format!("\r\x1b[{}A", width.div_ceil(columns.max(1)).max(1));
        self.0.map_or_else(String::new, rows)
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

    #[test]
    fn a_line_replaces_the_one_before() {
        let mut redraw = Redraw::default();
        let first = redraw.draw("confirmation: 1 of 9 blocks", 40);
        let second = redraw.draw("screening: 2", 40);
        let start = "$ bytegauge run\n".to_owned();
        let expected = "$ bytegauge run\nscreening: 2";
        assert_eq!(shown(40, &[start.clone(), first.clone(), second.clone()]), expected);
        let cleared = redraw.clear(40);
        assert_eq!(shown(40, &[start, first, second, cleared, "done\n".into()]), "$ bytegauge run\ndone");
        assert_eq!(redraw.clear(40), "");
    }

    #[test]
    fn a_wrapped_line_is_replaced_whole() {
        let mut redraw = Redraw::default();
        // On 40 columns the line is one row; a terminal of 20 columns that wraps it shows two.
        let first = redraw.draw("a line of thirty columns ......", 40);
        let second = redraw.draw("short", 20);
        assert_eq!(shown(20, &["$\n".into(), first, second]), "$\nshort");
    }
}
