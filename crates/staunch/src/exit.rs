//! How a job's program ends: the numbers that scripts rely on.
//!
//! 0 finished or stopped as asked · 1 failed · 2 usage · 3 fenced by a newer generation · 4 refused by preflight · 5 output in doubt is
//! provably lost. Every number but 0 comes with a coded error on standard error.

use std::io::Write;

use staunch_types::{Error, ErrorKind};

/// How far a program had come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStage {
    /// It read its options.
    Options,
    /// It looked whether the job can run; no task ran.
    Preflight,
    /// Tasks ran.
    Running,
}

/// The exit code for an error.
#[must_use]
pub fn exit_code(error: &Error, stage: ExitStage) -> u8 {
    match (error.kind(), stage) {
        (_, ExitStage::Options) => 2,
        (ErrorKind::Fenced, ExitStage::Preflight | ExitStage::Running) => 3,
        (ErrorKind::Lost, ExitStage::Preflight | ExitStage::Running) => 5,
        (ErrorKind::Invalid, ExitStage::Preflight) => 4,
        (ErrorKind::Invalid, ExitStage::Running) => 1,
        (ErrorKind::Retry | ErrorKind::Restart | ErrorKind::Corrupt | ErrorKind::Bug, ExitStage::Preflight | ExitStage::Running) => 1,
    }
}

/// Prints the error and ends the process.
pub(crate) fn end(error: &Error, stage: ExitStage) -> ! {
    say(&error.to_string());
    std::process::exit(i32::from(exit_code(error, stage)))
}

/// Writes a line to standard error.
pub(crate) fn say(line: &str) {
    // Whoever reads may have gone; the exit code tells all the same.
    let _ = writeln!(std::io::stderr(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_the_exit_code_that_scripts_rely_on() {
        let code = |kind, stage| exit_code(&Error::new(kind, "X", "x"), stage);
        assert_eq!(code(ErrorKind::Invalid, ExitStage::Options), 2);
        assert_eq!(code(ErrorKind::Fenced, ExitStage::Running), 3);
        assert_eq!(code(ErrorKind::Invalid, ExitStage::Preflight), 4);
        assert_eq!(code(ErrorKind::Lost, ExitStage::Preflight), 5);
        assert_eq!(code(ErrorKind::Lost, ExitStage::Running), 5);
        for kind in [ErrorKind::Invalid, ErrorKind::Retry, ErrorKind::Restart, ErrorKind::Corrupt, ErrorKind::Bug] {
            assert_eq!(code(kind, ExitStage::Running), 1, "{kind:?}");
        }
    }
}
