//! Against two servers of S3 that share no code, also through a proxy that fails requests and loses answers.
#![allow(clippy::expect_used, reason = "tests")]

mod conforms;
mod refused;
