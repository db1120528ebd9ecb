//! # `similarity`: likeness of the whole patch
//!
//! The short form of the paper's reward that most descriptions of it show: one ratio of
//! two texts. It is a different number from `swerl`.
//!
//! | | |
//! |---|---|
//! | formula | `SequenceMatcher(None, predicted, golden, autojunk=autojunk).ratio()`; `format_penalty` where the answer is empty or holds no patch |
//! | range | {`format_penalty`} and 0 to 1 |
//! | defaults | `autojunk: true` (Python's own default), `format_penalty: -1` |
//! | looks at | the answer's text; edit blocks also need the files they name |
//! | source | descriptions of the SWE-RL reward in articles; Python's `difflib` bit for bit |
//!
//! `predicted` is the diff as the answer has it, prose and fences left out; `golden` is the
//! task's `patch` as its row has it. Edit blocks are applied and shown as a git diff, and
//! blocks that do not apply hold no patch. With `autojunk: true` a long golden patch scores
//! much lower than its likeness (0.40 for 0.96 in one measured pair of 91 kB).
//!
//! ```
//! use patchrl_patch::{Autojunk, ratio};
//! use patchrl_reward::{Component, Mode, Outcome, Parts, RewardConfig};
//! let (predicted, golden) = ("-x = 1\n+x = 2\n", "-x = 1\n+x = 3\n");
//! let value = ratio(predicted, golden, Autojunk::On)?;
//! assert_eq!(value, 0.9285714285714286);
//!
//! let reward = RewardConfig { format_penalty: -2.0, ..RewardConfig::default() }.resolve()?;
//! let likeness = Component { name: "similarity".into(), value, weight: 1.0 };
//! let parts = Parts { valid_diff: true, ..Parts::default() };
//! let got = reward.of(Mode::Similarity, &Outcome::WellFormed, &parts, &[likeness]);
//! assert_eq!(got, Some(0.9285714285714286));
//! let empty = Outcome::Malformed { why: "the answer is empty".into() };
//! assert_eq!(reward.of(Mode::Similarity, &empty, &Parts::default(), &[]), Some(-2.0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use patchrl_patch::{Autojunk, Edit, LONGEST, ratio};

use crate::judge::{Likeness, Oracle};

/// How alike an edit is to the gold patch.
pub(crate) fn likeness(edit: &Edit, oracle: &Oracle<'_>, autojunk: bool) -> Likeness {
    if oracle.patch.chars().count() > LONGEST {
        return Likeness::Lost("the gold patch is too long to compare".to_owned());
    }
    let predicted = match edit {
        Edit::Diff(patch) => patch.to_string(),
        Edit::Blocks(_) => match edit.apply(oracle.tree) {
            Ok(changes) => match patchrl_patch::unified(&changes, oracle.tree) {
                Ok(text) => text,
                Err(e) => return Likeness::Lost(format!("cannot read the base tree: {e}")),
            },
            Err(patchrl_patch::ApplyFault::Read { path, source }) => {
                return Likeness::Lost(format!("cannot read `{path}`: {source}"));
            }
            Err(fault) => return Likeness::Format(fault.to_string()),
        },
    };
    let autojunk = if autojunk { Autojunk::On } else { Autojunk::Off };
    match ratio(&predicted, oracle.patch, autojunk) {
        Ok(value) => Likeness::Value(value),
        Err(long) => Likeness::Format(long.to_string()),
    }
}
