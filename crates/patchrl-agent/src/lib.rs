//! One episode: what the model is asked, and what a perfect answer looks like.

mod answer;
mod function;
mod policy;
mod prompt;

pub use answer::{Change, gold_answer};
pub use function::{function_answer, function_messages};
pub use policy::{Policy, PolicyFault, Question, Reply, Sampled, ToolCall, ToolSpec};
pub use prompt::{Format, PromptConfig, SourceFile, messages};
