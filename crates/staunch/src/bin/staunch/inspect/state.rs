//! Keyed state, put together from its segments as a restore would do it.
//!
//! Invariants:
//! 1. Segments are applied in the order of their epochs; of each only the key groups of the task that names it.
//! 2. Keys are compared by what they say, not by their bytes: an encoder that learned more writes the same key in other bytes.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use staunch_format::block::{BlockReader, Change};
use staunch_format::manifest::{Manifest, OperatorPart, Segment};
use staunch_format::value::{Decoder, ValueError};
use staunch_types::{Error, KeyGroupCount, KeyGroupRange, Result, TaskId};

use crate::job_folder::JobFolder;

/// One entry of a state.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) state: String,
    /// Start of the window or pane; 0 for a state without.
    pub(super) namespace: i64,
    pub(super) key: Value,
    pub(super) value: Value,
}

/// A state, put together.
pub(super) struct Found {
    pub(super) rows: Vec<Row>,
    /// Bytes of its segments, and how many there are.
    pub(super) bytes: u64,
    pub(super) segments: usize,
}

/// The names of an operator's keyed states.
pub(super) fn names(operator: &OperatorPart) -> BTreeSet<String> {
    operator.tasks.iter().flat_map(|task| &task.states).map(|state| state.name.clone()).collect()
}

/// Entries by key group, namespace and key.
type Entries = BTreeMap<(u16, i64, String), (Value, Value)>;

/// Puts a state together.
///
/// # Errors
/// `Corrupt` when a segment is not what was written; `Restart` when it cannot be read.
pub(super) fn read(folder: &JobFolder, manifest: &Manifest, operator: &OperatorPart, name: &str) -> Result<Found> {
    let mut entries = Entries::new();
    let mut seen = BTreeSet::new();
    let mut bytes = 0;
    for task in &operator.tasks {
        let range = range_of(manifest, task.task);
        let states = task.states.iter().filter(|state| state.name == name);
        let mut segments: Vec<&Segment> = states.flat_map(|state| &state.segments).collect();
        segments.sort_by_key(|segment| segment.epoch);
        for segment in segments {
            if seen.insert((&segment.path, segment.offset)) {
                bytes += segment.length;
            }
            apply(folder, segment, range, &mut entries)?;
        }
    }
    let row = |((_, namespace, _), (key, value))| Row { state: name.to_owned(), namespace, key, value };
    let mut rows: Vec<Row> = entries.into_iter().map(row).collect();
    rows.sort_by_cached_key(|row| (row.namespace, row.key.to_string()));
    Ok(Found { rows, bytes, segments: seen.len() })
}

/// The key groups of a task.
fn range_of(manifest: &Manifest, task: TaskId) -> KeyGroupRange {
    let parallelism = manifest.chains.get(task.chain as usize).map_or(0, |chain| chain.parallelism);
    match KeyGroupCount::new(manifest.key_groups) {
        Some(groups) if task.index < parallelism => groups.range_of(task.index, parallelism),
        // A manifest that does not say: all that its segments hold.
        Some(_) | None => KeyGroupRange { start: 0, end: u32::MAX },
    }
}

fn apply(folder: &JobFolder, segment: &Segment, range: KeyGroupRange, entries: &mut Entries) -> Result<()> {
    let damaged = |why: String| {
        let what = format!("state of epoch {} is not what was stored: {why}", segment.epoch);
        folder.damaged("C306", what, &segment.path).at(format!("offset={}", segment.offset))
    };
    let Some(bytes) = folder.read(&segment.path, segment.offset, segment.length)? else {
        return Err(damaged("the object is missing".into()));
    };
    if !segment.matches(&bytes) {
        return Err(damaged("its checksum is another".into()));
    }
    let at = |error: Error| error.at(format!("file={} offset={}", folder.file(&segment.path), segment.offset));
    let block = BlockReader::open(&bytes).map_err(at)?;
    let (keys, values) = (Decoder::new(block.key_schema()), Decoder::new(block.value_schema()));
    for entry in block.entries(range) {
        let entry = entry.map_err(at)?;
        let (group, namespace) = (entry.group.0, entry.namespace);
        let decode = |decoder: &Decoder, bytes: &[u8]| decoder.decode_json(bytes).map_err(|e: ValueError| at(e.into()));
        match entry.change {
            Change::Put { key, value } => {
                let key = decode(&keys, key)?;
                entries.insert((group, namespace, key.to_string()), (key, decode(&values, value)?));
            }
            Change::Delete { key } => drop(entries.remove(&(group, namespace, decode(&keys, key)?.to_string()))),
            Change::Clear => entries.retain(|(g, n, _), _| (*g, *n) != (group, namespace)),
        }
    }
    Ok(())
}
