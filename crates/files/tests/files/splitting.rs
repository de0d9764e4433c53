//! One file read by byte ranges: each record once, wherever the cuts are.

use staunch_api::testkit::{DeadLetter, check_source};
use staunch_files::{FileSource, SplitSize};

use super::support::{Row, assert_error, case, error, gzip, records, row, splits, with, with_rejects};

#[test]
fn splits_of_every_size_give_each_record_once_and_in_order() {
    let csv = "\u{FEFF}id,name,score\r\n1,a,\r\n\r\n22,bb,2\n333,\"c,c\",3\n4,,\r\n\n55555,e,5";
    let json = "{\"id\":1,\"name\":\"\"}\n\n{\"id\":22,\"name\":\"x\"}\r\n{\"id\":3,\"name\":\"\u{e9}\"}";
    let files = with(&[("/in.csv", csv.as_bytes()), ("/in.jsonl", json.as_bytes())]);
    let expected = [row(1, "a", None), row(22, "bb", Some(2.0)), row(333, "c,c", Some(3.0)), row(4, "", None), row(55555, "e", Some(5.0))];
    for size in 1..=csv.len() as u64 + 1 {
        for chunk in [1, 2, 7, 64] {
            let size = SplitSize::Bytes(size);
            let source = FileSource::csv::<Row>("/in.csv").splits(size).chunk_bytes(chunk);
            assert_eq!(records(&source, &files), expected, "{size:?} {chunk}");
            let source = FileSource::json_lines::<Row>("/in.jsonl").splits(size).chunk_bytes(chunk);
            assert_eq!(records(&source, &files), [row(1, "", None), row(22, "x", None), row(3, "\u{e9}", None)], "{size:?} {chunk}");
        }
    }
}

#[test]
fn splits_keep_the_promises_of_a_source() {
    let files = with(&[("/in.csv", b"id,name,score\n1,a,\n2,b,x\n3,c,3\n4,,\n5,e,5\n")]);
    for size in 1..=45 {
        let source = FileSource::csv::<Row>("/in.csv").splits(SplitSize::Bytes(size)).chunk_bytes(5);
        check_source(&case(source, &files, DeadLetter::Kept));
    }
}

#[test]
fn compressed_multiline_and_one_split_files_are_not_cut() {
    let csv = b"id,name,score\n1,a,\n2,b,\n";
    let files = with(&[("/in.csv", csv), ("/in.csv.gz", &gzip(csv))]);
    let small = SplitSize::Bytes(5);
    assert_eq!(splits(&FileSource::csv::<Row>("/in.csv").splits(small), &files).len(), 5);
    assert_eq!(splits(&FileSource::csv::<Row>("/in.csv.gz").splits(small), &files).len(), 1);
    assert_eq!(splits(&FileSource::csv::<Row>("/in.csv").splits(small).multiline(true), &files).len(), 1);
    assert_eq!(splits(&FileSource::csv::<Row>("/in.csv").one_split(), &files).len(), 1);
}

#[test]
fn a_quoted_line_end_in_a_file_of_several_splits_is_refused_and_never_misread() {
    let csv = "id,name,score\n1,a,\n2,\"b\nc\",\n3,d,\n";
    let files = with(&[("/in.csv", csv.as_bytes())]);
    assert_eq!(records(&FileSource::csv::<Row>("/in.csv"), &files).len(), 3, "as one split it is read");
    for size in 1..csv.len() as u64 {
        let source = FileSource::csv::<Row>("/in.csv").splits(SplitSize::Bytes(size));
        assert_error(&error(&source, &files), "F023", &["file=/in.csv line=3", "multiline(true)"]);
    }
    let source = FileSource::csv::<Row>("/in.csv").splits(SplitSize::Bytes(5)).multiline(true);
    assert_eq!(records(&source, &files).len(), 3);
}

#[test]
fn with_multiline_off_each_line_is_a_record_and_an_open_quote_a_reject() {
    let csv = "id,name,score\n1,a,\n2,\"b\n3,d,\n";
    let files = with(&[("/in.csv", csv.as_bytes())]);
    for size in [5, 1000] {
        let source = FileSource::csv::<Row>("/in.csv").splits(SplitSize::Bytes(size)).multiline(false);
        let (records, rejects) = with_rejects(&source, &files);
        assert_eq!(records, [row(1, "a", None), row(3, "d", None)]);
        let [reject] = &rejects[..] else { panic!("{rejects:?}") };
        assert_eq!(
            (reject.code.as_str(), reject.place.as_str(), reject.raw.as_str()),
            ("F033", "file=/in.csv line=3 column=2 (name)", "2,\"b")
        );
    }
}

#[test]
fn line_numbers_are_right_in_every_split() {
    let csv = "id,name,score\n1,a,\n\nx,b,\n3,c,\ny,d,\n";
    let files = with(&[("/in.csv", csv.as_bytes())]);
    for size in 1..=csv.len() as u64 {
        let source = FileSource::csv::<Row>("/in.csv").splits(SplitSize::Bytes(size));
        let (_, rejects) = with_rejects(&source, &files);
        let places: Vec<&str> = rejects.iter().map(|reject| reject.place.as_str()).collect();
        assert_eq!(places, ["file=/in.csv line=4 column=1 (id)", "file=/in.csv line=6 column=1 (id)"], "splits of {size}");
    }
}
