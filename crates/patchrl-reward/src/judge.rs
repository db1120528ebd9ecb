//! From an answer to a judgement: the gates, cheapest first, and the measurements.
//!
//! Gates: extract, apply, has the tree changed, what may the patch touch and reach for,
//! has this tree been judged before. Only what passes them all costs a sandbox. How far an
//! answer is taken depends on the preset. Sandbox runs and their cache are in `run`. Does
//! not prepare tasks (see `prepare`) and knows no formula (see `preset`).

mod run;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use patchrl_patch::{ApplyFault, Changes, Edit};
use patchrl_sandbox::{Bytes, Ending, Limits, Local, Places};

use self::run::{Key, Needs, Verdict};
use crate::component::{self, Added, Asked, Form, Function, Source, Term};
use crate::config::Reward;
use crate::guard::{CodePolicy, FilePolicy};
use crate::outcome::{Component, Evidence, Judgement, Outcome, Parts};
use crate::prepare::Ready;
use crate::preset::{self, Mode};
use crate::tree::FsTree;

/// Bytes of the patch that the evidence keeps.
const PATCH_HEAD: usize = 256 << 10;

/// The name of the one component of `swerl` and `similarity`.
const LIKENESS: &str = "similarity";

/// How to judge.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The presets' numbers and the guard.
    pub reward: Reward,
    /// The form that the prompt asks answers to have, for `format_check`.
    pub form: Form,
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
        Self {
            reward: Reward::default(),
            form: Form::default(),
            limits: Limits::default(),
            workers: 2,
            seed: 0,
        }
    }
}

/// Judges answers. Shared by all threads of a run.
pub struct Judge {
    places: Arc<Places>,
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

/// The files that an agent left, as an answer.
#[derive(Clone, Copy, Debug)]
pub struct Work<'a> {
    /// What differs from the base tree.
    pub changes: &'a Changes,
    /// It was stopped before it said that it is done.
    pub unfinished: bool,
}

/// The known answer, for presets that compare with it.
pub(crate) struct Oracle<'a> {
    pub(crate) tree: &'a FsTree,
    pub(crate) changes: &'a Changes,
    pub(crate) patch: &'a str,
}

/// What comparing an answer with the oracle gave.
pub(crate) enum Likeness {
    Value(f64),
    /// The answer's fault.
    Format(String),
    /// Ours.
    Lost(String),
}

/// An answer that passed the gates.
struct Pending<'a> {
    mode: Mode,
    /// Its text; an agent's work has none.
    answer: Option<&'a str>,
    parts: Parts,
    evidence: Evidence,
    changes: Changes,
    needs: Needs,
    key: Key,
    /// The patch as a canonical diff, whole.
    patch: String,
    added: Vec<Added>,
}

/// What the gates say: go on with the sandbox, or this is it.
type Gate<'a> = Result<Box<Pending<'a>>, Box<Judgement>>;

impl Judge {
    /// A judge that runs tests in `sandbox`.
    pub fn new(sandbox: Arc<Local>, settings: Settings) -> Self {
        Self::with_places(Places::new(sandbox), settings)
    }

    /// A judge that runs the tests of tasks with an image in containers.
    pub fn with_places(places: Places, mut settings: Settings) -> Self {
        settings.limits.output = settings.limits.output.max(Bytes::mib(16));
        Self { places: Arc::new(places), settings, seen: Mutex::new(BTreeMap::new()) }
    }

    /// The numbers and policies of this judge.
    pub fn reward(&self) -> &Reward {
        &self.settings.reward
    }

    /// Judge one answer. `truncated` says that it was cut off at its token limit.
    pub fn judge(&self, ready: &Ready, answer: &str, truncated: bool, mode: Mode) -> Judgement {
        match self.gate(ready, Answer { text: answer, truncated }, mode) {
            Err(judgement) => *judgement,
            Ok(pending) => {
                let (verdict, cached) =
                    self.verdict(ready, &pending.changes, pending.needs, pending.key);
                self.conclude(ready, *pending, verdict, cached)
            }
        }
    }

    /// Judge the answers of one task, in order. Answers that lead to the same
    /// tree are tested once; at most `workers` test runs go on at a time.
    pub fn judge_group(&self, ready: &Ready, answers: &[Answer<'_>], mode: Mode) -> Vec<Judgement> {
        self.settle(ready, answers.iter().map(|a| self.gate(ready, *a, mode)).collect())
    }

    /// Judge what agents made of the files of one task, in order. Each is tested on a fresh tree:
    /// nothing that ran while the agent worked has any part in it.
    pub fn judge_works(&self, ready: &Ready, works: &[Work<'_>], mode: Mode) -> Vec<Judgement> {
        self.settle(ready, works.iter().map(|work| self.gate_work(ready, *work, mode)).collect())
    }

    /// Where tests run.
    pub fn places(&self) -> &Arc<Places> {
        &self.places
    }

    /// Test runs at the same time.
    pub fn workers(&self) -> usize {
        self.settings.workers
    }

    /// The limits of one test run.
    pub fn limits(&self) -> &Limits {
        &self.settings.limits
    }

    /// Run what passed its gate, each tree once.
    fn settle(&self, ready: &Ready, gates: Vec<Gate<'_>>) -> Vec<Judgement> {
        let mut trees: BTreeMap<Key, (&Changes, Needs)> = BTreeMap::new();
        for pending in gates.iter().flatten() {
            trees.entry(pending.key).or_insert((&pending.changes, pending.needs));
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
        let needs = Needs { tests: true, compiles: false };
        let key = self.key(ready, changes, needs);
        let pending = Pending {
            mode: Mode::Tests,
            answer: None,
            parts: Parts { applied: !changes.is_empty(), ..Parts::default() },
            evidence: Evidence::default(),
            changes: changes.clone(),
            needs,
            key,
            patch: String::new(),
            added: Vec::new(),
        };
        let verdict = self.run(ready, changes, needs, key);
        self.conclude(ready, pending, verdict, false)
    }

    fn gate<'a>(&self, ready: &Ready, answer: Answer<'a>, mode: Mode) -> Gate<'a> {
        let parts = Parts::default();
        let mut evidence = Evidence { truncated: answer.truncated, ..Evidence::default() };
        if mode == Mode::Swerl {
            let likeness = oracle(ready, |oracle| preset::swerl::likeness(answer.text, oracle));
            return Err(Box::new(self.alike(mode, likeness, true, evidence)));
        }
        let extraction = match patchrl_patch::extract(answer.text) {
            Ok(extraction) => extraction,
            Err(fault) => {
                let why = fault.to_string();
                let outcome = malformed(answer, why);
                return Err(Box::new(self.close(mode, outcome, parts, Vec::new(), evidence)));
            }
        };
        evidence.rule = Some(extraction.rule.as_str().to_owned());
        let edit = extraction.edit;
        match mode {
            Mode::Syntax => {
                let parts = Parts { valid_diff: has_change(&edit), ..parts };
                let none = Outcome::Malformed { why: "the diff holds no hunk".to_owned() };
                let outcome = if parts.valid_diff { Outcome::WellFormed } else { none };
                Err(Box::new(self.close(mode, outcome, parts, Vec::new(), evidence)))
            }
            Mode::Similarity => {
                let autojunk = self.settings.reward.autojunk;
                let likeness =
                    oracle(ready, |oracle| preset::similarity::likeness(&edit, oracle, autojunk));
                Err(Box::new(self.alike(mode, likeness, false, evidence)))
            }
            _ => self.gate_edit(ready, answer.text, &edit, mode, evidence),
        }
    }

    /// The gates of an agent's work. What was said on the way to it is nothing to them.
    fn gate_work<'a>(&self, ready: &Ready, work: Work<'_>, mode: Mode) -> Gate<'a> {
        let evidence = Evidence { truncated: work.unfinished, ..Evidence::default() };
        let valid_diff = !work.changes.is_empty();
        let parts = Parts { valid_diff, ..Parts::default() };
        let done =
            |outcome| Err(Box::new(self.close(mode, outcome, parts, Vec::new(), evidence.clone())));
        match mode {
            _ if work.changes.is_empty() && work.unfinished => done(Outcome::Truncated),
            _ if work.changes.is_empty() => done(Outcome::Unchanged),
            Mode::Syntax => done(Outcome::WellFormed),
            Mode::Swerl => done(Outcome::Lost {
                why: "the reward `swerl` reads an answer's text, and an agent gives none"
                    .to_owned(),
            }),
            Mode::Similarity => {
                let edit = patchrl_patch::unified(work.changes, &ready.tree())
                    .map_err(|e| e.to_string())
                    .and_then(|text| patchrl_patch::Patch::parse(&text).map_err(|e| e.to_string()));
                let edit = match edit {
                    Ok(patch) => Edit::Diff(patch),
                    Err(why) => return done(Outcome::Malformed { why }),
                };
                let autojunk = self.settings.reward.autojunk;
                let likeness =
                    oracle(ready, |oracle| preset::similarity::likeness(&edit, oracle, autojunk));
                Err(Box::new(self.alike(mode, likeness, false, evidence)))
            }
            _ => match fits(work.changes.clone()) {
                Err(outcome) => done(outcome),
                Ok(changes) => self.gate_files(ready, None, (changes, parts), mode, evidence),
            },
        }
    }

    /// The gates of an edit that was found in an answer.
    fn gate_edit<'a>(
        &self,
        ready: &Ready,
        answer: &'a str,
        edit: &Edit,
        mode: Mode,
        evidence: Evidence,
    ) -> Gate<'a> {
        let parts = Parts { valid_diff: has_change(edit), ..Parts::default() };
        match apply(edit, &ready.tree()) {
            Ok(changes) => self.gate_files(ready, Some(answer), (changes, parts), mode, evidence),
            Err(outcome) => Err(Box::new(self.close(mode, outcome, parts, Vec::new(), evidence))),
        }
    }

    /// The gates that need the files.
    fn gate_files<'a>(
        &self,
        ready: &Ready,
        answer: Option<&'a str>,
        (changes, mut parts): (Changes, Parts),
        mode: Mode,
        mut evidence: Evidence,
    ) -> Gate<'a> {
        let done = |outcome, parts, evidence| {
            Err(Box::new(self.close(mode, outcome, parts, Vec::new(), evidence)))
        };
        let tree = ready.tree();
        let read = patchrl_patch::unified(&changes, &tree)
            .and_then(|patch| Ok((patch, component::added(&changes, &tree)?)));
        let (patch, added) = match read {
            Ok(both) => both,
            Err(e) => return done(unreadable(&e), parts, evidence),
        };
        parts.applied = true;
        evidence.patch = Some(head(patch.clone(), PATCH_HEAD));
        let guarded = ready.guard.restore(changes.clone(), &tree, &ready.tests);
        evidence.restored = guarded.restored;
        // Code in a file that is put back never runs.
        let left = added.iter().filter(|file| guarded.changes.contains_key(&file.path));
        let reached = |file: &Added| -> Vec<String> {
            let words = ready.guard.reached(file);
            words.into_iter().map(|what| format!("{}: {what}", file.path)).collect()
        };
        evidence.reaches = left.flat_map(reached).collect();
        if mode == Mode::ApplyOnly {
            return done(Outcome::Applied, parts, evidence);
        }
        if let Some(why) = self.cheats(mode, guarded.changes.is_empty(), &evidence) {
            return done(Outcome::Cheated { why }, parts, evidence);
        }
        let needs = self.needs(mode);
        let key = self.key(ready, &guarded.changes, needs);
        let changes = guarded.changes;
        let pending = Pending { mode, answer, parts, evidence, changes, needs, key, patch, added };
        Ok(Box::new(pending))
    }

    /// What makes this answer a cheat under the guard's policies.
    fn cheats(&self, mode: Mode, nothing_left: bool, evidence: &Evidence) -> Option<String> {
        let guard = &self.settings.reward.guard;
        if nothing_left {
            return Some(format!("changes only {}", evidence.restored.join(", ")));
        }
        if guard.files(mode) == FilePolicy::Refuse && !evidence.restored.is_empty() {
            return Some(format!("changes {}", evidence.restored.join(", ")));
        }
        if guard.code(mode) == CodePolicy::Refuse && !evidence.reaches.is_empty() {
            return Some(format!("reaches for the test run: {}", evidence.reaches.join(", ")));
        }
        None
    }

    fn needs(&self, mode: Mode) -> Needs {
        let rule = &self.settings.reward.rule;
        match mode {
            Mode::RuleBased => Needs {
                tests: rule.needs(Function::RunPytest),
                compiles: rule.needs(Function::TypeCheck),
            },
            _ => Needs { tests: true, compiles: false },
        }
    }

    /// The judgement of a preset that compares texts.
    fn alike(
        &self,
        mode: Mode,
        likeness: Likeness,
        applied: bool,
        evidence: Evidence,
    ) -> Judgement {
        let mut parts = Parts::default();
        let (outcome, components) = match likeness {
            Likeness::Lost(why) => (Outcome::Lost { why }, Vec::new()),
            Likeness::Format(why) => {
                let outcome = malformed(Answer { text: "", truncated: evidence.truncated }, why);
                (outcome, Vec::new())
            }
            Likeness::Value(value) => {
                parts = Parts { valid_diff: true, applied, ..parts };
                let outcome = if applied { Outcome::Applied } else { Outcome::WellFormed };
                (outcome, vec![Component { name: LIKENESS.to_owned(), value, weight: 1.0 }])
            }
        };
        self.close(mode, outcome, parts, components, evidence)
    }

    fn close(
        &self,
        mode: Mode,
        outcome: Outcome,
        parts: Parts,
        components: Vec<Component>,
        evidence: Evidence,
    ) -> Judgement {
        let reward = self.settings.reward.of(mode, &outcome, &parts, &components);
        Judgement { outcome, reward, parts, components, evidence }
    }

    fn conclude(
        &self,
        ready: &Ready,
        mut pending: Pending<'_>,
        verdict: Result<Verdict, String>,
        cached: bool,
    ) -> Judgement {
        let lost = |why, pending: Pending<'_>| {
            let (mode, parts, evidence) = (pending.mode, pending.parts, pending.evidence);
            self.close(mode, Outcome::Lost { why }, parts, Vec::new(), evidence)
        };
        let verdict = match verdict {
            Ok(verdict) => verdict,
            Err(why) => return lost(why, pending),
        };
        pending.evidence.cached = cached;
        let outcome = pending.note(ready, &verdict);
        let components = match self.components(ready, &pending, &verdict, &outcome) {
            Ok(components) => components,
            Err(why) => return lost(why, pending),
        };
        self.close(pending.mode, outcome, pending.parts, components, pending.evidence)
    }

    /// The values of `rule_based`; none for the other presets.
    fn components(
        &self,
        ready: &Ready,
        pending: &Pending<'_>,
        verdict: &Verdict,
        outcome: &Outcome,
    ) -> Result<Vec<Component>, String> {
        if pending.mode != Mode::RuleBased {
            return Ok(Vec::new());
        }
        let measure = |term: &Term| {
            let measured = match &term.source {
                Source::Function(function) => self.measure(*function, ready, pending, verdict)?,
                Source::Command { argv, deadline } => {
                    let asked = Asked {
                        instance_id: ready.task.id.as_str(),
                        answer: pending.answer.unwrap_or_default(),
                        patch: &pending.patch,
                        changes: &pending.changes,
                        tree: &ready.tree(),
                        outcome,
                        parts: &pending.parts,
                    };
                    component::ask(argv, *deadline, &asked)?
                }
            };
            let value = term.counted(measured);
            Ok(Component { name: term.name.clone(), value, weight: term.weight })
        };
        self.settings.reward.rule.0.iter().map(measure).collect()
    }

    fn measure(
        &self,
        function: Function,
        ready: &Ready,
        pending: &Pending<'_>,
        verdict: &Verdict,
    ) -> Result<f64, String> {
        Ok(match function {
            Function::RunPytest => component::tests(&pending.parts),
            Function::TypeCheck => f64::from(verdict.compiles == Some(true)),
            Function::StyleCheck => component::style(&pending.added),
            Function::FormatCheck => {
                // An agent's files have the form that was asked for.
                let is_form = |answer| component::is_form(answer, self.settings.form);
                f64::from(pending.answer.is_none_or(is_form))
            }
            Function::DiffSizePenalty => {
                let gold = ready.oracle.as_ref().map_err(|e| no_oracle(e))?;
                let oracle = patchrl_patch::unified(gold, &ready.tree())
                    .map_err(|e| format!("cannot read the base tree: {e}"))?;
                // What was put back is counted: the policy wrote it.
                let written = patchrl_patch::Patch::parse(&pending.patch);
                let paths: Changes = match &written {
                    Ok(patch) => {
                        patch.files().iter().map(|f| (f.path().to_owned(), None)).collect()
                    }
                    Err(_) => pending.changes.clone(),
                };
                component::size_penalty(&pending.patch, &oracle, &paths, gold)
            }
        })
    }
}

impl Pending<'_> {
    /// Take down what the sandbox showed; the outcome that follows.
    fn note(&mut self, ready: &Ready, verdict: &Verdict) -> Outcome {
        let (parts, evidence) = (&mut self.parts, &mut self.evidence);
        evidence.seconds = if evidence.cached { 0.0 } else { verdict.seconds };
        let Some(tests) = &verdict.tests else {
            return Outcome::Applied;
        };
        parts.f2p_total = ready.task.fail_to_pass.len() as u32;
        parts.p2p_total = ready.task.pass_to_pass.len() as u32;
        parts.f2p_passed = tests.graded.f2p_passed;
        parts.p2p_passed = tests.graded.p2p_passed;
        evidence.ending = Some(tests.ending.to_string());
        evidence.failures.clone_from(&tests.graded.failures);
        evidence.disagreements.clone_from(&tests.disagreements);
        evidence.test_log = Some(tests.log.clone());
        evidence.peak_memory = tests.peak_memory;
        let all = parts.f2p_passed == parts.f2p_total && parts.p2p_passed == parts.p2p_total;
        match tests.ending {
            Ending::TimedOut => Outcome::TimedOut,
            _ if all && parts.f2p_total > 0 => Outcome::Resolved,
            _ => Outcome::Failed,
        }
    }
}

/// Compare with the known answer, if that can be read.
fn oracle(ready: &Ready, compare: impl FnOnce(&Oracle<'_>) -> Likeness) -> Likeness {
    match &ready.oracle {
        Ok(changes) => compare(&Oracle { tree: &ready.tree(), changes, patch: &ready.task.patch }),
        Err(why) => Likeness::Lost(no_oracle(why)),
    }
}

fn no_oracle(why: &str) -> String {
    format!("the task's gold patch does not apply: {why}")
}

fn malformed(answer: Answer<'_>, why: String) -> Outcome {
    if answer.truncated { Outcome::Truncated } else { Outcome::Malformed { why } }
}

/// The files that an edit leaves, or what it came to instead.
fn apply(edit: &Edit, tree: &FsTree) -> Result<Changes, Outcome> {
    let changes = edit.apply(tree).map_err(|fault| not_applied(&fault))?;
    fits(changes)
}

/// Changes that can lie on a disk.
fn fits(changes: Changes) -> Result<Changes, Outcome> {
    if changes.is_empty() {
        return Err(Outcome::Unchanged);
    }
    if let Some(path) = changes.keys().find(|path| path.split('/').any(too_long)) {
        return Err(Outcome::NotApplied { why: format!("`{path}`: the file name is too long") });
    }
    Ok(changes)
}

fn unreadable(e: &std::io::Error) -> Outcome {
    Outcome::Lost { why: format!("cannot read the base tree: {e}") }
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

/// The first `limit` bytes, cut between characters.
fn head(mut text: String, limit: usize) -> String {
    if text.len() > limit {
        let cut = (0..=limit).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(cut);
        text.push_str("\n[cut]\n");
    }
    text
}
