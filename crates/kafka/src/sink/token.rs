//! The mark that a transaction leaves: a message in a compacted topic, visible when and only when the transaction is committed.
//!
//! Owns: how a mark is looked for, and cleared. Does not own: how it is written (`producer`, `resend`).
//!
//! A mark has a key that only its transaction has (and the one that writes the same output again), so compaction never drops the only
//! proof. When a commit is proven and recorded, the key is cleared with a null value, and compaction may take both.
#![allow(
    clippy::disallowed_methods,
    reason = "librdkafka blocks and keeps its own time: it is used from threads of its own, which wait for it"
)]

use std::time::{Duration, Instant};

use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::{Offset, TopicPartitionList};
use staunch_types::{Error, ErrorKind, Result};

use super::stored::Token;
use crate::codes;
use crate::native::{Queue, Taken};

/// How long marks are waited for that open transactions of others may hide.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long one look lasts.
const LOOK: Duration = Duration::from_millis(200);
/// How long a broker may take for an answer.
const ANSWER: Duration = Duration::from_secs(15);

/// Whether a mark is there, to readers of committed messages.
///
/// # Errors
/// `Retry` when the brokers do not answer, or when open transactions of others hide the place for too long.
pub(super) fn is_there(client: &ClientConfig, token: &Token) -> Result<bool> {
    let failed = |error: KafkaError| unreadable(token, "the mark of a transaction could not be looked for").cause(error);
    let consumer = |isolation: &str| -> Result<BaseConsumer> {
        let mut config = client.clone();
        config.set("group.id", "staunch-marks").set("enable.auto.commit", "false").set("isolation.level", isolation);
        config.set("enable.partition.eof", "true").set("auto.offset.reset", "earliest");
        config.create().map_err(|error| codes::refused_setting(&error))
    };
    // The transaction is over, so whatever mark it left lies before the end of now, open transactions of others included.
    let (_, end) = consumer("read_uncommitted")?.fetch_watermarks(&token.topic, token.partition, ANSWER).map_err(failed)?;
    let reader = consumer("read_committed")?;
    let mut queue = Queue::of(&reader).ok_or_else(|| Error::new(ErrorKind::Bug, codes::KAFKA_BUG, "a consumer has no queue"))?;
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(&token.topic, token.partition, Offset::Offset(token.offset)).map_err(failed)?;
    reader.assign(&list).map_err(failed)?;
    let (began, mut reached, mut found, mut error) = (Instant::now(), token.offset, None, None);
    while found.is_none() && reached < end {
        queue.take(LOOK, |taken| match taken {
            Taken::Message(message) => {
                reached = reached.max(message.offset() + 1);
                if message.key() == Some(token.key.as_bytes()) {
                    found = Some(message.value().is_some());
                }
            }
            Taken::End { offset, .. } => reached = reached.max(offset),
            Taken::Error { code, text, .. } => error = Some(format!("{code:?}: {text}")),
        });
        if began.elapsed() > PATIENCE {
            let what = "the mark of a transaction could not be looked for; open transactions of others may hide it";
            let open = format!("read up to offset {reached} of {end}; {}", error.unwrap_or_default());
            return Err(unreadable(token, what).at(open));
        }
    }
    Ok(found.unwrap_or(false))
}

#[cold]
fn unreadable(token: &Token, what: &str) -> Error {
    Error::new(ErrorKind::Retry, codes::TOKEN_UNREADABLE, what)
        .at(format!("topic={} partition={} offset={}", token.topic, token.partition, token.offset))
        .data("nothing was decided: it is tried again")
        .remedy("see whether the brokers can be reached, whether the job may read the topic of marks, and whether a transaction hangs")
}
