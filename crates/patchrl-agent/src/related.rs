//! Files that stand near a change and need none: what a strong model is asked for them, and what of
//! its answer is read.
//!
//! Shown among the files that are to change, they keep a prompt from giving away where to edit.
//! Owns the words and which paths are listed: those nearest to a changed file first, by the folders
//! they share, then by path, up to [`MOST_LISTED`] paths and [`MOST_BYTES`] bytes. Whether a named
//! file is fit the caller says, who has the tree.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use patchrl_model::Message;

/// Files that are asked for.
pub const MOST_RELATED: usize = 5;
/// Paths that are listed, and their bytes together.
const MOST_LISTED: usize = 400;
const MOST_BYTES: usize = 16 << 10;
/// Bytes of an issue that are shown.
const MOST_ISSUE: usize = 16 << 10;

/// The question for `issue`, whose answer changes `changed`, with `others` to choose from.
pub fn related_messages(
    issue: &str,
    changed: &[String],
    others: &BTreeSet<String>,
) -> Vec<Message> {
    let listed = listed(changed, others);
    let user = format!(
        "{}\n\nThe change that resolves this touches:\n{}\n\nOther files of the repository ({} of \
         {}):\n{}\n\nWhich of these other files would somebody read to understand the issue or to \
         make the change, although they need no change themselves? Name up to {MOST_RELATED}, the \
         most related first. Answer with a JSON list of their paths and nothing else, such as \
         [\"a/b.py\", \"a/c.py\"].",
        head(issue.trim(), MOST_ISSUE),
        changed.join("\n"),
        listed.len(),
        others.len(),
        listed.join("\n"),
    );
    vec![Message::new("user", user)]
}

/// The nearest of `others` to any of `changed`.
fn listed<'o>(changed: &[String], others: &'o BTreeSet<String>) -> Vec<&'o str> {
    let nearness = |path: &str| changed.iter().map(|it| shared(it, path)).max();
    let mut ranked: Vec<_> = others.iter().map(|path| (Reverse(nearness(path)), path)).collect();
    ranked.sort_unstable();
    let mut left = MOST_BYTES;
    let fits = |path: &&str| {
        left = left.saturating_sub(path.len() + 1);
        left > 0
    };
    let paths = ranked.into_iter().map(|(_, path)| path.as_str());
    paths.take(MOST_LISTED).take_while(fits).collect()
}

/// Whether two files lie in the same folder, and how many folders from the root on they share.
fn shared(a: &str, b: &str) -> (bool, usize) {
    let folders = |path| -> Vec<&str> { str::rsplit_once(path, '/').map_or(vec![], split) };
    let (a, b) = (folders(a), folders(b));
    (a == b, a.iter().zip(&b).take_while(|(a, b)| a == b).count())
}

fn split<'p>((folders, _): (&'p str, &'p str)) -> Vec<&'p str> {
    folders.split('/').collect()
}

/// The first bytes of a text, up to the end of a character.
fn head(text: &str, most: usize) -> &str {
    let fits = |at: &usize| text.is_char_boundary(*at);
    &text[..(0..=most.min(text.len())).rev().find(fits).unwrap_or(0)]
}

/// The paths that an answer names: a JSON list of text, bare or in a fence, after any thought.
pub fn related_paths(answer: &str) -> Result<Vec<String>, String> {
    let answer = answer.rsplit_once("</think>").map_or(answer, |(_, after)| after).trim();
    let list = if answer.starts_with('[') {
        answer
    } else {
        let fenced = answer.split("```").skip(1).step_by(2).last();
        let fenced = fenced.ok_or("the answer is no JSON list, and holds none in a fence")?;
        let named = |(word, list)| if str::trim(word) == "json" { list } else { fenced };
        fenced.split_once('\n').map_or(fenced, named)
    };
    let paths: Vec<String> = serde_json::from_str(list.trim())
        .map_err(|e| format!("the list is no list of text: {e}"))?;
    Ok(paths.into_iter().map(|it| it.trim().trim_start_matches("./").to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_bare_or_in_a_fence_and_nothing_else_is() {
        for text in [
            "[\"a.py\", \"./b/c.py\"]",
            " [\n\"a.py\",\n \" b/c.py\"] ",
            "```json\n[\"a.py\", \"b/c.py\"]\n```",
            "These two:\n```\n[\"a.py\", \"b/c.py\"]\n```\nThey call it.",
            "<think>[\"x.py\"]</think>\n[\"a.py\", \"b/c.py\"]",
        ] {
            assert_eq!(related_paths(text).unwrap(), ["a.py", "b/c.py"], "{text}");
        }
        assert!(related_paths("[]").unwrap().is_empty());
        for text in ["", "a.py", "[\"a.py\"", "[1]", "{\"a\": []}", "```\nx\n```", "[\"a\"] so"] {
            assert!(related_paths(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_nearest_files_are_listed_first_and_the_list_has_a_bound() {
        let paths = ["z.py", "p/q/far.py", "p/a.py", "r/s.py", "p/q/r/x.py", "p/b.py"];
        let others: BTreeSet<String> = paths.iter().map(|it| (*it).to_owned()).collect();
        let changed = ["p/c.py".to_owned()];
        let want = ["p/a.py", "p/b.py", "p/q/far.py", "p/q/r/x.py", "r/s.py", "z.py"];
        assert_eq!(listed(&changed, &others), want);
        let many: BTreeSet<String> = (0..2000).map(|n| format!("p/{n:04}.py")).collect();
        assert_eq!(listed(&changed, &many).len(), MOST_LISTED);
        let long: BTreeSet<String> = (0..20).map(|n| format!("p/{n}{}", "é".repeat(999))).collect();
        assert_eq!(listed(&changed, &long).len(), 8);
        let asked = related_messages(&"é".repeat(9000), &changed, &long);
        assert!(asked[0].content.len() < MOST_BYTES + MOST_ISSUE + 1000);
    }
}
