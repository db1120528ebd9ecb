//! The bytes of an event file, read back with a reader that shares nothing with the writer.

use std::collections::BTreeMap;

use super::{Histogram, TensorBoard};
use crate::clock::Stamp;

/// One protobuf field: a number or bytes.
#[derive(Clone, Debug, PartialEq)]
enum Field {
    Number(u64),
    Bytes(Vec<u8>),
}

impl Field {
    fn bytes(&self) -> &[u8] {
        let Field::Bytes(bytes) = self else { panic!("not bytes: {self:?}") };
        bytes
    }

    fn double(&self) -> f64 {
        let Field::Number(bits) = self else { panic!("not a number: {self:?}") };
        f64::from_bits(*bits)
    }
}

fn varint(bytes: &[u8], at: &mut usize) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let byte = bytes[*at];
        *at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    value
}

fn fields(bytes: &[u8]) -> BTreeMap<u64, Vec<Field>> {
    let mut found: BTreeMap<u64, Vec<Field>> = BTreeMap::new();
    let mut at = 0;
    while at < bytes.len() {
        let key = varint(bytes, &mut at);
        let field = match key & 7 {
            0 => Field::Number(varint(bytes, &mut at)),
            1 => {
                at += 8;
                Field::Number(u64::from_le_bytes(bytes[at - 8..at].try_into().unwrap()))
            }
            2 => {
                let length = varint(bytes, &mut at) as usize;
                at += length;
                Field::Bytes(bytes[at - length..at].to_vec())
            }
            5 => {
                at += 4;
                let four = bytes[at - 4..at].try_into().unwrap();
                Field::Number(u64::from(u32::from_le_bytes(four)))
            }
            other => panic!("wire type {other}"),
        };
        found.entry(key >> 3).or_default().push(field);
    }
    found
}

/// CRC-32C bit by bit, masked.
fn masked(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
        }
    }
    crc = !crc;
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

fn records(mut bytes: &[u8]) -> Vec<BTreeMap<u64, Vec<Field>>> {
    let mut out = Vec::new();
    while !bytes.is_empty() {
        let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        assert_eq!(u32::from_le_bytes(bytes[8..12].try_into().unwrap()), masked(&bytes[..8]));
        let payload = &bytes[12..12 + length];
        let tail = bytes[12 + length..16 + length].try_into().unwrap();
        assert_eq!(u32::from_le_bytes(tail), masked(payload));
        out.push(fields(payload));
        bytes = &bytes[16 + length..];
    }
    out
}

fn written(dir: &std::path::Path) -> Vec<BTreeMap<u64, Vec<Field>>> {
    let mut files: Vec<_> =
        fs_err::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().flat_map(|file| records(&fs_err::read(file).unwrap())).collect()
}

#[test]
fn scalars_and_histograms_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let now = Stamp(1_700_000_000_500);
    let mut board = TensorBoard::start(dir.path(), now, None).unwrap();
    board.scalars(now, 300, &[("swebrl/kl", 0.25), ("swebrl/loss", f32::NAN)]).unwrap();
    let rewards = [0.0, 0.0, 0.3, 1.0, f32::NAN];
    board.histogram(now, 50, "swebrl/reward", &Histogram::of(&rewards, 10)).unwrap();

    let records = written(dir.path());
    assert_eq!(records.len(), 3);
    assert_eq!(records[0][&3][0].bytes(), b"brain.Event:2");
    assert!((records[1][&1][0].double() - 1_700_000_000.5).abs() < 1e-6);
    assert_eq!(records[1][&2][0], Field::Number(300));
    let values: Vec<_> =
        fields(records[1][&5][0].bytes())[&1].iter().map(|value| fields(value.bytes())).collect();
    assert_eq!(values[0][&1][0].bytes(), b"swebrl/kl");
    assert_eq!(values[0][&2][0], Field::Number(u64::from(0.25_f32.to_bits())));
    assert_eq!(values[1][&2][0], Field::Number(u64::from(f32::NAN.to_bits())));

    let value = fields(fields(records[2][&5][0].bytes())[&1][0].bytes());
    let histogram = fields(value[&5][0].bytes());
    assert_eq!(histogram[&3][0].double().to_bits(), 4.0_f64.to_bits());
    assert!((histogram[&4][0].double() - 1.3).abs() < 1e-6);
    let doubles = |field: u64| -> Vec<f64> {
        histogram[&field][0]
            .bytes()
            .chunks(8)
            .map(|eight| f64::from_le_bytes(eight.try_into().unwrap()))
            .collect()
    };
    assert_eq!(doubles(6).len(), 11);
    assert_eq!(doubles(7), [0.0, 2.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]);
}

#[test]
fn two_starts_in_one_moment_make_two_files_and_the_second_purges() {
    let dir = tempfile::tempdir().unwrap();
    let now = Stamp(1_700_000_000_000);
    TensorBoard::start(dir.path(), now, None).unwrap();
    TensorBoard::start(dir.path(), now, Some(12)).unwrap();
    let records = written(dir.path());
    assert_eq!(records.len(), 3);
    assert_eq!(records[2][&2][0], Field::Number(13));
    assert_eq!(fields(records[2][&7][0].bytes())[&1][0], Field::Number(1));
}

#[test]
fn a_histogram_counts_every_finite_value_once() {
    for values in [&[][..], &[0.5], &[1.0, 1.0], &[0.0, 1.0], &[-2.0, 0.1, 0.2, 7.0, f32::INFINITY]]
    {
        let histogram = Histogram::of(values, 7);
        let finite = values.iter().filter(|value| value.is_finite()).count();
        assert_eq!(histogram.count, finite);
        assert_eq!(histogram.counts.iter().sum::<u64>(), finite as u64);
        assert_eq!(histogram.counts.len(), histogram.limits.len());
    }
    let histogram = Histogram::of(&[0.0, 1.0, 1.0, 0.0], 4);
    assert!((histogram.mean() - 0.5).abs() < 1e-12);
    assert!((histogram.variance() - 0.25).abs() < 1e-12);
}
