//! Values that no sane type would have: anything may stand anywhere, names mean different things in different places, some values
//! fail halfway, and now and then another program goes on with the schema.

use proptest::prelude::*;
use serde::Serializer;
use serde::ser::{Error as _, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple};
use serde_json::Value;

use super::*;

/// Anything serde can say.
#[derive(Clone, Debug)]
enum Any {
    Unit,
    Bool(bool),
    Byte(u8),
    Long(i64),
    Text(String),
    Bytes(Vec<u8>),
    None,
    Some(Box<Any>),
    Newtype(Box<Any>),
    Seq(Vec<Any>, Option<usize>),
    Tuple(Vec<Any>),
    TupleStruct(usize, Vec<Any>),
    Map(BTreeMap<String, Any>),
    Struct(usize, Vec<(usize, Option<Any>)>),
    UnitVariant(usize, u32, usize),
    NewtypeVariant(usize, u32, usize, Box<Any>),
    TupleVariant(usize, u32, usize, Vec<Any>),
    StructVariant(usize, u32, usize, Vec<(usize, Option<Any>)>),
    Fail,
}

const TYPES: [&str; 2] = ["A", "B"];
const FIELDS: [&str; 4] = ["x", "y", "z", "A"];
const VARIANTS: [&str; 3] = ["P", "Q", "A"];

impl Serialize for Any {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Any::Unit => serializer.serialize_unit(),
            Any::Bool(value) => serializer.serialize_bool(*value),
            Any::Byte(value) => serializer.serialize_u8(*value),
            Any::Long(value) => serializer.serialize_i64(*value),
            Any::Text(value) => serializer.serialize_str(value),
            Any::Bytes(value) => serializer.serialize_bytes(value),
            Any::None => serializer.serialize_none(),
            Any::Some(value) => serializer.serialize_some(value),
            Any::Newtype(value) => serializer.serialize_newtype_struct("N", value),
            Any::Seq(values, Some(announced)) => {
                let mut elements = serializer.serialize_seq(Some(*announced))?;
                values.iter().try_for_each(|value| elements.serialize_element(value))?;
                elements.end()
            }
            Any::Seq(values, None) => serializer.collect_seq(values),
            Any::Tuple(values) => {
                let mut items = serializer.serialize_tuple(values.len())?;
                values.iter().try_for_each(|value| items.serialize_element(value))?;
                items.end()
            }
            Any::TupleStruct(name, values) => {
                let mut items = serializer.serialize_tuple_struct(TYPES[*name], values.len())?;
                values.iter().try_for_each(|value| serde::ser::SerializeTupleStruct::serialize_field(&mut items, value))?;
                serde::ser::SerializeTupleStruct::end(items)
            }
            Any::Map(entries) => {
                let mut map = serializer.serialize_map(None)?;
                entries.iter().try_for_each(|(key, value)| map.serialize_entry(key, value))?;
                map.end()
            }
            Any::Struct(name, fields) => {
                let mut output = serializer.serialize_struct(TYPES[*name], fields.len())?;
                for (field, value) in fields {
                    match value {
                        Some(value) => output.serialize_field(FIELDS[*field], value)?,
                        None => output.skip_field(FIELDS[*field])?,
                    }
                }
                output.end()
            }
            Any::UnitVariant(name, number, variant) => serializer.serialize_unit_variant(TYPES[*name], *number, VARIANTS[*variant]),
            Any::NewtypeVariant(name, number, variant, value) => {
                serializer.serialize_newtype_variant(TYPES[*name], *number, VARIANTS[*variant], value)
            }
            Any::TupleVariant(name, number, variant, values) => {
                let mut items = serializer.serialize_tuple_variant(TYPES[*name], *number, VARIANTS[*variant], values.len())?;
                values.iter().try_for_each(|value| serde::ser::SerializeTupleVariant::serialize_field(&mut items, value))?;
                serde::ser::SerializeTupleVariant::end(items)
            }
            Any::StructVariant(name, number, variant, fields) => {
                let mut output = serializer.serialize_struct_variant(TYPES[*name], *number, VARIANTS[*variant], fields.len())?;
                for (field, value) in fields {
                    match value {
                        Some(value) => output.serialize_field(FIELDS[*field], value)?,
                        None => output.skip_field(FIELDS[*field])?,
                    }
                }
                output.end()
            }
            Any::Fail => Err(S::Error::custom("refused")),
        }
    }
}

impl Any {
    /// What `decode_json` must show.
    fn json(&self) -> Value {
        let list = |values: &Vec<Any>| Value::Array(values.iter().map(Any::json).collect());
        let fields = |fields: &Vec<(usize, Option<Any>)>| {
            let present = fields.iter().filter_map(|(field, value)| Some((FIELDS[*field].to_owned(), value.as_ref()?.json())));
            Value::Object(present.collect())
        };
        let named = |variant: usize, content| json!({ VARIANTS[variant]: content });
        match self {
            Any::Unit | Any::None | Any::Fail => Value::Null,
            Any::Bool(value) => json!(value),
            Any::Byte(value) => json!(value),
            Any::Long(value) => json!(value),
            Any::Text(value) => json!(value),
            Any::Bytes(value) => value.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into(),
            Any::Some(value) | Any::Newtype(value) => value.json(),
            Any::Seq(values, _) | Any::Tuple(values) | Any::TupleStruct(_, values) => list(values),
            Any::Map(entries) => Value::Object(entries.iter().map(|(key, value)| (key.clone(), value.json())).collect()),
            Any::Struct(_, all) => fields(all),
            Any::UnitVariant(_, _, variant) => json!(VARIANTS[*variant]),
            Any::NewtypeVariant(_, _, variant, value) => named(*variant, value.json()),
            Any::TupleVariant(_, _, variant, values) => named(*variant, list(values)),
            Any::StructVariant(_, _, variant, all) => named(*variant, fields(all)),
        }
    }
}

fn any_value() -> impl Strategy<Value = Any> {
    let leaf = prop_oneof![
        2 => Just(Any::Unit),
        2 => any::<bool>().prop_map(Any::Bool),
        8 => any::<u8>().prop_map(Any::Byte),
        4 => any::<i64>().prop_map(Any::Long),
        4 => "[a-z]{0,3}".prop_map(Any::Text),
        2 => prop::collection::vec(any::<u8>(), 0..4).prop_map(Any::Bytes),
        2 => Just(Any::None),
        4 => (0..2usize, 0..3u32, 0..3usize).prop_map(|(name, number, variant)| Any::UnitVariant(name, number, variant)),
        1 => Just(Any::Fail),
    ];
    leaf.prop_recursive(5, 24, 5, |inner| {
        let many = prop::collection::vec(inner.clone(), 0..6);
        let boxed = inner.clone().prop_map(Box::new);
        let fields = prop::collection::vec(prop::option::weighted(0.8, inner.clone()), 4).prop_flat_map(|values| {
            let fields: Vec<_> = values.into_iter().enumerate().collect();
            (Just(fields).prop_shuffle(), 0..5usize).prop_map(|(mut fields, count)| {
                fields.truncate(count);
                fields
            })
        });
        let variant = (0..2usize, 0..3u32, 0..3usize);
        prop_oneof![
            boxed.clone().prop_map(Any::Some),
            boxed.clone().prop_map(Any::Newtype),
            (many.clone(), prop::option::of(0..300usize)).prop_map(|(values, announced)| Any::Seq(values, announced)),
            many.clone().prop_map(Any::Tuple),
            prop::collection::vec(any::<u8>().prop_map(Any::Byte), 4..6).prop_map(Any::Tuple),
            (0..2usize, many.clone()).prop_map(|(name, values)| Any::TupleStruct(name, values)),
            prop::collection::btree_map("[a-c]{1,2}", inner, 0..3).prop_map(Any::Map),
            (0..2usize, fields.clone()).prop_map(|(name, fields)| Any::Struct(name, fields)),
            (variant.clone(), boxed).prop_map(|((name, number, variant), value)| Any::NewtypeVariant(name, number, variant, value)),
            (variant.clone(), many).prop_map(|((name, number, variant), values)| Any::TupleVariant(name, number, variant, values)),
            (variant, fields).prop_map(|((name, number, variant), fields)| Any::StructVariant(name, number, variant, fields)),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn whatever_is_written_is_shown_by_the_last_schema(
        values in prop::collection::vec(any_value(), 1..12),
        restarts in prop::collection::vec(any::<bool>(), 12),
    ) {
        let mut encoder = Encoder::new();
        let mut written = Vec::new();
        for (value, restart) in values.iter().zip(restarts) {
            if restart {
                let schema = Schema::from_bytes(&encoder.schema().to_bytes()).expect("sound");
                encoder = Encoder::resume(&schema);
            }
            let mut bytes = Vec::new();
            match encoder.encode(value, &mut bytes) {
                Ok(()) => written.push((value, bytes)),
                Err(error) => {
                    prop_assert_eq!(error.kind(), ValueErrorKind::Refused);
                    prop_assert!(bytes.is_empty());
                }
            }
        }
        let schema = Schema::from_bytes(&encoder.schema().to_bytes()).expect("sound");
        let decoder = Decoder::new(&schema);
        for (value, bytes) in &written {
            let shown = decoder.decode_json(bytes);
            prop_assert_eq!(shown, Ok(value.json()), "{:?} by {}", value, schema);
            prop_assert_eq!(decoder.split(bytes), Ok((&bytes[..], &[][..])));
            decoder.decode::<serde::de::IgnoredAny>(bytes).expect("sound");
        }
        if schema.versions.len() == 1 {
            prop_assert_eq!(compatible(&schema, &schema), Ok(()));
        }
    }
}
