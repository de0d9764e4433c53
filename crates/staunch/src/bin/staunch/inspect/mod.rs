//! `staunch inspect`: reads the state of a checkpoint without running the job.
//!
//! Owns: the choice of checkpoint, operator, state and key; the forms of the answer. Does not own: how state is put together from its
//! segments ([`state`]), what small values mean ([`inline`]).

mod state;
mod inline;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use staunch_format::manifest::{Manifest, OperatorPart};
use staunch_types::{Epoch, Error, ErrorKind, Result};

use crate::job_folder::{JobFolder, Stored};
use crate::output::{self, Table};

/// Options of `staunch inspect`.
#[derive(Args)]
pub(crate) struct Options {
    /// Folder of the job, or a checkpoint directory with one job
    path: PathBuf,
    /// Print the entries of this operator's state [default: list all operators]
    operator: Option<String>,
    /// Only this state
    #[arg(long, value_name = "NAME", requires = "operator")]
    state: Option<String>,
    /// Only this key: a text or number, or JSON for others
    #[arg(long, value_name = "K", requires = "operator")]
    key: Option<String>,
    /// Checkpoint to read [default: the newest]
    #[arg(long, value_name = "N")]
    epoch: Option<u64>,
    /// Form of the answer
    #[arg(long, value_enum, default_value_t)]
    format: Form,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Form {
    /// Aligned columns, for people
    #[default]
    Table,
    /// JSON, for programs
    Json,
    /// Comma-separated values with a header
    Csv,
}

/// What is printed, whatever the form.
struct Answer {
    header: &'static [&'static str],
    rows: Vec<Vec<Value>>,
}

/// Prints the answer.
///
/// # Errors
/// `Invalid` when there is no such job, checkpoint, operator or state; `Corrupt` when stored bytes are not what was written.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let folder = JobFolder::open(&options.path)?;
    let manifest = manifest(&folder, options.epoch.map(Epoch))?;
    let answer = match &options.operator {
        None => overview(&folder, &manifest)?,
        Some(name) => entries(&folder, &manifest, name, options)?,
    };
    match options.format {
        Form::Table => output::print(&answer.table()),
        Form::Json => output::print_json(&answer.json()),
        Form::Csv => output::print(&answer.csv()),
    }
    Ok(ExitCode::SUCCESS)
}

/// The manifest of an epoch, or of the newest.
fn manifest(folder: &JobFolder, epoch: Option<Epoch>) -> Result<Manifest> {
    let ledger = folder.ledger()?;
    let sealed = match epoch {
        Some(epoch) => ledger.seals().find(|s| s.attempt.epoch == epoch),
        None => ledger.seals().next_back(),
    };
    let absent =
        |what: String| absent(what).at(format!("path={}", folder.root().display())).remedy("`staunch checkpoints` lists what is stored");
    let Some(sealed) = sealed else {
        return Err(absent(epoch.map_or_else(|| "the job has no checkpoint yet".into(), |e| format!("there is no checkpoint {e}"))));
    };
    match folder.manifest(sealed)? {
        Stored::Intact(manifest) => Ok(*manifest),
        Stored::Damaged(error) => Err(error),
        Stored::Absent => Err(absent(format!("the manifest of epoch {} is not stored any more", sealed.attempt.epoch))),
    }
}

fn absent(what: String) -> Error {
    Error::new(ErrorKind::Invalid, "C312", what)
}

/// All operators and what they keep.
fn overview(folder: &JobFolder, manifest: &Manifest) -> Result<Answer> {
    let mut rows = Vec::new();
    for operator in &manifest.operators {
        let line = |state: &str, entries: usize, bytes: u64, segments: usize| {
            vec![
                json!(operator.name),
                json!(operator.kind),
                json!(operator.tasks.len()),
                json!(state),
                json!(entries),
                json!(bytes),
                json!(segments),
            ]
        };
        for name in state::names(operator) {
            let found = state::read(folder, manifest, operator, &name)?;
            rows.push(line(&name, found.rows.len(), found.bytes, found.segments));
        }
        let databases = || operator.tasks.iter().filter_map(|task| task.database.as_ref());
        for state in databases().next().into_iter().flat_map(|database| &database.states) {
            // Entries and bytes are known only to who opens the database.
            let files: usize = databases().map(|database| database.files.len()).sum();
            rows.push(vec![
                json!(operator.name),
                json!(operator.kind),
                json!(operator.tasks.len()),
                json!(state.name),
                Value::Null,
                Value::Null,
                json!(files),
            ]);
        }
        for (name, (entries, bytes)) in inline::sizes(operator) {
            rows.push(line(&name, entries, bytes, 0));
        }
    }
    Ok(Answer { header: &["OPERATOR", "KIND", "TASKS>", "STATE", "ENTRIES>", "BYTES>", "SEGMENTS>"], rows })
}

/// The entries of one operator.
fn entries(folder: &JobFolder, manifest: &Manifest, name: &str, options: &Options) -> Result<Answer> {
    let operator = find(manifest, name)?;
    if let Some(database) = operator.tasks.iter().find_map(|task| task.database.as_ref()) {
        let names: Vec<&str> = database.states.iter().map(|state| state.name.as_str()).collect();
        let what = format!("operator \"{name}\" keeps its keyed state ({}) in a database of kind \"{}\"", names.join(", "), database.kind);
        return Err(Error::new(ErrorKind::Invalid, "C313", format!("{what}, which this command cannot read"))
            .data("nothing was changed; the checkpoint is intact")
            .remedy("`staunch verify` proves its files; its entries are read by the job that is started from it"));
    }
    let mut all = Vec::new();
    for state in state::names(operator) {
        if options.state.as_ref().is_none_or(|wanted| *wanted == state) {
            all.extend(state::read(folder, manifest, operator, &state)?.rows);
        }
    }
    all.extend(inline::rows(operator).into_iter().filter(|row| options.state.as_ref().is_none_or(|wanted| *wanted == row.state)));
    if let Some(wanted) = options.state.as_ref()
        && all.is_empty()
        && !state::names(operator).contains(wanted)
    {
        let known: Vec<String> = state::names(operator).into_iter().chain(inline::rows(operator).into_iter().map(|r| r.state)).collect();
        return Err(absent(format!("operator \"{name}\" has no state \"{wanted}\"")).remedy(format!("it has: {}", known.join(", "))));
    }
    all.retain(|row| options.key.as_ref().is_none_or(|key| is_key(key, &row.key)));
    let rows = all.into_iter().map(|row| vec![json!(row.state), json!(row.namespace), row.key, row.value]).collect();
    Ok(Answer { header: &["STATE", "NAMESPACE>", "KEY", "VALUE"], rows })
}

fn find<'a>(manifest: &'a Manifest, name: &str) -> Result<&'a OperatorPart> {
    manifest.operators.iter().find(|o| o.name.as_str() == name).ok_or_else(|| {
        let known: Vec<&str> = manifest.operators.iter().map(|o| o.name.as_str()).collect();
        absent(format!("the checkpoint has no operator \"{name}\"")).remedy(format!("it has: {}", known.join(", ")))
    })
}

/// Whether a key is the one that was typed: its text, or its JSON.
fn is_key(typed: &str, key: &Value) -> bool {
    key.as_str() == Some(typed) || serde_json::from_str::<Value>(typed).is_ok_and(|typed| typed == *key)
}

impl Answer {
    fn table(&self) -> String {
        let mut table = Table::new(self.header);
        for row in &self.rows {
            table.row(row.iter().map(text).collect());
        }
        table.render()
    }

    fn json(&self) -> Vec<Value> {
        let names: Vec<String> = self.header.iter().map(|name| name.trim_end_matches('>').to_lowercase()).collect();
        let object = |row: &Vec<Value>| names.iter().cloned().zip(row.iter().cloned()).collect::<serde_json::Map<_, _>>().into();
        self.rows.iter().map(object).collect()
    }

    fn csv(&self) -> String {
        let line = |cells: Vec<String>| cells.iter().map(|cell| quoted(cell)).collect::<Vec<_>>().join(",") + "\n";
        let mut out = line(self.header.iter().map(|name| name.trim_end_matches('>').to_lowercase()).collect());
        for row in &self.rows {
            out += &line(row.iter().map(text).collect());
        }
        out
    }
}

/// A cell: texts as they are, other values as JSON.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell.to_owned() }
}
