//! Types that changed between writing and reading.

use super::*;

#[derive(Serialize)]
struct Before {
    id: u32,
    gone: Vec<(String, Option<u8>)>,
    balance: i32,
    ratio: f32,
    old_name: String,
    kind: KindBefore,
    inner: InnerBefore,
}

#[derive(Serialize)]
struct InnerBefore {
    a: u8,
    b: u8,
}

#[derive(Serialize)]
enum KindBefore {
    Open,
    Closed(u16),
    Moved { to: String },
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct After {
    kind: KindAfter,
    #[serde(alias = "old_name")]
    name: String,
    balance: i64,
    inner: InnerAfter,
    ratio: f64,
    #[serde(default)]
    new: u64,
    absent: Option<String>,
    id: Option<u64>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct InnerAfter {
    b: u64,
    #[serde(default)]
    c: Vec<u8>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum KindAfter {
    Added,
    Moved {
        to: String,
        #[serde(default)]
        at: u64,
    },
    Closed(u64),
    Open,
}

fn before(kind: KindBefore) -> Before {
    Before {
        id: 7,
        gone: vec![("x".into(), Some(1))],
        balance: -5,
        ratio: 0.5,
        old_name: "n".into(),
        kind,
        inner: InnerBefore { a: 1, b: 2 },
    }
}

#[test]
fn fields_may_come_go_move_widen_and_be_renamed_and_variants_may_come_and_move() {
    let expected = |kind| After {
        kind,
        name: "n".into(),
        balance: -5,
        inner: InnerAfter { b: 2, c: vec![] },
        ratio: 0.5,
        new: 0,
        absent: None,
        id: Some(7),
    };
    assert_eq!(read_as(&before(KindBefore::Open)), Ok(expected(KindAfter::Open)));
    assert_eq!(read_as(&before(KindBefore::Closed(3))), Ok(expected(KindAfter::Closed(3))));
    let moved = KindAfter::Moved { to: "x".into(), at: 0 };
    assert_eq!(read_as(&before(KindBefore::Moved { to: "x".into() })), Ok(expected(moved)));
}

#[test]
fn an_encoder_that_goes_on_in_a_changed_program_reads_both_programs_bytes() {
    let mut first = Encoder::new();
    let old = encode(&mut first, &before(KindBefore::Closed(3)));
    let mut second = Encoder::resume(&first.schema());
    let value = After {
        kind: KindAfter::Moved { to: "y".into(), at: 5 },
        name: "m".into(),
        balance: 1,
        inner: InnerAfter { b: 1, c: vec![1] },
        ratio: 2.0,
        new: 3,
        absent: Some("a".into()),
        id: Some(1),
    };
    let new = encode(&mut second, &value);
    let decoder = Decoder::new(&second.schema());
    assert_eq!(decoder.decode::<After>(&old).expect("sound").balance, -5);
    assert_eq!(decoder.decode::<After>(&new), Ok(value));
    assert!(!second.schema().to_string().contains('?'), "the changed structs are dense again: {}", second.schema());
}

#[test]
fn an_encoder_that_goes_on_in_the_same_program_writes_the_same_bytes() {
    let mut first = Encoder::new();
    let values = [json!({"a": 1, "b": [1, "x", null]}), json!([true, {"c": -1}])];
    values.iter().for_each(|value| drop(encode(&mut first, value)));
    let schema = Schema::from_bytes(&first.schema().to_bytes()).expect("sound");
    let mut second = Encoder::resume(&schema);
    for value in &values {
        assert_eq!(encode(&mut second, value), encode(&mut first, value));
    }
    assert_eq!(second.schema(), first.schema());
}

#[test]
fn what_does_not_fit_is_named_with_its_place() {
    #[derive(Serialize)]
    struct Written {
        accounts: Vec<BTreeMap<String, (u8, String)>>,
    }
    #[derive(Debug, Deserialize)]
    struct Read {
        #[expect(dead_code, reason = "only read")]
        accounts: Vec<BTreeMap<String, (u8, u64)>>,
    }
    let error = read_as::<Read>(&Written { accounts: vec![[("k".into(), (1, "x".into()))].into()] }).expect_err("text is no number");
    assert_eq!(error.kind(), ValueErrorKind::Mismatch);
    assert_eq!(error.path(), "accounts[]{}.1");
    assert!(error.to_string().contains("expected u64"), "{error}");
    let error = read_as::<u8>(&300u32).expect_err("too large");
    assert_eq!(error.kind(), ValueErrorKind::Mismatch);
}

#[test]
fn parts_that_a_type_does_not_take_are_an_error_and_not_lost() {
    assert_eq!(read_as::<[u8; 2]>(&vec![1u8, 2, 3]).map_err(|error| error.kind()), Err(ValueErrorKind::Mismatch));
    assert_eq!(read_as::<[u32; 2]>(&vec![1u32, 2, 3]).map_err(|error| error.kind()), Err(ValueErrorKind::Mismatch));
    assert_eq!(read_as::<(u8, u16)>(&(1u8, 2u16, 3u32)).map_err(|error| error.kind()), Err(ValueErrorKind::Mismatch));
}

#[test]
fn json_that_gets_a_type_is_read_by_it() {
    let value = json!({"id": 3, "kind": "Open", "balance": -1, "ratio": 1.5, "name": "n", "inner": {"b": 1}, "absent": null});
    let read: After = read_as(&value).expect("fits");
    assert_eq!((read.id, read.kind, read.absent), (Some(3), KindAfter::Open, None));
}

#[test]
fn options_and_plain_values_are_read_as_each_other_where_there_is_a_value() {
    assert_eq!(read_as::<Option<u64>>(&5u8), Ok(Some(5)));
    assert_eq!(read_as::<u64>(&Some(5u8)), Ok(5));
    assert_eq!(read_as::<u64>(&None::<u8>).map_err(|error| error.kind()), Err(ValueErrorKind::Mismatch));
    assert_eq!(read_as::<KindAfter>(&Some("Open")), Ok(KindAfter::Open));
}

fn schema_of(values: &[impl Serialize]) -> Schema {
    let mut encoder = Encoder::new();
    values.iter().for_each(|value| drop(encode(&mut encoder, value)));
    encoder.schema()
}

#[test]
fn a_compatible_change_is_accepted() {
    let written = schema_of(&[before(KindBefore::Open), before(KindBefore::Closed(1)), before(KindBefore::Moved { to: "x".into() })]);
    let now = schema_of(&[After {
        kind: KindAfter::Closed(1),
        name: "n".into(),
        balance: 0,
        inner: InnerAfter { b: 1, c: vec![] },
        ratio: 0.0,
        new: 0,
        absent: None,
        id: Some(1),
    }]);
    assert_eq!(compatible(&written, &now), Ok(()));
}

#[test]
fn the_first_incompatible_place_is_named_with_both_shapes() {
    #[derive(Serialize)]
    struct Account<B> {
        id: u64,
        balance: B,
    }
    let account = |balance| Account { id: 1, balance };
    let difference = compatible(&schema_of(&[account("text")]), &schema_of(&[Account { id: 1, balance: 5u64 }])).expect_err("text");
    assert_eq!(difference.to_string(), "Account.balance: expected u64, found str");
    let cases: [(Schema, Schema, Option<&str>); 9] = [
        (schema_of(&[5u64]), schema_of(&[5u32]), Some("value: expected u32, found u64")),
        (schema_of(&[5u32]), schema_of(&[5i64]), None),
        (schema_of(&[5i8]), schema_of(&[5u64]), Some("value: expected u64, found i8")),
        (schema_of(&[Some(5u8)]), schema_of(&[5u8]), Some("value: expected u8, found Option<u8>")),
        (schema_of(&[5u8]), schema_of(&[Some(5u8)]), None),
        (schema_of(&[vec![(1u8, "x")]]), schema_of(&[vec![(1u8, 1u8)]]), Some("[].1: expected u8, found str")),
        (schema_of(&[json!(1), json!("x")]), schema_of(&[1u64]), Some("value: expected u64, found str")),
        (schema_of(&["x"]), schema_of(&[json!(1), json!("x")]), None),
        (schema_of(&[5i64]), schema_of(&[5f64]), Some("value: expected f64, found i64")),
    ];
    for (written, now, expected) in cases {
        let found = compatible(&written, &now).err().map(|difference| difference.to_string());
        assert_eq!(found.as_deref(), expected, "{written} -> {now}");
    }
}
