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
/// Bytes rewritten at least, so that a small state is whole in each of its segments. Few in tests, whose states are all small.
const REWRITE_BYTES_MIN: usize = if cfg!(test) { 64 } else { 16 << 10 };

/// The chain of a state. `None` as a place means the beginning.
pub(super) struct Chain<P> {
    confirmed: Link<P>,
    /// What is confirmed once an epoch is; `None` for a snapshot that was given up. In order, the latest freezes.
    recent: VecDeque<(Epoch, Option<Link<P>>)>,
}

/// What a chain must know of a state to decide how much a snapshot rewrites.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    /// Entries that changed in the epoch before.
    pub(super) changed: usize,
    /// Entries.
    pub(super) live: usize,
    /// Bytes of an entry, on average; 0 if not known.
    pub(super) entry_bytes: usize,
}

impl Load {
    /// Slots to be rewritten when the chain has so many segments.
    fn slots_to_rewrite(self, segments: usize) -> usize {
        let slots_min = REWRITE_BYTES_MIN / self.entry_bytes.max(1);
        let for_changes = if self.changed == 0 { 0 } else { (self.changed / CHANGES_PER_REWRITE).max(slots_min) };
        let for_length = if segments > SEGMENTS_LONG { self.live / LONG_SHARE + 1 } else { 0 };
        for_changes + for_length
    }
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

    /// Begins a snapshot that writes the changes since `confirmed` and rewrites a stretch. `walk` goes a number of slots on from
    /// a place, decides so what is rewritten, and returns the place after them, or `None` for the end.
    pub(super) fn freeze(&mut self, epoch: Epoch, load: Load, walk: impl FnOnce(Option<P>, usize) -> Option<P>) {
        let mut link = self.confirmed.clone();
        link.epoch = epoch;
        link.is_written = false;
        link.segments.push(epoch);
        let slots = load.slots_to_rewrite(link.segments.len());
        // Without entries there is nothing left to rewrite, and without segments every entry is written as a change.
        let is_trivial = load.live == 0 || self.confirmed.segments.is_empty();
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
            self.recent.iter_mut().filter(|(recent, _)| *recent < epoch).for_each(|(_, link)| *link = None);
        }
    }

    /// The epochs whose segments the latest snapshot needs, its own included.
    pub(super) fn segments(&self) -> &[Epoch] {
        match self.recent.back() {
            Some((_, Some(link))) => &link.segments,
            Some((_, None)) | None => &self.confirmed.segments,
        }
    }

    /// Whether a later snapshot may need the segment of an epoch.
    pub(super) fn retains(&self, epoch: Epoch) -> bool {
        let recent = self.recent.iter().filter_map(|(_, link)| link.as_ref());
        std::iter::once(&self.confirmed).chain(recent).any(|link| link.segments.contains(&epoch))
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A state of as many slots as its place can reach.
    struct State {
        chain: Chain<usize>,
        slots: usize,
        epoch: u64,
    }

    impl State {
        fn new(slots: usize) -> State {
            State { chain: Chain::new(), slots, epoch: 0 }
        }

        /// Takes a snapshot in which so many entries changed; returns the slots it rewrites.
        fn snapshot(&mut self, changed: usize) -> std::ops::Range<usize> {
            self.epoch += 1;
            let mut rewritten = 0..0;
            let load = Load { changed, live: self.slots, entry_bytes: REWRITE_BYTES_MIN };
            self.chain.freeze(Epoch(self.epoch), load, |place, slots| {
                rewritten = place.unwrap_or(0)..(place.unwrap_or(0) + slots).min(self.slots);
                (rewritten.end < self.slots).then_some(rewritten.end)
            });
            self.chain.written(false);
            rewritten
        }

        fn confirm(&mut self) {
            self.chain.confirm(Epoch(self.epoch));
        }

        fn segments(&self) -> Vec<u64> {
            self.chain.segments().iter().map(|epoch| epoch.0).collect()
        }
    }

    #[test]
    fn segments_from_before_a_complete_cycle_are_dropped() {
        let mut state = State::new(10);
        for (rewritten, segments) in [
            (0..0, vec![1]),
            (0..4, vec![1, 2]),
            (4..8, vec![1, 2, 3]),
            (8..10, vec![2, 3, 4]),
            (0..4, vec![2, 3, 4, 5]),
            (4..8, vec![2, 3, 4, 5, 6]),
            (8..10, vec![5, 6, 7]),
        ] {
            assert_eq!(state.snapshot(8), rewritten);
            assert_eq!(state.segments(), segments);
            state.confirm();
            let retained: Vec<u64> = (0..10).filter(|epoch| state.chain.retains(Epoch(*epoch))).collect();
            assert_eq!(retained, segments);
        }
    }

    #[test]
    fn a_snapshot_that_is_not_confirmed_does_not_count() {
        let mut state = State::new(10);
        state.snapshot(8);
        state.confirm();
        assert_eq!(state.snapshot(8), 0..4);
        assert_eq!(state.snapshot(8), 0..4);
        assert_eq!(state.segments(), [1, 3]);
        assert!(state.chain.retains(Epoch(2)), "it may still be confirmed");
        state.chain.confirm(Epoch(2));
        assert_eq!(state.chain.confirmed(), Epoch(2));
        assert_eq!(state.snapshot(8), 4..8);
        assert_eq!(state.segments(), [1, 2, 4]);
        state.chain.abandon();
        assert_eq!(state.segments(), [1, 2]);
        state.chain.confirm(Epoch(4));
        assert_eq!(state.chain.confirmed(), Epoch(2));
    }

    #[test]
    fn an_epoch_that_comes_too_late_is_never_taken_as_confirmed() {
        let mut state = State::new(10);
        for _ in 0..=UNCONFIRMED_MAX {
            state.snapshot(8);
        }
        state.chain.confirm(Epoch(1));
        assert_eq!(state.chain.confirmed(), Epoch(0));
        state.chain.confirm(Epoch(2));
        assert_eq!(state.chain.confirmed(), Epoch(2));
    }

    #[test]
    fn an_epoch_whose_snapshot_is_not_complete_cannot_be_confirmed() {
        let mut chain: Chain<usize> = Chain::new();
        chain.freeze(Epoch(1), Load { changed: 0, live: 10, entry_bytes: 0 }, |place, _| place);
        chain.confirm(Epoch(1));
        assert_eq!(chain.confirmed(), Epoch(0));
        chain.written(false);
        chain.confirm(Epoch(1));
        assert_eq!(chain.confirmed(), Epoch(1));
    }

    #[test]
    fn the_chain_of_a_state_that_hardly_changes_stays_short() {
        let mut state = State::new(100_000);
        for _ in 0..2_000 {
            state.snapshot(1);
            state.confirm();
            assert!(state.segments().len() <= 3 * SEGMENTS_LONG, "{}", state.segments().len());
        }
    }

    #[test]
    fn an_empty_snapshot_has_no_segment() {
        let mut state = State::new(10);
        state.snapshot(8);
        state.confirm();
        state.chain.freeze(Epoch(2), Load { changed: 0, live: 10, entry_bytes: 0 }, |place, _| place);
        state.chain.written(true);
        assert_eq!(state.segments(), [1]);
    }
}
