//! What a checkpoint keeps of a transaction, and a record of commits of one that was written again.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use staunch_protocol::transaction::Identity;
use staunch_types::{Digest, Error, ErrorKind, Result};

use crate::codes;
use crate::control::Producer;

/// The form of the bytes; the first byte.
const VERSION: u8 = 3;
/// What the mark of a transaction holds that was not written again.
pub(super) const MARKED: &[u8] = b"committed";

/// A prepared transaction: all that is needed to commit it, to find out what became of it, and to verify what it holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredTransaction {
    pub(crate) job: String,
    pub(crate) sink: String,
    /// Brokers to ask first, as the sink was given them; no secrets.
    pub(crate) brokers: String,
    /// Its topics, also those that this transaction has nothing in.
    pub(crate) topics: Vec<String>,
    /// The transactional id.
    pub(crate) id: String,
    pub(crate) producer_id: i64,
    pub(crate) producer_epoch: i16,
    /// When the broker saw it begin, in milliseconds since 1970: tells it from other transactions of the same producer and epoch.
    pub(crate) started_ms: i64,
    pub(crate) timeout_ms: i32,
    pub(crate) mark: Mark,
    pub(crate) ranges: Vec<Range>,
    /// The copy in the journal, if there is one.
    pub(crate) copy: Option<String>,
    pub(crate) digest: Digest,
    /// The least time that a message of it has: a topic's retention goes by it.
    pub(crate) oldest_ms: i64,
}

/// Where the mark of the transaction is, if it was committed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mark {
    pub(crate) topic: String,
    /// The id of the topic: another topic of the same name has another.
    pub(crate) topic_id: String,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    /// Of this transaction alone; also of the one that writes it again.
    pub(crate) key: String,
}

/// What a transaction wrote to a partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Range {
    pub(crate) topic: String,
    pub(crate) partition: i32,
    pub(crate) first: i64,
    pub(crate) last: i64,
    pub(crate) messages: u64,
}

/// The transaction that wrote a lost one again: what its mark holds, and with it the record of the commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Rewritten {
    pub(crate) id: String,
    pub(crate) producer_id: i64,
    pub(crate) producer_epoch: i16,
    pub(crate) ranges: Vec<Range>,
}

impl StoredTransaction {
    pub(crate) fn producer(&self) -> Producer {
        Producer { id: self.producer_id, epoch: self.producer_epoch }
    }

    pub(crate) fn identity(&self) -> Identity {
        Identity { producer: self.producer(), start_ms: self.started_ms }
    }

    pub(crate) fn encode(&self) -> Result<Vec<u8>> {
        encode(self)
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<StoredTransaction> {
        decode(bytes)
    }

    /// For people: the transaction and what it wrote.
    pub(crate) fn describe(&self) -> String {
        let Self { id, producer_id, producer_epoch, ranges, .. } = self;
        format!("transaction {id} producer {producer_id} epoch {producer_epoch}: {}", in_words(ranges))
    }
}

impl Rewritten {
    pub(crate) fn encode(&self) -> Result<Vec<u8>> {
        encode(self)
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Rewritten> {
        decode(bytes)
    }

    /// For people.
    pub(crate) fn describe(&self) -> String {
        let Self { id, producer_id, producer_epoch, ranges } = self;
        format!("transaction {id} producer {producer_id} epoch {producer_epoch}: {}", in_words(ranges))
    }
}

fn in_words(ranges: &[Range]) -> String {
    let ranges: Vec<String> = ranges.iter().map(|r| format!("{}[{}]@{}..{}", r.topic, r.partition, r.first, r.last + 1)).collect();
    ranges.join(", ")
}

fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>> {
    let mut bytes = vec![VERSION];
    let rest = postcard::to_stdvec(value)
        .map_err(|error| Error::new(ErrorKind::Bug, codes::KAFKA_BUG, "a prepared transaction cannot be encoded").cause(error))?;
    bytes.extend_from_slice(&rest);
    Ok(bytes)
}

fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    let unreadable = |what: String| {
        Error::new(ErrorKind::Corrupt, codes::STORED_BAD, format!("what the checkpoint holds of a transaction cannot be read: {what}"))
            .data("nothing was committed or aborted")
            .remedy("use the version of the program that wrote the checkpoint, or a newer one")
    };
    match bytes.split_first() {
        Some((&VERSION, rest)) => postcard::from_bytes(rest).map_err(|error| unreadable(error.to_string())),
        Some((version, _)) => Err(unreadable(format!("expected version {VERSION}, found {version}"))),
        None => Err(unreadable("expected a version, found nothing".into())),
    }
}
