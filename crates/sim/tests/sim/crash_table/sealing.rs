//! Rows 6 and 7: the manifest and its seal.

use std::io;

use staunch_sim::job::{Shape, Start};
use staunch_sim::kernel::{Deed, Operation, Trap, When};
use staunch_types::Epoch;

use crate::support::{dies_at, ends, finishes, tail, world};

/// The ledger's slots of the claim, the first seal and so on.
const SEAL: &str = "ledger/0000000/0000000002";

#[test]
fn row_6_all_have_acknowledged_and_the_manifest_is_not_written() {
    for trap in [
        Trap::new(Operation::Create, "manifests/", Deed::Kill(When::Before)),
        Trap::new(Operation::Append, "manifests/", Deed::Kill(When::After)),
        Trap::new(Operation::Rename, "manifests/", Deed::Kill(When::Before)),
        Trap::new(Operation::Rename, "manifests/", Deed::Kill(When::After)),
        Trap::new(Operation::Rename, SEAL, Deed::Kill(When::Before)),
        Trap::new(Operation::Rename, "manifests/", Deed::PowerLoss(When::Before)),
    ] {
        let mut world = world(Shape::Rebalanced);
        dies_at(&mut world, &Start::default(), trap);
        assert_eq!(world.checks.ledger.sealed().len(), 0);
        assert_eq!(world.checks.visible.files(), 0);
        finishes(&mut world, &Start::default());
        let newer = world.checks.ledger.sealed().values().all(|sealed| sealed.generation.0 >= 2);
        assert!(newer, "the dead generation's epoch was taken up\n{}", tail(&world));
    }
}

#[test]
fn row_7_the_seal_is_written_and_the_writer_dies_before_it_knows() {
    for deed in [Deed::Kill(When::After), Deed::PowerLoss(When::After)] {
        let mut world = world(Shape::Rebalanced);
        dies_at(&mut world, &Start::default(), Trap::new(Operation::Rename, SEAL, deed));
        assert_eq!(world.checks.ledger.sealed().len(), 1);
        finishes(&mut world, &Start::default());
        assert!(world.checks.ledger.sealed()[&Epoch(1)].recorded || world.checks.ledger.sealed()[&Epoch(1)].committables.is_empty());
    }
}

#[test]
fn row_7_the_answer_to_the_seal_is_lost_and_the_writer_finds_its_own_entry() {
    for times in [1, 2] {
        let mut world = world(Shape::Rebalanced);
        let lost = Deed::LoseAnswer(io::ErrorKind::TimedOut);
        world.trap(Trap::new(Operation::Rename, SEAL, lost));
        // What it reads back may not be answered either.
        world.trap(Trap::new(Operation::Open, SEAL, Deed::Refuse(io::ErrorKind::TimedOut)).times(times));
        let id = world.start(&Start::default());
        assert_eq!(ends(&mut world, id), staunch_protocol::Reason::Final);
        assert_eq!(world.machine().sprung(), 1 + times);
        assert_eq!(world.checks.ledger.generation().0, 1, "no restart was needed\n{}", tail(&world));
        finishes(&mut world, &Start::default());
    }
}
