//! What a job's program can be told: by flag, by environment variable, by file; and what that means.
//!
//! Owns: the names of the options, their help, the order in which they win: flag, environment variable, file, default.
//! Does not own: what the values mean for a run ([`given`]), the reading of a file ([`file`]).
//!
//! Invariants:
//! 1. Each option has one name in three spellings: `--checkpoint-dir`, `STAUNCH_CHECKPOINT_DIR`, `checkpoint-dir` in the file.
//! 2. Nothing that is given is ignored: an unknown key or a value that is not understood is an error which names its place.

mod file;
mod given;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, ValueEnum};
use staunch_types::{Error, ErrorKind, Result};

pub(crate) use given::Given;

/// What to do with the job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Command {
    /// Run it
    #[default]
    Run,
    /// Print the graph, the state it keeps, and what is guaranteed on each way from source to sink
    Plan,
    /// Look whether it can run: checkpoint store, checkpoint, sources, sinks
    Check,
}

/// The options of a job's program, as `clap` arguments: to be flattened into a program's own, if it has some.
///
/// ```
/// use clap::Parser;
///
/// #[derive(Parser)]
/// struct MyOptions {
///     /// Where the payments are
///     #[arg(long)]
///     input: String,
///     #[command(flatten)]
///     job: staunch::JobOptions,
/// }
///
/// let options = MyOptions::parse_from(["my-job", "plan", "--input", "payments", "--parallelism", "2"]);
/// let env = staunch::Environment::from_options(&options.job);
/// # let _ = env;
/// ```
#[derive(Args, Clone, Debug, Default)]
pub struct JobOptions {
    /// What to do with the job
    #[arg(value_enum, default_value_t = Command::Run)]
    command: Command,

    /// Tasks of each chain that does not say otherwise [default: the number of cores]
    #[arg(long, value_name = "N", env = "STAUNCH_PARALLELISM")]
    parallelism: Option<String>,

    /// Directory of checkpoints, as path or file:///…; each job has a folder of its own in it [default: what the program says;
    /// without any, the job does not survive a crash]
    #[arg(long, value_name = "URL", env = "STAUNCH_CHECKPOINT_DIR")]
    checkpoint_dir: Option<String>,

    /// Time from one checkpoint to the next, such as 500ms, 10s, 5m [default: what the program says, or 10s]
    #[arg(long, value_name = "TIME", env = "STAUNCH_CHECKPOINT_INTERVAL")]
    checkpoint_interval: Option<String>,

    /// What to start from: latest, none, the number of an epoch, or the path of its manifest [default: latest]
    #[arg(long, value_name = "latest|none|PATH", env = "STAUNCH_RESTORE")]
    restore: Option<String>,

    /// Drop the state of an operator that the job no longer has; several, or separated by commas
    #[arg(long, value_name = "NAME", env = "STAUNCH_ALLOW_LOST_STATE", value_delimiter = ',')]
    allow_lost_state: Vec<String>,

    /// Go on without output of this sink that is provably lost, and record that; several, or separated by commas
    #[arg(long, value_name = "SINK", env = "STAUNCH_ACCEPT_LOST", value_delimiter = ',')]
    accept_lost: Vec<String>,

    /// Abort what another job of this name has open at the sink, which does not run any more, and write there; what it wrote stays, and
    /// what is read again is written a second time; several, or separated by commas
    #[arg(long, value_name = "SINK", env = "STAUNCH_TAKE_OVER", value_delimiter = ',')]
    take_over: Vec<String>,

    /// Part that this process plays: local [default: local]
    #[arg(long, value_name = "ROLE", env = "STAUNCH_ROLE")]
    role: Option<String>,

    /// Where /metrics is served for Prometheus, as HOST:PORT, as a port of this machine alone, or none [default: none]
    #[arg(long, value_name = "HOST:PORT", env = "STAUNCH_HTTP")]
    http: Option<String>,

    /// File with the token that whoever reads --http must show; without one, only this machine is answered [default: none]
    #[arg(long, value_name = "FILE", env = "STAUNCH_HTTP_TOKEN_FILE")]
    http_token_file: Option<String>,

    /// File (TOML) with any of these options, such as parallelism = 4
    #[arg(long, value_name = "FILE", env = "STAUNCH_CONFIG")]
    config: Option<PathBuf>,
}

/// The options alone, for programs that have none of their own.
#[derive(Parser, Debug)]
#[command(about = "A job of Staunch.", disable_help_subcommand = true)]
struct CommandLine {
    #[command(flatten)]
    job: JobOptions,
    /// Words behind `--`, which the program reads itself.
    #[arg(last = true, hide = true)]
    _own: Vec<OsString>,
}

impl JobOptions {
    /// Reads a command line whose first word is the program's name. Asked for help, or given what it does not know, it prints and ends
    /// the process, with 0 or 2.
    pub(crate) fn parse(words: impl IntoIterator<Item = OsString>) -> JobOptions {
        CommandLine::parse_from(words).job
    }

    /// What to do with the job.
    #[must_use]
    pub fn command(&self) -> Command {
        self.command
    }

    /// The values, with those of the file below those of the command line and the environment.
    ///
    /// # Errors
    /// `Invalid` with the place of what is not understood.
    pub(crate) fn given(&self) -> Result<Given> {
        let mut given = Given::default();
        if let Some(path) = &self.config {
            file::read(path, &mut given)?;
        }
        let single = [
            (Key::Parallelism, &self.parallelism),
            (Key::CheckpointDir, &self.checkpoint_dir),
            (Key::CheckpointInterval, &self.checkpoint_interval),
            (Key::Restore, &self.restore),
            (Key::Role, &self.role),
            (Key::Http, &self.http),
            (Key::HttpTokenFile, &self.http_token_file),
        ];
        for (key, value) in single {
            if let Some(value) = value {
                given.set(key, std::slice::from_ref(value), &key.place())?;
            }
        }
        for (key, values) in
            [(Key::AllowLostState, &self.allow_lost_state), (Key::AcceptLost, &self.accept_lost), (Key::TakeOver, &self.take_over)]
        {
            if !values.is_empty() {
                given.set(key, values, &key.place())?;
            }
        }
        Ok(given)
    }
}

/// An option that can be given in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    Parallelism,
    CheckpointDir,
    CheckpointInterval,
    Restore,
    AllowLostState,
    AcceptLost,
    TakeOver,
    Role,
    Http,
    HttpTokenFile,
}

impl Key {
    pub(crate) const ALL: [Key; 10] = [
        Key::Parallelism,
        Key::CheckpointDir,
        Key::CheckpointInterval,
        Key::Restore,
        Key::AllowLostState,
        Key::AcceptLost,
        Key::TakeOver,
        Key::Role,
        Key::Http,
        Key::HttpTokenFile,
    ];

    /// Its name in a file; behind `--` the flag.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Key::Parallelism => "parallelism",
            Key::CheckpointDir => "checkpoint-dir",
            Key::CheckpointInterval => "checkpoint-interval",
            Key::Restore => "restore",
            Key::AllowLostState => "allow-lost-state",
            Key::AcceptLost => "accept-lost",
            Key::TakeOver => "take-over",
            Key::Role => "role",
            Key::Http => "http",
            Key::HttpTokenFile => "http-token-file",
        }
    }

    /// Where a value of the command line or the environment is to be looked for.
    fn place(self) -> String {
        let variable = self.name().to_uppercase().replace('-', "_");
        format!("option --{}, or variable STAUNCH_{variable}", self.name())
    }
}

/// An error about a setting.
pub(crate) fn refused(code: &str, what: impl Into<String>, place: &str) -> Error {
    Error::new(ErrorKind::Invalid, code, what).at(place).data("nothing was started")
}

#[cfg(test)]
mod tests;
