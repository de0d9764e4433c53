//! The jobs on the departures from New York airports in 2013.
//!
//! Owns: the records and the four jobs whose expected output lies in `testdata/flights`. Does not own: options, processes.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use staunch::prelude::*;
use staunch_engine::job::SourceStart;
use staunch_engine::operator::window::{Fold, Hopping, Session, Tumbling, WindowResult};
use staunch_files::SplitSize;

/// Which job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Case {
    /// Tumbling windows of an hour by origin.
    A,
    /// Windows of three hours, each hour, by carrier.
    B,
    /// Sessions by aeroplane.
    C,
    /// Tumbling windows with hardly any patience, and the late records beside.
    D,
    /// Each record to the sink, in the tasks that read.
    Copy,
}

impl Case {
    /// Those with an expectation by another engine.
    pub const ALL: [Case; 4] = [Case::A, Case::B, Case::C, Case::D];

    /// Each output directory of the job, below that of the run, with the file of `testdata/flights` that it must equal for all flights.
    #[must_use]
    pub fn outputs(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Case::A => &[("windows", "a_tumble_1h_by_origin.expected.csv.gz")],
            Case::B => &[("windows", "b_hop_3h_1h_by_carrier.expected.csv.gz")],
            Case::C => &[("sessions", "c_session_6h_by_tailnum.expected.csv.gz")],
            Case::D => &[("on-time", "d_late_30m.on_time.expected.csv.gz"), ("late", "d_late_30m.late.expected.csv.gz")],
            Case::Copy => &[],
        }
    }

    /// Its word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Case::A => "a",
            Case::B => "b",
            Case::C => "c",
            Case::D => "d",
            Case::Copy => "copy",
        }
    }
}

/// Where a job reads and writes.
#[derive(Clone, Debug)]
pub struct Places {
    /// File, directory or pattern with flights.
    pub input: PathBuf,
    /// Each sink has a directory below.
    pub output: PathBuf,
    /// Bytes of a split of a plain file.
    pub split_bytes: u64,
    /// Bytes read at once.
    pub chunk_bytes: usize,
}

/// One departure.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Flight {
    id: u64,
    sched_ms: Timestamp,
    carrier: String,
    tailnum: Option<String>,
    origin: String,
    distance: u64,
    dep_delay: Option<i64>,
}

#[derive(Serialize)]
struct OriginHour {
    origin: String,
    window_start: Timestamp,
    window_end: Timestamp,
    flights: u64,
    distance: u64,
}

#[derive(Serialize)]
struct CarrierHours {
    carrier: String,
    window_start: Timestamp,
    window_end: Timestamp,
    flights: u64,
    departed: u64,
    delay_sum: i64,
}

#[derive(Serialize)]
struct TailSession {
    tailnum: String,
    window_start: Timestamp,
    window_end: Timestamp,
    flights: u64,
    distance: u64,
}

#[derive(Serialize)]
struct OnTime {
    origin: String,
    window_start: Timestamp,
    flights: u64,
}

#[derive(Serialize)]
struct Late {
    id: u64,
    sched_ms: Timestamp,
    origin: String,
}

/// What is kept of the flights of a window.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
struct Sums {
    flights: u64,
    distance: u64,
    departed: u64,
    delay: i64,
}

impl Sums {
    fn add(&mut self, flight: &Flight) {
        self.flights += 1;
        self.distance += flight.distance;
        if let Some(delay) = flight.dep_delay {
            self.departed += 1;
            self.delay += delay;
        }
    }

    fn merge(&mut self, other: &Sums) {
        self.flights += other.flights;
        self.distance += other.distance;
        self.departed += other.departed;
        self.delay += other.delay;
    }
}

/// Writes the job of a case down.
pub fn write(env: &Environment, case: Case, places: &Places) {
    match case {
        Case::A => by_origin(env, places),
        Case::B => by_carrier(env, places),
        Case::C => by_tail(env, places),
        Case::D => with_late(env, places),
        Case::Copy => copy(env, places),
    }
}

fn source(env: &Environment, places: &Places) -> Stream<SourceStart<FileSource<Flight>>> {
    env.source(
        "flights",
        FileSource::csv::<Flight>(&places.input).splits(SplitSize::Bytes(places.split_bytes)).chunk_bytes(places.chunk_bytes),
    )
}

fn sink<T>(output: &Path, name: &str) -> FileSink<T> {
    FileSink::csv(output.join(name))
}

fn by_origin(env: &Environment, places: &Places) {
    source(env, places)
        .event_time(|f| f.sched_ms, Watermarks::bounded(hours(24)))
        .key_by_ref(|f| f.origin.as_str())
        .window(Tumbling::of(hours(1)))
        .fold("by-origin", Sums::default, Sums::add)
        .map(|w: WindowResult<String, Sums>| OriginHour {
            origin: w.key,
            window_start: w.start,
            window_end: w.end,
            flights: w.value.flights,
            distance: w.value.distance,
        })
        .sink("windows", sink(&places.output, "windows"));
}

fn by_carrier(env: &Environment, places: &Places) {
    source(env, places)
        .event_time(|f| f.sched_ms, Watermarks::bounded(hours(24)))
        .key_by_ref(|f| f.carrier.as_str())
        .window(Hopping::of(hours(3), hours(1)))
        .aggregate("by-carrier", Fold::new(Sums::default, Sums::add).merge(Sums::merge))
        .map(|w| CarrierHours {
            carrier: w.key,
            window_start: w.start,
            window_end: w.end,
            flights: w.value.flights,
            departed: w.value.departed,
            delay_sum: w.value.delay,
        })
        .sink("windows", sink(&places.output, "windows"));
}

fn by_tail(env: &Environment, places: &Places) {
    source(env, places)
        .event_time(|f| f.sched_ms, Watermarks::bounded(hours(24)))
        .filter(|f| f.tailnum.is_some())
        .key_by_ref(|f| f.tailnum.as_deref().unwrap_or_default())
        .window(Session::gap(hours(6)))
        .aggregate_sessions("by-tail", Fold::new(Sums::default, Sums::add).merge(Sums::merge))
        .map(|w| TailSession {
            tailnum: w.key,
            window_start: w.start,
            window_end: w.end,
            flights: w.value.flights,
            distance: w.value.distance,
        })
        .sink("sessions", sink(&places.output, "sessions"));
}

fn with_late(env: &Environment, places: &Places) {
    let flights = FileSource::csv::<Flight>(&places.input).one_split().chunk_bytes(places.chunk_bytes);
    let (on_time, late) = env
        .source("flights", flights)
        .event_time(|f| f.sched_ms, Watermarks::bounded(mins(30)).per_record())
        .key_by_ref(|f| f.origin.as_str())
        .window(Tumbling::of(hours(1)))
        .fold_with_late("by-origin", || 0_u64, |count, _| *count += 1);
    on_time.map(|w| OnTime { origin: w.key, window_start: w.start, flights: w.value }).sink("on-time", sink(&places.output, "on-time"));
    late.map(|f| Late { id: f.id, sched_ms: f.sched_ms, origin: f.origin }).sink("late", sink(&places.output, "late"));
}

fn copy(env: &Environment, places: &Places) {
    source(env, places).map(|f| Late { id: f.id, sched_ms: f.sched_ms, origin: f.origin }).sink("copy", sink(&places.output, "copy"));
}
