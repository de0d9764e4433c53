//! Faults that users of other systems met, each as the smallest job that would show it: in this process, on real files, with a restart
//! from a checkpoint in the middle wherever the fault needs one.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use staunch::prelude::*;
use staunch_e2e::lines::{self, Multiset};
use staunch_e2e::process::Running;
use staunch_e2e::world::{self, Throttle};
use staunch_engine::cluster::JobEvent;
use staunch_engine::job::Settings;
use staunch_engine::operator::{Process, ProcessContext};
use staunch_engine::state::keyed::Scope;
use staunch_engine::state::kinds::ListState;
use staunch_protocol::Reason;
use staunch_types::FloatKey;

use crate::support;

/// Events after which a job that should have stopped is stopped all the same, so that what it did can be looked at.
const EVENTS_MAX: usize = 3_000;

/// Between two looks for new files.
const WATCH: Duration = Duration::from_millis(5);

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Row {
    id: u64,
    key: String,
    at: i64,
}

#[derive(Serialize)]
struct Out {
    key: String,
    start: i64,
    value: u64,
}

/// How a small job is run.
struct Run {
    tasks: u32,
    interval: Duration,
    /// Input for each second.
    bytes: u64,
    script: &'static str,
    /// Whether the job is to stop, as the output and the event tell; a job without ends with its input.
    stop: Option<fn(&JobEvent, &Multiset) -> bool>,
}

/// So slow that four hundred rows last for many checkpoints. Of about seventy reads, of which some are to open the file, one fails in the
/// middle, and the job goes back to a checkpoint.
const RESTARTED: Run =
    Run { tasks: 2, interval: Duration::from_millis(10), bytes: 20_000, script: "read other 30: broken before", stop: None };

/// A job in a folder of its own.
struct Small(tempfile::TempDir);

impl Small {
    fn new(files: &[(&str, &[Row])]) -> Small {
        let small = Small(support::folder());
        fs::create_dir(small.input()).expect("a folder");
        files.iter().for_each(|(name, rows)| small.put(name, rows));
        small
    }

    fn input(&self) -> PathBuf {
        self.0.path().join("input")
    }

    fn output(&self) -> PathBuf {
        self.0.path().join("output")
    }

    /// Puts a file there, whole at once.
    fn put(&self, name: &str, rows: &[Row]) {
        let text: String = rows.iter().map(|r| format!("{},{},{}\n", r.id, r.key, r.at)).collect();
        let path = self.0.path().join(name);
        fs::write(&path, text).expect("room");
        fs::rename(path, self.input().join(name)).expect("a rename");
    }

    fn source(&self) -> FileSource<Row> {
        FileSource::csv::<Row>(self.input()).headers(false).one_split().chunk_bytes(64)
    }

    fn sink<T>(&self) -> FileSink<T> {
        FileSink::csv(self.output())
    }

    fn rows(&self) -> Multiset {
        lines::read_directory(&self.output()).unwrap_or_default()
    }

    /// Runs a job to its end, checks what any job must leave behind, and returns what it told.
    fn run(&self, run: &Run, write: impl FnOnce(&Environment)) -> Vec<JobEvent> {
        let mut env = Environment::new(Settings::new());
        env.checkpoints(Checkpoints::every(run.interval).to(self.0.path().join("checkpoints")));
        env.settings().parallelism = run.tasks;
        let script = Arc::new(run.script.parse().expect("a script"));
        env.world(world::faulty(script, (run.bytes > 0).then(|| Throttle::new(run.bytes))));
        let events = Rc::new(RefCell::new(Vec::new()));
        let (told, stopper, output, stop) = (Rc::clone(&events), env.stopper(), self.output(), run.stop);
        env.on_event(move |event| {
            told.borrow_mut().push(event.clone());
            let rows = || lines::read_directory(&output).unwrap_or_default();
            if stop.is_some_and(|stop| stop(event, &rows()) || told.borrow().len() > EVENTS_MAX) {
                stopper.stop(Reason::Stop);
            }
        });
        write(&env);
        env.execute("small").unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(lines::hidden(&self.output()).expect("a list"), Vec::<String>::new());
        let mut verify = std::process::Command::new(support::programs().staunch);
        verify.arg("verify").arg(self.0.path().join("checkpoints/small"));
        Running::start(verify).and_then(|r| r.wait(staunch_e2e::job::PATIENCE)).and_then(|f| f.expect(0)).expect("a ledger that verifies");
        let events = events.borrow();
        assert!(run.script.is_empty() || restarted(&events), "the job never went back to a checkpoint: {events:?}");
        events.clone()
    }
}

fn restarted(events: &[JobEvent]) -> bool {
    let restart = events.iter().position(|e| matches!(e, JobEvent::Restarting { .. }));
    restart.is_some_and(|at| events[at..].iter().any(|e| matches!(e, JobEvent::Claimed { restored: Some(_), .. })))
}

fn durable(events: &[JobEvent]) -> Vec<u64> {
    let epoch = |event: &JobEvent| if let JobEvent::EpochDurable { epoch, .. } = event { Some(epoch.0) } else { None };
    events.iter().filter_map(epoch).collect()
}

/// One row of each id, its time the id.
fn rows(ids: std::ops::RangeInclusive<u64>, key: impl Fn(u64) -> String) -> Vec<Row> {
    ids.map(|id| Row { id, key: key(id), at: id as i64 }).collect()
}

fn multiset(lines: &[&str]) -> Multiset {
    let mut set = Multiset::new();
    lines.iter().for_each(|line| *set.entry((*line).to_owned()).or_default() += 1);
    set
}

fn each_once(from: u64, to: u64) -> Multiset {
    (from..=to).map(|id| (id.to_string(), 1)).collect()
}

#[derive(Serialize)]
struct Id {
    id: u64,
}

#[test]
fn report_07_checkpoints_without_output_are_committed_and_their_numbers_go_on() {
    let small = Small::new(&[("rows.csv", &rows(1..=400, |_| "a".into()))]);
    let events = small.run(&RESTARTED, |env| {
        env.source("rows", small.source()).filter(|r| r.id == 400).map(|r| Id { id: r.id }).sink("out", small.sink());
    });
    assert_eq!(small.rows(), multiset(&["400"]));
    let empty = events.iter().filter(|e| matches!(e, JobEvent::EpochDurable { committables: 0, .. })).count();
    assert!(empty >= 3, "{empty} checkpoints had no output");
    let epochs = durable(&events);
    assert!(epochs.is_sorted_by(|a, b| a < b), "{epochs:?}");
}

#[test]
fn report_10_operators_and_sinks_with_very_long_names_restore_and_write() {
    let (operator, sink) = ("ü".repeat(40_000), "出".repeat(40_000));
    let small = Small::new(&[("rows.csv", &rows(1..=400, |id| (id % 3).to_string()))]);
    small.run(&RESTARTED, |env| {
        let keyed = env.source("rows", small.source()).key_by(|r| r.key.clone());
        let counted = keyed.stateful_map(
            &operator,
            || 0,
            |count: &mut u64, r: &Row| {
                *count += 1;
                format!("{} {count}", r.key)
            },
        );
        counted.map(|text| (text,)).sink(&sink, FileSink::csv(small.output()).header(false));
    });
    let written: BTreeSet<String> = support::all_files(&small.output())
        .iter()
        .flat_map(|f| fs::read_to_string(f).expect("a text").lines().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    let expected = (1..=400_u64).map(|id| format!("{} {}", id % 3, id.div_ceil(3))).collect();
    assert_eq!(written, expected);
}

#[test]
fn report_15_the_last_row_before_a_restart_is_not_read_twice_and_a_new_file_is_read_once() {
    let small = Small::new(&[("first.csv", &rows(1..=3, |_| "a".into()))]);
    let write = |env: &Environment| {
        let source = small.source().chunk_bytes(8).watch(WATCH);
        env.source("rows", source).map(|r| Id { id: r.id }).sink("out", small.sink());
    };
    let first = Run {
        bytes: 200,
        script: "rename visible 1, read other 1: broken before",
        stop: Some(|event, rows| matches!(event, JobEvent::EpochCommitted { .. }) && rows.len() >= 3),
        ..RESTARTED
    };
    small.run(&first, write);
    assert_eq!(small.rows(), each_once(1, 3));
    small.put("second.csv", &rows(4..=4, |_| "a".into()));
    let second = Run { script: "", stop: Some(|event, rows| matches!(event, JobEvent::EpochCommitted { .. }) && rows.len() >= 4), ..first };
    small.run(&second, write);
    assert_eq!(small.rows(), each_once(1, 4));
}

/// The source watches, so it never ends: what closes a window is a row behind it, and not the end.
#[test]
fn report_16_windows_close_with_more_tasks_than_files_that_have_rows() {
    let small = Small::new(&[("empty.csv", &[]), ("full.csv", &rows(1..=400, |_| "a".into())), ("none.csv", &[])]);
    let run = Run { tasks: 5, script: "", stop: Some(|_, rows| rows.contains_key("a,350,50")), ..RESTARTED };
    small.run(&run, |env| windows(env, &small, small.source().watch(WATCH), Tumbling::of(millis(50))));
    let expected = (0..8).map(|n| (format!("a,{},{}", n * 50, if n == 0 { 49 } else { 50 }), 1)).collect();
    assert_eq!(small.rows(), expected);
}

fn windows(env: &Environment, small: &Small, source: FileSource<Row>, window: Tumbling) {
    env.source("rows", source)
        .event_time(|r| Timestamp(r.at), Watermarks::ascending())
        .key_by(|r| r.key.clone())
        .window(window)
        .fold("count", || 0_u64, |count, _| *count += 1)
        .map(|w| Out { key: w.key, start: w.start.0, value: w.value })
        .sink("out", small.sink());
}

#[test]
fn report_19_negative_timestamps_fall_into_their_own_window() {
    let row = |at| Row { id: 0, key: "a".into(), at };
    let input = [row(-11), row(-10), row(-1), row(0)];
    for (offset, expected) in [(0, ["a,-20,1", "a,-10,2", "a,0,1"]), (3, ["a,-17,2", "a,-7,2", ""])] {
        let small = Small::new(&[("rows.csv", &input)]);
        small.run(&Run { script: "", ..RESTARTED }, |env| {
            windows(env, &small, small.source(), Tumbling::of(millis(10)).offset(millis(offset)))
        });
        let expected: Vec<&str> = expected.into_iter().filter(|line| !line.is_empty()).collect();
        assert_eq!(small.rows(), multiset(&expected), "offset {offset}");
    }
}

/// Key a is seen once, and only b after the restart; as with 16, the source never ends.
#[test]
fn report_23_an_open_window_closes_on_time_after_a_restart_without_new_rows_of_its_key() {
    let small = Small::new(&[("rows.csv", &rows(1..=400, |id| if id == 1 { "a".into() } else { "b".into() }))]);
    let run = Run { stop: Some(|_, rows| rows.len() == 2), ..RESTARTED };
    small.run(&run, |env| windows(env, &small, small.source().watch(WATCH), Tumbling::of(millis(300))));
    assert_eq!(small.rows(), multiset(&["a,0,1", "b,0,298"]));
}

#[test]
fn report_26_a_checkpoint_leaves_the_state_that_it_is_of_as_it_was() {
    let outputs = [Duration::from_millis(2), Duration::from_secs(3_600)].map(|interval| {
        let small = Small::new(&[("rows.csv", &rows(1..=400, |id| if id % 2 == 0 { "a".into() } else { "b".into() }))]);
        let events = small.run(&Run { interval, script: "", ..RESTARTED }, |env| {
            env.source("rows", small.source())
                .event_time(|r| Timestamp(r.at), Watermarks::ascending())
                .key_by(|r| r.id / 200)
                .window(Tumbling::of(hours(1)))
                .fold("distinct", BTreeSet::new, |texts: &mut BTreeSet<String>, r: &Row| {
                    texts.insert(r.key.clone());
                })
                .map(|w| Out { key: w.key.to_string(), start: w.start.0, value: w.value.len() as u64 })
                .sink("out", small.sink());
        });
        (small.rows(), durable(&events).len())
    });
    assert_eq!(outputs[0].0, multiset(&["0,0,2", "1,0,2", "2,0,1"]));
    assert_eq!(outputs[0].0, outputs[1].0);
    assert!(outputs[0].1 > outputs[1].1, "there were as many checkpoints without as with: {outputs:?}");
}

/// From 3 tasks to 5 to 2, with records on their way whenever the job stops.
#[test]
fn report_27_rescaling_gives_each_key_and_each_split_to_one_task() {
    let input = rows(1..=600, |id| (id % 7).to_string());
    let small = Small::new(&[("a.csv", &input[..200]), ("b.csv", &input[200..400]), ("c.csv", &input[400..])]);
    let stop: fn(&JobEvent, &Multiset) -> bool = |event, _| matches!(event, JobEvent::EpochDurable { epoch, .. } if epoch.0 % 3 == 0);
    for (tasks, stop) in [(3, Some(stop)), (5, Some(stop)), (2, None)] {
        small.run(&Run { tasks, stop, script: "", ..RESTARTED }, |env| counts(env, &small, |r| r.key.clone(), |key| key));
    }
    let expected = (1..=600_u64).map(|id| (format!("{},0,{}", id % 7, id.div_ceil(7)), 1)).collect();
    assert_eq!(small.rows(), expected);
}

/// Numbers the rows of each key.
fn counts<K: staunch_engine::state::codec::Key>(env: &Environment, small: &Small, key: fn(&Row) -> K, show: fn(K) -> String) {
    let keyed = env.source("rows", small.source()).key_by(key);
    let counted = keyed.stateful_map(
        "count",
        || 0_u64,
        move |count: &mut u64, r: &Row| {
            *count += 1;
            Out { key: show(key(r)), start: 0, value: *count }
        },
    );
    counted.sink("out", small.sink());
}

#[test]
fn report_37_zeros_are_one_key_and_so_are_all_nan_also_after_restoring_and_rescaling() {
    let floats = [0.0, -0.0, f64::from_bits(0x7FF8_0000_0000_0000), f64::from_bits(0xFFF8_0000_0000_00AB)];
    let input = rows(1..=400, |id| floats[id as usize % 4].to_bits().to_string());
    let small = Small::new(&[("rows.csv", &input)]);
    let key = |r: &Row| FloatKey::new(f64::from_bits(r.key.parse().expect("bits")));
    let stop: fn(&JobEvent, &Multiset) -> bool = |event, _| matches!(event, JobEvent::EpochDurable { epoch, .. } if epoch.0 % 3 == 0);
    for (tasks, stop) in [(1, Some(stop)), (3, Some(stop)), (2, None)] {
        small.run(&Run { tasks, stop, script: "", ..RESTARTED }, |env| counts(env, &small, key, |key| key.get().to_string()));
    }
    let expected = ["0", "NaN"].iter().flat_map(|key| (1..=200).map(move |n| (format!("{key},0,{n}"), 1))).collect();
    assert_eq!(small.rows(), expected);
}

/// Items that the list of one key comes to, of a kilobyte each.
const ITEMS: u64 = 20_000;

/// Adds each row to the list of its key a number of times, and tells of the list when it is complete.
#[derive(Clone)]
struct Lists;

impl Process<String, Row> for Lists {
    type Out = Out;
    type Side = ();
    type States = ListState<String, String>;

    fn states(&self, scope: Scope) -> Self::States {
        ListState::new("items", scope)
    }

    fn process(&self, row: Row, items: &mut Self::States, context: &mut ProcessContext<'_, String, Out, ()>) {
        let (hash, key) = (context.hash, context.key);
        let first = items.len(hash, key);
        (first..first + ITEMS / 400).for_each(|number| items.push(hash, key, format!("{number:01024}")));
        if row.id == 400 {
            let in_order = items.iter(hash, key).zip(0_u64..).filter(|(item, number)| item.parse() == Ok(*number)).count();
            context.emit(Out { key: row.key, start: in_order as i64, value: items.len(hash, key) });
        }
    }
}

#[test]
fn report_47_a_list_of_many_megabytes_grows_in_pieces_and_is_restored_whole() {
    let small = Small::new(&[("rows.csv", &rows(1..=400, |_| "a".into()))]);
    small.run(&RESTARTED, |env| {
        env.source("rows", small.source()).key_by(|r| r.key.clone()).process("lists", Lists).sink("out", small.sink());
    });
    assert_eq!(small.rows(), multiset(&[&format!("a,{ITEMS},{ITEMS}")]));
}

#[test]
fn report_47_a_key_of_a_megabyte_is_kept_and_restored() {
    let small = Small::new(&[("rows.csv", &rows(1..=400, |id| (id % 2).to_string()))]);
    small.run(&RESTARTED, |env| {
        counts(env, &small, |r| r.key.repeat(1 << 20), |key| format!("{} of {}", key.len(), &key[..1]));
    });
    let expected: BTreeMap<String, u64> =
        ["0", "1"].iter().flat_map(|key| (1..=200).map(move |n| (format!("{} of {key},0,{n}", 1 << 20), 1))).collect();
    assert_eq!(small.rows(), expected);
}
