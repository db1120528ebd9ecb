//! The binary: parse, run a command, print, exit.
//!
//! A process started as `patchrl sandbox-init` is the inside of a sandbox and
//! never gets further than the first line.

mod commands;
mod console;
mod exit;
mod gather;
mod jsonl;
mod printer;
mod problems;
mod server;
mod session;
mod settings;
mod stage;
mod training;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    if let Some(code) = patchrl_sandbox::init_main() {
        return ExitCode::from(code as u8);
    }
    patchrl_model::keep_freed_memory();
    let arguments = match commands::Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            let help = !error.use_stderr();
            // A closed pipe is the only thing that can go wrong here.
            let _ = error.print();
            return if help { ExitCode::SUCCESS } else { ExitCode::from(exit::Exit::Usage as u8) };
        }
    };
    let exit = match commands::run(&arguments) {
        Ok(exit) => exit,
        Err(error) => {
            let (exit, hint) = exit::explain(&error);
            printer::error(&error, hint.as_deref());
            exit
        }
    };
    ExitCode::from(exit as u8)
}
