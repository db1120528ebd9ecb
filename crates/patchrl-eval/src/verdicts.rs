//! Predictions judged by running tests, with every verdict on disk as soon as it is known.
//!
//! Owns the file of verdicts, from which an interrupted run goes on, and the order of work.
//! What a verdict is, is the judge's.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use patchrl_reward::harness::Dialect;
use patchrl_reward::{Judge, Judgement, Mode, Outcome, Preparer, Ready};
use patchrl_sandbox::{Limits, Local};
use patchrl_task::Task;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::crew;
use crate::harness::Prediction;
use crate::lines::{Lines, LinesError};

/// What running the tests showed of one prediction: a line of the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The instance.
    pub instance_id: String,
    /// Who made the patch.
    pub model_name_or_path: Option<String>,
    /// Of the patch's text.
    pub patch_sha256: String,
    /// All required tests pass; nothing if we could not tell.
    pub resolved: Option<bool>,
    /// How it ended, as one word.
    pub outcome: String,
    /// Why it ended so, where there is more to say.
    pub why: Option<String>,
    /// The command of the harness that put the patch on, where `git apply` would not.
    #[serde(default)]
    pub rescued_by: Option<String>,
    /// `FAIL_TO_PASS` tests: passed, and all that were run.
    pub fail_to_pass: [u32; 2],
    /// The same for `PASS_TO_PASS`.
    pub pass_to_pass: [u32; 2],
    /// Seconds of the tests alone.
    pub test_seconds: f64,
    /// Seconds in all, waiting for other predictions excluded.
    pub seconds: f64,
}

impl Verdict {
    /// Says something about the patch. If not, it is asked for again.
    pub fn is_known(&self) -> bool {
        self.resolved.is_some()
    }

    fn key(&self) -> (String, String) {
        (self.instance_id.clone(), self.patch_sha256.clone())
    }
}

/// The file of verdicts: one JSON object a line, in the order in which they were found.
pub struct Verdicts {
    lines: Lines,
    known: BTreeMap<(String, String), Verdict>,
}

impl Verdicts {
    /// Open or begin a file.
    pub fn open(path: &Path) -> Result<Self, LinesError> {
        let (lines, all) = Lines::open::<Verdict>(path)?;
        let known = all.into_iter().map(|it| (it.key(), it)).collect();
        Ok(Self { lines, known })
    }

    /// The verdict on a prediction, if there is one that says something.
    pub fn of(&self, prediction: &Prediction) -> Option<&Verdict> {
        let key = (prediction.instance_id.clone(), digest(prediction));
        self.known.get(&key).filter(|verdict| verdict.is_known())
    }

    /// The verdict on a prediction that says nothing, and why.
    pub fn lost(&self, prediction: &Prediction) -> Option<&Verdict> {
        let key = (prediction.instance_id.clone(), digest(prediction));
        self.known.get(&key).filter(|verdict| !verdict.is_known())
    }

    /// Write a verdict down.
    fn add(&mut self, verdict: Verdict) -> Result<(), LinesError> {
        self.lines.add(std::slice::from_ref(&verdict))?;
        self.known.insert(verdict.key(), verdict);
        Ok(())
    }
}

/// Who judges, and what is judged.
pub struct Work<'a> {
    /// Runs the tests.
    pub judge: &'a Judge,
    /// Runs the harness's commands, for patches that only they put on.
    pub sandbox: &'a Local,
    /// Makes tasks ready, each once.
    pub preparer: &'a Preparer,
    /// The instances.
    pub tasks: &'a [Task],
    /// The patches.
    pub predictions: &'a [Prediction],
    /// Evaluations at the same time.
    pub workers: usize,
}

impl Work<'_> {
    /// Judge what has no verdict yet, tasks with many tests first. `progress` is told how many
    /// are done and how many there are, and may say that it is enough.
    pub fn run(
        &self,
        verdicts: &mut Verdicts,
        progress: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<(), LinesError> {
        let tasks: HashMap<&str, &Task> = self.tasks.iter().map(|t| (t.id.as_str(), t)).collect();
        let mut seen = HashSet::new();
        let mut open: Vec<(&Task, &Prediction)> = self
            .predictions
            .iter()
            .filter(|it| verdicts.of(it).is_none())
            .filter_map(|it| Some((*tasks.get(it.instance_id.as_str())?, it)))
            .filter(|(task, it)| seen.insert((task.id.clone(), digest(it))))
            .collect();
        open.sort_by_key(|(task, _)| {
            let tests = task.fail_to_pass.len() + task.pass_to_pass.len();
            (std::cmp::Reverse(tests), task.id.clone())
        });
        let total = open.len() as u64;
        let ready: HashMap<&str, OnceLock<Result<Ready, String>>> =
            open.iter().map(|(task, _)| (task.id.as_str(), OnceLock::new())).collect();
        let judge = |(task, prediction): &(&Task, &Prediction)| {
            let prepared = ready[task.id.as_str()].get_or_init(|| {
                self.preparer.prepare(task).map_err(|e| match e.hint() {
                    Some(hint) => format!("{} ({hint})", Chain(&e)),
                    None => Chain(&e).to_string(),
                })
            });
            self.verdict(prepared, prediction)
        };
        if !progress(0, total) {
            return Ok(());
        }
        let (mut done, mut written) = (0, Ok(()));
        crew(&open, self.workers, judge, |_, verdict| {
            done += 1;
            if written.is_ok() {
                written = verdicts.add(verdict);
            }
            written.is_ok() && progress(done, total)
        });
        written
    }

    /// Put the patch on as version 5 of the harness does: the command that did it, and what it
    /// did as a diff. A patch that changes nothing is not put on. An error is ours.
    fn rescue(&self, ready: &Ready, patch: &str) -> Result<Option<(&'static str, String)>, String> {
        let limits = Limits { wall: RESCUE, ..Limits::default() };
        let chained = Dialect::V5.apply(self.sandbox, &ready.base, patch, &limits);
        let chained = chained.map_err(|e| Chain(&e).to_string())?;
        let command = chained.steps.last().filter(|step| step.exit == 0).map(|step| step.command);
        Ok(command.zip(chained.diff.filter(|diff| !diff.is_empty())))
    }

    fn verdict(&self, ready: &Result<Ready, String>, prediction: &Prediction) -> Verdict {
        let begun = std::time::Instant::now();
        let patch = prediction.model_patch.as_deref().unwrap_or_default();
        let mut rescued = None;
        let judged = ready.as_ref().map_err(Clone::clone).and_then(|ready| {
            let judged = self.judge.judge(ready, patch, false, Mode::Tests);
            let refused =
                matches!(judged.outcome, Outcome::Malformed { .. } | Outcome::NotApplied { .. });
            if !refused || patch.is_empty() {
                return Ok(judged);
            }
            Ok(match self.rescue(ready, patch)? {
                Some((command, diff)) => {
                    rescued = Some(command);
                    self.judge.judge(ready, &diff, false, Mode::Tests)
                }
                None => judged,
            })
        });
        let mut verdict = Verdict {
            instance_id: prediction.instance_id.clone(),
            model_name_or_path: prediction.model_name_or_path.clone(),
            patch_sha256: digest(prediction),
            resolved: None,
            outcome: "lost".to_owned(),
            why: None,
            rescued_by: rescued.map(str::to_owned),
            fail_to_pass: [0, 0],
            pass_to_pass: [0, 0],
            test_seconds: 0.0,
            seconds: begun.elapsed().as_secs_f64(),
        };
        match judged {
            Ok(judgement) => verdict.take(&judgement),
            Err(why) => verdict.why = Some(why),
        }
        verdict
    }
}

impl Verdict {
    fn take(&mut self, judgement: &Judgement) {
        let lost = matches!(judgement.outcome, Outcome::Lost { .. });
        self.resolved = (!lost).then_some(judgement.outcome == Outcome::Resolved);
        judgement.outcome.as_str().clone_into(&mut self.outcome);
        let failures = &judgement.evidence.failures;
        self.why = judgement.outcome.why().or(failures.first().map(String::as_str)).map(Into::into);
        let parts = &judgement.parts;
        self.fail_to_pass = [parts.f2p_passed, parts.f2p_total];
        self.pass_to_pass = [parts.p2p_passed, parts.p2p_total];
        self.test_seconds = judgement.evidence.seconds;
    }
}

/// How long putting a patch on may take.
const RESCUE: Duration = Duration::from_mins(2);

/// An error with its causes.
struct Chain<'e>(&'e dyn std::error::Error);

impl std::fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

fn digest(prediction: &Prediction) -> String {
    let patch = prediction.model_patch.as_deref().unwrap_or_default();
    Sha256::digest(patch).iter().fold(String::with_capacity(64), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(id: &str, resolved: Option<bool>) -> Verdict {
        Verdict {
            instance_id: id.to_owned(),
            model_name_or_path: None,
            patch_sha256: digest(&prediction(id)),
            resolved,
            outcome: "failed".to_owned(),
            why: None,
            rescued_by: None,
            fail_to_pass: [0, 1],
            pass_to_pass: [2, 2],
            test_seconds: 0.5,
            seconds: 0.6,
        }
    }

    fn prediction(id: &str) -> Prediction {
        Prediction {
            instance_id: id.to_owned(),
            model_patch: Some(format!("patch of {id}")),
            model_name_or_path: None,
        }
    }

    #[test]
    fn a_stopped_run_goes_on() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("verdicts.jsonl");
        let mut verdicts = Verdicts::open(&path).unwrap();
        verdicts.add(verdict("a", Some(false))).unwrap();
        verdicts.add(verdict("b", None)).unwrap();
        drop(verdicts);
        let mut verdicts = Verdicts::open(&path).unwrap();
        assert!(verdicts.of(&prediction("a")).is_some());
        assert!(verdicts.of(&prediction("b")).is_none(), "what says nothing is asked again");
        assert!(verdicts.of(&prediction("c")).is_none());
        let other = Prediction { model_patch: None, ..prediction("a") };
        assert!(verdicts.of(&other).is_none(), "another patch is another question");
        verdicts.add(verdict("b", Some(true))).unwrap();
        drop(verdicts);
        let lines = fs_err::read_to_string(&path).unwrap();
        assert_eq!(lines.lines().count(), 3);
        assert!(Verdicts::open(&path).unwrap().of(&prediction("b")).is_some());
    }
}
