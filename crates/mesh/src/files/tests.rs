//! Files that another user or a damaged disk could leave in the directory.

use std::os::unix::fs::symlink;

use bytegauge_model::Ends;

use super::*;
use crate::row::SlotPlace;
use crate::schedule::MeshPattern;

fn header() -> FileHeader {
    let settings = MeshSettings { warmup_ns: 0, ends: Ends::default(), ..MeshSettings::of_pairs(3) };
    let hello = RankHello {
        rank: 1,
        size: 3,
        program: "1".into(),
        host: "one".into(),
        rack: None,
        agent: ([127, 0, 0, 1], 4000).into(),
    };
    FileHeader { settings, hello }
}

fn row() -> MeshRow {
    let place = SlotPlace { replicate: 0, round: 0, slot: 0, hub: 0, client: 1, clients: 1 };
    let row = MeshRow::without_numbers(place, Outcome::Measured, u64::MAX);
    MeshRow { option: Some(0), sender: Some(1), window_ns: u64::MAX, rate: Some(1.0), ..row }
}

/// Writes a file of a rank and reads its directory.
fn gathered(header: &FileHeader, rows: &[MeshRow]) -> Result<MeshData, MeshFileError> {
    let dir = tempfile::tempdir().unwrap();
    let (mut file, _) = RankFile::begin(dir.path(), header, false).unwrap();
    file.add(rows).unwrap();
    file.finish().unwrap();
    read(dir.path())
}

#[test]
fn impossible_files_are_damaged() {
    let damaged = |header: &FileHeader, row: &MeshRow, part: &str| {
        let error = gathered(header, std::slice::from_ref(row)).unwrap_err().to_string();
        assert!(error.contains("damaged") && error.contains(part), "{error}");
    };
    let data = gathered(&header(), &[row()]).unwrap();
    crate::summary::MeshSummary::of(&data);
    let settings = |change: fn(&mut MeshSettings)| {
        let mut header = header();
        change(&mut header.settings);
        header
    };
    damaged(&settings(|settings| settings.ranks = u32::MAX), &row(), "4294967295 ranks");
    damaged(&settings(|settings| settings.replicates = u32::MAX), &row(), "parts of tests");
    damaged(&settings(|settings| settings.margin = 2.0), &row(), "a margin of 2");
    let all = |settings: &mut MeshSettings| (settings.ranks, settings.pattern) = (4096, MeshPattern::Incast(u32::MAX));
    damaged(&settings(|settings| (settings.ranks, settings.replicates) = (4096, 3)), &row(), "parts of tests");
    let mut many = header();
    all(&mut many.settings);
    many.settings.replicates = 2;
    damaged(&many, &row(), "parts of tests");
    let at = |hub, client| SlotPlace { hub, client, ..row().place };
    damaged(&header(), &MeshRow { place: at(0, 3), sender: Some(3), ..row() }, "rank 3 of 3");
    damaged(&header(), &MeshRow { place: at(u32::MAX, 1), ..row() }, "rank 4294967295");
    damaged(&header(), &MeshRow { place: at(1, 1), ..row() }, "with itself");
    damaged(&header(), &MeshRow { sender: Some(2), ..row() }, "as the sender");
    damaged(&header(), &MeshRow { option: Some(1), ..row() }, "option 1 of 1");
}

#[test]
fn a_slot_that_is_measured_again_counts_once() {
    let of = |client: Rank, outcome: Outcome, rate: f64| {
        let row = row();
        MeshRow {
            place: SlotPlace { client, clients: 2, ..row.place },
            outcome,
            rate: Some(rate),
            sender: Some(client),
            ..row
        }
    };
    let failed = || Outcome::Failed("refused".into());
    let mut rows = vec![
        of(1, Outcome::Measured, 1.0),
        of(2, failed(), 0.0),
        of(2, Outcome::Measured, 2.0),
        of(1, Outcome::Measured, 3.0),
    ];
    drop_explained(&mut rows);
    let rates: Vec<f64> = rows.iter().filter_map(|row| row.rate).collect();
    assert_eq!(rates, [2.0, 3.0]);
}

#[test]
fn trials_that_fail_next_to_measured_ones_are_told() {
    let other = MeshRow { sender: Some(0), outcome: Outcome::Failed("refused".into()), rate: None, ..row() };
    let summary = crate::summary::MeshSummary::of(&gathered(&header(), &[row(), other]).unwrap());
    assert_eq!((summary.measured, summary.failed), (1, vec![("refused".to_owned(), 1)]));
}

#[test]
fn links_are_replaced_and_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let other = dir.path().join("other");
    fs::write(&other, "kept").unwrap();
    symlink(&other, dir.path().join("rank-00001.jsonl.part.new")).unwrap();
    RankFile::begin(dir.path(), &header(), false).unwrap();
    assert_eq!(fs::read_to_string(&other).unwrap(), "kept");
    assert!(dir.path().join("rank-00001.jsonl.part").is_file());
}

#[test]
fn directories_and_devices_are_no_files() {
    let dir = tempfile::tempdir().unwrap();
    symlink("/dev/zero", dir.path().join("rank-00000.jsonl")).unwrap();
    assert!(read(dir.path()).unwrap_err().to_string().contains("no regular file"));
}
