//! # `swerl`: the reward of the SWE-RL paper
//!
//! How alike the answer's change is to the known answer's, file by file. Runs nothing.
//!
//! | | |
//! |---|---|
//! | formula | `format_penalty` on a format error, else the mean over all files that the answer or the oracle changes of `SequenceMatcher(None, diff of the answer, diff of the oracle, autojunk=False).ratio()`; 0 for a file that only one of them changes |
//! | range | {`format_penalty`} and 0 to 1 |
//! | defaults | `format_penalty: -1` |
//! | looks at | the answer's text, and the files that it or the gold patch names |
//! | source | arXiv 2502.18449 and its code, `swerl/core/reward.py`, bit for bit |
//!
//! The answer must hold `<think>` and `<solution>` once each and SEARCH/REPLACE blocks in
//! fences under `### path`: see [`crate::swerl::from_answer`] for every quirk. The tests
//! play no part: a near miss (`return 2 + x` for `return x + 2`) earns 0.98.
//!
//! The oracle is the task's gold patch on the base tree. Where that cannot be read or is
//! too long to compare the answer is *lost* and has no reward; where the answer itself is
//! too long it is a format error.
//!
//! ```
//! use patchrl_reward::swerl::{Texts, from_answer};
//! use patchrl_reward::{Component, Mode, Outcome, Parts, RewardConfig};
//! let file = |text: &str| Texts::from([("a.py".to_owned(), text.to_owned())]);
//! let answer = "<think>\nt\n</think>\n<solution>\n```python\n### a.py\n<<<<<<< SEARCH\n\
//!               x = 1\n=======\nx = 2\n>>>>>>> REPLACE\n```\n</solution>";
//! let score = from_answer(&file("x = 1\n"), &file("x = 3\n"), answer)?;
//! assert_eq!(score.reward, 0.96);
//!
//! let reward = RewardConfig::default().resolve()?;
//! let likeness = Component { name: "similarity".into(), value: score.reward, weight: 1.0 };
//! let parts = Parts { valid_diff: true, applied: true, ..Parts::default() };
//! let got = reward.of(Mode::Swerl, &Outcome::Applied, &parts, &[likeness]);
//! assert_eq!(got, Some(0.96));
//! let bad = Outcome::Malformed { why: "count of <think> is not 1".into() };
//! assert_eq!(reward.of(Mode::Swerl, &bad, &Parts::default(), &[]), Some(-1.0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::collections::BTreeSet;

use patchrl_patch::{Changes, Entry, LONGEST, Tree, python_diff};

use crate::judge::{Likeness, Oracle};
use crate::swerl::{Texts, from_answer};

/// How alike an answer is to the oracle.
pub(crate) fn likeness(answer: &str, oracle: &Oracle<'_>) -> Likeness {
    let (context, after) = match texts(answer, oracle) {
        Ok(both) => both,
        Err(why) => return Likeness::Lost(why),
    };
    match from_answer(&context, &after, answer) {
        Ok(score) => match score.error {
            None => Likeness::Value(score.reward),
            Some(error) => Likeness::Format(error),
        },
        Err(long) if fits(&context, &after) => Likeness::Format(long.to_string()),
        Err(long) => Likeness::Lost(format!("the gold patch: {long}")),
    }
}

/// The files as they are and as the gold patch leaves them. Files that are not UTF-8 are
/// in neither: the original compares text.
fn texts(answer: &str, oracle: &Oracle<'_>) -> Result<(Texts, Texts), String> {
    let named = answer.split('\n').filter_map(|line| line.strip_prefix("### "));
    let paths: BTreeSet<&str> = named.chain(oracle.changes.keys().map(String::as_str)).collect();
    let mut context = Texts::new();
    for path in paths {
        let entry = oracle.tree.entry(path);
        if let Some(text) = text(entry.map_err(|e| format!("cannot read `{path}`: {e}"))?) {
            context.insert(path.to_owned(), text);
        }
    }
    Ok((context, after(oracle.changes)))
}

fn after(changes: &Changes) -> Texts {
    let text = |entry: &Option<Entry>| match entry {
        Some(entry) => text(Some(entry.clone())),
        None => Some(String::new()),
    };
    changes.iter().filter_map(|(path, entry)| Some((path.clone(), text(entry)?))).collect()
}

fn text(entry: Option<Entry>) -> Option<String> {
    String::from_utf8(entry?.bytes).ok()
}

/// Can the gold patch be compared with anything?
fn fits(context: &Texts, after: &Texts) -> bool {
    after.iter().all(|(path, text)| {
        python_diff(context.get(path).map_or("", String::as_str), text)
            .is_ok_and(|diff| diff.chars().count() <= LONGEST)
    })
}
