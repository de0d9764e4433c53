//! Which segments a state can be restored from, and which part of it each snapshot writes anew.
//!
//! Owns: the epochs whose segments a snapshot needs, and the place up to which unchanged entries have been written again.
//! Does not own: segments, entries, or how a place is walked to (`P` is a place in the order of the state's slots).
//!
//! A snapshot writes what changed since the last confirmed one; so its chain is that one's and its own epoch. To keep chains
//! short, it also rewrites a stretch of unchanged entries. Once a cycle of stretches has gone through the whole state, all
//! segments from before the cycle are of no use.
//!
//! Invariants:
//! 1. A chain names only epochs that were confirmed when its own was frozen, and its own.
//! 2. Every live entry has been written by an epoch of the chain: changes are dirty until confirmed, and a cycle counts a stretch
//!    only once its epoch is confirmed.
//! 3. An epoch older than the latest [`UNCONFIRMED_MAX`] freezes is never taken as confirmed (tables no longer tell its
//!    changes apart).

use std::collections::VecDeque;

use staunch_types::Epoch;

use super::table::UNCONFIRMED_MAX;

/// Length of a chain from which on a snapshot rewrites more.
const SEGMENTS_LONG: usize = 64;
/// Share of a state that a snapshot rewrites when the chain is long.
const LONG_SHARE: usize = 64;
/// Slots rewritten for each two entries that change in an epoch: one.
const CHANGES_PER_REWRITE: usize = 2;
/// Slots rewritten at least, so that a small state is whole in each of its segments.
const REWRITE_SLOTS_MIN: usize = 256;

/// The chain of a state. `None` as a place means the beginning.
pub(super) struct Chain<P> {
    confirmed: Link<P>,
    /// What is confirmed once an epoch is; `None` for a snapshot that was given up. In order, the latest freezes.
    recent: VecDeque<(Epoch, Option<Link<P>>)>,
}

/// What an epoch leaves behind when it is durable.
#[derive(Clone)]
struct Link<P> {
    epoch: Epoch,
    segments: Vec<Epoch>,
    cycle_start: Epoch,
    place: Option<P>,
    is_written: bool,
}

impl<P: Copy> Chain<P> {
    /// The chain of a state without snapshots.
    pub(super) fn new() -> Chain<P> {
        let nothing = Link { epoch: Epoch(0), segments: Vec::new(), cycle_start: Epoch(0), place: None, is_written: true };
        Chain { confirmed: nothing, recent: VecDeque::new() }
    }

    /// The latest confirmed epoch; 0 if there is none.
    pub(super) fn confirmed(&self) -> Epoch {
        self.confirmed.epoch
    }

    /// Begins a snapshot of a state with `live` entries, of which `changed` changed in the epoch before, that writes the changes
    /// since `confirmed` and rewrites a stretch. `walk` goes a number of slots on from a place, decides so what is
    /// rewritten, and returns the place after them, or `None` for the end.
    pub(super) fn freeze(&mut self, epoch: Epoch, changed: usize, live: usize, walk: impl FnOnce(Option<P>, usize) -> Option<P>) {
        let mut link = self.confirmed.clone();
        link.epoch = epoch;
        link.is_written = false;
        link.segments.push(epoch);
        let slots = self.slots_to_rewrite(changed, live);
        // Without entries there is nothing left to rewrite, and without segments every entry is written as a change.
        let is_trivial = live == 0 || self.confirmed.segments.is_empty();
        if link.place.is_none() {
            link.cycle_start = epoch;
        }
        if is_trivial {
            (link.cycle_start, link.place) = (epoch, None);
        } else if slots > 0 {
            link.place = walk(link.place, slots);
        }
        let is_cycle_complete = is_trivial || slots > 0 && link.place.is_none();
        if is_cycle_complete {
            link.segments.retain(|&segment| segment >= link.cycle_start);
        }
        self.recent.push_back((epoch, Some(link)));
        if self.recent.len() > UNCONFIRMED_MAX {
            self.recent.pop_front();
        }
    }

    fn slots_to_rewrite(&self, changed: usize, live: usize) -> usize {
        let for_changes = if changed == 0 { 0 } else { (changed / CHANGES_PER_REWRITE).max(REWRITE_SLOTS_MIN) };
        let for_length = if self.confirmed.segments.len() > SEGMENTS_LONG { live / LONG_SHARE + 1 } else { 0 };
        for_changes + for_length
    }

    /// The snapshot of the latest freeze is written; `wrote_nothing` if it has no segment.
    pub(super) fn written(&mut self, wrote_nothing: bool) {
        if let Some((epoch, Some(link))) = self.recent.back_mut() {
            link.is_written = true;
            if wrote_nothing {
                link.segments.retain(|segment| segment != epoch);
            }
        }
    }

    /// The snapshot of the latest freeze will never be confirmed.
    pub(super) fn abandon(&mut self) {
        if let Some((_, link)) = self.recent.back_mut() {
            *link = None;
        }
    }

    /// An epoch is durable. Epochs that were given up, or are too old, are as if they had not been.
    pub(super) fn confirm(&mut self, epoch: Epoch) {
        let link = self.recent.iter().filter_map(|(_, link)| link.as_ref()).find(|link| link.epoch == epoch);
        if let Some(link) = link
            && link.is_written
            && link.epoch > self.confirmed.epoch
        {
            self.confirmed = link.clone();
        }
    }

    /// The epochs whose segments the latest snapshot needs, its own included.
    pub(super) fn segments(&self) -> &[Epoch] {
        match self.recent.back() {
            Some((_, Some(link))) => &link.segments,
            Some((_, None)) | None => &self.confirmed.segments,
        }
    }

    /// The state was restored from a segment of an epoch; epochs come in order.
    pub(super) fn restored(&mut self, epoch: Epoch) {
        if self.confirmed.segments.last() != Some(&epoch) {
            assert!(self.confirmed.epoch < epoch, "segments are restored in the order of their epochs");
            self.confirmed.segments.push(epoch);
            self.confirmed.epoch = epoch;
        }
    }
}
