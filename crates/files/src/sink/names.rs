//! The names of files, and what can be read from them.
//!
//! Invariants:
//! 1. Two files of one job and sink never have the same name, hidden or visible: generation, task and number are in it.
//! 2. Names of different jobs or sinks differ: hidden ones hold both components between `+`, which no component has; visible ones
//!    hold a hash of both.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use staunch_types::{Epoch, Generation, Name, Result};
use xxhash_rust::xxh3::xxh3_64;

use crate::codes::setting;

/// Which file of a job's sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct FileId {
    pub(crate) generation: Generation,
    pub(crate) task_index: u32,
    pub(crate) number: u64,
}

/// The phase of a hidden file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// No checkpoint knows it.
    Open,
    /// A checkpoint may name it.
    Prepared,
}

/// Names the files of one job's sink.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    pub(crate) directory: PathBuf,
    pub(crate) job: String,
    pub(crate) sink: String,
    hidden: String,
    tag: String,
}

impl Names {
    /// The directory is made absolute, so that what a checkpoint holds means the same from every working directory.
    ///
    /// # Errors
    /// `Invalid` when that is not possible.
    pub(crate) fn new(directory: &Path, job: &Name, sink: &Name) -> Result<Names> {
        let directory = std::path::absolute(directory).map_err(|error| {
            setting(format!("the path {} cannot be made absolute", directory.display()), "give an absolute path").cause(error)
        })?;
        let hidden = format!(".staunch+{}+{}+", job.component(), sink.component());
        let tag = format!("{:08x}", xxh3_64(hidden.as_bytes()) as u32);
        Ok(Names { directory, job: job.to_string(), sink: sink.to_string(), hidden, tag })
    }

    pub(crate) fn tag(&self) -> &str {
        &self.tag
    }

    pub(crate) fn hidden(&self, id: FileId, phase: Phase) -> PathBuf {
        let FileId { generation, task_index, number } = id;
        let end = match phase {
            Phase::Open => "open",
            Phase::Prepared => "prepared",
        };
        self.directory.join(format!("{}g{generation}-t{task_index}-{number}.{end}", self.hidden))
    }

    /// The names of the probe. It is of no generation, so that starts at the same time do not take it for output of a newer one, and each
    /// sweep takes it away.
    pub(crate) fn probe(&self, step: &str) -> PathBuf {
        self.directory.join(format!("{}g0-probe.{step}", self.hidden))
    }

    /// Where a generation writes a file again from its copy.
    pub(crate) fn resent(&self, generation: Generation, copy: &str) -> PathBuf {
        self.directory.join(format!("{}g{generation}-again-{copy}.open", self.hidden))
    }

    /// What the copy of a prepared file is called in the journal, by the file's hidden path.
    pub(crate) fn copy_of(&self, hidden: &Path) -> Option<String> {
        let name = hidden.file_name()?.to_str()?.strip_prefix(&self.hidden)?;
        name.strip_suffix(".prepared").map(str::to_owned)
    }

    /// The generation that made a copy, by its name.
    pub(crate) fn generation_of_copy(copy: &str) -> Option<Generation> {
        copy.strip_prefix('g')?.split_once('-')?.0.parse().ok().map(Generation)
    }

    pub(crate) fn visible(&self, prefix: &str, epoch: Epoch, id: FileId, name_end: &str) -> PathBuf {
        let FileId { generation, task_index, number } = id;
        self.directory.join(format!("{prefix}-{}-{:08}-{generation}-{task_index}-{number}{name_end}", self.tag, epoch.0))
    }

    /// Whether a name is that of a hidden file of this job's sink.
    pub(crate) fn is_hidden(&self, name: &str) -> bool {
        self.hidden_generation(name).is_some()
    }

    /// The generation that made a file, hidden or visible, by its name; `None` when it is not one of this job's sink.
    pub(crate) fn generation(&self, name: &str) -> Option<Generation> {
        self.hidden_generation(name).or_else(|| self.own_visible(name).map(|(_, id)| id.generation))
    }

    /// The epoch that made a file visible, or an older one in which it was closed, by its name; `None` when it is not a visible one of
    /// this job's sink.
    pub(crate) fn visible_epoch(&self, name: &str) -> Option<Epoch> {
        self.own_visible(name).map(|(epoch, _)| epoch)
    }

    fn own_visible(&self, name: &str) -> Option<(Epoch, FileId)> {
        let (tag, epoch, id) = visible_owner(name).filter(|_| !name.starts_with('.'))?;
        (tag == self.tag).then_some((epoch, id))
    }

    fn hidden_generation(&self, name: &str) -> Option<Generation> {
        let rest = name.strip_prefix(&self.hidden)?.strip_prefix('g')?;
        let (generation, _) = rest.split_once('-')?;
        generation.parse().ok().map(Generation)
    }
}

/// The tag, the epoch and the file that a visible name means; `None` when it is no such name.
pub(crate) fn visible_owner(name: &str) -> Option<(&str, Epoch, FileId)> {
    // prefix and suffix may hold anything, so the numbers are sought from the front of each possible tag.
    let at = |start: usize| -> Option<(&str, Epoch, FileId)> {
        let mut parts = name.get(start..)?.splitn(5, '-');
        let tag = parts.next().filter(|tag| tag.len() == 8 && tag.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
        let epoch = parts.next()?;
        let (generation, task_index) = (parts.next()?, parts.next()?);
        let last = parts.next()?;
        let number = &last[..last.bytes().take_while(u8::is_ascii_digit).count()];
        let number_of_epoch = epoch.parse().ok().filter(|_| epoch.len() >= 8)?;
        let generation = Generation(generation.parse().ok()?);
        let id = FileId { generation, task_index: task_index.parse().ok()?, number: number.parse().ok()? };
        Some((tag, Epoch(number_of_epoch), id))
    };
    name.rmatch_indices('-').find_map(|(start, _)| at(start + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(job: &str, sink: &str) -> Names {
        Names::new(Path::new("/out"), &Name::new(job).expect("a name"), &Name::new(sink).expect("a name")).expect("absolute")
    }

    const ID: FileId = FileId { generation: Generation(3), task_index: 1, number: 17 };

    fn file_name(path: &Path) -> &str {
        path.file_name().and_then(|name| name.to_str()).expect("a name")
    }

    #[test]
    fn a_name_tells_what_it_was_made_from() {
        let names = names("job", "sink");
        let visible = names.visible("my-part-x", Epoch(12), ID, "-x.csv.gz");
        assert_eq!(visible_owner(file_name(&visible)), Some((names.tag(), Epoch(12), ID)));
        assert_eq!(names.visible_epoch(file_name(&visible)), Some(Epoch(12)));
        assert!(visible.display().to_string().starts_with("/out/my-part-x-"), "{visible:?}");
        for phase in [Phase::Open, Phase::Prepared] {
            let hidden = names.hidden(ID, phase);
            assert_eq!(names.generation(file_name(&hidden)), Some(Generation(3)));
            assert_eq!(names.visible_epoch(file_name(&hidden)), None);
            assert!(file_name(&hidden).starts_with('.'));
        }
        let copy = names.copy_of(&names.hidden(ID, Phase::Prepared)).expect("a prepared file");
        assert_eq!((copy.as_str(), Names::generation_of_copy(&copy)), ("g3-t1-17", Some(Generation(3))));
        assert_eq!(names.copy_of(&names.hidden(ID, Phase::Open)), None);
        assert_eq!(names.generation(file_name(&names.resent(Generation(5), &copy))), Some(Generation(5)));
        assert_eq!(names.generation(file_name(&visible)), Some(Generation(3)));
        assert_eq!(names.generation(file_name(&names.probe("a"))), Some(Generation(0)));
        assert_eq!(visible_owner("part-1.csv"), None);
        assert_eq!(visible_owner("2026-12-31-10-20-30.csv"), None);
    }

    #[test]
    fn names_of_other_jobs_and_sinks_are_not_ours_however_they_are_spelled() {
        let pairs = [("a", "b-c"), ("a-b", "c"), ("a", "b"), ("a+b", "c"), ("a", "b+c")];
        for (n, (job, sink)) in pairs.iter().enumerate() {
            for (m, (other_job, other_sink)) in pairs.iter().enumerate() {
                let (ours, theirs) = (names(job, sink), names(other_job, other_sink));
                let hidden = theirs.hidden(ID, Phase::Open);
                let visible = theirs.visible("part", Epoch(1), ID, ".csv");
                for path in [hidden, visible] {
                    assert_eq!(ours.generation(file_name(&path)).is_some(), n == m, "{job} {sink} {other_job} {other_sink}");
                }
                assert_eq!(ours.tag() == theirs.tag(), n == m);
            }
        }
    }
}
