//! Python interpreters of this machine, and virtual environments built from them.
//!
//! Owns where interpreters are looked for and the cache of environments. An
//! environment is keyed by everything that went into it, built once, shared,
//! and never changed afterwards. Does not know what the packages are for.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::SandboxError;
use crate::host::{self, Trusted};
use crate::scratch::{copy_tree, remove_tree};

/// Written last into an environment: it is whole.
const COMPLETE: &str = "complete.json";

/// What an interpreter says about itself.
const INQUIRY: &str = "import json, os, sys, sysconfig
paths = {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}
for key in ('stdlib', 'platstdlib', 'purelib', 'platlib'):
    path = sysconfig.get_paths().get(key)
    if path and os.path.isdir(path): paths.add(path)
real = os.path.realpath(sys.executable)
paths.add(os.path.dirname(os.path.dirname(real)))
print(json.dumps({'path': sys.executable, 'version': '%d.%d.%d' % sys.version_info[:3], 'prefixes': sorted(paths)}))";

/// A Python that runs here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interpreter {
    /// The program.
    pub path: PathBuf,
    /// Three numbers, as in `3.11.7`.
    pub version: String,
    /// Folders that a sandboxed command must see to run it.
    pub prefixes: Vec<PathBuf>,
}

/// An interpreter of `version` (`3`, `3.9`, `3.9.18`), or the `python3` of
/// `PATH` for `None`.
///
/// Looks at `PATH`, then at the versions of pyenv and uv.
pub fn find_interpreter(version: Option<&str>) -> Result<Interpreter, SandboxError> {
    let wanted = version.unwrap_or("3");
    let mut names = vec![wanted_name(wanted), "python3".to_owned(), "python".to_owned()];
    names.dedup();
    let mut found = BTreeSet::new();
    let installed = installed(wanted);
    let candidates = names.into_iter().map(PathBuf::from).chain(installed.matching);
    for candidate in candidates {
        let Some(interpreter) = inquire(&candidate) else { continue };
        if matches(&interpreter.version, wanted) {
            return Ok(interpreter);
        }
        found.insert(interpreter.version);
    }
    found.extend(installed.others);
    let found = if found.is_empty() {
        "none".to_owned()
    } else {
        found.into_iter().collect::<Vec<_>>().join(", ")
    };
    Err(SandboxError::NoPython { wanted: wanted.to_owned(), found })
}

/// Ask the program at `path` what it is; `None` if it is no Python 3.
pub fn inquire(path: &Path) -> Option<Interpreter> {
    let said = host::run(
        &Trusted::new([path.display().to_string().as_str(), "-I", "-c", INQUIRY])
            .deadline(Duration::from_secs(30)),
    )
    .ok()?;
    let mut interpreter: Interpreter = serde_json::from_slice(&said.stdout).ok()?;
    interpreter.prefixes.retain(|p| p.parent().is_some_and(|up| up.parent().is_some()));
    Some(outermost(interpreter))
}

/// What goes into an environment.
#[derive(Clone, Debug)]
pub struct VenvSpec {
    /// The Python it is made from.
    pub interpreter: Interpreter,
    /// Lines for `pip install`: requirements or options, as in a requirements file.
    pub requirements: Vec<String>,
    /// A command run after the requirements. `{python}` is the environment's
    /// Python, `{source}` a private copy of `source`, which is also the working
    /// directory. `None`: the source is found by `PYTHONPATH` in the sandbox.
    pub install: Option<Vec<String>>,
    /// The tree that `install` works on.
    pub source: Option<PathBuf>,
    /// Names the content of `source`, as in `owner/name@commit`. Part of the key.
    pub source_key: String,
    /// Environment of the pip commands. Part of the key.
    pub env: BTreeMap<String, String>,
    /// For each command.
    pub deadline: Duration,
}

impl VenvSpec {
    /// Requirements only.
    pub fn new(interpreter: Interpreter, requirements: Vec<String>) -> Self {
        Self {
            interpreter,
            requirements,
            install: None,
            source: None,
            source_key: String::new(),
            env: BTreeMap::new(),
            deadline: Duration::from_mins(30),
        }
    }

    /// Putting pip into an environment is most of the work of making it.
    fn needs_pip(&self) -> bool {
        let named = |argv: &Vec<String>| argv.iter().any(|word| word.contains("pip"));
        !self.requirements.is_empty() || self.install.as_ref().is_some_and(named)
    }

    fn key(&self) -> String {
        let content = serde_json::json!([
            1,
            self.interpreter,
            self.requirements,
            self.install,
            if self.install.is_some() { self.source_key.as_str() } else { "" },
            self.env
        ]);
        let digest = Sha256::digest(content.to_string().as_bytes());
        digest.iter().take(10).fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        })
    }
}

/// An environment on disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Venv {
    /// Its Python.
    pub python: PathBuf,
    /// Folders that a sandboxed command must see.
    pub read_only: Vec<PathBuf>,
}

/// The environment of `spec` in `cache_dir`, built if it is not there.
///
/// Uses the network. Safe to call from several processes: one builds, the
/// others wait.
pub fn build_venv(spec: &VenvSpec, cache_dir: &Path) -> Result<Venv, SandboxError> {
    fs_err::create_dir_all(cache_dir)?;
    // An environment holds its own absolute path and cannot be moved.
    let dir = fs_err::canonicalize(cache_dir)?.join(format!("venv-{}", spec.key()));
    if let Some(venv) = whole(&dir) {
        return Ok(venv);
    }
    let lock = File::create(dir.with_extension("lock"))?;
    lock.lock()?;
    if let Some(venv) = whole(&dir) {
        return Ok(venv);
    }
    if dir.exists() {
        remove_tree(&dir)?; // a build that was cut
    }
    let built = build(spec, &dir);
    if built.is_err() {
        let _ = remove_tree(&dir);
    }
    built
}

fn whole(dir: &Path) -> Option<Venv> {
    serde_json::from_slice(&fs_err::read(dir.join(COMPLETE)).ok()?).ok()
}

fn build(spec: &VenvSpec, dir: &Path) -> Result<Venv, SandboxError> {
    let text = dir.display().to_string();
    let base = spec.interpreter.path.display().to_string();
    let mut argv = vec![base.as_str(), "-m", "venv"];
    if !spec.needs_pip() {
        argv.push("--without-pip");
    }
    argv.push(&text);
    let made = pip_command(spec, argv);
    if let Err(error) = host::run_ok(&made) {
        // Debian's python3 has no ensurepip; virtualenv brings its own pip.
        let _ = remove_tree(dir);
        let other = pip_command(spec, vec!["virtualenv", "--quiet", "--python", &base, &text]);
        host::run_ok(&other).map_err(|_| error)?;
    }
    let python = dir.join("bin/python");
    let program = python.display().to_string();
    if !spec.requirements.is_empty() {
        let list = dir.join("requirements.txt");
        fs_err::write(&list, spec.requirements.join("\n") + "\n")?;
        let list = list.display().to_string();
        let mut argv = vec![program.as_str(), "-m", "pip", "install", "--quiet"];
        argv.extend(["--disable-pip-version-check", "--no-input", "-r", &list]);
        host::run_ok(&pip_command(spec, argv))?;
    }
    if let Some(install) = &spec.install {
        let source = dir.join("source");
        let base = spec.source.as_deref().ok_or_else(|| {
            SandboxError::BadJob("an install command needs a source tree".to_owned())
        })?;
        copy_tree(base, &source, None)?;
        let place = |word: &String| {
            word.replace("{python}", &program).replace("{source}", &source.display().to_string())
        };
        let argv: Vec<String> = install.iter().map(place).collect();
        host::run_ok(&pip_command(spec, argv.iter().map(String::as_str).collect()).cwd(&source))?;
    }
    let mut read_only = vec![dir.to_owned()];
    read_only.extend(spec.interpreter.prefixes.iter().cloned());
    let venv = Venv { python, read_only };
    let json = serde_json::to_vec(&venv).map_err(std::io::Error::from)?;
    let partial = dir.join(".complete");
    fs_err::write(&partial, json)?;
    fs_err::rename(&partial, dir.join(COMPLETE))?;
    Ok(venv)
}

fn pip_command(spec: &VenvSpec, argv: Vec<&str>) -> Trusted {
    let mut trusted = Trusted::new(argv)
        .env_remove("PYTHONPATH")
        .env_remove("PYTHONHOME")
        .env_remove("VIRTUAL_ENV")
        .deadline(spec.deadline);
    for (name, value) in &spec.env {
        trusted = trusted.env(name, value);
    }
    trusted
}

struct Installed {
    matching: Vec<PathBuf>,
    others: Vec<String>,
}

/// Versions under pyenv and uv, newest matching first.
fn installed(wanted: &str) -> Installed {
    let home = nix::unistd::User::from_uid(nix::unistd::getuid()).ok().flatten();
    let home = home.map_or_else(|| PathBuf::from("/root"), |user| user.dir);
    let mut roots = vec![home.join(".pyenv/versions"), home.join(".local/share/uv/python")];
    let ask = |argv: &[&str]| {
        let said = host::run(&Trusted::new(argv.iter().copied()).deadline(Duration::from_secs(10)));
        said.ok().filter(|s| s.code == Some(0)).map(|s| PathBuf::from(s.text()))
    };
    roots.extend(ask(&["pyenv", "root"]).map(|root| root.join("versions")));
    roots.extend(ask(&["uv", "python", "dir"]));
    let mut versions: BTreeMap<Vec<u32>, PathBuf> = BTreeMap::new();
    let mut others = Vec::new();
    for entry in roots.iter().filter_map(|root| fs_err::read_dir(root).ok()).flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        // uv writes cpython-3.12.4-linux-x86_64-gnu, pyenv 3.12.4.
        let version = name.trim_start_matches("cpython-").split('-').next().unwrap_or("");
        let numbers: Option<Vec<u32>> = version.split('.').map(|n| n.parse().ok()).collect();
        match numbers {
            Some(numbers) if matches(version, wanted) => {
                versions.entry(numbers).or_insert_with(|| entry.path().join("bin/python3"));
            }
            Some(_) if version.starts_with('3') => others.push(version.to_owned()),
            _ => {}
        }
    }
    Installed { matching: versions.into_values().rev().collect(), others }
}

/// `3.9.18` is run as `python3.9`.
fn wanted_name(wanted: &str) -> String {
    let parts: Vec<&str> = wanted.split('.').take(2).collect();
    format!("python{}", parts.join("."))
}

fn matches(version: &str, wanted: &str) -> bool {
    version == wanted || version.strip_prefix(wanted).is_some_and(|rest| rest.starts_with('.'))
}

/// Drop prefixes that lie inside others.
fn outermost(mut interpreter: Interpreter) -> Interpreter {
    let all = interpreter.prefixes.clone();
    interpreter.prefixes.retain(|p| !all.iter().any(|other| other != p && p.starts_with(other)));
    interpreter
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_match_by_whole_numbers() {
        assert!(matches("3.11.7", "3.11"));
        assert!(matches("3.11.7", "3"));
        assert!(!matches("3.11.7", "3.1"));
        assert_eq!(wanted_name("3.9.18"), "python3.9");
    }

    #[test]
    fn the_default_python_is_found_with_its_prefix() {
        let Ok(python) = find_interpreter(None) else {
            println!("skipped: no python3 here");
            return;
        };
        assert!(python.version.starts_with("3."));
        assert!(python.path.is_absolute() && !python.prefixes.is_empty());
    }

    #[test]
    fn an_unknown_version_lists_what_there_is() {
        let error = find_interpreter(Some("3.99")).unwrap_err();
        assert!(error.to_string().starts_with("no Python 3.99"));
        assert!(error.hint().unwrap().contains("3.99"));
    }

    #[test]
    fn an_environment_is_built_once_and_shared() {
        let Ok(python) = find_interpreter(None) else {
            println!("skipped: no python3 here");
            return;
        };
        let temp = tempfile::tempdir().unwrap();
        let source = temp.path().join("src");
        fs_err::create_dir(&source).unwrap();
        let mut spec = VenvSpec::new(python, Vec::new());
        spec.install = Some(
            ["{python}", "-c", "open('mark', 'w').write('{source}')"].map(String::from).to_vec(),
        );
        spec.source = Some(source.clone());
        let venv = build_venv(&spec, &temp.path().join("cache")).unwrap();
        assert_eq!(build_venv(&spec, &temp.path().join("cache")).unwrap(), venv);
        assert!(venv.read_only[0].join("source/mark").exists());
        assert_eq!(fs_err::read_dir(&source).unwrap().count(), 0);
    }
}
