//! `staunch bench`: hands over to the program of the benchmarks, which is built apart so that this one stays small.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use clap::Args;
use staunch_types::{Error, ErrorKind, Result};

/// The program's name.
const PROGRAM: &str = "staunch-bench";

/// Options of `staunch bench`.
#[derive(Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Options {
    /// Workload and its options, as `staunch-bench` takes them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// Becomes the program of the benchmarks.
///
/// # Errors
/// `Invalid` when it is not beside this one, or cannot be started.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let refused = |what: &str| {
        Error::new(ErrorKind::Invalid, "R102", what).remedy(
            "in a clone, run `make bench`, or `cargo run --release -p staunch-bench -- WORKLOAD`; or put the program beside this one",
        )
    };
    let own = std::env::current_exe().map_err(|error| refused("the folder of this program cannot be found").cause(error))?;
    let program = own.with_file_name(PROGRAM);
    if !program.is_file() {
        return Err(refused("the program of the benchmarks is not there").at(format!("file={}", program.display())));
    }
    let error = Command::new(&program).args(&options.words).exec();
    Err(refused("the program of the benchmarks cannot be started").cause(error).at(format!("file={}", program.display())))
}
