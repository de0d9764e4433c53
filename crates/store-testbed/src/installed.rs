//! What `scripts/install.sh stores` has brought, and where it lies.

use std::env;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

/// The folder with the servers.
///
/// # Errors
/// When it is not there, with what to run.
pub(crate) fn folder() -> Result<PathBuf> {
    let cache = || Some(PathBuf::from(env::var_os("XDG_CACHE_HOME").filter(|v| !v.is_empty())?).join("staunch/stores"));
    let home = || Some(PathBuf::from(env::var_os("HOME")?).join(".cache/staunch/stores"));
    let given = env::var_os("STAUNCH_STORES").map(PathBuf::from);
    let folder = given.or_else(cache).or_else(home).context("neither STAUNCH_STORES nor HOME is set")?;
    fs::metadata(folder.join("ready"))
        .with_context(|| format!("no servers of S3 in {}; run: scripts/install.sh stores", folder.display()))?;
    Ok(folder)
}
