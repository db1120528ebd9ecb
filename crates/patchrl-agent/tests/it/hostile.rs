//! Any replies, played to an end on a small tree: what holds whatever is said. The fuzz target
//! `agent` reads this file too.

use std::collections::BTreeMap;
use std::sync::Arc;

use patchrl_agent::{AgentConfig, Episode, Ground, Reply, Runner};
use patchrl_patch::{Edit, Entry, Mode, Patch, Tree as _, is_safe_path, unified};
use patchrl_sandbox::{Job, Output, SandboxError};

const TURNS: u32 = 12;

struct NoRunner;

impl Runner for NoRunner {
    fn run(&self, _: &Job) -> Result<Output, SandboxError> {
        Err(SandboxError::Setup("no command is run here".to_owned()))
    }
}

fn tree() -> BTreeMap<String, Entry> {
    let file = |path: &str, mode, text: &str| {
        (path.to_owned(), Entry { mode, bytes: text.as_bytes().to_vec() })
    };
    BTreeMap::from([
        file("a.py", Mode::Regular, "def f(x):\n    return x\n\n\ndef g(x):\n    return f(x)\n"),
        file("d/returns", Mode::Regular, "one\r\ntwo\r\n"),
        file("d/e/open", Mode::Executable, "no line end"),
        file("empty", Mode::Regular, ""),
        file("link", Mode::Symlink, "a.py"),
        file("zero", Mode::Regular, "a\0b"),
    ])
}

/// Say the replies over and over: the episode ends, its observations are bounded, nothing happens
/// after its end, and its changes are a patch of the tree.
pub(crate) fn play(replies: &[Reply]) {
    let tree = tree();
    let ground = Arc::new(Ground {
        tree: Arc::new(tree.clone()),
        files: tree.keys().cloned().collect(),
        job: Job::new("/", Vec::<String>::new()),
        tests: Vec::new(),
        tests_take_files: false,
        runner: Arc::new(NoRunner),
    });
    let config = AgentConfig {
        turns: TURNS,
        malformed: TURNS,
        observation_bytes: 1000,
        ..AgentConfig::default()
    };
    let mut episode = Episode::new(&ground, &config);
    for reply in replies.iter().cycle().take(TURNS as usize) {
        let observed = episode.reply(reply, Some(1));
        // A complaint about a form comes with all forms.
        assert!(observed.text.len() < 4000, "{} bytes", observed.text.len());
        let lost = episode.end().is_some_and(|end| end.as_str() == "lost");
        assert!(lost || !observed.text.is_empty());
        if episode.end().is_some() {
            break;
        }
    }
    assert!(episode.end().is_some(), "it goes on and on");
    let changes = episode.changes().clone();
    for reply in replies {
        episode.reply(reply, None);
    }
    assert_eq!(episode.into_changes(), changes, "something happened after the end");

    for (path, entry) in &changes {
        assert!(is_safe_path(path), "{path:?}");
        assert_ne!(tree.entry(path).expect("a map"), *entry, "{path:?} is as it was");
    }
    // A diff in text does not hold what is not text.
    let is_text = |entry: &Entry| !entry.bytes.contains(&0);
    if !changes.is_empty() && changes.values().flatten().all(is_text) {
        let diff = unified(&changes, &tree).expect("a map can be read");
        let patch = Patch::parse(&diff).unwrap_or_else(|e| panic!("{e}\n{diff}"));
        let applied = Edit::Diff(patch).apply(&tree).unwrap_or_else(|e| panic!("{e}\n{diff}"));
        assert_eq!(applied, changes, "{diff}");
    }
}
