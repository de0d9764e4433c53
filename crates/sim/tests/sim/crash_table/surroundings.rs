//! Rows 22, 23 and 25: the store, what is in it, and the clock.

use std::io;
use std::time::Duration;

use staunch_engine::cluster::{JobEvent, Restore};
use staunch_sim::check::Timeline;
use staunch_sim::job::{Shape, Start};
use staunch_sim::kernel::{Deed, Operation, Trap, Weather, When};
use staunch_types::ErrorKind;

use crate::support::{dies_at, ends_in_error, finishes, hears, tail, well, world};

#[test]
fn row_22_a_store_that_cannot_be_written_is_refused_at_the_start() {
    for kind in [io::ErrorKind::ReadOnlyFilesystem, io::ErrorKind::StorageFull, io::ErrorKind::PermissionDenied] {
        let mut world = world(Shape::Straight);
        world.weather(Weather { closed: Some(kind), ..Weather::fair() });
        let error = ends_in_error(&mut world, &Start::default());
        assert_eq!((error.kind(), error.code()), (ErrorKind::Invalid, "C011"), "{error}");
        world.weather(Weather::fair());
        finishes(&mut world, &Start::default());
    }
}

#[test]
fn row_22_a_store_that_fills_up_fails_the_job_with_the_reason_and_output_never_runs_ahead() {
    let mut world = world(Shape::Straight);
    let start = Start { failures_tolerated: 1, ..Start::default() };
    let id = world.start(&start);
    hears(&mut world, id, |event| matches!(event, JobEvent::Running { .. }));
    let files = world.checks.visible.files();
    world.trap(Trap::new(Operation::Create, "manifests/", Deed::Refuse(io::ErrorKind::StorageFull)).times(u64::MAX));
    let ended = world.run_out(id, Duration::from_secs(3_600));
    let Some(Err(error)) = well(&world, ended) else { panic!("the job should have failed\n{}", tail(&world)) };
    assert_eq!(error.code(), "J010", "{error}");
    assert!(error.to_string().contains("the checkpoint store cannot be written"), "{error}");
    let told = world.told(id);
    let failed = told.iter().filter(|event| matches!(event, JobEvent::EpochFailed { .. })).count();
    assert!(failed > 2, "failures are told: {failed}");
    assert_eq!(world.checks.visible.files(), files, "output ran ahead");
}

/// Each failed checkpoint takes long, as the ledger tries again and again; the job must come to its end all the same.
#[test]
fn row_22_a_store_that_stays_full_fails_the_job_however_long_it_takes() {
    let mut world = world(Shape::Straight);
    world.trap(Trap::new(Operation::Create, "manifests/", Deed::Refuse(io::ErrorKind::StorageFull)).times(u64::MAX));
    let id = world.start(&Start { failures_tolerated: 9, ..Start::default() });
    let ended = world.run_out(id, Duration::from_secs(3 * 3_600));
    let Some(Err(error)) = well(&world, ended) else { panic!("the job should have failed\n{}", tail(&world)) };
    assert_eq!(error.code(), "J010", "{error}");
}

#[test]
fn row_22_a_store_that_fills_up_for_a_while_is_only_a_delay() {
    let mut world = world(Shape::Split);
    world.trap(Trap::new(Operation::Create, "manifests/", Deed::Refuse(io::ErrorKind::StorageFull)).skip(1).times(12));
    let id = world.start(&Start::default());
    let answer = world.finish_in(id);
    well(&world, answer);
    assert_eq!(world.machine().sprung(), 12);
    finishes(&mut world, &Start::default());
}

#[test]
fn row_23_a_damaged_manifest_is_named_and_an_older_one_can_be_restored() {
    let mut world = world(Shape::Straight);
    world.checks.timeline(Timeline::Rewound);
    let start = Start { interval: Duration::from_millis(1), retained: 10, ..Start::default() };
    dies_at(&mut world, &start, Trap::new(Operation::Rename, "manifests/", Deed::Kill(When::Before)).skip(4));
    world.checks.damaged();
    let epochs: Vec<_> = world.checks.ledger.sealed().iter().map(|(epoch, sealed)| (*epoch, sealed.manifest.clone())).collect();
    let (_, newest) = epochs.last().expect("four epochs are durable");
    let path = format!("{}/{newest}", world.job.checkpoints());
    let whole = world.machine().disk.bytes(&path).expect("the manifest is there").to_vec();
    for place in [0, 5, whole.len() / 3, whole.len() / 2, whole.len() - 1] {
        for cut in [false, true] {
            let mut damaged = whole.clone();
            if cut {
                damaged.truncate(place)
            } else {
                damaged[place] ^= 0x40
            }
            world.machine().disk.place(&path, &damaged);
            world.machine().disk.take_changes();
            let error = ends_in_error(&mut world, &Start::default());
            assert_eq!(error.kind(), ErrorKind::Corrupt, "byte {place}: {error}");
            assert!(error.to_string().contains(newest), "byte {place}: {error}");
        }
    }
    let older = epochs[epochs.len() - 2].0;
    let id = world.start(&Start { restore: Restore::Epoch(older), ..Start::default() });
    hears(&mut world, id, |event| matches!(event, JobEvent::Running { .. }));
}

#[test]
fn row_25_a_clock_that_jumps_changes_nothing() {
    let mut world = world(Shape::Rebalanced);
    let id = world.start(&Start::default());
    let mut jumps = 0;
    let finished = world.run_until(Duration::from_secs(60), |world| {
        jumps += 1;
        if jumps % 50 == 0 {
            world.machine().wall_offset_ms += if jumps % 100 == 0 { 3_600_000 } else { -3_600_000 };
        }
        world.ended.contains_key(&id)
    });
    assert!(well(&world, finished), "{}", tail(&world));
    assert_eq!(world.checks.ledger.generation().0, 1, "no restart was needed");
    finishes(&mut world, &Start::default());
}
