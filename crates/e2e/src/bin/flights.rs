//! The job program of the end-to-end tests.

use std::path::PathBuf;

use clap::Parser;
use staunch::{Environment, JobOptions};
use staunch_e2e::flights::{self, Case, Places};

/// One of the jobs on flights.
#[derive(Parser)]
struct Options {
    #[command(flatten)]
    job: JobOptions,
    /// Which job.
    #[arg(long, value_enum)]
    case: Case,
    /// File, directory or pattern with flights.
    #[arg(long)]
    input: PathBuf,
    /// Where output goes.
    #[arg(long)]
    output: PathBuf,
    /// Bytes of a split of a plain file.
    #[arg(long, default_value_t = 1 << 20)]
    split_bytes: u64,
    /// Bytes read at once.
    #[arg(long, default_value_t = 1 << 20)]
    chunk_bytes: usize,
}

fn main() -> staunch::Result<()> {
    let options = Options::parse();
    let env = Environment::from_options(&options.job);
    let places =
        Places { input: options.input, output: options.output, split_bytes: options.split_bytes, chunk_bytes: options.chunk_bytes };
    flights::write(&env, options.case, &places);
    env.execute(&format!("flights-{}", options.case.letter()))
}
