//! Files that cannot be read, and lines that are no records.

use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use super::embedded::{self, Kind};
use super::{Case, NO_INTERVAL, restore};
use crate::harness::{Place, Running, run};

/// Another user, if the tests run as one whom nothing is denied.
const NOBODY: u32 = 65534;
/// Bytes of a very long line.
const LINE_BYTES: usize = 100 << 20;

pub(super) fn cases() -> Vec<Case> {
    let mut cases = files();
    cases.extend(compressed());
    cases.extend(headers());
    cases.extend(lines());
    cases
}

fn files() -> Vec<Case> {
    vec![
        Case::new("a file that is not there", 1, "F001").reads("no-such.csv").mend(|place| put(place, "no-such.csv")),
        Case::new("a directory without files", 1, "F002")
            .reads("in")
            .spoil(|place| std::fs::create_dir(place.path("in")).expect("made"))
            .mend(|place| put(place, "in/a.csv")),
        Case::new("a pattern that matches nothing", 1, "F003")
            .reads("in/*.csv")
            .spoil(|place| std::fs::create_dir(place.path("in")).expect("made"))
            .mend(|place| put(place, "in/a.csv")),
        Case::new("a pattern that is none", 1, "F004").reads_then("flights[.csv", "flights*.csv"),
        Case::new("a file that this user may not read", 1, "F005")
            .run(|place, _| run(&mut as_nobody(place)).into())
            .spoil(|place| {
                open_to_all(place);
                mode(&place.input(), 0o000);
            })
            .mend(|place| mode(&place.input(), 0o644)),
        Case::new("a pipe in place of a file", 1, "F006")
            .spoil(|place| {
                std::fs::remove_file(place.input()).expect("removed");
                assert!(Command::new("mkfifo").arg(place.input()).status().expect("it starts").success());
            })
            .mend(|place| {
                std::fs::remove_file(place.input()).expect("removed");
                restore(place);
            }),
        Case::new("a file that changed after the job had found it", 1, "F010")
            .spoil(|place| {
                stopped_in_the_middle(place);
                let more = std::fs::read_to_string(place.input()).expect("there") + "9999,0,EWR,1\n";
                std::fs::write(place.input(), more).expect("written");
            })
            .mend(restore),
        Case::new("a file that is gone before it was read to its end", 1, "F011")
            .spoil(|place| {
                stopped_in_the_middle(place);
                std::fs::remove_file(place.input()).expect("removed");
            })
            .mend(restore),
        Case::new("a name of a file that is not UTF-8", 1, "F014")
            .reads("in")
            .spoil(|place| {
                std::fs::create_dir(place.path("in")).expect("made");
                put(place, "in/a.csv");
                std::fs::write(odd_name(place), "").expect("written");
            })
            .mend(|place| std::fs::remove_file(odd_name(place)).expect("removed")),
    ]
}

fn compressed() -> Vec<Case> {
    let gzip = |good: &str| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(good.as_bytes()).expect("compresses");
        encoder.finish().expect("compresses")
    };
    vec![
        Case::new("a file in UTF-16", 1, "F007")
            .input(|good| [0xFF, 0xFE].into_iter().chain(good.encode_utf16().flat_map(u16::to_le_bytes)).collect()),
        Case::new("a file packed in a way that is not read", 1, "F007").input(|_| b"\xFD7zXZ\0 and so on".to_vec()),
        Case::new("a gzip file that is cut", 1, "F039").input(move |good| {
            let whole = gzip(good);
            whole[..whole.len() - 9].to_vec()
        }),
        Case::new("a gzip file with a wrong checksum", 1, "F040").input(move |good| {
            let mut damaged = gzip(good);
            let at = damaged.len() - 6;
            damaged[at] ^= 1;
            damaged
        }),
    ]
}

fn headers() -> Vec<Case> {
    let header = |text: &'static str| move |good: &str| good.replacen("id,sched_ms,origin,distance", text, 1).into_bytes();
    vec![
        Case::new("a header without a column that is needed", 1, "F020").input(header("id,sched_ms,origin,dist")),
        Case::new("a header with a column twice", 1, "F021").input(header("id,sched_ms,origin,distance,id")),
        Case::new("a header that is not UTF-8", 1, "F022").input(|good| [b"\xFF,", good.as_bytes()].concat()),
    ]
}

fn lines() -> Vec<Case> {
    let line = |line: &'static [u8]| move |good: &str| [good.as_bytes(), line, b"\n"].concat();
    vec![
        Case::new("a line with too few columns", 1, "F030").input(line(b"600,36000000,EWR")),
        Case::new("a line with too many columns", 1, "F030").input(line(b"600,36000000,EWR,1,2")),
        Case::new("a cell that is not a number", 1, "F031").input(line(b"600,36000000,EWR,far")),
        Case::new("a number that does not fit", 1, "F031").input(line(b"-1,36000000,EWR,1")),
        Case::new("a line that is not UTF-8", 1, "F032").input(line(b"600,36000000,E\xFFR,1")),
        Case::new("a quote that is not closed", 1, "F033").input(line(b"600,36000000,\"EWR,1")),
        Case::new("a quote in the middle of a cell", 1, "F034").input(line(b"600,36000000,E\"W\"R,1")),
        Case::new("a NUL byte", 1, "F035").input(line(b"600,36000000,EWR\0,1")),
        Case::new("a line of 100 MB", 1, "F036").input(|good| {
            let mut long = good.as_bytes().to_vec();
            long.resize(long.len() + LINE_BYTES, b'x');
            long
        }),
        Case::new("quotes over several lines in a file that is read in several splits", 1, "F023")
            .input(|good| good.replace("\n599,", "\n\"599\n\",").into_bytes())
            .run(|place, _| embedded::ends(place, Kind::Splits)),
        Case::new("a line that is not JSON", 1, "F037")
            .spoil(|place| json_lines(place, "{\"id\":600,\"sched_ms\""))
            .run(|place, _| embedded::ends(place, Kind::Json))
            .mend(|place| json_lines(place, "")),
        Case::new("JSON of another shape than the record", 1, "F038")
            .spoil(|place| json_lines(place, "{\"id\":600,\"sched_ms\":\"noon\",\"origin\":\"EWR\",\"distance\":1}"))
            .run(|place, _| embedded::ends(place, Kind::Json))
            .mend(|place| json_lines(place, "")),
    ]
}

/// Copies the good input.
fn put(place: &Place, name: &str) {
    std::fs::copy(place.input(), place.path(name)).expect("copied");
}

/// A file whose name is not UTF-8.
fn odd_name(place: &Place) -> std::path::PathBuf {
    place.path("in").join(std::ffi::OsStr::from_bytes(b"caf\xE9.csv"))
}

/// The good input as JSON Lines, and one line more.
fn json_lines(place: &Place, last: &str) {
    let good = std::fs::read_to_string(place.input()).expect("there");
    let object = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        format!("{{\"id\":{},\"sched_ms\":{},\"origin\":\"{}\",\"distance\":{}}}\n", cells[0], cells[1], cells[2], cells[3])
    };
    let lines: String = good.lines().skip(1).map(object).collect();
    std::fs::write(place.path("flights.jsonl"), lines + last).expect("written");
}

/// The job has been stopped with a part of its input read.
pub(super) fn stopped_in_the_middle(place: &Place) {
    let mut job = Running::start(place.job(&[]).args(["--rate", "60", "--retain", "1000"]));
    job.wait_for("durable in");
    job.signal("TERM");
    job.end().ends_with(0);
    assert!(place.lines("on-time").len() < super::complete().len(), "it was stopped before the end");
}

fn mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("set");
}

/// Lets every user write in the place.
pub(super) fn open_to_all(place: &Place) {
    mode(&place.path(""), 0o777);
    for folder in [place.output(), place.checkpoints()] {
        std::fs::create_dir(&folder).expect("made");
        mode(&folder, 0o777);
    }
}

/// The job as a user to whom files can be denied.
pub(super) fn as_nobody(place: &Place) -> Command {
    let job = place.job(&[]);
    let program = place.path("staunch");
    std::fs::copy(job.get_program(), &program).expect("copied");
    let mut ours = Command::new(program);
    ours.args(job.get_args()).args(NO_INTERVAL);
    for (name, value) in job.get_envs() {
        match value {
            Some(value) => ours.env(name, value),
            None => ours.env_remove(name),
        };
    }
    if std::fs::metadata(place.path("")).expect("there").uid() == 0 {
        ours.uid(NOBODY).gid(NOBODY);
    }
    ours
}
