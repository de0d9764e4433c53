//! Manifests and state are what was stored: every hash and every checksum is computed again.
//!
//! The job may be running, and retire what is being looked at. So what is missing is a finding only if, after it was missed, the job still
//! needs it.

use std::collections::{BTreeMap, BTreeSet};

use staunch_format::block::BlockReader;
use staunch_format::ledger::Sealed;
use staunch_format::manifest::{DatabaseFile, Manifest, Segment};
use staunch_types::{Epoch, Error, Result};

use super::Report;
use crate::job_folder::{JobFolder, Ledger, Stored};
use crate::options::Epochs;

/// A stretch of an object: its path, first byte, bytes and checksum.
type Stretch = (String, u64, u64, u32);

/// Reads all manifests of the chosen epochs, and all state that they name.
///
/// # Errors
/// `Restart` when something cannot be read that is there.
pub(super) fn check(folder: &JobFolder, ledger: &Ledger, epochs: Epochs, report: &mut Report) -> Result<BTreeMap<Epoch, Manifest>> {
    let (mut manifests, mut intact) = (BTreeMap::new(), BTreeSet::new());
    for sealed in ledger.seals().filter(|s| epochs.contains(s.attempt.epoch)) {
        let epoch = sealed.attempt.epoch;
        match folder.manifest(sealed)? {
            Stored::Intact(manifest) => {
                report.manifests.intact += 1;
                let damages = state(folder, &manifest, &mut intact, report)?;
                if damages.is_empty() || !matches!(folder.manifest(sealed)?, Stored::Absent) {
                    damages.into_iter().for_each(|error| report.find(error));
                }
                manifests.insert(epoch, *manifest);
            }
            Stored::Damaged(error) => report.find(error),
            Stored::Absent if is_needed(ledger, sealed) && is_needed(&folder.ledger()?, sealed) => {
                report.find(folder.damaged("C304", format!("the manifest of epoch {epoch} is missing"), &sealed.manifest.path));
            }
            Stored::Absent => report.manifests.retired += 1,
        }
    }
    Ok(manifests)
}

/// Whether the job never removes a manifest: that of the newest epoch, and of one with output to commit.
fn is_needed(ledger: &Ledger, sealed: &Sealed) -> bool {
    let epoch = sealed.attempt.epoch;
    let in_doubt = !sealed.committables.is_empty() && !ledger.committed().contains(&epoch);
    in_doubt || ledger.seals().next_back().is_some_and(|newest| newest.attempt.epoch == epoch)
}

/// Reads all state of a manifest that is not among the `intact`; what is not as it was stored.
fn state(folder: &JobFolder, manifest: &Manifest, intact: &mut BTreeSet<Stretch>, report: &mut Report) -> Result<Vec<Error>> {
    let mut damages = Vec::new();
    for operator in &manifest.operators {
        for (task, state) in operator.tasks.iter().flat_map(|t| t.states.iter().map(move |s| (t.task, s))) {
            for segment in &state.segments {
                let stretch = (segment.path.clone(), segment.offset, segment.length, segment.crc);
                if intact.contains(&stretch) {
                    continue;
                }
                match damage(folder, segment, &state.name)? {
                    None => {
                        report.state.segments += 1;
                        report.state.bytes += segment.length;
                        intact.insert(stretch);
                    }
                    Some(why) => {
                        let what = format!("state of epoch {} is not what was stored: {why}", segment.epoch);
                        let place = format!("operator={} state={} task={task} offset={}", operator.name, state.name, segment.offset);
                        damages.push(folder.damaged("C306", what, &segment.path).at(place));
                    }
                }
            }
        }
        for (task, file) in operator.tasks.iter().flat_map(|t| t.database.iter().flat_map(|d| &d.files).map(move |f| (t.task, f))) {
            let stretch = (file.path.clone(), 0, file.length, file.crc);
            if intact.contains(&stretch) {
                continue;
            }
            match file_damage(folder, file)? {
                None => {
                    report.state.segments += 1;
                    report.state.bytes += file.length;
                    intact.insert(stretch);
                }
                Some(why) => {
                    let place = format!("operator={} task={task} file={}", operator.name, file.name);
                    damages
                        .push(folder.damaged("C306", format!("a file of a database is not what was stored: {why}"), &file.path).at(place));
                }
            }
        }
    }
    Ok(damages)
}

/// What is wrong with a file of a database.
fn file_damage(folder: &JobFolder, file: &DatabaseFile) -> Result<Option<String>> {
    /// Bytes read at once.
    const PIECE_BYTES: u64 = 8 << 20;
    let (mut at, mut crc) = (0, 0);
    while at < file.length {
        let Some(bytes) = folder.read(&file.path, at, PIECE_BYTES.min(file.length - at))? else {
            return Ok(Some("the object is missing".into()));
        };
        if bytes.is_empty() {
            return Ok(Some(format!("expected {} bytes, found {at}", file.length)));
        }
        crc = DatabaseFile::crc_of(crc, &bytes);
        at += bytes.len() as u64;
    }
    Ok((crc != file.crc).then(|| "its checksum is another".into()))
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
