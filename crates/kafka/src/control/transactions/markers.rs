//! Requests about the markers by which partitions learn how a transaction ended.
//!
//! Owns: who is asked, and the form of these answers. Does not own: what a missing marker means (`staunch_protocol::transaction::resolve`).
//!
//! A leader tells of each producer where its open transaction begins. A marker is usually written by the coordinator; whoever has the right
//! ALTER or CLUSTER_ACTION on the cluster may write one, too.

use std::collections::BTreeMap;

use kafka_protocol::ResponseError;
use kafka_protocol::error::ParseResponseErrorCode;
use kafka_protocol::messages::describe_producers_request::TopicRequest;
use kafka_protocol::messages::write_txn_markers_request::{WritableTxnMarker, WritableTxnMarkerTopic};
use kafka_protocol::messages::{DescribeProducersRequest, ProducerId, WriteTxnMarkersRequest};
use kafka_protocol::protocol::Request;
use staunch_protocol::transaction::Producer;
use staunch_types::Result;

use super::super::fetch::wire_name;
use super::super::{Control, refused};
use super::Decision;
use crate::settings::Address;

/// Where a producer wrote to a partition.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Written {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// The last offset of what it wrote.
    pub last: i64,
}

/// A partition that has a transaction open.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OpenAt {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// Where the transaction begins; readers of committed messages stop here.
    pub start: i64,
    /// Whose it is, as the partition knows it.
    pub producer: Producer,
    /// The epoch of the coordinator that wrote the producer's last marker there; 0 before the first one.
    pub coordinator_epoch: i32,
}

/// What leaders tell about a producer's transactions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Openness {
    /// Partitions that have one open.
    pub open: Vec<OpenAt>,
    /// Topics that this user may not ask about.
    pub not_told: Vec<String>,
}

/// What one leader is asked, by topic.
type Asked<'w> = BTreeMap<&'w str, Vec<&'w Written>>;

impl Control {
    /// In which partitions a producer has a transaction open that begins at or before what it wrote. What is deleted has nothing open.
    ///
    /// # Errors
    /// `Retry` when a partition has no leader, or that does not answer.
    ///
    /// # Cost
    /// One request to each leader.
    pub fn open_in(&mut self, producer_id: i64, written: &[Written]) -> Result<Openness> {
        let about = format!("producer_id={producer_id}");
        self.persist(DescribeProducersRequest::KEY, &about, |control| {
            let (code, address, openness) = control.open_once(producer_id, written)?;
            Ok((code, address, (code, openness)))
        })
        .and_then(|(code, openness)| self.done(DescribeProducersRequest::KEY, &about, code).map(|()| openness))
    }

    fn open_once(&mut self, producer_id: i64, written: &[Written]) -> Result<(i16, Address, Openness)> {
        let mut openness = Openness::default();
        let mut asked: BTreeMap<Address, Asked<'_>> = BTreeMap::new();
        let mut answered = self.settings.bootstrap[0].clone();
        for place in written {
            match self.leader(&place.topic, place.partition)? {
                Ok(leader) => asked.entry(leader).or_default().entry(&place.topic).or_default().push(place),
                Err((code, from)) => match code.err() {
                    Some(ResponseError::UnknownTopicOrPartition) => {}
                    Some(ResponseError::TopicAuthorizationFailed) => openness.not_told.push(place.topic.clone()),
                    _ => return Ok((code, from, openness)),
                },
            }
        }
        for (leader, topics) in asked {
            let partitions = |places: &[&Written]| places.iter().map(|place| place.partition).collect();
            let wanted = topics
                .iter()
                .map(|(topic, places)| TopicRequest::default().with_name(wire_name(topic)).with_partition_indexes(partitions(places)));
            let request = DescribeProducersRequest::default().with_topics(wanted.collect());
            let answer = self.on(&leader, |connection| connection.call(0..=0, &request))?;
            let mut left: BTreeMap<(&str, i32), i64> =
                topics.values().flatten().map(|w| ((w.topic.as_str(), w.partition), w.last)).collect();
            for topic in &answer.topics {
                for found in &topic.partitions {
                    let Some(last) = left.remove(&(topic.name.as_str(), found.partition_index)) else { continue };
                    match found.error_code.err() {
                        None => {}
                        Some(ResponseError::UnknownTopicOrPartition) => continue,
                        Some(ResponseError::TopicAuthorizationFailed) => {
                            openness.not_told.push(topic.name.to_string());
                            continue;
                        }
                        Some(_) => return Ok((found.error_code, leader, openness)),
                    }
                    let open = found.active_producers.iter().filter(|state| state.producer_id.0 == producer_id);
                    openness.open.extend(open.filter(|state| (0..=last).contains(&state.current_txn_start_offset)).map(|state| OpenAt {
                        topic: topic.name.to_string(),
                        partition: found.partition_index,
                        start: state.current_txn_start_offset,
                        producer: Producer { id: producer_id, epoch: i16::try_from(state.producer_epoch).unwrap_or_default() },
                        coordinator_epoch: state.coordinator_epoch.max(0),
                    }));
                }
            }
            if !left.is_empty() {
                return Ok((ResponseError::UnknownServerError.code(), leader, openness));
            }
            answered = leader;
        }
        openness.not_told.sort_unstable();
        openness.not_told.dedup();
        Ok((0, answered, openness))
    }

    /// Writes the marker of a decision to a partition, in the place of the coordinator. Whoever calls knows that this was decided about the
    /// transaction that is open there. With the epoch that follows the producer's the partition takes nothing more from it.
    ///
    /// # Errors
    /// `Invalid` when this user may not do it; `Retry` when the leader does not answer.
    pub fn write_marker(&mut self, open: &OpenAt, producer: Producer, decision: Decision) -> Result<()> {
        let OpenAt { topic, partition, coordinator_epoch, .. } = open;
        let wanted = WritableTxnMarkerTopic::default().with_name(wire_name(topic)).with_partition_indexes(vec![*partition]);
        let marker = WritableTxnMarker::default().with_producer_id(ProducerId(producer.id)).with_producer_epoch(producer.epoch);
        let marker = marker
            .with_transaction_result(decision == Decision::Commit)
            .with_topics(vec![wanted])
            .with_coordinator_epoch(*coordinator_epoch);
        let request = WriteTxnMarkersRequest::default().with_markers(vec![marker]);
        let about = format!("topic={topic} partition={partition} {producer}");
        let (code, asked) = self.persist(WriteTxnMarkersRequest::KEY, &about, |control| {
            let leader = match control.leader(topic, *partition)? {
                Ok(leader) => leader,
                Err((code, asked)) => return Ok((code, asked.clone(), (code, asked))),
            };
            let answer = control.on(&leader, |connection| connection.call(1..=1, &request))?;
            let codes = answer.markers.iter().flat_map(|marker| &marker.topics).flat_map(|topic| &topic.partitions);
            let code = codes.map(|found| found.error_code).next().unwrap_or(-1);
            Ok((code, leader.clone(), (code, leader)))
        })?;
        code.err().map_or(Ok(()), |code| Err(refused(WriteTxnMarkersRequest::KEY, &about, code, &asked)))
    }
}
