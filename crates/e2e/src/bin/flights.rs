//! The job program of the end-to-end tests: a job on flights, in a world where things go wrong. Says on standard output what happens.
#![allow(clippy::disallowed_methods, reason = "a program reads its options")]

use std::path::PathBuf;
use std::sync::Arc;

use clap::Parser;
use staunch::rocksdb::RocksDb;
use staunch::{Environment, JobOptions};
use staunch_e2e::events;
use staunch_e2e::flights::{self, Case, Places};
use staunch_e2e::world::{self, Script, Throttle};

/// Bytes of memory for keyed state in RocksDB.
const ROCKSDB_MEMORY: usize = 16 << 20;

/// One of the jobs on flights.
#[derive(Parser)]
struct Options {
    #[command(flatten)]
    job: JobOptions,
    /// Which job
    #[arg(long, value_enum)]
    case: Case,
    /// File, directory or pattern with flights
    #[arg(long)]
    input: PathBuf,
    /// Where output goes
    #[arg(long)]
    output: PathBuf,
    /// Bytes of a split of a plain file
    #[arg(long, default_value_t = 1 << 20)]
    split_bytes: u64,
    /// Bytes read at once
    #[arg(long, default_value_t = 1 << 20)]
    chunk_bytes: usize,
    /// What goes wrong at which step
    #[arg(long, default_value = "")]
    faults: String,
    /// Bytes of input that are read in a second; 0 for as fast as it goes
    #[arg(long, default_value_t = 0)]
    throttle: u64,
    /// Checkpoints that may fail in a row
    #[arg(long)]
    failures_tolerated: Option<u32>,
    /// Keyed state lies in RocksDB, and takes so many bytes in memory as objects
    #[arg(long)]
    rocksdb_objects: Option<usize>,
    /// Restarts without a checkpoint that are survived
    #[arg(long)]
    restarts_tolerated: Option<u32>,
}

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let mut env = Environment::from_options(&options.job);
    let run = &mut env.settings().run;
    run.failures_tolerated = options.failures_tolerated.unwrap_or(run.failures_tolerated);
    run.restarts.failures_tolerated = options.restarts_tolerated.unwrap_or(run.restarts.failures_tolerated);
    if let Some(bytes) = options.rocksdb_objects {
        let directory = options.output.with_file_name("databases");
        env.state(RocksDb::default().memory(ROCKSDB_MEMORY).objects(bytes).directory(directory));
    }
    let script = Arc::new(options.faults.parse::<Script>()?);
    env.world(world::faulty(script, (options.throttle > 0).then(|| Throttle::new(options.throttle))));
    env.on_event(|event| println!("{}", events::line(event)));
    let places =
        Places { input: options.input, output: options.output, split_bytes: options.split_bytes, chunk_bytes: options.chunk_bytes };
    flights::write(&env, options.case, &places);
    env.execute(&format!("flights-{}", options.case.word()))?;
    Ok(())
}
