//! Output of the renderers for planted sessions.

use crate::support::{Plan, session};
use bytegauge_model::{Workload, factor};
use bytegauge_report::view::document::TestState;
use bytegauge_report::{Settings, View, render};

/// Without noise every number is known beforehand.
fn exact() -> View {
    let plan = Plan {
        transports: vec!["unix"],
        profiles: vec!["sum"],
        read_sizes: vec![4096, 65_536],
        write_sizes: vec![16_384, 65_536],
        finalists: 2,
        confirm_blocks: 8,
        noise: 0.001,
        ..Plan::default()
    };
    View::of(&session(&plan), &Settings::default())
}

fn terminal(view: &View, columns: usize, colour: bool) -> String {
    render::terminal::full(
        view,
        &render::TerminalStyle { columns, colour, store: Some("/tmp/results.db".into()), ..Default::default() },
    )
}

#[test]
fn a_terminal_reads_like_this() {
    let text = terminal(&exact(), 80, false);
    for part in [
        "bytegauge buffer-size · session 12 · 62 s",
        "<- use",
        "Details of the measurement",
        "Bottleneck: sender CPU, with read 64K + write 64K: ",
        "2025-11-21 20:17:49 UTC · complete",
        "again     bytegauge report 12",
        "Result\n  Use read 64K + write 64K",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

/// Eight questions: four transports, two placements.
fn eight() -> Plan {
    Plan {
        transports: vec!["unix", "tcp", "tcp6", "pipe"],
        placements: vec!["cross-core", "same-cpu"],
        profiles: vec!["sum"],
        read_sizes: vec![4096, 65_536],
        write_sizes: vec![65_536],
        finalists: 2,
        confirm_blocks: 12,
        ..Plan::default()
    }
}

fn many() -> View {
    View::of(&session(&Plan { noise: 0.001, ..eight() }), &Settings::default())
}

#[test]
fn many_tests_are_a_row_each() {
    let view = many();
    let style = render::TerminalStyle { columns: 80, ..Default::default() };
    let text = render::screen::render(&view, &style);
    assert!(text.contains("time / best time (95 %)") && text.contains("8 tests: 8 decided"), "{text}");
    assert_eq!(text.matches(" 64K  ").count(), 8, "{text}");
    // The full text has a table for each.
    let full = terminal(&view, 80, false);
    assert_eq!(full.matches("<- use").count(), 8, "{full}");
}

#[test]
fn undecided_tests_have_a_safest_option() {
    let view =
        View::of(&session(&Plan { noise: 0.2, read_sizes: vec![256 << 10, 1 << 20], ..eight() }), &Settings::default());
    let text = render::screen::render(&view, &render::TerminalStyle { columns: 80, ..Default::default() });
    let undecided = view.tests.iter().filter(|test| test.state == TestState::Inconclusive).count();
    assert!(undecided > 0 && text.contains("safest: undecided"), "{text}");
    assert!(text.matches(" (safest)").count() >= undecided, "{text}");
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for columns in [50, 80, 120] {
        let text = terminal(&exact(), columns, false);
        // The heading's facts and a table's first columns are never dropped; prose and maps must fit.
        let wide: Vec<&str> =
            text.lines().filter(|line| line.chars().count() > columns && !line.starts_with('─')).skip(1).collect();
        assert!(wide.is_empty(), "{columns}: {wide:#?}");
    }
}

#[test]
fn colour_changes_no_character() {
    let (plain, coloured) = (terminal(&exact(), 100, false), terminal(&exact(), 100, true));
    let mut stripped = String::new();
    let mut escaped = false;
    for letter in coloured.chars() {
        match letter {
            '\u{1b}' => escaped = true,
            'm' if escaped => escaped = false,
            _ if escaped => {}
            letter => stripped.push(letter),
        }
    }
    // A shaded field keeps its blanks at a line's end.
    assert!(stripped.lines().map(str::trim_end).eq(plain.lines()), "{stripped}");
}

#[test]
fn csv_has_rows_of_cells() {
    let view = exact();
    let text = bytegauge_formats::csv::render(&view);
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let heading = reader.headers().expect("a heading").clone();
    assert!(factor::of(Workload::Stream).all(|factor| heading.iter().any(|name| name == factor.name)));
    let rows: Vec<csv::StringRecord> = reader.records().collect::<Result<_, _>>().expect("rows");
    assert_eq!(rows.len(), view.cells.len());
    let column = |name: &str| heading.iter().position(|heading| heading == name).expect("a column");
    let recommended: Vec<&str> =
        rows.iter().filter(|row| &row[column("recommended")] == "true").map(|row| &row[column("read_size")]).collect();
    assert_eq!(recommended, ["65536"]);
}

#[test]
fn markdown_has_a_table_a_group() {
    let text = bytegauge_formats::markdown::render(&exact());
    for part in [
        "# bytegauge: buffer-size, session 12",
        "## Stream over Unix sockets",
        "| option | GiB/s |",
        "| read 64K + write 64K |",
        "| use",
        "- Result: Use read 64K + write 64K",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn too_few_blocks_recommend_nothing() {
    let plan = Plan { confirm_blocks: 3, ..eight() };
    let view = View::of(&session(&plan), &Settings::default());
    assert!(view.tests.iter().all(|test| test.recommended.is_none()), "{:?}", view.tests);
    let text = terminal(&view, 100, false);
    assert!(text.contains("fastest so far: 64K") && !text.contains("<- "), "{text}");
}

#[test]
fn short_calls_are_visible_in_eighty_columns() {
    let of = |read_sizes: Vec<u64>, write_sizes: Vec<u64>| {
        let plan = Plan {
            transports: vec!["unix"],
            profiles: vec!["sum"],
            read_sizes,
            write_sizes,
            finalists: 2,
            confirm_blocks: 8,
            noise: 0.001,
            ..Plan::default()
        };
        terminal(&View::of(&session(&plan), &Settings::default()), 80, false)
    };
    let reader = of(vec![65_536, 1 << 20], vec![65_536]);
    assert!(crate::flat(&reader).contains(" a read moved "), "{reader}");
    let writer = of(vec![65_536], vec![65_536, 1 << 20]);
    assert!(crate::flat(&writer).contains(", a write "), "{writer}");
}

#[test]
fn cells_are_called_by_what_they_choose() {
    let text = terminal(&exact(), 200, false);
    let harness = text.lines().find(|line| line.contains("of the least time per")).unwrap_or_else(|| panic!("{text}"));
    assert!(harness.contains("(read ") && !harness.contains("(c"), "{harness}");
}
