//! `staunch checkpoints`: what is stored, how large it is, what is shared, what can be restored.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use staunch_format::ledger::Sealed;
use staunch_format::manifest::Manifest;
use staunch_types::{Error, ErrorKind, Name, Result};

use crate::job_folder::{JobFolder, Ledger, Stored};
use crate::output::{self, Format, Table};

/// Options of `staunch checkpoints`.
#[derive(Args)]
pub(crate) struct Options {
    /// Checkpoint directory, or the folder of a job in it
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Only this job
    job: Option<String>,
    /// Form of the answer
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// A stored checkpoint.
#[derive(Serialize)]
struct Checkpoint {
    job: Name,
    epoch: u64,
    generation: u64,
    reason: String,
    wall_ms: i64,
    /// Path of the manifest, for `--restore`.
    manifest: String,
    manifest_bytes: u64,
    state_bytes: u64,
    /// Of the state, bytes in objects that other stored checkpoints need as well.
    shared_bytes: u64,
    /// `none`, `committed` or `in doubt`.
    output: &'static str,
    restorable: bool,
    /// Why it cannot be restored.
    obstacle: Option<String>,
}

/// Prints the answer.
///
/// # Errors
/// `Invalid` when there is no such job; `Restart` when it cannot be read.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let mut all = Vec::new();
    let (mut known, mut others) = (options.job.is_none(), Vec::new());
    for folder in JobFolder::all(&options.directory)? {
        let ledger = folder.ledger()?;
        if let Some(error) = &ledger.broken {
            output::complain(&error.to_string());
        }
        let wanted = |job: &Name| options.job.as_ref().is_none_or(|wanted| job.as_str() == wanted);
        match ledger.job() {
            Some(job) if wanted(job) => {
                known = true;
                all.extend(of_job(&folder, &ledger)?);
            }
            Some(job) => others.push(job.to_string()),
            None => {}
        }
    }
    if !known {
        let what = format!("no job \"{}\" has checkpoints at the path", options.job.as_deref().unwrap_or_default());
        return Err(Error::new(ErrorKind::Invalid, "C301", what)
            .at(format!("path={}", options.directory.display()))
            .data("nothing was read")
            .remedy(format!("name one of those that have: {}", others.join(", "))));
    }
    match options.format {
        Format::Json => output::print_json(&all),
        Format::Table => output::print(&table(&all)),
    }
    Ok(ExitCode::SUCCESS)
}

fn of_job(folder: &JobFolder, ledger: &Ledger) -> Result<Vec<Checkpoint>> {
    let Some(job) = ledger.job() else { return Ok(Vec::new()) };
    let objects: BTreeMap<String, u64> = folder.objects("state/")?.into_iter().collect();
    let mut found: Vec<(&Sealed, Option<Manifest>, Option<String>)> = Vec::new();
    for sealed in ledger.seals() {
        match folder.manifest(sealed)? {
            Stored::Intact(manifest) => {
                let obstacle = obstacle(&manifest, &objects);
                found.push((sealed, Some(*manifest), obstacle));
            }
            Stored::Damaged(error) => found.push((sealed, None, Some(error.what().to_owned()))),
            Stored::Absent => {}
        }
    }
    let mut needed_by: BTreeMap<String, usize> = BTreeMap::new();
    for (_, manifest, _) in &found {
        objects_of(manifest.as_ref()).into_iter().for_each(|object| *needed_by.entry(object).or_default() += 1);
    }
    let committed = ledger.committed();
    let checkpoint = |(sealed, manifest, obstacle): (&Sealed, Option<Manifest>, Option<String>)| {
        let segments = || manifest.iter().flat_map(Manifest::segments);
        let unique: BTreeMap<(&str, u64), u64> = segments().map(|s| ((s.path.as_str(), s.offset), s.length)).collect();
        Checkpoint {
            job: job.clone(),
            epoch: sealed.attempt.epoch.0,
            generation: sealed.attempt.generation.0,
            reason: format!("{:?}", sealed.reason).to_lowercase(),
            wall_ms: manifest.as_ref().map_or(0, |m| m.wall_ms),
            manifest: folder.file(&sealed.manifest.path),
            manifest_bytes: sealed.manifest.length,
            state_bytes: unique.values().sum(),
            shared_bytes: unique.iter().filter(|((path, _), _)| needed_by.get(*path).is_some_and(|n| *n > 1)).map(|(_, n)| n).sum(),
            output: match sealed.committables.is_empty() {
                true => "none",
                false if committed.contains(&sealed.attempt.epoch) => "committed",
                false => "in doubt",
            },
            restorable: obstacle.is_none(),
            obstacle,
        }
    };
    Ok(found.into_iter().map(checkpoint).collect())
}

fn objects_of(manifest: Option<&Manifest>) -> BTreeSet<String> {
    manifest.into_iter().flat_map(Manifest::segments).map(|s| s.path.clone()).collect()
}

/// Why a checkpoint cannot be restored, as far as lengths tell; `staunch verify` reads every byte.
fn obstacle(manifest: &Manifest, objects: &BTreeMap<String, u64>) -> Option<String> {
    manifest.segments().find_map(|segment| match objects.get(&segment.path) {
        None => Some(format!("{} is missing", segment.path)),
        Some(bytes) if *bytes < segment.offset + segment.length => Some(format!("{} is too short", segment.path)),
        Some(_) => None,
    })
}

fn table(all: &[Checkpoint]) -> String {
    let mut table =
        Table::new(&["JOB", "EPOCH>", "GENERATION>", "WHEN (UTC)", "REASON", "STATE>", "SHARED>", "OUTPUT", "RESTORABLE", "MANIFEST"]);
    for one in all {
        table.row(vec![
            one.job.to_string(),
            one.epoch.to_string(),
            one.generation.to_string(),
            output::utc(one.wall_ms),
            one.reason.clone(),
            output::bytes(one.state_bytes),
            output::bytes(one.shared_bytes),
            one.output.into(),
            one.obstacle.as_ref().map_or_else(|| "yes".into(), |why| format!("no: {why}")),
            one.manifest.clone(),
        ]);
    }
    table.render()
}
