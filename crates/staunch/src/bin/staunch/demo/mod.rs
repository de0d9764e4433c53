//! `staunch demo`: a real stream, killed again and again, and the proof that nothing is lost or doubled.
//!
//! Owns: the course of the demonstration and its verdict. Follows it: the data ([`data`]), the job ([`worker`], slowed down by [`pace`]), the
//! killing ([`kills`]), the comparison ([`compare`]). Everything that is printed is counted from what is on disk at the end.
//! Does not own: the job's correctness, which it only shows.

mod data;
mod pace;
mod worker;
mod kills;
mod compare;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use staunch_engine::runtime::TemporaryDirectory;
use staunch_types::{Error, ErrorKind, Result};

use crate::job_folder::JobFolder;
use crate::options::BrokerOptions;
use crate::options::Epochs;
use crate::output;
use crate::verify::{Report, verify};

pub(crate) use worker::{WorkerOptions, work};

/// The job's name.
const JOB: &str = "flights-per-hour";

/// Options of `staunch demo`.
#[derive(Args)]
pub(crate) struct Options {
    /// Empty folder to work in, and to keep [default: a temporary one, removed at the end]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// How often the job is killed
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..))]
    kills: u32,
    /// Records a second, so that there is time to kill
    #[arg(long, hide = true, default_value_t = 2_700)]
    rate: u64,
}

/// Where everything lies.
struct Places {
    root: PathBuf,
    input: PathBuf,
    output: PathBuf,
    checkpoints: PathBuf,
}

/// Runs the demonstration; exit code 1, with the difference, if it fails.
///
/// # Errors
/// `Invalid` when the folder cannot be used; `Bug` when the job does not do as it should.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let (places, temporary) = prepare(options.dir.as_deref())?;
    let shown = show(options, &places);
    if let Err(error) = &shown {
        output::complain(&format!("{error}\nthe evidence is kept in {}", places.root.display()));
        // Dropped, it would be removed.
        std::mem::forget(temporary);
        return Ok(ExitCode::FAILURE);
    }
    if options.dir.is_some() {
        let checkpoints = places.checkpoints.display();
        output::print(&format!(
            "look around: `staunch ledger {checkpoints}`, `staunch inspect {checkpoints}`, `staunch verify {checkpoints}`, {}\n",
            places.output.display()
        ));
    }
    shown.map(|line| {
        output::print(&line);
        ExitCode::SUCCESS
    })
}

/// The demonstration; its last line.
fn show(options: &Options, places: &Places) -> Result<String> {
    let rows = data::write_input(&places.input)?;
    output::print(&format!(
        "{} departures from New York, January 2013, out of order by up to a day: flights and miles per airport and hour, late ones aside\n\
         the job takes a checkpoint each {} ms; it is killed (SIGKILL) {} times, and started again with another parallelism each time\n",
        output::number(rows),
        worker::INTERVAL_MS,
        options.kills
    ));
    let kills = kills::run_killed(options, places, rows)?;
    let compared = [
        compare::compare("on-time", &places.output.join(worker::ON_TIME), data::EXPECTED_ON_TIME)?,
        compare::compare("late", &places.output.join(worker::LATE), data::EXPECTED_LATE)?,
    ];
    let folder = JobFolder::open(&places.checkpoints)?;
    let report = verify(&folder, Epochs::ALL, &BrokerOptions::default())?;
    output::print(&report.render());
    compared.iter().for_each(|one| output::print(&one.render()));
    judge(rows, &report, &compared)?;
    let lost: u64 = compared.iter().map(|one| one.lost).sum();
    let doubled: u64 = compared.iter().map(|one| one.doubled).sum();
    Ok(format!(
        "demo: {} records, {kills} kills, {} epochs, {lost} lost, {doubled} duplicated, ledger verified\n",
        report.records_read(),
        report.epochs()
    ))
}

/// Whether all is as it should be.
fn judge(rows: u64, report: &Report, compared: &[compare::Compared]) -> Result<()> {
    let failure = |what: String| {
        Error::new(ErrorKind::Bug, "B101", what)
            .data("the demonstration has its own data; no other is touched")
            .remedy("please report this with the folder named below")
    };
    let failed = |what: String| Err(failure(what));
    if let Some(finding) = report.findings().first() {
        let count = report.findings().len();
        return Err(failure(format!("what the job stored and wrote is not as it should be, in {count} places")).cause(finding));
    }
    if !report.is_proof() {
        return failed("not everything that the job wrote could be looked at".into());
    }
    if report.records_read() != rows {
        return failed(format!("expected {rows} records to be read, found {}", report.records_read()));
    }
    match compared.iter().find(|one| !one.is_equal()) {
        Some(one) => failed(format!(
            "the output \"{}\" is not the expected one: {} lost, {} doubled, {} other",
            one.name, one.lost, one.doubled, one.other
        )),
        None => Ok(()),
    }
}

fn prepare(dir: Option<&Path>) -> Result<(Places, Option<TemporaryDirectory>)> {
    let refused = |what: &str, path: &Path| {
        Error::new(ErrorKind::Invalid, "R103", what)
            .at(format!("path={}", path.display()))
            .remedy("name an empty folder with --dir, or none")
    };
    let temporary = match dir {
        Some(_) => None,
        None => Some(TemporaryDirectory::new()?),
    };
    let root = dir.or(temporary.as_ref().map(TemporaryDirectory::path)).unwrap_or_else(|| Path::new("."));
    std::fs::create_dir_all(root).map_err(|error| refused("the folder of the demonstration cannot be made", root).cause(error))?;
    let root =
        std::fs::canonicalize(root).map_err(|error| refused("the folder of the demonstration cannot be found", root).cause(error))?;
    let empty = std::fs::read_dir(&root).map(|mut entries| entries.next().is_none());
    if !empty.map_err(|error| refused("the folder of the demonstration cannot be read", &root).cause(error))? {
        return Err(refused("the folder of the demonstration is not empty", &root));
    }
    let places = Places { input: root.join("flights.csv"), output: root.join("output"), checkpoints: root.join("checkpoints"), root };
    Ok((places, temporary))
}
