//! The fuzzer's inputs, unchanged and with reproducible random changes: for machines without the fuzzer itself.
#![allow(clippy::disallowed_methods)]

mod targets;

use std::path::Path;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRng, TestRunner};

/// The stored inputs of a target.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| std::fs::read(file).unwrap()).collect()
}

/// A change of an input: of a byte, of a line, or by a word that often breaks decoders.
#[derive(Clone, Debug)]
enum Change {
    Flip(usize, u8),
    Cut(usize, usize),
    Repeat(usize),
    Leave(usize),
    Swap(usize, usize),
    Insert(usize, &'static str),
}

/// Words that often break decoders.
const WORDS: &[&str] = &[
    "-1",
    "18446744073709551616",
    "null",
    "[",
    "{}",
    "\"",
    "1e999",
    "\\u0000",
    "w ",
    "\nc\n",
    "\nx\n",
    "$S",
    "$D",
    "$R",
];

fn change() -> impl Strategy<Value = Change> {
    let at = any::<usize>;
    prop_oneof![
        (at(), any::<u8>()).prop_map(|(at, byte)| Change::Flip(at, byte)),
        (at(), 1..40usize).prop_map(|(at, len)| Change::Cut(at, len)),
        at().prop_map(Change::Repeat),
        at().prop_map(Change::Leave),
        (at(), at()).prop_map(|(one, other)| Change::Swap(one, other)),
        (at(), prop::sample::select(WORDS)).prop_map(|(at, word)| Change::Insert(at, word)),
    ]
}

impl Change {
    fn made(&self, input: &[u8]) -> Vec<u8> {
        let mut bytes = input.to_vec();
        let mut lines: Vec<&[u8]> = input.split(|byte| *byte == b'\n').collect();
        let len = lines.len();
        match *self {
            Change::Flip(at, byte) if !bytes.is_empty() => {
                let at = at % bytes.len();
                bytes[at] ^= byte;
                return bytes;
            }
            Change::Cut(at, count) if !bytes.is_empty() => {
                let at = at % bytes.len();
                bytes.drain(at..(at + count).min(bytes.len()));
                return bytes;
            }
            Change::Insert(at, word) => {
                let at = at % (bytes.len() + 1);
                bytes.splice(at..at, word.bytes());
                return bytes;
            }
            Change::Repeat(at) => lines.insert(at % len, lines[at % len]),
            Change::Leave(at) => drop(lines.remove(at % len)),
            Change::Swap(one, other) => lines.swap(one % len, other % len),
            Change::Flip(..) | Change::Cut(..) => {}
        }
        lines.join(&b'\n')
    }
}

/// Runs a target on every stored input, and on this number of changed ones.
fn tried(name: &str, target: fn(&[u8]), cases: u32) {
    let corpus = corpus(name);
    assert!(!corpus.is_empty());
    corpus.iter().for_each(|input| target(input));
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let rng = TestRng::deterministic_rng(config.rng_algorithm);
    let changes = prop::collection::vec(change(), 1..6);
    let changed =
        TestRunner::new_with_rng(config, rng).run(&(prop::sample::select(corpus), changes), |(input, changes)| {
            target(&changes.iter().fold(input, |input, change| change.made(&input)));
            Ok(())
        });
    changed.unwrap();
}

#[test]
fn agent_survives_any_input() {
    tried("agent", targets::agent, 20);
}

#[test]
fn caller_survives_any_agent() {
    tried("home", targets::home, 40);
}

#[test]
fn a_key_file_may_hold_anything() {
    tried("key", targets::key, 500);
}
