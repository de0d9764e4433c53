//! Topics: partitions with the records of each transaction, and what readers of committed records see of them.

use std::collections::BTreeMap;

use staunch_protocol::transaction::Producer;

/// A partition of a topic.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: u32,
}

/// What a record holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// A line of output.
    Line(String),
    /// The mark of a transaction: its key.
    Mark(String),
    /// Compaction has taken it.
    Gone,
}

/// What a reader of committed records finds.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// Committed records, up to the last stable offset.
    pub committed: Vec<Body>,
    /// Where such readers have to stop.
    pub stable: u64,
    /// Where the partition ends.
    pub end: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Open,
    Committed,
    Aborted,
}

#[derive(Clone, Debug)]
struct Record {
    producer: Producer,
    number: u64,
    body: Body,
    fate: Fate,
}

/// All topics; they exist as soon as somebody writes to them.
#[derive(Debug, Default)]
pub(super) struct Topics(BTreeMap<Place, Vec<Record>>);

impl Topics {
    /// Appends a record, unless it was appended before; its offset.
    pub(super) fn append(&mut self, place: &Place, producer: Producer, number: u64, body: Body) -> u64 {
        let records = self.0.entry(place.clone()).or_default();
        if let Some(at) = records.iter().position(|record| (record.producer, record.number) == (producer, number)) {
            return at as u64;
        }
        records.push(Record { producer, number, body, fate: Fate::Open });
        records.len() as u64 - 1
    }

    /// A marker arrives: it decides all that is open of a producer.
    pub(super) fn mark(&mut self, place: &Place, producer_id: i64, commits: bool) {
        let records = self.0.get_mut(place).into_iter().flatten();
        let open = records.filter(|record| record.producer.id == producer_id && record.fate == Fate::Open);
        open.for_each(|record| record.fate = if commits { Fate::Committed } else { Fate::Aborted });
    }

    /// The open lines of a producer.
    pub(super) fn lines(&self, place: &Place, producer_id: i64) -> Vec<(String, String)> {
        let records = self.0.get(place).into_iter().flatten();
        let open = records.filter(|record| record.producer.id == producer_id && record.fate == Fate::Open);
        let line = |record: &Record| match &record.body {
            Body::Line(line) => Some((place.topic.clone(), line.clone())),
            Body::Mark(_) | Body::Gone => None,
        };
        open.filter_map(line).collect()
    }

    pub(super) fn fetch(&self, place: &Place, from: u64) -> Fetched {
        let none = Vec::new();
        let records = self.0.get(place).unwrap_or(&none);
        let stable = records.iter().position(|record| record.fate == Fate::Open).unwrap_or(records.len());
        let seen = records[..stable].iter().skip(from as usize).filter(|record| record.fate == Fate::Committed);
        Fetched { committed: seen.map(|record| record.body.clone()).collect(), stable: stable as u64, end: records.len() as u64 }
    }

    pub(super) fn clear(&mut self, place: &Place, key: &str) {
        let records = self.0.get_mut(place).into_iter().flatten();
        records.filter(|record| record.body == Body::Mark(key.to_owned())).for_each(|record| record.body = Body::Gone);
    }

    pub(super) fn committed(&self, topic: &str) -> Vec<String> {
        let places = self.0.keys().filter(|place| place.topic == topic);
        let bodies = places.flat_map(|place| self.fetch(place, 0).committed);
        bodies.filter_map(|body| if let Body::Line(line) = body { Some(line) } else { None }).collect()
    }
}
