//! Files that go on over several epochs, and over restarts.

use std::time::Duration;

use serde::Serialize;
use staunch_api::testkit::{ImmediateDoor, MemoryFiles, io};
use staunch_api::{Committer, Lead, Metrics, Resolution, Sink, SinkWriter, SweepScope, WriterContext};
use staunch_files::{Compression, FileSink};
use staunch_types::{Epoch, ErrorKind, Generation, LedgerId, Name, Tick, Timestamp};

use super::support::{Row, assert_error, journal, shared};
use super::writing::{OUT, visible, with_case};

fn rolling() -> FileSink<Row> {
    FileSink::csv::<Row>(OUT).roll_every(Duration::from_secs(3600))
}

#[test]
fn a_file_that_goes_on_is_committed_by_the_epoch_that_closes_it() {
    for compression in [Compression::None, Compression::Gzip, Compression::Zstd] {
        with_case(rolling().compression(compression), &MemoryFiles::new(), |case| {
            case.sink.check(&case.context(1)).expect("works");
            let mut writer = case.writer(1, 0, Vec::new(), ImmediateDoor);
            for epoch in 1..4 {
                case.write(&mut writer, epoch * 10..epoch * 10 + 2);
                let prepared = case.prepare(&mut writer, epoch);
                assert!(prepared.committables.is_empty() && !prepared.carried.is_empty());
            }
            writer.work(Tick(0) + Duration::from_secs(3601)).expect("works");
            writer.prepare(staunch_types::Epoch(4)).expect("prepares");
            let prepared = writer.poll_prepared().expect("works").expect("at once");
            assert!(prepared.carried.is_empty());
            assert_eq!(prepared.committables.len(), 1);
            assert_eq!(prepared.committables[0].digest.records, 6);
            case.commit(1, &prepared.committables);
            assert_eq!((case.visible)(), [10, 11, 20, 21, 30, 31]);
        });
    }
}

#[test]
fn two_restores_of_one_snapshot_give_the_same_bytes() {
    for compression in [Compression::None, Compression::Gzip, Compression::Zstd] {
        let files = MemoryFiles::new();
        with_case(rolling().compression(compression), &files, |case| {
            case.sink.check(&case.context(1)).expect("works");
            let mut writer = case.writer(1, 0, Vec::new(), ImmediateDoor);
            // More than one buffer, then a short tail, then what the crash takes away.
            case.write(&mut writer, 0..60_000);
            let _ = case.prepare(&mut writer, 1);
            case.write(&mut writer, 60_000..60_003);
            let carried = case.prepare(&mut writer, 2).carried;
            case.write(&mut writer, 70_000..130_000);
            files.crash();

            let mut contents = Vec::new();
            for generation in 2..4 {
                let kept = vec![carried.clone()];
                let scope = SweepScope { generation: Generation(generation), durable: Epoch(2), carried: kept, ..SweepScope::default() };
                case.committer(generation).sweep(&scope).expect("sweeps");
                let mut writer = case.writer(generation, 0, vec![carried.clone()], ImmediateDoor);
                case.write(&mut writer, 60_003..60_010);
                writer.end();
                let prepared = case.prepare(&mut writer, 3);
                assert_eq!(prepared.committables[0].digest.records, 60_010);
                if generation == 3 {
                    case.commit(generation, &prepared.committables);
                    contents.push(files.get(visible(&files).remove(0)).expect("visible"));
                } else {
                    let hidden = files.paths().into_iter().find(|path| path.display().to_string().contains("+g2-t0-0.prepared"));
                    contents.push(files.get(hidden.expect("prepared")).expect("prepared"));
                }
            }
            assert_eq!(contents[0], contents[1], "byte-exact after two restores");
            assert_eq!((case.visible)(), (0..60_010).collect::<Vec<u64>>());
        });
    }
}

#[test]
fn an_older_snapshot_finds_its_unfinished_file_even_when_it_has_become_visible_since() {
    let files = MemoryFiles::new();
    with_case(rolling(), &files, |case| {
        case.sink.check(&case.context(1)).expect("works");
        let mut writer = case.writer(1, 0, Vec::new(), ImmediateDoor);
        case.write(&mut writer, 0..3);
        let older = case.prepare(&mut writer, 1).carried;
        case.write(&mut writer, 3..5);
        writer.end();
        let closed = case.prepare(&mut writer, 2).committables;
        case.commit(1, &closed);
        let mut rewound = case.writer(2, 0, vec![older], ImmediateDoor);
        rewound.end();
        let prepared = case.prepare(&mut rewound, 2);
        assert_eq!(prepared.committables[0].digest.records, 3);
        assert_eq!((case.visible)(), [0, 1, 2, 3, 4], "the parent's file is as it was");
    });
}

#[test]
fn a_writer_goes_on_with_the_files_of_several_vanished_tasks() {
    let files = MemoryFiles::new();
    with_case(rolling(), &files, |case| {
        case.sink.check(&case.context(1)).expect("works");
        let mut carried = Vec::new();
        for task in 0..3 {
            let mut writer = case.writer(1, task, Vec::new(), ImmediateDoor);
            case.write(&mut writer, u64::from(task) * 10..u64::from(task) * 10 + 2);
            carried.push(case.prepare(&mut writer, 1).carried);
        }
        let mut writer = case.writer(2, 0, carried, ImmediateDoor);
        case.write(&mut writer, 100..101);
        let first = case.prepare(&mut writer, 2);
        assert_eq!((first.committables.len(), first.carried.is_empty()), (2, false), "one goes on, two are closed");
        writer.end();
        let last = case.prepare(&mut writer, 3);
        assert!(last.carried.is_empty());
        case.commit(2, &first.committables);
        case.commit(2, &last.committables);
        assert_eq!((case.visible)(), [0, 1, 10, 11, 20, 21, 100]);
    });
}

#[test]
fn a_carried_file_is_closed_as_it_is_when_the_sink_has_other_settings_now() {
    let files = MemoryFiles::new();
    let mut carried = Vec::new();
    with_case(rolling(), &files, |case| {
        case.sink.check(&case.context(1)).expect("works");
        let mut writer = case.writer(1, 0, Vec::new(), ImmediateDoor);
        case.write(&mut writer, 0..3);
        carried = case.prepare(&mut writer, 1).carried;
    });
    with_case(rolling().compression(Compression::Zstd), &files, |case| {
        let mut writer = case.writer(2, 0, vec![carried.clone()], ImmediateDoor);
        case.write(&mut writer, 3..5);
        writer.end();
        let prepared = case.prepare(&mut writer, 2);
        case.commit(2, &prepared.committables);
        assert_eq!(visible(&files).len(), 2);
        assert_eq!((case.visible)(), [0, 1, 2, 3, 4]);
    });
}

#[test]
fn records_with_new_fields_do_not_go_under_the_old_header() {
    #[derive(Serialize)]
    struct Wider {
        id: u64,
        name: String,
        score: Option<f64>,
        more: u8,
    }
    let files = MemoryFiles::new();
    with_case(rolling(), &files, |case| {
        case.sink.check(&case.context(1)).expect("works");
        let mut writer = case.writer(1, 0, Vec::new(), ImmediateDoor);
        case.write(&mut writer, 0..3);
        let carried = case.prepare(&mut writer, 1).carried;
        let name = |text| Name::new(text).expect("a name");
        let context = WriterContext {
            job: name("job"),
            sink: name("sink"),
            generation: Generation(2),
            task_index: 0,
            parallelism: 1,
            file_system: shared(&files),
            journal: journal(),
            lead: Lead::unrivalled(),
            ledger: LedgerId(1),
            metrics: Metrics::default(),
            io: io(ImmediateDoor),
        };
        let mut wider = FileSink::csv::<Wider>(OUT).writer(context, vec![carried]).expect("a writer");
        wider.write(Wider { id: 3, name: String::new(), score: None, more: 1 }, Timestamp::MIN).expect("writes");
        wider.end();
        wider.prepare(staunch_types::Epoch(2)).expect("prepares");
        let prepared = wider.poll_prepared().expect("works").expect("at once");
        assert_eq!(prepared.committables.len(), 2);
        case.commit(2, &prepared.committables);
        assert_eq!((case.visible)(), [0, 1, 2, 3]);
    });
}

#[test]
fn a_carried_file_that_is_gone_short_or_changed_is_corrupt() {
    type Spoil = fn(&MemoryFiles, &str);
    let spoil: [(&str, Spoil); 3] = [
        ("found nothing", |files, path| assert!(files.take(path))),
        ("found bytes=10", |files, path| files.put(path, vec![0; 10])),
        ("other content", |files, path| {
            let mut bytes = files.get(path).expect("the file");
            bytes[20] ^= 1;
            files.put(path, bytes);
        }),
    ];
    for (text, spoil) in spoil {
        let files = MemoryFiles::new();
        with_case(rolling(), &files, |case| {
            case.sink.check(&case.context(1)).expect("works");
            let mut writer = case.writer(1, 0, Vec::new(), ImmediateDoor);
            case.write(&mut writer, 0..3);
            let carried = case.prepare(&mut writer, 1).carried;
            let path = "/out/.staunch+job+sink+g1-t0-0.prepared";
            spoil(&files, path);
            let mut writer = case.writer(2, 0, vec![carried], ImmediateDoor);
            let error = writer.prepare(staunch_types::Epoch(2)).expect_err("refused");
            assert_error(&error, "F060", &[text, path]);
            assert_eq!(error.kind(), ErrorKind::Corrupt);
        });
    }
}

#[test]
fn a_sweep_keeps_carried_files_and_removes_others_of_older_generations_only() {
    let files = MemoryFiles::new();
    with_case(rolling(), &files, |case| {
        case.sink.check(&case.context(1)).expect("works");
        let mut kept = case.writer(1, 0, Vec::new(), ImmediateDoor);
        case.write(&mut kept, 0..3);
        let carried = case.prepare(&mut kept, 1).carried;
        let mut dropped = case.writer(1, 1, Vec::new(), ImmediateDoor);
        case.write(&mut dropped, 3..5);
        let _ = case.prepare(&mut dropped, 1);
        for other in ["/out/.staunch+job+sink2+g1-t0-0.open", "/out/.staunch+job2+sink+g1-t0-0.prepared", "/out/.other"] {
            files.put(other, "x");
        }
        files.put("/out/.staunch+job+sink+g0-probe.a", "x");
        let scope =
            SweepScope { generation: Generation(2), durable: Epoch(1), carried: vec![carried, Vec::new()], ..SweepScope::default() };
        let swept = case.committer(2).sweep(&scope).expect("sweeps");
        assert_eq!(swept.removed, ["/out/.staunch+job+sink+g0-probe.a", "/out/.staunch+job+sink+g1-t1-0.prepared"]);
        assert_eq!(files.paths().len(), 4);
    });
}

#[test]
fn a_file_lost_between_prepare_and_commit_is_told_with_both_paths() {
    let files = MemoryFiles::new();
    with_case(FileSink::csv::<Row>(OUT), &files, |case| {
        case.sink.check(&case.context(1)).expect("works");
        let mut writer = case.writer(1, 0, Vec::new(), ImmediateDoor);
        case.write(&mut writer, 0..3);
        let prepared = case.prepare(&mut writer, 1);
        assert!(files.take("/out/.staunch+job+sink+g1-t0-0.prepared"));
        let Resolution::Lost { evidence } = case.committer(2).resolve(&prepared.committables[0]).expect("answers") else {
            panic!("expected a loss");
        };
        assert!(evidence.contains(".staunch+job+sink+g1-t0-0.prepared") && evidence.contains("-00000001-1-0-0.csv"), "{evidence}");
    });
}
