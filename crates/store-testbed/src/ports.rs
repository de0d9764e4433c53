//! Free ports on loopback.

use std::net::TcpListener;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Result, bail};

/// Below the range from which Linux gives ports to clients, so that no connection takes a port between our look and the server's.
const FIRST: u32 = 20_000;
const LAST: u32 = 32_000;

/// A port that nobody listens on. Processes begin their search at different places.
///
/// # Errors
/// When the whole range is taken.
pub(crate) fn free_port() -> Result<u16> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let begin = process::id().wrapping_mul(89);
    for _ in FIRST..LAST {
        let port = u16::try_from(FIRST + begin.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % (LAST - FIRST))?;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no free port between {FIRST} and {LAST}")
}
