//! Output: visible when committed, whole, once.

use std::path::PathBuf;

use staunch_api::testkit::{HeldDoor, ImmediateDoor, MemoryFiles, SinkCase, check_sink};
use staunch_api::{Committer, Resolution, Sink, SinkWriter};
use staunch_files::{Compression, FileSink, FileSource};
use staunch_types::{Tick, Timestamp};

use super::support::{Row, records, row, shared, store};

pub(crate) const OUT: &str = "/out";

/// The numbers of the records in the visible files.
pub(crate) fn visible_ids(files: &MemoryFiles, json: bool) -> Vec<u64> {
    let visible = visible(files);
    let mut ids = Vec::new();
    for path in visible {
        let source = if json { FileSource::json_lines::<Row>(path) } else { FileSource::csv::<Row>(path) };
        ids.extend(records(&source, files).iter().map(|row| row.id));
    }
    ids.sort_unstable();
    ids
}

pub(crate) fn visible(files: &MemoryFiles) -> Vec<PathBuf> {
    let hidden = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
    files.paths().into_iter().filter(|path| !hidden(path)).collect()
}

pub(crate) fn numbered(id: u64) -> Row {
    row(id, &format!("name {id}, \"quoted\"\n"), (!id.is_multiple_of(3)).then_some(id as f64 / 2.0))
}

/// Runs a test with a case for a sink.
pub(crate) fn with_case(sink: FileSink<Row>, files: &MemoryFiles, test: impl FnOnce(&SinkCase<'_, FileSink<Row>>)) {
    let json = sink.describe().starts_with("JSON");
    let visible = || visible_ids(files, json);
    let case = SinkCase::new(sink, shared(files), store(), &numbered, &visible);
    test(&case);
}

#[test]
fn sinks_of_all_forms_keep_the_promises_of_a_sink() {
    for compression in [Compression::None, Compression::Gzip, Compression::Zstd] {
        for sink in [FileSink::csv::<Row>(OUT), FileSink::json_lines::<Row>(OUT), FileSink::csv::<Row>(OUT).roll_bytes(60)] {
            with_case(sink.compression(compression), &MemoryFiles::new(), check_sink);
        }
    }
}

#[test]
fn the_bytes_of_files_and_their_names_are_as_promised() {
    let files = MemoryFiles::new();
    with_case(FileSink::csv::<Row>(OUT).prefix("totals").suffix(".txt"), &files, |case| {
        case.sink.check(&case.context(7)).expect("works");
        let mut writer = case.writer(7, 1, Vec::new(), ImmediateDoor);
        writer.write(row(1, "a,b", None), Timestamp::MIN).expect("writes");
        writer.write(row(2, "", Some(0.5)), Timestamp::MIN).expect("writes");
        let prepared = case.prepare(&mut writer, 12);
        let hidden: Vec<String> = files.paths().iter().map(|path| path.display().to_string()).collect();
        assert_eq!(hidden, ["/out/.staunch+job+sink+g7-t1-0.prepared"]);
        case.commit(7, &prepared.committables);
        let visible = visible(&files).remove(0);
        let text = visible.display().to_string();
        assert!(text.starts_with("/out/totals-") && text.ends_with("-00000012-7-1-0.txt"), "{text}");
        assert_eq!(text, prepared.committables[0].description);
        assert_eq!(files.get(&visible).as_deref(), Some(&b"id,name,score\n1,\"a,b\",\n2,,0.5\n"[..]));
    });
}

#[test]
fn zstd_files_carry_checksums_so_that_damage_shows() {
    let files = MemoryFiles::new();
    with_case(FileSink::csv::<Row>(OUT).compression(Compression::Zstd), &files, |case| {
        case.sink.check(&case.context(1)).expect("works");
        let mut writer = case.writer(1, 0, Vec::new(), ImmediateDoor);
        case.write(&mut writer, 0..3);
        case.commit(1, &case.prepare(&mut writer, 1).committables);
        let bytes = files.get(visible(&files).remove(0)).expect("visible");
        assert_eq!(bytes[4] & 0b100, 0b100, "the flag in the frame's descriptor");
    });
}

#[test]
fn json_lines_and_csv_without_a_header_have_nothing_but_records() {
    for (sink, content) in [
        (FileSink::json_lines::<Row>(OUT), "{\"id\":1,\"name\":\"a\\nb\",\"score\":null}\n"),
        (FileSink::csv::<Row>(OUT).header(false).delimiter(b'\t'), "1\t\"a\nb\"\t\n"),
    ] {
        let files = MemoryFiles::new();
        with_case(sink, &files, |case| {
            case.sink.check(&case.context(1)).expect("works");
            let mut writer = case.writer(1, 0, Vec::new(), ImmediateDoor);
            writer.write(row(1, "a\nb", None), Timestamp::MIN).expect("writes");
            let prepared = case.prepare(&mut writer, 1);
            case.commit(1, &prepared.committables);
            assert_eq!(files.get(visible(&files).remove(0)), Some(content.as_bytes().to_vec()));
        });
    }
}

#[test]
fn a_file_that_reaches_roll_bytes_is_followed_by_another_in_the_same_epoch() {
    let files = MemoryFiles::new();
    with_case(FileSink::csv::<Row>(OUT).roll_bytes(100), &files, |case| {
        case.sink.check(&case.context(1)).expect("works");
        let mut writer = case.writer(1, 0, Vec::new(), ImmediateDoor);
        case.write(&mut writer, 0..20);
        let prepared = case.prepare(&mut writer, 1);
        assert!(prepared.committables.len() > 3, "{}", prepared.committables.len());
        case.commit(1, &prepared.committables);
        let lengths: Vec<usize> = visible(&files).iter().map(|path| files.get(path).map_or(0, |bytes| bytes.len())).collect();
        assert!(lengths.iter().all(|length| (1..160).contains(length)), "{lengths:?}");
    });
}

#[test]
fn a_writer_takes_no_more_than_its_buffers_while_the_disk_is_slow() {
    let files = MemoryFiles::new();
    with_case(FileSink::json_lines::<Row>(OUT), &files, |case| {
        case.sink.check(&case.context(1)).expect("works");
        let door = HeldDoor::default();
        let mut writer = case.writer(1, 0, Vec::new(), door.clone());
        let long = "x".repeat(100_000);
        let mut written = 0;
        while writer.room() {
            writer.write(row(written, &long, None), Timestamp::MIN).expect("writes");
            written += 1;
        }
        assert!((80..100).contains(&written), "eight buffers of a mebibyte: {written}");
        door.run_all();
        writer.work(Tick(1)).expect("works");
        assert!(writer.room(), "buffers that were written are free");
    });
}

#[test]
fn what_is_prepared_survives_a_crash_of_the_machine_and_what_is_committed_too() {
    for compression in [Compression::None, Compression::Gzip, Compression::Zstd] {
        let files = MemoryFiles::new();
        with_case(FileSink::csv::<Row>(OUT).compression(compression), &files, |case| {
            case.sink.check(&case.context(1)).expect("works");
            let mut writer = case.writer(1, 0, Vec::new(), ImmediateDoor);
            case.write(&mut writer, 0..5);
            let prepared = case.prepare(&mut writer, 1);
            case.write(&mut writer, 5..9);
            files.crash();
            case.commit(2, &prepared.committables);
            files.crash();
            assert_eq!((case.visible)(), [0, 1, 2, 3, 4]);
        });
    }
}

#[test]
fn a_commit_that_a_file_system_did_in_two_steps_and_half_is_finished() {
    let files = MemoryFiles::new();
    with_case(FileSink::csv::<Row>(OUT), &files, |case| {
        case.sink.check(&case.context(1)).expect("works");
        let mut writer = case.writer(1, 0, Vec::new(), ImmediateDoor);
        case.write(&mut writer, 0..5);
        let prepared = case.prepare(&mut writer, 1);
        let hidden = files.paths().remove(0);
        let content = files.get(&hidden).expect("the prepared file");
        files.put(&prepared.committables[0].description, content);
        let resolution = case.committer(2).resolve(&prepared.committables[0]).expect("answers");
        assert!(matches!(resolution, Resolution::Committed(_)), "{resolution:?}");
        case.commit(2, &prepared.committables);
        assert_eq!((case.visible)(), [0, 1, 2, 3, 4]);
        assert_eq!(files.get(&hidden), None);
    });
}
