//! Rows, and the files they are read from.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::{JobSpec, Shape};
use crate::kernel::{Disk, Random};

/// One row of input; most rows of output are the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// Unique in the input.
    pub id: u64,
    /// Few different ones.
    pub key: u32,
    /// Any.
    pub value: i64,
    /// Event time in milliseconds.
    pub at: i64,
}

/// One file of input.
#[derive(Clone, Debug)]
pub struct InputFile {
    /// Which source reads it: its number.
    pub source: usize,
    /// Its path.
    pub path: String,
    /// What is in it.
    pub rows: Vec<Row>,
}

/// By how much the clock of some rows is wrong.
const WRONG: i64 = 86_400_000;

/// The pattern that the source of a number reads.
pub(super) fn pattern(source: usize) -> String {
    format!("/in/{source}/*.csv")
}

pub(super) fn files(shape: Shape, files: u64, rows: u64, random: &mut Random) -> Vec<InputFile> {
    let sources = if shape == Shape::United { 2 } else { 1 };
    let mut all = Vec::new();
    let mut id = 0;
    for source in 0..sources {
        for number in 0..files {
            let count = if rows == 0 { 0 } else { random.between(rows / 2, rows) };
            let mut made = Vec::new();
            for _ in 0..count {
                let value = random.below(2_000) as i64 - 1_000;
                let mut at = 1_000_000 + id as i64 * 10 + random.below(100) as i64;
                if shape == Shape::Guarded && !made.is_empty() && id % 7 < 2 {
                    at += WRONG;
                }
                made.push(Row { id, key: random.below(12) as u32, value, at });
                id += 1;
            }
            all.push(InputFile { source, path: format!("/in/{source}/{number:03}.csv"), rows: made });
        }
    }
    all
}

impl JobSpec {
    /// Puts the input on a disk.
    pub fn place_input(&self, disk: &mut Disk) {
        for file in &self.input {
            let mut text = "id,key,value,at\n".to_owned();
            for row in &file.rows {
                let _ = writeln!(text, "{}", row.line());
            }
            disk.place(&file.path, text.as_bytes());
        }
    }

    /// All rows of input.
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.input.iter().flat_map(|file| &file.rows)
    }
}

impl Row {
    /// Whether its clock is wrong.
    #[must_use]
    pub fn is_ahead(&self) -> bool {
        self.at > WRONG
    }

    /// The row as a line of CSV.
    #[must_use]
    pub fn line(&self) -> String {
        format!("{},{},{},{}", self.id, self.key, self.value, self.at)
    }
}
