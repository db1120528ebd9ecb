//! Answers and episodes worth learning from, as chats with their origin, in a file that grows.
//!
//! Owns the file, what is kept in it, and going on where it was: beside it a list says what was
//! tried, so that nothing is tried twice. Of conversations that say the same the first is kept, unless
//! all are wanted. What was lost through our fault is not on the list.
//! `train sft --chats` reads the file as it is.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use patchrl_model::Message;
use patchrl_reward::{Judgement, Outcome};
use serde::{Deserialize, Serialize};

/// Which answers are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Keep {
    /// Those that resolve their task.
    #[default]
    Resolved,
    /// Those whose files were judged to differ from the start, resolved or not.
    Applied,
    /// Every one that was judged, those that say the same too.
    All,
}

impl std::str::FromStr for Keep {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        match word {
            "resolved" => Ok(Self::Resolved),
            "applied" => Ok(Self::Applied),
            "all" => Ok(Self::All),
            _ => Err(format!("`{word}` is none of `resolved`, `applied`, `all`")),
        }
    }
}

impl Keep {
    fn takes(self, judgement: &Judgement) -> bool {
        match self {
            Self::Resolved => judgement.outcome == Outcome::Resolved,
            Self::Applied => judgement.parts.applied,
            Self::All => judgement.reward.is_some(),
        }
    }
}

/// One line: a conversation and where it comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Harvested {
    /// The conversation, of which the assistant's turns are to be learnt.
    pub messages: Vec<Message>,
    /// Where it comes from.
    pub provenance: Provenance,
}

impl Harvested {
    /// Of the task and everything that was said.
    fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.provenance.task.hash(&mut hasher);
        for message in &self.messages {
            (&message.role, &message.content).hash(&mut hasher);
        }
        hasher.finish()
    }
}

/// Where a conversation comes from: enough to make it again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// The model or script that answered.
    pub model: String,
    /// The version of its weights.
    pub version: u64,
    /// The task's id.
    pub task: String,
    /// Which of the task's answers it is.
    pub sample: u32,
    /// The seed it was drawn with.
    pub seed: u64,
    /// What happened, as a machine word.
    pub outcome: String,
    /// The reward.
    pub reward: Option<f64>,
    /// Why the episode ended; nothing for an answer of one turn.
    pub end: Option<String>,
    /// The change as a unified diff.
    pub patch: Option<String>,
}

/// What was tried, and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Tried {
    task: String,
    sample: u32,
    outcome: String,
    reward: Option<f64>,
    kept: bool,
    /// It is good enough, and was kept before.
    #[serde(default)]
    copy: bool,
}

/// The file that grows.
#[derive(Debug)]
pub struct Harvest {
    kept: fs_err::File,
    tried: fs_err::File,
    keep: Keep,
    done: BTreeSet<(String, u32)>,
    /// Of the conversations that are kept.
    hashes: BTreeSet<u64>,
    counts: Counts,
}

/// What is in the file, those of earlier runs included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Answers tried and judged.
    pub tried: u64,
    /// Of them, kept.
    pub kept: u64,
    /// Of them, good enough and not kept, since one that says the same was.
    pub copies: u64,
    /// Lost through our fault in this run.
    pub lost: u64,
}

impl Harvest {
    /// Open `out` and its list; what is there is gone on with. A line cut off by a crash goes.
    pub fn open(out: &Path, keep: Keep) -> io::Result<Self> {
        let list = list_path(out);
        let (mut done, mut hashes) = (BTreeSet::new(), BTreeSet::new());
        let mut counts = Counts::default();
        for line in whole_lines(&list)? {
            let Ok(tried) = serde_json::from_str::<Tried>(&line) else { continue };
            counts.tried += 1;
            counts.kept += u64::from(tried.kept);
            counts.copies += u64::from(tried.copy);
            done.insert((tried.task, tried.sample));
        }
        // The file is written before the list.
        for line in whole_lines(out)? {
            let Ok(known) = serde_json::from_str::<Harvested>(&line) else { continue };
            hashes.insert(known.hash());
            if done.insert((known.provenance.task, known.provenance.sample)) {
                counts.tried += 1;
                counts.kept += 1;
            }
        }
        let open = |path: &Path| fs_err::OpenOptions::new().create(true).append(true).open(path);
        Ok(Self { kept: open(out)?, tried: open(&list)?, keep, done, hashes, counts })
    }

    /// Whether it was tried before.
    pub fn is_done(&self, task: &str, sample: u32) -> bool {
        self.done.contains(&(task.to_owned(), sample))
    }

    /// Take what was answered; whether it is kept.
    pub fn take(&mut self, one: &Harvested, judgement: &Judgement) -> io::Result<bool> {
        if judgement.reward.is_none() {
            self.counts.lost += 1;
            return Ok(false);
        }
        let good = self.keep.takes(judgement);
        let kept = good && (self.keep == Keep::All || self.hashes.insert(one.hash()));
        let origin = &one.provenance;
        if kept {
            write_line(&mut self.kept, one)?;
        }
        let (task, sample) = (origin.task.clone(), origin.sample);
        let tried = Tried {
            task: task.clone(),
            sample,
            outcome: origin.outcome.clone(),
            reward: origin.reward,
            kept,
            copy: good && !kept,
        };
        write_line(&mut self.tried, &tried)?;
        self.done.insert((task, sample));
        self.counts.tried += 1;
        self.counts.kept += u64::from(kept);
        self.counts.copies += u64::from(good && !kept);
        Ok(kept)
    }

    /// What is in the file.
    pub fn counts(&self) -> Counts {
        self.counts
    }
}

/// Where the list of what was tried lies.
pub fn list_path(out: &Path) -> PathBuf {
    let mut name = out.file_name().unwrap_or_default().to_owned();
    name.push(".tried");
    out.with_file_name(name)
}

fn write_line(file: &mut fs_err::File, value: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    file.write_all(&line)
}

/// The lines of a file that may not be there, without one that has no end, which is cut off.
fn whole_lines(path: &Path) -> io::Result<Vec<String>> {
    let bytes = match fs_err::read(path) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(e),
    };
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    if whole < bytes.len() {
        fs_err::OpenOptions::new().write(true).open(path)?.set_len(whole as u64)?;
    }
    Ok(String::from_utf8_lossy(&bytes[..whole]).lines().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use patchrl_reward::{Evidence, Parts};

    use super::*;

    fn one(sample: u32, outcome: &Outcome) -> (Harvested, Judgement) {
        let reward = (!matches!(outcome, Outcome::Lost { .. })).then_some(0.5);
        let provenance = Provenance {
            model: "m".into(),
            version: 0,
            task: "a__b-1".into(),
            sample,
            seed: 1,
            outcome: outcome.as_str().into(),
            reward,
            end: None,
            patch: None,
        };
        let judgement = Judgement {
            outcome: outcome.clone(),
            reward,
            parts: Parts::default(),
            components: Vec::new(),
            evidence: Evidence::default(),
        };
        (Harvested { messages: vec![Message::new("assistant", "x")], provenance }, judgement)
    }

    #[test]
    fn what_was_tried_is_not_tried_again_and_what_was_lost_is() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out.jsonl");
        let mut harvest = Harvest::open(&out, Keep::Resolved).unwrap();
        for (sample, outcome, kept) in [
            (0, Outcome::Resolved, true),
            (1, Outcome::Failed, false),
            (2, Outcome::Lost { why: "disk".into() }, false),
        ] {
            let (one, judgement) = one(sample, &outcome);
            assert_eq!(harvest.take(&one, &judgement).unwrap(), kept);
        }
        assert_eq!(harvest.counts(), Counts { tried: 2, kept: 1, copies: 0, lost: 1 });
        drop(harvest);
        // A crash between the two files, and one in the middle of a line.
        let (again, _) = one(3, &Outcome::Resolved);
        let line = serde_json::to_string(&again).unwrap();
        let text = fs_err::read_to_string(&out).unwrap();
        fs_err::write(&out, format!("{text}{line}\n{}", &line[..20])).unwrap();
        let harvest = Harvest::open(&out, Keep::Resolved).unwrap();
        let done: Vec<bool> = (0..5).map(|n| harvest.is_done("a__b-1", n)).collect();
        assert_eq!(done, [true, true, false, true, false]);
        assert_eq!(harvest.counts(), Counts { tried: 3, kept: 2, copies: 0, lost: 0 });
        let text = fs_err::read_to_string(&out).unwrap();
        assert_eq!((text.lines().count(), text.ends_with('\n')), (2, true));
    }

    #[test]
    fn what_was_said_before_is_kept_once_also_by_a_run_that_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out.jsonl");
        for (keep, want) in [(Keep::Resolved, 1), (Keep::All, 3)] {
            let _ = (fs_err::remove_file(&out), fs_err::remove_file(list_path(&out)));
            for (sample, outcome) in
                [(0, Outcome::Failed), (1, Outcome::Resolved), (2, Outcome::Resolved)]
            {
                let (one, judgement) = one(sample, &outcome);
                Harvest::open(&out, keep).unwrap().take(&one, &judgement).unwrap();
            }
            let counts = Harvest::open(&out, keep).unwrap().counts();
            let copies = u64::from(keep == Keep::Resolved);
            assert_eq!(counts, Counts { tried: 3, kept: want, copies, lost: 0 });
            assert_eq!(fs_err::read_to_string(&out).unwrap().lines().count() as u64, want);
        }
    }
}
