//! The list of transactional ids, and what makes it whole.
//!
//! Owns: which coordinators are asked, and how it is known that nothing of them is left out. Does not own: what is done with the ids.
//!
//! A broker lists what it has loaded. One that does not know yet that it coordinates a partition of the coordinators' topic leaves that
//! partition's ids out, and does not say so: just after its start, or when coordinators have moved to it. So each coordinator is asked about ids
//! that fall into each of its partitions, before it lists and after: an answer about an id needs the partition, whole.
//!
//! Invariants:
//! 1. The ids asked about fall into every partition of the coordinators' topic, if it has as many as were counted, or fewer.
//! 2. A list counts only if before it and after it its broker coordinated each partition that was asked of it, and all were asked.

use std::collections::{BTreeMap, BTreeSet};

use kafka_protocol::ResponseError;
use kafka_protocol::error::ParseResponseErrorCode;
use kafka_protocol::messages::{DescribeTransactionsRequest, FindCoordinatorRequest, ListTransactionsRequest};
use kafka_protocol::protocol::{Request, StrBytes};
use staunch_protocol::transaction::TransactionPhase;
use staunch_types::Result;

use super::super::{Control, TRANSACTION, Target};
use super::{phase, wire_id};
use crate::codes;
use crate::settings::Address;

/// Where coordinators keep what they know.
const TOPIC: &str = "__transaction_state";
/// Partitions of it, at the most, where this user may not ask: four times as many as brokers make unless told otherwise.
const PARTITIONS_ASSUMED: usize = 200;
/// By so much a letter counts more than the next one in Java's hash of a text.
const BASE: usize = 31;
/// The letters of a number to this base; they are neighbours, so that the numbers' hashes are too.
const LETTERS: [u8; BASE] = *b"ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_";
/// Letters of a number.
const WIDTH: u32 = 3;
/// Ids that are asked about, at the most; twice as many can be numbered.
const PROBES_MAX: usize = BASE.pow(WIDTH) / 2;

/// A transactional id in a list.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Listed {
    /// The transactional id.
    pub transactional_id: String,
    /// The producer's id.
    pub producer_id: i64,
    /// How far its last transaction is.
    pub phase: TransactionPhase,
}

/// What came of an attempt: the error code, whose it is, and the list so far.
type Attempt = (i16, Address, Vec<Listed>);

impl Control {
    /// All transactional ids that begin with a prefix, from every broker, in order. What a coordinator knew when it was asked is in the list,
    /// wherever coordinators move meanwhile. Three things may leave ids out: a coordinator that gives its partition away, takes it back and
    /// loads it between two requests that follow each other; more than 200 partitions of `__transaction_state` when this user may not describe that
    /// topic; and rights, as ids that this user may not describe are not listed. Who may not describe ids with this prefix gets a list of
    /// what each broker happens to have loaded.
    ///
    /// # Errors
    /// `Retry` when a broker does not answer, or none leads a partition of `__transaction_state`.
    ///
    /// # Cost
    /// Three requests, and three more to each broker.
    pub fn list_transactions(&mut self, prefix: &str) -> Result<Vec<Listed>> {
        let partitions = match self.topic(TOPIC) {
            Ok(topic) => topic.map_or(0, |topic| topic.partitions.len()),
            Err(error) if error.code() == codes::NOT_ALLOWED => PARTITIONS_ASSUMED,
            Err(error) => return Err(error),
        };
        match self.list(prefix, &probes(prefix, partitions)) {
            Err(error) if error.code() == codes::NOT_ALLOWED => self.list(prefix, &[]),
            answer => answer,
        }
    }

    fn list(&mut self, prefix: &str, probes: &[String]) -> Result<Vec<Listed>> {
        let about = format!("prefix={prefix}");
        let (code, found) = self.persist(ListTransactionsRequest::KEY, &about, |control| {
            let (code, answered, found) = control.list_once(prefix, probes)?;
            Ok((code, answered, (code, found)))
        })?;
        self.done(ListTransactionsRequest::KEY, &about, code)?;
        Ok(found.into_iter().collect::<BTreeSet<_>>().into_iter().collect())
    }

    fn list_once(&mut self, prefix: &str, probes: &[String]) -> Result<Attempt> {
        let mut found = Vec::new();
        let (code, mut answered, cluster) = self.cluster_once()?;
        if code != 0 {
            return Ok((code, answered, found));
        }
        let mut asked: BTreeMap<Address, Vec<&str>> = cluster.brokers.into_iter().map(|broker| (broker.address, Vec::new())).collect();
        if !probes.is_empty() {
            let code = self.coordinators_once(probes, &mut asked)?;
            if code != 0 {
                return Ok((code, answered, found));
            }
        }
        for (address, probes) in asked {
            let mut code = self.coordinates_once(&address, &probes)?;
            if code == 0 {
                code = self.list_of_once(&address, prefix, &mut found)?;
            }
            if code == 0 {
                code = self.coordinates_once(&address, &probes)?;
            }
            if code != 0 {
                return Ok((code, address, found));
            }
            answered = address;
        }
        Ok((0, answered, found))
    }

    /// Adds each id to those of its coordinator.
    fn coordinators_once<'a>(&mut self, probes: &'a [String], asked: &mut BTreeMap<Address, Vec<&'a str>>) -> Result<i16> {
        let keys = probes.iter().map(|probe| StrBytes::from_string(probe.clone())).collect();
        let request = FindCoordinatorRequest::default().with_coordinator_keys(keys).with_key_type(TRANSACTION);
        let address = self.locate(&Target::Any)?;
        let answer = self.on(&address, |connection| connection.call(4..=4, &request))?;
        let coordinators: BTreeMap<&str, _> = answer.coordinators.iter().map(|found| (found.key.as_str(), found)).collect();
        for probe in probes {
            let Some(found) = coordinators.get(probe.as_str()) else { return Ok(ResponseError::UnknownServerError.code()) };
            if found.error_code != 0 {
                return Ok(found.error_code);
            }
            let address = Address { host: found.host.to_string(), port: u16::try_from(found.port).unwrap_or_default() };
            asked.entry(address).or_default().push(probe);
        }
        Ok(0)
    }

    /// Whether a broker coordinates all of these ids, and has loaded what it knows of them: 0, or the error code.
    fn coordinates_once(&mut self, address: &Address, probes: &[&str]) -> Result<i16> {
        if probes.is_empty() {
            return Ok(0);
        }
        let ids = probes.iter().map(|probe| wire_id(probe)).collect();
        let request = DescribeTransactionsRequest::default().with_transactional_ids(ids);
        let answer = self.on(address, |connection| connection.call(0..=0, &request))?;
        let not_loaded = |code: &i16| !matches!(code.err(), None | Some(ResponseError::TransactionalIdNotFound));
        let missing = (answer.transaction_states.len() != probes.len()).then_some(ResponseError::UnknownServerError.code());
        Ok(answer.transaction_states.iter().map(|found| found.error_code).find(not_loaded).or(missing).unwrap_or(0))
    }

    /// Adds what a broker lists.
    fn list_of_once(&mut self, address: &Address, prefix: &str, found: &mut Vec<Listed>) -> Result<i16> {
        let answer = self.on(address, |connection| connection.call(0..=0, &ListTransactionsRequest::default()))?;
        for listed in answer.transaction_states {
            let transactional_id = listed.transactional_id.to_string();
            if transactional_id.starts_with(prefix) {
                let phase = phase(&listed.transaction_state, &format!("transactional_id={transactional_id}"), address)?;
                found.push(Listed { transactional_id, producer_id: listed.producer_id.0, phase });
            }
        }
        Ok(answer.error_code)
    }
}

/// Ids that nobody uses, with this prefix, of which one falls into each partition of a topic with so many partitions or fewer: their hashes
/// follow one another.
fn probes(prefix: &str, partitions: usize) -> Vec<String> {
    let count = partitions.min(PROBES_MAX);
    let probe = |index: usize| {
        let mut id = format!("{prefix}probe");
        id.extend((0..WIDTH).rev().map(|place| char::from(LETTERS[index / BASE.pow(place) % BASE])));
        id
    };
    let first = first(java_hash(&probe(0)), count);
    (first..first + count).map(probe).collect()
}

/// The number from which on so many hashes have amounts that follow one another: brokers take the amount of a hash, so it must not go
/// through 0, nor over the end of what 32 bits hold, whose amount they take to be 0.
fn first(hash: i32, count: usize) -> usize {
    let (first, count) = (i64::from(hash), i64::try_from(count).unwrap_or(i64::MAX));
    let last = first.saturating_add(count) - 1;
    let is_broken = first == i64::from(i32::MIN) || (first < 0 && last > 0) || last > i64::from(i32::MAX);
    if is_broken { usize::try_from(count).unwrap_or_default() } else { 0 }
}

/// The hash by which brokers choose the partition of an id: that of Java, over units of UTF-16.
fn java_hash(text: &str) -> i32 {
    text.encode_utf16().fold(0, |hash: i32, unit| hash.wrapping_mul(BASE as i32).wrapping_add(i32::from(unit)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// As brokers do it.
    fn partition(id: &str, partitions: usize) -> usize {
        let hash = java_hash(id);
        let amount = if hash == i32::MIN { 0 } else { hash.unsigned_abs() };
        amount as usize % partitions
    }

    #[test]
    fn the_hash_is_that_of_java() {
        for (text, expected) in [
            ("", 0),
            ("a", 97),
            ("abc", 96_354),
            ("hello", 99_162_322),
            ("zzzzzz", -685_785_664),
            ("polygenelubricants", i32::MIN),
            ("é", 233),
            ("😀", 1_772_899),
            ("staunch+payments+out+probeAAA", 664_552_127),
        ] {
            assert_eq!(java_hash(text), expected, "{text}");
        }
    }

    #[test]
    fn probes_are_named_by_numbers_whose_hashes_follow_one_another() {
        let probes = probes("staunch+payments+out+", 50);
        assert_eq!(probes.len(), 50);
        assert_eq!(
            [&probes[0], &probes[30], &probes[31]].map(|p| p.trim_start_matches("staunch+payments+out+")),
            ["probeAAA", "probeAA_", "probeABA"]
        );
        assert_eq!([0, 30, 31].map(|index: usize| java_hash(&probes[index])), [664_552_127, 664_552_157, 664_552_158]);
        assert_eq!(super::probes("", usize::MAX).len(), PROBES_MAX);
    }

    /// Where the amounts of hashes do not follow one another, others are taken.
    #[test]
    fn probes_avoid_the_ends_of_the_hash_and_its_zero() {
        for (hash, expected) in [
            (0, 0),
            (5, 0),
            (-5, 50),
            (-48, 50),
            (-49, 0),
            (i32::MAX - 49, 0),
            (i32::MAX - 48, 50),
            (i32::MAX, 50),
            (i32::MIN, 50),
            (i32::MIN + 1, 0),
        ] {
            assert_eq!(first(hash, 50), expected, "{hash}");
            let hashes = (0..50).map(|index| hash.wrapping_add(expected as i32 + index));
            let amounts: BTreeSet<u32> = hashes.map(|hash| if hash == i32::MIN { 0 } else { hash.unsigned_abs() }).collect();
            assert_eq!(amounts.len(), 50, "{hash}");
            assert!(amounts.last().zip(amounts.first()).is_some_and(|(last, first)| last - first == 49), "{hash}");
        }
    }

    proptest! {
        #[test]
        fn some_probe_falls_into_each_partition_also_when_there_are_fewer(
            prefix in "\\PC{0,40}", counted in 1_usize..300, fewer in 0_usize..300,
        ) {
            let partitions = counted.saturating_sub(fewer).max(1);
            let hit: BTreeSet<usize> = probes(&prefix, counted).iter().map(|probe| partition(probe, partitions)).collect();
            prop_assert_eq!(hit.len(), partitions);
        }
    }
}
