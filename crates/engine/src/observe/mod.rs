//! What a job tells about itself in figures, while it runs and while it stands still.
//!
//! Owns: the engine's figures, and what is in doubt. Does not own: decisions; how figures are shown (staunch-http).

mod figures;
mod job;

pub(crate) use job::{Deed, JobFigures};
