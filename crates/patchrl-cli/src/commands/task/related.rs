//! `patchrl task related`: ask a strong model for files that stand near each change and need none.
//!
//! Owns the answers on disk, by what was asked of whom, and which named files are fit. The words
//! are `patchrl_agent`'s.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use patchrl_agent::{
    DROPPINGS, MOST_RELATED, Policy as _, PolicyFault, Question, related_messages, related_paths,
};
use patchrl_model::Message;
use patchrl_patch::{Mode, Tree as _};
use patchrl_reward::{FsTree, Preparer};
use patchrl_rollout::SamplingConfig;
use patchrl_rollout::openai::OpenAi;
use patchrl_task::{Task, TaskId};
use patchrl_train::Listener as _;
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::super::flags::{ServerFlags, checked};
use crate::console::Console;
use crate::exit::{Exit, usage};
use crate::printer::{self, Form};
use crate::settings::{Environment, Settings};
use crate::{server, session};

/// Bytes of a file that may be named.
const LARGEST: usize = 100_000;

#[derive(Debug, Args)]
pub(crate) struct Related {
    /// `toy`, a file of SWE-bench rows, or a data set of the hub.
    tasks: String,
    /// Folder with local clones of the tasks' repositories.
    #[arg(long, value_name = "DIR")]
    repos: Option<PathBuf>,
    #[command(flatten)]
    server: ServerFlags,
    /// Tokens of one answer.
    #[arg(long, default_value_t = 2048)]
    max_new_tokens: usize,
    /// The file to write: the same rows as JSON lines, also `.gz` and `.zst`.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

/// What became of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Fate {
    /// The row names its files now.
    Named,
    /// It did so before.
    Kept,
    /// The answer names no file that is fit.
    NoneFit,
    /// The answer is no list of paths.
    Unreadable,
    /// There is no answer.
    Lost,
}

impl Fate {
    const ALL: [Self; 5] = [Self::Named, Self::Kept, Self::NoneFit, Self::Unreadable, Self::Lost];

    fn words(self) -> &'static str {
        match self {
            Self::Named => "named",
            Self::Kept => "had theirs already",
            Self::NoneFit => "without a file that is fit",
            Self::Unreadable => "with an answer that cannot be read",
            Self::Lost => "lost",
        }
    }
}

pub(super) fn run(flags: &Related, environment: &Environment) -> anyhow::Result<Exit> {
    let mut settings = Settings { repos: flags.repos.clone(), ..Settings::default() };
    flags.server.over_asking(&mut settings, false);
    settings.sampling = SamplingConfig {
        temperature: 0.0,
        max_new_tokens: flags.max_new_tokens,
        ..settings.sampling
    };
    let settings = checked(settings)?;
    let mut tasks = session::load_tasks(&flags.tasks, environment)?;
    let server = server::open(&settings)?.ok_or_else(|| {
        usage("there is nobody to ask", "name the server of a strong model with `--base-url`")
    })?;
    let asker = Asker {
        server: server.drawing(&settings.sampling, Vec::new()),
        preparer: Preparer::new(flags.repos.clone(), &environment.cache),
        answers: Answers(environment.cache.join("related")),
        most: flags.max_new_tokens,
    };
    let mut console = Console::new();
    let found = asker.all(&tasks, settings.rollout.concurrency, &mut console)?;
    let mut counts: BTreeMap<Fate, u64> = Fate::ALL.map(|fate| (fate, 0)).into();
    for task in &mut tasks {
        let Some(found) = found.get(&task.id) else { continue };
        *counts.entry(found.fate).or_default() += 1;
        if found.fate == Fate::Named {
            task.set_related_files(&found.paths);
        }
    }
    patchrl_task::save(&flags.out, &tasks)?;
    let asked = found.values().filter(|it| it.asked).count();
    let problems: Vec<_> = tasks
        .iter()
        .filter_map(|task| found.get(&task.id)?.why.as_ref().map(|why| (&task.id, why)))
        .map(|(task, why)| json!({ "task": task, "why": why }))
        .collect();
    let value = json!({ "out": flags.out, "tasks": tasks.len(), "asked": asked, "counts": counts,
                        "problems": problems });
    printer::report(Form::of(flags.json), &value, || {
        let counted = counts.iter().filter(|(_, n)| **n > 0);
        let words: Vec<String> = counted.map(|(fate, n)| format!("{n} {}", fate.words())).collect();
        format!("{} tasks in {}: {}", tasks.len(), flags.out.display(), words.join(", "))
    })?;
    let some = counts[&Fate::Named] + counts[&Fate::Kept] > 0;
    Ok(if some { Exit::Success } else { Exit::Negative })
}

/// What was found for a task.
struct Found {
    fate: Fate,
    paths: Vec<String>,
    /// Why there are none.
    why: Option<String>,
    /// Whether the server was asked, and not the disk.
    asked: bool,
}

/// Who is asked, about which trees.
struct Asker {
    server: OpenAi,
    preparer: Preparer,
    answers: Answers,
    most: usize,
}

impl Asker {
    /// All tasks, several at a time. What only the user can mend ends it; answers that came stay.
    fn all(
        &self,
        tasks: &[Task],
        workers: usize,
        console: &mut Console,
    ) -> anyhow::Result<BTreeMap<TaskId, Found>> {
        let (mut all, mut fault) = (BTreeMap::new(), None);
        let total = tasks.len() as u64;
        console.progress("asking", 0, total);
        patchrl_eval::crew(
            tasks,
            workers,
            |task| self.one(task),
            |task, found| {
                match found {
                    Ok(found) => {
                        if let Some(why) = &found.why {
                            console.say(&format!("{}: {why}", task.id));
                        }
                        all.insert(task.id.clone(), found);
                        console.progress("asking", all.len() as u64, total);
                    }
                    Err(e) => fault = fault.take().or(Some(e)),
                }
                fault.is_none()
            },
        );
        console.clear();
        fault.map_or(Ok(all), Err)
    }

    fn one(&self, task: &Task) -> anyhow::Result<Found> {
        if !task.related_files().is_empty() {
            return Ok(Found { fate: Fate::Kept, paths: Vec::new(), why: None, asked: false });
        }
        let tree = FsTree::new(self.preparer.start_tree(task)?);
        let changed = task.touched_files();
        let mut others = tree.files(&DROPPINGS)?;
        let taken: BTreeSet<String> = changed.iter().cloned().chain(task.test_files()).collect();
        others.retain(|path| !taken.contains(path));
        let chat = related_messages(&task.problem_statement, &changed, &others);
        let key = self.answers.key(&self.server.model(), &chat, self.most)?;
        let (answer, asked) = match Answers::get(&key)? {
            Some(answer) => (answer, false),
            None => match self.ask(&chat) {
                Ok(answer) => {
                    self.answers.set(&key, &task.id, &answer)?;
                    (answer, true)
                }
                Err(fatal @ PolicyFault::Fatal { .. }) => return Err(server::fault(fatal)),
                Err(lost) => {
                    let why = Some(lost.to_string());
                    return Ok(Found { fate: Fate::Lost, paths: Vec::new(), why, asked: true });
                }
            },
        };
        let (fate, paths, why) = match related_paths(&answer) {
            Err(why) => (Fate::Unreadable, Vec::new(), Some(why)),
            Ok(named) => {
                let paths = fit(&named, &others, &tree)?;
                let none = paths.is_empty().then(|| format!("of {named:?} no file is fit"));
                (if none.is_some() { Fate::NoneFit } else { Fate::Named }, paths, none)
            }
        };
        Ok(Found { fate, paths, why, asked })
    }

    fn ask(&self, chat: &[Message]) -> Result<String, PolicyFault> {
        let question =
            Question { chat, tokens: None, tools: &[], seed: 0, max_new_tokens: self.most };
        let reply = self.server.ask(&[question]).pop();
        let none = || Err(PolicyFault::Lost("the server did not answer".into()));
        reply.unwrap_or_else(none).map(|reply| reply.text)
    }
}

/// The first of the named files that are among `others`, once each, and are text of a size that can
/// be shown.
fn fit(named: &[String], others: &BTreeSet<String>, tree: &FsTree) -> anyhow::Result<Vec<String>> {
    let mut paths: Vec<String> = Vec::new();
    for path in named.iter().filter(|path| others.contains(*path)) {
        let Some(entry) = tree.entry(path)? else { continue };
        let text = entry.bytes.len() <= LARGEST && std::str::from_utf8(&entry.bytes).is_ok();
        if text && entry.mode != Mode::Symlink && !paths.contains(path) {
            paths.push(path.clone());
        }
    }
    paths.truncate(MOST_RELATED);
    Ok(paths)
}

/// Answers that came, by what was asked of which model.
struct Answers(PathBuf);

/// One of them.
#[derive(Serialize, Deserialize)]
struct Answer {
    answer: String,
}

impl Answers {
    fn key(&self, model: &str, chat: &[Message], most: usize) -> anyhow::Result<PathBuf> {
        let hash = Sha256::digest(serde_json::to_vec(&(model, chat, most))?);
        let name: String = hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        Ok(self.0.join(name + ".json"))
    }

    /// A file that is damaged is no answer.
    fn get(file: &Path) -> anyhow::Result<Option<String>> {
        if !file.exists() {
            return Ok(None);
        }
        let found: Option<Answer> = serde_json::from_slice(&fs_err::read(file)?).ok();
        Ok(found.map(|it| it.answer))
    }

    /// Whole or not at all. Two tasks may ask the same.
    fn set(&self, file: &Path, task: &TaskId, answer: &str) -> anyhow::Result<()> {
        fs_err::create_dir_all(&self.0)?;
        let part = file.with_extension(format!("{task}.{}.part", std::process::id()));
        fs_err::write(&part, serde_json::to_vec(&Answer { answer: answer.to_owned() })?)?;
        fs_err::rename(part, file).context("an answer cannot be kept")
    }
}
