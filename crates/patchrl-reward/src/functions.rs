//! Problems of one function with assertions: `HumanEval` and MBPP.
//!
//! Owns the programs that check a sample, and running them in the sandbox: alone, without
//! network, within limits. For a benchmark's figure ([`Checker::run`]) a sample passes if the
//! program comes to its end, which it says with a word that no sample can know beforehand. For
//! training ([`Checker::judge`]) the program also says how far it came, and code that reaches for
//! the run itself is refused. Does not ask the model (see `patchrl_agent::function_messages`).

mod judge;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use patchrl_sandbox::python::Interpreter;
use patchrl_sandbox::{Bytes, FileWrite, Job, Limits, Local, Output, SandboxError};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

pub use judge::{Shaping, code_of};

/// A problem, of either benchmark.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problem {
    /// `HumanEval/0`, or MBPP's number.
    pub id: String,
    /// What the function shall do, in words. Empty for `HumanEval`, whose prompt says it.
    pub statement: String,
    /// What the function begins with; a sample goes on from there. Empty for MBPP.
    pub prompt: String,
    /// Code that stands before the assertions. MBPP alone.
    pub setup: String,
    /// The assertions one by one. MBPP alone.
    pub asserts: Vec<String>,
    /// Code that fails if the function is wrong.
    pub check: String,
    /// An answer that passes.
    pub solution: String,
}

/// A row that is no problem of either benchmark.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a problem has `task_id` with `prompt`, `test`, `entry_point` (HumanEval) or `test_list` (MBPP)"
)]
pub struct NoProblem;

#[derive(Deserialize)]
struct HumanEval {
    task_id: String,
    prompt: String,
    canonical_solution: String,
    test: String,
    entry_point: String,
}

#[derive(Deserialize)]
struct Mbpp {
    task_id: u64,
    /// `prompt` in the sanitized part.
    #[serde(default, alias = "prompt")]
    text: String,
    code: String,
    test_list: Vec<String>,
    #[serde(default)]
    test_setup_code: String,
    #[serde(default)]
    test_imports: Vec<String>,
}

impl Problem {
    /// Read a row of `HumanEval`, of MBPP or of its sanitized part.
    pub fn from_row(row: &serde_json::Value) -> Result<Self, NoProblem> {
        if let Ok(it) = HumanEval::deserialize(row) {
            let check = format!("{}\ncheck({})\n", it.test, it.entry_point);
            return Ok(Self {
                id: it.task_id,
                prompt: it.prompt,
                check,
                solution: it.canonical_solution,
                ..Self::default()
            });
        }
        let it = Mbpp::deserialize(row).map_err(|_| NoProblem)?;
        let lines: Vec<&str> =
            it.test_imports.iter().chain([&it.test_setup_code]).map(String::as_str).collect();
        let setup = lines.join("\n");
        Ok(Self {
            id: it.task_id.to_string(),
            statement: it.text,
            check: format!("{setup}\n{}\n", it.test_list.join("\n")),
            setup,
            asserts: it.test_list,
            solution: it.code,
            ..Self::default()
        })
    }

    /// The program whose end means that the sample is right.
    fn program(&self, sample: &str, word: &str) -> String {
        let Self { prompt, check, .. } = self;
        format!("{prompt}{sample}\n\n{check}\nprint(\"\\n{word}\")\n")
    }
}

/// What became of a sample.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Checked {
    /// The problem.
    pub task_id: String,
    /// It passes; nothing if we could not tell.
    pub passed: Option<bool>,
    /// How the program ended, or why we could not tell.
    pub ending: String,
    /// Wall seconds.
    pub seconds: f64,
}

/// The program is read, and gone, before a line of it runs.
const RUN: &str = "import os, sys; text = open('sample.py').read(); os.remove('sample.py'); \
    exec(compile(text, 'sample.py', 'exec'), {'__name__': '__main__'})";

/// Runs samples.
#[derive(Clone, Copy)]
pub struct Checker<'a> {
    /// Where.
    pub sandbox: &'a Local,
    /// An empty folder.
    pub empty: &'a Path,
    /// By which.
    pub interpreter: &'a Interpreter,
    /// How long one may take.
    pub wall: Duration,
    /// At the same time.
    pub workers: usize,
    /// Of the words at the programs' ends.
    pub seed: u64,
}

impl Checker<'_> {
    /// Run all samples, in any order; the answers are in the samples' order.
    pub fn run(
        &self,
        samples: &[(&Problem, String)],
        progress: &(dyn Fn(u64) + Sync),
    ) -> Vec<Checked> {
        self.spread(samples.len(), progress, |at| {
            let (problem, sample) = &samples[at];
            self.check(at, problem, sample)
        })
    }

    /// `work` on 0 to `count`, `workers` at a time; what it gave is in order.
    fn spread<T: Send>(
        &self,
        count: usize,
        progress: &(dyn Fn(u64) + Sync),
        work: impl Fn(usize) -> T + Sync,
    ) -> Vec<T> {
        let (next, done) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
        thread::scope(|scope| {
            for _ in 0..self.workers.max(1).min(count) {
                scope.spawn(|| {
                    loop {
                        let at = next.fetch_add(1, Ordering::Relaxed);
                        if at >= count {
                            break;
                        }
                        let made = work(at);
                        let mut done =
                            done.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                        done.insert(at, made);
                        progress(done.len() as u64);
                    }
                });
            }
        });
        done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner).into_values().collect()
    }

    fn check(&self, at: usize, problem: &Problem, sample: &str) -> Checked {
        let word = self.word(&(at as u64).to_le_bytes());
        let text = problem.program(sample, &word);
        let task_id = problem.id.clone();
        match self.start(RUN, ("sample.py", text)) {
            Err(e) => Checked { task_id, passed: None, ending: e.to_string(), seconds: 0.0 },
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.output);
                let passed = output.success() && said.trim_end().ends_with(&word);
                let (ending, seconds) = (output.ending.to_string(), output.wall.as_secs_f64());
                Checked { task_id, passed: Some(passed), ending, seconds }
            }
        }
    }

    /// A word that follows from the seed and `salt`.
    fn word(&self, salt: &[u8]) -> String {
        let mut hash = Sha256::new();
        hash.update(self.seed.to_le_bytes());
        hash.update(salt);
        hash.finalize().iter().take(12).fold(String::new(), |mut word, byte| {
            let _ = write!(word, "{byte:02x}");
            word
        })
    }

    /// Run `code` beside a file, twice if the first try is lost by our fault.
    fn start(&self, code: &str, (file, text): (&str, String)) -> Result<Output, SandboxError> {
        let program = self.interpreter.path.display().to_string();
        let mut job = Job::new(self.empty, [program.as_str(), "-I", "-B", "-c", code]);
        job.writes = [(file.to_owned(), Some(FileWrite::regular(text)))].into();
        job.read_only.clone_from(&self.interpreter.prefixes);
        job.limits = Limits {
            wall: self.wall,
            memory: Bytes::mib(1024),
            processes: 32,
            ..Limits::default()
        };
        self.sandbox.run(&job).or_else(|_| self.sandbox.run(&job))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rows_of_both_benchmarks_are_read() {
        let human = Problem::from_row(&json!({
            "task_id": "HumanEval/0", "prompt": "def f(x):\n", "canonical_solution": "    return x\n",
            "test": "def check(f):\n    assert f(1) == 1", "entry_point": "f",
        }))
        .unwrap();
        assert_eq!(
            human.program("    return x\n", "w"),
            "def f(x):\n    return x\n\n\ndef check(f):\n    assert f(1) == 1\ncheck(f)\n\nprint(\"\\nw\")\n"
        );
        let mbpp = Problem::from_row(&json!({
            "task_id": 2, "code": "def f(): return 1", "test_list": ["assert f() == 1"],
            "test_imports": ["import math"],
        }))
        .unwrap();
        assert_eq!(
            (mbpp.id.as_str(), mbpp.check.as_str()),
            ("2", "import math\n\nassert f() == 1\n")
        );
        assert_eq!(Problem::from_row(&json!({"task_id": 2})), Err(NoProblem));
    }
}
