//! How good is it: shares of answers that are a patch, that apply, that resolve; the SWE-bench
//! harness's verdicts and reports; a few answers before a run; shares of problems of one function; comparisons of two runs.

mod answers;
mod checkup;
mod compare;
mod crew;
mod functions;
pub mod harness;
mod lines;
mod shares;
mod verdicts;

pub use answers::{Answered, Answers};
pub use checkup::{CheckReport, Checkup, Repeat, Sampled, Verdict as CheckVerdict};
pub use compare::{Comparison, compare, pass_at_k};
pub use crew::crew;
pub use functions::{FunctionShares, function_shares};
pub use lines::LinesError;
pub use shares::{EvalConfig, Evaluator, Shares};
pub use verdicts::{Verdict, Verdicts, Work};
