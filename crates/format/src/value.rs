//! Values of plain serde types as compact bytes, whose schema is written once and not with each value.
//!
//! Owns: [`Encoder`], which learns the schema of a state while it encodes; [`Schema`]; [`Decoder`], which reads by the schema of
//! the writer, so that a type may since have gained, lost, reordered or widened its fields; [`compatible`], which with
//! [`Schema::expected`] tells before a job starts whether its types fit what is stored.
//! Does not own: where a schema is kept (see `block` and `manifest`), or which state a value belongs to.
//!
//! The bytes of a value are the number of the schema's version (LEB128), then the value's parts without names or types:
//! integers and floats with their full width in little-endian order, `bool` and `char` as 1 and 4 bytes, lengths and variant
//! numbers as LEB128, text and bytes after their length, `Option` after a byte 0 or 1, struct fields and tuple
//! items one after the other, sequences and maps after their count. Unit and empty structs are one byte 0.
//!
//! A schema grows with what is seen. Most growth adds (the content of an option, a variant, the element of a sequence) and
//! leaves earlier bytes readable. Where two values differ in a way that cannot be added, the place is changed and the
//! version goes up: a struct whose fields come and go numbers each field, a place with several shapes numbers the shape.
//! Earlier versions stay in the schema for the bytes that were written by them. A type inside itself refers back to its outer place.
//!
//! Invariants:
//! 1. A schema reads all bytes that its encoder has written before the schema was taken.
//! 2. While [`Encoder::schema_version`] is 0, equal values give equal bytes, in every encoder of which the same is true.
//! 3. Every value and every part of one takes at least one byte, so that a count is never greater than the bytes left.
//! 4. Nothing nests deeper than [`DEPTH_MAX`], neither values nor the work on a schema.
//!
//! Types are asked for their human-readable form (an address or UUID is text), because serde's buffers for `flatten` and
//! `untagged` always ask for that one, and both must read the same bytes. Newtype structs leave no trace.

mod error;
mod schema;
mod text;
mod learn;
mod encode;
mod byte_run;
mod decode;
mod json;
mod expect;
mod difference;
#[cfg(test)]
mod tests;

pub use decode::Decoder;
pub use difference::{Difference, compatible};
pub use encode::Encoder;
pub use error::{ValueError, ValueErrorKind};
pub use schema::Schema;

/// Levels a value may nest: sequences, maps, structs, tuples, options and variants each count one.
pub const DEPTH_MAX: u32 = 128;
/// Places a schema may have.
pub const PLACES_MAX: usize = 65_536;
/// Times a schema may change in a way that does not only add.
pub const VERSIONS_MAX: u32 = 1_000;
