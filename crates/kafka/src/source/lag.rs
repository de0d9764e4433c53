//! How far behind the ends of its partitions a reader is.
//!
//! Owns: the thread that asks brokers where partitions end, beside the fetching one: ends move also while nothing is fetched, as when the job is
//! slow. Does not own: positions, which the reader tells.
//!
//! Invariant: nobody waits for this thread, and a broker that does not answer costs nothing but the newest end.
#![allow(
    clippy::disallowed_methods,
    reason = "librdkafka blocks and keeps its own time: it is used from threads of its own, which wait for it"
)]

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{Offset, TopicPartitionList};
use staunch_api::{Gauge, Metrics};
use staunch_types::Result;

use super::partition::PartitionSplit;
use crate::{codes, figures};

/// From one question to the next.
const ASK: Duration = Duration::from_secs(2);
/// How long brokers may take for an answer.
const ANSWER: Duration = Duration::from_secs(10);

/// Watches the partitions of one reader, until it is dropped.
pub(super) struct LagWatch {
    metrics: Metrics,
    watched: Option<Arc<Watched>>,
    thread: thread::Thread,
}

/// A partition that is watched as long as its reader has it.
#[derive(Debug)]
pub(super) struct Watch {
    topic: String,
    partition: i32,
    position: AtomicI64,
    lag: Gauge,
}

#[derive(Default)]
struct Watched(Mutex<Vec<Weak<Watch>>>);

impl LagWatch {
    /// Starts the thread. `metrics` are the reader's.
    ///
    /// # Errors
    /// `Invalid` when the system gives no thread.
    pub(super) fn start(consumer: Arc<BaseConsumer>, metrics: Metrics) -> Result<LagWatch> {
        let watched = Arc::new(Watched::default());
        let seen = Arc::downgrade(&watched);
        let watch = move || {
            while let Some(asked) = seen.upgrade().map(|watched| watched.ask()) {
                // Whatever is dropped meanwhile is gone at once.
                let ends = if asked.count() == 0 { None } else { consumer.offsets_for_times(asked, ANSWER).ok() };
                if let (Some(watched), Some(ends)) = (seen.upgrade(), ends) {
                    watched.show(&ends);
                }
                thread::park_timeout(ASK);
            }
        };
        let thread = thread::Builder::new().name("staunch-kafka-lag".into()).spawn(watch).map_err(|error| codes::no_thread(&error))?;
        Ok(LagWatch { metrics, watched: Some(watched), thread: thread.thread().clone() })
    }

    /// Watches a partition, from the position of its split on.
    pub(super) fn watch(&self, split: &PartitionSplit) -> Arc<Watch> {
        let metrics = self.metrics.with("topic", split.topic.as_str()).with("partition", split.partition.to_string());
        let watch = Arc::new(Watch {
            topic: split.topic.clone(),
            partition: split.partition,
            position: AtomicI64::new(split.position),
            lag: metrics.gauge(figures::LAG),
        });
        if let Some(watched) = &self.watched {
            watched.0.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(&watch));
        }
        self.thread.unpark();
        watch
    }
}

impl Drop for LagWatch {
    fn drop(&mut self) {
        drop(self.watched.take());
        self.thread.unpark();
    }
}

impl Watched {
    /// Those that are still read.
    fn partitions(&self) -> Vec<Arc<Watch>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|watch| watch.strong_count() > 0);
        all.iter().filter_map(Weak::upgrade).collect()
    }

    /// The question where they end, for a reader like ours: of committed messages, if it is one. One request goes to each leader.
    fn ask(&self) -> TopicPartitionList {
        let mut asked = TopicPartitionList::new();
        for watch in self.partitions() {
            // Instead of a time: the end. It fails only for what is no offset.
            drop(asked.add_partition_offset(&watch.topic, watch.partition, Offset::End));
        }
        asked
    }

    fn show(&self, ends: &TopicPartitionList) {
        for watch in self.partitions() {
            let found = ends.find_partition(&watch.topic, watch.partition).filter(|found| found.error().is_ok());
            if let Some(Offset::Offset(end)) = found.map(|found| found.offset()) {
                watch.show(end);
            }
        }
    }
}

impl Watch {
    /// The next offset to read.
    pub(super) fn reached(&self, position: i64) {
        self.position.store(position, Ordering::Relaxed);
    }

    fn show(&self, end: i64) {
        self.lag.set(Some((end - self.position.load(Ordering::Relaxed)).max(0)));
    }
}

#[cfg(test)]
mod tests {
    use rdkafka::ClientConfig;
    use staunch_api::SampleValue;

    use super::*;

    #[test]
    fn a_partition_has_a_lag_as_long_as_it_is_read() {
        let metrics = Metrics::default();
        let consumer = ClientConfig::new().set("bootstrap.servers", "127.0.0.1:1").set("group.id", "none").create().expect("a consumer");
        let lag = LagWatch::start(Arc::new(consumer), metrics.clone()).expect("a thread");
        let split = PartitionSplit { topic: "in".into(), topic_id: String::new(), partition: 3, position: 10, stop: None };
        let shown = || metrics.samples(0).into_iter().map(|sample| (sample.labels, sample.value)).collect::<Vec<_>>();
        let ends = |end| {
            let mut ends = TopicPartitionList::new();
            ends.add_partition_offset("in", 3, Offset::Offset(end)).expect("an offset");
            ends
        };
        let (watch, watched) = (lag.watch(&split), Arc::clone(lag.watched.as_ref().expect("it is there until the end")));
        assert_eq!(watched.ask().find_partition("in", 3).map(|asked| asked.offset()), Some(Offset::End));
        assert_eq!(shown(), [], "nobody has said where it ends");
        let labels = vec![("partition", "3".to_owned()), ("topic", "in".to_owned())];
        for (end, position, expected) in [(25, 10, 15.0), (25, 20, 5.0), (25, 25, 0.0), (25, 27, 0.0), (30, 27, 3.0)] {
            watch.reached(position);
            watched.show(&ends(end));
            assert_eq!(shown(), [(labels.clone(), SampleValue::Value(expected))], "{end} {position}");
        }
        // What the thread waits for holds none of it.
        drop(watch);
        assert_eq!(shown(), []);
        assert_eq!(watched.ask().count(), 0);
    }
}
