//! From an answer to a judgement: the gates, cheapest first, and the test run.
//!
//! Gates: extract, apply, has the tree changed, what may the patch touch, has
//! this tree been judged before. Only what passes them all costs a sandbox.
//! Owns the verdict cache and the retry of what failed through no fault of the
//! answer. Does not prepare tasks (see `prepare`).

use std::collections::BTreeMap;
use std::collections::btree_map;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use patchrl_patch::{ApplyFault, Changes, Edit, Entry, Mode as FileMode};
use patchrl_sandbox::{Bytes, Ending, FileWrite, Job, Limits, Local, Output, SandboxError};
use sha2::{Digest, Sha256};

use crate::combine::{Mode, Weights};
use crate::outcome::{Evidence, Judgement, Outcome, Parts};
use crate::prepare::Ready;
use crate::suite::{self, Command, Graded};

/// Bytes of the test log that the evidence keeps (the end of it).
const LOG_TAIL: usize = 16 << 10;

/// Bytes of the patch that the evidence keeps.
const PATCH_HEAD: usize = 256 << 10;

/// Verdicts kept. A run of 10,000 steps meets more trees than this only if it
/// judges more than 25 new ones a step.
const CACHED: usize = 1 << 18;

/// How to judge.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The weights of the reward.
    pub weights: Weights,
    /// Limits of one test run. The output cap is raised to 16 MiB where lower:
    /// the summary comes last.
    pub limits: Limits,
    /// Test runs at the same time.
    pub workers: usize,
    /// Seed of the marks on report lines. Any number; keep it from the policy.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { weights: Weights::default(), limits: Limits::default(), workers: 2, seed: 0 }
    }
}

/// Judges answers. Shared by all threads of a run.
pub struct Judge {
    sandbox: Arc<Local>,
    settings: Settings,
    seen: Mutex<BTreeMap<Key, Verdict>>,
}

/// One answer of a group.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a> {
    /// What the policy wrote.
    pub text: &'a str,
    /// It was cut off at its token limit.
    pub truncated: bool,
}

/// Content hash of everything that decides a test run.
type Key = [u8; 32];

/// What a test run showed.
#[derive(Clone, Debug)]
struct Verdict {
    graded: Graded,
    ending: Ending,
    disagreements: Vec<String>,
    log: String,
    seconds: f64,
    peak_memory: Option<u64>,
}

/// An answer that passed the gates and waits for its tests.
struct Pending {
    parts: Parts,
    evidence: Evidence,
    changes: Changes,
    key: Key,
}

/// What the gates say: wait for tests, or this is it.
type Gate = Result<Box<Pending>, Box<Judgement>>;

impl Judge {
    /// A judge that runs tests in `sandbox`.
    pub fn new(sandbox: Arc<Local>, mut settings: Settings) -> Self {
        settings.limits.output = settings.limits.output.max(Bytes::mib(16));
        Self { sandbox, settings, seen: Mutex::new(BTreeMap::new()) }
    }

    /// The weights of this judge.
    pub fn weights(&self) -> Weights {
        self.settings.weights
    }

    /// Judge one answer. `truncated` says that it was cut off at its token limit.
    pub fn judge(&self, ready: &Ready, answer: &str, truncated: bool, mode: Mode) -> Judgement {
        match self.gate(ready, Answer { text: answer, truncated }, mode) {
            Err(judgement) => *judgement,
            Ok(pending) => {
                let (verdict, cached) = self.verdict(ready, &pending.changes, pending.key);
                self.conclude(ready, *pending, verdict, cached)
            }
        }
    }

    /// Judge the answers of one task, in order. Answers that lead to the same
    /// tree are tested once; at most `workers` test runs go on at a time.
    pub fn judge_group(&self, ready: &Ready, answers: &[Answer<'_>], mode: Mode) -> Vec<Judgement> {
        let gates: Vec<Gate> = answers.iter().map(|a| self.gate(ready, *a, mode)).collect();
        let mut trees: BTreeMap<Key, &Changes> = BTreeMap::new();
        for pending in gates.iter().flatten() {
            trees.entry(pending.key).or_insert(&pending.changes);
        }
        let mut verdicts = self.run_all(ready, &trees.into_iter().collect::<Vec<_>>());
        gates
            .into_iter()
            .map(|gate| match gate {
                Err(judgement) => *judgement,
                Ok(pending) => {
                    let (verdict, cached) = match verdicts.get_mut(&pending.key) {
                        // The second answer with this tree costs nothing.
                        Some((verdict, cached)) => {
                            (verdict.clone(), std::mem::replace(cached, true))
                        }
                        None => (Err("the test run was not started".to_owned()), false),
                    };
                    self.conclude(ready, *pending, verdict, cached)
                }
            })
            .collect()
    }

    /// Run the task's tests on the base tree with `changes` on top, past the cache.
    pub(crate) fn test_afresh(&self, ready: &Ready, changes: &Changes) -> Judgement {
        let key = self.key(ready, changes);
        let pending = Pending {
            parts: Parts { applied: !changes.is_empty(), ..Parts::default() },
            evidence: Evidence::default(),
            changes: changes.clone(),
            key,
        };
        let verdict = self.run(ready, changes, key);
        self.conclude(ready, pending, verdict, false)
    }

    /// Forget every verdict.
    pub fn clear_cache(&self) {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn gate(&self, ready: &Ready, answer: Answer<'_>, mode: Mode) -> Gate {
        let done =
            |outcome, parts, evidence| Err(Box::new(self.close(mode, outcome, parts, evidence)));
        let mut parts = Parts::default();
        let mut evidence = Evidence { truncated: answer.truncated, ..Evidence::default() };
        let extraction = match patchrl_patch::extract(answer.text) {
            Ok(extraction) => extraction,
            Err(_) if answer.truncated => return done(Outcome::Truncated, parts, evidence),
            Err(fault) => {
                let why = fault.to_string();
                return done(Outcome::Malformed { why }, parts, evidence);
            }
        };
        parts.valid_diff = has_change(&extraction.edit);
        evidence.rule = Some(extraction.rule.as_str().to_owned());
        if mode == Mode::Syntax {
            let none = Outcome::Malformed { why: "the diff holds no hunk".to_owned() };
            let outcome = if parts.valid_diff { Outcome::WellFormed } else { none };
            return done(outcome, parts, evidence);
        }
        let tree = ready.tree();
        let changes = match extraction.edit.apply(&tree) {
            Ok(changes) if changes.is_empty() => {
                return done(Outcome::Unchanged, parts, evidence);
            }
            Ok(changes) => match changes.keys().find(|path| path.split('/').any(too_long)) {
                Some(path) => {
                    let why = format!("`{path}`: the file name is too long");
                    return done(Outcome::NotApplied { why }, parts, evidence);
                }
                None => changes,
            },
            Err(fault) => return done(not_applied(&fault), parts, evidence),
        };
        parts.applied = true;
        match patchrl_patch::unified(&changes, &tree) {
            Ok(text) => evidence.patch = Some(head(text, PATCH_HEAD)),
            Err(e) => {
                let why = format!("cannot read the base tree: {e}");
                return done(Outcome::Lost { why }, parts, evidence);
            }
        }
        if mode == Mode::ApplyOnly {
            return done(Outcome::Applied, parts, evidence);
        }
        let guarded = ready.guard.restore(changes, &tree, &ready.tests);
        evidence.restored = guarded.restored;
        if guarded.changes.is_empty() {
            let why = format!("changes only {}", evidence.restored.join(", "));
            return done(Outcome::Cheated { why }, parts, evidence);
        }
        let key = self.key(ready, &guarded.changes);
        Ok(Box::new(Pending { parts, evidence, changes: guarded.changes, key }))
    }

    fn close(&self, mode: Mode, outcome: Outcome, parts: Parts, evidence: Evidence) -> Judgement {
        let reward = self.settings.weights.reward(mode, &outcome, &parts);
        Judgement { outcome, reward, parts, evidence }
    }

    fn conclude(
        &self,
        ready: &Ready,
        pending: Pending,
        verdict: Result<Verdict, String>,
        cached: bool,
    ) -> Judgement {
        let Pending { mut parts, mut evidence, .. } = pending;
        let verdict = match verdict {
            Ok(verdict) => verdict,
            Err(why) => return self.close(Mode::Tests, Outcome::Lost { why }, parts, evidence),
        };
        parts.f2p_total = ready.task.fail_to_pass.len() as u32;
        parts.p2p_total = ready.task.pass_to_pass.len() as u32;
        parts.f2p_passed = verdict.graded.f2p_passed;
        parts.p2p_passed = verdict.graded.p2p_passed;
        evidence.ending = Some(verdict.ending.to_string());
        evidence.failures = verdict.graded.failures;
        evidence.disagreements = verdict.disagreements;
        evidence.test_log = Some(verdict.log);
        evidence.peak_memory = verdict.peak_memory;
        evidence.seconds = if cached { 0.0 } else { verdict.seconds };
        evidence.cached = cached;
        let all = parts.f2p_passed == parts.f2p_total && parts.p2p_passed == parts.p2p_total;
        let outcome = match verdict.ending {
            Ending::TimedOut => Outcome::TimedOut,
            _ if all && parts.f2p_total > 0 => Outcome::Resolved,
            _ => Outcome::Failed,
        };
        self.close(Mode::Tests, outcome, parts, evidence)
    }

    /// Test each tree once, with a bounded number of workers.
    fn run_all(
        &self,
        ready: &Ready,
        trees: &[(Key, &Changes)],
    ) -> BTreeMap<Key, (Result<Verdict, String>, bool)> {
        let next = AtomicUsize::new(0);
        let verdicts = Mutex::new(BTreeMap::new());
        thread::scope(|scope| {
            for _ in 0..self.settings.workers.max(1).min(trees.len()) {
                scope.spawn(|| {
                    while let Some((key, changes)) = trees.get(next.fetch_add(1, Ordering::Relaxed))
                    {
                        let verdict = self.verdict(ready, changes, *key);
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
    fn verdict(
        &self,
        ready: &Ready,
        changes: &Changes,
        key: Key,
    ) -> (Result<Verdict, String>, bool) {
        if let Some(verdict) = self.seen.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return (Ok(verdict.clone()), true);
        }
        let verdict = self.run(ready, changes, key);
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

    /// Run the tests; once more if the sandbox itself failed.
    fn run(&self, ready: &Ready, changes: &Changes, key: Key) -> Result<Verdict, String> {
        let command = self.command(ready, key);
        let job = self.job(ready, changes, &command);
        let output = self.sandbox.run(&job).or_else(|_| self.sandbox.run(&job));
        let output = output.map_err(|e: SandboxError| e.to_string())?;
        Ok(read_verdict(ready, &command, &output))
    }

    fn command(&self, ready: &Ready, key: Key) -> Command {
        let mut hash = Sha256::new();
        hash.update(self.settings.seed.to_le_bytes());
        hash.update(key);
        let nonce = crate::prepare::hex(&hash.finalize()[..12]);
        Command::new(ready.environment.runner, ready.test_argv(), &nonce)
    }

    fn job(&self, ready: &Ready, changes: &Changes, command: &Command) -> Job {
        let mut job = Job::new(&ready.base, command.argv.clone());
        let files = changes.iter().chain(&ready.tests);
        job.writes = files.map(|(path, entry)| (path.clone(), entry.as_ref().map(file))).collect();
        job.env = ready.variables();
        job.read_only.clone_from(&ready.read_only);
        job.collect = command.result_file.iter().cloned().collect();
        job.limits = self.settings.limits.clone();
        job
    }

    fn key(&self, ready: &Ready, changes: &Changes) -> Key {
        let mut hash = Sha256::new();
        let mut put = |bytes: &[u8]| {
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        };
        put(suite::READING.as_bytes());
        put(ready.content_id().as_bytes());
        put(format!("{:?}", self.settings.limits).as_bytes());
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

fn read_verdict(ready: &Ready, command: &Command, output: &Output) -> Verdict {
    let results = command.result_file.as_ref().and_then(|file| output.collected.get(file));
    let mut reading = command.read(output.ending, &output.output, results.map(Vec::as_slice));
    if output.output_truncated {
        reading.disagreements.push("the log was cut at its size limit".to_owned());
    }
    let task = &ready.task;
    let runner = ready.environment.runner;
    Verdict {
        graded: suite::grade(runner, &reading, &task.fail_to_pass, &task.pass_to_pass),
        ending: output.ending,
        disagreements: reading.disagreements,
        log: tail(&output.output, LOG_TAIL),
        seconds: output.wall.as_secs_f64(),
        peak_memory: output.peak_memory.map(|bytes| bytes.0),
    }
}

/// At least one hunk or block: a bare rename or mode change is none.
fn has_change(edit: &Edit) -> bool {
    match edit {
        Edit::Diff(patch) => patch.files().iter().any(|file| !file.hunks.is_empty()),
        Edit::Blocks(blocks) => !blocks.is_empty(),
    }
}

/// Longer names than any file system here takes.
fn too_long(name: &str) -> bool {
    name.len() > 255
}

fn not_applied(fault: &ApplyFault) -> Outcome {
    let why = fault.to_string();
    match fault {
        ApplyFault::Read { .. } => Outcome::Lost { why },
        ApplyFault::NoChange => Outcome::Unchanged,
        _ => Outcome::NotApplied { why },
    }
}

fn file(entry: &Entry) -> FileWrite {
    FileWrite {
        mode: if entry.mode == FileMode::Executable { 0o755 } else { 0o644 },
        bytes: entry.bytes.clone(),
        symlink: entry.mode == FileMode::Symlink,
    }
}

/// The first `limit` bytes, cut between characters.
fn head(mut text: String, limit: usize) -> String {
    if text.len() > limit {
        let cut = (0..=limit).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(cut);
        text.push_str("\n[cut]\n");
    }
    text
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
