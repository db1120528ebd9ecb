//! # `rule_based`: weighted components
//!
//! A sum of named values, put together in the configuration.
//!
//! ```yaml
//! reward:
//!   type: rule_based
//!   components:
//!     - { name: tests_pass,   weight: 1.0, fn: run_pytest }
//!     - { name: compile_pass, weight: 0.5, fn: type_check }
//!     - { name: minimal_diff, weight: 0.1, fn: diff_size_penalty }
//!     - { name: lint, weight: 0.2, command: [./lint.sh, --json], timeout: 30 }
//! ```
//!
//! | | |
//! |---|---|
//! | formula | the sum of `weight * value` over the components if the patch applies and changes the tree, else `malformed` |
//! | range | from the sum of the lowest to the sum of the highest values, each times its weight |
//! | defaults | the first three components above; `malformed`: 0, or the lowest possible sum where that is below 0 |
//! | looks at | what its components need: the files, the sandbox for `run_pytest` and `type_check`, a program of yours for `command` |
//! | source | articles on reward design for software agents; *not* the SWE-RL paper, which runs nothing |
//!
//! Nothing is paid before the patch applies, and the default of `malformed` sees to it
//! that writing no patch never beats a patch that applies and is bad at everything.
//!
//! | `fn` | range | value |
//! |---|---|---|
//! | `run_pytest` (`tests`) | 0 to 1 | `f2p_passed / f2p_total - p2p_broken / p2p_total`, not below 0; whatever the task's runner is |
//! | `type_check` (`compile`) | 0 or 1 | 1 if every `.py` and `.pyi` file that the patch leaves behind byte-compiles under the task's interpreter, in the sandbox; nothing of it is executed |
//! | `diff_size_penalty` | -1 to 0 | minus the larger of two shares: lines (added and removed) beyond the oracle's number, of all lines of the patch; files that the oracle does not touch, of all files of the patch. 0 for a patch no larger than the oracle's in the same files |
//! | `style_check` | 0 to 1 | share of added lines with none of: white space at the end, tabs where the file indents with spaces or the reverse, more characters than 120 and than the longest line of the file before, no line end where the file had one |
//! | `format_check` | 0 or 1 | 1 if the answer is exactly what the prompt asks for: edit blocks with nothing around them, or one ```` ```diff ```` fence alone |
//! | `command` | what it prints | see below |
//!
//! `penalty: true` takes 1 off the value, so that success costs nothing and failure costs
//! the weight: `{ fn: type_check, weight: 0.5, penalty: true }` is -0.5 for code that does
//! not compile. A component with a negative weight turns its value round.
//!
//! A `command` is a list of words and starts as a trusted program of this machine, not in
//! the sandbox and without a shell. It reads one JSON object (`instance_id`, `answer`,
//! `patch`, `files` as `{path: {before, after}}`, `outcome`, `parts`) and prints one
//! number. What it is given was written by the policy: it must not run it. A command that
//! fails, prints something else or takes longer than `timeout` seconds (60) makes the
//! answer *lost*: no reward, and the reason names the command.
//!
//! ```
//! use patchrl_reward::{Component, Mode, Outcome, Parts, RewardConfig};
//! let reward = RewardConfig::default().resolve()?;
//! let parts = Parts { valid_diff: true, applied: true, ..Parts::default() };
//! let of = |tests, compiles, size| {
//!     let values = [("tests_pass", tests, 1.0), ("compile_pass", compiles, 0.5), ("minimal_diff", size, 0.1)];
//!     let values = values.map(|(name, value, weight)| Component { name: name.into(), value, weight });
//!     reward.of(Mode::RuleBased, &Outcome::Failed, &parts, &values)
//! };
//! assert_eq!(of(1.0, 1.0, 0.0), Some(1.5)); // solved, compiles, as small as the oracle
//! assert_eq!(of(0.0, 1.0, -0.5), Some(0.45)); // unsolved, half of the patch unneeded
//! assert_eq!(of(0.0, 0.0, -1.0), Some(-0.1)); // the worst patch that applies
//! let none = Outcome::Malformed { why: "no diff and no edit block".into() };
//! assert_eq!(reward.of(Mode::RuleBased, &none, &Parts::default(), &[]), Some(-0.1));
//! # Ok::<(), patchrl_reward::RewardFault>(())
//! ```

use crate::config::Reward;
use crate::outcome::{Component, Parts};

pub(crate) fn value(reward: &Reward, parts: &Parts, components: &[Component]) -> f64 {
    if parts.applied {
        components.iter().map(|c| c.weight * c.value).sum()
    } else {
        reward.rule_malformed
    }
}
