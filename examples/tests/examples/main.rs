//! The examples as a reader runs them, but killed again and again while their input is written; then what came out is compared with what
//! a plain program makes of the same input.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests run real processes, read their files and have limits of time"
)]

mod harness;
mod payments;
mod clicks;
