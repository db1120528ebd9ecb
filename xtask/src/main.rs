//! The checks of this repository, behind one door: `cargo xtask ci`.
//!
//! Owns what is checked and in which order. Ships nowhere; needs cargo and this
//! checkout. A tool that is not installed is skipped with a line that says so.
#![expect(clippy::print_stdout, reason = "a command whose product is its report")]

mod ci;
mod dependencies;
mod layers;
mod licences;
mod program;
mod reference;
mod rooms;
mod sources;
mod spdx;
mod workspace;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  ci [--skip-tests]   everything that must hold before a change goes in
  test                all tests and documentation tests
  layers [--graph]    who may depend on whom, who owns what; --graph draws it
  rooms               file names, headers and lengths
  licences            licences of all dependencies against deny.toml
  unused              dependencies that no source names
  reference [--check] docs/rewards/ from the presets' modules; --check only compares
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["ci"] => Ok(ci::run(ci::Tests::Run)),
        ["ci", "--skip-tests"] => Ok(ci::run(ci::Tests::Skip)),
        ["test"] => Ok(ci::test()),
        ["layers"] => ci::alone("layers", layers::check),
        ["layers", "--graph"] => workspace::read().map(|workspace| {
            print!("{}", layers::graph(&workspace));
            true
        }),
        ["rooms"] => ci::alone("rooms", rooms::check),
        ["licences"] => ci::alone("licences", licences::check),
        ["reference"] => reference::write(),
        ["reference", "--check"] => ci::alone("reference", reference::check),
        ["unused"] => ci::alone("unused", dependencies::check),
        ["help" | "--help" | "-h"] => {
            print!("{USAGE}");
            Ok(true)
        }
        _ => {
            print!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("error: {error:#}");
            ExitCode::from(3)
        }
    }
}
