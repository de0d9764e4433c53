//! Records as they lie in Kafka, and how they become values and back.
//!
//! Owns: the views of a message that is read and of one that is written; the ready-made formats.
//! Does not own: where messages come from or go.

use std::fmt;
use std::marker::PhantomData;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::native::Taken;

/// A message as it was read. All parts may be absent, as in Kafka: a null value is not an empty one.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// Topic.
    pub topic: &'a str,
    /// Partition.
    pub partition: i32,
    /// Offset.
    pub offset: i64,
    /// Milliseconds since 1970, if the message has a time.
    pub timestamp: Option<i64>,
    /// Key.
    pub key: Option<&'a [u8]>,
    /// Value; `None` for a null value.
    pub value: Option<&'a [u8]>,
    /// Headers.
    pub headers: Headers<'a>,
}

/// The headers of a message, in order; names may repeat. They are looked up when asked for.
#[derive(Clone, Copy, Default)]
pub struct Headers<'a>(Held<'a>);

#[derive(Clone, Copy)]
enum Held<'a> {
    /// As [`push_header`] has written them.
    Bytes(&'a [u8]),
    /// In a message of librdkafka.
    Taken(&'a Taken),
}

impl Default for Held<'_> {
    fn default() -> Self {
        Held::Bytes(&[])
    }
}

impl fmt::Debug for Headers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// A header: its name, and its value, which may be null.
pub type Header<'a> = (&'a str, Option<&'a [u8]>);

/// Stands for a null value where a length is expected.
const NULL: u32 = u32::MAX;

impl<'a> Headers<'a> {
    /// Headers that [`push_header`] has written.
    pub(crate) fn new(bytes: &'a [u8]) -> Headers<'a> {
        Headers(Held::Bytes(bytes))
    }

    /// Those of a message that was just read.
    pub(crate) fn of(taken: &'a Taken) -> Headers<'a> {
        Headers(Held::Taken(taken))
    }

    /// All headers in order.
    pub fn iter(self) -> impl Iterator<Item = Header<'a>> {
        let (mut held, mut number) = (self.0, 0);
        std::iter::from_fn(move || match &mut held {
            Held::Bytes(rest) => {
                let name = take(rest)?.unwrap_or_default();
                let value = take(rest)?;
                // Written from a `&str`.
                Some((std::str::from_utf8(name).unwrap_or_default(), value))
            }
            Held::Taken(taken) => {
                number += 1;
                taken.header(number - 1)
            }
        })
    }

    /// The value of the last header of a name, which is the one that counts; `None` when there is none or it is null.
    #[must_use]
    pub fn get(self, name: &str) -> Option<&'a [u8]> {
        self.iter().filter(|(found, _)| *found == name).last().and_then(|(_, value)| value)
    }
}

fn take<'a>(rest: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
    let (length, tail) = rest.split_first_chunk::<4>()?;
    let length = u32::from_ne_bytes(*length);
    if length == NULL {
        *rest = tail;
        return Some(None);
    }
    let (part, tail) = tail.split_at_checked(length as usize)?;
    *rest = tail;
    Some(Some(part))
}

/// Appends a header.
pub(crate) fn push_header(out: &mut Vec<u8>, name: &str, value: Option<&[u8]>) {
    push(out, Some(name.as_bytes()));
    push(out, value);
}

fn push(out: &mut Vec<u8>, part: Option<&[u8]>) {
    let length = part.map_or(NULL, |part| part.len() as u32);
    out.extend_from_slice(&length.to_ne_bytes());
    out.extend_from_slice(part.unwrap_or_default());
}

/// How a message becomes a record. Implemented for closures.
pub trait Decode<T>: Clone + Send + Sync + 'static {
    /// The record.
    ///
    /// # Errors
    /// What was expected and what was found: the message goes to the dead letter, or stops the job.
    fn decode(&self, message: &Message<'_>) -> Result<T, String>;
}

impl<T, F: Fn(&Message<'_>) -> Result<T, String> + Clone + Send + Sync + 'static> Decode<T> for F {
    fn decode(&self, message: &Message<'_>) -> Result<T, String> {
        self(message)
    }
}

/// Values that are JSON.
pub struct Json<T>(PhantomData<fn() -> T>);

/// Values that are one line of CSV, whose cells are the fields of a struct in order; there is no header.
pub struct Csv<T>(PhantomData<fn() -> T>);

/// Values that are text.
#[derive(Clone, Copy, Debug, Default)]
pub struct Text;

/// Values as they are.
#[derive(Clone, Copy, Debug, Default)]
pub struct Raw;

impl<T> Json<T> {
    /// The format.
    #[must_use]
    pub fn new() -> Json<T> {
        Json(PhantomData)
    }
}

impl<T> Csv<T> {
    /// The format.
    #[must_use]
    pub fn new() -> Csv<T> {
        Csv(PhantomData)
    }
}

impl<T> Default for Json<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Default for Csv<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Clone for Json<T> {
    fn clone(&self) -> Self {
        Self::new()
    }
}

impl<T> Clone for Csv<T> {
    fn clone(&self) -> Self {
        Self::new()
    }
}

fn present<'a>(message: &Message<'a>) -> Result<&'a [u8], String> {
    message.value.ok_or_else(|| "expected a value, found null".to_owned())
}

impl<T: DeserializeOwned + 'static> Decode<T> for Json<T> {
    #[inline]
    fn decode(&self, message: &Message<'_>) -> Result<T, String> {
        serde_json::from_slice(present(message)?).map_err(|error| format!("the value is not the JSON that is expected: {error}"))
    }
}

impl<T: DeserializeOwned + 'static> Decode<T> for Csv<T> {
    fn decode(&self, message: &Message<'_>) -> Result<T, String> {
        let mut lines = csv::ReaderBuilder::new().has_headers(false).from_reader(present(message)?).into_deserialize();
        let record = lines.next().ok_or("expected a line of CSV, found an empty value")?;
        let record = record.map_err(|error| format!("the value is not the CSV that is expected: {error}"))?;
        match lines.next() {
            None => Ok(record),
            Some(_) => Err("expected one line of CSV, found more".to_owned()),
        }
    }
}

impl Decode<String> for Text {
    fn decode(&self, message: &Message<'_>) -> Result<String, String> {
        let text = std::str::from_utf8(present(message)?).map_err(|error| format!("the value is not UTF-8: {error}"))?;
        Ok(text.to_owned())
    }
}

impl Decode<Vec<u8>> for Raw {
    fn decode(&self, message: &Message<'_>) -> Result<Vec<u8>, String> {
        present(message).map(<[u8]>::to_vec)
    }
}

/// A message that is being written: an encoder fills it in. Without a call of [`Self::value`] the value is null.
#[derive(Debug, Default)]
pub struct MessageDraft {
    /// Key, value and headers, one after the other.
    pub(crate) bytes: Vec<u8>,
    pub(crate) parts: DraftParts,
}

/// Where the parts of a draft lie in its bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DraftParts {
    pub(crate) topic: Option<u16>,
    pub(crate) partition: Option<i32>,
    pub(crate) timestamp: Option<i64>,
    pub(crate) key: Option<(u32, u32)>,
    pub(crate) value: Option<(u32, u32)>,
    pub(crate) headers: Option<(u32, u32)>,
}

impl MessageDraft {
    fn part(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> (u32, u32) {
        let start = self.bytes.len() as u32;
        write(&mut self.bytes);
        (start, self.bytes.len() as u32)
    }

    /// Sets the key, which also chooses the partition, as Kafka's own clients do it.
    pub fn key(&mut self, key: &[u8]) -> &mut Self {
        self.parts.key = Some(self.part(|out| out.extend_from_slice(key)));
        self
    }

    /// Sets the value.
    pub fn value(&mut self, value: &[u8]) -> &mut Self {
        self.parts.value = Some(self.part(|out| out.extend_from_slice(value)));
        self
    }

    /// Sets the value to what `write` appends.
    ///
    /// # Errors
    /// What `write` returns.
    pub fn value_with<E>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<&mut Self, E> {
        let start = self.bytes.len() as u32;
        write(&mut self.bytes)?;
        self.parts.value = Some((start, self.bytes.len() as u32));
        Ok(self)
    }

    /// Adds a header. Headers come after key and value.
    pub fn header(&mut self, name: &str, value: Option<&[u8]>) -> &mut Self {
        let (start, end) = self.part(|out| push_header(out, name, value));
        let from = self.parts.headers.map_or(start, |(from, _)| from);
        self.parts.headers = Some((from, end));
        self
    }

    /// Sets the time, in milliseconds since 1970. Otherwise it is the event time of the record, if it has one.
    pub fn timestamp(&mut self, milliseconds: i64) -> &mut Self {
        self.parts.timestamp = Some(milliseconds);
        self
    }

    /// Sets the partition, whatever the key.
    pub fn partition(&mut self, partition: i32) -> &mut Self {
        self.parts.partition = Some(partition);
        self
    }

    /// Sends it to another of the sink's topics, by its place in the list the sink was given.
    pub fn topic(&mut self, place: u16) -> &mut Self {
        self.parts.topic = Some(place);
        self
    }
}

/// How a record becomes a message. Implemented for closures.
pub trait Encode<T>: Clone + Send + Sync + 'static {
    /// Fills in the message.
    ///
    /// # Errors
    /// Why the record cannot be written; the job stops with it.
    fn encode(&self, record: &T, message: &mut MessageDraft) -> Result<(), String>;
}

impl<T, F: Fn(&T, &mut MessageDraft) -> Result<(), String> + Clone + Send + Sync + 'static> Encode<T> for F {
    fn encode(&self, record: &T, message: &mut MessageDraft) -> Result<(), String> {
        self(record, message)
    }
}

impl<T: Serialize + 'static> Encode<T> for Json<T> {
    #[inline]
    fn encode(&self, record: &T, message: &mut MessageDraft) -> Result<(), String> {
        message.value_with(|out| serde_json::to_writer(out, record)).map(drop).map_err(|error| error.to_string())
    }
}

impl<T: Serialize + 'static> Encode<T> for Csv<T> {
    fn encode(&self, record: &T, message: &mut MessageDraft) -> Result<(), String> {
        let line = message.value_with(|out| {
            let mut writer = csv::WriterBuilder::new().has_headers(false).terminator(csv::Terminator::Any(b'\n')).from_writer(&mut *out);
            writer.serialize(record)?;
            writer.flush()?;
            drop(writer);
            // One line in a message needs no end.
            if out.last() == Some(&b'\n') {
                out.pop();
            }
            Ok::<(), csv::Error>(())
        });
        line.map(drop).map_err(|error| error.to_string())
    }
}

impl Encode<String> for Text {
    fn encode(&self, record: &String, message: &mut MessageDraft) -> Result<(), String> {
        message.value(record.as_bytes());
        Ok(())
    }
}

impl Encode<Vec<u8>> for Raw {
    fn encode(&self, record: &Vec<u8>, message: &mut MessageDraft) -> Result<(), String> {
        message.value(record);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Payment {
        account: u64,
        note: String,
    }

    fn message(value: Option<&[u8]>) -> Message<'_> {
        Message { topic: "t", partition: 0, offset: 0, timestamp: None, key: None, value, headers: Headers::default() }
    }

    #[test]
    fn headers_come_back_in_order_with_null_and_empty_values() {
        let mut bytes = Vec::new();
        let all: [Header<'_>; 4] = [("a", Some(b"1")), ("b", None), ("a", Some(b"")), ("", Some(b"x"))];
        all.iter().for_each(|(name, value)| push_header(&mut bytes, name, *value));
        let headers = Headers::new(&bytes);
        assert_eq!(headers.iter().collect::<Vec<_>>(), all);
        assert_eq!((headers.get("a"), headers.get("b"), headers.get("c")), (Some(&b""[..]), None, None));
    }

    #[test]
    fn formats_give_back_what_they_wrote() {
        fn round<T: PartialEq + std::fmt::Debug, F: Encode<T> + Decode<T>>(format: F, record: T) -> Vec<u8> {
            let mut draft = MessageDraft::default();
            format.encode(&record, &mut draft).expect("written");
            let (start, end) = draft.parts.value.expect("a value");
            let bytes = draft.bytes[start as usize..end as usize].to_vec();
            assert_eq!(format.decode(&message(Some(&bytes))), Ok(record));
            bytes
        }
        let payment = || Payment { account: 7, note: "a \"b\", c\nd".into() };
        assert_eq!(round(Json::new(), payment()), br#"{"account":7,"note":"a \"b\", c\nd"}"#);
        assert_eq!(round(Csv::new(), payment()), b"7,\"a \"\"b\"\", c\nd\"");
        round(Text, "text".to_owned());
        round(Raw, vec![0u8, 255]);
    }

    #[test]
    fn what_does_not_fit_is_refused_with_what_was_found() {
        let json = Json::<Payment>::new();
        assert!(json.decode(&message(None)).expect_err("null").contains("found null"));
        assert!(json.decode(&message(Some(b"{\"account\":-1}"))).expect_err("negative").contains("-1"));
        let csv = Csv::<Payment>::new();
        assert!(csv.decode(&message(Some(b""))).is_err());
        assert!(csv.decode(&message(Some(b"1,a\n2,b"))).expect_err("two lines").contains("found more"));
        assert!(Text.decode(&message(Some(&[0xff]))).expect_err("not UTF-8").contains("UTF-8"));
    }
}
