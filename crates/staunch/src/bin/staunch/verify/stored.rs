//! Manifests and state are what was stored: every hash and every checksum is computed again.

use std::collections::{BTreeMap, BTreeSet};

use staunch_format::block::BlockReader;
use staunch_format::manifest::{Manifest, Segment};
use staunch_types::{Epoch, Result};

use super::Report;
use crate::epochs::Epochs;
use crate::job_folder::{JobFolder, Ledger, Stored};

/// Reads all manifests of the chosen epochs, and all state that they name.
///
/// # Errors
/// `Restart` when something cannot be read that is there.
pub(super) fn check(folder: &JobFolder, ledger: &Ledger, epochs: Epochs, report: &mut Report) -> Result<BTreeMap<Epoch, Manifest>> {
    let committed = ledger.committed();
    let newest = ledger.seals().next_back().map(|s| s.attempt.epoch);
    let mut manifests = BTreeMap::new();
    for sealed in ledger.seals().filter(|s| epochs.contains(s.attempt.epoch)) {
        let epoch = sealed.attempt.epoch;
        match folder.manifest(sealed)? {
            Stored::Intact(manifest) => {
                report.manifests.intact += 1;
                manifests.insert(epoch, *manifest);
            }
            Stored::Damaged(error) => report.find(error),
            // The job removes those of older epochs, never the newest one nor one with output to commit.
            Stored::Absent if Some(epoch) == newest || !(sealed.committables.is_empty() || committed.contains(&epoch)) => {
                report.find(folder.damaged("C304", format!("the manifest of epoch {epoch} is missing"), &sealed.manifest.path));
            }
            Stored::Absent => report.manifests.retired += 1,
        }
    }
    state(folder, &manifests, report)?;
    Ok(manifests)
}

fn state(folder: &JobFolder, manifests: &BTreeMap<Epoch, Manifest>, report: &mut Report) -> Result<()> {
    let mut seen: BTreeSet<(&str, u64, u64, u32)> = BTreeSet::new();
    for manifest in manifests.values() {
        for operator in &manifest.operators {
            for (task, state) in operator.tasks.iter().flat_map(|t| t.states.iter().map(move |s| (t.task, s))) {
                for segment in &state.segments {
                    if !seen.insert((&segment.path, segment.offset, segment.length, segment.crc)) {
                        continue;
                    }
                    report.state.segments += 1;
                    report.state.bytes += segment.length;
                    if let Some(why) = damage(folder, segment, &state.name)? {
                        let what = format!("state of epoch {} is not what was stored: {why}", segment.epoch);
                        let place = format!("operator={} state={} task={task} offset={}", operator.name, state.name, segment.offset);
                        report.find(folder.damaged("C306", what, &segment.path).at(place));
                    }
                }
            }
        }
    }
    Ok(())
}

/// What is wrong with a segment.
fn damage(folder: &JobFolder, segment: &Segment, state: &str) -> Result<Option<String>> {
    let Some(bytes) = folder.read(&segment.path, segment.offset, segment.length)? else { return Ok(Some("the object is missing".into())) };
    if bytes.len() as u64 != segment.length {
        return Ok(Some(format!("expected {} bytes, found {}", segment.length, bytes.len())));
    }
    if !segment.matches(&bytes) {
        return Ok(Some("its checksum is another".into()));
    }
    Ok(match BlockReader::open(&bytes) {
        Ok(block) if block.state() != state => Some(format!("it is of the state \"{}\"", block.state())),
        Ok(_) => None,
        Err(error) => Some(error.what().to_owned()),
    })
}
