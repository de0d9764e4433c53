//! The demonstration's job once more, in this process, with what only a program itself can do wrong.

use std::cell::Cell;
use std::rc::Rc;

use serde::{Deserialize, Serialize};
use staunch::engine::cluster::JobEvent;
use staunch::engine::job::{Settings, Start};
use staunch::engine::operator::Transform;
use staunch::engine::runtime::World;
use staunch::engine::state::keyed::Scope;
use staunch::engine::state::kinds::ValueState;
use staunch::prelude::*;
use staunch::{ExitStage, exit_code};
use staunch_types::KeyGroupCount;

use super::{Stage, Told};
use crate::harness::{JOB, Place};

/// Bytes of a split where a file is read in several.
const SPLIT_BYTES: u64 = 4096;

/// How the job is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Good,
    Json,
    Splits,
    DeadLetter,
    OtherJob,
    NestedRecord,
    NamelessHeader,
    BadDelimiter,
    NoSource,
    ZeroParallelism,
    DoubledName,
    Nowhere,
    EmptyName,
    EmptyJobName,
    DoubledState,
    OtherKeyGroups,
    OtherName,
}

/// A job that is written down badly at first.
pub(super) fn spoilt(kind: Kind) -> impl Fn(&Place, Stage) -> Told {
    move |place, stage| ends(place, if stage == Stage::Spoilt { kind } else { Kind::Good })
}

/// Runs the job.
pub(super) fn ends(place: &Place, kind: Kind) -> Told {
    ends_in(place, kind, None)
}

/// Runs the job in a world.
pub(super) fn ends_in(place: &Place, kind: Kind, world: Option<World>) -> Told {
    let mut settings = Settings::new();
    settings.parallelism = 2;
    settings.checkpoint_directory = Some(place.checkpoints());
    settings.run.interval = hours(1);
    if kind == Kind::OtherKeyGroups {
        settings.run.groups = KeyGroupCount::new(settings.run.groups.get() / 2).expect("a count");
    }
    let mut env = Environment::new(settings);
    world.map(|world| env.world(world));
    let ran = Rc::new(Cell::new(false));
    let runs = Rc::clone(&ran);
    env.on_event(move |event| runs.set(runs.get() || matches!(event, JobEvent::Running { .. })));
    write_down(&env, place, kind);
    let job = match kind {
        Kind::OtherJob => "other",
        Kind::EmptyJobName => "",
        _ => JOB,
    };
    match env.execute(job) {
        Ok(()) => Told { code: 0, text: String::new() },
        Err(error) => {
            let stage = if ran.get() { ExitStage::Running } else { ExitStage::Preflight };
            Told { code: exit_code(&error, stage).into(), text: error.to_string() }
        }
    }
}

#[derive(Clone, Deserialize)]
struct Flight {
    #[serde(rename = "id")]
    _id: u64,
    sched_ms: Timestamp,
    origin: String,
    distance: i64,
}

#[derive(Serialize)]
struct Hour {
    origin: String,
    window_start: i64,
    window_end: i64,
    flights: u64,
    distance: i64,
}

#[derive(Serialize)]
struct Late {
    sched_ms: i64,
}

fn write_down(env: &Environment, place: &Place, kind: Kind) {
    let csv = FileSource::csv::<Flight>(place.input());
    match kind {
        Kind::NoSource => {}
        Kind::DeadLetter => {
            let (flights, rejected) = env.source_with_dead_letter("flights", csv.one_split());
            hours_of(flights, place, kind);
            rejected.sink("rejected", FileSink::csv(place.output().join("rejected")));
        }
        Kind::Json => hours_of(env.source("flights", FileSource::json_lines(place.path("flights.jsonl"))), place, kind),
        Kind::Splits => hours_of(env.source("flights", csv.splits(SplitSize::Bytes(SPLIT_BYTES))), place, kind),
        Kind::BadDelimiter => hours_of(env.source("flights", csv.delimiter(b'"')), place, kind),
        Kind::Good
        | Kind::OtherJob
        | Kind::NestedRecord
        | Kind::NamelessHeader
        | Kind::ZeroParallelism
        | Kind::DoubledName
        | Kind::Nowhere
        | Kind::EmptyName
        | Kind::EmptyJobName
        | Kind::DoubledState
        | Kind::OtherKeyGroups
        | Kind::OtherName => hours_of(env.source("flights", csv), place, kind),
    }
}

fn hours_of<S: Start, X: Transform<S::Item, Out = Flight>>(flights: Stream<S, X>, place: &Place, kind: Kind) {
    let keyed = flights
        .event_time(|flight: &Flight| flight.sched_ms, Watermarks::bounded(mins(30)).per_record())
        .key_by_ref(|flight| flight.origin.as_str());
    let keyed = if kind == Kind::ZeroParallelism { keyed.parallelism(0) } else { keyed };
    if kind == Kind::DoubledState {
        return keyed.process("totals", TwoStates).discard("on-time");
    }
    let name = match kind {
        Kind::DoubledName => "flights",
        Kind::EmptyName => "",
        Kind::OtherName => "sums",
        _ => "totals",
    };
    let add = |(flights, distance): &mut (u64, i64), flight: &Flight| {
        *flights += 1;
        *distance += flight.distance;
    };
    let (sums, late) = keyed.window(Tumbling::of(hours(1))).fold_with_late(name, || (0, 0), add);
    match kind {
        Kind::Nowhere => {}
        // As the demonstration's job has it.
        Kind::DeadLetter => {
            late.map(|flight| Late { sched_ms: flight.sched_ms.0 }).sink("late", FileSink::csv(place.output().join("late")))
        }
        _ => late.discard("late"),
    }
    let folder = place.output().join("on-time");
    match kind {
        Kind::NestedRecord => sums.map(|hour| (hour.key, vec![hour.value])).sink("on-time", FileSink::csv(folder).header(false)),
        Kind::NamelessHeader => sums.map(|hour| (hour.key, hour.value.0)).sink("on-time", FileSink::csv(folder)),
        _ => sums
            .map(|hour| {
                let (flights, distance) = hour.value;
                Hour { origin: hour.key, window_start: hour.start.0, window_end: hour.end.0, flights, distance }
            })
            .sink("on-time", FileSink::csv(folder)),
    }
}

/// A process function with two states of one name.
#[derive(Clone)]
struct TwoStates;

impl Process<String, Flight> for TwoStates {
    type Out = u64;
    type Side = ();
    type States = (ValueState<String, u64>, ValueState<String, i64>);

    fn states(&self, scope: Scope) -> Self::States {
        (ValueState::new("count", scope), ValueState::new("count", scope))
    }

    fn process(&self, _flight: Flight, _states: &mut Self::States, _context: &mut ProcessContext<'_, String, u64, ()>) {}
}
