use std::collections::BTreeSet;

use proptest::prelude::*;

use super::super::super::paging::testing::check_paged;
use super::super::super::testing::{Subject, check_subject, scope};
use super::*;

struct Clocks;

#[derive(Clone, Debug)]
enum Operation {
    Set(u8, i64),
    Delete(u8, i64),
    Fire(i64, usize),
}

type Model = BTreeSet<(i64, u8)>;

impl Subject for Clocks {
    type Key = u8;
    type States = Timers<u8>;
    type Model = Model;
    type Operation = Operation;

    fn new_states(scope: Scope) -> Timers<u8> {
        Timers::new("timers", scope)
    }

    fn apply(states: &mut Timers<u8>, model: &mut Model, operation: Operation) {
        match operation {
            Operation::Set(key, time) => {
                assert_eq!(states.set(stable_hash(&key), &key, Timestamp(time)), model.insert((time, key)));
            }
            Operation::Delete(key, time) => {
                assert_eq!(states.delete(stable_hash(&key), &key, Timestamp(time)), model.remove(&(time, key)));
            }
            Operation::Fire(until, timers_max) => {
                let mut fired = Vec::new();
                let more = states.fire_until(Timestamp(until), timers_max, |_, due| {
                    assert_eq!(due.hash, stable_hash(&due.key));
                    fired.push((due.time.0, due.key));
                });
                assert!(fired.len() <= timers_max);
                assert!(fired.is_sorted_by_key(|(time, _)| *time), "earliest first");
                assert!(fired.iter().all(|timer| timer.0 <= until && model.remove(timer)), "each once, when due");
                assert_eq!(more, model.first().is_some_and(|(time, _)| *time <= until));
            }
        }
        assert_eq!(states.next_time().map(|time| time.0), model.first().map(|(time, _)| *time));
    }

    fn read(states: &mut Timers<u8>) -> Model {
        assert_eq!(states.len(), states.timers.table().len());
        states.timers.table().iter().map(|(_, (time, key), ())| (time.0, *key)).collect()
    }

    fn part(model: &Model, scope: Scope) -> Model {
        let is_in = |(_, key): &&(i64, u8)| scope.range.contains(scope.groups.group_of(stable_hash(key)));
        model.iter().filter(is_in).copied().collect()
    }
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        5 => (any::<u8>(), -3..20i64).prop_map(|(key, time)| Operation::Set(key, time)),
        2 => (0..20u8, -3..4i64).prop_map(|(key, time)| Operation::Set(key, time)),
        2 => (0..20u8, -3..4i64).prop_map(|(key, time)| Operation::Delete(key, time)),
        1 => (-3..20i64, 0..20usize).prop_map(|(until, timers_max)| Operation::Fire(until, timers_max)),
    ]
}

check_paged!(Clocks, operation(), 500, timers_with_a_database_under_them_are_a_set);
check_subject!(Clocks, operation(), 300, timers_are_a_set_and_their_snapshots_are_it_at_the_barrier);

#[test]
fn a_timer_set_while_firing_fires_too_if_it_is_due() {
    let mut timers: Timers<u64> = Timers::new("timers", scope());
    timers.set(stable_hash(&1u64), &1, Timestamp(10));
    let mut times = Vec::new();
    let more = timers.fire_until(Timestamp(40), 100, |timers, due| {
        times.push(due.time.0);
        timers.set(due.hash, &due.key, Timestamp(due.time.0 + 10));
    });
    assert_eq!(times, [10, 20, 30, 40]);
    assert!(!more);
    assert_eq!(timers.next_time(), Some(Timestamp(50)));
}

#[test]
fn a_storm_of_timers_is_fired_in_slices() {
    let mut timers: Timers<u64> = Timers::new("timers", scope());
    for key in 0..1_000u64 {
        timers.set(stable_hash(&key), &key, Timestamp(5));
    }
    let mut slices = 1;
    let mut fired = 0;
    while timers.fire_until(Timestamp::MAX, 100, |_, _| fired += 1) {
        slices += 1;
    }
    assert_eq!((slices, fired), (10, 1_000));
    assert!(timers.is_empty());
}

#[test]
fn a_timer_that_moves_with_every_record_leaves_nothing_behind() {
    let mut timers: Timers<u64> = Timers::new("timers", scope());
    for time in 0..10_000 {
        timers.delete(7, &7, Timestamp(time));
        timers.set(7, &7, Timestamp(time + 1));
    }
    assert_eq!(timers.queue.len(), 1);
}
