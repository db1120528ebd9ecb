//! The command line: one file for each command.

mod bench;
mod config;
mod doctor;
mod eval;
mod flags;
mod image;
mod patch;
mod pipeline;
mod quickstart;
mod reward;
mod rollout;
mod sandbox;
mod task;
mod train;

use clap::{Parser, Subcommand};

use crate::exit::Exit;
use crate::settings::Environment;

pub(crate) use image::prepare_for as prepare_images;

/// Reinforcement learning that teaches code models to fix real software.
///
/// Exit codes: 0 done, 1 the answer is no, 2 something must be changed by you,
/// 3 our fault or the machine's.
#[derive(Debug, Parser)]
#[command(version, name = "patchrl", max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The main job, small and real: fetch a model, train it, measure it.
    Quickstart(quickstart::Quickstart),
    /// What this machine can do, and what would turn on the rest.
    Doctor(doctor::Doctor),
    /// Change the weights of a model.
    #[command(subcommand)]
    Train(train::Train),
    /// Stages of training one after the other, measured between them.
    #[command(subcommand)]
    Pipeline(pipeline::Pipeline),
    /// Let a model or a script solve tasks, and keep what is worth learning from.
    Rollout(rollout::Rollout),
    /// Measure a model.
    #[command(subcommand)]
    Eval(eval::Eval),
    /// Look at task sets, make them, and check them by running them.
    #[command(subcommand)]
    Task(task::Task),
    /// Find, apply and show patches: JSONL in, JSONL out.
    #[command(subcommand)]
    Patch(patch::PatchCommand),
    /// Score answers that exist, or a few new ones before a run.
    #[command(subcommand)]
    Reward(reward::Reward),
    /// Get the container images of a task set, list them, remove them.
    #[command(subcommand)]
    Image(image::Image),
    /// Run something in the sandbox, or clean up after a crash.
    #[command(subcommand)]
    Sandbox(sandbox::Sandbox),
    /// Measure on this machine what patchrl is chosen for.
    #[command(subcommand)]
    Bench(bench::Bench),
    /// Check a configuration, or print all keys with their defaults.
    #[command(subcommand)]
    Config(config::Config),
}

/// Run the command that was asked for.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let environment = Environment::read();
    match &arguments.command {
        Command::Quickstart(command) => quickstart::run(command, &environment),
        Command::Doctor(command) => doctor::run(command, &environment),
        Command::Train(command) => train::run(command, &environment),
        Command::Pipeline(command) => pipeline::run(command, &environment),
        Command::Rollout(command) => rollout::run(command, &environment),
        Command::Eval(command) => eval::run(command, &environment),
        Command::Task(command) => task::run(command, &environment),
        Command::Patch(command) => patch::run(command),
        Command::Reward(command) => reward::run(command, &environment),
        Command::Image(command) => image::run(command, &environment),
        Command::Sandbox(command) => sandbox::run(command, &environment),
        Command::Bench(command) => bench::run(command, &environment),
        Command::Config(command) => config::run(command),
    }
}
