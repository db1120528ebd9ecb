//! `journal.jsonl`: every event of a run, one line each, appended.
//!
//! Owns the file: a line is one write, a line torn by a crash is cut off when
//! the file is opened again, and a resumed run cuts what it is about to do over.
//! One process at a time. Survives the death of the process; a power cut may
//! take the last lines.

use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use fs_err::File;
use serde::{Deserialize, Serialize};

use crate::clock::Stamp;
use crate::error::TelemetryError;
use crate::event::{Event, Mark};

/// One line of the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Wall clock, in milliseconds since 1970.
    pub at: Stamp,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

/// What [`Journal::resume`] left in the file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kept {
    /// The events that stay, in order.
    pub records: Vec<Record>,
    /// How many whole events were cut because the run does them again.
    pub dropped: usize,
    /// False: the journal does not know the step; everything before a later one was kept.
    pub found: bool,
}

/// The open journal of a run.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
    /// Where the last whole line ends.
    end: u64,
}

impl Journal {
    /// Open for appending; create where there is none. A torn last line goes.
    pub fn open(path: &Path) -> Result<Self, TelemetryError> {
        let (journal, lines) = Self::lock(path)?;
        journal.cut(lines.end)
    }

    /// Open for a run that goes on after `mark`; `None` starts over. What came
    /// after that step is cut, so that no step stands there twice.
    pub fn resume(path: &Path, mark: Option<Mark<'_>>) -> Result<(Self, Kept), TelemetryError> {
        let (journal, mut lines) = Self::lock(path)?;
        let all = lines.records.len();
        let (keep, found) = match mark {
            Some(mark) => keep_until(&lines.records, mark),
            None => (0, true),
        };
        let end = if keep == 0 { 0 } else { lines.ends[keep - 1] };
        lines.records.truncate(keep);
        let kept = Kept { records: lines.records, dropped: all - keep, found };
        Ok((journal.cut(end)?, kept))
    }

    /// Append one event, stamped now.
    pub fn append(&mut self, event: &Event) -> Result<Stamp, TelemetryError> {
        let at = Stamp::now();
        let mut line = serde_json::to_vec(&Record { at, event: event.clone() })
            .map_err(TelemetryError::Encode)?;
        line.push(b'\n');
        if let Err(source) = self.file.write_all(&line) {
            // Half a line in the middle would make the whole file unreadable.
            let _ = self.file.set_len(self.end);
            let _ = self.file.seek(SeekFrom::Start(self.end));
            return Err(TelemetryError::Journal { path: self.path.clone(), source });
        }
        self.end += line.len() as u64;
        Ok(at)
    }

    fn lock(path: &Path) -> Result<(Self, Lines), TelemetryError> {
        let failed = |source| TelemetryError::Journal { path: path.to_owned(), source };
        let mut options = fs_err::OpenOptions::new();
        let mut file = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(failed)?;
        if let Err(std::fs::TryLockError::WouldBlock) = file.file().try_lock() {
            return Err(TelemetryError::Busy { path: path.to_owned() });
        }
        let lines = parse(path, &mut file)?;
        Ok((Self { file, path: path.to_owned(), end: 0 }, lines))
    }

    fn cut(mut self, end: u64) -> Result<Self, TelemetryError> {
        let cut = self.file.set_len(end).and_then(|()| self.file.seek(SeekFrom::Start(end)));
        cut.map_err(|source| TelemetryError::Journal { path: self.path.clone(), source })?;
        self.end = end;
        Ok(self)
    }
}

/// All whole events of a journal. A torn last line is left out, as it is in a
/// run that is still being written.
pub fn read(path: &Path) -> Result<Vec<Record>, TelemetryError> {
    let mut file = File::open(path)
        .map_err(|source| TelemetryError::Read { path: path.to_owned(), source })?;
    Ok(parse(path, &mut file)?.records)
}

struct Lines {
    records: Vec<Record>,
    /// Offset just after each record's line feed.
    ends: Vec<u64>,
    /// Offset after the last whole line.
    end: u64,
}

fn parse(path: &Path, file: &mut impl Read) -> Result<Lines, TelemetryError> {
    let mut lines = Lines { records: Vec::new(), ends: Vec::new(), end: 0 };
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    let mut number = 0;
    loop {
        line.clear();
        let length = reader
            .read_until(b'\n', &mut line)
            .map_err(|source| TelemetryError::Read { path: path.to_owned(), source })?;
        if length == 0 || line.last() != Some(&b'\n') {
            return Ok(lines);
        }
        number += 1;
        let record = serde_json::from_slice(&line).map_err(|source| TelemetryError::BadLine {
            path: path.to_owned(),
            line: number,
            source,
        })?;
        lines.end += length as u64;
        lines.ends.push(lines.end);
        lines.records.push(record);
    }
}

/// How many records stay, and whether the step was there.
fn keep_until(records: &[Record], mark: Mark<'_>) -> (usize, bool) {
    let closes = |record: &Record| record.event.mark() == Some(mark);
    if let Some(last) = records.iter().rposition(closes) {
        let belongs = |record: &&Record| match &record.event {
            Event::CheckpointWritten { phase, step, .. } => {
                phase == mark.phase && *step == mark.step
            }
            Event::Validated(it) => it.phase == mark.phase && it.step == mark.step,
            _ => false,
        };
        return (last + 1 + records[last + 1..].iter().take_while(belongs).count(), true);
    }
    let later = |record: &Record| {
        record.event.mark().is_some_and(|at| at.phase == mark.phase && at.step > mark.step)
    };
    (records.iter().position(later).unwrap_or(records.len()), false)
}
