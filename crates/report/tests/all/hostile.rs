//! Text from outside in every format: nothing acts on a terminal, and no format loses its structure.

use std::num::NonZero;

use bytegauge_model::{Outcome, escape};
use bytegauge_report::render::{self, TerminalStyle, on_terminal};
use bytegauge_report::{Report, SessionData, Settings};
use proptest::prelude::*;

use crate::support::{Plan, session};

/// Pieces that act on terminals, spreadsheets, browsers and Markdown.
const PIECES: &[&str] = &[
    "\u{1b}]0;title\u{7}",
    "\u{1b}[31m",
    "\u{1b}[2J\u{1b}[H",
    "\u{1b}[?1049h",
    "\u{1b}[?25l",
    "\u{1b}c",
    "\u{1b}P$q\u{1b}\\",
    "\u{9b}31m",
    "\u{9d}0;title\u{9c}",
    "\u{7}",
    "\u{8}",
    "\u{7f}",
    "\r",
    "\n",
    "\t",
    "\u{b}",
    "\u{e}",
    "\u{202e}",
    "\u{2066}",
    "\u{200b}",
    "\u{2028}",
    "\u{2029}",
    "\u{feff}",
    "\u{fffe}",
    "\u{e0041}",
    "=1+1",
    "+cmd|' /C calc'!A0",
    "-2+3",
    "@SUM(A1)",
    "<script>alert(1)</script>",
    "]]>",
    "</testcase>",
    "&#27;",
    "\"",
    "'",
    "\\",
    "|",
    "`",
    "[x](javascript:x)",
    "# ",
    "- ",
    "word",
    " ",
    "{}",
    "} 1\n",
];

/// Text that begins with a letter or with any piece.
fn hostile() -> impl Strategy<Value = String> {
    let piece = prop_oneof![prop::sample::select(PIECES).prop_map(str::to_owned), any::<char>().prop_map(String::from)];
    prop::collection::vec(piece, 1..8).prop_map(|pieces| pieces.concat())
}

/// A session whose every free text is this.
fn planted(text: &str) -> (SessionData, Report) {
    let plan = Plan {
        transports: vec!["unix"],
        profiles: vec!["sum"],
        read_sizes: vec![4096, 65_536],
        write_sizes: vec![65_536],
        finalists: 2,
        confirm_blocks: 6,
        ..Plan::default()
    };
    let mut data = session(&plan);
    data.record.plan_name = text.to_owned();
    data.record.version = text.to_owned();
    data.record.workload = "stream".into();
    data.record.notes = vec![text.to_owned()];
    data.record.machine["cpu"]["model"] = text.into();
    data.record.machine["kernel_release"] = text.into();
    for trial in data.trials.iter_mut().take(3) {
        trial.outcome = Outcome::Failed(text.to_owned());
    }
    let view = Report::of(&data, &Settings::default());
    (data, view)
}

/// Replaces the counts of a value that `choose` picks, in the order in which they are stored.
fn replaced(value: &mut serde_json::Value, choose: &mut impl FnMut() -> Option<u64>) {
    match value {
        serde_json::Value::Number(number) if number.is_u64() => {
            if let Some(chosen) = choose() {
                *value = chosen.into();
            }
        }
        serde_json::Value::Array(all) => all.iter_mut().for_each(|each| replaced(each, choose)),
        serde_json::Value::Object(all) => all.values_mut().for_each(|each| replaced(each, choose)),
        _ => {}
    }
}

/// A session in which the ends of every trial reported any counts, as a hostile agent may.
fn miscounted(seed: u64) -> (SessionData, Report) {
    let (mut data, _) = planted("name");
    let mut state = seed;
    let mut random = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    // From a few counts in a session to one in four.
    let rare = 4 << (random() % 6);
    let mut choose = || match (random() % rare, random() % 5) {
        (0, 0) => Some(0),
        (0, 1) => Some(1),
        (0, 2) => Some(u64::MAX),
        (0, 3) => Some(u64::MAX / 2),
        (0, _) => Some(random() << 20),
        _ => None,
    };
    for trial in data.trials.iter_mut().filter(|trial| trial.outcome == Outcome::Measured) {
        let mut ends = serde_json::to_value(&trial.ends).unwrap();
        replaced(&mut ends, &mut choose);
        // A count of few bits does not take any number.
        if let Ok(ends) = serde_json::from_value(ends) {
            trial.ends = ends;
        }
        for count in [&mut trial.bytes, &mut trial.calls, &mut trial.wall_ns] {
            *count = choose().unwrap_or(*count);
        }
    }
    let view = Report::of(&data, &Settings::default());
    (data, view)
}

/// Every text for programs, by the name of its format.
fn documents((data, view): &(SessionData, Report)) -> Vec<(&'static str, String)> {
    vec![
        ("json", render::json::render(view)),
        ("csv", render::csv::render(view)),
        ("markdown", render::markdown::render(view)),
        ("junit", render::junit::render(view)),
        ("go-bench", render::go_bench::render(view, data)),
        ("documents", render::page::documents(std::slice::from_ref(view))),
    ]
}

/// Every text for terminals.
fn screens((_, view): &(SessionData, Report), colour: bool) -> Vec<String> {
    let style = TerminalStyle { colour, columns: 80, ..TerminalStyle::default() };
    vec![
        on_terminal(&style, |style| render::screen::render(view, style)),
        on_terminal(&style, |style| render::full::full(view, style)),
        on_terminal(&style, |style| render::screen::brief(view, 4, 80, &style.program).join("\n")),
    ]
}

/// Requests to a terminal other than printing.
#[derive(Default)]
struct Asked(Vec<String>);

impl vt100::Callbacks for Asked {
    fn audible_bell(&mut self, _: &mut vt100::Screen) {
        self.0.push("bell".into());
    }

    fn visual_bell(&mut self, _: &mut vt100::Screen) {
        self.0.push("visual bell".into());
    }

    fn resize(&mut self, _: &mut vt100::Screen, _: (u16, u16)) {
        self.0.push("resize".into());
    }

    fn set_window_icon_name(&mut self, _: &mut vt100::Screen, _: &[u8]) {
        self.0.push("icon".into());
    }

    fn set_window_title(&mut self, _: &mut vt100::Screen, _: &[u8]) {
        self.0.push("title".into());
    }

    fn copy_to_clipboard(&mut self, _: &mut vt100::Screen, _: &[u8], _: &[u8]) {
        self.0.push("clipboard".into());
    }

    fn unhandled_char(&mut self, _: &mut vt100::Screen, c: char) {
        // A printed character, which the emulator takes for a sign of wrong UTF-8.
        if c != char::REPLACEMENT_CHARACTER {
            self.0.push(format!("character {c:?}"));
        }
    }

    fn unhandled_control(&mut self, _: &mut vt100::Screen, b: u8) {
        self.0.push(format!("control {b}"));
    }

    fn unhandled_escape(&mut self, _: &mut vt100::Screen, _: Option<u8>, _: Option<u8>, b: u8) {
        self.0.push(format!("escape {b}"));
    }

    fn unhandled_csi(&mut self, _: &mut vt100::Screen, _: Option<u8>, _: Option<u8>, _: &[&[u16]], c: char) {
        self.0.push(format!("sequence {c}"));
    }

    fn unhandled_osc(&mut self, _: &mut vt100::Screen, _: &[&[u8]]) {
        self.0.push("command".into());
    }
}

/// Prints text as a terminal driver does. Only cells may change, each in its own line.
fn check_terminal(text: &str, is_coloured: bool) -> Result<(), TestCaseError> {
    let lines = text.lines().count();
    let (rows, columns) = (u16::try_from(lines + 2).expect("few lines"), 2000);
    let [height, width] = [rows, columns].map(|cells| NonZero::new(cells).expect("some cells"));
    let mut terminal = vt100::Parser::new_with_callbacks(height, width, 0, Asked::default());
    terminal.process(text.replace('\n', "\r\n").as_bytes());
    prop_assert!(terminal.callbacks().0.is_empty(), "{:?} in {text:?}", terminal.callbacks().0);
    let screen = terminal.screen();
    let modes = [
        screen.alternate_screen(),
        screen.hide_cursor(),
        screen.application_cursor(),
        screen.application_keypad(),
        screen.bracketed_paste(),
        screen.mouse_protocol_mode() != vt100::MouseProtocolMode::None,
        screen.bold() || screen.dim() || screen.italic() || screen.underline() || screen.inverse(),
        screen.fgcolor() != vt100::Color::Default || screen.bgcolor() != vt100::Color::Default,
    ];
    prop_assert_eq!(modes, [false; 8]);
    let ends_with_newline = text.ends_with('\n');
    prop_assert_eq!(usize::from(screen.cursor_position().0), lines - usize::from(!ends_with_newline), "{:?}", text);
    let styled =
        |cell: &vt100::Cell| cell.bold() || cell.dim() || cell.inverse() || cell.fgcolor() != vt100::Color::Default;
    let cells = (0..rows).flat_map(|row| (0..columns).filter_map(move |column| screen.cell(row, column)));
    prop_assert_eq!(cells.filter(|cell| styled(cell)).count() > 0, is_coloured, "{:?}", text);
    Ok(())
}

fn is_hidden(c: char) -> bool {
    escape::is_hidden(c) && c != '\n'
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn hostile_text_only_fills_terminal_cells(text in hostile()) {
        let planted = planted(&text);
        for screen in screens(&planted, true).iter().chain(&screens(&planted, false)) {
            prop_assert!(!screen.contains(is_hidden) || !text.contains(is_hidden), "{screen:?}");
            check_terminal(screen, screen.contains('\u{1b}'))?;
        }
    }

    #[test]
    fn hostile_text_keeps_every_format(text in hostile()) {
        let (hostile, plain) = (documents(&planted(&text)), documents(&planted("plain")));
        for ((format, document), (_, like)) in hostile.iter().zip(&plain) {
            prop_assert!(!document.contains(is_hidden), "{format}: {document:?}");
            prop_assert_eq!(document.lines().count(), like.lines().count(), "{}: {}", format, document);
            match *format {
                "json" => {
                    let value: serde_json::Value = serde_json::from_str(document).expect("JSON");
                    prop_assert_eq!(&value["plan"]["name"], &serde_json::json!(text));
                }
                "documents" => {
                    prop_assert!(serde_json::from_str::<serde_json::Value>(document).is_ok() && !document.contains('<'));
                }
                "csv" => check_table(document)?,
                "junit" => check_xml(document, like)?,
                "markdown" => prop_assert!(!document.contains(['<', '>']), "{document}"),
                _ => {}
            }
        }
    }
}

/// Every record has the fields of the heading, and none is a formula.
fn check_table(document: &str) -> Result<(), TestCaseError> {
    for record in csv::Reader::from_reader(document.as_bytes()).records() {
        for field in &record.expect("as many fields as the heading") {
            let is_formula = field.starts_with(['=', '+', '-', '@', '\t', '\r']) && field.parse::<f64>().is_err();
            prop_assert!(!is_formula, "{field:?}");
        }
    }
    Ok(())
}

/// The elements of a document, in their order.
fn check_xml(document: &str, like: &str) -> Result<(), TestCaseError> {
    let names = |document: &str| {
        let mut reader = quick_xml::Reader::from_str(document);
        let mut names = Vec::new();
        loop {
            match reader.read_event().expect("well-formed") {
                quick_xml::events::Event::Eof => return names,
                quick_xml::events::Event::Start(element) | quick_xml::events::Event::Empty(element) => {
                    for attribute in element.attributes() {
                        attribute.expect("an attribute");
                    }
                    names.push(String::from_utf8_lossy(element.name().as_ref()).into_owned());
                }
                _ => {}
            }
        }
    };
    prop_assert_eq!(names(document), names(like));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_counts_have_a_report(seed: u64) {
        let session = miscounted(seed);
        prop_assert!(documents(&session).iter().all(|(_, text)| !text.is_empty()));
        prop_assert!(screens(&session, false).iter().all(|text| !text.is_empty()));
    }
}
