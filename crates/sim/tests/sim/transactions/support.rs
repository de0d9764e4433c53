//! What scenarios with a broker share.

use std::time::Duration;

use staunch_sim::job::{JobSpec, Shape, Start};
use staunch_sim::kernel::{Deed, Operation, Trap, When};
use staunch_sim::sink::{BrokenDriver, TopicSettings};
use staunch_sim::world::World;

use crate::support::{deep, dies_at, well, world_with};

/// Requests that change something at the broker.
pub(crate) const CHANGES: [Operation; 5] =
    [Operation::TakeOver, Operation::Enroll, Operation::Produce, Operation::EndTransaction, Operation::Fence];

/// The broker aborts what is open for longer.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(2);

/// A world with a small job that writes to topics.
pub(crate) fn topics(shape: Shape) -> World {
    topics_with(shape, |_, _| {})
}

/// A world with a small job that writes to topics, in which something is otherwise.
pub(crate) fn topics_with(shape: Shape, change: impl FnOnce(&mut JobSpec, &mut TopicSettings)) -> World {
    world_with(shape, |job| {
        let mut settings = TopicSettings::default();
        change(job, &mut settings);
        job.topics = Some(settings);
    })
}

/// A world with a very small job that writes to topics.
pub(crate) fn small(shape: Shape) -> World {
    let mut job = JobSpec::new(shape, 3, 40);
    job.split_bytes = 300;
    job.chunk_bytes = 100;
    job.topics = Some(TopicSettings::default());
    let world = World::new(11, job);
    world.weather(deep());
    world
}

/// A world whose job died before its second commit, and was away for longer than the broker keeps a transaction open.
pub(crate) fn away_for_long(journal: bool, broken: Option<BrokenDriver>) -> World {
    let mut world = topics_with(Shape::Split, |job, settings| {
        job.journal = journal;
        settings.timeout = TIMEOUT;
        settings.broken = broken;
    });
    dies_at(&mut world, &Start::default(), Trap::new(Operation::EndTransaction, "", Deed::Kill(When::Before)).skip(1));
    assert!(!open(&world).is_empty());
    world.machine().now = world.now() + 3 * TIMEOUT;
    world
}

/// What is open times out, and the brokers forget the ids.
pub(crate) fn and_forgotten(mut world: World) -> World {
    world.machine().now = world.now() + 2 * TIMEOUT;
    world.broker_goes_on();
    world.markers_arrive();
    let seen = world.look();
    well(&world, seen);
    assert_eq!(open(&world), Vec::<String>::new());
    world.machine().broker.forget("sim/");
    world
}

/// Open transactions of the job.
pub(crate) fn open(world: &World) -> Vec<String> {
    world.machine().broker.open("sim/")
}
