//! Who does which part: key groups and splits to tasks, at a start, a restore and a rescale.
//!
//! Owns: the assignment. Does not own: finding splits, reading them, moving state. Events come from the enumerator and from readers;
//! effects go to readers. Key-group ranges are a pure function of count and parallelism.
//!
//! Invariants:
//! 1. Every key group belongs to exactly one task, and every known, unfinished split to at most one; to exactly one as soon as tasks ask.
//! 2. The same facts and events give the same assignment.
//! 3. What was being read goes to readers at once after a restore, in both modes: while it waited, nobody would hold the watermark back for
//!    it, and its records would be late.
//! 4. In mode [`Mode::Eager`], tasks differ by at most one in the splits they were given, as far as restored splits allow.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use staunch_types::{KeyGroupCount, KeyGroupRange, Tick};

use crate::Count;
use crate::mutation::{Mutation, broken};

/// The key-group ranges of all tasks of a chain, in order; together they are all groups, each once.
#[must_use]
pub fn key_group_ranges(groups: KeyGroupCount, parallelism: u32) -> Vec<KeyGroupRange> {
    (0..parallelism).map(|index| groups.range_of(index, parallelism)).collect()
}

/// The old tasks whose snapshots a task must read to restore its key groups after a change of parallelism.
#[must_use]
pub fn restored_from(groups: KeyGroupCount, index: u32, parallelism: u32, parallelism_before: u32) -> Range<u32> {
    let range = groups.range_of(index, parallelism);
    let overlaps = |old: &u32| {
        let old = groups.range_of(*old, parallelism_before);
        !old.is_empty() && !range.is_empty() && old.overlaps(range)
    };
    let first = (0..parallelism_before).find(overlaps).unwrap_or(0);
    let end = (first..parallelism_before).rfind(overlaps).map_or(first, |last| last + 1);
    first..end
}

/// When splits are given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// As soon as they are known, to the task with the fewest: for splits without end, such as partitions.
    Eager,
    /// One at a time, to the task that asks: for splits with an end, such as files.
    OnRequest,
}

/// What happened. `S` names a split; its order decides ties.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event<S> {
    /// Splits were found; known ones are ignored.
    Found {
        /// The splits.
        splits: Vec<S>,
    },
    /// No more splits will be found.
    SearchEnded,
    /// A task has nothing to read. Ignored in mode `Eager`.
    Requested {
        /// Index of the task in its chain.
        task: u32,
    },
    /// A task has read a split to its end.
    Finished {
        /// Index of the task in its chain.
        task: u32,
        /// The split.
        split: S,
    },
}

/// What must be done.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect<S> {
    /// Give a split to a task: from its position in the snapshot, or from its start if it is new.
    Assign {
        /// Index of the task in its chain.
        task: u32,
        /// The split.
        split: S,
    },
    /// Tell a task that no split will follow those it has.
    NoMoreSplits {
        /// Index of the task in its chain.
        task: u32,
    },
}

/// What the enumerator and the readers had in their snapshots.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Facts<S> {
    /// Every split ever found, in the enumerator's snapshot or a reader's. A split that only a reader knows was assigned after the
    /// enumerator's part of the snapshot was taken.
    pub known: BTreeSet<S>,
    /// Those read to their end.
    pub finished: BTreeSet<S>,
    /// Those that a reader had and has not read to their end.
    pub begun: BTreeSet<S>,
    /// Tasks that read now.
    pub parallelism: u32,
}

impl<S> Default for Facts<S> {
    fn default() -> Self {
        Facts { known: BTreeSet::new(), finished: BTreeSet::new(), begun: BTreeSet::new(), parallelism: 1 }
    }
}

/// The splits of one source.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Splits<S: Ord> {
    mode: Mode,
    known: BTreeSet<S>,
    finished: BTreeSet<S>,
    unassigned: BTreeSet<S>,
    /// Those of the unassigned that were being read before.
    begun: BTreeSet<S>,
    tasks: BTreeMap<u32, Task<S>>,
    search_ended: bool,
    stale: Count,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Task<S: Ord> {
    reading: BTreeSet<S>,
    asks: bool,
    told_the_end: bool,
}

impl<S: Ord + Clone + std::fmt::Debug> Splits<S> {
    /// The splits at a start, a restore or a rescale: nobody reads anything yet. Call [`Self::step`] with what the search finds first,
    /// be it nothing, to have restored splits given out.
    #[must_use]
    pub fn recover(facts: Facts<S>, mode: Mode) -> Splits<S> {
        assert!(facts.parallelism > 0, "a source has at least one task");
        let task = || Task { reading: BTreeSet::new(), asks: false, told_the_end: false };
        Splits {
            mode,
            unassigned: facts.known.difference(&facts.finished).cloned().collect(),
            begun: facts.begun.intersection(&facts.known).filter(|split| !facts.finished.contains(split)).cloned().collect(),
            known: facts.known.union(&facts.finished).cloned().collect(),
            finished: facts.finished,
            tasks: (0..facts.parallelism).map(|index| (index, task())).collect(),
            search_ended: false,
            stale: Count::default(),
        }
    }

    /// Takes one event.
    ///
    /// # Panics
    /// On a task that does not exist.
    pub fn step(&mut self, _now: Tick, event: Event<S>, out: &mut Vec<Effect<S>>) {
        match event {
            Event::Found { splits } => {
                for split in splits {
                    if self.known.insert(split.clone()) {
                        self.unassigned.insert(split);
                    }
                }
            }
            Event::SearchEnded => self.search_ended = true,
            Event::Requested { task } => self.task(task).asks = true,
            Event::Finished { task, split } => {
                if self.task(task).reading.remove(&split) {
                    self.finished.insert(split);
                } else {
                    self.stale.add_one();
                }
            }
        }
        self.assign(out);
    }

    /// Never.
    #[must_use]
    pub fn deadline(&self) -> Option<Tick> {
        None
    }

    /// Every split ever found, for the enumerator's snapshot. The readers' snapshots say which are finished and how far the others are.
    #[must_use]
    pub fn known(&self) -> &BTreeSet<S> {
        &self.known
    }

    /// Splits no task has.
    #[must_use]
    pub fn unassigned(&self) -> usize {
        self.unassigned.len()
    }

    /// Repeated ends that were ignored.
    #[must_use]
    pub fn stale_events(&self) -> u64 {
        self.stale.get()
    }

    fn assign(&mut self, out: &mut Vec<Effect<S>>) {
        while !self.unassigned.is_empty() {
            let at_once = self.mode == Mode::Eager || !self.begun.is_empty();
            let candidates = self.tasks.iter_mut().filter(|(_, task)| at_once || task.asks);
            let Some((&index, task)) = candidates.min_by_key(|(index, task)| (task.reading.len(), **index)) else { break };
            let Some(split) = self.begun.pop_first().or_else(|| self.unassigned.first().cloned()) else { break };
            self.unassigned.remove(&split);
            task.reading.insert(split.clone());
            task.asks = false;
            if broken(Mutation::SplitTwice) {
                out.push(Effect::Assign { task: (index + 1) % self.tasks.len() as u32, split: split.clone() });
            }
            out.push(Effect::Assign { task: index, split });
        }
        if self.search_ended && self.unassigned.is_empty() {
            for (&task, known) in self.tasks.iter_mut().filter(|(_, task)| !task.told_the_end) {
                known.told_the_end = true;
                out.push(Effect::NoMoreSplits { task });
            }
        }
    }

    fn task(&mut self, task: u32) -> &mut Task<S> {
        let count = self.tasks.len();
        self.tasks.get_mut(&task).unwrap_or_else(|| panic!("unknown task={task} of {count}"))
    }
}
