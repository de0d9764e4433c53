//! Files as source and sink, against a file system in memory that can refuse, and against the real one.

#![allow(clippy::disallowed_methods, reason = "tests of files look at files")]

mod support;
mod reading;
mod splitting;
mod restoring;
mod finding;
mod bad_input;
mod writing;
mod carrying;
mod journal;
mod bad_output;
mod round_trip;
mod auditing;
mod disk;
