//! Output that somebody takes away before its commit: written again from its copy.

use std::sync::Arc;

use staunch_api::testkit::{ImmediateDoor, MemoryFiles, MemoryStore, SinkCase, permit};
use staunch_api::{CheckpointStore, Committer, Kept, Resolution, Sink, SweepScope};
use staunch_files::{Compression, FileSink};
use staunch_types::{Epoch, Generation};

use super::support::{Row, assert_error, shared};
use super::writing::{OUT, numbered, visible, visible_ids};

/// Runs a test with a sink that keeps a journal, its files and its store.
fn with_journal(sink: FileSink<Row>, test: impl FnOnce(&SinkCase<'_, FileSink<Row>>, &MemoryFiles, &MemoryStore)) {
    let (files, store) = (MemoryFiles::new(), MemoryStore::new());
    let seen = || visible_ids(&files, false);
    let case = SinkCase::new(sink, shared(&files), Arc::new(store.clone()), &numbered, &seen);
    case.sink.check(&case.context(1)).expect("works");
    test(&case, &files, &store);
}

fn hidden(files: &MemoryFiles) -> Vec<String> {
    let all = files.paths().into_iter().filter(|path| !visible(files).contains(path));
    all.map(|path| path.display().to_string()).collect()
}

#[test]
fn a_file_that_is_gone_is_written_again_as_it_was() {
    for sink in [FileSink::csv::<Row>(OUT), FileSink::csv(OUT).roll_bytes(60), FileSink::csv(OUT).compression(Compression::Zstd)] {
        with_journal(sink.journal(), |case, files, store| {
            let mut writer = case.writer(1, 0, Vec::new(), ImmediateDoor);
            case.write(&mut writer, 0..40);
            let prepared = case.prepare(&mut writer, 1);
            assert_eq!(store.paths().len(), prepared.committables.len(), "{:?}", store.paths());
            let whole: Vec<Vec<u8>> = hidden(files).iter().map(|path| files.get(path).expect("a file")).collect();
            hidden(files).iter().for_each(|path| assert!(files.take(path)));
            let mut committer = case.committer(2);
            for committable in &prepared.committables {
                assert!(matches!(committer.resolve(committable), Ok(Resolution::Lost { .. })));
                for _ in 0..2 {
                    committer.resend(committable, &permit(Epoch(1), Generation(2))).expect("written again");
                }
                assert!(matches!(committer.resolve(committable), Ok(Resolution::Committed(_))));
            }
            let again: Vec<Vec<u8>> = visible(files).iter().map(|path| files.get(path).expect("a file")).collect();
            assert_eq!((again.len(), hidden(files).len()), (whole.len(), 0));
            assert!(whole.iter().all(|bytes| again.contains(bytes)));
            prepared.committables.iter().for_each(|c| committer.forget(c).expect("removed"));
            assert!(store.paths().is_empty(), "{:?}", store.paths());
        });
    }
}

#[test]
fn without_a_copy_or_with_a_changed_one_nothing_becomes_visible() {
    with_journal(FileSink::csv(OUT).journal(), |case, files, store| {
        let mut writer = case.writer(1, 0, Vec::new(), ImmediateDoor);
        case.write(&mut writer, 0..3);
        let prepared = case.prepare(&mut writer, 1);
        hidden(files).iter().for_each(|path| assert!(files.take(path)));
        let copy = store.paths().pop().expect("a copy");
        let bytes = store.read(&copy, 0, None).expect("the copy");
        let mut committer = case.committer(2);
        for changed in [Vec::new(), bytes[1..].to_vec(), [&bytes[..], b"x"].concat(), bytes.iter().map(|b| b ^ 1).collect()] {
            store.remove(&copy).expect("a store");
            store.put(&copy, &changed).expect("a store");
            let error = committer.resend(&prepared.committables[0], &permit(Epoch(1), Generation(2))).expect_err("changed");
            assert_error(&error, "F063", &["copy="]);
        }
        store.remove(&copy).expect("a store");
        let error = committer.resend(&prepared.committables[0], &permit(Epoch(1), Generation(2))).expect_err("no copy");
        assert_error(&error, "C025", &["records=3", "--accept-lost"]);
        assert!(visible(files).is_empty());
        store.put(&copy, &bytes).expect("a store");
        committer.resend(&prepared.committables[0], &permit(Epoch(1), Generation(2))).expect("the copy is back");
        assert_eq!((case.visible)(), [0, 1, 2]);
        assert!(hidden(files).is_empty(), "{:?}", hidden(files));
    });
}

#[test]
fn a_sweep_removes_copies_that_nobody_names() {
    with_journal(FileSink::csv(OUT).journal(), |case, _, store| {
        let mut writer = case.writer(1, 0, Vec::new(), ImmediateDoor);
        case.write(&mut writer, 0..3);
        let named = case.prepare(&mut writer, 1);
        case.write(&mut writer, 3..5);
        drop(case.prepare(&mut writer, 2));
        assert_eq!(store.paths().len(), 2);
        let scope = SweepScope { generation: Generation(2), durable: Epoch(1), committables: named.committables, ..SweepScope::default() };
        case.committer(2).sweep(&scope).expect("sweeps");
        assert_eq!(store.paths(), ["journal/sink/g1-t0-0"]);
    });
}

#[test]
fn a_sink_without_a_journal_writes_each_file_once() {
    with_journal(FileSink::csv(OUT), |case, _, store| {
        assert_eq!(case.sink.keeps(), Kept::Nothing);
        let mut writer = case.writer(1, 0, Vec::new(), ImmediateDoor);
        case.write(&mut writer, 0..3);
        drop(case.prepare(&mut writer, 1));
        assert!(store.paths().is_empty());
    });
}
