//! A sandbox, a judge, and a shipped task made ready.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use patchrl_agent::{AgentConfig, Calling, Played, Policy, Reply, Scripted};
use patchrl_reward::{Judge, Judgement, Mode, Preparer, Ready, Settings};
use patchrl_rollout::EpisodeRoller;
use patchrl_sandbox::{Limits, Local, TierChoice};

pub(crate) struct Bench {
    pub(crate) judge: Judge,
    /// `shorten` lacks its first two lines.
    pub(crate) ready: Ready,
    pub(crate) other: Ready,
    folder: tempfile::TempDir,
}

impl Bench {
    pub(crate) fn start(tier: TierChoice) -> Result<Self, String> {
        let folder = tempfile::tempdir().unwrap();
        let sandbox = Local::start(tier, &folder.path().join("state"))
            .map_err(|e| format!("no sandbox here: {e}"))?;
        patchrl_sandbox::python::find_interpreter(None).map_err(|_| "no python3 here")?;
        let limits = Limits { wall: Duration::from_mins(1), ..Limits::default() };
        let judge = Judge::new(Arc::new(sandbox), Settings { limits, ..Settings::default() });
        let preparer = Preparer::new(None, folder.path().join("cache"));
        let tasks = patchrl_task::toy::tasks();
        let ready = |id: &str| {
            let task = tasks.iter().find(|task| task.id.as_str() == id).unwrap();
            preparer.prepare(task).unwrap()
        };
        let (ready, other) = (ready("patchrl-toy__textkit-2"), ready("patchrl-toy__textkit-1"));
        Ok(Self { judge, ready, other, folder })
    }

    pub(crate) fn state(&self) -> std::path::PathBuf {
        self.folder.path().join("state")
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn roller<'a>(
        &'a self,
        policy: &'a dyn Policy,
        config: &'a AgentConfig,
    ) -> EpisodeRoller<'a> {
        EpisodeRoller {
            policy,
            voice: None,
            config,
            calling: Calling::Text,
            max_new_tokens: 1000,
            judge: &self.judge,
        }
    }

    /// One episode of [`Bench::ready`] with these replies.
    pub(crate) fn play(
        &self,
        replies: impl IntoIterator<Item = Reply>,
        config: &AgentConfig,
    ) -> (Played, Judgement) {
        self.play_policy(&Scripted::new(replies), config)
    }

    pub(crate) fn play_policy(
        &self,
        policy: &dyn Policy,
        config: &AgentConfig,
    ) -> (Played, Judgement) {
        let roller = self.roller(policy, config);
        let played = roller.play(&[(&self.ready, vec![1])], &mut |_| {}).unwrap();
        let played = played.into_iter().flatten().next().unwrap();
        let judgement =
            roller.judge(&self.ready, std::slice::from_ref(&played), Mode::Tests).pop().unwrap();
        (played, judgement)
    }
}

/// A reply with one call.
pub(crate) fn call(json: &str) -> Reply {
    Reply::said(format!("Next.\n```tool\n{json}\n```\n"))
}
