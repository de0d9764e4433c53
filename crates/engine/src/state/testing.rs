//! What the tests of state share: snapshots in memory, and what their records mean.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize, Serializer};
use staunch_format::block::{BlockReader, BlockWriter, Change};
use staunch_format::value::Decoder;
use staunch_types::{Epoch, KeyGroupCount, KeyGroupRange, Result};

use super::codec::{Key, SharedCodec, StateValue};
use super::keyed::{self, KeyedStates, Scope};
use super::table::StateTable;
use super::writer::{Budget, Progress, SnapshotWriter};

/// A value that refuses to be serialised.
#[derive(Deserialize)]
pub(crate) struct Refuses;

impl Serialize for Refuses {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("refused"))
    }
}

/// Eight key groups, all of one task.
pub(crate) fn scope() -> Scope {
    let groups = KeyGroupCount::new(8).expect("valid");
    Scope { groups, range: groups.range_of(0, 1) }
}

/// The blocks of one epoch.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub(crate) epoch: Epoch,
    pub(crate) blocks: Vec<Vec<u8>>,
}

/// A record of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Record<K, V> {
    Put(K, V),
    Delete(K),
    Clear,
}

/// The records of a block with their namespaces, group by group.
pub(crate) fn records<K: DeserializeOwned, V: DeserializeOwned>(block: &[u8], range: KeyGroupRange) -> Vec<(i64, Record<K, V>)> {
    let block = BlockReader::open(block).expect("sound");
    let (keys, values) = (Decoder::new(block.key_schema()), Decoder::new(block.value_schema()));
    let record = |change: Change<'_>| match change {
        Change::Put { key, value } => Record::Put(keys.decode(key).expect("a key"), values.decode(value).expect("a value")),
        Change::Delete { key } => Record::Delete(keys.decode(key).expect("a key")),
        Change::Clear => Record::Clear,
    };
    block.entries(range).map(|entry| entry.expect("sound")).map(|entry| (entry.namespace, record(entry.change))).collect()
}

/// The open block of a table that is drained by itself.
pub(crate) struct TableBlock {
    block: BlockWriter,
}

impl TableBlock {
    pub(crate) fn new() -> TableBlock {
        TableBlock { block: BlockWriter::new("table", scope().range) }
    }

    pub(crate) fn drain<K: Key, V: StateValue>(&mut self, table: &mut StateTable<K, V>, entries: usize) -> Result<Progress> {
        let mut budget = Budget::new(entries, usize::MAX);
        table.drain(7, &mut SnapshotWriter::new(&mut self.block, scope().groups, &mut budget))
    }

    pub(crate) fn records<K: DeserializeOwned, V: DeserializeOwned>(mut self, codec: &SharedCodec) -> Vec<Record<K, V>> {
        let (keys, values) = codec.lock().schemas();
        let block = self.block.finish(&keys, &values);
        records(&block, scope().range).into_iter().map(|(_, record)| record).collect()
    }
}

/// The entries that records leave when they are applied in order.
pub(crate) fn replay<K: Ord, V>(records: impl IntoIterator<Item = Record<K, V>>) -> BTreeMap<K, V> {
    let mut entries = BTreeMap::new();
    for record in records {
        match record {
            Record::Put(key, value) => {
                entries.insert(key, value);
            }
            Record::Delete(key) => {
                entries.remove(&key);
            }
            Record::Clear => entries.clear(),
        }
    }
    entries
}

/// An operation of a test world, or a step of the life of its snapshots.
#[derive(Clone, Debug)]
pub(crate) enum Step<O> {
    Change(O),
    Freeze,
    Drain { entries: usize, bytes: usize },
    Abandon,
    Confirm { nth: usize },
    Restore,
    Tidy,
}

/// Steps in which changes prevail.
pub(crate) fn steps<O: Clone + std::fmt::Debug + 'static>(
    operation: impl Strategy<Value = O> + 'static,
    count: usize,
) -> impl Strategy<Value = Vec<Step<O>>> {
    let entries = prop_oneof![Just(1usize), 2..9usize, Just(10_000)];
    let bytes = prop_oneof![1 => Just(1usize), 3 => Just(usize::MAX)];
    let step = prop_oneof![
        16 => operation.prop_map(Step::Change),
        3 => Just(Step::Freeze),
        8 => (entries, bytes).prop_map(|(entries, bytes)| Step::Drain { entries, bytes }),
        1 => Just(Step::Abandon),
        2 => (0..3usize).prop_map(|nth| Step::Confirm { nth }),
        1 => Just(Step::Restore),
        1 => Just(Step::Tidy),
    ];
    prop::collection::vec(step, 1..count)
}

/// States beside a model: whatever is done to both, every complete snapshot restores to the model at its barrier.
pub(crate) trait Subject {
    type Key;
    type States: KeyedStates<Self::Key>;
    type Model: Clone + PartialEq + std::fmt::Debug + Default;
    type Operation: Clone + std::fmt::Debug;

    fn new_states(scope: Scope) -> Self::States;
    /// Does the same to both, and compares what they return.
    fn apply(states: &mut Self::States, model: &mut Self::Model, operation: Self::Operation);
    /// All that the states hold of some key groups.
    fn read(states: &mut Self::States) -> Self::Model;
    /// The part of a model that lies in some key groups.
    fn part(model: &Self::Model, scope: Scope) -> Self::Model;
}

#[derive(Clone, Debug)]
struct Snapshot<M> {
    epoch: Epoch,
    at_barrier: M,
    /// For each stored state the segments it is restored from.
    segments: BTreeMap<String, Vec<Segment>>,
}

/// A test of a subject with any steps.
macro_rules! check_subject {
    ($subject:ty, $operation:expr, $cases:expr, $name:ident) => {
        proptest::proptest! {
            // More of them when PROPTEST_CASES says so.
            #![proptest_config(proptest::prelude::ProptestConfig::with_cases($cases.max(proptest::prelude::ProptestConfig::default().cases)))]

            #[test]
            fn $name(steps in $crate::state::testing::steps($operation, 150)) {
                $crate::state::testing::World::<$subject>::new().run(steps);
            }
        }
    };
}
pub(crate) use check_subject;

/// Runs steps on a subject.
pub(crate) struct World<S: Subject> {
    states: S::States,
    model: S::Model,
    epoch: Epoch,
    /// All segments that the current run may still refer to.
    segments: BTreeMap<String, Vec<Segment>>,
    in_progress: Option<Snapshot<S::Model>>,
    complete: Vec<Snapshot<S::Model>>,
    confirmed: Option<Snapshot<S::Model>>,
}

impl<S: Subject> World<S> {
    pub(crate) fn new() -> World<S> {
        World {
            states: S::new_states(scope()),
            model: S::Model::default(),
            epoch: Epoch(0),
            segments: BTreeMap::new(),
            in_progress: None,
            complete: Vec::new(),
            confirmed: None,
        }
    }

    pub(crate) fn run(&mut self, steps: Vec<Step<S::Operation>>) {
        for step in steps {
            self.step(step);
            assert_eq!(S::read(&mut self.states), self.model);
        }
        self.step(Step::Freeze);
        while self.in_progress.is_some() {
            self.step(Step::Drain { entries: 3, bytes: usize::MAX });
        }
    }

    pub(crate) fn step(&mut self, step: Step<S::Operation>) {
        match step {
            Step::Change(operation) => S::apply(&mut self.states, &mut self.model, operation),
            Step::Freeze => {
                self.epoch = self.epoch.next();
                keyed::freeze(&mut self.states, self.epoch);
                self.in_progress = Some(Snapshot { epoch: self.epoch, at_barrier: self.model.clone(), segments: BTreeMap::new() });
            }
            Step::Drain { entries, bytes } => self.drain(Budget::new(entries, bytes)),
            Step::Abandon => {
                keyed::abandon(&mut self.states);
                self.in_progress = None;
            }
            Step::Confirm { nth } => {
                if nth < self.complete.len() {
                    let snapshot = self.complete.drain(..=nth).next_back().expect("not empty");
                    keyed::confirm(&mut self.states, snapshot.epoch);
                    self.confirmed = Some(snapshot);
                }
            }
            Step::Restore => self.restore_confirmed(),
            Step::Tidy => {
                let _ = self.states.tidy(5);
            }
        }
    }

    fn drain(&mut self, mut budget: Budget) {
        let Some(snapshot) = &mut self.in_progress else { return };
        let epoch = snapshot.epoch;
        let mut take = |state: &str, block: Vec<u8>| {
            let segments = self.segments.entry(state.into()).or_default();
            match segments.last_mut().filter(|segment| segment.epoch == epoch) {
                Some(segment) => segment.blocks.push(block),
                None => segments.push(Segment { epoch, blocks: vec![block] }),
            }
        };
        if keyed::drain(&mut self.states, &mut budget, &mut take).expect("written") == Progress::More {
            return;
        }
        let Some(mut snapshot) = self.in_progress.take() else { return };
        let all = &mut self.segments;
        self.states.each(&mut |state| {
            let needed = state.segments();
            let stored = all.entry(state.name().into()).or_default();
            stored.retain(|segment| state.retains(segment.epoch));
            let kept: Vec<Segment> = stored.iter().filter(|segment| needed.contains(&segment.epoch)).cloned().collect();
            assert_eq!(kept.iter().map(|segment| segment.epoch).collect::<Vec<_>>(), needed, "every segment is there");
            snapshot.segments.insert(state.name().into(), kept);
        });
        check_restore::<S>(&snapshot);
        self.complete.push(snapshot);
    }

    fn restore_confirmed(&mut self) {
        self.states = S::new_states(scope());
        self.in_progress = None;
        self.complete.clear();
        self.segments.clear();
        self.model = S::Model::default();
        if let Some(snapshot) = &self.confirmed {
            load::<S>(&mut self.states, snapshot);
            self.model = snapshot.at_barrier.clone();
            self.segments = snapshot.segments.clone();
        }
    }
}

fn load<S: Subject>(states: &mut S::States, snapshot: &Snapshot<S::Model>) {
    for (name, segments) in &snapshot.segments {
        for segment in segments {
            for block in &segment.blocks {
                let block = BlockReader::open(block).expect("sound");
                assert_eq!(block.state(), name);
                assert!(keyed::restore(states, segment.epoch, &block).expect("of its types"));
            }
        }
    }
    states.restored().expect("of its types");
}

/// Restores a snapshot as a whole, and in three parts.
fn check_restore<S: Subject>(snapshot: &Snapshot<S::Model>) {
    let whole = scope();
    let parts = (0..3).map(|index| Scope { range: whole.groups.range_of(index, 3), ..whole });
    for scope in std::iter::once(whole).chain(parts) {
        let mut states = S::new_states(scope);
        load::<S>(&mut states, snapshot);
        assert_eq!(S::read(&mut states), S::part(&snapshot.at_barrier, scope), "epoch {} groups {}", snapshot.epoch, scope.range);
    }
}
