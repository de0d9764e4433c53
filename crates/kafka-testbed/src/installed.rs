//! What `scripts/install.sh kafka` has brought, and where it lies.

use std::env;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

/// The folder with jars, formatted storage, the archive of classes and the judge's Python.
#[derive(Clone, Debug)]
pub(crate) struct Installed {
    folder: PathBuf,
    classpath: String,
}

impl Installed {
    /// Looks where the installer puts it.
    ///
    /// # Errors
    /// When it is not there, with what to run.
    pub(crate) fn find() -> Result<Installed> {
        let cache = || Some(PathBuf::from(env::var_os("XDG_CACHE_HOME").filter(|v| !v.is_empty())?).join("staunch/kafka"));
        let home = || Some(PathBuf::from(env::var_os("HOME")?).join(".cache/staunch/kafka"));
        let given = env::var_os("STAUNCH_KAFKA").map(PathBuf::from);
        let folder = given.or_else(cache).or_else(home).context("neither STAUNCH_KAFKA nor HOME is set")?;
        let missing = || format!("no Kafka in {}; run: scripts/install.sh kafka", folder.display());
        fs::metadata(folder.join("ready")).with_context(missing)?;
        let classpath = fs::read_to_string(folder.join("classpath")).with_context(missing)?;
        Ok(Installed { folder, classpath })
    }

    /// Storage as Kafka's own tool formats it for node 1 of a cluster of this many brokers.
    pub(crate) fn formatted(&self, brokers: u32) -> PathBuf {
        self.folder.join(format!("formatted-{brokers}"))
    }

    pub(crate) fn python(&self) -> PathBuf {
        self.folder.join("venv/bin/python")
    }

    /// Arguments of `java` up to the main class, for processes that are to start fast and stay small.
    pub(crate) fn java_arguments(&self, heap_mib_max: u32) -> Vec<String> {
        let folder = self.folder.display();
        vec![
            format!("-Xmx{heap_mib_max}m"),
            "-XX:+UseSerialGC".into(),
            "-XX:TieredStopAtLevel=1".into(),
            "-Xshare:auto".into(),
            format!("-XX:SharedArchiveFile={folder}/classes.jsa"),
            format!("-Dlog4j2.configurationFile={folder}/log4j2.xml"),
            "-cp".into(),
            self.classpath.clone(),
        ]
    }
}
