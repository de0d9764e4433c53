use std::collections::BTreeMap;

use proptest::prelude::*;
use staunch_types::{Epoch, stable_hash};

use super::super::testing::{Record, Refuses, TableBlock, replay};
use super::super::writer::Progress;
use super::*;

type Model = BTreeMap<u16, String>;

#[derive(Clone, Debug)]
enum Step {
    Update(u16, u8),
    UpdateExisting(u16, u8),
    Insert(u16, u8),
    Remove(u16),
    Fill { first: u16, count: u16 },
    RemoveMany { first: u16, count: u16 },
    Freeze { rewrite_from: u16, rewrite_slots: u16 },
    Drain { entries: usize },
    Abandon,
    Confirm { nth: usize },
    Restore,
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0..300u16;
    prop_oneof![
        6 => (key.clone(), any::<u8>()).prop_map(|(key, value)| Step::Update(key, value)),
        2 => (key.clone(), any::<u8>()).prop_map(|(key, value)| Step::UpdateExisting(key, value)),
        3 => (key.clone(), any::<u8>()).prop_map(|(key, value)| Step::Insert(key, value)),
        4 => key.clone().prop_map(Step::Remove),
        1 => (key.clone(), 0..200u16).prop_map(|(first, count)| Step::Fill { first, count }),
        1 => (key.clone(), 0..100u16).prop_map(|(first, count)| Step::RemoveMany { first, count }),
        3 => (0..40u16, 0..20u16).prop_map(|(rewrite_from, rewrite_slots)| Step::Freeze { rewrite_from, rewrite_slots }),
        8 => prop_oneof![Just(1usize), 2..9usize, Just(10_000)].prop_map(|entries| Step::Drain { entries }),
        1 => Just(Step::Abandon),
        2 => (0..3usize).prop_map(|nth| Step::Confirm { nth }),
        1 => Just(Step::Restore),
    ]
}

/// A snapshot that was frozen, and the segments a restore of it would read.
#[derive(Clone, Debug)]
struct Snapshot {
    epoch: Epoch,
    at_barrier: Model,
    chain: Vec<Vec<Record<u16, String>>>,
}

/// A table beside its model and the snapshots taken of it.
struct World {
    table: StateTable<u16, String>,
    model: Model,
    epoch: Epoch,
    in_progress: Option<(Snapshot, TableBlock)>,
    complete: Vec<Snapshot>,
    confirmed: Snapshot,
}

impl World {
    fn new() -> World {
        World {
            table: StateTable::new(),
            model: Model::new(),
            epoch: Epoch(0),
            in_progress: None,
            complete: Vec::new(),
            confirmed: Snapshot { epoch: Epoch(0), at_barrier: Model::new(), chain: Vec::new() },
        }
    }

    fn update(&mut self, key: u16, value: u8) {
        let text = value.to_string();
        self.table.update(stable_hash(&key), &key, String::new, |found| found.push_str(&text));
        self.model.entry(key).or_default().push_str(&text);
    }

    fn remove(&mut self, key: u16) {
        assert_eq!(self.table.remove(stable_hash(&key), &key), self.model.remove(&key));
    }

    fn freeze(&mut self, rewrite_from: u16, rewrite_slots: u16) {
        self.epoch = self.epoch.next();
        let from = self.table.iter().nth(usize::from(rewrite_from)).map(|(slot, _, _)| slot);
        let stretch = self.table.stretch_from(from, usize::from(rewrite_slots));
        self.table.freeze(self.epoch, self.confirmed.epoch, stretch.range);
        let snapshot = Snapshot { epoch: self.epoch, at_barrier: self.model.clone(), chain: self.confirmed.chain.clone() };
        self.in_progress = Some((snapshot, TableBlock::new()));
    }

    fn drain(&mut self, entries: usize) {
        let Some((_, block)) = &mut self.in_progress else { return };
        if block.drain(&mut self.table, entries).expect("written") == Progress::Done
            && let Some((mut snapshot, block)) = self.in_progress.take()
        {
            assert!(!self.table.is_draining());
            snapshot.chain.push(block.records(&self.table.codec));
            assert_eq!(replay(snapshot.chain.iter().flatten().cloned()), snapshot.at_barrier, "epoch {}", snapshot.epoch);
            self.complete.push(snapshot);
        }
    }

    fn confirm(&mut self, nth: usize) {
        // Older ones are no longer told apart.
        self.complete.retain(|snapshot| snapshot.epoch.0 + UNCONFIRMED_MAX as u64 > self.epoch.0);
        if nth < self.complete.len() {
            self.confirmed = self.complete.drain(..=nth).next_back().expect("not empty");
        }
    }

    /// Goes on from the last confirmed snapshot, as after a failure.
    fn restore(&mut self) {
        self.table = StateTable::new();
        for record in self.confirmed.chain.iter().flatten() {
            match record {
                Record::Put(key, value) => self.table.restore_put(stable_hash(key), *key, value.clone()),
                Record::Delete(key) => self.table.restore_delete(stable_hash(key), key),
                Record::Clear => unreachable!("a table clears no namespace"),
            }
        }
        self.model = self.confirmed.at_barrier.clone();
        self.in_progress = None;
        self.complete.clear();
    }

    fn apply(&mut self, step: Step) {
        match step {
            Step::Update(key, value) => self.update(key, value),
            Step::UpdateExisting(key, value) => {
                let changed = self.table.update_existing(stable_hash(&key), &key, |found| *found = value.to_string());
                let expected = self.model.get_mut(&key).map(|found| *found = value.to_string());
                assert_eq!(changed, expected);
            }
            Step::Insert(key, value) => {
                let before = self.table.set(stable_hash(&key), &key, value.to_string());
                assert_eq!(before, self.model.insert(key, value.to_string()));
            }
            Step::Remove(key) => self.remove(key),
            Step::Fill { first, count } => (first..first + count).for_each(|key| self.update(key, 1)),
            Step::RemoveMany { first, count } => (first..first + count).for_each(|key| self.remove(key)),
            Step::Freeze { rewrite_from, rewrite_slots } => self.freeze(rewrite_from, rewrite_slots),
            Step::Drain { entries } => self.drain(entries),
            Step::Abandon => {
                self.table.abandon();
                self.in_progress = None;
            }
            Step::Confirm { nth } => self.confirm(nth),
            Step::Restore => self.restore(),
        }
        self.compare();
    }

    fn compare(&self) {
        assert_eq!(self.table.len(), self.model.len());
        let found: Model = self.table.iter().map(|(_, key, value)| (*key, value.clone())).collect();
        assert_eq!(found, self.model);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn a_table_is_a_map_and_its_snapshots_are_the_map_at_the_barrier(steps in prop::collection::vec(step(), 1..120)) {
        let mut world = World::new();
        for step in steps {
            world.apply(step);
        }
        for key in 0..500u16 {
            assert_eq!(world.table.get(stable_hash(&key), &key), world.model.get(&key));
        }
        world.freeze(0, 0);
        while world.in_progress.is_some() {
            world.drain(3);
        }
    }
}

fn drain_all(table: &mut StateTable<u64, u64>) -> Vec<Record<u64, u64>> {
    let mut block = TableBlock::new();
    assert_eq!(block.drain(table, usize::MAX).expect("written"), Progress::Done);
    block.records(&table.codec)
}

fn filled(keys: u64) -> StateTable<u64, u64> {
    let mut table = StateTable::new();
    for key in 0..keys {
        table.update(stable_hash(&key), &key, || 0, |value| *value += key);
    }
    table
}

#[test]
fn a_snapshot_writes_what_changed_and_nothing_else() {
    let mut table = filled(1_000);
    table.freeze(Epoch(1), Epoch(0), SlotRange::default());
    assert_eq!(drain_all(&mut table).len(), 1_000);
    table.update(stable_hash(&5u64), &5, || 0, |value| *value += 1);
    table.remove(stable_hash(&6u64), &6);
    table.update(stable_hash(&2_000u64), &2_000, || 1, |_| ());
    table.remove(stable_hash(&2_000u64), &2_000);
    table.freeze(Epoch(2), Epoch(1), SlotRange::default());
    assert_eq!(drain_all(&mut table), [Record::Delete(6), Record::Put(5, 6)]);
    assert_eq!(table.changed(), 1);
}

#[test]
fn removals_of_more_unconfirmed_epochs_than_are_kept_apart_are_all_written() {
    let mut table = filled(100);
    table.freeze(Epoch(1), Epoch(0), SlotRange::default());
    drain_all(&mut table);
    for epoch in 2..20 {
        table.remove(stable_hash(&epoch), &epoch);
        table.freeze(Epoch(epoch), Epoch(1), SlotRange::default());
        let mut removed: Vec<u64> = drain_all(&mut table)
            .into_iter()
            .map(|record| match record {
                Record::Delete(key) => key,
                Record::Put(..) | Record::Clear => unreachable!("nothing else changed"),
            })
            .collect();
        removed.sort_unstable();
        assert_eq!(removed, (2..=epoch).collect::<Vec<_>>());
    }
}

#[test]
fn a_snapshot_does_not_disturb_live_entries() {
    let mut with_snapshots = filled(100);
    let mut without = filled(100);
    for epoch in 1..20u64 {
        with_snapshots.freeze(Epoch(epoch), Epoch(epoch - 1), SlotRange::default());
        let mut block = TableBlock::new();
        for key in epoch..epoch + 90 {
            let _ = block.drain(&mut with_snapshots, 1).expect("written");
            for table in [&mut with_snapshots, &mut without] {
                table.update(stable_hash(&key), &key, || 0, |value| *value = value.wrapping_mul(31) + epoch);
                table.remove(stable_hash(&(key / 2)), &(key / 2));
            }
        }
        drain_all(&mut with_snapshots);
        assert!(with_snapshots.iter().eq(without.iter()), "epoch {epoch}");
    }
}

#[test]
fn an_entry_that_cannot_be_serialised_fails_the_snapshot_and_not_the_change() {
    let mut table: StateTable<u64, Refuses> = StateTable::new();
    table.set(1, &1, Refuses);
    table.freeze(Epoch(1), Epoch(0), SlotRange::default());
    table.set(1, &1, Refuses);
    let mut block = TableBlock::new();
    for _ in 0..2 {
        assert_eq!(block.drain(&mut table, 10).expect_err("refused").code(), "S101");
    }
}

#[test]
fn text_keys_are_looked_up_without_making_one() {
    let mut table: StateTable<String, u64> = StateTable::new();
    for word in ["a", "b", "a"] {
        table.update(stable_hash(word), word, || 0, |count| *count += 1);
    }
    assert_eq!(table.get(stable_hash("a"), "a"), Some(&2));
    assert_eq!(table.remove(stable_hash("b"), "b"), Some(1));
    assert_eq!(table.find(stable_hash("b"), "b"), None);
}

#[test]
fn slots_of_removed_entries_are_used_again() {
    let mut table = filled(1_000);
    let slots = table.slots;
    for round in 0..20u64 {
        let removed = round * 500..(round + 1) * 500;
        removed.clone().for_each(|key| assert!(table.remove(stable_hash(&key), &key).is_some()));
        removed.map(|key| key + 1_000).for_each(|key| assert!(table.set(stable_hash(&key), &key, 0).is_none()));
    }
    assert_eq!((table.len(), table.slots), (1_000, slots));
}

#[test]
fn a_walk_in_pieces_sees_every_entry_once() {
    let table = filled(1_000);
    let mut seen = Vec::new();
    let mut after = None;
    while let Some(last) = table.iter_after(after).take(7).inspect(|(_, key, _)| seen.push(**key)).last() {
        after = Some(last.0);
    }
    assert_eq!(seen, (0..1_000).collect::<Vec<_>>());
}

#[test]
fn ranges_cover_all_slots_in_turn() {
    let mut table = filled(1_000);
    let mut from = None;
    let mut written = 0;
    for epoch in 1.. {
        let stretch = table.stretch_from(from, 37);
        table.freeze(Epoch(epoch), Epoch(epoch - 1), stretch.range);
        written += drain_all(&mut table).len();
        from = stretch.next;
        if from.is_none() {
            break;
        }
    }
    assert_eq!(written, 1_000 + 1_000 - 37);
}

#[test]
fn a_table_given_up_is_freed_piece_by_piece() {
    let mut table: StateTable<u64, String> = StateTable::new();
    for key in 0..20_000u64 {
        table.set(stable_hash(&key), &key, key.to_string());
    }
    let mut pieces = 1;
    while table.dismantle(1_000) {
        pieces += 1;
    }
    assert!((20..60).contains(&pieces), "{pieces}");
}
