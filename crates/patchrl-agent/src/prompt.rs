//! A task as a single-turn prompt: the issue, the files, and the form of the answer.
//!
//! Owns the words, and how files are left out and cut to the budget. Does not tokenize (the
//! caller counts) and never looks at the gold patch: which files are shown is
//! the caller's choice, where to cut them is decided by the issue's words alone.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use patchrl_model::Message;
use serde::{Deserialize, Serialize};

/// The form in which the model is asked to answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// SEARCH/REPLACE blocks: no line numbers to get wrong.
    #[default]
    Edit,
    /// A unified diff in a fence.
    Diff,
}

/// `prompt:` in a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PromptConfig {
    /// The form of the answer.
    pub format: Format,
    /// Tokens the whole prompt may take; files are cut until it fits.
    pub max_tokens: usize,
}

impl Default for PromptConfig {
    fn default() -> Self {
        Self { format: Format::Edit, max_tokens: 2048 }
    }
}

/// A file of the repository at the base commit, as the model will see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// Path from the repository's root.
    pub path: String,
    /// Its text.
    pub text: String,
    /// It is shown beside those that matter, and the first to be left out.
    pub beside: bool,
}

const SYSTEM: &str = "You fix bugs in code.";

/// Lines of one piece when a file has to be cut.
const PIECE: usize = 24;

/// The prompt for `issue` over `files`, within the budget as `count` measures it.
///
/// `count` gives the tokens of a text. Where everything fits, files are shown
/// whole; otherwise those that stand beside are left out, the longest first, until
/// it fits. Where the others alone do not, the pieces that share most words with
/// the issue are kept, in order, and the gaps are named by their line numbers.
pub fn messages(
    issue: &str,
    files: &[SourceFile],
    config: &PromptConfig,
    count: &dyn Fn(&str) -> usize,
) -> Vec<Message> {
    let issue = fit_issue(issue, config.max_tokens / 2, count);
    // The template's own markers take a few tokens per message.
    let budget = config.max_tokens.saturating_sub(count(SYSTEM) + 16);
    let mut files: Vec<&SourceFile> = files.iter().collect();
    let user = loop {
        let whole: Vec<Vec<bool>> = files.iter().map(|f| vec![true; pieces(&f.text)]).collect();
        let user = render(&issue, &files, &whole, config.format);
        if count(&user) <= budget {
            break user;
        }
        let beside = files.iter().enumerate().filter(|(_, file)| file.beside);
        let Some((longest, _)) = beside.max_by_key(|(_, file)| file.text.len()) else {
            break fit_files(&issue, &files, config.format, budget, count);
        };
        files.remove(longest);
    };
    vec![Message::new("system", SYSTEM), Message::new("user", user)]
}

fn pieces(text: &str) -> usize {
    text.lines().count().div_ceil(PIECE)
}

fn render(issue: &str, files: &[&SourceFile], keep: &[Vec<bool>], format: Format) -> String {
    let mut out = format!("{}\n", issue.trim());
    for (file, keep) in files.iter().zip(keep) {
        let _ = write!(out, "\n{}\n```\n", file.path);
        let lines: Vec<&str> = file.text.lines().collect();
        let mut gap = None;
        for (piece, (&kept, chunk)) in keep.iter().zip(lines.chunks(PIECE)).enumerate() {
            if !kept {
                gap.get_or_insert(piece);
                continue;
            }
            if let Some(first) = gap.take() {
                let _ =
                    writeln!(out, "[lines {} to {} left out]", first * PIECE + 1, piece * PIECE);
            }
            for line in chunk {
                out.push_str(line);
                out.push('\n');
            }
        }
        if let Some(first) = gap {
            let _ = writeln!(out, "[lines {} to {} left out]", first * PIECE + 1, lines.len());
        }
        out.push_str("```\n");
    }
    out.push_str(match format {
        Format::Edit => {
            "\nAnswer with one edit per change:\n### path\n<<<<<<< SEARCH\nlines of the file\n\
             =======\nnew lines\n>>>>>>> REPLACE\n"
        }
        Format::Diff => "\nAnswer with a unified diff in a ```diff fence.\n",
    });
    out
}

/// Cut a long issue at a line's end so that it takes at most `budget` tokens.
fn fit_issue(issue: &str, budget: usize, count: &dyn Fn(&str) -> usize) -> String {
    if count(issue) <= budget {
        return issue.to_owned();
    }
    let lines: Vec<&str> = issue.lines().collect();
    let fits = |n: usize| count(&lines[..n].join("\n")) <= budget;
    let (mut low, mut high) = (0, lines.len());
    while low < high {
        let middle = (low + high).div_ceil(2);
        if fits(middle) { low = middle } else { high = middle - 1 }
    }
    format!("{}\n[the rest of the issue is left out]", lines[..low].join("\n"))
}

/// Add pieces by falling agreement with the issue until the budget is spent.
fn fit_files(
    issue: &str,
    files: &[&SourceFile],
    format: Format,
    budget: usize,
    count: &dyn Fn(&str) -> usize,
) -> String {
    let wanted = words(issue);
    let mut ranked = Vec::new();
    for (f, file) in files.iter().enumerate() {
        let lines: Vec<&str> = file.text.lines().collect();
        for (p, chunk) in lines.chunks(PIECE).enumerate() {
            let text = chunk.join("\n");
            let score = words(&text).intersection(&wanted).map(|w| w.len()).sum::<usize>();
            ranked.push((std::cmp::Reverse(score), f, p, count(&text)));
        }
    }
    ranked.sort_unstable();
    let mut keep: Vec<Vec<bool>> = files.iter().map(|f| vec![false; pieces(&f.text)]).collect();
    // A gap's line and the newlines between pieces cost about this much.
    let mut spent = count(&render(issue, files, &keep, format));
    for (_, f, p, cost) in ranked {
        if spent + cost + 12 <= budget {
            keep[f][p] = true;
            spent += cost + 12;
        }
    }
    render(issue, files, &keep, format)
}

/// The words of a text that can name something: letters, digits, underscore, at least four.
fn words(text: &str) -> BTreeSet<&str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|w| w.len() >= 4).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words_counted(text: &str) -> usize {
        text.split_whitespace().count()
    }

    fn file(path: &str, text: &str) -> SourceFile {
        SourceFile { path: path.into(), text: text.into(), beside: false }
    }

    #[test]
    fn files_beside_go_first_where_there_is_no_room() {
        let beside = |path, words| SourceFile { beside: true, ..file(path, &"w ".repeat(words)) };
        let files = [beside("a.py", 90), file("b.py", &"w ".repeat(60)), beside("c.py", 120)];
        let shown = |max_tokens| {
            let config = PromptConfig { max_tokens, ..Default::default() };
            let user = messages("it fails", &files, &config, &words_counted).remove(1).content;
            files
                .iter()
                .filter(|it| user.contains(&it.path))
                .map(|it| it.path.clone())
                .collect::<Vec<_>>()
        };
        let shown = [400, 250, 150].map(shown);
        assert_eq!(shown, [vec!["a.py", "b.py", "c.py"], vec!["a.py", "b.py"], vec!["b.py"]]);
        let config = PromptConfig { max_tokens: 60, ..Default::default() };
        let alone = messages("it fails", &files[1..2], &config, &words_counted);
        assert_eq!(messages("it fails", &files, &config, &words_counted), alone);
    }

    #[test]
    fn a_small_file_is_shown_whole_and_the_form_is_named() {
        let files = [file("a.py", "def f():\n    return 1\n")];
        let got = messages("f() is wrong", &files, &PromptConfig::default(), &words_counted);
        assert_eq!(got[0].role, "system");
        assert!(got[1].content.contains("a.py\n```\ndef f():\n    return 1\n```\n"));
        assert!(got[1].content.contains("<<<<<<< SEARCH"));
    }

    #[test]
    fn a_long_file_keeps_the_pieces_the_issue_names() {
        let mut text = String::new();
        for i in 0..400 {
            let _ = writeln!(text, "def filler_{i}(): return {i}");
        }
        text.push_str("def parse_header(line): return line\n");
        let files = [file("a.py", &text)];
        let config = PromptConfig { max_tokens: 300, ..Default::default() };
        let got = messages("parse_header fails", &files, &config, &words_counted);
        let user = &got[1].content;
        assert!(user.contains("def parse_header(line)"), "{user}");
        assert!(user.contains("left out]"));
        assert!(words_counted(user) <= 300);
    }

    #[test]
    fn a_long_issue_is_cut_and_says_so() {
        let issue = "one two three four\n".repeat(500);
        let config = PromptConfig { max_tokens: 200, ..Default::default() };
        let got = messages(&issue, &[], &config, &words_counted);
        assert!(got[1].content.contains("the rest of the issue is left out"));
        assert!(words_counted(&got[1].content) <= 200);
    }
}
