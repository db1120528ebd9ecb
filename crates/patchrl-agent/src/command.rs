//! A command of an agent, in a sandbox of its own over the files as they are.
//!
//! Owns the script around the command and how what it changed comes back: a list of all files and
//! an archive of those whose inode changed since the command began, both bounded. What comes back
//! is as untrusted as the command; it changes the episode's own files and nothing else. A command
//! that is stopped, or whose changes are too large, leaves the files as they were.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::time::Duration;

use patchrl_patch::{Changes, Entry, Mode, Tree as _};
use patchrl_sandbox::{Ending, FileWrite, Job, Output};

use crate::observation::{printable, steady};
use crate::tools::{Desk, Failure};

/// What is kept of what a command does to the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    Changes,
    Nothing,
}

/// Names of folders and files that are nobody's work: they are not shown, and not kept.
pub const DROPPINGS: [&str; 8] = [
    ".git",
    ".patchrl",
    "__pycache__",
    ".pytest_cache",
    ".mypy_cache",
    ".ruff_cache",
    ".hypothesis",
    ".tox",
];

const FILES: &str = ".agent-files";
const ARCHIVE: &str = ".agent-archive";
/// Under the sandbox's limit for a file that is read back.
const LARGEST_ARCHIVE: usize = 4_000_000;

/// The command is `"$@"`. An inode's change time cannot be set by its owner, so what was changed
/// after the mark is found whatever its other times say. The mark is a clock tick older.
const SCRIPT: &str = r#"
root=$PWD; out=$PATCHRL_OUT
: > "$out/.agent-mark"
sleep 0.02 2>/dev/null || sleep 1
( "$@" )
code=$?
cd "$root" 2>/dev/null || exit "$code"
exec >/dev/null 2>&1
pruned() { find . \( PRUNED \) -prune -o \( -type f -o -type l \) "$@" -print0; }
printf '%s\0' "$root" > "$out/.agent-files"
pruned >> "$out/.agent-files"
pruned -cnewer "$out/.agent-mark" > "$out/.agent-changed"
tar --null --no-recursion --hard-dereference -cf - -T "$out/.agent-changed" |
    head -c ARCHIVE_CAP > "$out/.agent-archive"
exit "$code"
"#;

/// Run `argv` over the files of `desk`. What the model is shown.
pub(crate) fn run(desk: &mut Desk, argv: &[String], keep: Keep) -> Result<String, Failure> {
    let budget = Duration::from_secs(desk.config.seconds).saturating_sub(desk.spent);
    let wall = budget.min(Duration::from_secs(desk.config.command_seconds));
    let job = job(desk, argv, wall);
    let output =
        desk.workspace.ground.runner.run(&job).map_err(|e| Failure::Lost(e.to_string()))?;
    desk.spent += output.wall;
    let mut shown = shown(&output);
    if shown.is_empty() {
        shown.push_str("[no output]\n");
    }
    if output.output_truncated {
        shown.push_str("[it printed more, which was thrown away]\n");
    }
    match output.ending {
        Ending::Exited(0) => {}
        Ending::TimedOut => {
            let note = format!("[stopped after {} s; its changes are not kept]\n", wall.as_secs());
            return Ok(shown + &note);
        }
        ending => shown.push_str(&format!("[{ending}]\n")),
    }
    if keep == Keep::Nothing {
        return Ok(shown);
    }
    match read_back(desk, &output).and_then(|changes| desk.workspace.change(changes)) {
        Ok(()) => Ok(shown),
        Err(why) => Ok(format!("{shown}[its changes are not kept: {why}]\n")),
    }
}

fn job(desk: &Desk, argv: &[String], wall: Duration) -> Job {
    let mut job = desk.workspace.ground.job.clone();
    let names: Vec<String> = DROPPINGS.iter().map(|name| format!("-name {name}")).collect();
    let script = SCRIPT
        .replace("PRUNED", &names.join(" -o "))
        .replace("ARCHIVE_CAP", &LARGEST_ARCHIVE.to_string());
    let shell = ["/bin/sh", "-c", &script, "patchrl"].map(str::to_owned);
    job.argv = shell.into_iter().chain(argv.iter().cloned()).collect();
    let file = |entry: &Entry| FileWrite {
        mode: if entry.mode == Mode::Executable { 0o755 } else { 0o644 },
        bytes: entry.bytes.clone(),
        symlink: entry.mode == Mode::Symlink,
    };
    let changes = desk.workspace.changes().iter();
    job.writes.extend(changes.map(|(path, entry)| (path.clone(), entry.as_ref().map(file))));
    job.collect = vec![FILES.to_owned(), ARCHIVE.to_owned()];
    job.limits.wall = wall;
    job
}

/// What the command printed, the same from run to run and machine to machine.
fn shown(output: &Output) -> String {
    let text = printable(&output.output);
    let place = output.collected.get(FILES).and_then(|files| {
        let first = files.split(|byte| *byte == 0).next()?;
        std::str::from_utf8(first).ok().filter(|place| place.len() > 1).map(str::to_owned)
    });
    // Without namespaces the workspace has another path each time.
    let text = match place {
        Some(place) if place != "/workspace" => text.replace(&place, "/workspace"),
        _ => text,
    };
    steady(&text)
}

/// What the command changed, from what the sandbox gave back.
fn read_back(desk: &Desk, output: &Output) -> Result<Changes, String> {
    let missing = || "they are too large, or it stopped the shell that runs it".to_owned();
    let files = output.collected.get(FILES).ok_or_else(missing)?;
    let archive = output.collected.get(ARCHIVE).ok_or_else(missing)?;
    if archive.len() >= LARGEST_ARCHIVE {
        return Err(format!("they take more than {LARGEST_ARCHIVE} bytes"));
    }
    let mut there = BTreeSet::new();
    for path in files.split(|byte| *byte == 0).skip(1).filter(|path| !path.is_empty()) {
        there.insert(inside(path)?);
    }
    let before = desk.workspace.files();
    let gone = before.into_iter().filter(|path| !there.contains(*path));
    let mut changes: Changes = gone.map(|path| (path.to_owned(), None)).collect();
    for (path, entry) in unpack(archive)? {
        let same = desk.workspace.entry(&path).map_err(|e| e.to_string())?;
        if there.contains(&path) && same.as_ref() != Some(&entry) {
            changes.insert(path, Some(entry));
        }
    }
    Ok(changes)
}

/// A path of the sandbox, from the top of the workspace.
fn inside(path: &[u8]) -> Result<String, String> {
    let path = std::str::from_utf8(path)
        .map_err(|_| format!("the name `{}` is not UTF-8", printable(path).replace('\n', " ")))?;
    crate::workspace::path(path)
}

/// The files and links of an archive that is smaller than [`LARGEST_ARCHIVE`].
fn unpack(archive: &[u8]) -> Result<Vec<(String, Entry)>, String> {
    let broken = |e: std::io::Error| format!("they cannot be read: {e}");
    let mut found = Vec::new();
    for entry in tar::Archive::new(archive).entries().map_err(broken)? {
        let mut entry = entry.map_err(broken)?;
        let path = inside(&entry.path_bytes())?;
        let kind = entry.header().entry_type();
        if kind.is_symlink() {
            let bytes = entry.link_name_bytes().unwrap_or_default().into_owned();
            found.push((path, Entry { mode: Mode::Symlink, bytes }));
        } else if kind.is_file() {
            let executable = entry.header().mode().is_ok_and(|mode| mode & 0o100 != 0);
            let mode = if executable { Mode::Executable } else { Mode::Regular };
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).map_err(broken)?;
            found.push((path, Entry { mode, bytes }));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An archive with one file whose name is written as it is.
    fn archive(name: &[u8], kind: tar::EntryType, link: &str) -> Vec<u8> {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(0);
        header.set_mode(0o644);
        header.as_old_mut().name[..name.len()].copy_from_slice(name);
        header.set_link_name_literal(link).unwrap();
        header.set_cksum();
        let mut builder = tar::Builder::new(Vec::new());
        builder.append(&header, std::io::empty()).unwrap();
        builder.into_inner().unwrap()
    }

    #[test]
    fn an_archive_of_a_liar_leads_nowhere() {
        for name in ["../x", "/etc/x", "a/../../x", ".git/config", "\u{1}/../x"] {
            let got = unpack(&archive(name.as_bytes(), tar::EntryType::Regular, ""));
            assert!(got.is_err(), "{name} was taken: {got:?}");
        }
        assert!(unpack(&archive(b"a\xff", tar::EntryType::Regular, "")).is_err());
        let link = unpack(&archive(b"./l", tar::EntryType::Symlink, "/etc/passwd")).unwrap();
        assert_eq!((link[0].0.as_str(), link[0].1.mode), ("l", Mode::Symlink));
        for kind in [tar::EntryType::Fifo, tar::EntryType::Block, tar::EntryType::Link] {
            assert_eq!(unpack(&archive(b"d", kind, "x")).unwrap(), []);
        }
        let mut cut = archive(b"a", tar::EntryType::Regular, "");
        cut.truncate(300);
        assert!(unpack(&cut).is_err());
        assert_eq!(unpack(&[]).unwrap(), []);
        let mut noise = 1_u32;
        let bytes: Vec<u8> = (0..4096)
            .map(|_| {
                noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (noise >> 24) as u8
            })
            .collect();
        assert!(unpack(&bytes).is_err());
    }
}
