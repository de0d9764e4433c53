//! Good input in all its forms becomes the same records.

use serde::Deserialize;
use staunch_api::testkit::{DeadLetter, check_source};
use staunch_files::FileSource;

use super::support::{Row, case, gzip, records, row, with, zstd};

const CSV: &str = "id,name,score\n1,a,0.5\n2,\"b,\"\"c\"\"\nd\",\n3,,1e3\n";
const JSON: &str = "{\"id\":1,\"name\":\"a\",\"score\":0.5}\n{\"name\":\"b,\\\"c\\\"\\nd\",\"id\":2,\"score\":null}\n{\"id\":3,\"name\":\"\",\"score\":1e3}\n";

fn expected() -> Vec<Row> {
    vec![row(1, "a", Some(0.5)), row(2, "b,\"c\"\nd", None), row(3, "", Some(1000.0))]
}

#[test]
fn csv_and_json_lines_become_plain_structs() {
    let files = with(&[("/in/a.csv", CSV.as_bytes()), ("/in/a.jsonl", JSON.as_bytes())]);
    assert_eq!(records(&FileSource::csv::<Row>("/in/a.csv"), &files), expected());
    assert_eq!(records(&FileSource::json_lines::<Row>("/in/a.jsonl"), &files), expected());
}

#[test]
fn byte_order_mark_crlf_missing_last_line_end_and_empty_lines_change_nothing() {
    let plain = "id,name,score\n1,a,0.5\n2,b,\n";
    let variants = [
        plain.to_string(),
        format!("\u{FEFF}{plain}"),
        plain.replace('\n', "\r\n"),
        format!("\u{FEFF}{}", plain.replace('\n', "\r\n")),
        plain.trim_end().to_string(),
        plain.replace('\n', "\r\n").trim_end_matches('\n').to_string(),
        plain.replace('\n', "\n\n\r\n"),
        format!("\n\r\n{plain}"),
        format!("\u{FEFF}\n{plain}\n"),
    ];
    for variant in variants {
        for chunk in [1, 2, 3, 7, 1 << 20] {
            let files = with(&[("/in.csv", variant.as_bytes())]);
            let source = FileSource::csv::<Row>("/in.csv").chunk_bytes(chunk);
            assert_eq!(records(&source, &files), [row(1, "a", Some(0.5)), row(2, "b", None)], "{variant:?} in chunks of {chunk}");
        }
    }
    let json = "{\"id\":1,\"name\":\"a\",\"score\":1}";
    for variant in [json.to_string(), format!("\u{FEFF}{json}\r\n"), format!("\n \t\r\n{json}\n\n"), format!("  {json}  \n")] {
        for chunk in [1, 2, 7] {
            let files = with(&[("/in.jsonl", variant.as_bytes())]);
            let source = FileSource::json_lines::<Row>("/in.jsonl").chunk_bytes(chunk);
            assert_eq!(records(&source, &files), [row(1, "a", Some(1.0))], "{variant:?} in chunks of {chunk}");
        }
    }
}

#[test]
fn an_empty_file_and_one_with_only_a_header_have_no_records() {
    for content in ["", "\n", "\u{FEFF}", "id,name,score", "id,name,score\n", "\u{FEFF}id,name,score\r\n\r\n"] {
        let files = with(&[("/in.csv", content.as_bytes())]);
        assert_eq!(records(&FileSource::csv::<Row>("/in.csv"), &files), [], "{content:?}");
    }
    assert_eq!(records(&FileSource::json_lines::<Row>("/in.jsonl"), &with(&[("/in.jsonl", b"")])), []);
}

#[test]
fn gzip_and_zstd_are_told_by_content_also_in_several_members_and_frames() {
    let (front, back) = CSV.as_bytes().split_at(30);
    for (name, bytes) in [
        ("gzip", gzip(CSV.as_bytes())),
        ("zstd", zstd(CSV.as_bytes())),
        ("gzip members", [gzip(front), gzip(b""), gzip(back)].concat()),
        ("zstd frames", [zstd(front), zstd(b""), zstd(back)].concat()),
    ] {
        for chunk in [1, 2, 7, 1 << 20] {
            let files = with(&[("/in.csv", &bytes)]);
            files.read_at_most(5);
            assert_eq!(records(&FileSource::csv::<Row>("/in.csv").chunk_bytes(chunk), &files), expected(), "{name} in chunks of {chunk}");
        }
    }
}

#[test]
fn options_change_delimiter_headers_and_quotes() {
    let files = with(&[("/in", b"1;a\"b;\n2;\"c\";3\n")]);
    let source = FileSource::csv::<Row>("/in").delimiter(b';').headers(false).quotes(false);
    assert_eq!(records(&source, &files), [row(1, "a\"b", None), row(2, "\"c\"", Some(3.0))]);
    let tuples = FileSource::csv::<(u64, String, Option<u64>)>("/in").delimiter(b';').headers(false).quotes(false);
    assert_eq!(records(&tuples, &files)[1], (2, "\"c\"".to_string(), Some(3)));
}

#[test]
fn columns_are_matched_by_name_in_each_file_anew() {
    let files = with(&[
        ("/in/1.csv", b"score,id,ignored,name\n,1,x,a\n"),
        ("/in/2.csv", b"name,id\nb,2\n"),
        ("/in/3.csv", b"\"id\",\"score\",\"name\"\n3,4,c\n"),
    ]);
    let found = records(&FileSource::csv::<Row>("/in"), &files);
    assert_eq!(found, [row(1, "a", None), row(2, "b", None), row(3, "c", Some(4.0))]);
}

#[test]
fn serde_attributes_hold() {
    #[derive(Clone, Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Order {
        #[serde(alias = "orderNumber")]
        order_id: u64,
        #[serde(default)]
        item_count: u32,
        #[serde(rename = "Kind")]
        kind: Kind,
    }
    #[derive(Clone, Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Kind {
        Small,
        Large,
    }
    let files = with(&[
        ("/a.csv", b"Kind,orderNumber\nsmall,1\nlarge,2\n"),
        ("/a.jsonl", b"{\"orderNumber\":1,\"Kind\":\"small\"}\n{\"orderId\":2,\"Kind\":\"large\"}\n"),
    ]);
    let order = |order_id, kind| Order { order_id, item_count: 0, kind };
    let expected = [order(1, Kind::Small), order(2, Kind::Large)];
    assert_eq!(records(&FileSource::csv::<Order>("/a.csv"), &files), expected);
    assert_eq!(records(&FileSource::json_lines::<Order>("/a.jsonl"), &files), expected);
}

#[test]
fn a_nul_inside_quotes_is_text() {
    let files = with(&[("/in.csv", b"id,name,score\n1,\"a\0b\",\n")]);
    assert_eq!(records(&FileSource::csv::<Row>("/in.csv"), &files), [row(1, "a\0b", None)]);
}

#[test]
fn all_forms_keep_the_promises_of_a_source() {
    let multi = [gzip(&CSV.as_bytes()[..20]), gzip(&CSV.as_bytes()[20..])].concat();
    let files = with(&[
        ("/csv/1.csv", CSV.as_bytes()),
        ("/csv/2.csv", b"name,id\r\nb,2\r\n\r\nc,x\r\nd,3"),
        ("/csv/3.csv", b""),
        ("/csv/4.csv.gz", &multi),
        ("/csv/5.csv.zst", &zstd(CSV.as_bytes())),
        ("/json/1.jsonl", JSON.as_bytes()),
        ("/json/2.jsonl", &gzip(JSON.as_bytes())),
    ]);
    for chunk in [1, 7, 1 << 20] {
        check_source(&case(FileSource::csv::<Row>("/csv").chunk_bytes(chunk), &files, DeadLetter::Kept));
        check_source(&case(FileSource::json_lines::<Row>("/json").chunk_bytes(chunk), &files, DeadLetter::Kept));
    }
}
