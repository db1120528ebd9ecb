//! How good is it: shares of answers that are a patch, that apply, that resolve.

mod shares;

pub use shares::{EvalConfig, Evaluator, Shares};
