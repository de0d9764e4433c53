//! What the values of options mean.
//!
//! Owns: the reading of each value, and its laying over the settings of a program. Does not own: where values come from.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use staunch_engine::cluster::Restore;
use staunch_engine::job::Settings;
use staunch_http::Http;
use staunch_types::{Epoch, Name, Result};

use super::{Key, refused};
use crate::time;

/// Code of a value that is not understood.
const BAD_VALUE: &str = "J101";
/// Code of a value that is understood, and of which this build is not capable.
const NOT_IN_THIS_BUILD: &str = "J102";
/// Code of a manifest that is not one of the job's own.
const FOREIGN_MANIFEST: &str = "J106";
/// Code of a file without a usable token.
const BAD_TOKEN: &str = "J108";

/// What was given; all else is as the program says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Given {
    pub(crate) parallelism: Option<u32>,
    pub(crate) checkpoint_directory: Option<PathBuf>,
    pub(crate) interval: Option<Duration>,
    pub(crate) restore: Option<RestoreGiven>,
    pub(crate) allow_lost_state: Option<BTreeSet<Name>>,
    pub(crate) accept_lost: Option<BTreeSet<Name>>,
    pub(crate) take_over: Option<BTreeSet<Name>>,
    pub(crate) http: Option<HttpGiven>,
    pub(crate) http_token: Option<String>,
}

/// Where the HTTP interface is, as given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HttpGiven {
    Nowhere,
    At(Http),
}

/// What to start from, as given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RestoreGiven {
    Latest,
    Nothing,
    Epoch(Epoch),
    /// A path that was given, and the epoch that its name says.
    Manifest(PathBuf, Epoch),
}

impl Given {
    /// Takes the values of one option, over those that it has already.
    ///
    /// # Errors
    /// `Invalid` with what was expected and found, at `place`.
    pub(super) fn set(&mut self, key: Key, values: &[String], place: &str) -> Result<()> {
        match key {
            Key::AllowLostState => self.allow_lost_state = Some(names(values, place)?),
            Key::AcceptLost => self.accept_lost = Some(names(values, place)?),
            Key::TakeOver => self.take_over = Some(names(values, place)?),
            Key::Parallelism | Key::CheckpointDir | Key::CheckpointInterval | Key::Restore | Key::Role | Key::Http | Key::HttpTokenFile => {
                match values {
                    [value] => self.set_one(key, value, place)?,
                    _ => return Err(bad("one value", &format!("{} values", values.len()), place)),
                }
            }
        }
        Ok(())
    }

    fn set_one(&mut self, key: Key, value: &str, place: &str) -> Result<()> {
        match key {
            Key::Parallelism => match value.parse::<u32>() {
                Ok(tasks) if tasks > 0 => self.parallelism = Some(tasks),
                _ => return Err(bad("a number of tasks, at least 1", value, place)),
            },
            Key::CheckpointDir => self.checkpoint_directory = Some(directory(value, place)?),
            Key::CheckpointInterval => match time::parse(value) {
                Some(interval) if !interval.is_zero() => self.interval = Some(interval),
                _ => return Err(bad("a time above zero, such as 500ms, 10s, 5m or 1h", value, place)),
            },
            Key::Restore => self.restore = Some(restore(value, place)?),
            Key::Role => match value {
                "local" => {}
                "coordinator" | "worker" => {
                    let what = format!("the role \"{value}\" is not in this build: a job runs in one process");
                    return Err(refused(NOT_IN_THIS_BUILD, what, place).remedy("leave the option out, or say local"));
                }
                _ => return Err(bad("local", value, place)),
            },
            Key::Http if value == "none" => self.http = Some(HttpGiven::Nowhere),
            Key::Http => {
                let http = Http::at(value);
                http.parse().map_err(|_| bad("HOST:PORT, a port, or none", value, place))?;
                self.http = Some(HttpGiven::At(http));
            }
            Key::HttpTokenFile => self.http_token = Some(token(Path::new(value), place)?),
            Key::AllowLostState | Key::AcceptLost | Key::TakeOver => {}
        }
        Ok(())
    }

    /// Lays what was given over the settings of a program.
    ///
    /// # Errors
    /// `Invalid` when a manifest is not one of `job`'s own; the job may be unknown yet.
    pub(crate) fn apply(&self, settings: &mut Settings, job: Option<&Name>) -> Result<()> {
        if let Some(parallelism) = self.parallelism {
            settings.parallelism = parallelism;
        }
        if let Some(directory) = &self.checkpoint_directory {
            settings.checkpoint_directory = Some(directory.clone());
        }
        if let Some(interval) = self.interval {
            settings.run.interval = interval;
        }
        if let Some(names) = &self.allow_lost_state {
            settings.run.allow_lost_state.clone_from(names);
        }
        if let Some(names) = &self.accept_lost {
            settings.run.accept_lost.clone_from(names);
        }
        if let Some(names) = &self.take_over {
            settings.run.take_over.clone_from(names);
        }
        match &self.restore {
            None => {}
            Some(RestoreGiven::Latest) => settings.run.restore = Restore::Latest,
            Some(RestoreGiven::Nothing) => settings.run.restore = Restore::Nothing,
            Some(RestoreGiven::Epoch(epoch)) => settings.run.restore = Restore::Epoch(*epoch),
            Some(RestoreGiven::Manifest(path, epoch)) => {
                if let Some(job) = job {
                    own_manifest(path, settings.checkpoint_directory.as_deref(), job)?;
                }
                settings.run.restore = Restore::Epoch(*epoch);
            }
        }
        Ok(())
    }

    /// Where the HTTP interface is, with what was given laid over what the program says.
    pub(crate) fn http(&self, own: Option<Http>) -> Option<Http> {
        let http = match &self.http {
            Some(HttpGiven::Nowhere) => None,
            Some(HttpGiven::At(http)) => Some(http.clone()),
            None => own,
        };
        match &self.http_token {
            Some(token) => http.map(|http| http.token(token)),
            None => http,
        }
    }
}

fn bad(expected: &str, found: &str, place: &str) -> staunch_types::Error {
    refused(BAD_VALUE, format!("expected {expected}, found \"{found}\""), place).remedy("correct the value; --help lists all options")
}

fn names(values: &[String], place: &str) -> Result<BTreeSet<Name>> {
    let one = |text: &String| Name::new(text.as_str()).map_err(|error| bad("a name", text, place).cause(error));
    values.iter().map(one).collect()
}

/// Bytes of the largest token.
const TOKEN_BYTES_MAX: usize = 4096;

/// The token in a file, without the line break that editors put behind it.
fn token(path: &Path, place: &str) -> Result<String> {
    let unusable = |what: String| {
        let remedy = "write a text that nobody can guess to the file, as with `openssl rand -hex 32`, and let this user read it";
        refused(BAD_TOKEN, what, &format!("{place} file={}", path.display())).remedy(remedy)
    };
    let text = std::fs::read_to_string(path).map_err(|error| unusable("the file with the token cannot be read".to_owned()).cause(error))?;
    let token = text.trim();
    if token.is_empty() || token.len() > TOKEN_BYTES_MAX || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        let what = format!("expected a token of 1 to {TOKEN_BYTES_MAX} visible ASCII characters, found one of {} bytes", token.len());
        return Err(unusable(what));
    }
    Ok(token.to_owned())
}

/// Addresses of stores that exist elsewhere.
const SCHEMES_ELSEWHERE: [&str; 6] = ["s3", "s3a", "hdfs", "gs", "az", "abfs"];

fn directory(value: &str, place: &str) -> Result<PathBuf> {
    let Some((scheme, rest)) = value.split_once("://") else {
        return if value.is_empty() { Err(bad("a directory", value, place)) } else { Ok(PathBuf::from(value)) };
    };
    if scheme == "file" {
        return if rest.starts_with('/') { Ok(PathBuf::from(rest)) } else { Err(bad("file:/// and an absolute path", value, place)) };
    }
    if SCHEMES_ELSEWHERE.contains(&scheme) {
        let what = format!("checkpoints in \"{scheme}\" are not in this build; expected a directory, found \"{value}\"");
        return Err(refused(NOT_IN_THIS_BUILD, what, place).remedy("give a local directory, as path or file:///…"));
    }
    Err(bad("a path or file:///…", value, place))
}

fn restore(value: &str, place: &str) -> Result<RestoreGiven> {
    match value {
        "latest" => return Ok(RestoreGiven::Latest),
        "none" => return Ok(RestoreGiven::Nothing),
        _ => {}
    }
    if let Ok(epoch) = value.parse::<u64>() {
        return Ok(RestoreGiven::Epoch(Epoch(epoch)));
    }
    match manifest_epoch(Path::new(value)) {
        Some(epoch) => Ok(RestoreGiven::Manifest(PathBuf::from(value), epoch)),
        None => {
            Err(bad("latest, none, the number of an epoch, or the path of a manifest such as …/manifests/e0000000012-g3", value, place))
        }
    }
}

/// The epoch in the name of a manifest: `e0000000012-g3`.
fn manifest_epoch(path: &Path) -> Option<Epoch> {
    let (epoch, generation) = path.file_name()?.to_str()?.strip_prefix('e')?.split_once("-g")?;
    generation.parse::<u64>().ok()?;
    epoch.parse().ok().map(Epoch)
}

/// Whether a manifest lies in the job's own folder.
fn own_manifest(path: &Path, directory: Option<&Path>, job: &Name) -> Result<()> {
    let own = directory.map(|d| d.join(job.component()).join("manifests").join(path.file_name().unwrap_or_default()));
    let absolute = |path: &Path| std::fs::canonicalize(path).ok();
    if own.as_deref().and_then(absolute).is_some_and(|own| absolute(path) == Some(own)) {
        return Ok(());
    }
    let what = match own {
        Some(own) => format!("expected a manifest of this job, such as {}, found {}", own.display(), path.display()),
        None => format!("the job has no checkpoint directory, so {} cannot be one of its manifests", path.display()),
    };
    let remedy = "give the path as `staunch checkpoints` lists it, or the number of the epoch; --checkpoint-dir must be that of the job";
    Err(refused(FOREIGN_MANIFEST, what, "option --restore").remedy(remedy))
}
