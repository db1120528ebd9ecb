//! Sandbox runs of a judge: the tests, the byte-compile, and the cache of what they showed.
//!
//! Owns the retry of what failed through no fault of the answer and the key under which a
//! tree's verdict is kept. Does not decide what a verdict is worth.

use std::collections::BTreeMap;
use std::collections::btree_map;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use patchrl_patch::{Changes, Entry, Mode as FileMode};
use patchrl_sandbox::{Ending, FileWrite, Job, Output};
use sha2::{Digest, Sha256};

use super::Judge;
use crate::prepare::{Ready, file};
use crate::suite::{self, Command, Graded, Subject};

/// Bytes of the test log that the evidence keeps (the end of it).
const LOG_TAIL: usize = 16 << 10;

/// Verdicts kept. A run of 10,000 steps meets more trees than this only if it
/// judges more than 25 new ones a step.
const CACHED: usize = 1 << 18;

/// How often a job is run again that failed through no fault of its own.
const RETRIES: u32 = 3;

/// Compiles each file named, executes none. Without `site`, so that no path file runs.
const COMPILE: &str = "\
import sys, warnings
warnings.simplefilter('ignore')
bad = 0
for path in sys.argv[1:]:
    try:
        with open(path, 'rb') as file:
            compile(file.read(), path, 'exec', dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError) as error:
        print(path, type(error).__name__, error)
        bad = 1
sys.exit(bad)
";

/// Content hash of everything that decides a run.
pub(super) type Key = [u8; 32];

/// What has to be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Needs {
    pub(super) tests: bool,
    pub(super) compiles: bool,
}

/// What the sandbox showed.
#[derive(Clone, Debug)]
pub(super) struct Verdict {
    pub(super) tests: Option<TestRun>,
    pub(super) compiles: Option<bool>,
    pub(super) seconds: f64,
}

/// What a run of the tests showed.
#[derive(Clone, Debug)]
pub(super) struct TestRun {
    pub(super) graded: Graded,
    pub(super) ending: Ending,
    pub(super) disagreements: Vec<String>,
    pub(super) log: String,
    pub(super) peak_memory: Option<u64>,
}

impl Judge {
    /// Forget every verdict.
    pub fn clear_cache(&self) {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Test each tree once, with a bounded number of workers.
    pub(super) fn run_all(
        &self,
        ready: &Ready,
        trees: &[(Key, (&Changes, Needs))],
    ) -> BTreeMap<Key, (Result<Verdict, String>, bool)> {
        let next = AtomicUsize::new(0);
        let verdicts = Mutex::new(BTreeMap::new());
        thread::scope(|scope| {
            for _ in 0..self.settings.workers.max(1).min(trees.len()) {
                scope.spawn(|| {
                    while let Some((key, (changes, needs))) =
                        trees.get(next.fetch_add(1, Ordering::Relaxed))
                    {
                        let verdict = self.verdict(ready, changes, *needs, *key);
                        verdicts
                            .lock()
                            .unwrap_or_else(PoisonError::into_inner)
                            .insert(*key, verdict);
                    }
                });
            }
        });
        verdicts.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// The verdict on a tree, from the cache if it is there; and whether it was.
    pub(super) fn verdict(
        &self,
        ready: &Ready,
        changes: &Changes,
        needs: Needs,
        key: Key,
    ) -> (Result<Verdict, String>, bool) {
        if let Some(verdict) = self.seen.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return (Ok(verdict.clone()), true);
        }
        let verdict = self.run(ready, changes, needs, key);
        if let Ok(verdict) = &verdict {
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            if seen.len() >= CACHED {
                seen.pop_first();
            }
            if let btree_map::Entry::Vacant(slot) = seen.entry(key) {
                slot.insert(verdict.clone());
            }
        }
        (verdict, false)
    }

    /// Run what is needed.
    pub(super) fn run(
        &self,
        ready: &Ready,
        changes: &Changes,
        needs: Needs,
        key: Key,
    ) -> Result<Verdict, String> {
        let mut verdict = Verdict { tests: None, compiles: None, seconds: 0.0 };
        if needs.compiles {
            let (compiles, seconds) = self.compile(ready, changes)?;
            verdict.compiles = Some(compiles);
            verdict.seconds += seconds;
        }
        if needs.tests {
            let command = self.command(ready, changes, key);
            let output = self.start(&self.job(ready, changes, &command))?;
            let mut tests = read_tests(ready, &command, &output);
            verdict.seconds += output.wall.as_secs_f64();
            if !tests.graded.excused.is_empty() && !changes.is_empty() {
                tests.graded.hold_excuses(&self.unchanged(ready)?);
            }
            verdict.tests = Some(tests);
        }
        Ok(verdict)
    }

    /// What the tests show without a patch. Run once for a task, and only if it is asked.
    fn unchanged(&self, ready: &Ready) -> Result<Graded, String> {
        let (nothing, needs) = (Changes::new(), Needs { tests: true, compiles: false });
        let key = self.key(ready, &nothing, needs);
        let verdict = self.verdict(ready, &nothing, needs, key).0?;
        verdict.tests.map(|run| run.graded).ok_or_else(|| "no tests ran".to_owned())
    }

    /// One job; again if the sandbox itself failed.
    fn start(&self, job: &Job) -> Result<Output, String> {
        let mut left = RETRIES;
        loop {
            match self.places.run(job) {
                Err(e) if left == 0 => return Err(e.to_string()),
                Err(_) => left -= 1,
                Ok(output) => return Ok(output),
            }
        }
    }

    /// Does every Python file that `changes` leaves compile? And the seconds it took.
    fn compile(&self, ready: &Ready, changes: &Changes) -> Result<(bool, f64), String> {
        let sources: Vec<(&String, &Option<Entry>)> = changes.iter().filter(is_source).collect();
        if sources.is_empty() {
            return Ok((true, 0.0));
        }
        let words = [ready.python(), "-I", "-B", "-S", "-c", COMPILE].map(str::to_owned);
        let argv = words.into_iter().chain(sources.iter().map(|(path, _)| (*path).clone()));
        let mut job = Job::new(&ready.base, argv);
        let files = ready.planted.iter().chain(sources);
        job.writes = files.map(|(path, entry)| (path.clone(), entry.as_ref().map(file))).collect();
        job.read_only.clone_from(&ready.read_only);
        job.limits = self.settings.limits.clone();
        job.image.clone_from(&ready.image);
        let output = self.start(&job)?;
        Ok((output.success(), output.wall.as_secs_f64()))
    }

    fn command(&self, ready: &Ready, changes: &Changes, key: Key) -> Command {
        let mut hash = Sha256::new();
        hash.update(self.settings.seed.to_le_bytes());
        hash.update(key);
        let nonce = crate::prepare::hex(&hash.finalize()[..12]);
        let touched: Vec<String> =
            changes.iter().filter(is_source).map(|(path, _)| path.clone()).collect();
        let tests = ready.guard.tests();
        let subject = Subject { nonce: &nonce, touched: &touched, tests: &tests };
        Command::new(ready.environment.runner, ready.test_argv(), subject)
    }

    fn job(&self, ready: &Ready, changes: &Changes, command: &Command) -> Job {
        let mut job = Job::new(&ready.base, command.argv.clone());
        let files = ready.planted.iter().chain(changes).chain(&ready.tests);
        job.writes = files.map(|(path, entry)| (path.clone(), entry.as_ref().map(file))).collect();
        let ours = command
            .files
            .iter()
            .map(|(path, bytes)| (path.clone(), Some(FileWrite::regular(bytes.clone()))));
        job.writes.extend(ours);
        job.env = ready.variables();
        job.read_only.clone_from(&ready.read_only);
        job.collect = command.result_file.iter().cloned().collect();
        job.limits = self.settings.limits.clone();
        job.image.clone_from(&ready.image);
        job
    }

    pub(super) fn key(&self, ready: &Ready, changes: &Changes, needs: Needs) -> Key {
        let mut hash = Sha256::new();
        let mut put = |bytes: &[u8]| {
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        };
        put(suite::READING.as_bytes());
        put(ready.content_id().as_bytes());
        put(format!("{:?} {needs:?}", self.settings.limits).as_bytes());
        for list in [&ready.task.fail_to_pass, &ready.task.pass_to_pass] {
            put(&(list.len() as u64).to_le_bytes());
            for id in list {
                put(id.as_bytes());
            }
        }
        for (path, entry) in changes.iter().chain(&ready.tests) {
            put(path.as_bytes());
            if let Some(entry) = entry {
                put(format!("{:?}", entry.mode).as_bytes());
                put(&entry.bytes);
            }
        }
        hash.finalize().into()
    }
}

/// A Python file that is there afterwards.
fn is_source((path, entry): &(&String, &Option<Entry>)) -> bool {
    let is_file = entry.as_ref().is_some_and(|entry| entry.mode != FileMode::Symlink);
    let extension = path.rsplit_once('.').map(|(_, extension)| extension);
    is_file && matches!(extension, Some("py" | "pyi"))
}

fn read_tests(ready: &Ready, command: &Command, output: &Output) -> TestRun {
    let results = command.result_file.as_ref().and_then(|file| output.collected.get(file));
    let mut reading = command.read(output.ending, &output.output, results.map(Vec::as_slice));
    if output.output_truncated {
        reading.disagreements.push("the log was cut at its size limit".to_owned());
    }
    let task = &ready.task;
    let runner = ready.environment.runner;
    TestRun {
        graded: suite::grade(runner, &reading, &task.fail_to_pass, &task.pass_to_pass),
        ending: output.ending,
        disagreements: reading.disagreements,
        log: tail(&output.output, LOG_TAIL),
        peak_memory: output.peak_memory.map(|bytes| bytes.0),
    }
}

/// The last `limit` bytes as text, from the start of a line.
fn tail(bytes: &[u8], limit: usize) -> String {
    if bytes.len() <= limit {
        return String::from_utf8_lossy(bytes).into_owned();
    }
    let end = &bytes[bytes.len() - limit..];
    let start = end.iter().position(|b| *b == b'\n').map_or(0, |at| at + 1);
    format!("[cut]\n{}", String::from_utf8_lossy(&end[start..]))
}
