//! What the harness wants to know of an instance in order to read its log.

use patchrl_reward::harness::{
    Context, Dialect, EvalType, Expected, LogFault, Parser, Report, grade,
};
use patchrl_task::Task;
use serde_json::Value;

/// One instance, ready to grade logs of it.
#[derive(Clone, Debug)]
pub struct Instance {
    id: String,
    version: Option<String>,
    parser: Parser,
    eval_type: EvalType,
    fail_to_pass: Vec<String>,
    pass_to_pass: Vec<String>,
    dialect: Dialect,
}

/// A row that the harness could not grade.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// The row names a parser that is none.
    #[error("`{id}`: there is no log parser `{name}`")]
    NoSuchParser {
        /// The instance.
        id: String,
        /// The column's text.
        name: String,
    },
    /// The row names none, and none is known for its repository.
    #[error("`{id}`: no column `log_parser`, and no parser is known for `{repo}`")]
    NoParser {
        /// The instance.
        id: String,
        /// Its repository.
        repo: String,
    },
    /// Neither of the two words.
    #[error("`{id}`: `eval_type` is neither pass_and_fail nor fail_only")]
    EvalType {
        /// The instance.
        id: String,
    },
}

impl Instance {
    /// Version 4 goes by the repository, version 5 by the columns `log_parser` and
    /// `eval_type`. What a row or a table lacks is taken from the other.
    pub fn of(task: Task, dialect: Dialect) -> Result<Self, Unfit> {
        let id = task.id.as_str().to_owned();
        let column = task.extra.get("log_parser").and_then(Value::as_str);
        let named = column.map(|name| {
            let no_such = || Unfit::NoSuchParser { id: id.clone(), name: name.to_owned() };
            Parser::named(name).ok_or_else(no_such)
        });
        let of_repo = Parser::of_repo(&task.repo);
        let parser = match (dialect, named, of_repo) {
            (Dialect::V4, _, Some(parser)) | (_, None, Some(parser)) => parser,
            (_, Some(named), _) => named?,
            (_, None, None) => return Err(Unfit::NoParser { id, repo: task.repo }),
        };
        let eval_type = match (dialect, task.extra.get("eval_type")) {
            (Dialect::V5, Some(column)) => serde_json::from_value(column.clone())
                .map_err(|_| Unfit::EvalType { id: id.clone() })?,
            _ => EvalType::of_repo(&task.repo),
        };
        Ok(Self {
            id,
            version: task.version,
            parser,
            eval_type,
            fail_to_pass: task.fail_to_pass,
            pass_to_pass: task.pass_to_pass,
            dialect,
        })
    }

    /// Its name.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The report on a log of it; `has_patch` as in [`grade`].
    pub fn grade(&self, has_patch: bool, log: &str) -> Result<Report, LogFault> {
        grade(
            Expected {
                parser: self.parser,
                context: Context {
                    dialect: self.dialect,
                    instance_id: &self.id,
                    version: self.version.as_deref(),
                },
                eval_type: self.eval_type,
                fail_to_pass: &self.fail_to_pass,
                pass_to_pass: &self.pass_to_pass,
            },
            has_patch,
            log,
        )
    }
}
