//! JSONL in, JSONL out: one answer for each line, in order, whatever a line holds.
//!
//! Owns reading lines of bounded length, sharing a batch of them among all cores, and
//! writing the answers in the order of the lines. What an answer is, is the command's.
//! Blank lines are passed over.

use std::io::{BufRead, BufReader, Read as _, Write};
use std::path::Path;
use std::sync::mpsc::{SyncSender, sync_channel};

use anyhow::Context as _;
use rayon::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::exit::usage;

/// Longest line, in bytes. A longer one is an answer with an error, and is not kept.
const LONGEST_LINE: u64 = 256 << 20;
/// Lines and bytes that are read before their answers are written.
const BATCH_LINES: usize = 1024;
const BATCH_BYTES: usize = 8 << 20;

/// A line that could be read, or why it could not.
pub(crate) type Line = Result<String, String>;

/// The lines of a file, or of standard input.
pub(crate) fn open(file: Option<&Path>) -> anyhow::Result<Box<dyn BufRead + Send>> {
    Ok(match file {
        Some(path) => {
            let file = fs_err::File::open(path).map_err(|error| {
                usage(error.to_string(), "check the path, or leave it out to read standard input")
            })?;
            Box::new(BufReader::new(file))
        }
        None => Box::new(BufReader::new(std::io::stdin())),
    })
}

/// Answer every line of `input` on `output`. `answer` gets lines and gives as many
/// answers. A batch holds what has arrived: a program that waits for each answer before it
/// writes the next line gets it.
pub(crate) fn each_batch<A: Serialize>(
    input: impl BufRead + Send + 'static,
    mut output: impl Write,
    mut answer: impl FnMut(Vec<Line>) -> anyhow::Result<Vec<A>>,
) -> anyhow::Result<()> {
    let (sender, lines) = sync_channel(BATCH_LINES);
    let reader = std::thread::spawn(move || read(input, &sender));
    while let Ok(first) = lines.recv() {
        let mut bytes = size(&first);
        let mut batch = vec![first];
        while batch.len() < BATCH_LINES && bytes < BATCH_BYTES {
            let Ok(line) = lines.try_recv() else { break };
            bytes += size(&line);
            batch.push(line);
        }
        for it in answer(batch)? {
            serde_json::to_writer(&mut output, &it).context("cannot write an answer")?;
            output.write_all(b"\n").context("cannot write an answer")?;
        }
        output.flush().context("cannot write an answer")?;
    }
    match reader.join() {
        Ok(read) => read.context("cannot read the input"),
        Err(_) => anyhow::bail!("the thread that reads the input panicked"),
    }
}

fn size(line: &Line) -> usize {
    line.as_ref().map_or(0, String::len)
}

/// The same for answers that know nothing of each other: all cores share a batch.
pub(crate) fn each<A: Serialize + Send>(
    input: impl BufRead + Send + 'static,
    output: impl Write,
    answer: impl Fn(Line) -> A + Sync,
) -> anyhow::Result<()> {
    each_batch(input, output, |lines| Ok(lines.into_par_iter().map(&answer).collect()))
}

/// A line as a record; the error names what is wrong with it.
pub(crate) fn parse<T: DeserializeOwned>(line: Line) -> Result<T, String> {
    serde_json::from_str(&line?).map_err(|error| format!("not a valid record: {error}"))
}

/// Send each line, until the input ends or nobody listens.
fn read(mut input: impl BufRead, lines: &SyncSender<Line>) -> std::io::Result<()> {
    loop {
        let mut line = Vec::new();
        let read = input.by_ref().take(LONGEST_LINE + 1).read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(());
        }
        let line = if read as u64 > LONGEST_LINE {
            skip_line(&mut input)?;
            Err(format!("the line is longer than {LONGEST_LINE} bytes"))
        } else if line.trim_ascii().is_empty() {
            continue;
        } else {
            String::from_utf8(line).map_err(|_| "the line is not UTF-8".to_owned())
        };
        if lines.send(line).is_err() {
            return Ok(());
        }
    }
}

fn skip_line(input: &mut impl BufRead) -> std::io::Result<()> {
    loop {
        let buffer = input.fill_buf()?;
        if buffer.is_empty() {
            return Ok(());
        }
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let used = end.map_or(buffer.len(), |at| at + 1);
        input.consume(used);
        if end.is_some() {
            return Ok(());
        }
    }
}
