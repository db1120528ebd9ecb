//! Tokens per step if the model gave the gold patch: the most that copying ahead can bring.
//!
//! `zcat TASKS.jsonl.gz | cargo run --release -p patchrl-model --example copies -- MODEL REPOS [COUNT]`
//!
//! Tasks are records of SWE-bench; `REPOS/<owner+name>/repo` are git directories. The prompt is
//! the issue and every file that the patch changes, whole; the answer is the patch as it stands,
//! or its hunks as SEARCH/REPLACE blocks. Tasks whose repository is not there are passed over.
#![expect(clippy::print_stdout, reason = "an example that prints its measurements")]

use std::path::{Path, PathBuf};

use patchrl_model::{Policy, Suffixes, Tokenizer, diff_forms};
use serde_json::Value;

const DRAFTS: [usize; 4] = [4, 8, 16, 32];

/// One task, read.
struct Task {
    issue: String,
    /// Path and text.
    files: Vec<(String, String)>,
    patch: String,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [model, repos, count @ ..] = arguments.as_slice() else { return };
    let count = count.first().and_then(|text| text.parse().ok()).unwrap_or(50);
    let Ok(policy) = Policy::load(Path::new(model)) else { return };
    let tasks: Vec<Task> = std::io::stdin()
        .lines()
        .map_while(Result::ok)
        .filter_map(|line| read(&line, Path::new(repos)))
        .take(count)
        .collect();
    let tokenizer = &policy.tokenizer;
    let prompts: Vec<Vec<u32>> = tasks.iter().map(|task| tokenizer.encode(&prompt(task))).collect();
    let mut lengths: Vec<usize> = prompts.iter().map(Vec::len).collect();
    lengths.sort_unstable();
    println!("{} tasks, prompts of {} tokens in the middle", tasks.len(), lengths[tasks.len() / 2]);
    let diffs = |task: &Task| tokenizer.encode(&task.patch);
    let edits = |task: &Task| tokenizer.encode(&edits(&task.patch));
    let none = |_: &Task| Vec::new();
    let forms = |task: &Task| forms(task, tokenizer);
    table("diff", (&tasks, &prompts), &diffs, &none);
    table("diff, with the files' lines in its form", (&tasks, &prompts), &diffs, &forms);
    table("SEARCH/REPLACE", (&tasks, &prompts), &edits, &none);
}

fn table(
    name: &str,
    (tasks, prompts): (&[Task], &[Vec<u32>]),
    answer: &dyn Fn(&Task) -> Vec<u32>,
    also: &dyn Fn(&Task) -> Vec<Vec<u32>>,
) {
    let mut steps = [0; DRAFTS.len()];
    let mut tokens = 0;
    for (task, prompt) in tasks.iter().zip(prompts) {
        let (answer, also) = (answer(task), also(task));
        tokens += answer.len();
        for (steps, draft) in steps.iter_mut().zip(DRAFTS) {
            *steps += steps_of(prompt, &also, &answer, draft);
        }
    }
    let per_step = DRAFTS
        .iter()
        .zip(steps)
        .map(|(draft, steps)| format!("k={draft} {:.2}", tokens as f64 / f64::from(steps)));
    println!("{name}: {tokens} tokens; a step: {}", per_step.collect::<Vec<_>>().join(", "));
}

/// Steps of a model that gives `answer`, copying up to `draft` tokens ahead.
fn steps_of(prompt: &[u32], also: &[Vec<u32>], answer: &[u32], draft: usize) -> u32 {
    let mut texts = Suffixes::new();
    texts.add(prompt);
    for text in also {
        texts.add(text);
    }
    let own = texts.add(&[]);
    let (mut at, mut steps) = (0, 0);
    while at < answer.len() {
        let copied = texts.continuation(own).map_or(&[][..], |copied| copied.tokens);
        let right = copied.iter().take(draft).zip(&answer[at..]).take_while(|(a, b)| a == b);
        let drawn = (right.count() + 1).min(answer.len() - at);
        for &token in &answer[at..at + drawn] {
            texts.extend(own, token);
        }
        at += drawn;
        steps += 1;
    }
    steps
}

fn forms(task: &Task, tokenizer: &Tokenizer) -> Vec<Vec<u32>> {
    task.files.iter().flat_map(|(path, text)| diff_forms(path, text, tokenizer)).collect()
}

fn prompt(task: &Task) -> String {
    let file = |(path, text): &(String, String)| format!("\n### {path}\n```\n{text}```\n");
    task.issue.clone() + &task.files.iter().map(file).collect::<String>()
}

/// The hunks of a diff as blocks.
fn edits(patch: &str) -> String {
    let (mut path, mut blocks) = ("", String::new());
    let mut hunks: Vec<(&str, String, String)> = Vec::new();
    for line in patch.lines() {
        if let Some(new) = line.strip_prefix("+++ b/") {
            path = new;
        } else if line.starts_with("@@") {
            hunks.push((path, String::new(), String::new()));
        } else if line.starts_with("diff ") {
            path = "";
        } else if !path.is_empty()
            && let Some((_, old, new)) = hunks.last_mut()
        {
            let (mark, text) = line.split_at(line.len().min(1));
            if mark != "+" {
                *old += &format!("{text}\n");
            }
            if mark != "-" {
                *new += &format!("{text}\n");
            }
        }
    }
    for (path, old, new) in hunks {
        blocks += &format!("### {path}\n<<<<<<< SEARCH\n{old}=======\n{new}>>>>>>> REPLACE\n");
    }
    blocks
}

fn read(line: &str, repos: &Path) -> Option<Task> {
    let record: Value = serde_json::from_str(line).ok()?;
    let text = |key: &str| record[key].as_str().map(str::to_owned);
    let repo = repos.join(text("repo")?.replace('/', "+")).join("repo");
    let (patch, commit) = (text("patch")?, text("base_commit")?);
    let files = patch
        .lines()
        .filter_map(|line| line.strip_prefix("--- a/"))
        .filter_map(|path| Some((path.to_owned(), show(&repo, &format!("{commit}:{path}"))?)))
        .collect::<Vec<_>>();
    (!files.is_empty()).then_some(Task { issue: text("problem_statement")?, files, patch })
}

#[expect(clippy::disallowed_methods, reason = "an example that reads git's objects by itself")]
fn show(repo: &PathBuf, object: &str) -> Option<String> {
    let mut git = std::process::Command::new("git");
    let output = git.arg("--git-dir").arg(repo).args(["show", object]).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}
