//! Small values in a manifest: splits with their positions, clocks, what a writer carries over.
//!
//! Those whose form is known are decoded; others are shown in hexadecimal, never guessed. Each is shown under the name of what it is.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use staunch_files::FileSplit;
use staunch_format::manifest::{Inline, OperatorPart};
use staunch_types::{TaskId, Timestamp};

use super::state::Row;

/// The version byte in front of the engine's own small values.
const VERSION: u8 = 1;

/// All small values of an operator that are not empty.
pub(super) fn rows(operator: &OperatorPart) -> Vec<Row> {
    let all = operator.tasks.iter().flat_map(|task| task.inline.iter().map(move |inline| (task.task, inline)));
    all.filter(|(_, inline)| !inline.bytes.0.is_empty()).flat_map(|(task, inline)| decoded(task, inline)).collect()
}

/// Per name: how many there are, and their bytes.
pub(super) fn sizes(operator: &OperatorPart) -> BTreeMap<String, (usize, u64)> {
    let mut sizes: BTreeMap<String, (usize, u64)> = BTreeMap::new();
    for (task, inline) in operator.tasks.iter().flat_map(|task| task.inline.iter().map(move |inline| (task.task, inline))) {
        let rows = if inline.bytes.0.is_empty() { Vec::new() } else { decoded(task, inline) };
        let Some(first) = rows.first() else { continue };
        let size = sizes.entry(first.state.clone()).or_default();
        *size = (size.0 + rows.len(), size.1 + inline.bytes.0.len() as u64);
    }
    sizes
}

fn decoded(task: TaskId, inline: &Inline) -> Vec<Row> {
    let row = |key: Value, value: Value| Row { state: inline.kind.clone(), namespace: 0, key, value };
    let bytes = inline.bytes.0.as_slice();
    match inline.kind.as_str() {
        "splits" => {
            if let Some(splits) = own::<Vec<(String, Vec<u8>)>>(bytes) {
                return splits.into_iter().map(|(id, split)| row(json!(id), position(&split))).collect();
            }
        }
        "event-time" => {
            // The form of the engine's clocks: the greatest time of each split.
            if let Some(clocks) = own::<BTreeMap<String, Timestamp>>(bytes) {
                return clocks.into_iter().map(|(split, time)| row(json!(split), json!(time.0))).collect();
            }
        }
        "window" | "process" => {
            if let Some(watermark) = own::<Timestamp>(bytes) {
                return vec![Row { state: "watermark".into(), ..row(json!(format!("task {task}")), json!(watermark.0)) }];
            }
        }
        _ => {}
    }
    vec![row(json!(format!("task {task}")), hex(bytes))]
}

/// Where a split goes on, if it is one of files.
fn position(split: &[u8]) -> Value {
    own::<FileSplit>(split).map_or_else(|| hex(split), |split| json!(split.to_string()))
}

/// One of the engine's own values: a version byte, then postcard, with nothing behind.
fn own<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    let (version, rest) = bytes.split_first()?;
    match postcard::take_from_bytes(rest) {
        Ok((value, [])) if *version == VERSION => Some(value),
        Ok(_) | Err(_) => None,
    }
}

fn hex(bytes: &[u8]) -> Value {
    json!(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
}
