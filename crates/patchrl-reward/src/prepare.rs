//! A task made ready to judge: base tree on disk, interpreter, tests to put in place.
//!
//! Owns the folder of prepared trees and environments. What it writes is whole
//! or not there, keyed by content, shared by tasks and runs, and never changed
//! afterwards. Runs only what the task's description says (pip and its install
//! command), with network; nothing a model wrote.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use patchrl_patch::{Changes, Entry, Mode};
use patchrl_sandbox::host::{self, Trusted};
use patchrl_sandbox::python::{self, Interpreter, VenvSpec};
use patchrl_sandbox::{Docker, FileWrite, ImageName, ImagePlace, Job, Limits, SandboxError, git};
use patchrl_task::{Environment, Runner, Start, Task};
use sha2::{Digest, Sha256};

use crate::component;
use crate::error::PrepareError;
use crate::guard::Guard;
use crate::tree::FsTree;
use trees::{derive, fill, suffixed, write_changes, write_files};

mod trees;

/// Owner of the repositories that ship with patchrl as streams.
const TOY_OWNER: &str = "patchrl-toy";

/// Where an install command's packages go, inside its tree: the shared virtual
/// environment stays as it is.
const SITE: &str = ".patchrl/site";

/// Makes tasks ready.
#[derive(Debug)]
pub struct Preparer {
    repos: Option<PathBuf>,
    cache_dir: PathBuf,
    /// Interpreters found so far, by wanted version: looking for one starts processes.
    interpreters: Mutex<BTreeMap<Option<String>, Interpreter>>,
    /// Clones of the toy set written or seen so far, by name.
    toys: Mutex<BTreeMap<String, PathBuf>>,
    /// The engine for tasks that name an image.
    docker: Option<Docker>,
}

/// A task with all it needs on this machine.
#[derive(Clone, Debug)]
pub struct Ready {
    /// The task.
    pub task: Task,
    /// Its tree at the start, without history. Never written.
    pub base: PathBuf,
    /// What of that tree the place where the tests run lacks.
    pub(crate) planted: Changes,
    /// How its tests are run.
    pub environment: Environment,
    /// Files of the test patch as they are when tests run.
    pub(crate) tests: Changes,
    pub(crate) guard: Guard,
    /// What the known answer makes of the base tree, or why that cannot be said.
    pub(crate) oracle: Result<Changes, String>,
    /// Folders that the tests must see: environment and interpreter.
    pub(crate) read_only: Vec<PathBuf>,
    /// Program of the interpreter.
    python: String,
    /// Where the tests run, if not here.
    pub(crate) image: Option<ImagePlace>,
}

/// What a task needs that the tests see.
struct Ground {
    environment: Environment,
    base: PathBuf,
    planted: Changes,
    python: String,
    read_only: Vec<PathBuf>,
    image: Option<ImagePlace>,
}

impl Preparer {
    /// A preparer that writes trees and virtual environments below `cache_dir`.
    ///
    /// `repos` is a folder of clones, searched as [`git::find_mirror`] says. The
    /// repositories of the toy set need none.
    pub fn new(repos: Option<PathBuf>, cache_dir: impl Into<PathBuf>) -> Self {
        Self {
            repos,
            cache_dir: cache_dir.into(),
            interpreters: Mutex::default(),
            toys: Mutex::default(),
            docker: None,
        }
    }

    /// Take tree and interpreter of tasks that name an image from there.
    #[must_use]
    pub fn with_docker(mut self, docker: Docker) -> Self {
        self.docker = Some(docker);
        self
    }

    /// Make a task ready. Cheap when its tree and environment are there already.
    pub fn prepare(&self, task: &Task) -> Result<Ready, PrepareError> {
        let Ground { environment, base, planted, python: program, read_only, image } =
            match (&self.docker, task.image()) {
                (Some(docker), Some(image)) => self.in_image(task, docker, image)?,
                _ => self.here(task)?,
            };
        let tree = FsTree::new(&base);
        let tests = test_files(task, &tree)?;
        let ids = task.fail_to_pass.iter().chain(&task.pass_to_pass);
        let named = ids.filter_map(|id| Some(id.split_once(".py::")?.0.to_owned() + ".py"));
        let protected = tests.keys().cloned().chain(task.test_files()).chain(named);
        let oracle = changes(&task.patch, &tree);
        let mut guard = Guard::new(protected, gold_paths(task));
        if let Some(path) = environment.variables(&program, "").get("PYTHONPATH") {
            for root in path.split(':').filter_map(|root| root.strip_prefix('/')) {
                guard = guard.with_root(root);
            }
        }
        guard = guard.with_command(environment.test_command.iter().skip(1).cloned());
        if let Ok(gold) = &oracle
            && let Ok(added) = component::added(gold, &tree)
        {
            guard = guard.with_gold(&added);
        }
        Ok(Ready {
            task: task.clone(),
            base,
            planted,
            environment,
            tests,
            guard,
            oracle,
            read_only,
            python: program,
            image,
        })
    }

    /// A tree and an environment on this machine.
    fn here(&self, task: &Task) -> Result<Ground, PrepareError> {
        let fail = |source| PrepareError::Sandbox { task: task.id.to_string(), source };
        // Files alone have no tests to run.
        let bare = || matches!(task.start, Start::Files(_)).then(Environment::pytest);
        let known = task.known_environment().or_else(bare);
        let environment = known.ok_or_else(|| PrepareError::NoEnvironment {
            task: task.id.to_string(),
            repo: task.repo.clone(),
            version: task.version.clone().unwrap_or_else(|| "?".to_owned()),
        })?;
        let interpreter = self.interpreter(environment.python.as_deref()).map_err(fail)?;
        let (program, read_only) = if environment.requirements.is_empty() {
            (interpreter.path.clone(), interpreter.prefixes.clone())
        } else {
            let spec = VenvSpec::new(interpreter, environment.requirements.clone());
            let venv = python::build_venv(&spec, &self.folder("venvs")?).map_err(fail)?;
            (venv.python, venv.read_only)
        };
        let python = program.display().to_string();
        let base = self.tree(task, &environment, &python)?;
        let planted = Changes::new();
        Ok(Ground { environment, base, planted, python, read_only, image: None })
    }

    /// The tree of an image. Its packages are there already: of the environment only the
    /// command, the variables and the runner are used, and an interpreter with a slash.
    fn in_image(&self, task: &Task, docker: &Docker, image: &str) -> Result<Ground, PrepareError> {
        let fail = |source| PrepareError::Sandbox { task: task.id.to_string(), source };
        let name = ImageName::parse(image).map_err(fail)?;
        let workdir = task.workdir();
        let mut environment = task.environment.clone().unwrap_or_else(Environment::pytest);
        environment.install = None;
        let id = docker.image_id(&name).map_err(fail)?;
        let base = self.folder("images")?.join(digest(&[id.as_bytes(), workdir.as_bytes()]));
        let hides_git = docker.export(&name, workdir, &base).map_err(fail)?;
        let place = ImagePlace { image: name, workdir: workdir.to_owned(), hides_git };
        let (base, planted) = match &task.start {
            Start::Bug(bug) => planted(task, &base, bug)?,
            Start::Commit | Start::Files(_) => (base, Changes::new()),
        };
        let own = environment.python.clone().filter(|it| it.contains('/'));
        let python = own.unwrap_or_else(|| interpreter_of(&place.image).to_owned());
        let image = Some(place);
        Ok(Ground { environment, base, planted, python, read_only: Vec::new(), image })
    }

    fn interpreter(&self, version: Option<&str>) -> Result<Interpreter, SandboxError> {
        let wanted = version.map(str::to_owned);
        let mut known = self.interpreters.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(interpreter) = known.get(&wanted) {
            return Ok(interpreter.clone());
        }
        let interpreter = python::find_interpreter(version)?;
        known.insert(wanted, interpreter.clone());
        Ok(interpreter)
    }

    /// The clone that holds the task's base commit.
    fn mirror(&self, task: &Task) -> Result<PathBuf, PrepareError> {
        let fail = |source| PrepareError::Sandbox { task: task.id.to_string(), source };
        if let Some(name) = task.repo.strip_prefix(TOY_OWNER).and_then(|r| r.strip_prefix('/')) {
            let shipped = self.toy_mirror(&format!("{TOY_OWNER}__{name}")).map_err(fail)?;
            if let Some(mirror) = shipped {
                return Ok(mirror);
            }
        }
        let repos = self.repos.as_ref().ok_or_else(|| PrepareError::NoRepos {
            task: task.id.to_string(),
            repo: task.repo.clone(),
        })?;
        git::find_mirror(repos, &task.repo).map_err(fail)
    }

    /// A shipped repository, written on first use. Keyed by its stream.
    fn toy_mirror(&self, name: &str) -> Result<Option<PathBuf>, SandboxError> {
        let mut known = self.toys.lock().unwrap_or_else(PoisonError::into_inner);
        if known.is_empty() {
            let folder = self.cache_dir.join("toy");
            fs_err::create_dir_all(&folder)?;
            for (name, stream) in patchrl_task::toy::streams() {
                let dest = folder.join(format!("{name}-{}.git", digest(&[&stream])));
                git::fast_import(&stream, &dest)?;
                known.insert(name, dest);
            }
        }
        Ok(known.get(name).cloned())
    }

    /// The tree at the start, with what the install command wrote into it.
    fn tree(
        &self,
        task: &Task,
        environment: &Environment,
        program: &str,
    ) -> Result<PathBuf, PrepareError> {
        let fail = |source| PrepareError::Sandbox { task: task.id.to_string(), source };
        let bare = self.start_tree(task)?;
        let Some(install) = environment.install_argv(program, ".") else { return Ok(bare) };
        let words: Vec<&[u8]> = install.iter().map(String::as_bytes).collect();
        let variables = format!("{:?}", environment.env);
        let key = digest(&[&words.concat(), variables.as_bytes()]);
        let dest = suffixed(&bare, &key);
        derive(&bare, &dest, |tree| {
            let here = tree.display().to_string();
            let argv = environment.install_argv(program, &here).unwrap_or_default();
            let mut command = Trusted::new(argv)
                .cwd(tree)
                .env("PIP_TARGET", tree.join(SITE).display().to_string())
                .env("PIP_DISABLE_PIP_VERSION_CHECK", "1")
                .env("PIP_NO_INPUT", "1");
            for (name, value) in environment.variables(program, &here) {
                command = command.env(name, value);
            }
            host::run_ok(&command).map(drop)
        })
        .map_err(fail)?;
        Ok(dest)
    }

    /// The tree at the start as the row and its repository have it: no interpreter is looked for,
    /// nothing installed, and no image asked.
    pub fn start_tree(&self, task: &Task) -> Result<PathBuf, PrepareError> {
        let fail = |source| PrepareError::Sandbox { task: task.id.to_string(), source };
        let dest = self.folder("trees")?.join(git::tree_name(&task.repo, &task.base_commit));
        if let Start::Files(files) = &task.start {
            fill(&dest, |tree| write_files(tree, files)).map_err(fail)?;
            return Ok(dest);
        }
        git::export(&self.mirror(task)?, &task.base_commit, &dest).map_err(fail)?;
        match &task.start {
            Start::Bug(bug) => Ok(planted(task, &dest, bug)?.0),
            Start::Commit | Start::Files(_) => Ok(dest),
        }
    }

    fn folder(&self, name: &str) -> Result<PathBuf, PrepareError> {
        let path = self.cache_dir.join(name);
        match fs_err::create_dir_all(&path).and_then(|()| fs_err::canonicalize(&path)) {
            Ok(path) => Ok(path),
            Err(source) => Err(PrepareError::Cache { path, source }),
        }
    }
}

impl Ready {
    /// The base tree, for patches and prompts.
    pub fn tree(&self) -> FsTree {
        FsTree::new(&self.base)
    }

    /// The protected paths of this task.
    pub fn guard(&self) -> &Guard {
        &self.guard
    }

    /// A job on this task's tree in its environment, without a command and without the tests
    /// that decide: for what an agent runs.
    pub fn bench(&self, limits: Limits) -> Job {
        let mut job = Job::new(&self.base, Vec::<String>::new());
        let planted = self.planted.iter();
        job.writes = planted.map(|(path, it)| (path.clone(), it.as_ref().map(file))).collect();
        job.env = self.variables();
        job.read_only.clone_from(&self.read_only);
        job.image.clone_from(&self.image);
        job.limits = limits;
        job
    }

    /// The command that runs the repository's own tests, all of them, and whether it takes files
    /// to run after it. Names none of the files that decide.
    pub fn own_tests(&self) -> (Vec<String>, bool) {
        let argv = self.environment.test_argv(&self.python, "{workspace}", &[]);
        (argv, self.environment.runner != Runner::Unittest)
    }

    /// The test command for the sandbox, with its path words still in it.
    pub(crate) fn test_argv(&self) -> Vec<String> {
        self.environment.test_argv(&self.python, "{workspace}", &self.test_targets())
    }

    /// The interpreter that runs the tests.
    pub(crate) fn python(&self) -> &str {
        &self.python
    }

    /// Test files that exist when tests run.
    fn test_targets(&self) -> Vec<String> {
        let mut files = self.task.test_files();
        files.retain(|path| !matches!(self.tests.get(path), Some(None)));
        files
    }

    /// Variables of the test run, with path words still in them.
    pub(crate) fn variables(&self) -> BTreeMap<String, String> {
        let mut variables = self.environment.variables(&self.python, "{workspace}");
        if self.environment.install.is_some() {
            let path = variables.entry("PYTHONPATH".to_owned()).or_default();
            let separator = if path.is_empty() { "" } else { ":" };
            let _ = write!(path, "{separator}{{workspace}}/{SITE}");
        }
        let steady = [("PYTHONDONTWRITEBYTECODE", "1"), ("PYTHONHASHSEED", "0")];
        for (name, value) in steady {
            variables.entry(name.to_owned()).or_insert_with(|| value.to_owned());
        }
        variables
    }

    /// Names everything about this task that decides a test run.
    pub(crate) fn content_id(&self) -> String {
        let environment = serde_json::to_string(&self.environment).unwrap_or_default();
        let (repo, commit) = (&self.task.repo, &self.task.base_commit);
        // The folder is named by its content: image, commit, bug, what was installed.
        let (tree, place) = (self.base.file_name(), self.image.is_some());
        format!("{repo}@{commit} {tree:?} {place} {} {environment}", self.python)
    }
}

/// The interpreter that runs the tests of an image: of those that the SWE-bench harness
/// builds the one of its environment.
fn interpreter_of(image: &ImageName) -> &'static str {
    if image.as_str().contains("sweb.eval.") {
        "/opt/miniconda3/envs/testbed/bin/python"
    } else {
        "python3"
    }
}

/// The tree `clean` with a bug in it, and what the bug is.
fn planted(task: &Task, clean: &Path, bug: &str) -> Result<(PathBuf, Changes), PrepareError> {
    let planted = changes(bug, &FsTree::new(clean)).map_err(|why| PrepareError::OwnPatch {
        task: task.id.to_string(),
        column: "bug_patch",
        commit: task.base_commit.clone(),
        why,
    })?;
    let dest = suffixed(clean, &digest(&[bug.as_bytes()]));
    derive(clean, &dest, |tree| write_changes(tree, &planted))
        .map_err(|source| PrepareError::Sandbox { task: task.id.to_string(), source })?;
    Ok((dest, planted))
}

/// What the test patch makes of the base tree.
fn test_files(task: &Task, tree: &FsTree) -> Result<Changes, PrepareError> {
    if task.test_patch.trim().is_empty() {
        return Ok(Changes::new());
    }
    changes(&task.test_patch, tree).map_err(|why| PrepareError::OwnPatch {
        task: task.id.to_string(),
        column: "test_patch",
        commit: task.base_commit.clone(),
        why,
    })
}

/// What a patch of the task's own makes of a tree.
fn changes(patch: &str, tree: &FsTree) -> Result<Changes, String> {
    let patch = patchrl_patch::Patch::parse(patch).map_err(|e| e.to_string())?;
    patchrl_patch::Edit::Diff(patch).apply(tree).map_err(|e| e.to_string())
}

fn gold_paths(task: &Task) -> Vec<String> {
    match patchrl_patch::Patch::parse(&task.patch) {
        Ok(patch) => {
            let edit = patchrl_patch::Edit::Diff(patch);
            edit.paths().into_iter().map(str::to_owned).collect()
        }
        Err(_) => Vec::new(),
    }
}

fn digest(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hex(&hash.finalize()[..6])
}

/// A file of changes as a sandbox takes it.
pub(crate) fn file(entry: &Entry) -> FileWrite {
    FileWrite {
        mode: if entry.mode == Mode::Executable { 0o755 } else { 0o644 },
        bytes: entry.bytes.clone(),
        symlink: entry.mode == Mode::Symlink,
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
