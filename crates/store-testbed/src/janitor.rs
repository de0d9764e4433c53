//! The janitor: clears up behind this process, however it ends.
//!
//! It is a shell that reads from a pipe of which only we hold the other end, in a process group of its own, so that neither a killed
//! test nor an interrupted terminal leaves servers or folders behind. `PR_SET_PDEATHSIG` was rejected: it fires when the *thread* that
//! started the child ends, and each test has a thread of its own.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

const SCRIPT: &str = r#"
cat >/dev/null
for file in "$1"/*/pid; do
  [ -e "$file" ] || continue
  pid="$(cat "$file")"
  kill -9 "$pid" 2>/dev/null
  while grep -q . "/proc/$pid/cmdline" 2>/dev/null; do sleep 0.02; done
done
rm -rf "$1"
"#;

/// A folder whose content, and whose processes, do not outlive us.
#[derive(Debug)]
pub(crate) struct Janitor {
    folder: PathBuf,
    shell: Child,
}

impl Janitor {
    /// Makes a folder. Processes whose id stands in a file `pid` of one of its folders are killed in the end.
    pub(crate) fn start() -> Result<Janitor> {
        let folder = tempfile::Builder::new().prefix("staunch-store-").tempdir()?.keep();
        let mut command = Command::new("sh");
        command.arg("-c").arg(SCRIPT).arg("janitor").arg(&folder);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).process_group(0);
        let shell = command.spawn().context("start sh")?;
        Ok(Janitor { folder, shell })
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Janitor {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        let _gone = self.shell.wait();
    }
}
