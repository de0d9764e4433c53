//! Requests for the contents of partitions: where they begin and end, and their batches as the broker stores them.
//!
//! Owns: who leads a partition, and the form of these answers. Does not own: what is in a batch.
//!
//! Unlike librdkafka, this shows who wrote a batch, and the marks by which transactions end.
//!
//! Invariant: whatever a broker answers, memory is taken for what came, and not for what is said to come.

use bytes::{Buf, Bytes, BytesMut};
use kafka_protocol::ResponseError;
use kafka_protocol::error::ParseResponseErrorCode;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{BrokerId, FetchRequest, ListOffsetsRequest, MetadataRequest, TopicName};
use kafka_protocol::protocol::{HeaderVersion, Request, StrBytes};
use staunch_types::Result;

use super::connection::Connection;
use super::{Control, Target, refused};
use crate::settings::Address;

/// The version of Fetch that all brokers since 2.3 have.
const FETCH_VERSION: i16 = 11;
/// The version of ListOffsets that all brokers since 2.2 have.
const OFFSETS_VERSION: i16 = 5;
/// Bytes of batches asked for at once; one batch may be larger.
const FETCH_BYTES: i32 = 4 << 20;
/// The largest answer with batches that is taken in: brokers give at least one batch, however large it is.
const FETCH_FRAME_BYTES_MAX: usize = 256 << 20;
/// How long a broker may wait for something to be there.
const FETCH_WAIT_MS: i32 = 200;
/// The protocol's numbers for the two ends of a partition.
const EARLIEST: i64 = -2;
const LATEST: i64 = -1;

/// Which records are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// All.
    All,
    /// Those before the first open transaction; with a list of those that were aborted.
    Committed,
}

/// Where a partition begins and ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The first offset that is still there.
    pub start: i64,
    /// Before the first transaction that is still open.
    pub stable: i64,
    /// Behind the last record.
    pub end: i64,
}

/// What a partition answers to a fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fetched {
    /// Batches from the one on that holds the offset; none when nothing is there yet.
    Batches {
        /// Transactions of which these batches hold aborted records: the producer's id, and the first offset.
        aborted: Vec<(i64, i64)>,
        /// The batches; the last one may be cut.
        bytes: Bytes,
    },
    /// The partition begins behind the offset, or ends before it.
    OutOfRange,
    /// There is no such partition.
    Absent,
}

impl Control {
    /// Where a partition begins and ends; `None` when there is no such partition.
    ///
    /// # Errors
    /// `Retry` when its leader does not answer, `Invalid` when this user may not ask.
    pub fn extent(&mut self, topic: &str, partition: i32) -> Result<Option<Extent>> {
        // Ends first: what lies before them when asked is there, unless it is deleted meanwhile.
        let stable = self.end_of(topic, partition, LATEST, Isolation::Committed)?;
        let end = self.end_of(topic, partition, LATEST, Isolation::All)?;
        let start = self.end_of(topic, partition, EARLIEST, Isolation::All)?;
        Ok(start.zip(stable).zip(end).map(|((start, stable), end)| Extent { start, stable, end: end.max(stable) }))
    }

    fn end_of(&mut self, topic: &str, partition: i32, which: i64, isolation: Isolation) -> Result<Option<i64>> {
        let wanted = ListOffsetsPartition::default().with_partition_index(partition).with_current_leader_epoch(-1).with_timestamp(which);
        let wanted = ListOffsetsTopic::default().with_name(wire_name(topic)).with_partitions(vec![wanted]);
        let request = ListOffsetsRequest::default().with_replica_id(BrokerId(-1)).with_isolation_level(isolation.number());
        let request = request.with_topics(vec![wanted]);
        let about = format!("topic={topic} partition={partition}");
        let (code, offset) = self.persist(ListOffsetsRequest::KEY, &about, |control| {
            let leader = match control.leader(topic, partition)? {
                Ok(leader) => leader,
                Err((code, asked)) => return Ok((code, asked, (code, 0))),
            };
            let (code, offset) = control.on(&leader, |connection| {
                let answer = raw(connection, OFFSETS_VERSION, &request, None)?;
                connection.understood(ListOffsetsRequest::KEY, offset_of(answer))
            })?;
            // A leader that has just died is answered with a negative offset instead of an error.
            let code = if code == 0 && offset < 0 { ResponseError::NotLeaderOrFollower.code() } else { code };
            Ok((code, leader, (code, offset)))
        })?;
        self.answered(ListOffsetsRequest::KEY, &about, code).map(|is_there| is_there.then_some(offset))
    }

    /// Batches of a partition from an offset on.
    ///
    /// # Errors
    /// `Retry` when its leader does not answer, `Invalid` when this user may not read it.
    pub fn fetch(&mut self, topic: &str, partition: i32, offset: i64, isolation: Isolation) -> Result<Fetched> {
        let wanted = FetchPartition::default().with_partition(partition).with_current_leader_epoch(-1).with_fetch_offset(offset);
        let wanted = wanted.with_log_start_offset(-1).with_partition_max_bytes(FETCH_BYTES);
        let wanted = FetchTopic::default().with_topic(wire_name(topic)).with_partitions(vec![wanted]);
        let request = FetchRequest::default().with_replica_id(BrokerId(-1)).with_max_wait_ms(FETCH_WAIT_MS).with_min_bytes(1);
        let request = request.with_max_bytes(FETCH_BYTES).with_isolation_level(isolation.number()).with_session_epoch(-1);
        let request = request.with_topics(vec![wanted]);
        let about = format!("topic={topic} partition={partition} offset={offset}");
        let (code, aborted, bytes) = self.persist(FetchRequest::KEY, &about, |control| {
            let leader = match control.leader(topic, partition)? {
                Ok(leader) => leader,
                Err((code, asked)) => return Ok((code, asked, (code, Vec::new(), Bytes::new()))),
            };
            let answer = control.on(&leader, |connection| {
                let answer = raw(connection, FETCH_VERSION, &request, Some(FETCH_FRAME_BYTES_MAX))?;
                connection.understood(FetchRequest::KEY, batches_of(answer))
            })?;
            Ok((answer.0, leader, answer))
        })?;
        if code.err() == Some(ResponseError::OffsetOutOfRange) {
            return Ok(Fetched::OutOfRange);
        }
        let is_there = self.answered(FetchRequest::KEY, &about, code)?;
        Ok(if is_there { Fetched::Batches { aborted, bytes } } else { Fetched::Absent })
    }

    /// Whether the partition is there.
    fn answered(&self, key: i16, about: &str, code: i16) -> Result<bool> {
        match code.err() {
            None => Ok(true),
            Some(ResponseError::UnknownTopicOrPartition) => Ok(false),
            Some(code) => Err(refused(key, about, code, &self.settings.bootstrap[0])),
        }
    }

    /// One attempt to find the leader of a partition; else the error code, and who answered.
    pub(in crate::control) fn leader(&mut self, topic: &str, partition: i32) -> Result<Result<Address, (i16, Address)>> {
        if let Some(known) = self.leaders.get(&(topic.to_owned(), partition)) {
            return Ok(Ok(known.clone()));
        }
        let wanted = MetadataRequestTopic::default().with_name(Some(wire_name(topic)));
        let request = MetadataRequest::default().with_topics(Some(vec![wanted])).with_allow_auto_topic_creation(false);
        let asked = self.locate(&Target::Any)?;
        let answer = self.on(&asked, |connection| connection.call(10..=12, &request))?;
        let Some(found) = answer.topics.first() else { return Ok(Err((ResponseError::UnknownTopicOrPartition.code(), asked))) };
        if found.error_code != 0 {
            return Ok(Err((found.error_code, asked)));
        }
        let Some(found) = found.partitions.iter().find(|found| found.partition_index == partition) else {
            return Ok(Err((ResponseError::UnknownTopicOrPartition.code(), asked)));
        };
        let leader = answer.brokers.iter().find(|broker| broker.node_id == found.leader_id);
        let Some(leader) = leader else { return Ok(Err((ResponseError::BrokerNotAvailable.code(), asked))) };
        let address = Address { host: leader.host.to_string(), port: u16::try_from(leader.port).unwrap_or_default() };
        self.leaders.insert((topic.to_owned(), partition), address.clone());
        Ok(Ok(address))
    }
}

impl Isolation {
    fn number(self) -> i8 {
        match self {
            Isolation::All => 0,
            Isolation::Committed => 1,
        }
    }
}

pub(in crate::control) fn wire_name(topic: &str) -> TopicName {
    TopicName(StrBytes::from_string(topic.into()))
}

/// The bytes of the answer behind its header.
fn raw<R: Request>(connection: &mut Connection, version: i16, request: &R, frame_bytes_max: Option<usize>) -> Result<Bytes> {
    connection.version(R::KEY, &(version..=version))?;
    let mut body = BytesMut::new();
    let encoded = request.encode(&mut body, version).map_err(|error| error.to_string());
    connection.understood(R::KEY, encoded)?;
    let headers = (R::header_version(version), R::Response::header_version(version));
    connection.exchange_up_to(R::KEY, version, headers, &body, frame_bytes_max)
}

/// The error code and the offset in an answer about one partition.
fn offset_of(answer: Bytes) -> Result<(i16, i64), String> {
    let mut fields = Fields(answer);
    fields.i32("the time of throttling")?;
    fields.one("topics")?;
    fields.text("the topic")?;
    fields.one("partitions")?;
    fields.i32("the partition")?;
    let code = fields.i16("the error")?;
    fields.i64("the time")?;
    Ok((code, fields.i64("the offset")?))
}

/// The error code, aborted transactions and batches in an answer about one partition.
type Answered = (i16, Vec<(i64, i64)>, Bytes);

fn batches_of(answer: Bytes) -> Result<Answered, String> {
    let mut fields = Fields(answer);
    fields.i32("the time of throttling")?;
    let whole = fields.i16("the error")?;
    fields.i32("the session")?;
    if whole != 0 {
        return Ok((whole, Vec::new(), Bytes::new()));
    }
    fields.one("topics")?;
    fields.text("the topic")?;
    fields.one("partitions")?;
    fields.i32("the partition")?;
    let code = fields.i16("the error")?;
    for name in ["the end", "the last stable offset", "the start"] {
        fields.i64(name)?;
    }
    let count = fields.i32("the number of aborted transactions")?;
    let mut aborted = Vec::new();
    for _ in 0..count {
        aborted.push((fields.i64("a producer")?, fields.i64("an offset")?));
    }
    fields.i32("the preferred replica")?;
    let length = usize::try_from(fields.i32("the length of the batches")?).unwrap_or(0);
    Ok((code, aborted, fields.bytes("the batches", length)?))
}

/// What is left of an answer.
struct Fields(Bytes);

impl Fields {
    fn bytes(&mut self, what: &str, length: usize) -> Result<Bytes, String> {
        if self.0.len() < length {
            return Err(format!("expected {what} in {length} bytes, found {}", self.0.len()));
        }
        Ok(self.0.split_to(length))
    }

    fn i16(&mut self, what: &str) -> Result<i16, String> {
        Ok(self.bytes(what, 2)?.get_i16())
    }

    fn i32(&mut self, what: &str) -> Result<i32, String> {
        Ok(self.bytes(what, 4)?.get_i32())
    }

    fn i64(&mut self, what: &str) -> Result<i64, String> {
        Ok(self.bytes(what, 8)?.get_i64())
    }

    fn text(&mut self, what: &str) -> Result<(), String> {
        let length = usize::try_from(self.i16(what)?).unwrap_or(0);
        self.bytes(what, length).map(drop)
    }

    fn one(&mut self, what: &str) -> Result<(), String> {
        match self.i32(what)? {
            1 => Ok(()),
            count => Err(format!("expected 1 of {what}, found {count}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(aborted: i32, length: i32, batches: &[u8]) -> Bytes {
        let mut out = Vec::new();
        out.extend([0; 4 + 2 + 4]);
        out.extend(1_i32.to_be_bytes());
        out.extend([0, 1, b't']);
        out.extend(1_i32.to_be_bytes());
        out.extend([0; 4 + 2 + 3 * 8]);
        out.extend(aborted.to_be_bytes());
        for number in 0..aborted.clamp(0, 2) {
            out.extend(i64::from(number).to_be_bytes());
            out.extend(7_i64.to_be_bytes());
        }
        out.extend((-1_i32).to_be_bytes());
        out.extend(length.to_be_bytes());
        out.extend(batches);
        out.into()
    }

    #[test]
    fn an_answer_with_batches_is_read_and_one_without_them_too() {
        let whole = batches_of(answer(2, 3, b"abc"));
        assert_eq!(whole, Ok((0, vec![(0, 7), (1, 7)], Bytes::from_static(b"abc"))));
        assert_eq!(batches_of(answer(-1, -1, b"")), Ok((0, Vec::new(), Bytes::new())));
    }

    #[test]
    fn whatever_is_cut_off_or_counted_wrong_is_an_error() {
        let whole = answer(2, 3, b"abc");
        for length in 0..whole.len() {
            assert!(batches_of(whole.slice(..length)).is_err(), "{length} bytes");
        }
        // Were room taken for as many, the test would end here.
        assert!(batches_of(answer(i32::MAX, 0, b"")).is_err());
        assert!(batches_of(answer(0, i32::MAX, b"abc")).is_err());
        assert!(offset_of(Bytes::from_static(&[0; 30])).is_err());
    }
}
