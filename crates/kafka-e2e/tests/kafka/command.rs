//! The command `staunch` with Kafka, as its users meet it: a process, its output, its exit code.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::Value;

/// What a run of the command came to.
pub(crate) struct Answer {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) complaints: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {}{}", self.out, self.complaints))
    }

    /// Checks the exit code.
    pub(crate) fn expect(self, code: i32) -> Answer {
        assert_eq!(self.code, code, "{}{}", self.out, self.complaints);
        self
    }
}

/// Runs the command with these words, then the folder of checkpoints, then more words.
pub(crate) fn staunch(words: &[&str], folder: &Path, more: &[&str]) -> Answer {
    let output = Command::new(program()).args(words).arg(folder).args(more).output().expect("it runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    Answer { code: output.status.code().expect("not killed"), out: text(output.stdout), complaints: text(output.stderr) }
}

/// The command is another package's program, so cargo does not say where it is; and it has to be the one of now.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("it is in the target directory");
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--quiet", "--locked", "-p", "staunch", "--bin", "staunch", "--features", "kafka"]);
        build.current_dir(env!("CARGO_MANIFEST_DIR")).env("CARGO_TARGET_DIR", target);
        assert!(build.status().expect("cargo runs").success(), "the command does not compile");
        target.join("debug/staunch")
    })
}
