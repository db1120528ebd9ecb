//! Diffs as the Python library `unidiff` 0.7.5 reads them, for the reward that is defined
//! by it.
//!
//! Owns the library's line-by-line reading and the text it prints of each file's hunks:
//! what it accepts, refuses and normalises (`@@ -1 +1 @@` becomes `@@ -1,1 +1,1 @@`).
//! Nothing is applied by this; for that see `patchrl_patch::Patch`.

use std::sync::LazyLock;

use regex::{Captures, Regex};

use crate::python::strip;

const DEV_NULL: &str = "/dev/null";

/// The library raises an exception.
pub(crate) struct Unreadable;

/// Each file's hunks, in the order of the diff: `get_filelevel_diff` of the original.
pub(super) fn by_file(text: &str) -> Result<Vec<(String, String)>, Unreadable> {
    Ok(read(text)?.files.iter().filter(|file| !file.binary).map(File::normalised).collect())
}

/// The name before the change of each file, as its `---` line has it.
pub(crate) fn sources(text: &str) -> Result<Vec<String>, Unreadable> {
    Ok(read(text)?.files.into_iter().map(|file| file.source).collect())
}

fn read(text: &str) -> Result<Reader, Unreadable> {
    let mut reader = Reader::default();
    let mut lines = text.split_inclusive('\n');
    while let Some(line) = lines.next() {
        reader.line(line, &mut lines)?;
    }
    Ok(reader)
}

/// One file of the diff.
struct File {
    source: String,
    target: String,
    binary: bool,
    /// As printed.
    hunks: Vec<String>,
}

impl File {
    fn new(source: &str, target: &str) -> Self {
        Self {
            source: source.to_owned(),
            target: target.to_owned(),
            binary: false,
            hunks: Vec::new(),
        }
    }

    /// The path that the file goes under, and its text.
    fn normalised(&self) -> (String, String) {
        let without =
            |name: &str, prefix: &str| name.strip_prefix(prefix).unwrap_or(name).to_owned();
        let after_two = |name: &str| name.chars().skip(2).collect::<String>();
        let renamed = self.source != DEV_NULL
            && self.target != DEV_NULL
            && after_two(&self.source) != after_two(&self.target);
        let (path, header) = if renamed {
            let (source, target) = (without(&self.source, "a/"), without(&self.target, "b/"));
            let header = format!("rename from {source} to {target}");
            (source, header)
        } else {
            let name = if self.source == DEV_NULL { &self.target } else { &self.source };
            let cut = name.strip_prefix("a/").or_else(|| name.strip_prefix("b/")).unwrap_or(name);
            (cut.to_owned(), String::new())
        };
        let hunks: Vec<&str> = self.hunks.iter().map(|hunk| strip(hunk)).collect();
        let text = format!("{header}\n{}", hunks.join("\n"));
        (path, strip(&text).to_owned())
    }
}

/// The state of `PatchSet._parse` between two lines.
#[derive(Default)]
struct Reader {
    files: Vec<File>,
    /// Does the last file take what comes next?
    open: bool,
    /// Are there header lines that no file has taken?
    info: bool,
    /// The name of the last `---` line or header, and whether a `---` line has been.
    source: Option<String>,
    source_line: bool,
}

impl Reader {
    fn line<'t>(
        &mut self,
        line: &'t str,
        rest: &mut impl Iterator<Item = &'t str>,
    ) -> Result<(), Unreadable> {
        if let Some(names) = GIT_HEADERS.iter().find_map(|header| header.captures(line)) {
            self.files.push(File::new(&names[1], &names[2]));
            (self.open, self.info) = (true, true);
            self.source = Some(names[1].to_owned());
        } else if NEW_FILE.is_match(line) {
            DEV_NULL.clone_into(&mut self.with_info()?.source);
        } else if DELETED_FILE.is_match(line) {
            DEV_NULL.clone_into(&mut self.with_info()?.target);
        } else if let Some(names) = SOURCE.captures(line) {
            self.open &= self.files.last().is_some_and(|file| file.source == names[1]);
            (self.source, self.source_line) = (Some(names[1].to_owned()), true);
        } else if let Some(names) = TARGET.captures(line) {
            self.target(&names[1])?;
        } else if let Some(header) = HUNK.captures(line) {
            self.info = false;
            let hunk = hunk(&header, rest);
            self.current()?.hunks.push(hunk?);
        } else if line.starts_with("\\ No newline at end of file") {
            self.last_hunk()?.push_str("\\ No newline at end of file\n");
        } else if line == "\n" && self.open {
            self.last_hunk()?.push('\n');
        } else {
            self.other(line)?;
        }
        Ok(())
    }

    /// The file that takes what comes next.
    fn current(&mut self) -> Result<&mut File, Unreadable> {
        self.files.last_mut().filter(|_| self.open).ok_or(Unreadable)
    }

    fn with_info(&mut self) -> Result<&mut File, Unreadable> {
        if self.info { self.current() } else { Err(Unreadable) }
    }

    fn last_hunk(&mut self) -> Result<&mut String, Unreadable> {
        self.current()?.hunks.last_mut().ok_or(Unreadable)
    }

    fn target(&mut self, target: &str) -> Result<(), Unreadable> {
        if self.open {
            let fits = self.current()?.target == target;
            return if fits { Ok(()) } else { Err(Unreadable) };
        }
        // Without a `---` line the library reads a variable that was never set.
        let source = self.source.as_ref().filter(|_| self.source_line).ok_or(Unreadable)?;
        self.files.push(File::new(source, target));
        (self.open, self.info) = (true, false);
        Ok(())
    }

    fn other(&mut self, line: &str) -> Result<(), Unreadable> {
        self.open &= self.info;
        self.info = true;
        if let Some(names) = BINARY.captures(line) {
            if !self.open {
                self.files.push(File::new(&names[1], ""));
            }
            self.open = true;
            self.current()?.binary = true;
            self.source = Some(names[1].to_owned());
            (self.open, self.info) = (false, false);
        } else if line == "GIT binary patch\n" {
            self.current()?.binary = true;
            (self.open, self.info) = (false, false);
        }
        Ok(())
    }
}

/// A hunk as the library prints it, its lines taken from `rest`.
fn hunk<'t>(
    header: &Captures<'_>,
    rest: &mut impl Iterator<Item = &'t str>,
) -> Result<String, Unreadable> {
    let number = |group: usize| header.get(group).map(|digits| trim_zeros(digits.as_str()));
    // A count that does not fit cannot be reached.
    let count = |group: usize| number(group).map_or(Ok(1), |n| n.parse().map_err(|_| Unreadable));
    let (old, new): (u64, u64) = (count(2)?, count(4)?);
    let starts = (number(1).unwrap_or_default(), number(3).unwrap_or_default());
    let mut text = format!("@@ -{},{old} +{},{new} @@", starts.0, starts.1);
    if !header[5].is_empty() {
        text.push(' ');
        text.push_str(&header[5]);
    }
    text.push('\n');
    let (mut removed, mut added) = (0, 0);
    for line in rest {
        let mark = line.chars().next().filter(|c| matches!(c, '-' | '+' | ' ' | '\\'));
        if mark.is_some() {
            text.push_str(line);
        } else {
            // An empty line stands for an empty line of context.
            let ends = line.len() - line.trim_start_matches(['\r', '\n']).len();
            if ends == 0 {
                return Err(Unreadable);
            }
            text.push(' ');
            text.push_str(&line[..ends.min(2)]);
        }
        let mark = mark.unwrap_or(' ');
        removed += u64::from(matches!(mark, '-' | ' '));
        added += u64::from(matches!(mark, '+' | ' '));
        if removed > old || added > new {
            return Err(Unreadable);
        }
        if (removed, added) == (old, new) {
            break;
        }
    }
    if (removed, added) == (old, new) { Ok(text) } else { Err(Unreadable) }
}

/// As Python prints the number it has read.
fn trim_zeros(digits: &str) -> &str {
    match digits.trim_start_matches('0') {
        "" => "0",
        digits => digits,
    }
}

/// The library's expressions, each matched at the start of a line with its end.
macro_rules! expression {
    ($name:ident, $text:expr) => {
        static $name: LazyLock<Regex> =
            LazyLock::new(|| Regex::new($text).expect("the expression is a constant"));
    };
}

expression!(NEW_FILE, r"\Anew file mode [0-9]+\n?\z");
expression!(DELETED_FILE, r"\Adeleted file mode [0-9]+\n?\z");
expression!(SOURCE, r"\A--- ([^\t\n]+)");
expression!(TARGET, r"\A\+\+\+ ([^\t\n]+)");
expression!(HUNK, r"\A@@ -([0-9]+)(?:,([0-9]+))? \+([0-9]+)(?:,([0-9]+))? @@ ?(.*)");
expression!(
    BINARY,
    r"\ABinary files? ([^\t]+?)(?:\t[\s\x1c-\x1f0-9:+-]+)?(?: and [^\t]+?(?:\t[\s\x1c-\x1f0-9:+-]+)?)? (?:differ|has changed)"
);

static GIT_HEADERS: LazyLock<[Regex; 3]> = LazyLock::new(|| {
    [
        r"\Adiff --git (a/[^\t\n]+) (b/[^\t\n]+)",
        r"\Adiff --git (.*://[^\t\n]+) (.*://[^\t\n]+)",
        r"\Adiff --git ([^\t\n]+) ([^\t\n]+)",
    ]
    .map(|text| Regex::new(text).expect("the expression is a constant"))
});
