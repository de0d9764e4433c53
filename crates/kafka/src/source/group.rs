//! Tells a consumer group how far the job has come, for tools that show the lag of groups.
//!
//! Owns: the thread that does so. Does not own: positions; nothing that a group holds is ever read back, except where a start from a group
//! was asked for.
//!
//! Invariants:
//! 1. Only what a committed epoch has read is told.
//! 2. Nobody waits for this thread but the end of the source, for [`END_MAX`]. What waits for it is one offset for each partition.
//! 3. A failure is counted, and stops nothing; the next epoch's positions stand for those that were not told.
#![allow(
    clippy::disallowed_methods,
    reason = "librdkafka blocks and keeps its own time: it is used from threads of its own, which wait for it"
)]

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::{Offset, TopicPartitionList};
use staunch_api::{Metrics, Reached};
use staunch_types::Result;

use super::partition::PartitionSplit;
use crate::{codes, figures};

/// How long the end of a source waits for its last positions to be told.
const END_MAX: Duration = Duration::from_secs(10);

/// The next offset to read, by topic and partition.
pub(super) type Positions = BTreeMap<(String, i32), i64>;

/// Tells one group.
pub(super) struct GroupTeller {
    shared: Arc<Shared>,
    end_max: Duration,
}

#[derive(Default)]
struct Shared {
    orders: Mutex<Orders>,
    changed: Condvar,
}

#[derive(Default)]
struct Orders {
    waiting: Positions,
    /// Whether the thread is telling something.
    is_telling: bool,
    is_over: bool,
}

impl GroupTeller {
    /// Starts the thread. The consumer's group is the one to tell.
    ///
    /// # Errors
    /// `Invalid` when the system gives no thread.
    pub(super) fn start(consumer: BaseConsumer, metrics: &Metrics) -> Result<GroupTeller> {
        let (told, failed) = (metrics.counter(figures::GROUP_TOLD), metrics.counter(figures::GROUP_NOT_TOLD));
        let tell = move |positions: &Positions| match tell(&consumer, positions) {
            Ok(()) => told.add(1),
            Err(_) => failed.add(1),
        };
        GroupTeller::with(tell, END_MAX)
    }

    fn with(mut tell: impl FnMut(&Positions) + Send + 'static, end_max: Duration) -> Result<GroupTeller> {
        let shared = Arc::new(Shared::default());
        let own = Arc::clone(&shared);
        let work = move || {
            while let Some(positions) = own.next() {
                tell(&positions);
                own.orders().is_telling = false;
                own.changed.notify_all();
            }
        };
        thread::Builder::new().name("staunch-kafka-group".into()).spawn(work).map_err(|error| codes::no_thread(&error))?;
        Ok(GroupTeller { shared, end_max })
    }

    /// Tells these, and whatever waits to be told of other partitions.
    pub(super) fn tell(&self, positions: Positions) {
        self.shared.orders().waiting.extend(positions);
        self.shared.changed.notify_all();
    }
}

impl Drop for GroupTeller {
    fn drop(&mut self) {
        let mut orders = self.shared.orders();
        orders.is_over = true;
        self.shared.changed.notify_all();
        let is_busy = |orders: &mut Orders| orders.is_telling || !orders.waiting.is_empty();
        // Past that, it goes on alone as long as the process lives.
        drop(self.shared.changed.wait_timeout_while(orders, self.end_max, is_busy));
    }
}

impl Shared {
    fn orders(&self) -> MutexGuard<'_, Orders> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is to be told next; none when it is over.
    fn next(&self) -> Option<Positions> {
        let is_idle = |orders: &mut Orders| orders.waiting.is_empty() && !orders.is_over;
        let mut orders = self.changed.wait_while(self.orders(), is_idle).unwrap_or_else(PoisonError::into_inner);
        orders.is_telling = !orders.waiting.is_empty();
        orders.is_telling.then(|| std::mem::take(&mut orders.waiting))
    }
}

/// The positions of an epoch.
pub(super) fn positions(reached: &Reached<PartitionSplit>) -> Positions {
    let read = reached.read_to.iter().filter_map(|(id, to)| {
        let (topic, partition) = PartitionSplit::place_of(id)?;
        Some(((topic.to_owned(), partition), i64::try_from(*to).ok()?))
    });
    let unfinished = reached.unfinished.iter().map(|split| ((split.topic.clone(), split.partition), split.position));
    read.chain(unfinished).collect()
}

fn tell(consumer: &BaseConsumer, positions: &Positions) -> rdkafka::error::KafkaResult<()> {
    let mut list = TopicPartitionList::with_capacity(positions.len());
    for ((topic, partition), position) in positions {
        list.add_partition_offset(topic, *partition, Offset::Offset(*position))?;
    }
    consumer.commit(&list, CommitMode::Sync)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, sync_channel};

    use staunch_api::Split;

    use super::*;

    fn at(partition: i32, position: i64) -> Positions {
        Positions::from([(("in".to_owned(), partition), position)])
    }

    /// A teller that says what it tells, and waits each time until it may go on.
    fn teller(end_max: Duration) -> (GroupTeller, Receiver<Positions>, std::sync::mpsc::SyncSender<()>) {
        let (say, said) = sync_channel(10);
        let (go_on, may_go_on) = sync_channel(10);
        let tell = move |positions: &Positions| {
            say.send(positions.clone()).expect("somebody listens");
            let _may_end = may_go_on.recv();
        };
        (GroupTeller::with(tell, end_max).expect("a thread"), said, go_on)
    }

    #[test]
    fn positions_that_come_meanwhile_are_told_together_the_newest_of_each_partition() {
        let (teller, said, go_on) = teller(END_MAX);
        teller.tell(at(0, 1));
        assert_eq!(said.recv().expect("told"), at(0, 1));
        for positions in [at(0, 2), at(1, 7), at(0, 3)] {
            teller.tell(positions);
        }
        go_on.send(()).expect("it waits");
        assert_eq!(said.recv().expect("told"), at(0, 3).into_iter().chain(at(1, 7)).collect());
        go_on.send(()).expect("it waits");
    }

    #[test]
    fn the_end_waits_for_the_last_positions_and_not_for_ever() {
        let (teller, said, go_on) = teller(END_MAX);
        (0..2).for_each(|_| go_on.send(()).expect("room"));
        teller.tell(at(0, 1));
        teller.tell(at(0, 2));
        drop(teller);
        assert_eq!(said.try_iter().last(), Some(at(0, 2)), "the end did not wait");
        // Nobody lets this one go on.
        let (teller, said, _go_on) = self::teller(Duration::from_millis(1));
        teller.tell(at(0, 1));
        assert_eq!(said.recv().expect("told"), at(0, 1));
        drop(teller);
    }

    #[test]
    fn positions_are_those_of_open_partitions_and_of_those_read_to_their_end() {
        let split = |partition, position| PartitionSplit { topic: "a-b".into(), topic_id: "x-1@y".into(), partition, position, stop: None };
        let (open, ended) = (split(0, 12), split(11, 0));
        let read_to = BTreeMap::from([(open.id(), 10), (ended.id(), 99), ("of another kind".to_owned(), 5)]);
        let found = positions(&Reached { unfinished: vec![open], read_to });
        assert_eq!(found, BTreeMap::from([(("a-b".to_owned(), 0), 12), (("a-b".to_owned(), 11), 99)]));
    }
}
