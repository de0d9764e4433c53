//! Looks, before the job starts, whether output can be written, made durable, renamed and removed.

use std::io;
use std::path::Path;

use staunch_api::{EntryKind, FileSystem, Metadata, Replace};
use staunch_types::{Error, ErrorKind, Result};

use super::names::Names;
use crate::codes;

/// Tries at most: another start of the job may try at the same time under the same names, or sweep ours away as a left-over.
const TRIES_MAX: u32 = 16;
/// Bytes of the probe: more than a file system keeps in its inode.
const PROBE_BYTES: usize = 64 * 1024;

/// Makes the directory if there is none, and does all that the sink will do, on a hidden file that it takes away again.
///
/// # Errors
/// `Invalid`, with what to do.
pub(crate) fn probe(file_system: &dyn FileSystem, names: &Names) -> Result<()> {
    let directory = names.directory.as_path();
    let place = |error: Error| error.at(format!("directory={}", directory.display()));
    match file_system.metadata(directory) {
        Ok(Some(Metadata { kind: EntryKind::Directory, .. })) => {}
        Ok(Some(_)) => return Err(place(not_a_directory("found a file"))),
        Ok(None) => file_system.create_directory(directory).map_err(|error| place(refused(&error, "be made")))?,
        Err(error) => return Err(place(refused(&error, "be looked at"))),
    }
    for number in 0.. {
        let (first, second) = (names.probe(&format!("{number}.a")), names.probe(&format!("{number}.b")));
        let Err((error, step)) = exercise(file_system, &first, &second) else { break };
        // Best effort: what is left is hidden, and taken away by the next sweep.
        let taken = error.kind() == io::ErrorKind::AlreadyExists;
        let _ = if taken { Ok(()) } else { file_system.remove(&first).or_else(|_| file_system.remove(&second)) };
        let disturbed = taken || error.kind() == io::ErrorKind::NotFound;
        if !disturbed || number == TRIES_MAX {
            return Err(place(refused(&error, step)));
        }
    }
    Ok(())
}

fn exercise(file_system: &dyn FileSystem, first: &Path, second: &Path) -> std::result::Result<(), (io::Error, &'static str)> {
    let mut file = file_system.create(first).map_err(|error| (error, "take a new file"))?;
    file.append(&vec![b'.'; PROBE_BYTES]).map_err(|error| (error, "be written to"))?;
    file.sync().map_err(|error| (error, "be synced"))?;
    drop(file);
    file_system.rename(first, second, Replace::Never).map_err(|error| (error, "rename a file"))?;
    file_system.remove(second).map_err(|error| (error, "remove a file"))
}

fn not_a_directory(found: &str) -> Error {
    Error::new(ErrorKind::Invalid, codes::OUTPUT_NOT_DIRECTORY, format!("expected a directory for the output, {found}"))
        .data("nothing was written")
        .remedy("name a directory, or take the file away")
}

fn refused(error: &io::Error, step: &str) -> Error {
    let (code, remedy) = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            (codes::OUTPUT_FULL, "make room on the disk, or choose another directory")
        }
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
            return not_a_directory("found a file on the way to it").cause(error);
        }
        io::ErrorKind::PermissionDenied => {
            (codes::OUTPUT_NOT_WRITABLE, "let the user that runs the job write there, or choose another directory")
        }
        io::ErrorKind::ReadOnlyFilesystem => (codes::OUTPUT_NOT_WRITABLE, "mount it for writing, or choose another directory"),
        _ => (codes::OUTPUT_NOT_WRITABLE, "see the cause, and the disk or mount"),
    };
    let what = match code {
        codes::OUTPUT_FULL => "the disk of the output directory is full".into(),
        _ => format!("the output directory cannot {step}"),
    };
    Error::new(ErrorKind::Invalid, code, what).data("nothing was written").cause(error).remedy(remedy)
}
