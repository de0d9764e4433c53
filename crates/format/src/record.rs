//! Records that describe themselves: a frame whose body is a schema and one value.
//!
//! Owns: how manifests and ledger entries become bytes and JSON. Does not own: what they say.
//! The body is the schema after its length, then the value. So a field added later with `#[serde(default)]` needs no new
//! version in either direction, and any record can be shown by a program that does not know its type. A change that an older
//! program must not ignore gets a new version of the frame.

use serde::Serialize;
use serde::de::DeserializeOwned;
use staunch_types::Result;

use crate::bytes::{Reader, put_length};
use crate::frame::FrameKind;
use crate::value::{Decoder, Encoder, Schema};

pub(crate) fn seal<T: Serialize>(kind: FrameKind, record: &T) -> Result<Vec<u8>> {
    let mut encoder = Encoder::new();
    let mut value = Vec::new();
    encoder.encode(record, &mut value)?;
    let schema = encoder.schema().to_bytes();
    Ok(kind.seal(schema.len() + value.len() + 8, |out| {
        put_length(out, schema.len() as u64);
        out.extend_from_slice(&schema);
        out.extend_from_slice(&value);
    }))
}

pub(crate) fn open<T: DeserializeOwned>(kind: FrameKind, bytes: &[u8]) -> Result<T> {
    let (decoder, value) = parts(kind, bytes)?;
    decoder.decode(value).map_err(|error| kind.unreadable(error))
}

pub(crate) fn open_json(kind: FrameKind, bytes: &[u8]) -> Result<serde_json::Value> {
    let (decoder, value) = parts(kind, bytes)?;
    decoder.decode_json(value).map_err(|error| kind.unreadable(error))
}

fn parts(kind: FrameKind, bytes: &[u8]) -> Result<(Decoder, &[u8])> {
    let frame = kind.open(bytes)?;
    let mut reader = Reader::new(frame.body);
    let schema = reader.sized().map_err(|error| kind.unreadable(error.what))?;
    Ok((Decoder::new(&Schema::from_bytes(schema)?), reader.rest()))
}
