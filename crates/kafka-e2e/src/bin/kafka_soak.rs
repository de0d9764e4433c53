//! Kill loops at real brokers, one after the other, until a time or a number is reached or one of them fails.
//!
//! Owns: the choice of seeds, the lines that tell of each run, the folder of the one that failed. Does not own: a kill loop.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a program that reads its options, looks at the clock and starts processes"
)]

use std::env;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use staunch_kafka_e2e::soak::Kills;

/// Kills a job and the brokers again and again, each run with another seed, and lets the judge look at what they leave behind.
#[derive(Parser)]
struct Options {
    /// Begin no run after so many seconds
    #[arg(long, default_value_t = 1800)]
    seconds: u64,
    /// At most so many runs
    #[arg(long, default_value_t = u64::MAX)]
    runs: u64,
    /// Kills of the job in each run
    #[arg(long, default_value_t = 50)]
    kills: u32,
    /// Kills of brokers in each run
    #[arg(long, default_value_t = 5)]
    broker_kills: u32,
    /// Seed of the first run; the others follow [default: by the clock]
    #[arg(long)]
    seed: Option<u64>,
}

fn main() -> Result<ExitCode> {
    let options = Options::parse();
    build()?;
    let program = env::current_exe()?.parent().context("a program lies in a folder")?.join("kafka-job");
    ensure!(program.exists(), "{} does not exist; build all of staunch-kafka-e2e", program.display());
    let first = options.seed.unwrap_or_else(|| SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_secs());
    let (began, mut runs) = (Instant::now(), 0);
    while runs < options.runs && began.elapsed() < Duration::from_secs(options.seconds) {
        let seed = first.wrapping_add(runs);
        let folder = tempfile::Builder::new().prefix("staunch-kafka-soak-").tempdir().context("make a temporary folder")?;
        let run = Instant::now();
        let kills = Kills { program: program.clone(), kills: options.kills, broker_kills: options.broker_kills, seed };
        match kills.run(folder.path()) {
            Ok(tally) => {
                println!("seed {seed}: {tally} in {:.1} s: 0 lost, 0 doubled", run.elapsed().as_secs_f64());
                runs += 1;
            }
            Err(error) => {
                println!("seed {seed}: FAILED: {error:#}");
                println!("before it {runs} runs; its checkpoints are in {}", folder.keep().display());
                let Options { kills, broker_kills, .. } = options;
                println!("once more: kafka-soak --runs 1 --seed {seed} --kills {kills} --broker-kills {broker_kills}");
                return Ok(ExitCode::FAILURE);
            }
        }
    }
    println!("{runs} runs in {} s, none lost or doubled", began.elapsed().as_secs());
    Ok(ExitCode::SUCCESS)
}

/// Cargo builds one program at a time; the one that is to be killed must be of the same source.
fn build() -> Result<()> {
    let Some(cargo) = env::var_os("CARGO") else { return Ok(()) };
    let own = env::current_exe()?;
    let is_release = own.parent().is_some_and(|folder| folder.ends_with("release"));
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet", "--locked", "--package", "staunch-kafka-e2e", "--bins"]).args(is_release.then_some("--release"));
    ensure!(command.status().context("start cargo")?.success(), "the program that is to be killed cannot be built");
    Ok(())
}
