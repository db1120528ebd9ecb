//! What goes wrong with a diff on its way from a model: counts, context, ends of lines,
//! order, names, and single bytes. And what changes in a file meanwhile.

use patchrl_patch::Mode;

use crate::dice::Dice;
use crate::git::Files;

/// Sections out of order, twice, or not at all; then the whole text.
pub(crate) fn damaged(dice: &mut Dice, mut sections: Vec<String>) -> String {
    match dice.below(20) {
        0 => sections.reverse(),
        1 => sections.push(sections[dice.below(sections.len())].clone()),
        2 => drop(sections.remove(dice.below(sections.len()))),
        _ => {}
    }
    let mut text = sections.concat();
    for _ in 0..dice.pick(&[0, 0, 0, 1, 1, 1, 2, 3]) {
        text = damage(dice, &text);
    }
    text
}

fn damage(dice: &mut Dice, text: &str) -> String {
    match dice.below(12) {
        0 => with_lines(dice, text, |_, _, _| Vec::new()),
        1 => with_lines(dice, text, |_, _, line| vec![line.to_owned(), line.to_owned()]),
        2 | 3 => with_lines(dice, text, |dice, _, line| vec![stray(dice), line.to_owned()]),
        4 => with_lines(dice, text, |dice, _, _| vec![stray(dice)]),
        5 | 6 => with_hunk_header(dice, text),
        7 | 8 => with_lines(dice, text, |dice, _, line| vec![bent(dice, line)]),
        9 => with_lines(dice, text, |_, next, line| match next {
            Some(next) => vec![next.to_owned(), line.to_owned(), String::new()],
            None => vec![line.to_owned()],
        }),
        10 => hunks_moved(dice, text),
        _ => as_a_whole(dice, text),
    }
}

/// Put others in place of one line. They also see the line after it, and if they give
/// three, take its place too.
fn with_lines(
    dice: &mut Dice,
    text: &str,
    others: impl Fn(&mut Dice, Option<&str>, &str) -> Vec<String>,
) -> String {
    let mut lines: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
    if lines.is_empty() {
        return String::new();
    }
    let at = dice.below(lines.len());
    let new = others(dice, lines.get(at + 1).map(String::as_str), &lines[at]);
    let taken = if new.len() == 3 { 2 } else { 1 };
    lines.splice(at..at + taken, new);
    lines.concat()
}

fn stray(dice: &mut Dice) -> String {
    let lines = [
        "+z\n",
        "-a\n",
        " a\n",
        " \n",
        "\n",
        "\\ No newline at end of file\n",
        "\\ No\n",
        "x\n",
        "@@ -1,2 +1,3 @@\n",
        "@@ -3 +2,2 @@\n",
        "@@ -0,0 +1 @@\n",
        "--- a/g\n",
        "+++ b/f\n",
        "--- /dev/null\n",
        "+++ /dev/null\n",
        "old mode 100644\n",
        "new mode 100755\n",
        "new mode 120000\n",
        "new file mode 100644\n",
        "new file mode 100755\n",
        "deleted file mode 100644\n",
        "rename from f\n",
        "rename to g\n",
        "copy from d/f\n",
        "copy to g\n",
        "rename old f\n",
        "rename new d/n\n",
        "index 1..2 100644\n",
        "index 1..2 120000\n",
        "index 1..2\n",
        "similarity index 90%\n",
        "diff --git a/f b/f\n",
        "diff --git a/f b/g\n",
        "GIT binary patch\n",
        "literal 0\n",
        "HcmV?d00001\n",
        "literal 3\n",
        "KcmYdfNCE%>hycU@\n",
        "delta 4\n",
        "Binary files a/f and b/f differ\n",
        "```\n",
        "```diff\n",
        "From: someone\n",
        "---\n",
        "-- \n2.47.3\n",
        "Index: f\n",
        "old mode 160000\n",
        "+\r\n",
        "@@ -1 +1 @@ def x():\n",
        "@@\n",
        "@@ -1,3 +1,3 @@ @@\n",
        "new mode 0\n",
        "old mode 999\n",
    ];
    dice.pick(&lines).to_owned()
}

/// Other numbers in one hunk header.
fn with_hunk_header(dice: &mut Dice, text: &str) -> String {
    let headers: Vec<usize> = text.match_indices("@@ -").map(|(at, _)| at).collect();
    if headers.is_empty() {
        return text.to_owned();
    }
    let at = dice.pick(&headers);
    let end = text[at..].find('\n').map_or(text.len(), |end| at + end);
    let digits: Vec<usize> = (at..end).filter(|at| text.as_bytes()[*at].is_ascii_digit()).collect();
    if digits.is_empty() {
        return text.to_owned();
    }
    let digit = dice.pick(&digits);
    let new = match dice.below(8) {
        0 => "0".to_owned(),
        1 => "999999999999999999999".to_owned(),
        2 => format!("{},{}", dice.below(9), dice.below(4)),
        3 => String::new(),
        4 => format!("{}{}", &text[digit..=digit], dice.below(10)),
        _ => dice.below(10).to_string(),
    };
    format!("{}{new}{}", &text[..digit], &text[digit + 1..])
}

/// One line with other white space, another mark, or another byte.
fn bent(dice: &mut Dice, line: &str) -> String {
    let body = line.trim_end_matches('\n');
    match dice.below(10) {
        0 => format!("{body}\r\n"),
        1 => format!("{body} \n"),
        2 => format!("{}\n", body.trim_end()),
        3 => body.to_owned(),
        4 => line.replace("    ", "\t").replace("  ", "\t"),
        5 => format!("{}{}", dice.pick(&["+", "-", " ", ""]), line.get(1..).unwrap_or_default()),
        6 => line.replacen("a/", dice.pick(&["", "b/", "/", "a//", "./", "a/../", "c/d/"]), 1),
        7 => line.replacen("b/", dice.pick(&["", "a/", "/", "b//", "./", "b/../", ".git/"]), 1),
        8 => line.replacen(['0', '1', '6', 'a', 'f'], dice.pick(&["7", "5", "0", "e", "g/"]), 1),
        _ => {
            let mut bytes: Vec<char> = line.chars().collect();
            let at = dice.below(bytes.len());
            let new = dice.pick(&['0', 'A', 'z', ' ', '\t', '"', '\\', '-', '+', '/', 'ü', '.']);
            if let Some(byte) = bytes.get_mut(at).filter(|byte| **byte != '\n') {
                *byte = new;
            }
            bytes.into_iter().collect()
        }
    }
}

/// Hunks of the whole text in another order, doubled, or with fewer.
fn hunks_moved(dice: &mut Dice, text: &str) -> String {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let mut parts: Vec<String> = lines
        .chunk_by(|_, next| !next.starts_with("@@ -") && !next.starts_with("diff --git "))
        .map(<[&str]>::concat)
        .collect();
    if parts.len() < 2 {
        return text.to_owned();
    }
    let at = dice.below(parts.len() - 1);
    match dice.below(3) {
        0 => parts.swap(at, at + 1),
        1 => drop(parts.remove(at)),
        _ => parts.insert(at, parts[at].clone()),
    }
    parts.concat()
}

fn as_a_whole(dice: &mut Dice, text: &str) -> String {
    match dice.below(9) {
        0 => text.replace('\n', "\r\n"),
        1 => text.replace("\r\n", "\n"),
        2 => text.trim_end().to_owned(),
        3 => format!("I would do this:\n\n{text}\nThat is all.\n"),
        4 => format!("```diff\n{text}```\n"),
        5 => {
            let end = (0..=dice.below(text.len() + 1)).rev().find(|at| text.is_char_boundary(*at));
            text[..end.unwrap_or_default()].to_owned()
        }
        6 => text.replace("\n \n", "\n\n"),
        7 => text.replace("a/", "").replace("b/", ""),
        _ => text.replace("\n-", "\n\u{0}").replace("\n+", "\n-").replace("\n\u{0}", "\n+"),
    }
}

/// The files as the diff finds them: at times longer, shorter or otherwise not as they
/// were when it was written.
pub(crate) fn drifted(dice: &mut Dice, mut files: Files) -> Files {
    let kind = dice.below(14);
    let Some(path) = files.keys().nth(dice.below(files.len())).cloned() else { return files };
    if kind == 0 {
        files.remove(&path);
        return files;
    }
    let Some(entry) = files.get_mut(&path).filter(|entry| entry.mode != Mode::Symlink) else {
        return files;
    };
    if kind == 1 {
        entry.mode = if dice.percent(50) { Mode::Executable } else { Mode::Regular };
        return files;
    }
    let Ok(text) = String::from_utf8(entry.bytes.clone()) else { return files };
    let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
    let at = dice.below(lines.len() + 1);
    let noise: Vec<&str> =
        (0..=dice.below(6)).map(|_| dice.pick(&["a\n", "q\n", "\n", "1\n"])).collect();
    match kind {
        2 => drop(lines.splice(0..0, noise)),
        3 if text.ends_with('\n') => lines.extend(noise),
        4 => drop(lines.splice(at..at, noise)),
        5 if at < lines.len() => drop(lines.remove(at)),
        6 if at < lines.len() => lines.insert(at, lines[at]),
        _ => {}
    }
    let mut text = lines.concat();
    if kind == 7 {
        text = text.replace('\n', "\r\n");
    }
    if kind == 8 {
        text.truncate(text.trim_end_matches('\n').len());
    }
    entry.bytes = text.into_bytes();
    files
}
