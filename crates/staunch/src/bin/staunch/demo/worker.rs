//! The job of the demonstration, an ordinary program: it knows nothing of being killed.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde::{Deserialize, Serialize};
use staunch::JobOptions;
use staunch::prelude::*;
use staunch_types::Result;

use super::JOB;
use super::pace::Paced;

/// From one checkpoint to the next.
pub(super) const INTERVAL_MS: u64 = 100;
/// Folder of the windows' output.
pub(super) const ON_TIME: &str = "on-time";
/// Folder of the late records.
pub(super) const LATE: &str = "late";

/// Options of the job.
#[derive(Args)]
pub(crate) struct WorkerOptions {
    #[command(flatten)]
    job: JobOptions,
    /// File of flights
    #[arg(long, value_name = "FILE")]
    input: PathBuf,
    /// Folder for the output
    #[arg(long, value_name = "DIR")]
    output: PathBuf,
    /// Records a second
    #[arg(long, value_name = "N", default_value_t = 1_000_000_000)]
    rate: u64,
    /// Checkpoints to keep
    #[arg(long, value_name = "N", default_value_t = 3)]
    retain: usize,
}

/// A departure: what is used of it.
#[derive(Deserialize)]
struct Flight {
    id: u64,
    sched_ms: Timestamp,
    origin: String,
    distance: i64,
}

/// What comes out of one window.
#[derive(Serialize)]
struct Hour {
    origin: String,
    window_start: i64,
    window_end: i64,
    flights: u64,
    distance: i64,
}

/// A flight that was seen after its hour was closed.
#[derive(Serialize)]
struct Late {
    id: u64,
    sched_ms: i64,
    origin: String,
}

/// Runs the job. Ends the process with the code of what went wrong.
///
/// # Errors
/// None.
pub(crate) fn work(options: &WorkerOptions) -> Result<ExitCode> {
    let mut env = Environment::from_options(&options.job);
    env.checkpoints(Checkpoints::every(millis(INTERVAL_MS)).retain(options.retain));

    let flights = Paced { source: FileSource::csv::<Flight>(&options.input).one_split(), rate: options.rate };
    let (hours, late) = env
        .source("flights", flights)
        .event_time(|flight| flight.sched_ms, Watermarks::bounded(mins(30)).per_record())
        .key_by_ref(|flight| flight.origin.as_str())
        .window(Tumbling::of(hours(1)))
        .fold_with_late(
            "totals",
            || (0, 0),
            |(flights, distance), flight: &Flight| {
                *flights += 1;
                *distance += flight.distance;
            },
        );
    hours
        .map(|hour| {
            let (flights, distance) = hour.value;
            Hour { origin: hour.key, window_start: hour.start.0, window_end: hour.end.0, flights, distance }
        })
        .sink(ON_TIME, FileSink::csv(options.output.join(ON_TIME)));
    late.map(|flight| Late { id: flight.id, sched_ms: flight.sched_ms.0, origin: flight.origin })
        .sink(LATE, FileSink::csv(options.output.join(LATE)));

    env.execute(JOB).map(|()| ExitCode::SUCCESS)
}
