//! Checkpoints that are damaged, of another job, or of a newer version.

use std::path::{Path, PathBuf};

use staunch_format::ledger::LedgerEntry;

use super::embedded::{self, Kind};
use super::input::stopped_in_the_middle;
use super::{Case, job_folder};
use crate::harness::{Place, flip};

/// Where a stored file says which version wrote it.
const VERSION_AT: usize = 4;
/// Where its checksum is.
const CHECKSUM_AT: usize = 14;
/// Where its body begins.
const BODY_AT: usize = 18;

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("a file in place of the checkpoint directory", 4, "C011")
            .spoil(|place| std::fs::write(place.checkpoints(), "a file").expect("written"))
            .mend(|place| std::fs::remove_file(place.checkpoints()).expect("removed")),
        Case::new("a checkpoint directory of another job", 4, "C013")
            .spoil(|place| {
                assert_eq!(embedded::ends(place, Kind::OtherJob).code, 0);
                std::fs::rename(place.checkpoints().join("other"), job_folder(place)).expect("renamed");
            })
            .mend(|place| {
                std::fs::remove_dir_all(place.checkpoints()).expect("removed");
                std::fs::remove_dir_all(place.output()).expect("removed");
            }),
        damaged("a manifest that is gone", "C015", newest_manifest, |path| std::fs::remove_file(path).expect("removed")),
        damaged("a manifest that was changed", "C018", newest_manifest, flip),
        Case::new("a manifest of a newer version", 4, "C103")
            .spoil(|place| {
                stopped_in_the_middle(place);
                copy(&place.checkpoints(), &place.path("copy"));
                with_newer_manifest(place);
            })
            .mend(|place| {
                std::fs::remove_dir_all(place.checkpoints()).expect("removed");
                copy(&place.path("copy"), &place.checkpoints());
            }),
        damaged("a ledger entry that was changed", "C105", newest_entry, flip),
        damaged("a ledger entry of a newer version", "C103", newest_entry, newer),
        damaged(
            "a ledger entry that is gone",
            "C105",
            |place| place.objects("ledger").remove(1),
            |path| std::fs::remove_file(path).expect("removed"),
        ),
        damaged("state that was changed", "C003", |place| place.objects("state").pop().expect("there is state"), flip),
    ]
}

/// A job that was stopped in the middle, and one of whose files was then damaged. To mend it is to bring the file back.
fn damaged(kind: &'static str, code: &'static str, which: fn(&Place) -> PathBuf, damage: fn(&Path)) -> Case {
    let exit = if code == "C103" { 4 } else { 1 };
    let copy = |place: &Place| place.path("copy");
    let name = |place: &Place| place.path("name");
    Case::new(kind, exit, code)
        .spoil(move |place| {
            stopped_in_the_middle(place);
            let file = which(place);
            std::fs::copy(&file, copy(place)).expect("copied");
            std::fs::write(name(place), file.display().to_string()).expect("written");
            damage(&file);
        })
        .mend(move |place| {
            let file = std::fs::read_to_string(name(place)).expect("there");
            std::fs::copy(copy(place), file).expect("copied");
        })
}

fn newest_manifest(place: &Place) -> PathBuf {
    place.objects("manifests").pop().expect("there are manifests")
}

fn newest_entry(place: &Place) -> PathBuf {
    place.objects("ledger").pop().expect("there are entries")
}

/// Copies a folder with all that is in it.
fn copy(from: &Path, to: &Path) {
    assert!(std::process::Command::new("cp").arg("-a").args([from, to]).status().expect("cp starts").success());
}

/// Makes a stored file one of a newer version, whole otherwise.
fn newer(path: &Path) {
    let mut bytes = std::fs::read(path).expect("there");
    bytes[VERSION_AT] += 1;
    write_whole(path, bytes);
}

/// Makes the newest manifest one of a newer version, to which the ledger refers as a newer program would have it.
fn with_newer_manifest(place: &Place) {
    let hash_of = |path: &Path| LedgerEntry::hash(&std::fs::read(path).expect("there"));
    let manifest = newest_manifest(place);
    let mut others = vec![(hash_of(&manifest), manifest.clone())];
    newer(&manifest);
    for path in place.objects("ledger") {
        let before = hash_of(&path);
        let mut bytes = std::fs::read(&path).expect("there");
        for (old, changed) in &others {
            let (old, new) = (old.to_string(), hash_of(changed).to_string());
            while let Some(at) = bytes.windows(old.len()).position(|window| window == old.as_bytes()) {
                bytes[at..at + old.len()].copy_from_slice(new.as_bytes());
            }
        }
        write_whole(&path, bytes);
        if hash_of(&path) != before {
            others.push((before, path));
        }
    }
    assert!(others.len() > 1, "no entry names the manifest");
}

/// Writes a stored file with the checksum that it should have.
fn write_whole(path: &Path, mut bytes: Vec<u8>) {
    let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes[..CHECKSUM_AT]), &bytes[BODY_AT..]);
    bytes[CHECKSUM_AT..BODY_AT].copy_from_slice(&crc.to_le_bytes());
    std::fs::write(path, bytes).expect("written");
}
