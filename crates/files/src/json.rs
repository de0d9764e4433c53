//! JSON Lines: one JSON value on each line.
//!
//! Owns: what is a record and how its faults are worded. Does not own: JSON itself, which is `serde_json`'s.

use serde::de::DeserializeOwned;

use crate::codes;
use crate::shape::Shape;

/// Why a line is no record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JsonFault {
    pub(crate) code: &'static str,
    pub(crate) reason: String,
    /// In bytes, from 1; 0 when not known.
    pub(crate) column: usize,
}

/// Makes a record of one line.
#[inline]
pub(crate) fn parse<T: DeserializeOwned>(line: &str, shape: Shape) -> Result<T, JsonFault> {
    if matches!(shape, Shape::Struct(_) | Shape::Map) && !starts_an_object(line) {
        return Err(not_an_object(line));
    }
    serde_json::from_str(line).map_err(|error| fault(&error))
}

/// `serde` would take a struct from an array too, by position: a record is always an object.
#[inline]
fn starts_an_object(line: &str) -> bool {
    line.bytes().find(|byte| !byte.is_ascii_whitespace()) == Some(b'{')
}

#[cold]
fn not_an_object(line: &str) -> JsonFault {
    match serde_json::from_str::<serde::de::IgnoredAny>(line) {
        Err(error) => fault(&error),
        Ok(_) => JsonFault { code: codes::JSON_SHAPE, reason: "expected an object, found another JSON value".into(), column: 1 },
    }
}

#[cold]
fn fault(error: &serde_json::Error) -> JsonFault {
    use serde_json::error::Category;
    let text = error.to_string();
    let reason = text.rsplit_once(" at line ").map_or(text.as_str(), |(reason, _)| reason);
    match error.classify() {
        Category::Data => JsonFault { code: codes::JSON_SHAPE, reason: format!("JSON of another shape: {reason}"), column: error.column() },
        Category::Syntax | Category::Eof | Category::Io => {
            JsonFault { code: codes::JSON_SYNTAX, reason: format!("expected one JSON value: {reason}"), column: error.column() }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Pair {
        a: u64,
        b: String,
    }

    #[test]
    fn an_object_becomes_a_struct_and_nothing_else_does() {
        let shape = Shape::of::<Pair>();
        assert_eq!(parse::<Pair>(" {\"b\":\"x\",\"a\":1,\"c\":[]} ", shape), Ok(Pair { a: 1, b: "x".into() }));
        for (line, code, reason) in [
            ("[1,\"x\"]", codes::JSON_SHAPE, "expected an object"),
            ("7", codes::JSON_SHAPE, "expected an object"),
            ("{\"a\":\"1\",\"b\":\"x\"}", codes::JSON_SHAPE, "invalid type: string \"1\", expected u64"),
            ("{\"a\":1}", codes::JSON_SHAPE, "missing field `b`"),
            ("{\"a\":1,\"b\":\"x\"} {}", codes::JSON_SYNTAX, "trailing characters"),
            ("{\"a\":1,", codes::JSON_SYNTAX, "EOF"),
            ("\0\0\0", codes::JSON_SYNTAX, "expected value"),
        ] {
            let fault = parse::<Pair>(line, shape).expect_err(line);
            assert!(fault.code == code && fault.reason.contains(reason), "{line} {fault:?}");
        }
    }
}
