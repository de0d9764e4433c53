//! Every shape comes back as it was, also where values differ in shape.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Everything {
    numbers: (i8, i16, i32, i64, i128, u8, u16, u32, u64, u128),
    floats: (f32, f64),
    flag: bool,
    letter: char,
    text: String,
    unit: (),
    marker: Marker,
    wrapped: Wrapped,
    pair: Pair,
    option: Option<u32>,
    nested: Option<Option<u8>>,
    list: Vec<u16>,
    bytes: Vec<u8>,
    array: [u8; 5],
    empty: [u8; 0],
    map: BTreeMap<u64, Vec<String>>,
    kinds: Vec<Kind>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Marker;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Wrapped(u64);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Pair(u8, String);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Kind {
    Nothing,
    One(i64),
    Two(u8, String),
    Named { id: u32, tag: Option<String> },
    Inner(Box<Kind>),
}

fn kind() -> impl Strategy<Value = Kind> {
    let leaf = prop_oneof![
        Just(Kind::Nothing),
        any::<i64>().prop_map(Kind::One),
        (any::<u8>(), ".{0,4}").prop_map(|(number, text)| Kind::Two(number, text)),
        (any::<u32>(), prop::option::of(".{0,4}")).prop_map(|(id, tag)| Kind::Named { id, tag }),
    ];
    leaf.prop_recursive(4, 8, 1, |inner| inner.prop_map(|kind| Kind::Inner(Box::new(kind))))
}

fn everything() -> impl Strategy<Value = Everything> {
    let numbers = any::<(i8, i16, i32, i64, i128, u8, u16, u32, u64, u128)>();
    let floats = any::<(i32, i64)>().prop_map(|(a, b)| (a as f32 / 8.0, b as f64 / 8.0));
    let scalars = (numbers, floats, any::<bool>(), any::<char>(), ".{0,200}", any::<u64>(), (any::<u8>(), ".{0,4}"));
    let nested = prop_oneof![Just(None), Just(Some(None)), any::<u8>().prop_map(|byte| Some(Some(byte)))];
    let lists = (prop::collection::vec(any::<u16>(), 0..5), prop::collection::vec(any::<u8>(), 0..200), any::<[u8; 5]>());
    let map = prop::collection::btree_map(any::<u64>(), prop::collection::vec(".{0,4}", 0..3), 0..3);
    (scalars, any::<Option<u32>>(), nested, lists, map, prop::collection::vec(kind(), 0..4)).prop_map(
        |((numbers, floats, flag, letter, text, wrapped, pair), option, nested, (list, bytes, array), map, kinds)| Everything {
            numbers,
            floats,
            flag,
            letter,
            text,
            unit: (),
            marker: Marker,
            wrapped: Wrapped(wrapped),
            pair: Pair(pair.0, pair.1),
            option,
            nested,
            list,
            bytes,
            array,
            empty: [],
            map,
            kinds,
        },
    )
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Skipping {
    id: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    first: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    second: Vec<u8>,
    last: i64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Flat {
    id: u64,
    #[serde(flatten)]
    inner: Skipping2,
    #[serde(flatten)]
    rest: BTreeMap<String, serde_json::Value>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Skipping2 {
    address: std::net::IpAddr,
    kind: Option<Kind>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Untagged {
    Number(u32),
    Text(String),
    Point { x: i32, y: i32 },
    Circle { x: i32, radius: f64 },
    Both(u8, String),
    Many(Vec<Untagged>),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "body")]
enum Adjacent {
    Number(u32),
    Text(String),
    Point { x: i32, y: i32 },
    Nothing,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type")]
enum Internal {
    Click { at: u64, button: u8 },
    Key { at: u64, text: String },
    Wrapped(Skipping),
    Nothing,
}

fn json_value() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(|value| json!(value)),
        any::<i64>().prop_map(|value| json!(value)),
        any::<u64>().prop_map(|value| json!(value)),
        any::<i32>().prop_map(|value| json!(f64::from(value) / 4.0)),
        ".{0,5}".prop_map(|value| json!(value)),
    ];
    leaf.prop_recursive(5, 40, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|list| json!(list)),
            prop::collection::btree_map(".{0,3}", inner, 0..4).prop_map(|map| json!(map)),
        ]
    })
}

fn untagged() -> impl Strategy<Value = Untagged> {
    let leaf = prop_oneof![
        any::<u32>().prop_map(Untagged::Number),
        ".{0,5}".prop_map(Untagged::Text),
        any::<(i32, i32)>().prop_map(|(x, y)| Untagged::Point { x, y }),
        any::<(i32, i32)>().prop_map(|(x, radius)| Untagged::Circle { x, radius: f64::from(radius) }),
        (any::<u8>(), ".{0,3}").prop_map(|(byte, text)| Untagged::Both(byte, text)),
    ];
    // A list of exactly a byte and a text would be read as Both: that is serde's rule for untagged enums.
    leaf.prop_recursive(3, 20, 4, |inner| prop::collection::vec(inner, 3..5).prop_map(Untagged::Many))
}

fn skipping() -> impl Strategy<Value = Skipping> {
    (any::<u32>(), prop::option::of(".{0,3}"), prop::collection::vec(any::<u8>(), 0..3), any::<i64>())
        .prop_map(|(id, first, second, last)| Skipping { id, first, second, last })
}

fn internal() -> impl Strategy<Value = Internal> {
    prop_oneof![
        any::<(u64, u8)>().prop_map(|(at, button)| Internal::Click { at, button }),
        (any::<u64>(), ".{0,3}").prop_map(|(at, text)| Internal::Key { at, text }),
        skipping().prop_map(Internal::Wrapped),
        Just(Internal::Nothing),
    ]
}

fn adjacent() -> impl Strategy<Value = Adjacent> {
    prop_oneof![
        any::<u32>().prop_map(Adjacent::Number),
        ".{0,3}".prop_map(Adjacent::Text),
        any::<(i32, i32)>().prop_map(|(x, y)| Adjacent::Point { x, y }),
        Just(Adjacent::Nothing),
    ]
}

fn flat() -> impl Strategy<Value = Flat> {
    let rest = prop::collection::btree_map("r[a-z]{1,3}", json_value(), 0..3);
    (any::<u64>(), any::<std::net::IpAddr>(), prop::option::of(kind()), rest).prop_map(|(id, address, kind, rest)| Flat {
        id,
        inner: Skipping2 { address, kind },
        rest,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_value_of_a_plain_type_comes_back_and_keeps_version_0(values in prop::collection::vec(everything(), 1..6)) {
        let encoder = round_trip(&values);
        prop_assert_eq!(encoder.schema_version(), 0);
    }

    #[test]
    fn at_version_0_equal_values_have_equal_bytes_whatever_was_seen_before(values in prop::collection::vec(everything(), 1..6)) {
        let mut one = Encoder::new();
        let forward: Vec<_> = values.iter().map(|value| encode(&mut one, value)).collect();
        let mut other = Encoder::new();
        let mut backward: Vec<_> = values.iter().rev().map(|value| encode(&mut other, value)).collect();
        backward.reverse();
        prop_assert_eq!(forward, backward);
    }

    #[test]
    fn json_values_come_back(values in prop::collection::vec(json_value(), 1..10)) {
        let mut encoder = round_trip(&values);
        for value in &values {
            let bytes = encode(&mut encoder, value);
            prop_assert_eq!(&Decoder::new(&encoder.schema()).decode_json(&bytes).expect("sound"), value);
        }
    }

    #[test]
    fn structs_that_skip_fields_come_back(values in prop::collection::vec(skipping(), 1..10)) {
        let encoder = round_trip(&values);
        prop_assert!(encoder.schema_version() <= 1, "one change is enough: {}", encoder.schema());
    }

    #[test]
    fn untagged_enums_come_back(values in prop::collection::vec(untagged(), 1..10)) {
        round_trip(&values);
    }

    #[test]
    fn internally_and_adjacently_tagged_enums_come_back(
        internal in prop::collection::vec(internal(), 1..10),
        adjacent in prop::collection::vec(adjacent(), 1..10),
    ) {
        round_trip(&internal);
        round_trip(&adjacent);
    }

    #[test]
    fn flattened_structs_come_back(values in prop::collection::vec(flat(), 1..10)) {
        round_trip(&values);
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Tree {
    children: Vec<Tree>,
    label: String,
    parent: Option<Box<Tree>>,
}

#[test]
fn a_type_inside_itself_has_one_place() {
    let leaf = |label: &str| Tree { children: vec![], label: label.into(), parent: None };
    let tree = Tree {
        children: vec![Tree { children: vec![leaf("a")], label: "b".into(), parent: Some(Box::new(leaf("c"))) }, leaf("d")],
        label: "e".into(),
        parent: None,
    };
    let encoder = round_trip(&[leaf("x"), tree]);
    assert_eq!(encoder.schema().to_string(), "struct Tree { children: [Tree], label: str, parent: Option<Tree> }");
    assert_eq!(encoder.schema_version(), 0);
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Around<T> {
    value: T,
}

mod other {
    use super::*;

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    pub(super) enum Kind {
        Circle(u8),
        Nothing { deep: Option<super::Around<super::Kind>> },
    }
}

#[test]
fn different_types_of_one_name_inside_each_other_come_back() {
    round_trip(&[Around { value: Around { value: Around { value: 5u64 } } }, Around { value: Around { value: Around { value: 6 } } }]);
    let kind = |inner| other::Kind::Nothing { deep: Some(Around { value: inner }) };
    round_trip(&[
        other::Kind::Circle(1),
        kind(Kind::Nothing),
        kind(Kind::One(5)),
        kind(Kind::Inner(Box::new(Kind::Two(1, "x".into())))),
        other::Kind::Nothing { deep: None },
        kind(Kind::Named { id: 1, tag: None }),
    ]);
}

#[test]
fn json_of_any_depth_has_few_places() {
    let mut value = json!({"a": [1, null, "x"], "b": 1.5});
    let flat = value.clone();
    for _ in 0..10 {
        value = json!({"a": [value, {}, []], "b": value, "c": true});
    }
    let places = |encoder: Encoder| encoder.schema().versions.last().map_or(0, |version| version.places.len());
    let (after_flat, at_once) = (places(round_trip(&[flat, value.clone()])), places(round_trip(&[value])));
    assert!(after_flat < 20, "{after_flat}");
    assert!(at_once < 20 * 11, "{at_once}");
}

#[test]
fn growth_that_only_adds_keeps_the_version_and_earlier_bytes() {
    let mut encoder = Encoder::new();
    let values: [(Option<u8>, Vec<Kind>); 3] =
        [(None, vec![]), (Some(1), vec![Kind::Inner(Box::new(Kind::Nothing))]), (None, vec![Kind::One(3), Kind::Two(1, "b".into())])];
    let bytes: Vec<_> = values.iter().map(|value| encode(&mut encoder, value)).collect();
    assert_eq!(encoder.schema_version(), 0);
    assert_eq!(encoder.schema().to_string(), "(Option<u8>, [enum Kind { Nothing, One(i64), Two(u8, str), Inner(Kind) }])");
    for (value, bytes) in values.iter().zip(&bytes) {
        assert_eq!(&Decoder::new(&encoder.schema()).decode::<(Option<u8>, Vec<Kind>)>(bytes).expect("sound"), value);
    }
}

#[test]
fn a_byte_list_that_turns_out_to_hold_other_things_comes_back() {
    let text = |text: &str| Untagged::Text(text.into());
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(untagged)]
    enum ByteOr {
        Byte(u8),
        Text(String),
    }
    let byte = ByteOr::Byte;
    round_trip(&[vec![byte(1)], vec![byte(2), ByteOr::Text("x".into()), byte(3)], vec![byte(4)]]);
    round_trip(&[Untagged::Many(vec![text("a"), text("b"), text("c")])]);
}

#[test]
fn sequences_and_maps_that_do_not_know_their_length_come_back() {
    struct Lazy(u64);
    impl Serialize for Lazy {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_seq((0..self.0).filter(|number| number % 2 == 0))
        }
    }
    for count in [0u64, 1, 10, 254, 256, 258, 100_000] {
        assert_eq!(read_as::<Vec<u64>>(&Lazy(count)), Ok((0..count).filter(|number| number % 2 == 0).collect()));
    }
    struct Lying(Vec<u32>, usize);
    impl Serialize for Lying {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            use serde::ser::SerializeSeq;
            let mut elements = serializer.serialize_seq(Some(self.1))?;
            self.0.iter().try_for_each(|number| elements.serialize_element(number))?;
            elements.end()
        }
    }
    for (count, announced) in [(3, 300), (300, 3), (0, 20_000), (200, 1)] {
        let numbers: Vec<u32> = (0..count).collect();
        assert_eq!(read_as::<Vec<u32>>(&Lying(numbers.clone(), announced)), Ok(numbers));
    }
}

#[test]
fn plain_bytes_and_lists_of_bytes_are_read_as_each_other() {
    struct Raw(Vec<u8>);
    impl Serialize for Raw {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.serialize_bytes(&self.0)
        }
    }
    struct RawBuf(Vec<u8>);
    impl<'de> Deserialize<'de> for RawBuf {
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<RawBuf, D::Error> {
            struct Visitor;
            impl serde::de::Visitor<'_> for Visitor {
                type Value = RawBuf;
                fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    f.write_str("bytes")
                }
                fn visit_bytes<E>(self, bytes: &[u8]) -> Result<RawBuf, E> {
                    Ok(RawBuf(bytes.to_vec()))
                }
            }
            deserializer.deserialize_byte_buf(Visitor)
        }
    }
    let bytes = vec![0u8, 1, 255];
    assert_eq!(read_as::<Vec<u8>>(&Raw(bytes.clone())), Ok(bytes.clone()));
    assert_eq!(read_as::<RawBuf>(&Raw(bytes.clone())).expect("sound").0, bytes);
    assert_eq!(read_as::<RawBuf>(&bytes).expect("sound").0, bytes);
    assert_eq!(read_as::<Vec<Wrapped>>(&vec![1u8, 2]), Ok(vec![Wrapped(1), Wrapped(2)]));
    assert_eq!(read_as::<Vec<Option<u64>>>(&vec![1u8, 2]), Ok(vec![Some(1), Some(2)]));
}

#[test]
fn values_are_shown_as_json_without_their_type() {
    #[derive(Serialize)]
    struct Shown {
        big: u128,
        nan: f64,
        tenth: f32,
        keys: BTreeMap<(u8, bool), Kind>,
        none: Option<u8>,
        numbers: HashMap<i32, ()>,
    }
    let value = Shown {
        big: u128::MAX,
        nan: f64::NAN,
        tenth: 0.1,
        keys: [((1, true), Kind::Nothing), ((2, false), Kind::Named { id: 1, tag: Some("t".into()) })].into(),
        none: None,
        numbers: [(-1, ())].into(),
    };
    let mut encoder = Encoder::new();
    let bytes = encode(&mut encoder, &value);
    assert_eq!(
        Decoder::new(&encoder.schema()).decode_json(&bytes),
        Ok(json!({
            "big": "340282366920938463463374607431768211455", "nan": "NaN", "tenth": 0.1,
            "keys": {"[1,true]": "Nothing", "[2,false]": {"Named": {"id": 1, "tag": "t"}}},
            "none": null, "numbers": {"-1": null},
        }))
    );
}

#[test]
fn a_schema_is_shown_like_the_type() {
    let mut encoder = Encoder::new();
    encode(&mut encoder, &(Skipping { id: 1, first: None, second: vec![1], last: 2 }, [0u8; 32], HashMap::from([(1u8, "x")])));
    assert_eq!(encoder.schema().to_string(), "(struct Skipping { id?: u32, second?: [u8], last?: i64 }, [u8; 32], map<u8, str>)");
    assert_eq!(encoder.schema().to_json()[0]["shape"]["items"][0]["fields"][1]["name"], "second");
}

#[test]
fn what_cannot_be_written_is_refused_and_leaves_the_buffer_as_it_was() {
    let mut deep = json!(1);
    for _ in 0..200 {
        deep = json!([deep]);
    }
    let mut out = vec![7];
    let error = Encoder::new().encode(&deep, &mut out).expect_err("too deep");
    assert_eq!((error.kind(), &out[..]), (ValueErrorKind::Limit, &[7u8][..]));
    let path = std::path::PathBuf::from(<std::ffi::OsString as std::os::unix::ffi::OsStringExt>::from_vec(vec![0xFF]));
    let error = Encoder::new().encode(&(1, path), &mut out).expect_err("not text");
    assert_eq!((error.kind(), &out[..]), (ValueErrorKind::Refused, &[7u8][..]));
    assert_eq!(staunch_types::Error::from(error).code(), "S101");
}

#[test]
fn values_as_deep_as_the_limit_come_back() {
    let mut deep = json!(1);
    for _ in 0..DEPTH_MAX {
        deep = json!([deep]);
    }
    round_trip(&[deep]);
}

#[test]
fn an_array_of_bytes_is_one_place_until_an_item_is_no_byte() {
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(untagged)]
    enum Item {
        Byte(u8),
        Text(String),
    }
    let bytes = [Item::Byte(1), Item::Byte(2), Item::Byte(3), Item::Byte(4)];
    let mixed = [Item::Byte(1), Item::Text("x".into()), Item::Byte(3), Item::Byte(4)];
    let encoder = round_trip(std::slice::from_ref(&bytes));
    assert_eq!(encoder.schema().to_json()[0]["shape"], json!({"bytes": 4}));
    round_trip(&[bytes.clone(), mixed.clone(), bytes.clone()]);
    round_trip(&[(1u64, bytes.clone(), 2u64, bytes.clone()), (1, mixed, 2, bytes)]);
}

#[test]
fn as_keys_floats_that_have_one_hash_have_the_same_bytes_and_as_values_their_own() {
    let other_nan = f64::from_bits(f64::NAN.to_bits() | 1);
    let (mut keys, mut values) = (Encoder::new().for_keys(), Encoder::new());
    let same = |encoder: &mut Encoder, a: f64, b: f64| encode(encoder, &(a, a as f32)) == encode(encoder, &(b, b as f32));
    assert!(same(&mut keys, 0.0, -0.0) && same(&mut keys, f64::NAN, other_nan) && same(&mut keys, f64::NAN, -f64::NAN));
    assert!(!same(&mut keys, 0.0, f64::MIN_POSITIVE) && !same(&mut keys, 1.0, -1.0) && !same(&mut keys, f64::NAN, f64::INFINITY));
    assert!(!same(&mut values, 0.0, -0.0) && !same(&mut values, f64::NAN, other_nan));
    let mut resumed = Encoder::resume(&keys.schema()).for_keys();
    assert!(same(&mut resumed, 0.0, -0.0));
}
