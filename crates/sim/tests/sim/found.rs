//! A scenario for each fault that the simulator found: the smallest one known.

use std::io;
use std::time::Duration;

use staunch_engine::cluster::{JobEvent, Restore};
use staunch_format::ledger::{Body, Origin};
use staunch_protocol::Reason;
use staunch_sim::check::Timeline;
use staunch_sim::job::{JobSpec, Shape, Start};
use staunch_sim::kernel::{Deed, Operation, ProcessId, Trap, Weather, When};
use staunch_sim::world::World;
use staunch_types::{ErrorKind, TaskId};

use crate::support::{LONG, deep, ends, finishes, hears, tail, well, world};

#[test]
fn a_seal_that_is_refused_for_good_is_not_what_the_next_entry_says() {
    let mut world = world(Shape::Split);
    // As often as the ledger tries one entry.
    world.trap(Trap::new(Operation::Create, "ledger/0000000/0000000002", Deed::Refuse(io::ErrorKind::Other)).times(8));
    let id = world.start(&Start { interval: Duration::from_millis(1), ..Start::default() });
    let answer = world.finish_in(id);
    well(&world, answer);
    assert_eq!(world.machine().sprung(), 8);
    finishes(&mut world, &Start::default());
}

/// A refused read makes the generation fail and the job start again in the same process.
fn restart_inside(world: &mut World) {
    world.trap(Trap::new(Operation::Read, "/in/", Deed::Refuse(io::ErrorKind::Other)));
}

fn restarts(world: &mut World, id: ProcessId) {
    hears(world, id, |event| matches!(event, JobEvent::Restarting { .. }));
}

#[test]
fn a_job_started_from_nothing_goes_on_after_a_restart_and_does_not_begin_again() {
    let mut world = world(Shape::Straight);
    let start = Start { restore: Restore::Nothing, interval: Duration::from_millis(1), ..Start::default() };
    let id = world.start(&start);
    hears(&mut world, id, |event| matches!(event, JobEvent::EpochDurable { committables: 1.., .. }));
    restart_inside(&mut world);
    restarts(&mut world, id);
    let answer = world.finish_in(id);
    well(&world, answer);
    finishes(&mut world, &Start::default());
}

#[test]
fn a_rewound_job_goes_on_after_a_restart_and_does_not_rewind_again() {
    let mut world = world(Shape::Straight);
    world.checks.timeline(Timeline::Rewound);
    let start = Start { interval: Duration::from_millis(1), retained: 20, ..Start::default() };
    let id = world.start(&start);
    hears(&mut world, id, |event| matches!(event, JobEvent::EpochDurable { committables: 1.., .. }));
    world.kill(id);
    let old = *world.checks.ledger.sealed().keys().next().expect("there is an epoch");
    let id = world.start(&Start { restore: Restore::Epoch(old), ..start });
    hears(&mut world, id, |event| matches!(event, JobEvent::EpochDurable { committables: 1.., .. }));
    restart_inside(&mut world);
    restarts(&mut world, id);
    hears(&mut world, id, |event| matches!(event, JobEvent::Finished { .. }));
    let last = world.checks.ledger.entries().iter().rev().find_map(|entry| match &entry.body {
        Body::Claimed(claimed) => Some(claimed.origin),
        Body::Sealed(_) | Body::Committed(_) | Body::Stopped(_) => None,
    });
    assert!(matches!(last, Some(Origin::Epoch(epoch)) if epoch > old), "{last:?}\n{}", tail(&world));
}

#[test]
fn a_start_that_loses_the_race_for_its_claim_knows_what_the_winner_did() {
    for epochs in [0, 1, 2, 3] {
        let mut world = world(Shape::Split);
        world.weather(deep());
        let start = Start { interval: Duration::from_millis(1), ..Start::default() };
        world.trap(Trap::new(Operation::Create, "ledger/0000000/0000000001", Deed::Hang(When::Before, Duration::from_secs(30))));
        let slow = world.start(&start);
        let hung = world.run_until(LONG, |world| world.machine().sprung() > 0);
        assert!(well(&world, hung), "{}", tail(&world));
        let winner = world.start(&start);
        let far = world.run_until(LONG, |world| world.checks.ledger.generation().0 > 0 && world.checks.ledger.sealed().len() >= epochs);
        assert!(well(&world, far), "{}", tail(&world));
        world.kill(winner);
        let answer = world.finish_in(slow);
        well(&world, answer);
        finishes(&mut world, &start);
    }
}

#[test]
fn one_record_that_becomes_more_than_all_queues_hold_loses_none() {
    let mut job = JobSpec::new(Shape::Shared, 2, 80);
    job.very_many = 20_000;
    let mut world = World::new(3, job);
    assert!(world.job.expected()["odd"].len() > 20_000, "no row of the input becomes very many");
    let id = world.start(&Start { parallelism: (1, 2), ..Start::default() });
    hears(&mut world, id, |event| matches!(event, JobEvent::Running { .. }));
    for index in 0..2 {
        world.hold_task(id, TaskId { chain: 1, index }, Duration::from_secs(1));
    }
    let answer = world.finish_in(id);
    well(&world, answer);
    finishes(&mut world, &Start::default());
}

#[test]
fn starts_at_the_same_time_do_not_refuse_each_other() {
    for seed in 0..40 {
        let mut world = World::new(seed, JobSpec::new(Shape::Straight, 1, 10));
        world.weather(Weather { pause: 4_000, ..deep() });
        let all: Vec<_> = (0..3).map(|_| world.start(&Start::default())).collect();
        let over = world.run_until(LONG, |world| world.alive().next().is_none());
        assert!(well(&world, over), "{}", tail(&world));
        let finished = all.iter().filter(|id| matches!(world.ended.get(id), Some(Ok(Reason::Final)))).count();
        let fenced = |result: &Result<Reason, staunch_types::Error>| matches!(result, Err(error) if error.kind() == staunch_types::ErrorKind::Fenced);
        let rivals = world.ended.values().filter(|result| fenced(result)).count();
        assert!(finished >= 1 && finished + rivals == 3, "seed {seed}: {:?}\n{}", world.ended, tail(&world));
    }
}

#[test]
fn a_stop_is_not_forgotten_when_the_job_restarts() {
    for asked_first in [true, false] {
        let mut world = world(Shape::Straight);
        let id = world.start(&Start { timeout: Duration::from_secs(100), ..Start::default() });
        hears(&mut world, id, |event| matches!(event, JobEvent::EpochDurable { committables: 1.., .. }));
        // One task takes no part, so that the stop is still under way when the other one fails.
        world.hold_task(id, TaskId { chain: 0, index: 1 }, Duration::from_secs(2));
        if asked_first {
            world.stop(id, Reason::Stop);
        }
        world.trap(Trap::new(Operation::Create, ".open", Deed::Refuse(io::ErrorKind::Other)));
        restarts(&mut world, id);
        if !asked_first {
            world.stop(id, Reason::Stop);
        }
        assert_eq!(ends(&mut world, id), Reason::Stop, "asked first: {asked_first}\n{}", tail(&world));
        finishes(&mut world, &Start::default());
    }
}

#[test]
fn a_zombie_that_fails_before_it_notices_does_not_take_the_job_back() {
    let mut world = world(Shape::Rebalanced);
    world.weather(deep());
    world.trap(Trap::new(Operation::Rename, ".prepared", Deed::Hang(When::Before, Duration::from_secs(60))));
    let old = world.start(&Start::default());
    let hung = world.run_until(LONG, |world| world.machine().sprung() > 0);
    assert!(well(&world, hung), "{}", tail(&world));
    let new = world.start(&Start::default());
    assert_eq!(ends(&mut world, new), Reason::Final);
    // Its file was swept, so it fails to prepare it; only the ledger tells it why.
    crate::support::is_fenced(&mut world, old);
    finishes(&mut world, &Start::default());
}

#[test]
fn a_zombie_that_sweeps_late_is_fenced_and_does_not_complain_of_newer_output() {
    let mut world = world(Shape::Straight);
    world.weather(deep());
    world.trap(Trap::new(Operation::List, "/out/", Deed::Hang(When::Before, Duration::from_secs(60))));
    let old = world.start(&Start::default());
    let hung = world.run_until(LONG, |world| world.machine().sprung() > 0);
    assert!(well(&world, hung), "{}", tail(&world));
    let new = world.start(&Start::default());
    assert_eq!(ends(&mut world, new), Reason::Final);
    crate::support::is_fenced(&mut world, old);
}

#[test]
fn a_start_that_reads_slowly_while_another_process_goes_on_is_not_told_of_damage() {
    let start = Start { retained: 1, ..Start::default() };
    for path in ["/manifests/e", "/ledger/0000000/0000000003"] {
        let mut world = world(Shape::Straight);
        world.weather(deep());
        let first = world.start(&start);
        hears(&mut world, first, |event| matches!(event, JobEvent::EpochCommitted { .. }));
        world.trap(Trap::new(Operation::Open, path, Deed::Hang(When::Before, Duration::from_millis(5))).of(ProcessId(2)));
        let slow = world.start(&start);
        let over = world.run_until(LONG, |world| world.alive().next().is_none());
        assert!(well(&world, over), "{}", tail(&world));
        assert_eq!(world.machine().sprung(), 1);
        assert!(matches!(world.ended.get(&slow), Some(Ok(Reason::Final))), "{:?}\n{}", world.ended, tail(&world));
    }
}

#[test]
fn what_a_kill_left_half_written_in_the_store_is_collected() {
    let mut world = world(Shape::Straight);
    for _ in 0..3 {
        crate::support::dies_at(&mut world, &Start::default(), Trap::new(Operation::Sync, ".unfinished", Deed::Kill(When::Before)).skip(4));
    }
    finishes(&mut world, &Start { interval: Duration::from_millis(1), ..Start::default() });
    let left: Vec<String> =
        world.machine().disk.under("/checkpoints").filter(|path| path.ends_with(".unfinished")).map(str::to_owned).collect();
    assert_eq!(left, Vec::<String>::new());
}

/// Three readers with a file each, of which only one has come to records at the checkpoint; then one reader goes on with all three.
fn one_reader_goes_on_with_the_files_of_three(shape: Shape, seed: u64) {
    let mut job = JobSpec::new(shape, 3, 120);
    job.chunk_bytes = 120;
    job.split_bytes = 1 << 20;
    let mut world = World::new(seed, job);
    for file in 0..3 {
        // The first read is the look at the file when it is found, the second is its reader's.
        world.trap(Trap::new(Operation::Read, &format!("/in/0/{file:03}.csv"), Deed::Note).skip(1));
    }
    let start = Start { parallelism: (3, 2), interval: Duration::from_millis(3), ..Start::default() };
    let id = world.start(&start);
    let given = world.run_until(LONG, |world| world.machine().sprung() == 3);
    assert!(well(&world, given), "{}", tail(&world));
    (1..3).for_each(|index| world.hold_task(id, TaskId { chain: 0, index }, Duration::from_millis(100)));
    hears(&mut world, id, |event| matches!(event, JobEvent::EpochDurable { committables: 1.., .. }));
    world.kill(id);
    finishes(&mut world, &Start { parallelism: (1, 2), ..start });
}

#[test]
fn a_split_that_goes_on_does_not_move_the_watermark_before_its_reader_has_the_others() {
    (0..12).for_each(|seed| one_reader_goes_on_with_the_files_of_three(Shape::Guarded, seed));
}

#[test]
fn nor_does_it_where_the_stream_is_shared() {
    (0..12).for_each(|seed| one_reader_goes_on_with_the_files_of_three(Shape::Hopped, seed));
}

#[test]
fn a_process_that_was_overtaken_and_cannot_read_the_ledger_does_not_call_its_checkpoint_damaged() {
    let mut world = world(Shape::Counted);
    let start = Start { interval: Duration::from_millis(1), ..Start::default() };
    let first = world.start(&start);
    hears(&mut world, first, |event| matches!(event, JobEvent::EpochDurable { committables: 1.., .. }));
    world.kill(first);
    // It is halted before it reads the state of that checkpoint, which the newer one removes meanwhile.
    let old = ProcessId(first.0 + 1);
    world.trap(Trap::new(Operation::Open, "state/", Deed::Hang(When::Before, LONG)).of(old));
    world.start(&start);
    let hung = world.run_until(LONG, |world| world.machine().sprung() > 0);
    assert!(well(&world, hung), "{}", tail(&world));
    let new = world.start(&start);
    let answer = world.finish_in(new);
    well(&world, answer);
    // As often as it tries to find out whether it was overtaken.
    world.trap(Trap::new(Operation::Open, "ledger/", Deed::Refuse(io::ErrorKind::Other)).of(old).times(5));
    world.machine().wake(old);
    let ended = world.run_out(old, LONG);
    let ended = well(&world, ended);
    assert_eq!(world.machine().sprung(), 6, "{}", tail(&world));
    assert!(matches!(&ended, Some(Err(error)) if error.kind() == ErrorKind::Fenced), "{ended:?}\n{}", tail(&world));
    finishes(&mut world, &start);
}
