//! The command `staunch` and a job's program, as their users meet them: real processes, their output, their exit codes.
#![allow(clippy::disallowed_methods, reason = "these tests start processes and damage files themselves")]

mod harness;
mod options;
mod running;
mod lost;
mod looking;
mod verifying;
mod bad_input;
mod watermarks;
mod changing;
