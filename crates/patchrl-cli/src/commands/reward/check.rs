//! `patchrl reward check`: a few answers of a model or a server, judged, before a run.

use std::fmt::Write as _;

use clap::Args;
use patchrl_eval::{CheckReport, Checkup, Sampled};
use patchrl_reward::Mode;
use patchrl_rollout::Roller;
use patchrl_train::Listener as _;

use super::super::flags::{Common, ServerFlags, checked, set};
use crate::console::Console;
use crate::exit::{Exit, usage};
use crate::printer::{self, Form};
use crate::server;
use crate::session::{self, Session};
use crate::settings::{Environment, Settings};

#[derive(Debug, Args)]
pub(crate) struct Check {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    server: ServerFlags,
    /// Answers to take.
    #[arg(long, default_value_t = 10)]
    samples: u32,
    /// Answers to each task.
    #[arg(long, default_value_t = 5)]
    group_size: u32,
    /// What answers are judged by; else the last phase of the configuration's curriculum.
    #[arg(long, value_name = "MODE")]
    reward_mode: Option<Mode>,
    /// Tokens of one answer.
    #[arg(long)]
    max_new_tokens: Option<usize>,
    /// Sampling temperature.
    #[arg(long)]
    temperature: Option<f32>,
}

pub(super) fn run(flags: &Check, environment: &Environment) -> anyhow::Result<Exit> {
    if flags.samples == 0 || flags.group_size == 0 {
        return Err(usage(
            "`--samples` and `--group-size` must be at least 1",
            "ten answers to two tasks are the default",
        ));
    }
    let settings = settings(flags)?;
    let last = settings.train.curriculum.last().map_or(Mode::Tests, |phase| phase.mode);
    let mode = flags.reward_mode.unwrap_or(last);
    let mut console = Console::new();
    let session = Session::open(&settings, environment)?;
    let who = server::who(&session, flags.common.names_a_model(), &mut console)?;
    console.say(&format!("sandbox: {}", session.sandbox.tier()));
    let mut tasks = session.tasks(session::is_train)?;
    let wanted = (flags.samples / flags.group_size).max(1) as usize;
    // Only those that are asked are made ready.
    let taken = patchrl_rollout::items_of_step(settings.train.seed, 0, wanted, tasks.len());
    tasks = taken.into_iter().map(|at| tasks[at].clone()).collect();
    let ready = session.prepare(&tasks, &mut console)?;
    if ready.is_empty() {
        return Err(usage(
            format!("there is no task to ask in `{}`", settings.tasks),
            "`patchrl task stats` shows what the file holds",
        ));
    }
    let checkup = Checkup {
        roller: Roller {
            policy: &*who,
            prompt: &settings.prompt,
            sampling: &settings.sampling,
            judge: &session.judge,
            agent: settings.agent.as_ref(),
        },
        mode,
        samples: flags.samples,
        group_size: flags.group_size,
        seed: settings.train.seed,
    };
    let most = u64::from(flags.samples + 2) * settings.sampling.budget().drawn() as u64;
    let mut drawn = 0;
    let report = checkup.run(&ready, &mut |tokens| {
        drawn += tokens as u64;
        console.progress("tokens drawn", drawn, most);
    })?;
    console.clear();
    printer::report(Form::of(flags.common.json), &report, || text(&report))?;
    Ok(if report.fit { Exit::Success } else { Exit::Negative })
}

fn settings(flags: &Check) -> anyhow::Result<Settings> {
    let mut s = flags.common.settings()?;
    flags.server.over_asking(&mut s, flags.common.names_a_model());
    set(&mut s.sampling.max_new_tokens, flags.max_new_tokens);
    set(&mut s.sampling.temperature, flags.temperature);
    checked(s)
}

fn text(report: &CheckReport) -> String {
    let longest = |of: &dyn Fn(&Sampled) -> usize| report.samples.iter().map(of).max().unwrap_or(0);
    let width = longest(&|it| it.task.len()).max(4);
    let form = longest(&|it| it.form.len()).max(4);
    let mut out = format!(
        "{:width$}  {:>2}  {:<form$}  {:<12}  {:>7}  {:>6}\n",
        "task", "n", "form", "outcome", "reward", "tokens"
    );
    for it in &report.samples {
        let reward = it.reward.map_or_else(|| "lost".to_owned(), |it| format!("{it:.3}"));
        let tokens = it.tokens.map_or_else(|| "?".to_owned(), |it| it.to_string());
        let _ = writeln!(
            out,
            "{:width$}  {:>2}  {:<form$}  {:<12}  {reward:>7}  {tokens:>6}",
            it.task, it.sample, it.form, it.outcome
        );
    }
    if let (Some(mean), Some(variance)) = (report.mean, report.variance) {
        let _ = writeln!(
            out,
            "\n{} answers, mean reward {mean:.3}, variance {variance:.3}",
            report.samples.len()
        );
    }
    let repeat = &report.repeat;
    let same = |same| if same { "the same" } else { "another" };
    let _ = writeln!(
        out,
        "the first question twice at temperature 0: {} answer, {} reward",
        same(repeat.same_answer),
        same(repeat.same_reward)
    );
    for it in &report.verdicts {
        let mark = if it.bars { "no " } else { "ok " };
        let _ = write!(out, "\n{mark} {}: {}\n    try: {}\n", it.word, it.says, it.try_this);
    }
    out
}
