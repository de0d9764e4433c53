//! The mark that a transaction leaves: a message in a compacted topic, visible when and only when the transaction is committed.
//!
//! Owns: how a mark is looked for. Does not own: how it is written (`producer`) and cleared (`committer`).
//!
//! A mark has a key that only its transaction has (and the one that writes the same output again), so compaction never drops the only
//! proof. When a commit is proven and recorded, the key is cleared with a null value, and compaction may take both.
#![allow(
    clippy::disallowed_methods,
    reason = "librdkafka blocks and keeps its own time: it is used from threads of its own, which wait for it"
)]

use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::{Offset, TopicPartitionList};
use staunch_protocol::transaction::resolve::MarkReading;
use staunch_types::{Error, ErrorKind, Result};

use super::stored::Mark;
use crate::client::Client;
use crate::codes;
use crate::control::Control;
use crate::native::{Queue, Taken, TakenMessage};

/// How long marks are waited for that open transactions of others may hide.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long one look lasts.
const LOOK: Duration = Duration::from_millis(200);
/// How long a broker may take for an answer.
const ANSWER: Duration = Duration::from_secs(15);

/// Whether a mark is there, to readers of committed messages, and what it holds. Its transaction must be over.
///
/// # Errors
/// `Retry` when the brokers do not answer, or when open transactions of others hide the place for too long.
pub(super) fn look_for(client: &Client, control: &mut Control, mark: &Mark) -> Result<(MarkReading, Vec<u8>)> {
    let gone = |why: String| Ok((MarkReading::PlaceGone { why }, Vec::new()));
    match control.topic(&mark.topic)? {
        None => return gone(format!("the topic of marks, {}, does not exist any more", mark.topic)),
        Some(found) if found.id != mark.topic_id => return gone(format!("the topic of marks, {}, was made anew", mark.topic)),
        Some(_) => {}
    }
    let failed = |error: KafkaError| unreadable(mark, "the mark of a transaction could not be looked for").cause(error);
    let consumer = |isolation: &str| -> Result<BaseConsumer> {
        let mut config = client.config(&[]);
        config.set("group.id", "staunch-marks").set("enable.auto.commit", "false").set("isolation.level", isolation);
        config.set("enable.partition.eof", "true").set("auto.offset.reset", "error");
        config.create().map_err(|error| codes::refused_setting(&error))
    };
    // The transaction is over, so whatever mark it left lies before the end of now, open transactions of others included.
    let (start, end) = consumer("read_uncommitted")?.fetch_watermarks(&mark.topic, mark.partition, ANSWER).map_err(failed)?;
    if start > mark.offset || end <= mark.offset {
        let what = format!("the topic of marks, {}[{}], has the offsets {start}..{end}", mark.topic, mark.partition);
        return gone(format!("{what}, and the mark would be at {} or later", mark.offset));
    }
    // Where the last message with its key lies, decided or not. Open transactions behind it are not waited for: they may be prepared ones
    // that are committed only after this answer.
    let mut last = None;
    let uncommitted = Reader { mark, consumer: consumer("read_uncommitted")? };
    uncommitted.read(end, |message| {
        if message.key() == Some(mark.key.as_bytes()) {
            last = Some(message.offset());
        }
        false
    })?;
    let Some(last) = last else { return Ok((MarkReading::Absent, Vec::new())) };
    let mut found = None;
    Reader { mark, consumer: consumer("read_committed")? }.read(last + 1, |message| {
        if message.key() == Some(mark.key.as_bytes()) {
            found = Some(message.value().map(<[u8]>::to_vec));
        }
        found.is_some()
    })?;
    Ok(found.flatten().map_or((MarkReading::Absent, Vec::new()), |held| (MarkReading::There, held)))
}

/// Reads messages from where a mark would be.
struct Reader<'m> {
    mark: &'m Mark,
    consumer: BaseConsumer,
}

impl Reader<'_> {
    /// Hands messages over, up to the offset `end` or until `is_enough` says so.
    fn read(self, end: i64, mut is_enough: impl FnMut(&TakenMessage<'_>) -> bool) -> Result<()> {
        let Reader { mark, consumer } = self;
        let failed = |error: KafkaError| unreadable(mark, "the mark of a transaction could not be looked for").cause(error);
        let mut queue = Queue::of(&consumer).ok_or_else(|| Error::new(ErrorKind::Bug, codes::KAFKA_BUG, "a consumer has no queue"))?;
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(&mark.topic, mark.partition, Offset::Offset(mark.offset)).map_err(failed)?;
        consumer.assign(&list).map_err(failed)?;
        let (began, mut reached, mut enough, mut error) = (Instant::now(), mark.offset, false, None);
        while !enough && reached < end {
            queue.take(LOOK, |taken| match taken {
                Taken::Message(message) => {
                    reached = reached.max(message.offset() + 1);
                    enough = enough || is_enough(&message);
                }
                Taken::End { offset, .. } => reached = reached.max(offset),
                Taken::Error { code, text, .. } => error = Some(format!("{code:?}: {text}")),
            });
            if began.elapsed() > PATIENCE {
                let what = "the mark of a transaction could not be looked for; open transactions of others may hide it";
                let open = format!("read up to offset {reached} of {end}; {}", error.unwrap_or_default());
                return Err(unreadable(mark, what).at(open));
            }
        }
        Ok(())
    }
}

#[cold]
fn unreadable(mark: &Mark, what: &str) -> Error {
    Error::new(ErrorKind::Retry, codes::TOKEN_UNREADABLE, what)
        .at(format!("topic={} partition={} offset={}", mark.topic, mark.partition, mark.offset))
        .data("nothing was decided: it is tried again")
        .remedy("see whether the brokers can be reached, whether the job may read the topic of marks, and whether a transaction hangs")
}
