//! What the present ids of the Kafka sink leave open, shown at exactly the step; and that ids which name their generation close it.
//!
//! A process that is halted between its last look at the ledger and a request takes an id over, or away, that a newer generation has by then.
//! Brokers compare too little to refuse that: nothing while a writer takes an id over, and not the epoch while a transaction is open.

use staunch_engine::cluster::JobEvent;
use staunch_protocol::Reason;
use staunch_sim::job::{Shape, Start};
use staunch_sim::kernel::{By, Deed, Operation, ProcessId, Trap, When};
use staunch_sim::sink::IdsOf;
use staunch_sim::world::World;
use staunch_types::ErrorKind;

use super::support::topics_with;
use crate::support::{LONG, finishes, hears, tail, well};

/// A process that is halted before it asks for an id, and goes on when a durable transaction of a newer generation is open under it.
fn goes_on_late(operation: Operation, ids: IdsOf, journal: bool) -> (World, ProcessId) {
    let mut world = topics_with(Shape::Straight, |job, settings| {
        job.journal = journal;
        settings.ids = ids;
    });
    world.checks.topics.robbery_is_known = ids == IdsOf::Task;
    let first = world.start(&Start::default());
    if operation == Operation::Fence {
        hears(&mut world, first, |event| matches!(event, JobEvent::EpochDurable { committables: 1.., .. }));
        world.kill(first);
    }
    let old = if operation == Operation::Fence { world.start(&Start::default()) } else { first };
    world.trap(Trap::new(operation, "sim/", Deed::Hang(When::Before, LONG)).of(old));
    let hung = world.run_until(LONG, |world| world.machine().sprung() > 0);
    assert!(well(&world, hung), "{operation:?} was never reached\n{}", tail(&world));
    let new = ProcessId(old.0 + 1);
    world.trap(Trap::new(Operation::EndTransaction, "sim/", Deed::Hang(When::Before, LONG)).of(new));
    world.start(&Start::default());
    let hung = world.run_until(LONG, |world| world.machine().sprung() > 1);
    assert!(well(&world, hung), "{}", tail(&world));
    world.machine().wake(old);
    let ended = world.run_out(old, LONG / 4);
    well(&world, ended);
    world.kill(old);
    world.machine().wake(new);
    (world, new)
}

fn by_whom(world: &World) -> Vec<By> {
    world.checks.topics.lost().iter().map(|decided| decided.by).collect()
}

#[test]
fn ids_of_a_task_can_be_taken_over_by_an_older_process_and_the_loss_is_proven() {
    for operation in [Operation::TakeOver, Operation::Fence] {
        let (mut world, new) = goes_on_late(operation, IdsOf::Task, false);
        let ended = world.run_out(new, LONG);
        let ended = well(&world, ended);
        assert!(!by_whom(&world).is_empty(), "{operation:?}\n{}", tail(&world));
        assert!(by_whom(&world).iter().all(|by| matches!(by, By::TakeOver(_) | By::Fence(_))), "{:?}", by_whom(&world));
        let Some(Err(error)) = ended else { panic!("{operation:?}: {ended:?}\n{}", tail(&world)) };
        assert!([ErrorKind::Lost, ErrorKind::Fenced].contains(&error.kind()), "{operation:?}: {error}");
    }
}

#[test]
fn with_a_journal_what_an_older_process_took_is_written_again() {
    for operation in [Operation::TakeOver, Operation::Fence] {
        let (mut world, new) = goes_on_late(operation, IdsOf::Task, true);
        let ended = world.run_out(new, LONG);
        well(&world, ended);
        assert!(!by_whom(&world).is_empty(), "{operation:?}");
        finishes(&mut world, &Start::default());
    }
}

#[test]
fn ids_that_name_their_generation_cannot_be_taken_by_an_older_process() {
    for operation in [Operation::TakeOver, Operation::Fence] {
        let (mut world, new) = goes_on_late(operation, IdsOf::Generation, false);
        let ended = world.run_out(new, LONG);
        assert_eq!(well(&world, ended), Some(Ok(Reason::Final)), "{operation:?}\n{}", tail(&world));
        assert_eq!(by_whom(&world), []);
        finishes(&mut world, &Start::default());
    }
}
