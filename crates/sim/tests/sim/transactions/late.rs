//! A process that is halted between its last look at the ledger and a request takes nothing from a newer generation; drivers without the rules
//! for that are found out.

use staunch_engine::cluster::JobEvent;
use staunch_protocol::Reason;
use staunch_sim::check::Violation;
use staunch_sim::job::{Shape, Start};
use staunch_sim::kernel::{Deed, Operation, ProcessId, Trap, When};
use staunch_sim::sink::BrokenDriver;
use staunch_sim::world::World;
use staunch_types::ErrorKind;

use super::support::topics_with;
use crate::support::{LONG, finishes, hears, tail, well};

/// A process that is halted before a step, and goes on when a durable transaction of a newer generation is open; then it is killed. And the newer one,
/// which may go on.
fn goes_on_late(operation: Operation, broken: Option<BrokenDriver>) -> Result<(World, ProcessId), Violation> {
    let mut world = topics_with(Shape::Straight, |_, settings| settings.broken = broken);
    let first = world.start(&Start::default());
    let old = match operation {
        Operation::Fence => {
            hears(&mut world, first, |event| matches!(event, JobEvent::EpochDurable { committables: 1.., .. }));
            world.kill(first);
            world.start(&Start::default())
        }
        // Its first look at the ledger, by a writer.
        Operation::Open => {
            hears(&mut world, first, |event| matches!(event, JobEvent::Running { .. }));
            first
        }
        _ => first,
    };
    let place = if operation == Operation::Open { "ledger/" } else { "sim/" };
    world.trap(Trap::new(operation, place, Deed::Hang(When::Before, LONG)).of(old));
    let hung = world.run_until(LONG, |world| world.machine().sprung() > 0);
    assert!(well(&world, hung), "{operation:?} was never reached\n{}", tail(&world));
    let new = ProcessId(old.0 + 1);
    world.trap(Trap::new(Operation::EndTransaction, "sim/", Deed::Hang(When::Before, LONG)).of(new));
    world.start(&Start::default());
    let hung = world.run_until(LONG, |world| world.machine().sprung() > 1);
    assert!(well(&world, hung), "{}", tail(&world));
    world.machine().wake(old);
    world.run_out(old, LONG / 4)?;
    world.kill(old);
    world.machine().wake(new);
    Ok((world, new))
}

#[test]
fn an_older_process_takes_no_id_of_a_newer_one() {
    for operation in [Operation::TakeOver, Operation::Fence, Operation::Open] {
        let late = goes_on_late(operation, None);
        let (mut world, new) = late.unwrap_or_else(|violation| panic!("{operation:?}: {violation}"));
        let ended = world.run_out(new, LONG);
        assert_eq!(well(&world, ended), Some(Ok(Reason::Final)), "{operation:?}\n{}", tail(&world));
        assert!(world.checks.topics.lost().is_empty(), "{operation:?}");
        finishes(&mut world, &Start::default());
    }
}

#[test]
fn ids_that_outlive_their_generation_are_found_out() {
    for operation in [Operation::TakeOver, Operation::Fence] {
        let violation = goes_on_late(operation, Some(BrokenDriver::SharesIds)).err();
        assert_eq!(violation.map(|violation| violation.check), Some("E5"), "{operation:?}");
    }
}

#[test]
fn a_writer_that_was_overtaken_before_its_first_record_leaves_nothing_open() {
    let left_by_it = |operation, broken| {
        let (world, _) = goes_on_late(operation, broken).expect("no violation");
        let open = world.machine().broker.open("sim/");
        let ended = world.ended.get(&ProcessId(1)).cloned();
        (open.iter().filter(|id| id.contains("/g1-")).count(), ended)
    };
    let (open, ended) = left_by_it(Operation::Open, None);
    assert_eq!(open, 0);
    assert!(matches!(&ended, Some(Err(error)) if error.kind() == ErrorKind::Fenced), "{ended:?}");
    // A driver that does not look has nothing before the request itself.
    let (open, _) = left_by_it(Operation::TakeOver, Some(BrokenDriver::TakesOverUnconfirmed));
    assert!(open > 0, "the rule makes no difference");
}
