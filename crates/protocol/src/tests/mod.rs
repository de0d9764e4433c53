//! Tests of the machines: transcripts of each, and all of them composed and explored.

mod model;
mod transcript;
