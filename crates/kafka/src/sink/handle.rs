//! A transactional id with a producer of librdkafka.
//!
//! Owns: the calls into librdkafka for one transaction after another, and their errors. Does not own: when an id may be used (the ring).
#![allow(
    clippy::disallowed_methods,
    reason = "librdkafka blocks and keeps its own time: it is used from threads of its own, which wait for it"
)]

use std::time::{Duration, Instant};

use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use staunch_types::{Error, ErrorKind, Result};

use super::Settings;
use super::batch::OutMessage;
use super::deliveries::{Deliveries, MARK, Refused};
use crate::codes;
use crate::control::Control;

/// How long a broker may take for one step of a transaction.
pub(super) const STEP: Duration = Duration::from_secs(30);
/// How long acknowledgements are waited for at a time.
const ACKNOWLEDGED: Duration = Duration::from_millis(1);
/// How long a client takes to give up its first connection.
const RECONNECT: Duration = Duration::from_millis(20);
/// How long room in librdkafka's queue is waited for at a time.
const FULL: Duration = Duration::from_millis(10);

/// Bytes of messages that the client puts together at most, as long as all topics take as many.
pub(super) const BATCH_BYTES_MAX: u32 = 1_000_000;
/// The limit of a topic, which holds for a whole batch.
const TOPIC_BYTES_MAX: &str = "max.message.bytes";

/// How large a batch all these topics take: the client knows only its own limit, and a batch above the topic's is refused with all its messages.
pub(super) fn batch_bytes_max<'t>(control: &mut Control, topics: impl IntoIterator<Item = &'t String>) -> u32 {
    // Where the settings may not be read the topic is taken to be like others; if it is not, it says so by refusing.
    let limit = |topic: &String| control.topic_settings(topic, &[TOPIC_BYTES_MAX]).ok()?.get(TOPIC_BYTES_MAX)?.parse().ok();
    topics.into_iter().filter_map(limit).fold(BATCH_BYTES_MAX, u32::min).max(1)
}

/// See the module.
pub(super) struct Handle {
    pub(super) id: String,
    pub(super) deliveries: Deliveries,
    producer: BaseProducer<Deliveries>,
}

impl Handle {
    /// Takes a transactional id over: what is open under it is aborted, and whoever else has it is fenced.
    pub(super) fn take_over(settings: &Settings, id: String, batch_bytes_max: u32) -> Result<Handle> {
        let deliveries = Deliveries::default();
        let producer: BaseProducer<Deliveries> = settings
            .producer(&id, batch_bytes_max)
            .create_with_context(deliveries.clone())
            .map_err(|error| codes::refused_setting(&error))?;
        let handle = Handle { id, deliveries, producer };
        handle.connect(settings);
        handle.producer.init_transactions(STEP).map_err(|error| handle.failed("take over the transactional id", &error))?;
        Ok(handle)
    }

    /// Waits until the client is connected. One that is not looks for its coordinator in vain, and again only half a second later.
    /// What is wrong is told by the next call.
    fn connect(&self, settings: &Settings) {
        let topic = settings.topics.first().map(String::as_str);
        drop(self.producer.client().fetch_metadata(topic, STEP));
        // That connection is given up now for one to the broker by its real name.
        self.producer.poll(RECONNECT);
        drop(self.producer.client().fetch_metadata(topic, STEP));
    }

    pub(super) fn begin(&self) -> Result<()> {
        self.deliveries.clear();
        self.producer.begin_transaction().map_err(|error| self.failed("begin a transaction", &error))
    }

    /// Queues a message; waits while librdkafka's queue is full.
    pub(super) fn send(&self, topics: &[String], message: &OutMessage<'_>) -> Result<()> {
        let number = usize::from(message.topic);
        let Some(topic) = topics.get(number) else { return Err(no_topic(number, topics)) };
        let mut record = BaseRecord::<[u8], [u8], usize>::with_opaque_to(topic, number);
        record.key = message.key;
        record.payload = message.value;
        record.partition = message.partition;
        record.timestamp = message.timestamp;
        if message.has_headers() {
            let headers = message.headers().iter().fold(OwnedHeaders::new(), |all, (key, value)| all.insert(Header { key, value }));
            record.headers = Some(headers);
        }
        self.queue(record, message.size())
    }

    /// Queues the mark.
    pub(super) fn send_mark(&self, topic: &str, key: &str, held: &[u8]) -> Result<()> {
        let record = BaseRecord::<[u8], [u8], usize>::with_opaque_to(topic, MARK).key(key.as_bytes()).payload(held);
        self.queue(record, key.len() + held.len())
    }

    fn queue(&self, mut record: BaseRecord<'_, [u8], [u8], usize>, bytes: usize) -> Result<()> {
        loop {
            match self.producer.send(record) {
                Ok(()) => return Ok(()),
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => {
                    self.producer.poll(FULL);
                    self.check()?;
                    record = back;
                }
                Err((error, back)) => {
                    let key = back.key.map(|key| String::from_utf8_lossy(&key[..key.len().min(100)]).into_owned());
                    let place = format!("topic={} key={key:?} bytes={bytes}", back.topic);
                    let refused = Refused::new(&error, &place);
                    return Err(if refused.is_too_large {
                        self.refused(&refused)
                    } else {
                        self.failed("queue a message", &error).at(place)
                    });
                }
            }
        }
    }

    /// Lets the producer hear acknowledgements, for so long at most if there are none. True when nothing is under way any more.
    pub(super) fn hear(&self, wait: Duration) -> bool {
        self.producer.poll(wait);
        self.producer.in_flight_count() == 0
    }

    /// Lets the producer know that its last transaction, which somebody else committed, is committed: a broker answers a commit that is done
    /// as done.
    pub(super) fn settle(&self) -> Result<()> {
        self.producer.commit_transaction(STEP).map_err(|error| self.failed("see a commit as done", &error))
    }

    /// Has everything acknowledged.
    pub(super) fn drain(&self) -> Result<()> {
        let deadline = Instant::now() + STEP;
        // (`flush` looks only each 100 ms.)
        while !self.hear(ACKNOWLEDGED) {
            self.check()?;
            if Instant::now() > deadline {
                return Err(self.unacknowledged());
            }
        }
        self.hear(Duration::ZERO);
        self.check()
    }

    /// Has everything acknowledged, and commits.
    pub(super) fn finish(&self) -> Result<()> {
        self.drain()?;
        self.producer.commit_transaction(STEP).map_err(|error| self.failed("commit a transaction", &error))
    }

    /// # Errors
    /// `Restart` when a message was refused, `Invalid` when it is too large.
    pub(super) fn check(&self) -> Result<()> {
        match self.deliveries.refused() {
            None => Ok(()),
            Some(refused) => Err(self.refused(&refused)),
        }
    }

    #[cold]
    pub(super) fn refused(&self, refused: &Refused) -> Error {
        let Refused { is_too_large, what } = refused;
        let error = if *is_too_large {
            // Written again it would be as large: the job ends, and does not go round in circles.
            Error::new(ErrorKind::Invalid, codes::MESSAGE_TOO_LARGE, format!("a message is larger than it may be: {what}"))
                .data("nothing of the present epoch is visible; what is committed is whole; started again, the job comes to this record again")
                .remedy("raise max.message.bytes of the topic and message.max.bytes of the sink, or send such records elsewhere before the sink")
        } else {
            Error::new(ErrorKind::Restart, codes::MESSAGE_REFUSED, format!("a message was refused: {what}"))
                .data("nothing of the present epoch is visible; what is committed is whole")
                .remedy("see the cause, and whether the brokers can be reached")
        };
        error.at(format!("transactional id={}", self.id))
    }

    #[cold]
    pub(super) fn unacknowledged(&self) -> Error {
        self.failed("have everything acknowledged", &KafkaError::Flush(RDKafkaErrorCode::OperationTimedOut))
    }

    #[cold]
    fn failed(&self, action: &str, error: &KafkaError) -> Error {
        let is_fenced = matches!(
            error.rdkafka_error_code(),
            Some(RDKafkaErrorCode::Fenced | RDKafkaErrorCode::ProducerFenced | RDKafkaErrorCode::InvalidProducerEpoch)
        );
        // Also who was given up for a transaction that took too long is fenced: the ledger tells, at the restart, whether there is a newer one.
        let (code, remedy) = if is_fenced {
            (
                codes::FENCED,
                "see whether an epoch takes longer than transaction.timeout.ms, or another program uses the same transactional ids",
            )
        } else {
            (codes::WRITE_FAILED, "see the cause, and whether the brokers can be reached")
        };
        Error::new(ErrorKind::Restart, code, format!("the broker did not let the sink {action}"))
            .cause(error)
            .at(format!("transactional id={}", self.id))
            .data("nothing of the present epoch is visible; it is written again after the restart, or by the newer generation if there is one")
            .remedy(remedy)
    }
}

#[cold]
fn no_topic(number: usize, topics: &[String]) -> Error {
    let what = format!("a message names topic {number} of the sink, which has {}", topics.len());
    Error::new(ErrorKind::Invalid, codes::RECORD_UNWRITABLE, what).remedy("give the sink all topics that its messages name")
}
