//! A patch put on by the SWE-bench harness's own chain of commands, and the tests run after it.
//!
//! Owns the two chains (`v4`: swebench 3 and 4, `v5`: swebench 5), which try `git apply`,
//! then looser commands, and take the first that exits with 0. They accept more than
//! `git apply` does and at times damage the tree: where a harness verdict is asked for this
//! is what it saw, everywhere else [`patchrl_patch::Edit::apply`] is the gate. What a chain
//! did is read from the tree that it left. Needs git and GNU patch in the sandbox.

use std::collections::BTreeMap;
use std::path::Path;

use patchrl_sandbox::{Ending, FileWrite, Job, Limits, Local, Output, SandboxError};
use serde::Serialize;

use super::Dialect;

/// One command of a chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    /// The command, without the patch's path.
    pub command: &'static str,
    /// Its exit code.
    pub exit: i32,
    /// What it printed.
    pub output: String,
}

/// Mode and blob id of a file, as git writes them.
pub type Blob = (String, String);

/// What a chain did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Chained {
    /// Does the harness count the patch as applied?
    pub applied: bool,
    /// The commands that ran, in order.
    pub steps: Vec<Step>,
    /// Exit code of `git apply --check --reverse`, where `v5` came to it.
    pub reverse_check: Option<i32>,
    /// Path to the new file, or nothing if it is gone; only what differs from the base.
    pub changes: BTreeMap<String, Option<Blob>>,
    /// The same as a git diff, with binary data; nothing where it is over 4 MiB.
    pub diff: Option<String>,
}

/// What the harness would see of an evaluation.
#[derive(Clone, Debug)]
pub struct Evaluated {
    /// How the patch was put on.
    pub chained: Chained,
    /// The text of `test_output.txt`; there is none if the patch did not apply.
    pub test_output: Option<String>,
    /// How the script ended. An exit code says nothing: it is the last command's.
    pub ending: Ending,
}

/// The chain could not be run to its end. Says nothing about the patch.
#[derive(Debug, thiserror::Error)]
pub enum ChainError {
    /// The sandbox failed.
    #[error("cannot run the harness's commands")]
    Sandbox(#[from] SandboxError),
    /// A command stopped the script, or its result is not what git writes.
    #[error("the harness's commands ended as `{ending}`: {output}")]
    Broken {
        /// How the script ended.
        ending: String,
        /// The end of what it printed.
        output: String,
    },
}

impl Dialect {
    fn commands(self) -> &'static [&'static str] {
        match self {
            Self::V4 => &[
                "git apply --verbose",
                "git apply --verbose --reject",
                "patch --batch --fuzz=5 -p1 -i",
            ],
            Self::V5 => &[
                "git apply --verbose",
                "git apply --verbose --3way",
                "git apply --verbose --reject",
                "patch --batch --forward --fuzz=5 -p1 -i",
            ],
        }
    }

    /// `v4` or `v5`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V4 => "v4",
            Self::V5 => "v5",
        }
    }

    /// Put `patch` on a copy of the tree at `base`, which is a repository already or is
    /// made one for this.
    pub fn apply(
        self,
        sandbox: &Local,
        base: &Path,
        patch: &str,
        limits: &Limits,
    ) -> Result<Chained, ChainError> {
        let mut job = Job::new(base, [""; 0]);
        job.limits = limits.clone();
        Ok(self.run(sandbox, job, patch)?.0)
    }

    /// Put `patch` on the tree of `job`, and if that counts as applied run `script` with
    /// bash, as the harness does in a container. Environment, limits and what is visible are
    /// the job's; its command, its writes and what it collects are not used.
    ///
    /// The script is the instance's: a base commit that the tree does not have, or a folder
    /// like `/testbed`, is the caller's to replace.
    pub fn evaluate(
        self,
        sandbox: &Local,
        mut job: Job,
        patch: &str,
        script: &str,
    ) -> Result<Evaluated, ChainError> {
        job.writes = [(EVALUATION.to_owned(), Some(FileWrite::regular(script)))].into();
        let (chained, output) = self.run(sandbox, job, patch)?;
        let mut log = String::from_utf8_lossy(&output.output).into_owned();
        if output.ending == Ending::TimedOut {
            log.push_str(&format!(
                "\n\nTimeout error: {} seconds exceeded.",
                output.wall.as_secs()
            ));
        }
        let test_output = chained.applied.then_some(log);
        Ok(Evaluated { chained, test_output, ending: output.ending })
    }

    fn run(
        self,
        sandbox: &Local,
        mut job: Job,
        patch: &str,
    ) -> Result<(Chained, Output), ChainError> {
        job.argv = ["sh", "-c", SCRIPT, "chain", self.as_str()].map(str::to_owned).into();
        job.argv.extend(self.commands().iter().map(|command| (*command).to_owned()));
        job.writes.insert(PATCH.to_owned(), Some(FileWrite::regular(patch)));
        job.env.extend(ENVIRONMENT.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())));
        let outputs = (0..self.commands().len()).map(|at| format!("step-{at}"));
        job.collect = outputs.chain(["codes", "tree", "diff"].map(str::to_owned)).collect();
        let output = sandbox.run(&job)?;
        let chained = self.read(&output.collected).ok_or_else(|| ChainError::Broken {
            ending: output.ending.to_string(),
            output: String::from_utf8_lossy(&output.output).trim_end().to_owned(),
        })?;
        Ok((chained, output))
    }

    /// What the script wrote. `None` if it did not come to its end.
    fn read(self, files: &BTreeMap<String, Vec<u8>>) -> Option<Chained> {
        let codes = std::str::from_utf8(files.get("codes")?).ok()?;
        let mut codes: Vec<i32> = codes.lines().map(str::parse).collect::<Result<_, _>>().ok()?;
        let changes = changes(std::str::from_utf8(files.get("tree")?).ok()?)?;
        let most = self.commands().len();
        let reverse_check = if codes.len() > most { codes.pop() } else { None };
        let steps: Vec<Step> = self
            .commands()
            .iter()
            .zip(&codes)
            .enumerate()
            .map(|(at, (command, exit))| {
                let output = files.get(&format!("step-{at}")).map_or(&[][..], Vec::as_slice);
                let output = String::from_utf8_lossy(output).into_owned();
                Step { command, exit: *exit, output }
            })
            .collect();
        let applied = steps.last()?.exit == 0 || reverse_check == Some(0);
        let diff = files.get("diff").map(|text| String::from_utf8_lossy(text).into_owned());
        Some(Chained { applied, steps, reverse_check, changes, diff })
    }
}

/// Where the script finds the patch. `git clean` leaves this folder alone.
const PATCH: &str = ".git/patchrl.diff";
/// And the script that runs the tests.
const EVALUATION: &str = ".git/patchrl.sh";

/// Git as it is without anyone's settings.
const ENVIRONMENT: [(&str, &str); 10] = [
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_CONFIG_COUNT", "1"),
    ("GIT_CONFIG_KEY_0", "safe.directory"),
    ("GIT_CONFIG_VALUE_0", "*"),
    ("GIT_AUTHOR_NAME", "patchrl"),
    ("GIT_AUTHOR_EMAIL", "patchrl@localhost"),
    ("GIT_COMMITTER_NAME", "patchrl"),
    ("GIT_COMMITTER_EMAIL", "patchrl@localhost"),
    ("LC_ALL", "C"),
];

/// Arguments: the chain's name, then its commands, which are ours and hold no quotes. The
/// patch is only ever a file.
const SCRIPT: &str = r#"
set -u
chain=$1
shift
patch=$TMPDIR/model.diff
mv .git/patchrl.diff "$patch" || exit 97
eval=$TMPDIR/eval.sh
[ -e .git/patchrl.sh ] && mv .git/patchrl.sh "$eval"
if ! [ -e .git/HEAD ]; then
    git init -q . && git add -A -f && git commit -q --allow-empty -m base || exit 97
fi
: > "$PATCHRL_OUT/codes"
at=0
code=1
for command in "$@"; do
    if [ "$chain" = v5 ] && [ $at -gt 0 ]; then
        { git checkout -- . ; git clean -fd ; } > /dev/null 2>&1
    fi
    $command "$patch" > "$PATCHRL_OUT/step-$at" 2>&1
    code=$?
    echo $code >> "$PATCHRL_OUT/codes"
    at=$((at + 1))
    [ $code -eq 0 ] && break
done
if [ "$chain" = v5 ] && [ $code -ne 0 ]; then
    git apply --check --reverse "$patch" > /dev/null 2>&1
    code=$?
    echo $code >> "$PATCHRL_OUT/codes"
fi
git add -A && git diff --cached --raw --no-abbrev --no-renames -z HEAD > "$PATCHRL_OUT/tree"
git diff --cached --binary --full-index --no-renames --no-ext-diff HEAD > "$PATCHRL_OUT/diff"
if [ -e "$eval" ] && [ $code -eq 0 ]; then
    git reset -q && exec bash "$eval" 2>&1
fi
"#;

/// The rows of `git diff --raw -z`: `:100644 100644 old new M`, path.
fn changes(text: &str) -> Option<BTreeMap<String, Option<Blob>>> {
    let mut fields = text.split_terminator('\0');
    let mut changes = BTreeMap::new();
    while let Some(facts) = fields.next() {
        let facts: Vec<&str> = facts.split(' ').collect();
        let [_, mode, _, blob, status] = facts[..] else { return None };
        let file = (status != "D").then(|| (mode.to_owned(), blob.to_owned()));
        changes.insert(fields.next()?.to_owned(), file);
    }
    Some(changes)
}
