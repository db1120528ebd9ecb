//! Predictions in the forms that the harness and agents write.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Most bytes of a file of predictions, unpacked.
const MOST: u64 = 4 << 30;

/// What a model answers to one instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prediction {
    /// The instance.
    pub instance_id: String,
    /// The patch; nothing and an empty one are told apart in reports only.
    #[serde(default)]
    pub model_patch: Option<String>,
    /// Who made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_name_or_path: Option<String>,
}

impl Prediction {
    /// Holds a patch that is not empty.
    pub fn has_patch(&self) -> bool {
        self.model_patch.as_ref().is_some_and(|patch| !patch.is_empty())
    }
}

/// Why predictions cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PredictionError {
    /// The file cannot be read.
    #[error("cannot read the predictions `{path}`")]
    File {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A record is no prediction.
    #[error("`{path}`, record {at}: {why}")]
    Record {
        /// Which file.
        path: PathBuf,
        /// Line of JSON lines, place in a list; from 1.
        at: usize,
        /// What is wrong.
        why: String,
    },
}

/// Read `.jsonl` (one object a line), or `.json`: a list, or an object whose values they are;
/// each also as `.gz`. Several may be for one instance: reports of a run take the last.
pub fn load_predictions(path: &Path) -> Result<Vec<Prediction>, PredictionError> {
    let fail = |source| PredictionError::File { path: path.to_owned(), source };
    let bad = |at, why: String| PredictionError::Record { path: path.to_owned(), at, why };
    let file = fs_err::File::open(path).map_err(fail)?;
    let name = path.to_string_lossy();
    let mut text = String::new();
    let (plain, packed) = name.strip_suffix(".gz").map_or((&*name, false), |name| (name, true));
    let reader: Box<dyn std::io::Read> =
        if packed { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) };
    reader.take(MOST).read_to_string(&mut text).map_err(fail)?;
    let is_one_value = Path::new(plain).extension().is_some_and(|it| it == "json");
    let records: Vec<(usize, Value)> = if is_one_value {
        let all = serde_json::from_str(&text).map_err(|e| bad(1, e.to_string()))?;
        let values = match all {
            Value::Array(list) => list,
            Value::Object(map) => map.into_iter().map(|(_, value)| value).collect(),
            _ => return Err(bad(1, "neither a list nor an object".to_owned())),
        };
        values.into_iter().enumerate().map(|(at, value)| (at + 1, value)).collect()
    } else {
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let parse = |(at, line): (usize, &str)| {
            let value = serde_json::from_str(line).map_err(|e| bad(at + 1, e.to_string()))?;
            Ok((at + 1, value))
        };
        lines.map(parse).collect::<Result<_, _>>()?
    };
    let parse = |(at, record)| serde_json::from_value(record).map_err(|e| bad(at, e.to_string()));
    records.into_iter().map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(name: &str, text: &str) -> Result<Vec<Prediction>, PredictionError> {
        let dir = tempfile::tempdir().unwrap();
        fs_err::write(dir.path().join(name), text).unwrap();
        load_predictions(&dir.path().join(name))
    }

    #[test]
    fn every_form_gives_the_same() {
        let (a, b) = (
            r#"{"instance_id": "a", "model_patch": "x", "model_name_or_path": "m"}"#,
            r#"{"instance_id": "b", "model_patch": null}"#,
        );
        let lines = load("p.jsonl", &format!("{a}\n\n{b}\n")).unwrap();
        assert_eq!(lines.len(), 2);
        assert!(lines[0].has_patch() && !lines[1].has_patch());
        assert_eq!(load("p.json", &format!("[{a}, {b}]")).unwrap(), lines);
        assert_eq!(load("p.json", &format!(r#"{{"a": {a}, "b": {b}}}"#)).unwrap(), lines);
    }

    #[test]
    fn faults_are_placed() {
        let fault = load("p.jsonl", "{\"instance_id\": \"a\"}\n{}\n").unwrap_err();
        assert!(fault.to_string().contains("record 2: missing field `instance_id`"), "{fault}");
    }
}
