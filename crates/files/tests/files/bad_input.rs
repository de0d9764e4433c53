//! Input that cannot become records: each kind has its code and its place, and what comes after it is still read.

use staunch_api::Rejected;
use staunch_api::testkit::{DeadLetter, Fault, MemoryFiles, Operation, check_source};
use staunch_files::{FileSource, SplitSize};
use staunch_types::ErrorKind;

use super::support::{Row, assert_error, case, collected, error, gzip, records, row, with, with_rejects, zstd};

fn csv(content: &[u8]) -> MemoryFiles {
    with(&[("/in", content)])
}

/// Checks, for content of one file, the only reject, that the records around it are read, that the same is an error without a
/// dead letter, and that neither chunks nor restores change any of it.
fn check(source: &FileSource<Row>, content: &[u8], code: &str, place: &str, reason: &str, raw: &str, ids: &[u64]) {
    let files = csv(content);
    for chunk in [1, 7, 1 << 20] {
        let source = source.clone().chunk_bytes(chunk);
        let (records, rejects) = with_rejects(&source, &files);
        let [reject] = &rejects[..] else { panic!("expected one reject, found {rejects:#?}") };
        let Rejected { code: found, reason: text, place: at, raw: line } = reject;
        assert_eq!((found.as_str(), at.as_str(), line.as_str()), (code, place, raw), "{text}");
        assert!(text.contains(reason), "expected {reason:?} in {text:?}");
        assert_eq!(records.iter().map(|row| row.id).collect::<Vec<u64>>(), ids);
    }
    let error = error(source, &files);
    assert_error(&error, code, &[place, reason]);
    assert_eq!(error.kind(), ErrorKind::Invalid);
    check_source(&case(source.clone().chunk_bytes(11), &files, DeadLetter::Kept));
}

fn csv_source() -> FileSource<Row> {
    FileSource::csv("/in")
}

fn json_source() -> FileSource<Row> {
    FileSource::json_lines("/in")
}

#[test]
fn too_few_columns() {
    let content = b"id,name,score\n1,a,\n2,b\n3,c,\n";
    check(&csv_source(), content, "F030", "file=/in line=3", "expected columns=3 as in the header, found columns=2", "2,b", &[1, 3]);
}

#[test]
fn too_many_columns() {
    let content = b"id,name,score\n1,a,\n2,b,,\n3,c,\n";
    check(&csv_source(), content, "F030", "file=/in line=3", "expected columns=3 as in the header, found columns=4", "2,b,,", &[1, 3]);
}

#[test]
fn wrong_number_of_columns_without_a_header() {
    let source = csv_source().headers(false);
    check(&source, b"1,a,\n2,b\n3,c,\n", "F030", "file=/in line=2", "struct Row with 3 elements, found columns=2", "2,b", &[1, 3]);
    check(&source, b"1,a,\n2,b,,\n3,c,\n", "F030", "file=/in line=2", "expected columns=3, found columns=4", "2,b,,", &[1, 3]);
}

#[test]
fn a_bad_number() {
    let content = b"id,name,score\n1,a,\n2,b,1.2.3\n3,c,\n";
    check(&csv_source(), content, "F031", "file=/in line=3 column=3 (score)", "expected f64, found \"1.2.3\"", "2,b,1.2.3", &[1, 3]);
}

#[test]
fn an_empty_cell_where_a_number_must_be() {
    let content = b"id,name,score\n1,a,\n,b,\n3,c,\n";
    check(&csv_source(), content, "F031", "file=/in line=3 column=1 (id)", "expected u64, found an empty cell", ",b,", &[1, 3]);
}

#[test]
fn invalid_utf8_in_csv() {
    let content = b"id,name,score\n1,a,\n2,b\xFFc,\n3,c,\n";
    check(&csv_source(), content, "F032", "file=/in line=3 column=2 (name)", "found byte 0xff", "2,b\u{FFFD}c,", &[1, 3]);
}

#[test]
fn invalid_utf8_in_json() {
    let content = b"{\"id\":1,\"name\":\"a\"}\n{\"id\":2,\"name\":\"\xC3\"}\n{\"id\":3,\"name\":\"c\"}";
    check(&json_source(), content, "F032", "file=/in line=2 column=17", "found byte 0xc3", "{\"id\":2,\"name\":\"\u{FFFD}\"}", &[1, 3]);
}

#[test]
fn an_unclosed_quote_costs_its_line_only() {
    let content = b"id,name,score\n1,a,\n2,\"b,\n3,c,\n";
    check(&csv_source(), content, "F033", "file=/in line=3 column=2 (name)", "found the end of the file", "2,\"b,", &[1, 3]);
}

#[test]
fn a_quote_inside_a_cell() {
    let content = b"id,name,score\n1,a,\n2,b\"c,\n3,c,\n";
    check(&csv_source(), content, "F034", "file=/in line=3 column=2 (name)", "found one inside a cell", "2,b\"c,", &[1, 3]);
}

#[test]
fn text_after_a_closing_quote() {
    let content = b"id,name,score\n1,a,\n2,\"b\"c,\n3,c,\n";
    check(&csv_source(), content, "F034", "file=/in line=3 column=2 (name)", "after a closing quote", "2,\"b\"c,", &[1, 3]);
}

#[test]
fn nul_bytes_in_csv_and_json() {
    check(
        &csv_source(),
        b"id,name,score\n1,a,\n2,b\0,\n3,c,\n",
        "F035",
        "file=/in line=3 column=2 (name)",
        "a NUL byte",
        "2,b\0,",
        &[1, 3],
    );
    let hole = [&b"{\"id\":1,\"name\":\"a\"}\n"[..], &[0; 40], b"\n{\"id\":3,\"name\":\"c\"}"].concat();
    check(&json_source(), &hole, "F035", "file=/in line=2 column=1", "a NUL byte", &"\0".repeat(40), &[1, 3]);
}

#[test]
fn a_line_over_the_limit_by_one_byte_and_one_at_the_limit() {
    let source = csv_source().line_bytes_max(20);
    let content = format!("id,name,score\n1,{},\r\n2,{},\r\n3,c,\n", "a".repeat(17), "b".repeat(18));
    let raw = format!("2,{},", "b".repeat(18));
    check(&source, content.as_bytes(), "F036", "file=/in line=3", "at most line_bytes_max=20 bytes, found one of bytes=21", &raw, &[1, 3]);
    let content = format!("{{\"id\":1,\"name\":\"a\"}}\n{{\"id\":2,\"name\":\"{}\"}}\n{{\"id\":3,\"name\":\"c\"}}", "b".repeat(100));
    let raw = format!("{{\"id\":2,\"name\":\"{}\"}}", "b".repeat(100));
    check(&json_source().line_bytes_max(117), content.as_bytes(), "F036", "file=/in line=2", "found one of bytes=118", &raw, &[1, 3]);
    assert_eq!(records(&json_source().line_bytes_max(118), &csv(content.as_bytes())).len(), 3);
    check(&json_source().line_bytes_max(20), content.as_bytes(), "F036", "file=/in line=2", "found one of bytes=118", &raw, &[1, 3]);
}

#[test]
fn a_line_of_100_megabytes_is_rejected_without_being_kept() {
    const BYTES: usize = 100 << 20;
    let mut content = b"id,name,score\n1,a,\n2,".to_vec();
    content.resize(content.len() + BYTES, b'x');
    content.extend_from_slice(b",\n3,c,\n");
    for split in [SplitSize::WholeFile, SplitSize::Bytes(16 << 20)] {
        let (records, rejects) = with_rejects(&csv_source().splits(split), &csv(&content));
        assert_eq!(records, [row(1, "a", None), row(3, "c", None)]);
        let [reject] = &rejects[..] else { panic!("expected one reject, found {}", rejects.len()) };
        assert_eq!((reject.code.as_str(), reject.place.as_str()), ("F036", "file=/in line=3"));
        assert!(reject.reason.ends_with(&format!("bytes={}", BYTES + 3)), "{}", reject.reason);
        assert_eq!(reject.raw.len(), Rejected::RAW_BYTES_MAX);
    }
}

#[test]
fn a_record_of_several_lines_over_the_limit_costs_its_first_line() {
    let content = "id,name,score\n1,\"a\nbbbbbbbbbbbbbbbbbbbbbbbb\n2,b,\n";
    let source = csv_source().line_bytes_max(20);
    let (records, rejects) = with_rejects(&source, &csv(content.as_bytes()));
    assert_eq!(records, [row(2, "b", None)]);
    let found: Vec<(&str, &str)> = rejects.iter().map(|reject| (reject.code.as_str(), reject.place.as_str())).collect();
    assert_eq!(found, [("F033", "file=/in line=2"), ("F036", "file=/in line=3")]);
    check_source(&case(source.chunk_bytes(3), &csv(content.as_bytes()), DeadLetter::Kept));
}

#[test]
fn json_that_is_cut_or_has_something_behind_it() {
    let around = |line: &str| format!("{{\"id\":1,\"name\":\"a\"}}\n{line}\n{{\"id\":3,\"name\":\"c\"}}\n").into_bytes();
    for (line, column, reason) in [
        ("{\"id\":2,\"name\":", 15, "EOF while parsing"),
        ("{\"id\":2,\"name\":\"b\"}{}", 20, "trailing characters"),
        ("{\"id\":2,\"name\":\"b\"} x", 21, "trailing characters"),
        ("id=2", 1, "expected value"),
    ] {
        check(&json_source(), &around(line), "F037", &format!("file=/in line=2 column={column}"), reason, line, &[1, 3]);
    }
}

#[test]
fn json_of_another_shape() {
    let around = |line: &str| format!("{{\"id\":1,\"name\":\"a\"}}\n{line}\n{{\"id\":3,\"name\":\"c\"}}\n").into_bytes();
    for (line, column, reason) in [
        ("{\"id\":\"2\",\"name\":\"b\"}", 9, "invalid type: string \"2\", expected u64"),
        ("{\"id\":-2,\"name\":\"b\"}", 8, "invalid value: integer `-2`, expected u64"),
        ("{\"id\":2}", 8, "missing field `name`"),
        ("{\"id\":2,\"id\":2,\"name\":\"b\"}", 12, "duplicate field `id`"),
        ("[2,\"b\",null]", 1, "expected an object"),
        ("\"text\"", 1, "expected an object"),
        ("null", 1, "expected an object"),
    ] {
        check(&json_source(), &around(line), "F038", &format!("file=/in line=2 column={column}"), reason, line, &[1, 3]);
    }
}

#[test]
fn a_gzip_file_cut_at_any_byte_never_ends_in_silence() {
    cut_at_any_byte(&gzip(b"id,name,score\n1,a,\n2,b,\n3,c,\n"));
}

#[test]
fn a_zstd_file_cut_at_any_byte_never_ends_in_silence() {
    cut_at_any_byte(&zstd(b"id,name,score\n1,a,\n2,b,\n3,c,\n"));
}

/// Cuts behind the magic number; a shorter file is no compressed file.
fn cut_at_any_byte(whole: &[u8]) {
    for end in 4..whole.len() {
        let files = csv(&whole[..end]);
        let (records, rejects) = with_rejects(&csv_source(), &files);
        let [reject] = &rejects[..] else { panic!("cut at {end}: {records:?} {rejects:#?}") };
        assert_eq!(reject.code, "F039", "cut at {end}: {reject:?}");
        let line = if records.is_empty() { 1 } else { records.len() + 2 };
        let expected = [format!("file=/in line={line}"), "file=/in line=2".to_string()];
        assert!(expected.contains(&reject.place), "cut at {end}: {reject:?}");
        assert!(records.iter().zip(1..).all(|(row, id)| row.id == id), "cut at {end}: {records:?}");
        assert_error(&error(&csv_source(), &files), "F039", &["the end of the file"]);
    }
    check_source(&case(csv_source(), &csv(&whole[..whole.len() - 1]), DeadLetter::Kept));
}

#[test]
fn a_cut_in_a_later_member_keeps_the_records_before_it() {
    for compress in [gzip, zstd] {
        let first = compress(b"id,name,score\n1,a,\n2,b");
        let second = compress(b",\n3,c,\n4,d,\n");
        let files = csv(&[&first[..], &second[..second.len() / 2]].concat());
        let (records, rejects) = with_rejects(&csv_source(), &files);
        assert_eq!(records.first(), Some(&row(1, "a", None)));
        assert_eq!(rejects.len(), 1);
        assert_eq!(rejects[0].code, "F039");
    }
}

#[test]
fn a_damaged_compressed_file_is_rejected_where_the_damage_is() {
    for compress in [gzip, zstd] {
        let lines: String = (0..2000).map(|id| format!("{id},{:x},\n", id * 7919)).collect();
        let whole = compress(format!("id,name,score\n{lines}").as_bytes());
        let mut kinds = std::collections::BTreeSet::new();
        for at in [whole.len() / 4, whole.len() / 2, whole.len() - 2] {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x55;
            let (_, rejects) = with_rejects(&csv_source(), &csv(&damaged));
            let last = rejects.last().expect("a reject");
            kinds.insert(last.code.clone());
        }
        assert!(kinds.iter().all(|code| code == "F040" || code == "F039"), "{kinds:?}");
        assert!(kinds.contains("F040"), "{kinds:?}");
    }
}

#[test]
fn a_header_without_a_needed_column_lists_the_columns() {
    let files = csv(b"id,nam,score\n1,a,\n");
    let error = error(&csv_source(), &files);
    assert_error(&error, "F020", &["\"name\"", "found the columns id, nam, score", "file=/in line=2", "#[serde(default)]"]);
    assert!(collected(&csv_source(), &files, DeadLetter::Kept).is_err(), "no dead letter can take a whole file");
}

#[test]
fn a_header_with_a_needed_column_twice() {
    let files = csv(b"id,name,score,name\n1,a,,b\n");
    assert_error(&error(&csv_source(), &files), "F021", &["\"name\" as columns 2 and 4", "file=/in line=1"]);
    assert_eq!(records(&csv_source(), &csv(b"id,name,score,x,x\n1,a,,,\n")).len(), 1, "columns that nobody reads may be doubled");
}

#[test]
fn a_header_that_cannot_be_read() {
    for (content, text) in
        [(&b"id,na\"me,score\n1,a,\n"[..], "quote"), (b"id,\"name,score\n1,a,\n", "quote"), (b"id,n\xFFme,score\n1,a,\n", "UTF-8")]
    {
        assert_error(&error(&csv_source(), &csv(content)), "F022", &[text, "file=/in line=1", "headers(false)"]);
    }
    let endless = vec![b'x'; 2 << 20];
    assert_error(&error(&csv_source(), &csv(&endless)), "F022", &["at most 1048576 bytes"]);
}

#[test]
fn no_permission_to_read_and_a_failing_disk_are_told_apart() {
    for (kind, code, reaction) in
        [(std::io::ErrorKind::PermissionDenied, "F005", ErrorKind::Invalid), (std::io::ErrorKind::TimedOut, "F012", ErrorKind::Restart)]
    {
        for operation in [Operation::Open, Operation::Read] {
            let files = csv(b"id,name,score\n1,a,\n");
            // The enumerator opens once and reads twice.
            let after = if operation == Operation::Open { 1 } else { 2 };
            files.fail(Fault { operation, path_has: "/in".into(), error: kind, after });
            let error = error(&csv_source(), &files);
            assert_error(&error, code, &["file=/in", "cause: "]);
            assert_eq!(error.kind(), reaction);
        }
    }
    // In a compressed file, too, a disk that fails is no damage to the file.
    let files = csv(&gzip(b"id,name,score\n1,a,\n"));
    files.fail(Fault { operation: Operation::Read, path_has: "/in".into(), error: std::io::ErrorKind::TimedOut, after: 5 });
    assert_error(&error(&csv_source(), &files), "F012", &["file=/in"]);
}
