//! The workloads: what lies in the input, what is done with it, and how it is checked that all of it came out once.
//!
//! Owns: records and results as bytes, which the Flink program knows too (`bench/flink/kafka`). Does not own: who does the work.

use std::collections::HashSet;

use anyhow::{Result, ensure};

/// Different keys.
const KEYS: u64 = 10_000;
/// Records per millisecond of event time: a window of a second has 100,000.
const PER_MS: u64 = 100;
/// Length of a window.
pub(crate) const WINDOW_MS: i64 = 1_000;
/// Digits of the number at the beginning of a copied value.
const DIGITS: usize = 12;
/// What fills a copied value behind its number.
const LETTERS: &[u8] = b"the quick brown fox jumps over the lazy dog ";

/// What is done with the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Letters of the value become capitals; the key stays.
    Copy,
    /// Count and sum for each key and second of event time.
    Window,
}

/// One line of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) kind: Kind,
    pub(crate) value_bytes: usize,
    pub(crate) partitions: i32,
    pub(crate) records: u64,
}

impl Row {
    pub(crate) fn name(&self) -> String {
        let kind = if self.kind == Kind::Copy { "copy" } else { "window" };
        format!("kafka-{kind}-{}B-{}p", self.value_bytes, self.partitions)
    }

    /// The key and the value of a record of the input, into `value`.
    pub(crate) fn make(&self, number: u64, value: &mut Vec<u8>) -> [u8; 8] {
        value.clear();
        match self.kind {
            Kind::Copy => copied(number, self.value_bytes, value),
            Kind::Window => {
                for field in [number, number / PER_MS, amount(number)] {
                    value.extend_from_slice(&field.to_be_bytes());
                }
                value.resize(self.value_bytes, 0);
            }
        }
        key(number).to_be_bytes()
    }
}

/// A value to be copied.
pub(crate) fn copied(number: u64, bytes: usize, value: &mut Vec<u8>) {
    value.extend_from_slice(format!("{number:0DIGITS$}").as_bytes());
    value.extend(LETTERS.iter().cycle().take(bytes.saturating_sub(DIGITS)));
}

fn key(number: u64) -> u64 {
    // Neighbours get different keys.
    (number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) % KEYS
}

fn amount(number: u64) -> u64 {
    number % 1_000
}

/// A record of the windowed workload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Payment {
    pub(crate) account: u64,
    pub(crate) time: i64,
    pub(crate) amount: u64,
}

impl Payment {
    pub(crate) fn read(key: Option<&[u8]>, value: Option<&[u8]>) -> Option<Payment> {
        let field = |at: usize| Some(u64::from_be_bytes(*value?.get(at..)?.first_chunk()?));
        Some(Payment { account: u64::from_be_bytes(key?.try_into().ok()?), time: i64::try_from(field(8)?).ok()?, amount: field(16)? })
    }
}

/// The result of one window of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Total {
    pub(crate) start: i64,
    pub(crate) count: u64,
    pub(crate) sum: u64,
}

impl Total {
    pub(crate) fn bytes(&self) -> [u8; 24] {
        let mut all = [0; 24];
        all[..8].copy_from_slice(&self.start.to_be_bytes());
        all[8..16].copy_from_slice(&self.count.to_be_bytes());
        all[16..].copy_from_slice(&self.sum.to_be_bytes());
        all
    }
}

/// Sees all output, and tells whether it is what the input asks for, once.
pub(crate) struct Check {
    row: Row,
    expected: Vec<u8>,
    seen: Vec<bool>,
    windows: HashSet<(u64, u64)>,
    count: u64,
    sum: u64,
    wrong: Option<String>,
}

impl Check {
    pub(crate) fn new(row: Row) -> Check {
        let mut expected = Vec::new();
        row.make(0, &mut expected);
        expected.make_ascii_uppercase();
        let seen = vec![false; if row.kind == Kind::Copy { row.records as usize } else { 0 }];
        Check { row, expected, seen, windows: HashSet::new(), count: 0, sum: 0, wrong: None }
    }

    pub(crate) fn see(&mut self, found_key: &[u8], value: &[u8]) {
        let right = match self.row.kind {
            Kind::Copy => self.see_copied(found_key, value),
            Kind::Window => self.see_total(found_key, value),
        };
        if right.is_none() {
            let start = String::from_utf8_lossy(&value[..value.len().min(40)]).into_owned();
            self.wrong.get_or_insert_with(|| format!("a message is wrong or there twice: key={found_key:?} value={start:?}"));
        }
    }

    fn see_copied(&mut self, found_key: &[u8], value: &[u8]) -> Option<()> {
        let number: u64 = std::str::from_utf8(value.get(..DIGITS)?).ok()?.parse().ok()?;
        let seen = self.seen.get_mut(usize::try_from(number).ok()?)?;
        let is_right = !*seen && found_key == key(number).to_be_bytes() && value[DIGITS..] == self.expected[DIGITS..];
        *seen = true;
        self.count += 1;
        is_right.then_some(())
    }

    fn see_total(&mut self, found_key: &[u8], value: &[u8]) -> Option<()> {
        let field = |at: usize| Some(u64::from_be_bytes(*value.get(at..)?.first_chunk()?));
        let is_new = self.windows.insert((u64::from_be_bytes(found_key.try_into().ok()?), field(0)?));
        self.count += field(8)?;
        self.sum += field(16)?;
        is_new.then_some(())
    }

    /// Whether all that is expected has been seen.
    pub(crate) fn is_whole(&self) -> bool {
        self.count >= self.row.records
    }

    /// # Errors
    /// What is missing or there twice.
    pub(crate) fn finish(self) -> Result<()> {
        ensure!(self.wrong.is_none(), self.wrong.unwrap_or_default());
        ensure!(self.count == self.row.records, "expected records={}, found records={}", self.row.records, self.count);
        if self.row.kind == Kind::Window {
            let sum: u64 = (0..self.row.records).map(amount).sum();
            ensure!(self.sum == sum, "expected sum={sum}, found sum={}", self.sum);
        }
        Ok(())
    }
}
