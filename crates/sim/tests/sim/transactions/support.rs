//! What scenarios with a broker share.

use staunch_sim::job::{JobSpec, Shape};
use staunch_sim::kernel::Operation;
use staunch_sim::sink::TopicSettings;
use staunch_sim::world::World;

use crate::support::{deep, world_with};

/// Requests that change something at the broker.
pub(crate) const CHANGES: [Operation; 5] =
    [Operation::TakeOver, Operation::Enroll, Operation::Produce, Operation::EndTransaction, Operation::Fence];

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

/// Open transactions of the job.
pub(crate) fn open(world: &World) -> Vec<String> {
    world.machine().broker.open("sim/")
}
