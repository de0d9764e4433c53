//! Runs a cluster until its standard input ends, for trying things out by hand; says where it listens.
//!
//! usage: kafka-cluster [BROKERS]
#![allow(clippy::disallowed_methods, reason = "a program reads its arguments")]

use std::io::{Read, stdin};

use anyhow::{Context, Result};
use staunch_kafka_testbed::{Cluster, Listener, Options};

fn main() -> Result<()> {
    let brokers = std::env::args().nth(1).map_or(Ok(1), |text| text.parse()).context("the number of brokers is 1 or 3")?;
    let cluster = Cluster::start(&Options { brokers, ..Options::one() })?;
    for listener in [Listener::Plain, Listener::Tls, Listener::Sasl, Listener::SaslTls] {
        println!("{listener:?} {}", cluster.address(listener));
    }
    println!("folder {}", cluster.folder().display());
    stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
