//! One episode: what the model is asked, what it does, and what a perfect answer looks like.
//!
//! Open [`messages`] for answers of one turn, [`Crew`] for agents with tools, [`Policy`] for who
//! answers.

mod action;
mod answer;
mod command;
mod config;
mod crew;
mod episode;
mod function;
mod observation;
mod policy;
mod prompt;
mod protocol;
mod related;
mod rows;
mod scripted;
mod thought;
mod tools;
mod trajectory;
mod workspace;

pub use action::Call;
pub use answer::{Change, gold_answer};
pub use command::DROPPINGS;
pub use config::{AgentConfig, Overflow};
pub use crew::{Crew, Played, Start, Voice};
pub use episode::{End, Episode, Observed};
pub use function::{function_answer, function_messages};
pub use policy::{Policy, PolicyFault, Question, Reply, Sampled, ToolCall, ToolSpec};
pub use prompt::{Format, PromptConfig, SourceFile, messages};
pub use protocol::{Calling, opening};
pub use related::{MOST_RELATED, related_messages, related_paths};
pub use rows::Row;
pub use scripted::Scripted;
pub use thought::{Budget, CLOSING, Rest};
pub use tools::tool_specs;
pub use trajectory::{Trajectory, Turn};
pub use workspace::{Ground, Runner};
