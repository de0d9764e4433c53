//! The audit finds what was lost, doubled or changed, and nothing else.

use staunch_api::testkit::{ImmediateDoor, MemoryFiles};
use staunch_api::{Sink, SinkWriter};
use staunch_files::{Audit, AuditScope, Compression, FileSink, Finding, audit};

use super::support::{Row, gzip};
use super::writing::{OUT, with_case};

/// Three committed files; their paths and bodies.
fn committed(sink: FileSink<Row>, files: &MemoryFiles) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    with_case(sink, files, |case| {
        case.sink.check(&case.context(1)).expect("works");
        let mut writer = case.writer(1, 0, Vec::new(), ImmediateDoor);
        for epoch in 1..4 {
            case.write(&mut writer, epoch * 10..epoch * 10 + 5);
            if epoch == 3 {
                writer.end();
            }
            let prepared = case.prepare(&mut writer, epoch);
            case.commit(1, &prepared.committables);
            found.extend(prepared.committables.into_iter().map(|committable| (committable.description, committable.body)));
        }
    });
    found
}

fn look(files: &MemoryFiles, committed: &[(String, Vec<u8>)], scope: AuditScope) -> Audit {
    audit(files, committed.iter().map(|(_, body)| body.as_slice()), scope).expect("bodies")
}

fn findings(files: &MemoryFiles, committed: &[(String, Vec<u8>)]) -> Vec<String> {
    look(files, committed, AuditScope::WholeLedger).findings.iter().map(ToString::to_string).collect()
}

#[test]
fn output_as_it_was_written_has_no_findings_in_any_form() {
    for compression in [Compression::None, Compression::Gzip, Compression::Zstd] {
        for sink in [FileSink::csv::<Row>(OUT), FileSink::csv::<Row>(OUT).header(false), FileSink::json_lines::<Row>(OUT)] {
            let files = MemoryFiles::new();
            let committed = committed(sink.compression(compression), &files);
            let audit = look(&files, &committed, AuditScope::WholeLedger);
            assert_eq!((audit.findings.len(), audit.files, audit.lines.records), (0, 3, 15));
        }
    }
}

#[test]
fn lost_doubled_and_changed_lines_are_found_with_their_file() {
    type Spoil = fn(&str) -> String;
    let cases: [(Spoil, &str); 5] = [
        (|text| text.lines().take(4).map(|line| format!("{line}\n")).collect(), "records are missing: "),
        (|text| format!("{text}{{\"id\":1}}\n"), "there are more records than were written: 1"),
        (|text| text.replace(":20,", ":29,"), "records were changed"),
        (|text| text.trim_end().to_string(), "the file has another length"),
        (|_| String::new(), "records are missing: 5"),
    ];
    for (spoil, expected) in cases {
        let files = MemoryFiles::new();
        let committed = committed(FileSink::json_lines::<Row>(OUT), &files);
        let path = &committed[1].0;
        let text = String::from_utf8(files.get(path).expect("visible")).expect("text");
        files.put(path, spoil(&text));
        let found = findings(&files, &committed);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains(expected) && found[0].contains(path.as_str()), "{found:?}");
    }
}

#[test]
fn missing_hidden_unreadable_and_unnamed_files_are_found() {
    let files = MemoryFiles::new();
    let committed = committed(FileSink::csv::<Row>(OUT).compression(Compression::Gzip), &files);
    let [first, second, third] = &committed[..] else { panic!("three files") };
    files.put(first.0.replace("-00000001-1-0-0", "-00000001-2-0-0"), gzip(b"id,name,score\n1,a,\n"));
    files.put("/out/part-00000000-00000001-1-0-0.csv", "of somebody else");
    files.put("/out/readme.txt", "of somebody");
    assert!(files.take(&first.0));
    let content = files.get(&second.0).expect("visible");
    files.put(&second.0, &content[..content.len() - 4]);
    let hidden = files.get(&third.0).expect("visible");
    assert!(files.take(&third.0));
    files.put("/out/.staunch+job+sink+g1-t0-2.prepared", hidden);
    let found = look(&files, &committed, AuditScope::WholeLedger).findings;
    let kinds: Vec<&str> = found
        .iter()
        .map(|finding| match finding {
            Finding::Missing { .. } => "missing",
            Finding::Hidden { .. } => "hidden",
            Finding::Changed { .. } => "changed",
            Finding::Rewritten { .. } => "rewritten",
            Finding::Unreadable { .. } => "unreadable",
            Finding::Unnamed { .. } => "unnamed",
        })
        .collect();
    assert_eq!(kinds, ["missing", "unreadable", "hidden", "unnamed"], "{found:#?}");
    assert_eq!(look(&files, &committed, AuditScope::Part).findings.len(), 3, "a part of the ledger does not name all files");
}

#[test]
fn another_header_is_found() {
    let files = MemoryFiles::new();
    let committed = committed(FileSink::csv::<Row>(OUT), &files);
    let path = &committed[0].0;
    let text = String::from_utf8(files.get(path).expect("visible")).expect("text");
    files.put(path, text.replace("score", "prize"));
    let found = findings(&files, &committed);
    assert!(found.len() == 1 && found[0].contains("the header is another"), "{found:?}");
}

#[test]
fn a_file_carried_over_epochs_is_audited_as_one() {
    let files = MemoryFiles::new();
    let committed = committed(FileSink::csv::<Row>(OUT).roll_every(std::time::Duration::from_secs(60)), &files);
    assert_eq!(committed.len(), 1);
    let audit = look(&files, &committed, AuditScope::WholeLedger);
    assert_eq!((audit.findings.len(), audit.lines.records), (0, 15));
}
