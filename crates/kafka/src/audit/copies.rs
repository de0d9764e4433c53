//! Messages of other producers that are equal to ours: copies that somebody made.
//!
//! Owns: what is kept of the messages of others. Does not own: reading them.
//!
//! Invariant: at most [`KEPT_MAX`] hashes are kept at once. When there are more, the topic is gone through in parts: each time those
//! messages are looked at whose hash ends in the part's number.

use std::collections::HashMap;

use xxhash_rust::xxh3::xxh3_128;

use super::Output;
use super::rules::{Deviation, Own, Span, TopicFinding};

/// Hashes kept at once; about 100 MB.
const KEPT_MAX: usize = 1 << 20;
/// Copies that a finding names.
const NAMED_MAX: usize = 5;

/// What is known of the messages of others in one topic.
pub(super) struct Copies {
    topic: String,
    kept: HashMap<u128, Foreign>,
    kept_max: usize,
    /// Bits of a hash that are the number of its part.
    bits: u32,
    part: u128,
    /// How many messages of others are equal to ours, by producer.
    equal: HashMap<i64, u64>,
    named: Vec<Named>,
}

#[derive(Clone, Copy)]
struct Foreign {
    producer_id: i64,
    offset: i64,
    partition: i32,
    count: u32,
    is_equal: bool,
}

/// A copy, and what it is a copy of: partitions and offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Named {
    copy: (i32, i64),
    of: (i32, i64),
    producer_id: i64,
}

impl Copies {
    pub(super) fn new(topic: &str) -> Copies {
        Copies::keeping(topic, KEPT_MAX)
    }

    fn keeping(topic: &str, kept_max: usize) -> Copies {
        Copies { topic: topic.to_owned(), kept: HashMap::new(), kept_max, bits: 0, part: 0, equal: HashMap::new(), named: Vec::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Whether the topic is gone through for another time.
    pub(super) fn is_later_part(&self) -> bool {
        self.part > 0
    }

    /// Keeps a message of another producer.
    pub(super) fn add(&mut self, bytes: &[u8], partition: i32, offset: i64, producer_id: i64) {
        let hash = xxh3_128(bytes);
        if !self.is_of_part(hash) {
            return;
        }
        let found = self.kept.entry(hash).or_insert(Foreign { producer_id, offset, partition, count: 0, is_equal: false });
        found.count = found.count.saturating_add(1);
        // Parts are made in the first pass only; those of a hash that is spread evenly are as large as each other.
        while self.part == 0 && self.kept.len() > self.kept_max {
            self.bits += 1;
            let mask = self.mask();
            self.kept.retain(|hash, _| hash & mask == 0);
        }
    }

    /// Looks whether a message of ours was written by others too.
    pub(super) fn compare(&mut self, bytes: &[u8], partition: i32, offset: i64) {
        let Some(found) = self.kept.get_mut(&xxh3_128(bytes)).filter(|found| !found.is_equal) else { return };
        found.is_equal = true;
        *self.equal.entry(found.producer_id).or_default() += u64::from(found.count);
        self.named.push(Named { copy: (found.partition, found.offset), of: (partition, offset), producer_id: found.producer_id });
        if self.named.len() > 64 * NAMED_MAX {
            self.named.sort_unstable();
            self.named.truncate(NAMED_MAX);
        }
    }

    /// Goes on to the next part of the hashes; whether there is one.
    pub(super) fn next_part(&mut self) -> bool {
        self.kept.clear();
        self.part += 1;
        self.part <= self.mask()
    }

    /// What was found, but for producers that turned out to be ours.
    pub(super) fn finding(mut self, own: &Own) -> Option<TopicFinding> {
        let is_foreign = |id: &i64| !own.producers.contains(id) && !own.excused.contains(id);
        let count: u64 = self.equal.iter().filter(|(id, _)| is_foreign(id)).map(|(_, count)| count).sum();
        self.named.retain(|named| is_foreign(&named.producer_id));
        self.named.sort_unstable();
        let copies: Vec<String> = self
            .named
            .iter()
            .take(NAMED_MAX)
            .map(|n| format!("partition={} offset={} is equal to partition={} offset={}", n.copy.0, n.copy.1, n.of.0, n.of.1))
            .collect();
        (count > 0).then(|| TopicFinding {
            deviation: Deviation::Doubled,
            epoch: None,
            what: format!("messages are doubled: {count} of other producers have key and value of ours"),
            place: format!("topic={} {}", self.topic, copies.join("; ")),
        })
    }

    fn mask(&self) -> u128 {
        (1 << self.bits) - 1
    }

    fn is_of_part(&self, hash: u128) -> bool {
        hash & self.mask() == self.part
    }
}

impl Span {
    pub(super) fn is_of(&self, output: &Output) -> bool {
        let lies_in = |first: i64, last: i64| first <= self.first && self.last <= last;
        output.producer.id == self.producer_id
            && output.places.iter().any(|p| p.range.is_in(&self.topic, self.partition) && lies_in(p.range.first, p.range.last))
    }

    pub(super) fn finding(&self) -> TopicFinding {
        let Span { topic, partition, producer_id, first, last, messages } = self;
        TopicFinding {
            deviation: Deviation::Unnamed,
            epoch: None,
            what: format!("a producer of the sink has committed {messages} messages that no epoch names"),
            place: format!("topic={topic} partition={partition} offsets={first}..{} producer_id={producer_id}", last + 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(kept_max: usize, own: &Own) -> Option<TopicFinding> {
        let mut copies = Copies::keeping("t", kept_max);
        loop {
            for offset in 0..1000_i64 {
                copies.add(&offset.to_le_bytes(), 0, offset, offset % 3);
            }
            copies.add(&5_i64.to_le_bytes(), 1, 7, 2);
            assert!(copies.kept.len() <= kept_max || copies.part > 0);
            for ours in (0..2000_i64).filter(|n| n % 100 == 5) {
                copies.compare(&ours.to_le_bytes(), 2, ours);
                copies.compare(&ours.to_le_bytes(), 2, ours + 5000);
            }
            if !copies.next_part() {
                return copies.finding(own);
            }
        }
    }

    #[test]
    fn copies_are_found_and_counted_also_when_not_all_hashes_fit() {
        let whole = found(10_000, &Own::default()).expect("copies");
        assert!(whole.what.contains(" 11 of other producers"), "{}", whole.what);
        assert!(whole.place.starts_with("topic=t partition=0 offset=5 is equal to partition=2 offset=5; "), "{}", whole.place);
        assert_eq!(found(10, &Own::default()), Some(whole));
    }

    #[test]
    fn messages_of_producers_that_turn_out_to_be_ours_are_no_copies() {
        let own = Own { producers: [0, 1].into(), excused: [2].into() };
        assert_eq!(found(10_000, &own), None);
        let own = Own { producers: [0, 1].into(), excused: [].into() };
        // 5, twice, and 305, 605, 905.
        assert!(found(10_000, &own).expect("copies").what.contains(" 5 of other producers"));
    }
}
