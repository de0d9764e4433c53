//! What a job does to the outside, as operations on objects that the crash table speaks of.

use std::path::Path;

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Open for reading.
    Open,
    /// Read some bytes.
    Read,
    /// Create a file.
    Create,
    /// Append to a file.
    Append,
    /// Make what was appended durable.
    Sync,
    /// Rename; the object is the target: an object of the store is put, a file of a sink is prepared or made visible.
    Rename,
    /// Remove.
    Remove,
    /// List a directory.
    List,
    /// Look what is at a path.
    Look,
    /// Create a directory.
    Directory,
    /// Write a record to a sink.
    Write,
    /// Ask a sink's writer to prepare an epoch that has records; when it is over, the writer was asked.
    Prepare,
    /// Take an answer of a sink's writer which names prepared output.
    Answer,
    /// Commit prepared output.
    Commit,
    /// Find out what became of prepared output.
    Resolve,
    /// Write lost output again.
    Resend,
    /// Abort what older generations left.
    Sweep,
}

/// What it is done to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Object {
    /// An entry of the ledger.
    Ledger,
    /// A manifest.
    Manifest,
    /// Stored state.
    State,
    /// Something else in the store.
    Store,
    /// A sink's file that no checkpoint knows.
    Open,
    /// A sink's prepared file.
    Prepared,
    /// A sink's visible file.
    Visible,
    /// The sink that is followed.
    Sink,
    /// Another sink that is followed.
    Side,
    /// Input, and all else.
    Other,
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// What is done.
    pub operation: Operation,
    /// To what.
    pub object: Object,
}

const OPERATIONS: [(&str, Operation); 17] = [
    ("open", Operation::Open),
    ("read", Operation::Read),
    ("create", Operation::Create),
    ("append", Operation::Append),
    ("sync", Operation::Sync),
    ("rename", Operation::Rename),
    ("remove", Operation::Remove),
    ("list", Operation::List),
    ("look", Operation::Look),
    ("directory", Operation::Directory),
    ("write", Operation::Write),
    ("prepare", Operation::Prepare),
    ("answer", Operation::Answer),
    ("commit", Operation::Commit),
    ("resolve", Operation::Resolve),
    ("resend", Operation::Resend),
    ("sweep", Operation::Sweep),
];

const OBJECTS: [(&str, Object); 10] = [
    ("ledger", Object::Ledger),
    ("manifest", Object::Manifest),
    ("state", Object::State),
    ("store", Object::Store),
    ("open", Object::Open),
    ("prepared", Object::Prepared),
    ("visible", Object::Visible),
    ("sink", Object::Sink),
    ("side", Object::Side),
    ("other", Object::Other),
];

impl Operation {
    /// Reads its word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Operation> {
        OPERATIONS.iter().find(|(w, _)| *w == word).map(|(_, o)| *o)
    }
}

impl Object {
    /// Reads its word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Object> {
        OBJECTS.iter().find(|(w, _)| *w == word).map(|(_, o)| *o)
    }

    /// What lies at a path.
    #[must_use]
    pub fn at(path: &Path) -> Object {
        let text = path.to_string_lossy();
        let name = path.file_name().map(|n| n.to_string_lossy()).unwrap_or_default();
        if name.starts_with(".staunch+") {
            return if name.ends_with(".prepared") { Object::Prepared } else { Object::Open };
        }
        if name.starts_with("part-") {
            return Object::Visible;
        }
        for (folder, object) in [("/ledger", Object::Ledger), ("/manifests", Object::Manifest), ("/state", Object::State)] {
            if text.contains(&format!("{folder}/")) || text.ends_with(folder) {
                return object;
            }
        }
        if text.contains("/probe/") || text.contains("/checkpoints") { Object::Store } else { Object::Other }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_path_of_a_job_is_the_object_that_the_crash_table_means() {
        for (path, object) in [
            ("/t/checkpoints/job/ledger/0000000/0000000001", Object::Ledger),
            ("/t/checkpoints/job/ledger/0000000/0000000001.ab.0.unfinished", Object::Ledger),
            ("/t/checkpoints/job/manifests/e0000000001-g1", Object::Manifest),
            ("/t/checkpoints/job/state/e0000000001-g1-t1.0", Object::State),
            ("/t/checkpoints/job/probe/probe", Object::Store),
            ("/t/output/windows/.staunch+job+windows+g1-t1-0.open", Object::Open),
            ("/t/output/windows/.staunch+job+windows+g1-t1-0.prepared", Object::Prepared),
            ("/t/output/windows/part-01234567-00000001-1-0-0.csv", Object::Visible),
            ("/t/input/flights.csv", Object::Other),
        ] {
            assert_eq!(Object::at(Path::new(path)), object, "{path}");
        }
    }
}
