use std::collections::BTreeMap;

use proptest::prelude::*;
use staunch_types::{Epoch, KeyGroupCount, stable_hash};

use super::super::keyed::{self, KeyedStates, Scope};
use super::super::paging::testing::check_paged;
use super::super::testing::{Subject, check_subject, records, scope};
use super::super::writer::{Budget, Progress};
use super::*;

/// Every kind in one tuple, so that one snapshot holds them all.
struct Kinds;

type States = (
    ValueState<String, u64>,
    ListState<String, u32>,
    MapState<String, u8, String>,
    Reducing<String, u64>,
    Aggregating<String, u32, (u64, u64), u64>,
);

#[derive(Clone, Debug, Default, PartialEq)]
struct Entry {
    value: Option<u64>,
    list: Vec<u32>,
    map: BTreeMap<u8, String>,
    largest: Option<u64>,
    sum: Option<(u64, u64)>,
}

type Model = BTreeMap<String, Entry>;

#[derive(Clone, Debug)]
enum Operation {
    SetValue(u64),
    UpdateValue(u64),
    ClearValue,
    Push(u32),
    PushMany(u8),
    ReplaceList(u8),
    ClearList,
    Put(u8, String),
    UpdateMember(u8, String),
    RemoveMember(u8),
    ClearMap,
    Reduce(u64),
    ClearReduced,
    Aggregate(u32),
    ClearAggregate,
}

fn apply_to(states: &mut States, key: &String, entry: &mut Entry, operation: Operation) {
    let hash = stable_hash(key);
    let (value, list, map, largest, sum) = states;
    match operation {
        Operation::SetValue(new) => assert_eq!(value.set(hash, key, new), entry.value.replace(new)),
        Operation::UpdateValue(more) => {
            value.update(hash, key, || 5, |found| *found += more);
            entry.value = Some(entry.value.unwrap_or(5) + more);
        }
        Operation::ClearValue => assert_eq!(value.clear(hash, key), entry.value.take()),
        Operation::Push(item) => {
            list.push(hash, key, item);
            entry.list.push(item);
        }
        Operation::PushMany(count) => {
            (0..u32::from(count)).for_each(|item| list.push(hash, key, item));
            entry.list.extend(0..u32::from(count));
        }
        Operation::ReplaceList(count) => {
            list.replace(hash, key, 0..u32::from(count));
            entry.list = (0..u32::from(count)).collect();
        }
        Operation::ClearList => {
            list.clear(hash, key);
            entry.list.clear();
        }
        Operation::Put(member, text) => {
            assert_eq!(map.put(hash, key, &member, text.clone()), entry.map.insert(member, text));
        }
        Operation::UpdateMember(member, text) => {
            map.update(hash, key, &member, String::new, |found| found.push_str(&text));
            entry.map.entry(member).or_default().push_str(&text);
        }
        Operation::RemoveMember(member) => assert_eq!(map.remove(hash, key, &member), entry.map.remove(&member)),
        Operation::ClearMap => {
            map.clear(hash, key);
            entry.map.clear();
        }
        Operation::Reduce(number) => {
            largest.add(hash, key, number);
            entry.largest = entry.largest.max(Some(number));
        }
        Operation::ClearReduced => assert_eq!(largest.clear(hash, key), entry.largest.take()),
        Operation::Aggregate(number) => {
            sum.add(hash, key, number);
            let (count, total) = entry.sum.unwrap_or_default();
            entry.sum = Some((count + 1, total + u64::from(number)));
        }
        Operation::ClearAggregate => {
            assert_eq!(sum.clear(hash, key), entry.sum.take().map(|(count, total)| total / count));
        }
    }
}

/// The keys that may have state.
fn keys() -> impl Iterator<Item = String> {
    (0..12).map(|number| format!("key {number}"))
}

impl Subject for Kinds {
    type Key = String;
    type States = States;
    type Model = Model;
    type Operation = (String, Operation);

    fn new_states(scope: Scope) -> States {
        let average = Aggregation {
            init: || (0, 0),
            add: |(count, total), number: u32| (*count, *total) = (*count + 1, *total + u64::from(number)),
            result: |(count, total)| total / count,
        };
        (
            ValueState::new("value", scope),
            ListState::new("list", scope),
            MapState::new("map", scope),
            Reducing::new("largest", scope, |found, added| *found = (*found).max(added)),
            Aggregating::new("average", scope, average),
        )
    }

    fn apply(states: &mut States, model: &mut Model, (key, operation): (String, Operation)) {
        let entry = model.entry(key.clone()).or_default();
        apply_to(states, &key, entry, operation);
        if *entry == Entry::default() {
            model.remove(&key);
        }
    }

    fn read(states: &mut States) -> Model {
        let (value, list, map, largest, sum) = states;
        let mut all = Model::new();
        for key in keys() {
            let hash = stable_hash(&key);
            let entry = Entry {
                value: value.get(hash, &key).copied(),
                list: list.iter(hash, &key).copied().collect(),
                map: map.iter(hash, &key).map(|(member, text)| (*member, text.clone())).collect(),
                largest: largest.get(hash, &key).copied(),
                sum: sum.accumulator(hash, &key).copied(),
            };
            assert_eq!(list.len(hash, &key), entry.list.len() as u64);
            assert_eq!(map.len(hash, &key), entry.map.len());
            assert!(entry.map.iter().all(|(member, text)| map.get(hash, &key, member) == Some(text)));
            assert_eq!(sum.get(hash, &key), entry.sum.map(|(count, total)| total / count));
            if entry != Entry::default() {
                all.insert(key, entry);
            }
        }
        all
    }

    fn part(model: &Model, scope: Scope) -> Model {
        let mut part = model.clone();
        part.retain(|key, _| scope.range.contains(scope.groups.group_of(stable_hash(key))));
        part
    }
}

fn operation() -> impl Strategy<Value = (String, Operation)> {
    let text = "[a-c]{0,3}";
    let operation = prop_oneof![
        3 => (0..99u64).prop_map(Operation::SetValue),
        3 => (0..99u64).prop_map(Operation::UpdateValue),
        1 => Just(Operation::ClearValue),
        4 => any::<u32>().prop_map(Operation::Push),
        2 => any::<u8>().prop_map(Operation::PushMany),
        1 => any::<u8>().prop_map(Operation::ReplaceList),
        1 => Just(Operation::ClearList),
        3 => (0..9u8, text).prop_map(|(member, text)| Operation::Put(member, text)),
        3 => (0..9u8, text).prop_map(|(member, text)| Operation::UpdateMember(member, text)),
        2 => (0..9u8).prop_map(Operation::RemoveMember),
        1 => Just(Operation::ClearMap),
        3 => (0..99u64).prop_map(Operation::Reduce),
        1 => Just(Operation::ClearReduced),
        3 => (0..99u32).prop_map(Operation::Aggregate),
        1 => Just(Operation::ClearAggregate),
    ];
    ((0..12usize).prop_map(|number| format!("key {number}")), operation)
}

check_paged!(Kinds, operation(), 1_000, all_kinds_with_a_database_under_them_are_what_they_say);
check_subject!(Kinds, operation(), 200, all_kinds_in_one_tuple_are_what_they_say_and_come_back_from_snapshots);

#[test]
fn a_part_stays_in_the_group_of_its_key() {
    let groups = KeyGroupCount::default();
    for key in 0..1_000u64 {
        let hash = stable_hash(&key);
        for part in 0..20u64 {
            assert_eq!(groups.group_of(compose(hash, stable_hash(&part))), groups.group_of(hash));
        }
    }
}

#[test]
fn parts_of_one_key_spread_over_the_other_bits() {
    let hash = stable_hash("one key");
    let mut low = [0u32; 256];
    let mut high = [0u32; 256];
    for part in 0..65_536u64 {
        let composed = compose(hash, stable_hash(&part));
        low[(composed & 255) as usize] += 1;
        high[(composed >> 56) as usize] += 1;
    }
    assert!(low.iter().chain(&high).all(|count| (150..=370).contains(count)));
}

/// Bytes that the snapshot of an epoch writes.
fn snapshot_bytes<K>(states: &mut dyn KeyedStates<K>, epoch: u64) -> usize {
    keyed::freeze(states, Epoch(epoch));
    let mut bytes = 0;
    let mut take = |_: &str, block: Vec<u8>| bytes += block.len();
    while keyed::drain(states, &mut Budget::new(100, 1 << 20), &mut take).expect("written") == Progress::More {}
    keyed::confirm(states, Epoch(epoch));
    bytes
}

/// Appends of 1 KiB each to one long list: what a snapshot writes follows what was added.
#[test]
fn a_snapshot_of_a_long_list_writes_what_was_added_and_not_the_list() {
    let mut lists: ListState<u64, String> = ListState::new("log", scope());
    let (hash, mut pushed) = (stable_hash(&1u64), 0);
    for epoch in 1..=50 {
        let added = 400;
        for _ in 0..added {
            lists.push(hash, &1, format!("{pushed:01024}"));
            pushed += 1;
        }
        let bytes = snapshot_bytes(&mut lists, epoch);
        assert!(bytes < 3 * added * 1_024, "epoch {epoch} wrote {bytes} bytes");
    }
    assert_eq!(lists.len(hash, &1), pushed);
    assert!(lists.iter(hash, &1).enumerate().all(|(number, item)| *item == format!("{number:01024}")));
}

#[test]
fn a_key_of_a_mebibyte_is_a_key_like_any_other() {
    let mut values: ValueState<String, u64> = ValueState::new("value", scope());
    let key = "k".repeat(1 << 20);
    values.set(stable_hash(&key), &key, 7);
    let mut blocks = Vec::new();
    keyed::freeze(&mut values, Epoch(1));
    let mut take = |_: &str, block: Vec<u8>| blocks.push(block);
    assert_eq!(keyed::drain(&mut values, &mut Budget::unlimited(), &mut take).expect("written"), Progress::Done);
    let found = blocks.iter().flat_map(|block| records::<String, u64>(block, scope().range)).collect::<Vec<_>>();
    assert_eq!(found, [(0, super::super::testing::Record::Put(key, 7))]);
}

#[test]
fn a_walk_over_a_map_has_the_same_order_whatever_came_and_went() {
    let hash = stable_hash(&1u64);
    let walk = |inserted: &[u64], removed: &[u64]| {
        let mut maps: MapState<u64, u64, ()> = MapState::new("map", scope());
        inserted.iter().for_each(|member| assert!(maps.put(hash, &1, member, ()).is_none()));
        removed.iter().for_each(|member| assert!(maps.remove(hash, &1, member).is_some()));
        maps.iter(hash, &1).map(|(member, ())| *member).collect::<Vec<_>>()
    };
    let forwards: Vec<u64> = (0..100).collect();
    let backwards: Vec<u64> = (0..150).rev().collect();
    assert_eq!(walk(&forwards, &[]), walk(&backwards, &backwards[..50]));
}

#[test]
fn a_state_stored_by_windows_is_refused_by_one_without() {
    use super::super::panes::Panes;
    use staunch_format::block::BlockReader;
    let mut panes: Panes<u64, u64> = Panes::new("total", scope(), stable_hash::<u64>);
    panes.table(60_000).set(stable_hash(&1u64), &1, 1);
    let mut blocks = Vec::new();
    keyed::freeze(&mut panes, Epoch(1));
    let mut take = |_: &str, block: Vec<u8>| blocks.push(block);
    assert_eq!(keyed::drain(&mut panes, &mut Budget::unlimited(), &mut take).expect("written"), Progress::Done);
    let mut values: ValueState<u64, u64> = ValueState::new("total", scope());
    let block = BlockReader::open(&blocks[0]).expect("sound");
    assert_eq!(keyed::restore(&mut values, Epoch(1), &block).expect_err("refused").code(), "S201");
    let mut other: ValueState<u64, u64> = ValueState::new("other", scope());
    assert_eq!(keyed::restore(&mut other, Epoch(1), &block), Ok(false));
}
