//! The crash table: each row, each process that can stop there.

mod writing;
mod sealing;
mod committing;
mod rivals;
mod changes;
mod surroundings;
