//! `patchrl rollout`: answers and episodes, judged, and kept as chats to learn from.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use patchrl_agent::{Reply, ToolCall};
use patchrl_reward::Mode;
use patchrl_rollout::{Harvest, Keep};
use patchrl_task::Task;
use serde::Deserialize;
use serde_json::json;

use super::flags::{Common, ServerFlags, checked, set};
use crate::console::Console;
use crate::exit::{Exit, usage};
use crate::gather::{Gatherer, Who};
use crate::jsonl;
use crate::printer::{self, Form};
use crate::server;
use crate::session::{self, Session};
use crate::settings::{Environment, Settings};

#[derive(Debug, Args)]
pub(crate) struct Rollout {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    server: ServerFlags,
    /// The file of chats to write: JSON lines with `messages` and `provenance`, for
    /// `train sft --chats`.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Go on with the file: what was tried is not tried again.
    #[arg(long)]
    resume: bool,
    /// What is kept of what was judged: `resolved`, `applied` or `all`.
    #[arg(long, default_value = "resolved")]
    keep: Keep,
    /// Who answers: `model`, `gold` (the known answer as an agent would come to it) or
    /// `scripted:FILE`, JSON lines `{"task", "replies": [...]}` or those of `--trajectories`.
    #[arg(long, default_value = "model", value_name = "model|gold|scripted:FILE")]
    policy: String,
    /// Answers are episodes of an agent with tools, as `agent:` in the configuration says.
    #[arg(long)]
    agent: bool,
    /// Replies of an agent.
    #[arg(long)]
    turns: Option<u32>,
    /// Answers per task.
    #[arg(long, default_value_t = 1)]
    samples: u32,
    /// Which tasks: `train`, `held-out` or `all`.
    #[arg(long, value_enum, default_value = "train")]
    part: Part,
    /// Take this many tasks at most.
    #[arg(long)]
    limit: Option<usize>,
    /// The reward.
    #[arg(long, default_value = "tests")]
    reward_mode: Mode,
    /// Tokens of one reply.
    #[arg(long)]
    max_new_tokens: Option<usize>,
    /// Sampling temperature.
    #[arg(long)]
    temperature: Option<f32>,
    /// Write every episode here too, kept or not: a JSON object for each turn, and one for its end.
    #[arg(long, value_name = "FILE")]
    trajectories: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    Train,
    HeldOut,
    All,
}

pub(crate) fn run(flags: &Rollout, environment: &Environment) -> anyhow::Result<Exit> {
    let settings = checked(flags.settings()?)?;
    if flags.out.exists() && !flags.resume {
        return Err(usage(
            format!("`{}` is there already", flags.out.display()),
            "add `--resume` to go on with it, or name another file",
        ));
    }
    let session = Session::open(&settings, environment)?;
    let mut console = Console::new();
    console.say(&format!("sandbox: {}", session.sandbox.tier()));
    let who = flags.who(&session, &mut console)?;
    let mut tasks = session.tasks(|task| flags.wants(task, &who))?;
    tasks.truncate(flags.limit.unwrap_or(usize::MAX));
    let harvest = Harvest::open(&flags.out, flags.keep)?;
    let missing = |task: &Task| (0..flags.samples).any(|n| !harvest.is_done(task.id.as_str(), n));
    tasks.retain(missing);
    let ready = session.prepare(&tasks, &mut console)?;
    let label = match &who {
        Who::Model(_) => label(&settings),
        Who::Gold | Who::Scripts(_) => flags.policy.clone(),
    };
    let mut gatherer = Gatherer {
        session: &session,
        who,
        harvest,
        turns: flags.open_turns()?,
        samples: flags.samples.max(1),
        mode: flags.reward_mode,
        label,
        round: 0,
    };
    gatherer.gather(&ready, &mut console)?;
    let counts = gatherer.harvest.counts();
    let value = json!({ "out": flags.out, "counts": counts });
    printer::report(Form::of(flags.common.json), &value, || {
        format!(
            "{} of {} kept in {} ({} more say the same, {} lost)",
            counts.kept,
            counts.tried,
            flags.out.display(),
            counts.copies,
            counts.lost
        )
    })?;
    Ok(if counts.kept > 0 { Exit::Success } else { Exit::Negative })
}

/// What the one who answers is called: a server's model by its own name.
fn label(settings: &Settings) -> String {
    let served = settings.rollout.is_remote().then(|| settings.rollout.model.clone()).flatten();
    served.unwrap_or_else(|| settings.model.clone())
}

impl Rollout {
    fn settings(&self) -> anyhow::Result<Settings> {
        let mut settings = self.common.settings()?;
        self.server.over_asking(&mut settings, self.common.names_a_model());
        if self.agent || self.turns.is_some() || self.policy != "model" {
            settings.agent.get_or_insert_default();
        }
        if let Some(agent) = &mut settings.agent {
            set(&mut agent.turns, self.turns);
        }
        set(&mut settings.sampling.max_new_tokens, self.max_new_tokens);
        set(&mut settings.sampling.temperature, self.temperature);
        Ok(settings)
    }

    fn who(&self, session: &Session<'_>, console: &mut Console) -> anyhow::Result<Who> {
        match self.policy.split_once(':') {
            None if self.policy == "model" => {
                Ok(Who::Model(server::who(session, self.common.names_a_model(), console)?))
            }
            None if self.policy == "gold" => Ok(Who::Gold),
            Some(("scripted", file)) => Ok(Who::Scripts(scripts(Path::new(file))?)),
            _ => Err(usage(
                format!("there is no policy `{}`", self.policy),
                "take `model`, `gold`, or `scripted:FILE`",
            )),
        }
    }

    fn wants(&self, task: &Task, who: &Who) -> bool {
        let part = match self.part {
            Part::Train => session::is_train(task),
            Part::HeldOut => session::is_held_out(task),
            Part::All => true,
        };
        let known = match who {
            Who::Scripts(scripts) => scripts.contains_key(task.id.as_str()),
            Who::Model(_) | Who::Gold => true,
        };
        part && known
    }

    fn open_turns(&self) -> anyhow::Result<Option<fs_err::File>> {
        let open = |path| fs_err::OpenOptions::new().create(true).append(true).open(path);
        Ok(self.trajectories.as_ref().map(open).transpose()?)
    }
}

/// A line of a file of scripts.
#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Script {
        task: String,
        replies: Vec<String>,
    },
    Turn {
        task: String,
        sample: u32,
        message: String,
        #[serde(default)]
        native: Vec<ToolCall>,
        truncated: bool,
    },
    /// The end of an episode says nothing that was said.
    End {
        #[serde(rename = "end")]
        _end: String,
    },
}

/// Replies by task. Of recorded episodes the first sample counts.
fn scripts(file: &Path) -> anyhow::Result<BTreeMap<String, Vec<Reply>>> {
    use std::io::BufRead as _;
    let mut found: BTreeMap<String, Vec<Reply>> = BTreeMap::new();
    for (at, line) in jsonl::open(Some(file))?.lines().enumerate() {
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        let bad = |e: serde_json::Error| {
            usage(
                format!("`{}`, line {}: {e}", file.display(), at + 1),
                "a line is {\"task\": \"...\", \"replies\": [\"...\"]}, or one of `--trajectories`",
            )
        };
        match serde_json::from_str(&line).map_err(bad)? {
            Line::Script { task, replies } => {
                found.entry(task).or_default().extend(replies.into_iter().map(Reply::said));
            }
            Line::Turn { task, sample: 0, message, native, truncated } => {
                let reply = Reply { calls: native, truncated, ..Reply::said(message) };
                found.entry(task).or_default().push(reply);
            }
            Line::Turn { .. } | Line::End { .. } => {}
        }
    }
    Ok(found)
}
