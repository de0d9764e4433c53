//! A folder with a job's input, output and checkpoints, and the running of programs on it.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};

use tempfile::TempDir;

/// Name of the job that the tests run.
pub(crate) const JOB: &str = "flights-per-hour";

/// What a program left behind.
#[derive(Debug)]
pub(crate) struct Answer {
    /// `None` when a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Answer {
    /// Demands an exit code.
    #[track_caller]
    pub(crate) fn ends_with(self, code: i32) -> Answer {
        assert_eq!(self.code, Some(code), "\nstdout:\n{}\nstderr:\n{}", self.out, self.err);
        self
    }

    /// Demands a text on standard error.
    #[track_caller]
    pub(crate) fn complains(self, text: &str) -> Answer {
        assert!(self.err.contains(text), "expected {text:?} in\n{}", self.err);
        self
    }

    /// Demands a text on standard output.
    #[track_caller]
    pub(crate) fn says(self, text: &str) -> Answer {
        assert!(self.out.contains(text), "expected {text:?} in\n{}", self.out);
        self
    }

    /// Standard output as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error} in\n{}", self.out))
    }
}

/// The command, in an environment without options of ours.
pub(crate) fn command(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_staunch"));
    command.args(words).stdin(Stdio::null());
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("STAUNCH_")) {
        command.env_remove(name);
    }
    command
}

/// Runs the command to its end.
pub(crate) fn staunch(words: &[&str]) -> Answer {
    run(&mut command(words))
}

/// Runs a program to its end.
pub(crate) fn run(command: &mut Command) -> Answer {
    let output = command.output().expect("the program starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("what it prints is text");
    Answer { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

/// A folder for one test.
pub(crate) struct Place {
    folder: TempDir,
}

impl Place {
    /// A folder with this many flights as input: one a minute, in turn from three airports.
    pub(crate) fn with_flights(count: u64) -> Place {
        let place = Place { folder: tempfile::tempdir().expect("a folder") };
        let origins = ["EWR", "JFK", "LGA"];
        let line = |id: u64| format!("{id},{},{},{}\n", id * 60_000, origins[id as usize % 3], 100 + id);
        let lines: String = (0..count).map(line).collect();
        std::fs::write(place.input(), format!("id,sched_ms,origin,distance\n{lines}")).expect("written");
        place
    }

    /// A folder in which the job has run to its end, with several epochs, of which all checkpoints were kept.
    pub(crate) fn with_finished_job() -> Place {
        let place = Place::with_flights(600);
        run(place.job(&[]).args(["--rate", "1000", "--checkpoint-interval", "50ms", "--retain", "1000000"])).ends_with(0);
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn input(&self) -> PathBuf {
        self.path("flights.csv")
    }

    pub(crate) fn output(&self) -> PathBuf {
        self.path("output")
    }

    pub(crate) fn checkpoints(&self) -> PathBuf {
        self.path("checkpoints")
    }

    /// The folder of the job, as an argument.
    pub(crate) fn job_folder(&self) -> String {
        self.checkpoints().join(JOB).display().to_string()
    }

    /// The job's program, with input, output and checkpoints of this place.
    pub(crate) fn job(&self, words: &[&str]) -> Command {
        let mut job = self.job_without_checkpoints(words);
        job.arg("--checkpoint-dir").arg(self.checkpoints());
        job
    }

    /// The job's program, with input and output of this place.
    pub(crate) fn job_without_checkpoints(&self, words: &[&str]) -> Command {
        let mut job = command(&["demo-worker"]);
        job.args(words).arg("--input").arg(self.input()).arg("--output").arg(self.output());
        job
    }

    /// All lines of the visible files of one output, without headers, sorted.
    pub(crate) fn lines(&self, sink: &str) -> Vec<String> {
        let mut lines = Vec::new();
        for file in self.files(sink) {
            lines.extend(std::fs::read_to_string(file).expect("a text").lines().skip(1).map(str::to_owned));
        }
        lines.sort();
        lines
    }

    /// The visible files of one output, sorted.
    pub(crate) fn files(&self, sink: &str) -> Vec<PathBuf> {
        files(&self.output().join(sink)).into_iter().filter(|path| !name(path).starts_with('.')).collect()
    }

    /// All objects under a folder of the job's checkpoints, sorted.
    pub(crate) fn objects(&self, kind: &str) -> Vec<PathBuf> {
        let folder = self.checkpoints().join(JOB).join(kind);
        let mut all = Vec::new();
        for path in files(&folder) {
            if path.is_dir() { all.extend(files(&path)) } else { all.push(path) }
        }
        all
    }
}

/// What is in a folder, sorted.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut all: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    all.sort();
    all
}

/// The last part of a path.
pub(crate) fn name(path: &Path) -> String {
    path.file_name().expect("a name").to_string_lossy().into_owned()
}

/// Changes one byte in the middle of a file.
pub(crate) fn flip(path: &Path) {
    let mut bytes = std::fs::read(path).expect("it is there");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x40;
    std::fs::write(path, bytes).expect("written");
}

/// A program that runs.
pub(crate) struct Running {
    child: Child,
    err: BufReader<ChildStderr>,
    said: String,
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Running {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the program starts");
        let err = BufReader::new(child.stderr.take().expect("it is piped"));
        Running { child, err, said: String::new() }
    }

    /// Waits for a line on standard error, which is returned.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, text: &str) -> String {
        loop {
            let mut line = String::new();
            let bytes = self.err.read_line(&mut line).expect("readable");
            self.said += &line;
            assert!(bytes > 0, "the program ended without saying {text:?}:\n{}", self.said);
            if line.contains(text) {
                return line;
            }
        }
    }

    /// Sends a signal by its name.
    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status().expect("kill starts");
        assert!(status.success(), "kill failed");
    }

    /// Waits for the end.
    pub(crate) fn end(mut self) -> Answer {
        loop {
            let mut line = String::new();
            if self.err.read_line(&mut line).expect("readable") == 0 {
                break;
            }
            self.said += &line;
        }
        Answer { code: self.child.wait().expect("it ends").code(), out: String::new(), err: self.said }
    }
}
