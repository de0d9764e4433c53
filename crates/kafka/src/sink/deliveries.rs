//! What the acknowledgements of one producer tell about its present transaction.
//!
//! Owns: where the messages landed, and whether one was refused. Does not own: what follows from it (the ring).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rdkafka::ClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message as _;
use rdkafka::producer::{DeliveryResult, ProducerContext};

use super::stored::Range;

/// Stands for the mark where the number of a topic is expected.
pub(super) const MARK: usize = usize::MAX;

/// Shared by a producer, whose thread fills it, and its handle.
#[derive(Clone, Default)]
pub(super) struct Deliveries(Arc<Mutex<Delivered>>);

#[derive(Default)]
struct Delivered {
    refused: Option<Refused>,
    /// First and last offset and the number of messages, by topic and partition.
    ranges: Vec<Vec<Option<(i64, i64, u64)>>>,
    /// Partition and offset.
    mark: Option<(i32, i64)>,
}

/// Why a message did not become part of its transaction.
#[derive(Clone, Debug, Default)]
pub(super) struct Refused {
    /// Written again, it would be as large.
    pub(super) is_too_large: bool,
    /// The client's or the broker's words, and the message.
    pub(super) what: String,
}

impl Refused {
    /// Refused with an error; the place names the message.
    pub(super) fn new(error: &KafkaError, place: &str) -> Refused {
        let code = error.rdkafka_error_code();
        let is_too_large = matches!(code, Some(RDKafkaErrorCode::MessageSizeTooLarge | RDKafkaErrorCode::InvalidMessageSize));
        Refused { is_too_large, what: format!("{error}: {place}") }
    }
}

impl ClientContext for Deliveries {}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, topic: usize) {
        let mut delivered = self.inside();
        match result {
            Ok(message) => delivered.landed(topic, message.topic(), message.partition(), message.offset()),
            Err((error, message)) => {
                let key = message.key().map(|key| String::from_utf8_lossy(&key[..key.len().min(100)]).into_owned());
                let bytes = message.payload().map_or(0, <[u8]>::len);
                let topic = message.topic();
                delivered.refused.get_or_insert_with(|| Refused::new(error, &format!("topic={topic} key={key:?} bytes={bytes}")));
            }
        }
    }
}

impl Deliveries {
    /// Forgets everything: a transaction begins.
    pub(super) fn clear(&self) {
        *self.inside() = Delivered::default();
    }

    /// The first message that was refused, if one was.
    pub(super) fn refused(&self) -> Option<Refused> {
        self.inside().refused.clone()
    }

    /// Partition and offset of the mark.
    pub(super) fn mark(&self) -> Option<(i32, i64)> {
        self.inside().mark
    }

    /// What was written to each partition.
    pub(super) fn ranges(&self, topics: &[String]) -> Vec<Range> {
        let delivered = self.inside();
        let mut ranges = Vec::new();
        for (topic, partitions) in topics.iter().zip(&delivered.ranges) {
            for (partition, range) in (0..).zip(partitions) {
                if let Some((first, last, messages)) = *range {
                    ranges.push(Range { topic: topic.clone(), partition, first, last, messages });
                }
            }
        }
        ranges
    }

    fn inside(&self) -> MutexGuard<'_, Delivered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Delivered {
    /// A batch that was acknowledged, but not to us, is known to be there when it is sent again, and not where: its messages count up from -1.
    fn landed(&mut self, topic: usize, name: &str, partition: i32, offset: i64) {
        if offset < 0 {
            let what = format!("it was acknowledged, and not told where it is: topic={name} partition={partition}");
            self.refused.get_or_insert(Refused { is_too_large: false, what });
        } else if topic == MARK {
            self.mark = Some((partition, offset));
        } else {
            self.add(topic, partition, offset);
        }
    }

    fn add(&mut self, topic: usize, partition: i32, offset: i64) {
        if self.ranges.len() <= topic {
            self.ranges.resize_with(topic + 1, Vec::new);
        }
        let (partitions, at) = (&mut self.ranges[topic], partition as usize);
        if partitions.len() <= at {
            partitions.resize(at + 1, None);
        }
        let (first, last, messages) = partitions[at].get_or_insert((offset, offset, 0));
        (*first, *last, *messages) = ((*first).min(offset), (*last).max(offset), *messages + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_acknowledged_without_a_place_fails_its_transaction() {
        let deliveries = Deliveries::default();
        deliveries.inside().landed(0, "out", 2, 7);
        deliveries.inside().landed(MARK, "marks", 0, 3);
        assert_eq!((deliveries.mark(), deliveries.refused().map(|refused| refused.what)), (Some((0, 3)), None));
        for topic in [0, MARK] {
            deliveries.clear();
            (-1..2).for_each(|offset| deliveries.inside().landed(topic, "out", 1, offset));
            let refused = deliveries.refused().expect("its places are not known");
            assert!(!refused.is_too_large && refused.what.contains("topic=out partition=1"), "{}", refused.what);
        }
    }
}
