//! Keyed state in memory, on its way into blocks of a snapshot and back.
//!
//! Owns: the writing of blocks in slices, the segments of each state, the loading after a restore.
//! Does not own: the states and what of them a snapshot writes (state), the object that blocks go to (checkpoint).
//!
//! Invariants:
//! 1. A state's segments, in the order of their epochs, restore the state at the barrier of the last of them.
//! 2. A segment of an epoch that was given up is never used: the state names the epochs that it needs.

use std::collections::BTreeMap;

use staunch_format::block::BlockReader;
use staunch_types::{Epoch, Error, ErrorKind, KeyGroupRange, Name, Result};

use super::database::other_backend;
use crate::checkpoint::{Loader, Segment};
use crate::job::TaskBuild;
use crate::operator::{Activity, TaskContext};
use crate::state::keyed::{self, KeyedStates};
use crate::state::writer::{Budget, Progress};

/// Entries that one slice writes.
pub(super) const SLICE_ENTRIES: usize = 2048;
/// Bytes that one slice writes.
pub(super) const SLICE_BYTES: usize = 512 * 1024;
/// Entries of dropped state that one slice frees.
pub(super) const TIDY_ENTRIES: usize = 4096;

/// Keeps the states of one operator of one task, all of which are in memory.
pub(super) struct Blocks {
    operator: Name,
    range: KeyGroupRange,
    segments: BTreeMap<String, Vec<Segment>>,
    writing: Option<Epoch>,
    loading: Option<Loader>,
}

impl Blocks {
    /// Keeps the states of the operator that is being built; what is stored of them is loaded by [`Self::work`].
    ///
    /// # Errors
    /// `Invalid` when the checkpoint is one of databases.
    pub(super) fn new(operator: &Name, build: &TaskBuild<'_>) -> Result<Blocks> {
        let restored = build.restore(operator);
        if let Some(database) = restored.databases.first() {
            return Err(other_backend(&database.kind, "memory").at(format!("operator={operator}")));
        }
        let segments = restored.states;
        let all: Vec<Segment> = segments.values().flatten().cloned().collect();
        let loading = (!all.is_empty()).then(|| build.loader(all));
        Ok(Blocks { operator: operator.clone(), range: build.range(), segments, writing: None, loading })
    }

    /// Whether the state is there: no record may be taken in before.
    #[inline]
    #[must_use]
    pub(super) fn is_loaded(&self) -> bool {
        self.loading.is_none()
    }

    /// The barrier of an epoch.
    pub(super) fn barrier<K>(&mut self, epoch: Epoch, states: &mut dyn KeyedStates<K>, context: &mut TaskContext) {
        keyed::freeze(states, epoch);
        self.writing = Some(epoch);
        context.expect_more();
    }

    /// The epoch is durable.
    pub(super) fn durable<K>(&mut self, epoch: Epoch, states: &mut dyn KeyedStates<K>) {
        keyed::confirm(states, epoch);
    }

    /// The epoch was given up.
    pub(super) fn abandoned<K>(&mut self, epoch: Epoch, states: &mut dyn KeyedStates<K>) {
        if self.writing.is_some_and(|e| e <= epoch) {
            self.writing = None;
            keyed::abandon(states);
        }
    }

    /// Loads, writes or tidies on.
    ///
    /// # Errors
    /// `Corrupt` or `Invalid` when stored state does not fit; as the states report.
    pub(super) fn work<K>(&mut self, states: &mut dyn KeyedStates<K>, context: &mut TaskContext) -> Result<Activity> {
        if self.loading.is_some() {
            return self.load(states);
        }
        if let Some(epoch) = self.writing {
            return self.write(epoch, states, context);
        }
        Ok(Activity { more: states.tidy(TIDY_ENTRIES), wake_at: None })
    }

    fn load<K>(&mut self, states: &mut dyn KeyedStates<K>) -> Result<Activity> {
        let Some(loader) = &mut self.loading else { return Ok(Activity::NOTHING) };
        let activity = load_on(loader, &self.operator, states)?;
        if loader.is_done() {
            self.loading = None;
            states.restored().map_err(|error| error.at(format!("operator={}", self.operator)))?;
        }
        Ok(activity)
    }

    fn write<K>(&mut self, epoch: Epoch, states: &mut dyn KeyedStates<K>, context: &mut TaskContext) -> Result<Activity> {
        let Some(snapshot) = context.snapshot.as_mut().filter(|s| s.epoch == epoch) else {
            // The task gave the epoch up by itself: the store refused.
            self.abandoned(epoch, states);
            return Ok(Activity::NOTHING);
        };
        if !snapshot.upload.room() {
            return Ok(Activity::NOTHING);
        }
        let (segments, range, upload) = (&mut self.segments, self.range, &mut snapshot.upload);
        let mut sink = |state: &str, block: Vec<u8>| {
            let segment = upload.append(block, range);
            match segments.get_mut(state) {
                Some(all) => all.push(segment),
                None => drop(segments.insert(state.to_owned(), vec![segment])),
            }
        };
        if keyed::drain(states, &mut Budget::new(SLICE_ENTRIES, SLICE_BYTES), &mut sink)? == Progress::More {
            return Ok(Activity::MORE);
        }
        self.writing = None;
        let part = context.part(&self.operator);
        if let Some(part) = part {
            states.each(&mut |state| {
                if let Some(segments) = self.segments.get_mut(state.name()) {
                    // A segment that this epoch does without may be needed by the next, once its own epoch is durable.
                    segments.retain(|s| state.retains(s.epoch));
                    let needed = segments.iter().filter(|s| state.segments().contains(&s.epoch));
                    part.states.insert(state.name().to_owned(), needed.cloned().collect());
                }
            });
        }
        context.part_finished(epoch);
        Ok(Activity::MORE)
    }
}

/// Applies the next block, if it is there.
///
/// # Errors
/// `Corrupt` or `Invalid` when it does not fit the states; as the loader reports.
pub(super) fn load_on<K>(loader: &mut Loader, operator: &Name, states: &mut dyn KeyedStates<K>) -> Result<Activity> {
    if let Some((segment, bytes)) = loader.poll()? {
        let place = || format!("operator={operator} object={} offset={}", segment.path, segment.offset);
        let block = BlockReader::open(&bytes).map_err(|e| e.at(place()))?;
        if !keyed::restore(states, segment.epoch, &block).map_err(|e| e.at(place()))? {
            return Err(unknown_state(block.state(), operator).at(place()));
        }
    } else if !loader.is_done() {
        return Ok(Activity::NOTHING);
    }
    Ok(Activity::MORE)
}

pub(super) fn unknown_state(state: &str, operator: &Name) -> Error {
    Error::new(
        ErrorKind::Invalid,
        "S301",
        format!("the checkpoint has a state \"{state}\" of the operator, which the operator no longer has"),
    )
    .data("nothing was changed; the checkpoint is intact")
    .remedy(format!("give the state its name back, or drop all state of the operator with `--allow-lost-state {operator}`"))
}
