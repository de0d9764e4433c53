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
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Open,
    Committed,
    Aborted,
}

#[derive(Debug)]
struct Record {
    body: Body,
    fate: Fate,
}

#[derive(Debug, Default)]
struct Partition {
    records: Vec<Record>,
    /// Offsets of open records, by producer.
    open: BTreeMap<i64, Vec<usize>>,
    /// Offsets by producer and number.
    known: BTreeMap<(Producer, u64), usize>,
    /// The least epoch that is taken, by producer, where a marker has raised it.
    raised: BTreeMap<i64, i16>,
}

/// All topics; they exist as soon as somebody writes to them.
#[derive(Debug, Default)]
pub(super) struct Topics(BTreeMap<Place, Partition>);

impl Partition {
    fn stable(&self) -> usize {
        self.open.values().filter_map(|offsets| offsets.first()).min().copied().unwrap_or(self.records.len())
    }
}

impl Topics {
    /// Appends a record, unless it was appended before; its offset.
    pub(super) fn append(&mut self, place: &Place, producer: Producer, number: u64, body: Body) -> u64 {
        let partition = self.0.entry(place.clone()).or_default();
        let next = partition.records.len();
        let offset = *partition.known.entry((producer, number)).or_insert(next);
        if offset == next {
            partition.records.push(Record { body, fate: Fate::Open });
            partition.open.entry(producer.id).or_default().push(offset);
        }
        offset as u64
    }

    /// A marker arrives: it decides all that is open of a producer.
    pub(super) fn mark(&mut self, place: &Place, producer_id: i64, commits: bool) {
        let Some(partition) = self.0.get_mut(place) else { return };
        for offset in partition.open.remove(&producer_id).unwrap_or_default() {
            partition.records[offset].fate = if commits { Fate::Committed } else { Fate::Aborted };
        }
    }

    /// From now on a partition takes nothing from this producer with a lower epoch.
    pub(super) fn raise(&mut self, place: &Place, producer: Producer) {
        let raised = &mut self.0.entry(place.clone()).or_default().raised;
        let least = raised.entry(producer.id).or_default();
        *least = (*least).max(producer.epoch);
    }

    /// Whether a partition takes nothing from a producer.
    pub(super) fn is_shut(&self, place: &Place, producer: Producer) -> bool {
        self.0.get(place).and_then(|partition| partition.raised.get(&producer.id)).is_some_and(|least| producer.epoch < *least)
    }

    /// Where what a producer has open in a partition begins.
    pub(super) fn open_from(&self, place: &Place, producer_id: i64) -> Option<u64> {
        self.0.get(place)?.open.get(&producer_id)?.first().map(|offset| *offset as u64)
    }

    /// The open lines of a producer.
    pub(super) fn lines(&self, place: &Place, producer_id: i64) -> Vec<(String, String)> {
        let Some(partition) = self.0.get(place) else { return Vec::new() };
        let open = partition.open.get(&producer_id).into_iter().flatten().map(|offset| &partition.records[*offset].body);
        let line = |body: &Body| match body {
            Body::Line(line) => Some((place.topic.clone(), line.clone())),
            Body::Mark(_) | Body::Gone => None,
        };
        open.filter_map(line).collect()
    }

    pub(super) fn fetch(&self, place: &Place, from: u64) -> Fetched {
        let Some(partition) = self.0.get(place) else { return Fetched { committed: Vec::new(), stable: 0 } };
        let stable = partition.stable();
        let seen = partition.records[..stable].iter().skip(from as usize).filter(|record| record.fate == Fate::Committed);
        Fetched { committed: seen.map(|record| record.body.clone()).collect(), stable: stable as u64 }
    }

    pub(super) fn last_mark(&self, place: &Place, key: &str) -> Option<u64> {
        let mark = Body::Mark(key.to_owned());
        self.0.get(place)?.records.iter().rposition(|record| record.body == mark).map(|at| at as u64)
    }

    pub(super) fn clear(&mut self, place: &Place, key: &str) {
        let mark = Body::Mark(key.to_owned());
        let records = self.0.get_mut(place).into_iter().flat_map(|partition| &mut partition.records);
        records.filter(|record| record.body == mark).for_each(|record| record.body = Body::Gone);
    }

    pub(super) fn committed(&self, topic: &str) -> Vec<String> {
        let places = self.0.keys().filter(|place| place.topic == topic);
        let bodies = places.flat_map(|place| self.fetch(place, 0).committed);
        bodies.filter_map(|body| if let Body::Line(line) = body { Some(line) } else { None }).collect()
    }
}
