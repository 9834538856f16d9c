//! Tests of levels.

use super::*;
use proptest::prelude::*;

const SIZE: LevelKind = LevelKind::Size { min: 1, max: 16 << 20, word: Some("auto") };
const RATE: LevelKind = LevelKind::Rate { word: "max" };

fn check(kind: LevelKind, text: &str, expected: &str) {
    let got = match kind.parse_list(text) {
        Ok(levels) => levels.iter().map(|l| kind.compact(l)).collect::<Vec<_>>().join(" "),
        Err(error) => error.to_string(),
    };
    assert_eq!(got, expected, "{text}");
}

#[test]
fn numbers_from_elsewhere_are_checked() {
    let check = |kind: LevelKind, good: &[u64], bad: &[u64]| {
        let checked = |n: &u64| kind.check(&Level::Number(*n)).is_ok();
        assert!(good.iter().all(checked) && !bad.iter().any(checked), "{kind:?}");
    };
    check(SIZE, &[1, 16 << 20], &[0, (16 << 20) + 1, u64::MAX]);
    check(LevelKind::Count { min: 0, max: 7, auto: false }, &[0, 7], &[8]);
    check(LevelKind::PowerOfTwo { max: 64 }, &[1, 64], &[0, 128]);
    check(LevelKind::Duration { min_ns: 5, max_ns: 9, auto: false }, &[5, 9], &[4, 10]);
    check(RATE, &[1, RATE_MAX], &[0, RATE_MAX + 1]);
    check(LevelKind::CallRate, &[1, CALL_RATE_MAX], &[0, CALL_RATE_MAX + 1]);
    check(LevelKind::Value, &[0, u64::MAX], &[]);
    let error = SIZE.check(&Level::Number(1 << 40)).unwrap_err().to_string();
    assert_eq!(error, "1024G is out of range: use 1 to 16M");
    assert_eq!([SIZE.check(&Level::auto()), RATE.check(&Level::Absent)], [Ok(()), Ok(())]);
}

#[test]
fn commands_keep_their_commas() {
    let kind = LevelKind::Name(|name| Ok(format!("<{name}>")));
    check(kind, "a, b", "<a> <b>");
    check(kind, "a,cmd:x -l {listen},y", "<a> <cmd:x -l {listen},y>");
    check(kind, "cmd:x 1,2,cmd:y 3,4", "<cmd:x 1,2> <cmd:y 3,4>");
    check(kind, "cmd:x a,cmd", "<cmd:x a,cmd>");
    check(kind, "a,,cmd:x", "an empty level in `a,,cmd:x`: write levels with commas between them");
    check(LevelKind::Value, "cmd:x,y", "cmd:x y");
}

#[test]
fn rates_have_bytes_or_bits() {
    check(RATE, "100M", "100M");
    check(RATE, "100Mbit,100Mbit/s", "100 Mbit/s is twice in the list: write every level once");
    check(RATE, "1Gbit", "1000Mbit");
    check(RATE, "100 kbit", "12500");
    check(RATE, "x Mbit", "`x Mbit` is not a rate: write bytes per second such as 100M, bits such as 100Mbit, or max");
    assert_eq!(RATE.show(&Level::Number(12_500_000)), "100 Mbit/s");
    assert_eq!(RATE.show(&Level::Number(100 << 20)), "100 MiB/s");
}

#[test]
fn lists_and_ranges() {
    check(SIZE, "1K..8K", "1K 2K 4K 8K");
    check(SIZE, "1000..5000", "1000 2000 4000 5000");
    check(SIZE, "64K", "64K");
    check(SIZE, "64K..64K", "64K");
    check(SIZE, "auto,4K..8K", "auto 4K 8K");
    check(SIZE, "8K..4K", "the range 8K..4K is in the wrong order: write the smaller end first");
    check(SIZE, "4K..", "the range 4K.. lacks an end: write both, such as 1K..2M");
    check(SIZE, "4096-65536", "`4096-65536` is not a level: write a range as 4096..65536");
    check(SIZE, "4K:1M", "`4K:1M` is not a level: write a range as 4K..1M");
    check(crate::factor::row::BUFFER, "auto", "there is no `auto` here: write a value from 1 to 16M");
    check(SIZE, "default", "`default` is not a level: write auto to keep the system's default");
    check(SIZE, "0", "0 is out of range: use 1 to 16M");
    check(SIZE, "32M", "32M is out of range: use 1 to 16M");
    check(SIZE, "4K,,8K", "an empty level in `4K,,8K`: write levels with commas between them");
    check(SIZE, "4K,4096", "4 KiB is twice in the list: write every level once");
    let count = LevelKind::Count { min: 1, max: 5000, auto: false };
    check(count, "1,50,150", "1 50 150");
    check(count, "-2", "`-2` is negative: sizes, counts and durations start at 0");
    let entries = LevelKind::PowerOfTwo { max: 32_768 };
    check(entries, "1,64..512", "1 64 128 256 512");
    check(entries, "100", "100 is not a power of two, and the kernel would make it 128: use 64 or 128");
    check(entries, "64..1000", "1000 is not a power of two, and the kernel would make it 1024: use 512 or 1024");
    check(entries, "65536", "65536 is out of range: use 1 to 32768");
    check(entries, "0", "0 is out of range: use 1 to 32768");
    check(entries, "-8", "`-8` is negative: sizes, counts and durations start at 0");
    check(LevelKind::Switch { auto: true }, "on,off,auto", "on off auto");
    check(LevelKind::Switch { auto: false }, "auto", "`auto` is not a switch: use on or off");
    check(LevelKind::Size { min: 1, max: 4096, word: Some("same") }, "same,1K", "same 1K");
    check(RATE, "max,100M", "max 100M");
}

#[test]
fn values_of_programs_are_sizes_where_one_is() {
    check(LevelKind::Value, "4K..16K", "4K 8K 16K");
    check(LevelKind::Value, "512..2K,64", "512 1K 2K 64");
    check(LevelKind::Value, "1..4", "1 2 4");
    check(LevelKind::Value, "lz4,zstd,1.5", "lz4 zstd 1.5");
    check(LevelKind::Value, "../a,/b", "../a /b");
    check(LevelKind::Value, "4K:1M", "`4K:1M` is not a level: write a range as 4K..1M");
    check(LevelKind::Value, "10:30,2-4,client:sndbuf=4K", "10:30 2-4 client:sndbuf=4K");
    check(LevelKind::Value, "4096,4K", "4 KiB is twice in the list: write every level once");
    check(LevelKind::Value, "8K..4K", "the range 8K..4K is in the wrong order: write the smaller end first");
    check(LevelKind::Value, "4K..", "the range 4K.. lacks an end: write both, such as 1K..2M");
    let levels = |text: &str| LevelKind::Value.parse_list(text).unwrap();
    assert_eq!(levels("64"), [Level::Name("64".into())]);
    assert_eq!(levels("64,1K"), [Level::Number(64), Level::Number(1024)]);
}

#[test]
fn rates_of_calls_are_decimal() {
    check(LevelKind::CallRate, "max,20k,1.5M,300/s", "max 20k 1500k 300");
    check(LevelKind::CallRate, "1k..4k", "1k 2k 4k");
    check(LevelKind::CallRate, "0", "0 is out of range: use 1 to 1000M");
    check(LevelKind::CallRate, "-5", "`-5` is negative: sizes, counts and durations start at 0");
    for nonsense in ["fast", "1e9", "inf", "nan", "20q", "0.5", "k"] {
        let expected =
            format!("`{nonsense}` is not a rate of calls: write calls per second such as 20k or 20000, or max");
        check(LevelKind::CallRate, nonsense, &expected);
    }
}

proptest! {
    #[test]
    fn a_range_doubles_and_keeps_its_ends(low in 1u64..(1 << 20), span in 0u64..(1 << 23)) {
        let high = (low + span).min(16 << 20);
        let levels = SIZE.parse_list(&format!("{low}..{high}")).unwrap();
        prop_assert_eq!(levels.first(), Some(&Level::Number(low)));
        prop_assert_eq!(levels.last(), Some(&Level::Number(high)));
        for pair in levels.windows(2) {
            let (a, b) = (pair[0].number().unwrap(), pair[1].number().unwrap());
            prop_assert!(b > a && b <= 2 * a);
        }
    }
}
