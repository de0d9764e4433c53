//! A reader or an enumerator that starts again, and files that are not what they were.

use std::time::Duration;

use staunch_api::testkit::{Collected, DeadLetter, ImmediateDoor, MemoryFiles, discover, reader_context};
use staunch_api::{Source, SourceReader, Split};
use staunch_files::{FileSource, FileSplit, SplitSize};
use staunch_types::{Digest, Error, ErrorKind, Tick};

use super::support::{Row, assert_error, gzip, shared, splits, with};

const CSV: &[u8] = b"id,name,score\n1,a,\n2,b,\n3,c,\n";

/// Reads `count` records of the first split; gives the split as a checkpoint would hold it.
fn after(source: &FileSource<Row>, files: &MemoryFiles, count: usize) -> FileSplit {
    let mut reader = source.reader(reader_context(&shared(files), ImmediateDoor)).expect("a reader");
    reader.add_split(0, splits(source, files).remove(0)).expect("a split");
    let mut out = Collected::new(DeadLetter::None);
    reader.poll(Tick(0), count, &mut out).expect("reads");
    reader.snapshot().splits.remove(0)
}

fn resume(source: &FileSource<Row>, files: &MemoryFiles, split: FileSplit) -> Result<Vec<u64>, Error> {
    let mut reader = source.reader(reader_context(&shared(files), ImmediateDoor)).expect("a reader");
    reader.add_split(7, split)?;
    let mut out = Collected::new(DeadLetter::None);
    reader.poll(Tick(0), usize::MAX, &mut out)?;
    Ok(out.records().map(|row| row.id).collect())
}

#[test]
fn a_file_that_shrank_grew_or_changed_at_the_front_since_the_checkpoint_is_refused() {
    let source = FileSource::csv::<Row>("/in.csv");
    for (changed, texts) in [
        (&CSV[..14], ["expected bytes=29, found bytes=14", "file=/in.csv"]),
        (&b""[..], ["found bytes=0", "put the file back"]),
        (&[CSV, b"4,d,\n"].concat()[..], ["expected bytes=29, found bytes=34", "new files"]),
        (&b"id,name,score\n1,X,\n2,b,\n3,c,\n"[..], ["first bytes are others", "bytes=29"]),
    ] {
        let files = with(&[("/in.csv", CSV)]);
        let split = after(&source, &files, 1);
        assert_eq!(resume(&source, &files, split.clone()).expect("unchanged"), [2, 3]);
        files.put("/in.csv", changed);
        let error = resume(&source, &files, split).expect_err("changed");
        assert_error(&error, "F010", &texts);
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
}

#[test]
fn a_file_that_grows_while_it_is_read_is_refused_at_its_end() {
    let files = with(&[("/in.csv", CSV)]);
    let source = FileSource::csv::<Row>("/in.csv").chunk_bytes(4);
    let mut reader = source.reader(reader_context(&shared(&files), ImmediateDoor)).expect("a reader");
    reader.add_split(0, splits(&source, &files).remove(0)).expect("a split");
    let mut out = Collected::new(DeadLetter::None);
    reader.poll(Tick(0), 1, &mut out).expect("reads");
    files.grow("/in.csv", b"4,d,\n");
    let error = reader.poll(Tick(0), usize::MAX, &mut out).expect_err("grew");
    assert_error(&error, "F010", &["expected bytes=29, found bytes=34"]);
}

#[test]
fn a_file_that_is_gone_since_the_checkpoint_is_refused() {
    let files = with(&[("/in.csv", CSV)]);
    let source = FileSource::csv::<Row>("/in.csv");
    let split = after(&source, &files, 1);
    assert!(files.take("/in.csv"));
    assert_error(&resume(&source, &files, split).expect_err("gone"), "F011", &["file=/in.csv offset=19", "put the file back"]);
}

#[test]
fn a_position_in_a_compressed_file_counts_plain_bytes() {
    let files = with(&[("/in.csv", &gzip(CSV))]);
    let source = FileSource::csv::<Row>("/in.csv");
    let split = after(&source, &files, 2);
    assert_eq!(split.to_string(), "file=/in.csv offset=24");
    assert_eq!(resume(&source, &files, split).expect("reads"), [3]);
}

#[test]
fn new_files_are_found_while_watching_and_after_a_restore_and_none_twice() {
    let files = with(&[("/in/b.csv", CSV), ("/in/.hidden.csv", CSV), ("/in/empty.csv", b"")]);
    let every = Duration::from_secs(1);
    let source = FileSource::csv::<Row>("/in").watch(every);
    let first = discover(&source, &shared(&files), None).expect("finds");
    let ids = |splits: &[FileSplit]| splits.iter().map(Split::id).collect::<Vec<String>>();
    assert_eq!((ids(&first.splits), first.again_after), (vec!["/in/b.csv".to_string()], Some(every)));
    files.put("/in/a.csv", CSV);
    files.put("/in/empty.csv", CSV);
    let second = discover(&source, &shared(&files), Some(&first.state)).expect("finds");
    assert_eq!(ids(&second.splits), ["/in/a.csv", "/in/empty.csv"]);
    assert!(files.take("/in/a.csv"), "files that were read may be taken away");
    let third = discover(&source, &shared(&files), Some(&second.state)).expect("finds");
    assert_eq!(ids(&third.splits), Vec::<String>::new());
}

#[test]
fn a_bounded_source_may_find_nothing_more_after_a_restore() {
    for (source, path) in [
        (FileSource::csv::<Row>("/in"), "/in/a.csv"),
        (FileSource::csv::<Row>("/in/*.csv"), "/in/a.csv"),
        (FileSource::csv::<Row>("/a"), "/a"),
    ] {
        let files = with(&[(path, CSV)]);
        let first = discover(&source, &shared(&files), None).expect("finds");
        assert!(files.take(path));
        let second = discover(&source, &shared(&files), Some(&first.state)).expect("all was read");
        assert!(second.splits.is_empty() && second.again_after.is_none());
    }
}

#[test]
fn a_known_file_with_another_length_is_an_error_of_the_enumerator() {
    let files = with(&[("/in/a.csv", CSV)]);
    let source = FileSource::csv::<Row>("/in");
    let first = discover(&source, &shared(&files), None).expect("finds");
    files.put("/in/a.csv", &CSV[..20]);
    let error = discover(&source, &shared(&files), Some(&first.state)).expect_err("changed");
    assert_error(&error, "F010", &["file=/in/a.csv", "expected bytes=29, found bytes=20"]);
}

#[test]
fn a_damaged_state_of_the_enumerator_is_corrupt() {
    let files = with(&[("/in.csv", CSV)]);
    let error = discover(&FileSource::csv::<Row>("/in.csv"), &shared(&files), Some(&[9, 9])).expect_err("damaged");
    assert_error(&error, "F013", &["source=source"]);
    assert_eq!(error.kind(), ErrorKind::Corrupt);
}

#[test]
fn a_file_that_grew_is_refused_also_by_a_split_that_does_not_reach_its_end() {
    // Longer than the front of the file that is compared.
    let content = format!("id,name,score\n{}", "1,a,\n".repeat(2000));
    let files = with(&[("/in.csv", content.as_bytes())]);
    let source = FileSource::csv::<Row>("/in.csv").splits(SplitSize::Bytes(5000)).chunk_bytes(16);
    let split = splits(&source, &files).remove(0);
    assert_eq!(resume(&source, &files, split.clone()).expect("unchanged").len(), 665);
    files.grow("/in.csv", b"4,d,\n");
    assert_error(&resume(&source, &files, split).expect_err("grew"), "F010", &["expected bytes=10014, found bytes=10019"]);
}

#[test]
fn the_ledger_has_the_digest_of_every_line_without_its_end_rejected_and_overlong_ones_too() {
    let long = format!("9,{},", "x".repeat(100));
    let lines = ["1,a,", "2,\"b\nb\",", "x,c,", &long, "3,c,"];
    let content = format!("id,name,score\r\n{}", lines.map(|line| format!("{line}\r\n\r\n")).concat());
    let mut expected = Digest::default();
    lines.iter().for_each(|line| expected.add(line.as_bytes()));
    for chunk in [1, 7, 1000] {
        let files = with(&[("/in.csv", content.as_bytes())]);
        let source = FileSource::csv::<Row>("/in.csv").line_bytes_max(20).chunk_bytes(chunk);
        let mut reader = source.reader(reader_context(&shared(&files), ImmediateDoor)).expect("a reader");
        reader.add_split(0, splits(&source, &files).remove(0)).expect("a split");
        reader.poll(Tick(0), usize::MAX, &mut Collected::new(DeadLetter::Kept)).expect("reads");
        let reads = reader.snapshot().reads;
        let [read] = &reads[..] else { panic!("{reads:?}") };
        assert_eq!((read.from, read.to, read.digest), (15, content.len() as u64, expected));
    }
}

#[test]
fn ledger_entries_of_a_split_join_without_a_gap() {
    let files = with(&[("/in.csv", CSV)]);
    let source = FileSource::csv::<Row>("/in.csv").splits(SplitSize::Bytes(10));
    let mut reader = source.reader(reader_context(&shared(&files), ImmediateDoor)).expect("a reader");
    for (slot, split) in splits(&source, &files).into_iter().enumerate() {
        reader.add_split(slot as u32, split).expect("a split");
    }
    let mut reads = Vec::new();
    let mut out = Collected::new(DeadLetter::None);
    for _ in 0..10 {
        reader.poll(Tick(0), 1, &mut out).expect("reads");
        reads.extend(reader.snapshot().reads);
    }
    let ranges: Vec<(u64, u64, u64)> = reads.iter().map(|read| (read.from, read.to, read.digest.records)).collect();
    assert_eq!(ranges, [(14, 14, 0), (14, 19, 1), (19, 24, 1), (24, 29, 1)]);
}
