use std::convert::Infallible;

use proptest::prelude::*;
use staunch_types::{ErrorKind, KeyGroup, KeyGroupRange};

use super::{BlockReader, BlockWriter, Change, Entry};
use crate::value::{Decoder, Encoder};

const ALL: KeyGroupRange = KeyGroupRange { start: 0, end: 8 };

fn append(bytes: &[u8]) -> impl FnOnce(&mut Vec<u8>) -> Result<(), Infallible> {
    move |out| {
        out.extend_from_slice(bytes);
        Ok(())
    }
}

fn write(writer: &mut BlockWriter, entry: &Entry<'_>) {
    let done = match entry.change {
        Change::Put { key, value } => writer.put(entry.group, entry.namespace, append(key), append(value)),
        Change::Delete { key } => writer.delete(entry.group, entry.namespace, append(key)),
        Change::Clear => {
            writer.clear(entry.group, entry.namespace);
            Ok(())
        }
    };
    match done {
        Ok(()) => {}
    }
}

fn finish(writer: &mut BlockWriter) -> Vec<u8> {
    writer.finish(&Encoder::new().schema(), &Encoder::new().schema())
}

#[test]
fn keys_and_values_come_back_with_their_schemas() {
    let (mut keys, mut values) = (Encoder::new(), Encoder::new());
    let mut writer = BlockWriter::new("total", KeyGroupRange { start: 4, end: 6 });
    for key in 0..300u64 {
        let group = KeyGroup(4 + (key % 2) as u16);
        writer.put(group, 1_000, |out| keys.encode(&key, out), |out| values.encode(&vec![key; key as usize], out)).expect("encodes");
    }
    let block = writer.finish(&keys.schema(), &values.schema());
    let reader = BlockReader::open(&block).expect("whole");
    assert_eq!(reader.state(), "total");
    assert_eq!(reader.groups().collect::<Vec<_>>(), [(KeyGroup(4), 150), (KeyGroup(5), 150)]);
    let (keys, values) = (Decoder::new(reader.key_schema()), Decoder::new(reader.value_schema()));
    let mut expected = 1;
    for entry in reader.entries(KeyGroupRange { start: 5, end: 256 }) {
        let entry = entry.expect("readable");
        let Change::Put { key, value } = entry.change else { panic!("only puts were written: {entry:?}") };
        assert_eq!((entry.group, entry.namespace), (KeyGroup(5), 1_000));
        assert_eq!(keys.decode::<u64>(key), Ok(expected));
        assert_eq!(values.decode::<Vec<u64>>(value), Ok(vec![expected; expected as usize]));
        expected += 2;
    }
    assert_eq!(expected, 301);
}

#[test]
fn an_entry_that_fails_leaves_no_trace() {
    let mut writer = BlockWriter::new("s", ALL);
    writer.put(KeyGroup(1), 0, append(b"a"), append(b"1")).expect("infallible");
    let key = |out: &mut Vec<u8>| {
        out.push(b'b');
        Ok(())
    };
    let failed = writer.put(KeyGroup(1), 7, key, |_| Err("no"));
    assert_eq!(failed, Err("no"));
    assert_eq!(writer.delete(KeyGroup(1), 7, |_| Err("no")), Err("no"));
    writer.put(KeyGroup(1), 0, append(b"c"), append(b"2")).expect("infallible");
    assert_eq!(writer.entries(), 2);
    let block = finish(&mut writer);
    let reader = BlockReader::open(&block).expect("whole");
    let keys: Vec<_> = reader.entries(ALL).map(|entry| entry.expect("readable").change).collect();
    assert_eq!(keys, [Change::Put { key: b"a", value: b"1" }, Change::Put { key: b"c", value: b"2" }]);
}

#[test]
fn a_writer_is_empty_after_finish() {
    let mut writer = BlockWriter::new("s", ALL);
    writer.put(KeyGroup(0), 5, append(b"a"), append(&[1; 1_000])).expect("infallible");
    let first = finish(&mut writer);
    assert_eq!((writer.bytes(), writer.entries()), (0, 0));
    let empty = finish(&mut writer);
    assert_eq!(BlockReader::open(&empty).expect("whole").groups().count(), 0);
    writer.put(KeyGroup(0), 0, append(b"a"), append(b"b")).expect("infallible");
    let second = finish(&mut writer);
    let mut both = first.clone();
    both.extend(&second);
    let (reader, rest) = BlockReader::open_prefix(&both).expect("whole");
    assert_eq!((reader.entries(ALL).count(), rest), (1, &second[..]));
    let reader = BlockReader::open(&second).expect("whole");
    let entry = reader.entries(ALL).next().expect("one").expect("readable");
    assert_eq!(entry, Entry { group: KeyGroup(0), namespace: 0, change: Change::Put { key: b"a", value: b"b" } });
}

#[derive(Clone, Debug)]
enum Planned {
    Put(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    Clear,
}

fn planned() -> impl Strategy<Value = Vec<(u16, i64, Planned)>> {
    let bytes = |most| prop::collection::vec(any::<u8>(), 0..most);
    let change = prop_oneof![
        4 => (bytes(20), bytes(300)).prop_map(|(key, value)| Planned::Put(key, value)),
        1 => bytes(200).prop_map(Planned::Delete),
        1 => Just(Planned::Clear),
    ];
    prop::collection::vec((0..8u16, prop_oneof![Just(0), Just(i64::MIN), Just(60_000)], change), 0..40)
}

fn entry((group, namespace, planned): &(u16, i64, Planned)) -> Entry<'_> {
    let change = match planned {
        Planned::Put(key, value) => Change::Put { key, value },
        Planned::Delete(key) => Change::Delete { key },
        Planned::Clear => Change::Clear,
    };
    Entry { group: KeyGroup(*group), namespace: *namespace, change }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn what_was_written_is_read_in_order_group_by_group(planned in planned(), start in 0..9u32, length in 0..9u32) {
        let mut writer = BlockWriter::new("state", ALL);
        planned.iter().for_each(|planned| write(&mut writer, &entry(planned)));
        let block = finish(&mut writer);
        let reader = BlockReader::open(&block).expect("whole");
        let range = KeyGroupRange { start, end: start + length };
        let mut expected: Vec<_> = planned.iter().map(entry).filter(|entry| range.contains(entry.group)).collect();
        expected.sort_by_key(|entry| entry.group);
        let found: Vec<_> = reader.entries(range).map(|entry| entry.expect("readable")).collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn a_damaged_block_is_never_read(planned in planned(), at: prop::sample::Index, bit in 0..8u8, cut: bool) {
        let mut writer = BlockWriter::new("state", ALL);
        planned.iter().for_each(|planned| write(&mut writer, &entry(planned)));
        let mut block = finish(&mut writer);
        let at = at.index(block.len());
        if cut { block.truncate(at) } else { block[at] ^= 1 << bit }
        prop_assert_eq!(BlockReader::open(&block).expect_err("damaged").kind(), ErrorKind::Corrupt);
    }

    #[test]
    fn a_changed_body_with_a_right_checksum_ends_in_an_error_or_in_entries(
        planned in planned(),
        at: prop::sample::Index,
        byte: u8,
    ) {
        let mut writer = BlockWriter::new("state", ALL);
        planned.iter().for_each(|planned| write(&mut writer, &entry(planned)));
        let mut body = finish(&mut writer)[crate::frame::HEADER_BYTES..].to_vec();
        let at = at.index(body.len());
        body[at] = byte;
        let block = super::BLOCK_FRAME.seal(0, |out| out.extend(&body));
        if let Ok(reader) = BlockReader::open(&block) {
            let read = reader.entries(KeyGroupRange { start: 0, end: 65_536 }).take_while(Result::is_ok).count();
            prop_assert!(read <= body.len());
        }
    }
}
