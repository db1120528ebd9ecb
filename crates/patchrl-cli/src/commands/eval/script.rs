//! `patchrl eval script`: the commands that run an instance's tests, as the harness has them.

use std::path::PathBuf;

use clap::Args;
use patchrl_reward::harness::script::{self, Instance, Specs};
use patchrl_task::Task;
use serde_json::{Value, json};

use super::grade::Version;
use crate::exit::{Exit, usage};
use crate::printer;

#[derive(Debug, Args)]
pub(crate) struct Script {
    /// SWE-bench rows.
    #[arg(value_name = "FILE")]
    instances: PathBuf,
    /// 5: the column `eval_script`, made to print the exit code. 4: assembled from `--specs`.
    #[arg(long, value_enum, default_value = "v5")]
    dialect: Version,
    /// For version 4, swebench 4.1.0's constants as JSON: `{"specs":
    /// MAP_REPO_VERSION_TO_SPECS, "ext": MAP_REPO_TO_EXT}`.
    #[arg(long, value_name = "FILE", required_if_eq("dialect", "v4"))]
    specs: Option<PathBuf>,
}

pub(super) fn run(flags: &Script) -> anyhow::Result<Exit> {
    let tasks = patchrl_task::load(&flags.instances)?;
    let specs = flags.specs.as_deref().map(|path| -> anyhow::Result<Specs> {
        let bad = |why: String| {
            let hint = "dump both constants of swebench 4.1.0 into one object with json.dump";
            usage(format!("`{}`: {why}", path.display()), hint)
        };
        let text = fs_err::read_to_string(path).map_err(|e| bad(e.to_string()))?;
        serde_json::from_str(&text).map_err(|e| bad(e.to_string()))
    });
    let specs = specs.transpose()?;
    let mut output = printer::stream();
    for task in &tasks {
        let answer = match made(task, flags.dialect, specs.as_ref()) {
            Ok(script) => json!({ "instance_id": task.id, "script": script, "error": null }),
            Err(error) => json!({ "instance_id": task.id, "script": null, "error": error }),
        };
        serde_json::to_writer(&mut output, &answer)?;
        std::io::Write::write_all(&mut output, b"\n")?;
    }
    Ok(Exit::Success)
}

fn made(task: &Task, dialect: Version, specs: Option<&Specs>) -> Result<String, String> {
    if let (Version::V4, Some(specs)) = (dialect, specs) {
        let instance = Instance {
            repo: &task.repo,
            version: task.version.as_deref().unwrap_or_default(),
            base_commit: &task.base_commit,
            test_patch: &task.test_patch,
            image_assets: task.extra.get("image_assets"),
        };
        return script::v4(instance, specs).map_err(|e| e.to_string());
    }
    let column = task.extra.get("eval_script").and_then(Value::as_str);
    column.map(script::v5).ok_or_else(|| "the row has no `eval_script`".to_owned())
}
