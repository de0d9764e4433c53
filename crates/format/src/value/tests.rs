//! Round trips, evolution, places with several shapes, recursion, and damaged bytes.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::*;

mod evolution;
mod shapes;
mod damage;
mod chaos;
mod expect;

/// Encodes the values with one encoder, decodes them by its last schema (through its bytes), and expects the same values; returns
/// the encoder.
fn round_trip<T: Serialize + DeserializeOwned + PartialEq + Debug>(values: &[T]) -> Encoder {
    let mut encoder = Encoder::new();
    let encoded: Vec<Vec<u8>> = values.iter().map(|value| encode(&mut encoder, value)).collect();
    let schema = encoder.schema();
    let schema = Schema::from_bytes(&schema.to_bytes()).expect("a schema reads its own bytes");
    assert_eq!(schema, encoder.schema());
    let decoder = Decoder::new(&schema);
    for (value, bytes) in values.iter().zip(&encoded) {
        let read: T = decoder.decode(bytes).unwrap_or_else(|error| panic!("{error} for {value:?} by {schema}"));
        assert_eq!(&read, value, "by {schema}");
        decoder.decode_json(bytes).expect("whatever has a schema has a JSON form");
        assert_eq!(decoder.split(bytes), Ok((&bytes[..], &[][..])));
    }
    encoder
}

fn encode<T: Serialize>(encoder: &mut Encoder, value: &T) -> Vec<u8> {
    let mut bytes = Vec::new();
    encoder.encode(value, &mut bytes).expect("encodes");
    bytes
}

/// Writes a value of one type and reads it as another.
fn read_as<T: DeserializeOwned>(value: &impl Serialize) -> Result<T, ValueError> {
    let mut encoder = Encoder::new();
    let bytes = encode(&mut encoder, value);
    Decoder::new(&encoder.schema()).decode(&bytes)
}
