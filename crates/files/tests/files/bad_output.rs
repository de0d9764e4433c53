//! Output that cannot be written, or that somebody else has changed.

use std::io;

use serde::Serialize;
use staunch_api::testkit::{Fault, ImmediateDoor, MemoryFiles, Operation, io as io_to, permit};
use staunch_api::{Committer, Lead, Metrics, Sink, SinkContext, SinkWriter, SweepScope, WriterContext};
use staunch_files::FileSink;
use staunch_types::{Epoch, Error, ErrorKind, Generation, LedgerId, Name, Tick, Timestamp};

use super::support::{Row, assert_error, journal, shared};
use super::writing::{OUT, visible, with_case};

fn check(files: &MemoryFiles) -> Result<(), Error> {
    let mut result = Ok(());
    with_case(FileSink::csv::<Row>(OUT), files, |case| result = case.sink.check(&case.context(1)));
    result
}

#[test]
fn the_check_makes_the_directory_and_leaves_nothing_in_it() {
    let files = MemoryFiles::new();
    check(&files).expect("works");
    assert_eq!(files.paths().len(), 0);
    files.put("/out/.staunch+job+sink+g0-probe.0.a", "of another start, or left over");
    check(&files).expect("works beside it");
    assert_eq!(files.paths().len(), 1, "only a sweep knows that it is left over");
}

#[test]
fn an_output_directory_that_is_a_file_or_lies_below_one_is_refused() {
    let files = MemoryFiles::new();
    files.put(OUT, "x");
    assert_error(&check(&files).expect_err("a file"), "F050", &["directory=/out", "found a file"]);
    let files = MemoryFiles::new();
    files.put("/a", "x");
    let mut result = Ok(());
    with_case(FileSink::csv::<Row>("/a/b/c"), &files, |case| result = case.sink.check(&case.context(1)));
    assert_error(&result.expect_err("below a file"), "F050", &["directory=/a/b/c"]);
}

#[test]
fn a_full_disk_is_found_by_the_check() {
    let files = MemoryFiles::new();
    files.leave_room(1000);
    let error = check(&files).expect_err("full");
    assert_error(&error, "F052", &["directory=/out", "make room"]);
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(files.paths().len(), 0, "the probe is taken away");
}

#[test]
fn a_directory_that_does_not_let_us_write_is_found_by_the_check() {
    for (operation, kind, text) in [
        (Operation::CreateDirectory, io::ErrorKind::PermissionDenied, "let the user"),
        (Operation::Create, io::ErrorKind::PermissionDenied, "let the user"),
        (Operation::Create, io::ErrorKind::ReadOnlyFilesystem, "mount it for writing"),
        (Operation::Sync, io::ErrorKind::TimedOut, "see the cause"),
        (Operation::Rename, io::ErrorKind::Unsupported, "see the cause"),
        (Operation::Remove, io::ErrorKind::PermissionDenied, "let the user"),
    ] {
        let files = MemoryFiles::new();
        files.fail(Fault { operation, path_has: OUT.into(), error: kind, after: 0 });
        let error = check(&files).expect_err("refused");
        assert_error(&error, "F051", &["directory=/out", text, "cause: "]);
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
}

#[test]
fn a_disk_that_fills_up_or_fails_while_writing_restarts_the_job_and_shows_nothing() {
    for (operation, kind) in [
        (Operation::Create, io::ErrorKind::NotFound),
        (Operation::Append, io::ErrorKind::StorageFull),
        (Operation::Sync, io::ErrorKind::TimedOut),
        (Operation::Rename, io::ErrorKind::ReadOnlyFilesystem),
    ] {
        let files = MemoryFiles::new();
        check(&files).expect("works");
        files.fail(Fault { operation, path_has: OUT.into(), error: kind, after: 0 });
        with_case(FileSink::csv::<Row>(OUT), &files, |case| {
            let mut writer = case.writer(1, 0, Vec::new(), ImmediateDoor);
            case.write(&mut writer, 0..3);
            let error = writer.prepare(Epoch(1)).expect_err("fails");
            assert_error(&error, "F055", &["file=/out/.staunch+job+sink+g1-t0-0.", "nothing of the present epoch is visible", "cause: "]);
            assert_eq!(error.kind(), ErrorKind::Restart);
            assert_eq!(writer.work(Tick(1)).expect_err("stays failed"), error);
            assert_eq!(writer.poll_prepared().expect_err("stays failed"), error);
            assert_eq!(visible(&files).len(), 0);
        });
    }
}

#[test]
fn a_visible_file_of_other_length_or_content_is_corrupt_and_left_alone() {
    let files = MemoryFiles::new();
    with_case(FileSink::csv::<Row>(OUT), &files, |case| {
        case.sink.check(&case.context(1)).expect("works");
        let mut writer = case.writer(1, 0, Vec::new(), ImmediateDoor);
        case.write(&mut writer, 0..3);
        let prepared = case.prepare(&mut writer, 1);
        let committable = &prepared.committables[0];
        let whole = files.get("/out/.staunch+job+sink+g1-t0-0.prepared").expect("prepared");
        let mut other = whole.clone();
        other[20] ^= 1;
        let mut committer = case.committer(2);
        let mut refused = |text: &str| {
            for error in
                [committer.resolve(committable).map(|_| ()), committer.commit(committable, &permit(Epoch(1), Generation(2))).map(|_| ())]
            {
                let error = error.expect_err("corrupt");
                assert_error(&error, "F058", &[text, "file=/out/"]);
                assert_eq!(error.kind(), ErrorKind::Corrupt);
            }
        };
        files.put(&committable.description, other.clone());
        refused("found other content");
        files.put(&committable.description, &whole[..10]);
        refused("found bytes=10");
        assert!(files.take("/out/.staunch+job+sink+g1-t0-0.prepared"));
        refused("found bytes=10");
        assert!(files.take(&committable.description));
        files.put("/out/.staunch+job+sink+g1-t0-0.prepared", &whole[..10]);
        refused("found bytes=10");
        files.make_directory(&committable.description);
        refused("no file");
    });
}

#[test]
fn a_commit_that_the_disk_refuses_can_be_tried_again() {
    for operation in [Operation::Metadata, Operation::Rename] {
        let files = MemoryFiles::new();
        with_case(FileSink::csv::<Row>(OUT), &files, |case| {
            case.sink.check(&case.context(1)).expect("works");
            let mut writer = case.writer(1, 0, Vec::new(), ImmediateDoor);
            case.write(&mut writer, 0..3);
            let prepared = case.prepare(&mut writer, 1);
            files.fail(Fault { operation, path_has: OUT.into(), error: io::ErrorKind::TimedOut, after: 0 });
            let error = case.committer(1).commit(&prepared.committables[0], &permit(Epoch(1), Generation(1))).expect_err("refused");
            assert_error(&error, "F059", &["file=/out/", "cause: "]);
            assert_eq!(error.kind(), ErrorKind::Retry);
            files.heal();
            case.commit(1, &prepared.committables);
            assert_eq!((case.visible)(), [0, 1, 2]);
        });
    }
}

#[test]
fn a_job_that_starts_from_nothing_does_not_write_beside_the_output_of_its_earlier_life() {
    for committed in [true, false] {
        let files = MemoryFiles::new();
        with_case(FileSink::csv::<Row>(OUT), &files, |case| {
            case.sink.check(&case.context(0)).expect("works");
            let mut writer = case.writer(1, 0, Vec::new(), ImmediateDoor);
            case.write(&mut writer, 0..3);
            let prepared = case.prepare(&mut writer, 1);
            if committed {
                case.commit(1, &prepared.committables);
            }
            let before = files.paths();
            // However often it is started: each start is a generation, and what is visible does not become its own by that.
            for generation in if committed { 1..5 } else { 1..2 } {
                let scope = SweepScope { generation: Generation(generation), ..SweepScope::default() };
                let error = case.committer(generation).sweep(&scope).expect_err("refused");
                assert_error(&error, "F062", &["=1, and the ", "file=/out/", "clear the directory"]);
                assert_eq!((error.kind(), files.paths()), (ErrorKind::Invalid, before.clone()));
            }
            let scope = SweepScope { generation: Generation(2), durable: Epoch(1), ..SweepScope::default() };
            case.committer(2).sweep(&scope).expect("the next generation goes on");
        });
    }
}

#[test]
fn a_permit_of_an_earlier_epoch_commits_nothing() {
    let files = MemoryFiles::new();
    with_case(FileSink::csv::<Row>(OUT), &files, |case| {
        case.sink.check(&case.context(1)).expect("works");
        let mut writer = case.writer(1, 0, Vec::new(), ImmediateDoor);
        case.write(&mut writer, 0..3);
        let prepared = case.prepare(&mut writer, 2);
        let error = case.committer(1).commit(&prepared.committables[0], &permit(Epoch(1), Generation(1))).expect_err("refused");
        assert_eq!((error.kind(), error.code()), (ErrorKind::Bug, "F061"));
        assert_eq!(visible(&files).len(), 0);
    });
}

#[test]
fn bodies_and_carried_files_that_are_none_are_corrupt() {
    let files = MemoryFiles::new();
    with_case(FileSink::csv::<Row>(OUT), &files, |case| {
        case.sink.check(&case.context(1)).expect("works");
        let mut writer = case.writer(1, 0, Vec::new(), ImmediateDoor);
        case.write(&mut writer, 0..3);
        let mut committable = case.prepare(&mut writer, 1).committables.remove(0);
        committable.body.truncate(20);
        let error = case.committer(1).resolve(&committable).expect_err("damaged");
        assert_error(&error, "F056", &["prepared file"]);
        let scope = SweepScope { generation: Generation(2), durable: Epoch(1), committables: vec![committable], ..SweepScope::default() };
        assert_error(&case.committer(2).sweep(&scope).expect_err("nothing is swept on a guess"), "F056", &[]);
        assert_eq!(files.paths().len(), 1);
        let scope = SweepScope { generation: Generation(2), durable: Epoch(1), carried: vec![vec![7]], ..SweepScope::default() };
        assert_error(&case.committer(2).sweep(&scope).expect_err("nothing is swept on a guess"), "F056", &["unfinished file"]);
    });
}

fn names() -> (Name, Name) {
    (Name::new("job").expect("a name"), Name::new("sink").expect("a name"))
}

fn writer<T: Serialize + Send + 'static>(sink: &FileSink<T>, files: &MemoryFiles) -> Result<staunch_files::FileWriter<T>, Error> {
    let (job, sink_name) = names();
    let context = WriterContext {
        job,
        sink: sink_name,
        generation: Generation(1),
        task_index: 0,
        parallelism: 1,
        file_system: shared(files),
        journal: journal(),
        lead: Lead::unrivalled(),
        ledger: LedgerId(1),
        metrics: Metrics::default(),
        io: io_to(ImmediateDoor),
    };
    sink.writer(context, Vec::new())
}

#[test]
fn a_record_that_is_not_flat_or_has_no_names_is_refused_and_leaves_no_trace() {
    let files = MemoryFiles::new();
    check(&files).expect("works");
    let mut nested = writer(&FileSink::csv::<(u64, Vec<u64>)>(OUT).header(false), &files).expect("a writer");
    let error = nested.write((1, vec![2]), Timestamp::MIN).expect_err("nested");
    assert_error(&error, "F053", &["a struct or a tuple of single values", "JSON Lines"]);
    assert_eq!(error.kind(), ErrorKind::Invalid);

    let mut tuples = writer(&FileSink::csv::<(u64, u64)>(OUT), &files).expect("a writer");
    assert_error(&tuples.write((1, 2), Timestamp::MIN).expect_err("no names"), "F054", &["header(false)"]);

    #[derive(Serialize)]
    struct Sometimes(#[serde(serialize_with = "odd_only")] u64);
    fn odd_only<S: serde::Serializer>(value: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        if value % 2 == 1 { serializer.serialize_u64(*value) } else { Err(serde::ser::Error::custom("even")) }
    }
    let mut sometimes = writer(&FileSink::json_lines::<(u8, Sometimes)>(OUT), &files).expect("a writer");
    for value in 1..4 {
        let result = sometimes.write((0, Sometimes(value)), Timestamp::MIN);
        assert_eq!(result.is_ok(), value % 2 == 1);
    }
    sometimes.prepare(Epoch(1)).expect("prepares");
    let prepared = sometimes.poll_prepared().expect("works").expect("at once");
    assert_eq!(prepared.committables[0].digest.records, 2);
    let path = files.paths().into_iter().find(|path| path.display().to_string().ends_with(".prepared")).expect("a file");
    assert_eq!(files.get(path), Some(b"[0,1]\n[0,3]\n".to_vec()));
}

#[test]
fn settings_that_cannot_work_are_refused() {
    let files = MemoryFiles::new();
    let sink = || FileSink::csv::<Row>(OUT);
    for (sink, text) in [
        (sink().prefix(".hidden"), "does not hide"),
        (sink().prefix(""), "does not hide"),
        (sink().prefix("a/b"), "without slashes"),
        (sink().suffix("/x"), "without slashes"),
        (sink().delimiter(b'\n'), "ASCII delimiter"),
        (sink().roll_bytes(0), "roll_bytes"),
        (FileSink::json_lines::<Row>(OUT).header(true), "`header` is an option of CSV"),
        (FileSink::csv::<Row>(""), "path of a directory"),
    ] {
        let (job, name) = names();
        let context = SinkContext {
            job,
            sink: name,
            generation: Generation(1),
            file_system: shared(&files),
            journal: journal(),
            ledger: None,
            interval: std::time::Duration::from_secs(1),
            takes_over: false,
            accepts_lost: false,
        };
        assert_error(&sink.check(&context).expect_err(text), "F008", &[text]);
        assert_error(&writer(&sink, &files).err().expect(text), "F008", &[text]);
    }
}
