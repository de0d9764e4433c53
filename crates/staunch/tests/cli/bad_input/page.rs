//! The page that lists the kinds.

use std::path::Path;

use super::{Case, Complaint};

/// Set to write the page anew.
const WRITE: &str = "STAUNCH_WRITE_PAGES";

const HEAD: &str = "# Bad input

What a job says to input, output, checkpoints, settings and plans that are not as they should be. Each row is a test: the job is run, ends
with the exit code and the message of the row, has lost nothing, and goes on to its full output after what was wrong has been mended.

The page is made by `bad_input_of_each_kind_gives_a_clear_error_and_loses_nothing`, which fails when a message is another;
`STAUNCH_WRITE_PAGES=1 cargo test -p staunch --test cli bad_input` writes it anew. The test's folder is called `/data`, and `n` stands for a number that may be another in each run. What each code means is in
[errors](errors.md).

A bad line needs no end of the job: a source with a dead letter (`source_with_dead_letter`) sends such lines to a stream of their own, with the
code, the reason, the place and the line. A file that a checkpoint already speaks of must stay as it is (F010): its bad lines go to a dead letter.

An empty file, one of empty lines and one with only a header are no errors: they have no records.

| what is wrong | exit | message | where | data | what to do |
|---|---|---|---|---|---|
";

/// One row.
pub(super) fn row(case: &Case, complaint: &Complaint) -> String {
    let Complaint { code, what, place, data, remedy } = complaint;
    let cells = [case.kind, &case.expected.0.to_string(), &format!("{code}: {what}"), place, data, remedy];
    format!("| {} |\n", cells.map(|cell| steady(&cell.replace('|', "\\|"))).join(" | "))
}

/// What stands before numbers that are others in each run, or may be.
const UNSTEADY: [&str; 12] = [
    "task=0/",
    "task=1/",
    "offset=",
    "offset=n bytes=",
    "entry ",
    "epoch=",
    "manifests/e",
    "state/e",
    "-t1.",
    "ledger/0000000/",
    "CRC32C is ",
    "n, expected ",
];

/// A text without such numbers.
fn steady(text: &str) -> String {
    let mut text = text.to_owned();
    for mark in UNSTEADY {
        let mut from = 0;
        while let Some(at) = text[from..].find(mark) {
            from += at + mark.len();
            let digits = text[from..].bytes().take_while(u8::is_ascii_hexdigit).count();
            if digits > 0 {
                text.replace_range(from..from + digits, "n");
            }
        }
    }
    text
}

/// Demands that the page has these rows.
pub(super) fn is(rows: &[String]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/bad-input.md");
    let expected = format!("{HEAD}{}", rows.concat());
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&path, &expected).expect("written");
    }
    let found = std::fs::read_to_string(&path).expect("the page is there");
    for (found, expected) in found.lines().zip(expected.lines()) {
        assert_eq!(found, expected, "the page differs; {WRITE}=1 writes it anew");
    }
    assert_eq!(found.lines().count(), expected.lines().count(), "the page differs; {WRITE}=1 writes it anew");
}
