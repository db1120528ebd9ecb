//! Task sets in columns: Parquet files, as the Hugging Face hub serves data sets.
//!
//! Owns reading rows out of a file that may be broken or hostile. What a row means is the
//! store's.

use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::{io, iter};

use fs_err::File;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::Row;
use serde_json::Value;

/// Bytes that one row group may take unpacked, as its own header says.
const MAX_GROUP: i64 = 4 << 30;

/// The rows, as JSON objects; columns that a row leaves empty are left out.
pub(super) fn rows(file: File) -> io::Result<impl Iterator<Item = io::Result<Value>>> {
    let file = guarded(|| SerializedFileReader::new(file.into_parts().0))?.map_err(broken)?;
    let groups = file.metadata().row_groups();
    if groups.iter().any(|group| !(0..=MAX_GROUP).contains(&group.total_byte_size())) {
        return Err(broken(format!("a row group is over {} GiB", MAX_GROUP >> 30)));
    }
    let mut rows = Some(guarded(|| file.into_iter())?);
    Ok(iter::from_fn(move || {
        let row = guarded(|| rows.as_mut()?.next()).and_then(|row| row.transpose().map_err(broken));
        if row.is_err() {
            // What comes after a fault means nothing.
            rows = None;
        }
        row.map(|row| row.as_ref().map(value)).transpose()
    }))
}

fn value(row: &Row) -> Value {
    let mut value = row.to_json_value();
    if let Value::Object(fields) = &mut value {
        fields.retain(|_, field| !field.is_null());
    }
    value
}

/// The reader's own faults are errors, but a few of its checks on a broken file are assertions.
fn guarded<T>(read: impl FnOnce() -> T) -> io::Result<T> {
    catch_unwind(AssertUnwindSafe(read)).map_err(|_| broken("the file contradicts itself"))
}

fn broken(why: impl Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("is no Parquet file: {why}"))
}
