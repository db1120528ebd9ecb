//! What an agent is told before its first turn: the rules, the tools, the issue, the files.
//!
//! Owns the words. The forms named here are read by [`crate::action`].

use std::collections::{BTreeMap, BTreeSet};

use patchrl_model::Message;

use crate::tools::TOOLS;

/// Lines of the listing of files.
const LISTED: usize = 60;

/// Whether calls are part of the text, or go by the server's own protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Calling {
    /// SEARCH/REPLACE blocks and ```` ```tool ```` fences in the reply's text.
    #[default]
    Text,
    /// By the server: [`crate::Question::tools`] and [`crate::Reply::calls`]. Text is read too.
    Native,
}

/// The conversation an episode begins with.
pub fn opening(issue: &str, files: &BTreeSet<String>, calling: Calling) -> Vec<Message> {
    let mut system = String::from(
        "You fix a bug in a repository, step by step. Each reply is one or more calls; what they \
         show comes back before your next reply. Submit when the bug is fixed.\n",
    );
    if calling == Calling::Text {
        system.push_str(&forms());
    }
    let listing = listing(files);
    let user = format!("{}\n\nFiles:\n{listing}", issue.trim());
    vec![Message::new("system", system), Message::new("user", user)]
}

/// The forms of the text protocol, one example for each tool.
pub(crate) fn forms() -> String {
    let mut out = String::from(
        "To change lines of a file:\n### path\n<<<<<<< SEARCH\nlines of the file\n=======\nnew \
         lines\n>>>>>>> REPLACE\nEverything else is a fence with one JSON object, such as:\n",
    );
    for tool in TOOLS {
        out.push_str(&format!("```tool\n{}\n```\n{}\n", tool.example, tool.description));
    }
    out
}

/// The files, or how many lie in each folder where there are too many to list.
fn listing(files: &BTreeSet<String>) -> String {
    if files.len() <= LISTED {
        return files.iter().map(|file| file.clone() + "\n").collect();
    }
    let mut folders: BTreeMap<&str, usize> = BTreeMap::new();
    for file in files {
        let folder = file.split_once('/').map_or(file.as_str(), |(folder, _)| folder);
        *folders.entry(folder).or_default() += 1;
    }
    let more = folders.len().saturating_sub(LISTED);
    let line = |(name, count): (&&str, &usize)| match count {
        1 if files.contains(*name) => format!("{name}\n"),
        n => format!("{name}/ ({n} files)\n"),
    };
    let mut out: String = folders.iter().take(LISTED).map(line).collect();
    if more > 0 {
        out.push_str(&format!("[{more} more]\n"));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_forms_that_are_shown_are_the_forms_that_are_read() {
        for tool in TOOLS {
            let text = format!("```tool\n{}\n```", tool.example);
            let calls = crate::action::calls(&crate::Reply::said(&text)).unwrap();
            assert_eq!(calls[0].tool, tool.name);
            assert_eq!((tool.check)(&calls[0].arguments), Ok(()), "{}", tool.name);
            let schema = (tool.parameters)();
            let known = schema["properties"].as_object().unwrap();
            assert!(calls[0].arguments.keys().all(|key| known.contains_key(key)), "{}", tool.name);
        }
    }

    #[test]
    fn a_large_tree_is_listed_by_folder() {
        let files: BTreeSet<String> =
            (0..500).map(|n| format!("d{}/f{n}", n % 7)).chain(["setup.py".to_owned()]).collect();
        let text = &opening("It is broken.", &files, Calling::Text)[1].content;
        assert!(text.contains("d0/ (72 files)\n") && text.contains("\nsetup.py\n"), "{text}");
    }
}
