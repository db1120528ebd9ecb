//! How each server is told about weights.
//!
//! Owns the paths and bodies of vLLM and `SGLang`, and the words for what goes wrong there.

use std::path::Path;

use serde_json::{Value, json};

use super::{Handover, Way};
use crate::config::Server;
use crate::openai::{Answer, Trouble};

impl Handover {
    /// Load the adapter in `folder`. A first attempt that seemed lost may have come through.
    pub(super) fn load(&self, name: &str, folder: &Path, again: bool) -> Result<(), Trouble> {
        let body = json!({ "lora_name": name, "lora_path": folder });
        let answer = self.post(self.adapters("load"), &body)?;
        let said = self.said(&answer);
        if succeeded(&answer) || again && said.contains("already") {
            return Ok(());
        }
        Err(self.refused(&answer, &format!("to load `{name}` from `{}`", folder.display())))
    }

    /// Unload an adapter. One that is not there is as good.
    pub(super) fn unload(&self, name: &str, again: bool) -> Result<(), Trouble> {
        let answer = self.post(self.adapters("unload"), &json!({ "lora_name": name }))?;
        if succeeded(&answer) || again && matches!(answer.status, 400 | 404) {
            return Ok(());
        }
        Err(self.refused(&answer, &format!("to unload `{name}`")))
    }

    /// Read whole weights from `folder`. Nothing is drawn meanwhile, whoever else asks the server:
    /// an answer half of old weights and half of new ones has no version.
    pub(super) fn update(&self, name: &str, folder: &Path) -> Result<(), Trouble> {
        self.switch("pause_generation", &json!({ "mode": "retract" }))?;
        let updated = self.exchange(name, folder);
        // Whatever came of it: a server that was left paused answers nobody.
        let resumed = self.switch("continue_generation", &json!({}));
        updated.and(resumed)
    }

    fn switch(&self, path: &str, body: &Value) -> Result<(), Trouble> {
        let answer = self.post(path, body)?;
        match answer.status {
            // Older ones have no such switch, and end what they are drawing first.
            404 | 405 => Ok(()),
            _ if succeeded(&answer) => Ok(()),
            _ => Err(self.refused(&answer, &format!("`{path}`"))),
        }
    }

    fn exchange(&self, name: &str, folder: &Path) -> Result<(), Trouble> {
        let body = json!({
            "model_path": folder, "weight_version": name, "flush_cache": true,
            "abort_all_requests": false,
        });
        let answer = self.post("update_weights_from_disk", &body)?;
        if succeeded(&answer) {
            return Ok(());
        }
        Err(self.refused(&answer, &format!("to read weights from `{}`", folder.display())))
    }

    /// Empty the cache of prefixes, which does not always know two adapters of one name apart.
    pub(super) fn forget_prefixes(&self) -> Result<(), Trouble> {
        let path = match self.server.server() {
            Server::Sglang => "flush_cache",
            _ => "reset_prefix_cache",
        };
        let answer = self.post(path, &json!({}))?;
        match answer.status {
            // vLLM has it in its development mode alone.
            404 | 405 => Ok(()),
            _ if succeeded(&answer) => Ok(()),
            _ => Err(self.refused(&answer, "to empty its cache")),
        }
    }

    /// Whether it is up. One that does not say is asked on.
    pub(super) fn is_well(&self) -> Result<(), Trouble> {
        let answer = self.server.wire().get("health", self.server.control_timeout())?;
        match answer.status {
            404 | 405 => Ok(()),
            _ if answer.is_ok() => Ok(()),
            _ => Err(self.refused(&answer, "to be well")),
        }
    }

    /// Names of all weights it has.
    pub(super) fn names(&self) -> Result<Vec<String>, Trouble> {
        let answer = self.server.wire().list("models", self.server.control_timeout())?;
        let body = answer.json();
        let models = body["data"].as_array().into_iter().flatten();
        Ok(models.filter_map(|it| it["id"].as_str().map(str::to_owned)).collect())
    }

    fn adapters(&self, verb: &str) -> &'static str {
        match (self.server.server(), verb) {
            (Server::Sglang, "load") => "load_lora_adapter",
            (Server::Sglang, _) => "unload_lora_adapter",
            (_, "load") => "v1/load_lora_adapter",
            _ => "v1/unload_lora_adapter",
        }
    }

    fn post(&self, path: &str, body: &Value) -> Result<Answer, Trouble> {
        self.server.wire().post(path, body, self.server.control_timeout())
    }

    /// What the server said, for people.
    fn said(&self, answer: &Answer) -> String {
        let body = answer.json();
        let error = &body["error"];
        let texts = [&error["message"], error, &body["error_message"], &body["message"]];
        let text = texts.into_iter().find_map(Value::as_str);
        let whole = String::from_utf8_lossy(&answer.body);
        self.server.wire().quote(text.unwrap_or(&whole))
    }

    fn refused(&self, answer: &Answer, what: &str) -> Trouble {
        let (at, status) = (self.server.wire().address(), answer.status);
        let what = format!("`{at}` refuses {what} (status {status}): {}", self.said(answer));
        if status == 429 || status >= 500 {
            return Trouble::Again { what, after: answer.retry_after };
        }
        let hint = match (self.server.server(), status) {
            (_, 401 | 403) => {
                "name the environment variable that holds the key as `rollout.api_key_env`"
            }
            _ if self.way == Way::Disk => {
                "the server has to see this folder; `rollout.server_dir` is its path there"
            }
            (Server::Sglang, _) => {
                "start SGLang with `--enable-lora --max-lora-rank R --lora-target-modules ...` on \
                 a machine that sees this folder; `rollout.server_dir` is its path there"
            }
            _ => {
                "start vLLM with `--enable-lora --max-lora-rank R --max-loras N` (N above \
                 `rollout.staleness`) and VLLM_ALLOW_RUNTIME_LORA_UPDATING=1, on a machine that \
                 sees this folder; `rollout.server_dir` is its path there"
            }
        };
        Trouble::fatal(what, hint)
    }
}

/// `SGLang` may say no with status 200.
fn succeeded(answer: &Answer) -> bool {
    answer.is_ok() && answer.json()["success"] != false
}
