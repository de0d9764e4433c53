//! The command `staunch` and a job's program, as their users meet them: real processes, their output, their exit codes.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "these tests start processes, damage files and open connections themselves"
)]

mod harness;
mod options;
mod http;
mod running;
mod lost;
mod looking;
mod verifying;
mod bad_input;
mod watermarks;
mod changing;
