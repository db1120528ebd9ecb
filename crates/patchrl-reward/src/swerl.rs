//! The reward of the SWE-RL paper (arXiv 2502.18449), as its released code computes it.
//!
//! Owns the answer's format (tags, SEARCH/REPLACE blocks, read strictly), the files that
//! come out of it, and the mean similarity of the diffs per file. Numbers equal those of
//! `swerl.core.reward` bit for bit, its quirks included: see [`from_answer`]. One thing the
//! original leaves open: it adds the files' similarities up in the order of a Python set,
//! which changes from run to run; here it is the order of the paths.

pub(crate) mod unidiff;

use std::collections::{BTreeMap, BTreeSet};

use patchrl_patch::{Autojunk, TooLong, python_diff, ratio};

use crate::python::strip;

/// Path to the whole text of a file.
pub type Texts = BTreeMap<String, String>;

/// The reward of an answer that breaks the format.
pub const FORMAT_PENALTY: f64 = -1.0;

/// Largest file that blocks may grow to, in bytes: a search text that is found everywhere,
/// replaced by a longer one again and again, doubles each time.
const LARGEST: usize = 64 << 20;

/// A reward, and why it is the penalty where it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Score {
    /// From 0 to 1, or [`FORMAT_PENALTY`].
    pub reward: f64,
    /// What breaks the format, in the words of the original.
    pub error: Option<String>,
}

/// `calculate_search_replace_reward(context, oracle, output)`: the mean over all files that
/// the answer or the oracle changes of `ratio(diff of the answer, diff of the oracle)`, 0
/// where only one of them changes a file, 1 where neither changes any; −1 for an answer
/// that breaks the format.
///
/// `context` holds files as they are, `oracle` files as they should become, by path. A
/// block replaces *every* place that holds its search text after a line end.
///
/// ```
/// use patchrl_reward::swerl::{Texts, from_answer};
/// let file = |text: &str| Texts::from([("a.py".to_owned(), text.to_owned())]);
/// let answer = "<think>\nt\n</think>\n<solution>\n```python\n### a.py\n<<<<<<< SEARCH\n\
///               x = 1\n=======\nx = 2\n>>>>>>> REPLACE\n```\n</solution>";
/// let score = from_answer(&file("x = 1\n"), &file("x = 3\n"), answer)?;
/// assert_eq!(score.reward, 0.96);
/// let score = from_answer(&file("x = 1\n"), &file("x = 3\n"), "x = 3")?;
/// assert_eq!(score.error.as_deref(), Some("count of <think> is not 1"));
/// # Ok::<(), patchrl_patch::TooLong>(())
/// ```
pub fn from_answer(context: &Texts, oracle: &Texts, output: &str) -> Result<Score, TooLong> {
    let predicted = match answered(context, output)? {
        Ok(predicted) => predicted,
        Err(error) => return Ok(Score { reward: FORMAT_PENALTY, error: Some(error) }),
    };
    Ok(Score { reward: from_files(context, oracle, &predicted)?, error: None })
}

/// `calculate_reward(context, oracle, predicted)`: the same for files however they came about.
pub fn from_files(context: &Texts, oracle: &Texts, predicted: &Texts) -> Result<f64, TooLong> {
    mean(&diffs(context, predicted)?, &diffs(context, oracle)?)
}

/// `calculate_reward_unidiff(oracle, predicted)`: the same for diffs, as `unidiff` 0.7.5
/// reads them. A diff that it does not read changes no file.
pub fn from_diffs(oracle: &[String], predicted: &[String]) -> Result<f64, TooLong> {
    let read = |diffs: &[String]| -> Texts {
        diffs.iter().flat_map(|text| unidiff::by_file(text).unwrap_or_default()).collect()
    };
    mean(&read(predicted), &read(oracle))
}

/// The diff of each file that differs.
fn diffs(context: &Texts, new: &Texts) -> Result<Texts, TooLong> {
    let mut diffs = Texts::new();
    for (path, text) in new {
        let diff = python_diff(context.get(path).map_or("", String::as_str), text)?;
        if !diff.is_empty() {
            diffs.insert(path.clone(), diff);
        }
    }
    Ok(diffs)
}

fn mean(predicted: &Texts, oracle: &Texts) -> Result<f64, TooLong> {
    let paths: BTreeSet<&String> = predicted.keys().chain(oracle.keys()).collect();
    if paths.is_empty() {
        return Ok(1.0);
    }
    let mut sum = 0.0;
    for path in &paths {
        let changes = (predicted.get(*path), oracle.get(*path));
        if let (Some(predicted), Some(oracle)) = changes
            && !predicted.is_empty()
            && !oracle.is_empty()
        {
            sum += ratio(predicted, oracle, Autojunk::Off)?;
        }
    }
    Ok(sum / paths.len() as f64)
}

/// The files as the answer leaves them, or what is wrong with its form.
fn answered(context: &Texts, output: &str) -> Result<Result<Texts, String>, TooLong> {
    let solution = match solution(output) {
        Ok(solution) => solution,
        Err(error) => return Ok(Err(error)),
    };
    let blocks = blocks(solution);
    if blocks.is_empty() {
        return Ok(Err("No valid search blocks found".to_owned()));
    }
    // The original goes through the files in the order of their first blocks.
    let mut by_path: BTreeMap<&str, (usize, Vec<&Block<'_>>)> = BTreeMap::new();
    for (at, block) in blocks.iter().enumerate() {
        by_path.entry(block.path).or_insert((at, Vec::new())).1.push(block);
    }
    let mut in_order: Vec<(&str, (usize, Vec<&Block<'_>>))> = by_path.into_iter().collect();
    in_order.sort_by_key(|(_, (first, _))| *first);
    let mut files = Texts::new();
    for (path, (_, blocks)) in in_order {
        let mut text = format!("\n{}", context.get(path).map_or("", String::as_str));
        for block in blocks {
            if block.search == block.replace {
                return Ok(Err("Search and replace blocks are identical".to_owned()));
            }
            let (search, replace) = (format!("\n{}", block.search), format!("\n{}", block.replace));
            let places = text.matches(&search).count();
            if places == 0 {
                return Ok(Err(format!("Search block not found in the code: {search}")));
            }
            let grown = text.len() + places.saturating_mul(replace.len());
            if grown > LARGEST {
                return Err(TooLong(grown));
            }
            text = text.replace(&search, &replace);
        }
        files.insert(path.to_owned(), text.split_off(1));
    }
    Ok(Ok(files))
}

/// What stands between the solution's tags.
fn solution(output: &str) -> Result<&str, String> {
    for tag in ["<think>", "</think>", "<solution>", "</solution>"] {
        if output.matches(tag).count() != 1 {
            return Err(format!("count of {tag} is not 1"));
        }
    }
    // The closing tag may stand first; the rest of the answer is inside then.
    let inside = |open: &str, close: &str| {
        let after = output.split(open).nth(1).unwrap_or_default();
        strip(after.split(close).next().unwrap_or_default())
    };
    if inside("<think>", "</think>").is_empty() {
        return Err("Thought is empty".to_owned());
    }
    Ok(inside("<solution>", "</solution>"))
}

#[derive(Debug, PartialEq, Eq)]
struct Block<'t> {
    path: &'t str,
    search: &'t str,
    replace: &'t str,
}

/// All matches of the original's expression
/// ```` ```.*?\n### (.*)\n<<<<<<< SEARCH\n([\s\S]*?)\n=======\n([\s\S]*?)\n>>>>>>> REPLACE\n``` ````
/// by searching for its fixed parts in turn, in linear time. Where one of the last two is
/// missing, no later start can match either.
fn blocks(text: &str) -> Vec<Block<'_>> {
    const OPEN: &str = "<<<<<<< SEARCH\n";
    const MIDDLE: &str = "\n=======\n";
    const CLOSE: &str = "\n>>>>>>> REPLACE\n```";
    let mut blocks = Vec::new();
    let mut rest = text;
    while let Some(fence) = rest.find("```") {
        // A fence in the middle of a line starts where the line ends.
        let Some((_, after)) = rest[fence..].split_once('\n') else { break };
        rest = after;
        let Some((path, body)) = after.strip_prefix("### ").and_then(|it| it.split_once('\n'))
        else {
            continue;
        };
        let Some(body) = body.strip_prefix(OPEN) else { continue };
        let Some((search, body)) = body.split_once(MIDDLE) else { break };
        let Some((replace, body)) = body.split_once(CLOSE) else { break };
        blocks.push(Block { path, search, replace });
        rest = body;
    }
    blocks
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod block_tests {
    use super::*;

    #[test]
    fn blocks_are_the_expression_s() {
        let block = "```python\n### a\n<<<<<<< SEARCH\ns\n=======\nr\n>>>>>>> REPLACE\n```";
        let found = Block { path: "a", search: "s", replace: "r" };
        assert_eq!(blocks(block), [found]);
        // A match ends inside the closing fence; what follows may open the next.
        let twice = format!("{block}{block}");
        assert_eq!(blocks(&twice).len(), 2);
        let fence_before = format!("```\n``` x\n{}", &block[3..]);
        assert_eq!(blocks(&fence_before).len(), 0);
        assert_eq!(blocks(&format!("```\n{block}")).len(), 1);
        assert_eq!(blocks("```\n### a\n<<<<<<< SEARCH\n=======\nr\n>>>>>>> REPLACE\n```").len(), 0);
    }

    #[test]
    fn growth_is_bounded() {
        let block = "```\n### a\n<<<<<<< SEARCH\n\n=======\n\n\n\n\n\n>>>>>>> REPLACE\n```\n";
        let answer = format!("<think>t</think><solution>\n{}</solution>", block.repeat(40));
        let file = Texts::from([("a".to_owned(), "\n".repeat(100))]);
        assert!(from_answer(&file, &file, &answer).is_err());
    }
}
