//! An answer to a problem of one function, as a reward.
//!
//! Owns where the code in an answer is, the program that says how far it came, and the reward's
//! formula. One sandbox run for each code of a problem, however many answers hold it.

use std::collections::{BTreeMap, BTreeSet};

use patchrl_sandbox::{Ending, Output};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Checker, Problem};
use crate::guard::reaches;
use crate::judge::Answer;
use crate::outcome::{Evidence, Judgement, Outcome, Parts};

/// Bytes of output that the evidence keeps.
const LOG_TAIL: usize = 4 << 10;

/// The task is read, and gone, before a line of the answer runs. Marks go past what the answer
/// may have done to `print` and `sys.stdout`.
const STAGES: &str = r#"
import json, os, sys, traceback
def main(write, show, run):
    task = json.load(open('task.json'))
    os.remove('task.json')
    say = lambda what: write(1, f"\n{task['word']} {what}\n".encode())
    try:
        code = compile(task['code'], 'answer.py', 'exec')
    except Exception:
        show()
        return
    say('compiles')
    space = {'__name__': 'answer'}
    try:
        run(code, space)
        say('runs')
        run(task['setup'], space)
    except BaseException:
        show()
        return
    for at, line in enumerate(task['asserts']):
        try:
            run(line, space)
        except BaseException:
            show()
        else:
            say(f'passes {at}')
main(os.write, traceback.print_exc, exec)
"#;

/// What an answer is worth that does not pass every assertion; all 0 is the benchmark's own
/// measure. With it a model that solves nothing yet still has something to climb:
///
/// `reward = 1` if all pass, else `compiles * [compiles] + runs * [runs] + asserts * share passed`
///
/// Together they are below 1, so that no answer that fails is worth one that passes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Shaping {
    /// For code that Python can read.
    pub compiles: f64,
    /// For code that also comes to its end, before the first assertion.
    pub runs: f64,
    /// Times the share of assertions that pass.
    pub asserts: f64,
}

impl Shaping {
    /// What serde cannot check: the first thing that is wrong, by its key.
    pub fn check(&self) -> Result<(), String> {
        let parts = [("compiles", self.compiles), ("runs", self.runs), ("asserts", self.asserts)];
        if let Some((key, part)) = parts.iter().find(|(_, part)| !(0.0..1.0).contains(part)) {
            return Err(format!("`{key}` is {part}, not at least 0 and below 1"));
        }
        let sum: f64 = parts.iter().map(|(_, part)| part).sum();
        if sum >= 1.0 {
            return Err(format!(
                "`compiles`, `runs` and `asserts` add up to {sum}, but an answer that fails must \
                 be worth less than 1"
            ));
        }
        Ok(())
    }

    /// The reward of an outcome; nothing where it was lost.
    fn reward(&self, outcome: &Outcome, parts: &Parts) -> Option<f64> {
        match outcome {
            Outcome::Lost { .. } => None,
            Outcome::Resolved => Some(1.0),
            Outcome::Cheated { .. } => Some(0.0),
            _ => {
                let on = |is: bool, worth: f64| if is { worth } else { 0.0 };
                Some(
                    on(parts.valid_diff, self.compiles)
                        + on(parts.applied, self.runs)
                        + self.asserts * parts.f2p_share(),
                )
            }
        }
    }
}

/// The code of an answer: its first fenced block, or all of it where there is no fence.
pub fn code_of(answer: &str) -> &str {
    let Some((_, rest)) = answer.split_once("```") else { return answer };
    // The word after the fence is a language.
    let Some((_, block)) = rest.split_once('\n') else { return "" };
    block.split_once("```").map_or(block, |(code, _)| code)
}

impl Checker<'_> {
    /// Judge answers, each to its problem, in order. In [`Parts`], `valid_diff` says that the
    /// code compiles, `applied` that it runs, and the assertions count as `f2p`.
    pub fn judge(&self, asked: &[(&Problem, Answer<'_>)], shaping: Shaping) -> Vec<Judgement> {
        let mut distinct = BTreeMap::new();
        for (problem, answer) in asked {
            let next = distinct.len();
            distinct.entry((problem.id.as_str(), code_of(answer.text))).or_insert((next, *problem));
        }
        let mut jobs: Vec<_> =
            distinct.iter().map(|(key, place)| (place.0, place.1, key.1)).collect();
        jobs.sort_unstable_by_key(|job| job.0);
        let found = self.spread(jobs.len(), &|_| {}, |at| {
            let (_, problem, code) = jobs[at];
            self.stages(problem, code)
        });
        asked
            .iter()
            .map(|(problem, answer)| {
                let (at, _) = distinct[&(problem.id.as_str(), code_of(answer.text))];
                let mut judgement = found[at].clone();
                judgement.evidence.truncated = answer.truncated;
                judgement.reward = shaping.reward(&judgement.outcome, &judgement.parts);
                judgement
            })
            .collect()
    }

    /// How far `code` comes; the reward is not there yet.
    fn stages(&self, problem: &Problem, code: &str) -> Judgement {
        let total = problem.asserts.len() as u32;
        let mut parts = Parts { f2p_total: total, ..Parts::default() };
        if code.trim().is_empty() {
            let why = "the answer holds no code".to_owned();
            return judgement(Outcome::Malformed { why }, parts, Evidence::default());
        }
        let reached: Vec<String> = reaches(code, &BTreeSet::new())
            .into_iter()
            .map(|(what, lines)| format!("{what} in line {}", lines[0]))
            .collect();
        if let Some(first) = reached.first() {
            let why = format!("the code reaches for the run itself: {first}");
            let evidence = Evidence { reaches: reached, ..Evidence::default() };
            return judgement(Outcome::Cheated { why }, parts, evidence);
        }
        let word = self.word(format!("{}\0{code}", problem.id).as_bytes());
        let task = json!({ "word": word, "code": code, "setup": problem.setup, "asserts": problem.asserts });
        let output = match self.start(STAGES, ("task.json", task.to_string())) {
            Ok(output) => output,
            Err(e) => {
                let outcome = Outcome::Lost { why: e.to_string() };
                return judgement(outcome, parts, Evidence::default());
            }
        };
        let said = String::from_utf8_lossy(&output.output);
        let marks: BTreeSet<&str> = said
            .lines()
            .filter_map(|line| line.strip_prefix(word.as_str()))
            .map(str::trim)
            .collect();
        parts.valid_diff = marks.contains("compiles");
        parts.applied = marks.contains("runs");
        parts.f2p_passed =
            (0..total).filter(|at| marks.contains(format!("passes {at}").as_str())).count() as u32;
        let outcome = outcome(&output, &parts);
        let evidence = Evidence {
            test_log: Some(tail(&said.replace(&word, ""))),
            ending: Some(output.ending.to_string()),
            seconds: output.wall.as_secs_f64(),
            peak_memory: output.peak_memory.map(|bytes| bytes.0),
            ..Evidence::default()
        };
        judgement(outcome, parts, evidence)
    }
}

fn outcome(output: &Output, parts: &Parts) -> Outcome {
    // A problem without an assertion is solved by nothing.
    let all = parts.f2p_total > 0 && parts.f2p_passed == parts.f2p_total;
    match output.ending {
        Ending::TimedOut => Outcome::TimedOut,
        Ending::Exited(0) if all => Outcome::Resolved,
        _ if !parts.valid_diff => Outcome::Malformed { why: "Python cannot read the code".into() },
        _ => Outcome::Failed,
    }
}

fn judgement(outcome: Outcome, parts: Parts, evidence: Evidence) -> Judgement {
    Judgement { outcome, reward: None, parts, components: Vec::new(), evidence }
}

fn tail(text: &str) -> String {
    let from = (text.len().saturating_sub(LOG_TAIL)..text.len())
        .find(|&at| text.is_char_boundary(at))
        .unwrap_or(text.len());
    text[from..].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_the_first_fence_or_everything() {
        for (answer, code) in [
            ("x = 1\n", "x = 1\n"),
            ("Sure:\n```python\nx = 1\n```\nDone ```y```", "x = 1\n"),
            ("```\nx = 1", "x = 1"),
            ("```python", ""),
            ("", ""),
        ] {
            assert_eq!(code_of(answer), code, "{answer:?}");
        }
    }

    #[test]
    fn shaping_never_reaches_a_solution() {
        let shaping = Shaping { compiles: 0.1, runs: 0.1, asserts: 0.3 };
        shaping.check().unwrap();
        let parts = Parts {
            valid_diff: true,
            applied: true,
            f2p_passed: 2,
            f2p_total: 3,
            ..Parts::default()
        };
        assert!((shaping.reward(&Outcome::Failed, &parts).unwrap() - 0.4).abs() < 1e-12);
        assert_eq!(shaping.reward(&Outcome::Resolved, &parts), Some(1.0));
        assert_eq!(shaping.reward(&Outcome::Cheated { why: String::new() }, &parts), Some(0.0));
        assert_eq!(shaping.reward(&Outcome::Lost { why: String::new() }, &parts), None);
        assert_eq!(Shaping::default().reward(&Outcome::Failed, &parts), Some(0.0));
        for bad in [
            Shaping { runs: -0.1, ..shaping },
            Shaping { asserts: f64::NAN, ..shaping },
            Shaping { asserts: 0.8, ..shaping },
        ] {
            assert!(bad.check().is_err(), "{bad:?}");
        }
    }
}
