//! GRPO: advantages, the loss of a token, and one update of the weights.

mod advantage;
mod loss;
mod update;

pub use advantage::{Scale, advantages};
pub use loss::{Loss, Term, Token};
pub use update::{Answer, Batch, Update, Updater};
