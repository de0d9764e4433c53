//! Free ports on loopback.

use std::net::TcpListener;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, bail};

/// Below the range from which Linux gives ports to clients, so that no connection takes a port between our look and the broker's.
const FIRST: u32 = 20_000;
const LAST: u32 = 32_000;

/// A port that nobody listens on, for a program that is started next.
///
/// # Errors
/// When the whole range is taken.
pub fn free_port() -> Result<u16> {
    free(1)?.pop().context("a port was asked for, and none found")
}

/// `count` ports that nobody listens on. Processes begin their search at different places.
///
/// # Errors
/// When the whole range is taken.
pub(crate) fn free(count: usize) -> Result<Vec<u16>> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let begin = process::id().wrapping_mul(97);
    let mut found = Vec::new();
    for _ in FIRST..LAST {
        if found.len() == count {
            return Ok(found);
        }
        let port = u16::try_from(FIRST + begin.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % (LAST - FIRST))?;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            found.push(port);
        }
    }
    bail!("no {count} free ports between {FIRST} and {LAST}")
}
