//! Bytes and schemas that no encoder made.

use proptest::prelude::*;

use super::*;

fn sample() -> (Schema, Vec<u8>) {
    let mut encoder = Encoder::new();
    let value = json!({
        "list": [1, -1, 1.5, null, true, "text", {"a": []}],
        "map": {"x": {"y": {"z": [[["deep"]]]}}},
    });
    let bytes = encode(&mut encoder, &(value, Some(vec![1u8, 2, 3]), 'c', [(1u16, true)], "end", BTreeMap::from([(1u8, ())])));
    (encoder.schema(), bytes)
}

type Read = (serde_json::Value, Option<Vec<u8>>, char, Vec<(u16, bool)>, String, BTreeMap<u8, ()>);

#[test]
fn every_prefix_of_a_value_is_an_error_with_its_offset() {
    let (schema, bytes) = sample();
    let decoder = Decoder::new(&schema);
    decoder.decode::<Read>(&bytes).expect("whole");
    for cut in 0..bytes.len() {
        let error = decoder.decode::<Read>(&bytes[..cut]).expect_err("cut");
        assert_eq!(error.kind(), ValueErrorKind::Malformed, "{cut}: {error}");
        assert!(error.offset() <= Some(cut) && error.offset().is_some(), "{cut}: {error}");
        decoder.decode_json(&bytes[..cut]).expect_err("cut");
        decoder.split(&bytes[..cut]).expect_err("cut");
    }
    let mut longer = bytes.clone();
    longer.push(0);
    assert_eq!(decoder.decode::<Read>(&longer).expect_err("too long").offset(), Some(bytes.len()));
    let (_, rest) = decoder.decode_prefix::<Read>(&longer).expect("a prefix");
    assert_eq!(rest, [0]);
    assert_eq!(decoder.split(&longer).expect("a prefix").0, bytes);
}

#[test]
fn a_count_beyond_the_bytes_is_refused_before_anything_is_reserved() {
    let schema = {
        let mut encoder = Encoder::new();
        encode(&mut encoder, &vec![()]);
        encoder.schema()
    };
    let bytes = [0, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F, 0];
    let error = Decoder::new(&schema).decode::<Vec<()>>(&bytes).expect_err("no such count");
    assert_eq!((error.kind(), error.offset()), (ValueErrorKind::Malformed, Some(1)));
}

#[test]
fn an_unknown_version_number_is_an_error() {
    let (schema, _) = sample();
    let error = Decoder::new(&schema).decode_json(&[99]).expect_err("no such version");
    assert_eq!((error.kind(), error.offset()), (ValueErrorKind::Malformed, Some(0)));
}

#[test]
fn a_schema_of_a_newer_program_says_so() {
    let (schema, _) = sample();
    let mut bytes = schema.to_bytes();
    bytes[0] = 9;
    let error = Schema::from_bytes(&bytes).expect_err("newer");
    assert_eq!(error.code(), "S106");
    assert!(error.what().contains("version 9; this program reads version 1"), "{error}");
}

#[test]
fn a_schema_that_goes_in_circles_is_refused_or_ends_in_an_error() {
    let schema = |places: Vec<schema::Shape>| Schema { versions: vec![schema::Version { number: 0, places }] };
    let linked = schema(vec![schema::Shape::Link(0)]);
    assert_eq!(Schema::from_bytes(&linked.to_bytes()).expect_err("a circle").code(), "S105");
    let pair = |a, b| schema::Shape::Tuple(schema::Tuple { name: "".into(), items: vec![a, b] });
    assert_eq!(Schema::from_bytes(&schema(vec![pair(0, 0)]).to_bytes()).expect_err("a circle").code(), "S105");
    let twice = schema(vec![pair(1, 1), schema::Shape::Unknown]);
    assert_eq!(Schema::from_bytes(&twice.to_bytes()).expect_err("shared").code(), "S105");
    let deep = schema((1..1_000).map(schema::Shape::Option).chain([schema::Shape::Unknown]).collect());
    assert_eq!(Schema::from_bytes(&deep.to_bytes()).expect_err("deep").code(), "S105");
    let circle = schema(vec![pair(1, 2), schema::Shape::Link(0), schema::Shape::Link(0)]);
    let circle = Schema::from_bytes(&circle.to_bytes()).expect("a tree with links");
    assert_eq!(circle.to_string(), "(.., ..)");
    assert_eq!(Decoder::new(&circle).decode_json(&[0; 99]).expect_err("too deep").kind(), ValueErrorKind::Malformed);
    assert_eq!(compatible(&circle, &circle), Ok(()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn changed_bytes_never_panic(at: prop::sample::Index, byte: u8, cut: prop::sample::Index) {
        let (schema, mut bytes) = sample();
        let decoder = Decoder::new(&schema);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let _ = decoder.decode::<Read>(&bytes);
        let _ = decoder.decode_json(&bytes);
        let _ = decoder.split(&bytes);
        bytes.truncate(cut.index(bytes.len()));
        let _ = decoder.decode::<Read>(&bytes);
    }

    #[test]
    fn changed_schemas_never_panic(at: prop::sample::Index, byte: u8) {
        let (schema, bytes) = sample();
        let mut changed = schema.to_bytes();
        let at = at.index(changed.len());
        changed[at] = byte;
        if let Ok(changed) = Schema::from_bytes(&changed) {
            let _ = changed.to_string();
            let _ = changed.to_json();
            let _ = compatible(&changed, &schema);
            let _ = compatible(&schema, &changed);
            let decoder = Decoder::new(&changed);
            let _ = decoder.decode::<Read>(&bytes);
            let _ = decoder.decode_json(&bytes);
            let mut out = Vec::new();
            let _ = Encoder::resume(&changed).encode(&json!({"list": [1, "x"], "map": {"y": null}}), &mut out);
        }
    }
}
