//! `TensorBoard`'s event files, written without `TensorFlow`.
//!
//! Owns the record framing (length, payload, masked CRC-32C of each) and the few
//! protobuf messages a scalar and a histogram need. One file per start of the
//! process. Knows no metric: tags come from outside. Field numbers are those of
//! `event.proto`, `summary.proto` and `histogram.proto` in `TensorBoard`.

use std::io::Write;
use std::path::{Path, PathBuf};

use fs_err::{File, OpenOptions};

use crate::clock::Stamp;
use crate::error::TelemetryError;

/// An event file of one process.
#[derive(Debug)]
pub struct TensorBoard {
    file: File,
    path: PathBuf,
    /// Where the last whole record ends.
    end: u64,
}

impl TensorBoard {
    /// Start a new file in `dir`, which is made if need be. With `after`, the
    /// readers forget what earlier files say about later steps.
    pub fn start(dir: &Path, now: Stamp, after: Option<u64>) -> Result<Self, TelemetryError> {
        let mut board = Self::create(dir, now)?;
        board.put(&event(now, 0, &text(FILE_VERSION, "brain.Event:2")))?;
        if let Some(step) = after {
            let status = varint_field(1, SESSION_START);
            board.put(&event(now, step + 1, &message(SESSION_LOG, &status)))?;
        }
        Ok(board)
    }

    /// Add one point to each of the curves.
    pub fn scalars(
        &mut self,
        now: Stamp,
        step: u64,
        values: &[(&str, f32)],
    ) -> Result<(), TelemetryError> {
        let mut summary = Vec::new();
        for (tag, value) in values {
            let mut entry = text(VALUE_TAG, tag);
            entry.push(key(VALUE_SIMPLE, FIXED32));
            entry.extend(value.to_le_bytes());
            summary.extend(message(SUMMARY_VALUE, &entry));
        }
        self.put(&event(now, step, &message(SUMMARY, &summary)))
    }

    /// Add one histogram.
    pub fn histogram(
        &mut self,
        now: Stamp,
        step: u64,
        tag: &str,
        values: &Histogram,
    ) -> Result<(), TelemetryError> {
        let mut entry = text(VALUE_TAG, tag);
        entry.extend(message(VALUE_HISTOGRAM, &values.encode()));
        self.put(&event(now, step, &message(SUMMARY, &message(SUMMARY_VALUE, &entry))))
    }

    /// A name sorts by time, as readers expect, and is never taken twice.
    fn create(dir: &Path, now: Stamp) -> Result<Self, TelemetryError> {
        let failed = |source| TelemetryError::TensorBoard { path: dir.to_owned(), source };
        fs_err::create_dir_all(dir).map_err(failed)?;
        for turn in 0_u32.. {
            let (seconds, millis) = (now.0 / 1000, now.0 % 1000);
            let name = format!("events.out.tfevents.{seconds:010}.{millis:03}{turn:03}.patchrl");
            let path = dir.join(name);
            match OpenOptions::new().append(true).create_new(true).open(&path) {
                Ok(file) => return Ok(Self { file, path, end: 0 }),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && turn < 999 => {}
                Err(error) => return Err(failed(error)),
            }
        }
        unreachable!("the loop returns within a thousand turns")
    }

    fn put(&mut self, payload: &[u8]) -> Result<(), TelemetryError> {
        let length = (payload.len() as u64).to_le_bytes();
        let mut record = Vec::with_capacity(payload.len() + 16);
        record.extend(length);
        record.extend(masked_crc(&length).to_le_bytes());
        record.extend(payload);
        record.extend(masked_crc(payload).to_le_bytes());
        if let Err(source) = self.file.write_all(&record) {
            // Readers stop at half a record and would never see what follows it.
            let _ = self.file.set_len(self.end);
            return Err(TelemetryError::TensorBoard { path: self.path.clone(), source });
        }
        self.end += record.len() as u64;
        Ok(())
    }
}

/// Values sorted into buckets of equal width.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histogram {
    /// Lower end of the first bucket.
    pub low: f64,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
    /// How many values.
    pub count: usize,
    /// Their sum.
    pub sum: f64,
    /// Sum of their squares.
    pub sum_squares: f64,
    /// Upper limit of each bucket; a value belongs to the first limit not below it.
    pub limits: Vec<f64>,
    /// Values in each bucket.
    pub counts: Vec<u64>,
}

impl Histogram {
    /// Sort `values` into `buckets` buckets. Values that are not finite are left out.
    pub fn of(values: &[f32], buckets: usize) -> Self {
        let finite = || values.iter().copied().filter(|value| value.is_finite());
        let low = finite().fold(f32::INFINITY, f32::min);
        let high = finite().fold(f32::NEG_INFINITY, f32::max);
        Self::within(values, low, high, buckets)
    }

    /// [`Histogram::of`] with the buckets between `low` and `high`; values beyond
    /// them count in the outermost.
    pub fn within(values: &[f32], low: f32, high: f32, buckets: usize) -> Self {
        let values: Vec<f64> =
            values.iter().copied().filter(|v| v.is_finite()).map(f64::from).collect();
        if values.is_empty() || buckets == 0 {
            return Self::default();
        }
        let (low, high) = (f64::from(low), f64::from(high));
        // One value only: a narrow bucket above it, as a width of zero cannot be drawn.
        let (width, buckets) =
            if high > low { ((high - low) / buckets as f64, buckets) } else { (0.01, 1) };
        let mut counts = vec![0; buckets];
        for value in &values {
            let at = ((value - low) / width).ceil() as usize;
            counts[at.saturating_sub(1).min(buckets - 1)] += 1;
        }
        Self {
            low,
            min: values.iter().copied().fold(f64::INFINITY, f64::min),
            max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            count: values.len(),
            sum: values.iter().sum(),
            sum_squares: values.iter().map(|v| v * v).sum(),
            limits: (1..=buckets).map(|n| low + width * n as f64).collect(),
            counts,
        }
    }

    /// Mean of the values; zero of none.
    pub fn mean(&self) -> f64 {
        self.sum / self.count.max(1) as f64
    }

    /// Variance of the values with their number as denominator.
    pub fn variance(&self) -> f64 {
        (self.sum_squares / self.count.max(1) as f64 - self.mean().powi(2)).max(0.0)
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let whole = [self.min, self.max, self.count as f64, self.sum, self.sum_squares];
        for (field, value) in (1..).zip(whole) {
            out.push(key(field, FIXED64));
            out.extend(value.to_le_bytes());
        }
        let packed = |values: &mut dyn Iterator<Item = f64>| -> Vec<u8> {
            values.flat_map(f64::to_le_bytes).collect()
        };
        // A first empty bucket gives the reader the left edge of the second.
        let limits = packed(&mut std::iter::once(self.low).chain(self.limits.iter().copied()));
        let counts =
            packed(&mut std::iter::once(0.0).chain(self.counts.iter().map(|count| *count as f64)));
        out.extend(message(6, &limits));
        out.extend(message(7, &counts));
        out
    }
}

// Wire types of protobuf.
const VARINT: u8 = 0;
const FIXED64: u8 = 1;
const BYTES: u8 = 2;
const FIXED32: u8 = 5;

// Fields of `Event`.
const WALL_TIME: u8 = 1;
const STEP: u8 = 2;
const FILE_VERSION: u8 = 3;
const SUMMARY: u8 = 5;
const SESSION_LOG: u8 = 7;
/// `SessionLog.SessionStatus.START`.
const SESSION_START: u64 = 1;

// Fields of `Summary` and `Summary.Value`.
const SUMMARY_VALUE: u8 = 1;
const VALUE_TAG: u8 = 1;
const VALUE_SIMPLE: u8 = 2;
const VALUE_HISTOGRAM: u8 = 5;

fn event(now: Stamp, step: u64, what: &[u8]) -> Vec<u8> {
    let mut out = vec![key(WALL_TIME, FIXED64)];
    out.extend(now.seconds().to_le_bytes());
    out.extend(varint_field(STEP, step));
    out.extend(what);
    out
}

fn text(field: u8, value: &str) -> Vec<u8> {
    message(field, value.as_bytes())
}

fn message(field: u8, value: &[u8]) -> Vec<u8> {
    let mut out = vec![key(field, BYTES)];
    varint(&mut out, value.len() as u64);
    out.extend(value);
    out
}

fn varint_field(field: u8, value: u64) -> Vec<u8> {
    let mut out = vec![key(field, VARINT)];
    varint(&mut out, value);
    out
}

/// Field numbers here are below 16, so that a key is one byte.
const fn key(field: u8, wire: u8) -> u8 {
    field << 3 | wire
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// The checksum of `TFRecord`s, masked so that a record may hold records.
fn masked_crc(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

#[cfg(test)]
#[path = "tensorboard_tests.rs"]
mod tests;
