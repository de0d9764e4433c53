//! Cells into structs, tuples and single values.

use serde::Deserialize;

use super::*;
use crate::csv::{Cut, Dialect, Lines};
use crate::shape::Shape;

#[derive(Debug, PartialEq, Deserialize)]
enum Side {
    Buy,
    #[serde(rename = "sell")]
    Sell,
}

#[derive(Debug, PartialEq, Deserialize)]
struct Order {
    id: u64,
    #[serde(alias = "amount")]
    price: f64,
    side: Side,
    note: Option<String>,
    count: Option<u32>,
    #[serde(default)]
    extra: String,
}

fn read<T: DeserializeOwned>(header: Option<&str>, line: &str) -> Result<T, CellFault> {
    let plan = match header {
        Some(header) => Plan::with_header(header.split(',').map(String::from).collect(), Shape::of::<T>()).expect("a good header"),
        None => Plan::without_header(),
    };
    let mut cells = Vec::new();
    let cut = Dialect { delimiter: b',', quotes: true, lines: Lines::Many }.cut(line.as_bytes(), true, &mut cells);
    assert!(matches!(cut, Cut::Record { .. }), "{cut:?}");
    parse(line, &cells, &plan, &mut String::new())
}

#[test]
fn columns_find_their_fields_by_name_in_any_order_and_others_are_ignored() {
    let order: Order = read(Some("side,unknown,amount,id,note,count"), "sell,?,2.5,7,\"a \"\"b\"\", c\",").expect("reads");
    assert_eq!(order, Order { id: 7, price: 2.5, side: Side::Sell, note: Some("a \"b\", c".into()), count: None, extra: String::new() });
}

#[test]
fn an_empty_cell_is_nothing_and_a_quoted_empty_cell_is_an_empty_text() {
    let order: Order = read(Some("id,price,side,note,count"), "1,1,Buy,\"\",3").expect("reads");
    assert_eq!((order.note, order.count), (Some(String::new()), Some(3)));
    let order: Order = read(Some("id,price,side,note"), "1,1,Buy,").expect("reads");
    assert_eq!((order.note, order.count), (None, None));
}

#[test]
fn without_a_header_cells_go_by_position_and_their_number_must_fit() {
    assert_eq!(read::<(u64, String)>(None, "1,a"), Ok((1, "a".into())));
    assert_eq!(read::<(u64, String)>(None, "1,a,b"), Err(CellFault::Count { expected: "columns=2".into(), found: 3 }));
    assert!(matches!(read::<(u64, String)>(None, "1"), Err(CellFault::Count { found: 1, .. })));
    let order: Order = read(None, "1,1,Buy,,,x").expect("reads");
    assert_eq!(order.extra, "x");
    assert_eq!(read::<u64>(None, "12"), Ok(12));
    assert!(matches!(read::<u64>(None, "12,13"), Err(CellFault::Count { found: 2, .. })));
    assert_eq!(read::<(u64, String)>(Some("x,y"), "1,a"), Ok((1, "a".into())));
}

#[test]
fn a_bad_cell_is_named_by_its_column() {
    for (line, column, reason) in [
        ("x,1,Buy,", 0, "expected u64, found \"x\""),
        ("1,,Buy,", 1, "expected f64, found an empty cell"),
        ("1,1,Hold,", 2, "unknown variant `Hold`"),
        ("18446744073709551616,1,Buy,", 0, "expected u64"),
        (" 1,1,Buy,", 0, "expected u64, found \" 1\""),
    ] {
        match read::<Order>(Some("id,price,side,note"), line) {
            Err(CellFault::Bad { column: Some(found), reason: text }) => {
                assert!(found == column && text.contains(reason), "{line}: {found} {text}");
            }
            other => panic!("{line}: {other:?}"),
        }
    }
}

#[test]
fn too_few_cells_and_a_missing_column_are_told_apart() {
    assert_eq!(
        read::<Order>(Some("id,price,side"), "1,1"),
        Err(CellFault::Count { expected: "columns=3 as in the header".into(), found: 2 })
    );
    assert_eq!(read::<Order>(Some("id,price"), "1,1"), Err(CellFault::Missing { field: "side" }));
}

#[test]
fn a_struct_inside_a_struct_is_refused_with_what_is_allowed() {
    #[derive(Debug, PartialEq, Deserialize)]
    struct Outer {
        list: Vec<u64>,
    }
    assert!(matches!(read::<Outer>(Some("list"), "1"), Err(CellFault::Bad { reason, .. }) if reason.contains("JSON Lines")));
}

#[test]
fn a_flattened_struct_reads_texts() {
    #[derive(Debug, PartialEq, Deserialize)]
    struct Inner {
        b: String,
    }
    #[derive(Debug, PartialEq, Deserialize)]
    struct Outer {
        a: u64,
        #[serde(flatten)]
        inner: Inner,
    }
    assert_eq!(read::<Outer>(Some("b,a"), "x,1"), Ok(Outer { a: 1, inner: Inner { b: "x".into() } }));
}

#[test]
fn two_columns_for_one_field_are_refused() {
    let fault = Plan::with_header(vec!["id".into(), "x".into(), "id".into()], Shape::of::<Order>());
    assert_eq!(fault, Err(super::super::HeaderFault::Doubled { name: "id".into(), first: 0, second: 2 }));
    assert!(Plan::with_header(vec!["x".into(), "x".into()], Shape::of::<Order>()).is_ok());
}
