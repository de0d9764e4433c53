use proptest::prelude::*;
use staunch_types::stable_hash;

use super::super::keyed;
use super::super::paging::testing::check_paged;
use super::super::testing::{Record, Step, Subject, World, check_subject, records, scope};
use super::*;

struct Windows;

#[derive(Clone, Debug)]
enum Operation {
    Update(i64, u8, u64),
    Remove(i64, u8),
    Fill(i64, u8),
    Drop(i64),
}

type Model = BTreeMap<(i64, u8), u64>;

impl Subject for Windows {
    type Key = u8;
    type States = Panes<u8, u64>;
    type Model = Model;
    type Operation = Operation;

    fn new_states(scope: Scope) -> Panes<u8, u64> {
        Panes::new("windows", scope, stable_hash::<u8>)
    }

    fn apply(states: &mut Panes<u8, u64>, model: &mut Model, operation: Operation) {
        match operation {
            Operation::Update(namespace, key, value) => {
                states.table(namespace).update(stable_hash(&key), &key, || 0, |sum| *sum += value);
                *model.entry((namespace, key)).or_default() += value;
            }
            Operation::Remove(namespace, key) => {
                let removed = states.table(namespace).remove(stable_hash(&key), &key);
                assert_eq!(removed, model.remove(&(namespace, key)));
            }
            Operation::Fill(namespace, count) => {
                (0..count).for_each(|key| Self::apply(states, model, Operation::Update(namespace, key, 1)));
            }
            Operation::Drop(namespace) => {
                states.drop_table(namespace);
                model.retain(|(found, _), _| *found != namespace);
                assert!(states.get(namespace).is_none());
            }
        }
    }

    fn read(states: &mut Panes<u8, u64>) -> Model {
        let mut all = Model::new();
        for namespace in states.namespaces().collect::<Vec<_>>() {
            let (mut found, mut from) = (Vec::new(), None);
            while let Some(next) = states.scan_absent(namespace, from.take(), &mut found) {
                from = Some(next);
            }
            all.extend(found.into_iter().map(|(_, key, value)| ((namespace, key), value)));
            let before = all.len();
            let table = states.get(namespace).expect("listed");
            all.extend(table.iter().map(|(_, key, value)| ((namespace, *key), *value)));
            assert_eq!(all.len(), before + table.len(), "what only the database has is not in memory");
        }
        all
    }

    fn part(model: &Model, scope: Scope) -> Model {
        let mut part = model.clone();
        part.retain(|(_, key), _| scope.range.contains(scope.groups.group_of(stable_hash(key))));
        part
    }
}

fn operation() -> impl Strategy<Value = Operation> {
    let namespace = prop_oneof![4 => -2..4i64, 1 => Just(i64::MIN), 1 => Just(i64::MAX)];
    prop_oneof![
        6 => (namespace.clone(), any::<u8>(), 0..9u64).prop_map(|(namespace, key, value)| Operation::Update(namespace, key, value)),
        2 => (namespace.clone(), any::<u8>()).prop_map(|(namespace, key)| Operation::Remove(namespace, key)),
        1 => (namespace.clone(), any::<u8>()).prop_map(|(namespace, count)| Operation::Fill(namespace, count)),
        3 => namespace.prop_map(Operation::Drop),
    ]
}

check_paged!(Windows, operation(), 1_000, panes_with_a_database_under_them_are_a_map_of_maps);
check_subject!(Windows, operation(), 300, panes_are_a_map_of_maps_and_their_snapshots_are_it_at_the_barrier);

fn filled(namespaces: i64, keys: u64) -> Panes<u64, String> {
    let mut panes = Panes::new("windows", scope(), stable_hash::<u64>);
    for namespace in 0..namespaces {
        for key in 0..keys {
            panes.table(namespace).set(stable_hash(&key), &key, key.to_string());
        }
    }
    panes
}

fn snapshot(panes: &mut Panes<u64, String>, epoch: u64) -> Vec<(i64, Record<u64, String>)> {
    keyed::freeze(panes, Epoch(epoch));
    let mut all = Vec::new();
    let mut take = |_: &str, block: Vec<u8>| all.extend(records(&block, scope().range));
    assert_eq!(keyed::drain(panes, &mut Budget::unlimited(), &mut take).expect("written"), Progress::Done);
    keyed::confirm(panes, Epoch(epoch));
    all
}

#[test]
fn a_window_that_came_and_went_between_two_barriers_leaves_no_trace() {
    let mut panes = filled(3, 10);
    panes.drop_table(1);
    let namespaces: BTreeSet<i64> = snapshot(&mut panes, 1).iter().map(|(namespace, _)| *namespace).collect();
    assert_eq!(namespaces, BTreeSet::from([0, 2]));
}

#[test]
fn a_dropped_window_is_cleared_in_the_groups_of_the_task_and_written_no_more() {
    let mut panes = filled(2, 2_000);
    snapshot(&mut panes, 1);
    panes.drop_table(0);
    let written = snapshot(&mut panes, 2);
    let clears = written.iter().filter(|(namespace, record)| *namespace == 0 && *record == Record::Clear).count();
    assert_eq!(clears, 8);
    assert!(written.iter().all(|(namespace, record)| *namespace == 1 || *record == Record::Clear));
}

#[test]
fn two_tasks_become_one_and_a_window_dropped_in_one_of_them_stays_in_the_other() {
    let groups = scope().groups;
    let mut blocks = Vec::new();
    for index in 0..2 {
        let range = groups.range_of(index, 2);
        let mut panes: Panes<u64, u64> = Panes::new("windows", Scope { groups, range }, stable_hash::<u64>);
        let mut take = |epoch: u64, panes: &mut Panes<u64, u64>| {
            keyed::freeze(panes, Epoch(epoch));
            let mut sink = |_: &str, block: Vec<u8>| blocks.push((epoch, block));
            assert_eq!(keyed::drain(panes, &mut Budget::unlimited(), &mut sink).expect("written"), Progress::Done);
        };
        for key in (0..100u64).filter(|key| range.contains(groups.group_of(stable_hash(key)))) {
            panes.table(5).set(stable_hash(&key), &key, key);
        }
        take(1, &mut panes);
        keyed::confirm(&mut panes, Epoch(1));
        if index == 0 {
            panes.drop_table(5);
        }
        take(2, &mut panes);
    }
    blocks.sort_by_key(|(epoch, _)| *epoch);
    let mut panes: Panes<u64, u64> = Panes::new("windows", scope(), stable_hash::<u64>);
    for (epoch, block) in &blocks {
        let block = BlockReader::open(block).expect("sound");
        assert_eq!(keyed::restore(&mut panes, Epoch(*epoch), &block), Ok(true));
    }
    panes.restored().expect("of its types");
    let upper = groups.range_of(1, 2);
    let expected: BTreeSet<u64> = (0..100).filter(|key| upper.contains(groups.group_of(stable_hash(key)))).collect();
    let found: BTreeSet<u64> = panes.table(5).iter().map(|(_, key, _)| *key).collect();
    assert_eq!(found, expected);
}

#[test]
fn a_rewrite_goes_on_from_the_end_of_one_window_to_the_beginning_of_the_next() {
    let panes = filled(3, 20);
    let table = panes.get(0).expect("filled");
    let slots = 32;
    let (to_8, to_16, from_8) =
        (table.stretch_from(None, 8), table.stretch_from(None, 16), table.stretch_from(table.stretch_from(None, 8).next, slots - 8));
    let whole = table.stretch_from(None, slots);
    assert_eq!((whole.next, whole.slots_left), (None, 0));
    let mut rewrite = BTreeMap::new();
    let next = panes.walk(None, slots + 8, &mut rewrite);
    assert_eq!((next, std::mem::take(&mut rewrite)), (Some((1, to_8.next)), BTreeMap::from([(0, whole.range), (1, to_8.range)])));
    let next = panes.walk(next, slots - 8 + 16, &mut rewrite);
    assert_eq!((next, std::mem::take(&mut rewrite)), (Some((2, to_16.next)), BTreeMap::from([(1, from_8.range), (2, to_16.range)])));
    assert_eq!(panes.walk(next, 1_000, &mut rewrite), None);
}

#[test]
fn dropped_windows_are_freed_bit_by_bit_and_never_pile_up() {
    let mut panes = filled(1, 10_000);
    assert!(panes.drop_table(0));
    let mut slices = 0;
    while panes.tidy(1_000) {
        slices += 1;
    }
    assert!((8..40).contains(&slices), "{slices}");
    for namespace in 0..10_000 {
        panes.table(namespace).set(7, &7, String::new());
        panes.drop_table(namespace);
        assert!(panes.garbage.len() <= 2 * GARBAGE_TABLES_MAX);
    }
}

#[test]
fn a_late_table_of_an_earlier_namespace_is_written_though_the_rewrite_is_past_it() {
    let mut world: World<Windows> = World::new();
    let mut steps = vec![Operation::Fill(5, 250), Operation::Fill(9, 250)];
    steps.extend((0..40).flat_map(|key| [Operation::Update(9, key, 1), Operation::Update(i64::from(key % 4), key, 1)]));
    for operation in steps {
        for step in [Step::Change(operation), Step::Freeze, Step::Drain { entries: 1_000_000, bytes: usize::MAX }, Step::Confirm { nth: 0 }]
        {
            world.step(step);
        }
    }
}

#[test]
fn the_table_asked_for_last_is_found_again_after_others_come_and_go() {
    let mut panes: Panes<u64, i64> = Panes::new("windows", scope(), stable_hash::<u64>);
    for namespace in [5, 3, 9, 3, 5, 1] {
        panes.table(namespace).set(1, &1, namespace);
        panes.drop_table(7 - namespace);
        assert_eq!(panes.table(namespace).get(1, &1), Some(&namespace));
    }
    assert_eq!(panes.namespaces().collect::<Vec<_>>(), [1, 3, 5, 9]);
}
