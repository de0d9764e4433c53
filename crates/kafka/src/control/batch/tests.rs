//! Batches are written here by a simple encoder, and read back; and damaged in every place.

use std::io::Write;

use super::*;

/// A message for [`batch`].
pub(crate) type Pair<'a> = (Option<&'a [u8]>, Option<&'a [u8]>);

fn number(out: &mut Vec<u8>, value: i64) {
    let mut bits = ((value << 1) ^ (value >> 63)) as u64;
    while bits >= 0x80 {
        out.push(bits as u8 | 0x80);
        bits >>= 7;
    }
    out.push(bits as u8);
}

fn messages(pairs: &[Pair<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    for (delta, (key, value)) in (0..).zip(pairs) {
        let mut one = vec![0];
        number(&mut one, 0);
        number(&mut one, delta);
        for part in [key, value] {
            number(&mut one, part.map_or(-1, |part| part.len() as i64));
            one.extend_from_slice(part.unwrap_or_default());
        }
        number(&mut one, 0);
        number(&mut out, one.len() as i64);
        out.extend(one);
    }
    out
}

fn sealed(first: i64, producer: Producer, attributes: i16, count: usize, body: &[u8]) -> Vec<u8> {
    let mut checked = attributes.to_be_bytes().to_vec();
    checked.extend((count as i32 - 1).to_be_bytes());
    checked.extend([0; 16]);
    checked.extend(producer.id.to_be_bytes());
    checked.extend(producer.epoch.to_be_bytes());
    checked.extend(0_i32.to_be_bytes());
    checked.extend((count as i32).to_be_bytes());
    checked.extend(body);
    let mut out = first.to_be_bytes().to_vec();
    out.extend((checked.len() as i32 + 9).to_be_bytes());
    out.extend([0, 0, 0, 0, 2]);
    out.extend(crc32c::crc32c(&checked).to_be_bytes());
    out.extend(checked);
    out
}

/// A batch of messages at an offset.
pub(crate) fn batch(first: i64, producer: Producer, part: Part, pairs: &[Pair<'_>]) -> Vec<u8> {
    let attributes = if part == Part::Plain { 0 } else { 16 };
    match part {
        Part::Plain | Part::Transaction => sealed(first, producer, attributes, pairs.len(), &messages(pairs)),
        Part::End(decision) => {
            let key = [0, 0, 0, u8::from(decision == Decision::Commit)];
            sealed(first, producer, attributes | 32, 1, &messages(&[(Some(&key), Some(&[0; 6]))]))
        }
        Part::Mark => sealed(first, producer, attributes | 32, 1, &messages(&[(Some(&[0, 0, 0, 5]), None)])),
    }
}

const PRODUCER: Producer = Producer { id: 7, epoch: 3 };

/// A message as it comes back: offset, key, value.
type Owned = (i64, Option<Vec<u8>>, Option<Vec<u8>>);

fn read(bytes: &[u8]) -> Result<Vec<Owned>, String> {
    let (mut rest, mut all) = (bytes, Vec::new());
    while let Some(batch) = take(&mut rest)? {
        batch.each(|m| all.push((m.offset, m.key.map(<[u8]>::to_vec), m.value.map(<[u8]>::to_vec))))?;
    }
    Ok(all)
}

fn packed(packing: i16, body: &[u8]) -> Vec<u8> {
    match packing {
        1 => {
            let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
            out.write_all(body).expect("room");
            out.finish().expect("room")
        }
        2 => {
            let mut out = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01".to_vec();
            for block in body.chunks(50) {
                let block = snap::raw::Encoder::new().compress_vec(block).expect("room");
                out.extend((block.len() as u32).to_be_bytes());
                out.extend(block);
            }
            out
        }
        3 => {
            let mut out = lz4_flex::frame::FrameEncoder::new(Vec::new());
            out.write_all(body).expect("room");
            out.finish().expect("room")
        }
        _ => ruzstd::encoding::compress_to_vec(body, ruzstd::encoding::CompressionLevel::Fastest),
    }
}

#[test]
fn messages_come_back_in_every_compression() {
    let long = b"value ".repeat(50);
    let pairs: [Pair<'_>; 4] = [(Some(b"k"), Some(&long)), (None, None), (Some(b""), Some(b"")), (None, Some(b"v"))];
    let body = messages(&pairs);
    let expected: Vec<_> = (5..).zip(pairs).map(|(offset, (k, v))| (offset, k.map(<[u8]>::to_vec), v.map(<[u8]>::to_vec))).collect();
    for packing in 0..=4 {
        let body = if packing == 0 { body.clone() } else { packed(packing, &body) };
        let bytes = sealed(5, PRODUCER, packing | 16, pairs.len(), &body);
        assert_eq!(read(&bytes).as_ref(), Ok(&expected), "packing {packing}");
    }
    let raw = snap::raw::Encoder::new().compress_vec(&body).expect("room");
    assert_eq!(read(&sealed(5, PRODUCER, 2, pairs.len(), &raw)).as_ref(), Ok(&expected));
    assert!(read(&sealed(5, PRODUCER, 5, pairs.len(), &body)).is_err());
}

#[test]
fn headers_and_marks_are_told_apart() {
    let mut bytes = batch(5, PRODUCER, Part::Transaction, &[(None, None), (None, None)]);
    for part in [Part::End(Decision::Commit), Part::End(Decision::Abort), Part::Mark, Part::Plain] {
        bytes.extend(batch(7, PRODUCER, part, &[(None, None)]));
    }
    let mut rest = &bytes[..];
    let first = take(&mut rest).expect("readable").expect("a batch");
    assert_eq!((first.first, first.last, first.messages, first.producer, first.part), (5, 6, 2, PRODUCER, Part::Transaction));
    for expected in [Part::End(Decision::Commit), Part::End(Decision::Abort), Part::Mark, Part::Plain] {
        assert_eq!(take(&mut rest).expect("readable").expect("a batch").part, expected);
    }
    assert_eq!(take(&mut rest), Ok(None));
}

#[test]
fn a_batch_that_is_cut_is_not_there_and_one_that_is_damaged_is_an_error() {
    let whole = batch(5, PRODUCER, Part::Plain, &[(Some(b"key"), Some(b"value"))]);
    for length in 0..whole.len() {
        assert_eq!(take(&mut &whole[..length]), Ok(None), "{length} bytes");
    }
    for at in CHECKED_START..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        assert!(take(&mut &damaged[..]).is_err(), "byte {at}");
    }
}

#[test]
fn counts_and_lengths_that_are_not_so_are_errors_and_take_no_room() {
    let body = messages(&[(Some(b"key"), Some(b"value"))]);
    assert!(read(&sealed(5, PRODUCER, 0, i32::MAX as usize, &body)).is_err());
    let mut long = Vec::new();
    number(&mut long, i64::from(i32::MAX));
    assert!(read(&sealed(5, PRODUCER, 0, 1, &long)).is_err());
    assert!(read(&sealed(5, PRODUCER, 0, 1, &[0xFF; 20])).is_err());
    for packing in 1..=4 {
        for damage in [&b"\x82SNAPPY\0"[..], &[0xFF; 40], b""] {
            assert!(read(&sealed(5, PRODUCER, packing, 1, damage)).is_err(), "packing {packing}");
        }
    }
}
