//! What the renderers print of planted sessions.

use crate::support::{Plan, session};
use bytegauge_model::{SessionId, SessionStatus, Workload, factor};
use bytegauge_report::{Settings, View, render};
use bytegauge_store::SessionSummary;

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
    render::terminal::render(
        view,
        &render::TerminalStyle { columns, colour, store: Some("/tmp/results.db".into()), ..Default::default() },
    )
}

#[test]
fn a_terminal_reads_like_this() {
    let expected = "\
bytegauge session 12 · buffer-size · 2025-11-21 20:17:49 UTC · 61.5 s · complete

✓ Unix sockets, ends on different CPUs: read with 64 KiB and write with 64 KiB. 3.01 GiB/s (2.84 to 3.39),
  within 5 % of the best confirmed (takes no more time than any other confirmed, shown at 95 %, these 61.5 s,
  connections 4 to 44 ms after they opened). Nothing smaller was shown as good. (machine B of A to D, steal
  0.3 %, measured twice: equal to within 0.13 %)

";
    let text = terminal(&exact(), 110, false);
    let head: String = text.split_inclusive('\n').take(7).collect();
    assert_eq!(head, expected, "{text}");
    for part in
        ["▶ recommended", "limited by the sender CPU", "read ↓  write →   GiB/s", "again     bytegauge report 12"]
    {
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
fn many_answers_are_a_grid_and_their_sentences_stand_with_their_groups() {
    let view = many();
    let text = terminal(&view, 110, false);
    let (top, groups) = text.split_once("── ").unwrap();
    let lines: Vec<&str> = top.lines().skip(2).collect();
    let proven = view.verdicts.iter().filter(|verdict| verdict.recommendation.proven).count();
    assert!(lines[0].starts_with(&format!("best bounded, GiB/s: {proven} of 8 proven (✓)")), "{text}");
    let grid: Vec<&str> = lines.iter().skip_while(|line| !line.contains('↓')).copied().collect();
    assert!(grid[0].contains("transport ↓  placement →") && grid[0].contains("same-cpu"), "{text}");
    for (row, name) in grid[1..5].iter().zip(["pipe", "tcp", "tcp6", "unix"]) {
        assert!(row.trim_start().starts_with(name) && row.matches("64K").count() == 2, "{row}");
    }
    // Each sentence once, with its group.
    let squeezed = groups.split_whitespace().collect::<Vec<_>>().join(" ");
    for verdict in &view.verdicts {
        let sentence = verdict.recommendation.text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(squeezed.matches(&sentence).count(), 1, "{sentence}: {text}");
    }
    // Columns that do not fit beside the others stand below them.
    let narrow = terminal(&view, 40, false);
    assert_eq!(narrow.matches("transport ↓  placement →").count(), 2, "{narrow}");
    let mut top = narrow.lines().skip(1).take_while(|line| !line.starts_with("── "));
    assert!(top.all(|line| line.chars().count() <= 40), "{narrow}");
    assert!(render::markdown::render(&view).contains("| transport ↓  placement → | cross-core | same-cpu |"));
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
fn csv_has_a_row_a_cell_and_a_column_a_factor() {
    let view = exact();
    let text = render::csv::render(&view);
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
    let text = render::markdown::render(&exact());
    for part in [
        "# bytegauge: buffer-size, session 12",
        "## unix · cross-core · sum (g1)",
        "|  | read | write | throughput |",
        "| ▶ |",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn sessions_are_listed() {
    let summary = SessionSummary {
        id: SessionId(3),
        started_unix_ns: 1_763_756_269_000_000_000,
        finished_unix_ns: Some(1_763_756_330_500_000_000),
        status: SessionStatus::Complete,
        plan_name: "buffer-size".into(),
        workload: "stream".into(),
        version: "0.1.0".into(),
        imported: false,
        saved: None,
        groups: 6,
        cells: 132,
        trials: 2400,
    };
    let style = render::TerminalStyle::default();
    let text = render::sessions::render(&[(summary.clone(), 0)], &style);
    assert!(text.contains("3  2025-11-21 20:17:49  61.5 s  complete  buffer-size"), "{text}");
    assert!(!text.contains("saved as"), "{text}");
    let saved = SessionSummary { saved: Some("before-1.2".into()), ..summary.clone() };
    let text = render::sessions::render(&[(summary, 0), (saved, 0)], &style);
    assert!(text.contains("saved as") && text.contains("0.1.0    before-1.2"), "{text}");
    assert_eq!(render::sessions::render(&[], &style), "no sessions yet: run `bytegauge run buffer-size`\n");
}

#[test]
fn one_mark_for_one_answer() {
    // Too few blocks for any bound: in doubt among what to use, and nowhere called merely open.
    let plan = Plan { confirm_blocks: 3, ..eight() };
    let view = View::of(&session(&plan), &Settings::default());
    let doubtful = |row: &bytegauge_report::view::document::UseRow| {
        row.standing == bytegauge_report::view::document::Standing::Doubtful
    };
    assert!(view.answer.to_use.rows.iter().all(doubtful), "{:?}", view.answer.to_use.rows);
    let text = terminal(&view, 100, false);
    let marked =
        |mark: char| text.lines().filter(|line| line.contains(&format!("{mark} ")) && line.contains("64K")).count();
    assert!(marked('?') > 0 && marked('○') == 0, "{text}");
    assert!(!text.lines().any(|line| line.starts_with("○ ")), "{text}");
}

#[test]
fn calls_that_move_less_than_asked_for_are_seen_in_eighty_columns() {
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
    assert!(reader.lines().any(|line| line.contains("throughput") && line.contains("  a read")), "{reader}");
    let writer = of(vec![65_536], vec![65_536, 1 << 20]);
    assert!(writer.lines().any(|line| line.contains("throughput") && line.contains("  writes")), "{writer}");
}

#[test]
fn cells_are_called_by_what_they_choose() {
    let text = terminal(&exact(), 200, false);
    let harness = text.lines().find(|line| line.contains("of the fastest real")).unwrap_or_else(|| panic!("{text}"));
    assert!(harness.contains("(read ") && !harness.contains("(c"), "{harness}");
}
