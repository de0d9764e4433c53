//! What the sink writes, the source reads back the same: random records, odd chunks, every compression.

use proptest::prelude::*;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use staunch_api::Sink;
use staunch_api::testkit::{ImmediateDoor, MemoryFiles, SinkCase};
use staunch_files::{Compression, FileSink, FileSource, SplitSize};
use std::fmt::Debug;

use super::support::{records, shared, store};
use super::writing::visible;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Side {
    Buy,
    #[serde(rename = "s,e\"ll")]
    Sell,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Everything {
    unsigned: u64,
    signed: i64,
    float: f64,
    small: f32,
    flag: bool,
    letter: char,
    text: String,
    maybe_text: Option<String>,
    maybe_number: Option<i32>,
    side: Side,
    wrapped: Wrapped,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Wrapped(u16);

/// Texts that are likely to break CSV.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => proptest::collection::vec(prop_oneof![Just(','), Just('"'), Just('\n'), Just('\r'), Just(' '), Just('a'), Just('\u{e9}'), Just('\0'), Just('\u{FEFF}'), Just('\t')], 0..8).prop_map(|chars| chars.into_iter().collect()),
        1 => any::<String>(),
    ]
}

fn finite() -> impl Strategy<Value = f64> {
    any::<f64>().prop_filter("finite", |float| float.is_finite())
}

fn everything() -> impl Strategy<Value = Everything> {
    let front = (any::<u64>(), any::<i64>(), finite(), any::<f32>().prop_filter("finite", |float| float.is_finite()), any::<bool>());
    let back = (any::<char>(), text(), proptest::option::of(text()), any::<Option<i32>>(), any::<bool>(), any::<u16>());
    (front, back).prop_map(|((unsigned, signed, float, small, flag), (letter, text, maybe_text, maybe_number, buy, wrapped))| Everything {
        unsigned,
        signed,
        float,
        small,
        flag,
        letter,
        text,
        maybe_text,
        maybe_number,
        side: if buy { Side::Buy } else { Side::Sell },
        wrapped: Wrapped(wrapped),
    })
}

/// Writes all records, commits them, and reads them back.
fn round_trip<T>(sink: FileSink<T>, source: impl Fn(&str) -> FileSource<T>, written: &[T]) -> Vec<T>
where
    T: Serialize + DeserializeOwned + Clone + Send + Debug + 'static,
{
    let files = MemoryFiles::new();
    let record = |number: u64| written[number as usize].clone();
    let case = SinkCase::new(sink, shared(&files), store(), &record, &Vec::new);
    case.sink.check(&case.context(1)).expect("works");
    let mut writer = case.writer(1, 0, Vec::new(), ImmediateDoor);
    case.write(&mut writer, 0..written.len() as u64);
    let prepared = case.prepare(&mut writer, 1);
    case.commit(1, &prepared.committables);
    let mut paths = visible(&files);
    // In the order of their numbers, which have no leading zeros.
    paths.sort_by_key(|path| (path.as_os_str().len(), path.clone()));
    paths.iter().flat_map(|path| records(&source(&path.display().to_string()), &files)).collect()
}

fn compression() -> impl Strategy<Value = Compression> {
    prop_oneof![Just(Compression::None), Just(Compression::Gzip), Just(Compression::Zstd)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn records_come_back_from_csv_as_they_were_written(
        written in proptest::collection::vec(everything(), 0..12),
        compression in compression(),
        delimiter in prop_oneof![Just(b','), Just(b';'), Just(b'\t'), Just(b'|'), Just(b' ')],
        header in any::<bool>(),
        chunk in prop_oneof![Just(1usize), Just(2), Just(7), Just(64), Just(4096)],
        roll in proptest::option::of(1u64..300),
    ) {
        let mut sink = FileSink::csv::<Everything>("/out").compression(compression).delimiter(delimiter).header(header);
        if let Some(bytes) = roll {
            sink = sink.roll_bytes(bytes);
        }
        let source = |path: &str| FileSource::csv::<Everything>(path).delimiter(delimiter).headers(header).chunk_bytes(chunk);
        prop_assert_eq!(round_trip(sink, source, &written), written);
    }

    #[test]
    fn records_come_back_from_json_lines_in_splits_of_any_size(
        written in proptest::collection::vec(everything(), 0..12),
        chunk in prop_oneof![Just(1usize), Just(2), Just(7), Just(64)],
        split in 1u64..400,
    ) {
        let source = |path: &str| FileSource::json_lines::<Everything>(path).chunk_bytes(chunk).splits(SplitSize::Bytes(split));
        prop_assert_eq!(round_trip(FileSink::json_lines::<Everything>("/out"), source, &written), written);
    }

    #[test]
    fn single_values_come_back_too(written in proptest::collection::vec(text(), 0..12)) {
        let source = |path: &str| FileSource::csv::<String>(path).headers(false);
        prop_assert_eq!(round_trip(FileSink::csv::<String>("/out").header(false), source, &written), written);
    }

    #[test]
    fn any_bytes_are_read_the_same_in_all_chunks_and_never_break_the_reader(
        bytes in proptest::collection::vec(prop_oneof![3 => Just(b'"'), 3 => Just(b','), 3 => Just(b'\n'), 1 => Just(b'\r'), 2 => Just(b'1'), 1 => any::<u8>()], 0..60),
        limit in 1usize..40,
    ) {
        use staunch_api::testkit::DeadLetter;
        use super::support::{collected, with};
        let content = [b"a,b\n", &bytes[..]].concat();
        let files = with(&[("/in", &content)]);
        let source = FileSource::csv::<(String, Option<u8>)>("/in").line_bytes_max(limit);
        let read = |chunk| collected(&source.clone().chunk_bytes(chunk), &files, DeadLetter::Kept).map(|out| out.events);
        let whole = read(1 << 20);
        for chunk in [1, 2, 5] {
            prop_assert_eq!(&read(chunk), &whole);
        }
    }

    #[test]
    fn lines_that_never_span_are_the_same_in_splits_and_in_one_piece(
        bytes in proptest::collection::vec(prop_oneof![2 => Just(b'"'), 3 => Just(b','), 3 => Just(b'\n'), 1 => Just(b'\r'), 3 => Just(b'1')], 0..60),
        limit in 3usize..40,
        split in 1u64..30,
    ) {
        use staunch_api::testkit::{DeadLetter, Event};
        use super::support::{collected, with};
        let content = [b"a,b\n", &bytes[..]].concat();
        let files = with(&[("/in", &content)]);
        let source = FileSource::csv::<(String, Option<u8>)>("/in").line_bytes_max(limit).multiline(false);
        let read = |source: FileSource<(String, Option<u8>)>| {
            let out = collected(&source, &files, DeadLetter::Kept).expect("no error");
            out.events.into_iter().filter(|event| matches!(event, Event::Record(..) | Event::Rejected(_))).collect::<Vec<_>>()
        };
        prop_assert_eq!(read(source.clone().splits(SplitSize::Bytes(split))), read(source.one_split()));
    }
}
