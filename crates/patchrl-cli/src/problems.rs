//! Files of problems of one function, as published.

use std::io::Read as _;
use std::path::Path;

use patchrl_reward::Problem;
use serde_json::Value;

use crate::exit::usage;
use crate::settings::MbppData;

/// Bytes of such a file, unpacked, at most: both benchmarks have less than one MiB.
const MOST: u64 = 256 << 20;

/// Which part of MBPP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Train,
    HeldOut,
}

/// The problems of one part of MBPP.
pub(crate) fn mbpp(data: &MbppData, part: Part) -> anyhow::Result<Vec<Problem>> {
    let Some(file) = &data.file else {
        return Err(usage(
            "there are no problems: MBPP's file is not named",
            "give `mbpp.jsonl` (also `.gz`) with `--mbpp FILE`, or as `mbpp.file` in the \
             configuration; it is published at github.com/google-research/google-research",
        ));
    };
    let (key, (first, last)) = match part {
        Part::Train => ("train", data.train),
        Part::HeldOut => ("held_out", data.held_out),
    };
    let wanted = |it: &Problem| it.id.parse().is_ok_and(|id: u64| (first..=last).contains(&id));
    let mut problems = read(file)?;
    problems.retain(|it| wanted(it) && !it.asserts.is_empty());
    if problems.is_empty() {
        return Err(usage(
            format!("`{}` has no MBPP problem with an id in {first} to {last}", file.display()),
            format!("give MBPP's own file, or other ids as `mbpp.{key}`"),
        ));
    }
    Ok(problems)
}

/// The problems of a benchmark's file.
pub(crate) fn read(path: &Path) -> anyhow::Result<Vec<Problem>> {
    let bad = |why: String| {
        usage(format!("`{}`: {why}", path.display()), "give HumanEval.jsonl.gz or mbpp.jsonl")
    };
    let mut text = String::new();
    let file = fs_err::File::open(path).map_err(|e| bad(e.to_string()))?;
    let packed = path.extension().is_some_and(|it| it == "gz");
    let mut reader: Box<dyn std::io::Read> =
        if packed { Box::new(flate2::read::MultiGzDecoder::new(file)) } else { Box::new(file) };
    reader.by_ref().take(MOST + 1).read_to_string(&mut text).map_err(|e| bad(e.to_string()))?;
    if text.len() as u64 > MOST {
        return Err(bad(format!("it has more than {} MiB", MOST >> 20)));
    }
    let rows: Vec<Value> = match serde_json::from_str(&text) {
        Ok(Value::Array(rows)) => rows,
        _ => text
            .lines()
            .filter(|line| !line.trim().is_empty())
            .enumerate()
            .map(|(at, line)| {
                serde_json::from_str(line).map_err(|e| bad(format!("line {}: {e}", at + 1)))
            })
            .collect::<Result<_, _>>()?,
    };
    let read = |(at, row): (usize, &Value)| {
        Problem::from_row(row).map_err(|e| bad(format!("row {}: {e}", at + 1)))
    };
    rows.iter().enumerate().map(read).collect()
}
