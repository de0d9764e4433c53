//! Kill loops, one after the other, until a time or a number is reached or one of them fails.
//!
//! Owns: the choice of cases and seeds, the lines that tell of each run, the folder of the one that failed. Does not own: a kill loop.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a program that reads its options, looks at the clock and starts processes"
)]

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant, SystemTime};
use std::{env, fs};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use flate2::read::GzDecoder;
use staunch_e2e::flights::Case;
use staunch_e2e::job::{Job, Programs};
use staunch_e2e::kills::{Kills, Tally};
use tempfile::TempDir;

/// Kills of each run.
const KILLS: u32 = 25;
/// A job that is not killed earlier is killed after so long.
const RUN_MAX: Duration = Duration::from_millis(1200);

/// Kills jobs again and again, each run with another seed, and checks what they leave behind.
#[derive(Parser)]
struct Options {
    /// Begin no run after so many seconds
    #[arg(long, default_value_t = 3600)]
    seconds: u64,
    /// Seed of the first run; the others follow [default: by the clock]
    #[arg(long)]
    seed: Option<u64>,
    /// At most so many runs
    #[arg(long, default_value_t = u64::MAX)]
    runs: u64,
}

/// What all runs together came to.
#[derive(Default)]
struct Total {
    runs: u64,
    kills: u64,
    epochs: u64,
    records: u64,
}

fn main() -> Result<ExitCode> {
    let options = Options::parse();
    build()?;
    let programs = Programs::beside()?;
    let folder = folder()?;
    let input = unpacked(&programs.data, folder.path())?;
    let first = options.seed.unwrap_or_else(|| SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_secs());
    let (began, mut total) = (Instant::now(), Total::default());
    while total.runs < options.runs && began.elapsed() < Duration::from_secs(options.seconds) {
        let seed = first.wrapping_add(total.runs);
        let case = Case::ALL[(seed % Case::ALL.len() as u64) as usize];
        let own = self::folder()?;
        let run = Instant::now();
        match one(&programs, case, seed, &input, own.path()) {
            Ok(tally) => {
                total.add(&tally);
                println!("seed {seed} case {}: {} in {:.1} s: ok", case.word(), words(&tally), run.elapsed().as_secs_f64());
            }
            Err(error) => {
                println!("seed {seed} case {}: FAILED: {error:#}", case.word());
                println!("before it {}; its checkpoints and output are in {}", total.words(began.elapsed()), own.keep().display());
                println!("once more: soak --runs 1 --seed {seed}");
                return Ok(ExitCode::FAILURE);
            }
        }
    }
    println!("{}, none lost or doubled", total.words(began.elapsed()));
    Ok(ExitCode::SUCCESS)
}

fn one(programs: &Programs, case: Case, seed: u64, input: &Path, root: &Path) -> Result<Tally> {
    let job = Job::over_all_flights(programs, case, input, root)?;
    let tally = Kills::spread_over_input(&job, KILLS, RUN_MAX, seed)?.run(&job)?;
    ensure!(tally.after_progress > 0, "no kill came after a checkpoint: {tally:?}");
    Ok(tally)
}

fn words(tally: &Tally) -> String {
    let Tally { kills, after_progress, while_starting, epochs, records } = tally;
    format!("{kills} kills ({after_progress} after a checkpoint, {while_starting} while starting), {epochs} epochs, {records} records")
}

impl Total {
    fn add(&mut self, tally: &Tally) {
        self.runs += 1;
        self.kills += u64::from(tally.kills);
        self.epochs += tally.epochs;
        self.records += tally.records;
    }

    fn words(&self, elapsed: Duration) -> String {
        let Total { runs, kills, epochs, records } = self;
        format!("{runs} runs in {} s: {kills} kills, {epochs} epochs, {records} records", elapsed.as_secs())
    }
}

/// Cargo builds one program at a time; those that are to be killed must be of the same source.
fn build() -> Result<()> {
    let Some(cargo) = env::var_os("CARGO") else { return Ok(()) };
    let own = env::current_exe()?;
    let is_release = own.parent().is_some_and(|folder| folder.ends_with("release"));
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet", "--locked", "--package", "staunch-e2e", "--bins"]).args(is_release.then_some("--release"));
    ensure!(command.status().context("start cargo")?.success(), "the programs that are to be killed cannot be built");
    Ok(())
}

fn folder() -> Result<TempDir> {
    tempfile::Builder::new().prefix("staunch-soak-").tempdir().context("make a temporary folder")
}

/// All flights as a plain file, which has splits.
fn unpacked(data: &Path, folder: &Path) -> Result<PathBuf> {
    let path = folder.join("flights.csv");
    let packed = fs::File::open(data.join("flights.csv.gz")).context("open the flights")?;
    std::io::copy(&mut GzDecoder::new(packed), &mut fs::File::create(&path)?).context("unpack the flights")?;
    Ok(path)
}
