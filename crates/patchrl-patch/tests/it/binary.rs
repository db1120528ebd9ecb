//! Binary changes, one case for each rule: verdict and bytes must be git's.

use crate::cases::files;
use crate::git::{self, Verdict};

const NONE: &str = "0000000000000000000000000000000000000000";
/// `a\0b`, and the empty file, as git writes them.
const Z: &str = "20b5be91886d0b6f26dc98a225c0dac05fe2c86e";
const Z_DATA: &str = "literal 3\nKcmYdfNCE%>hycU@\n\n";
const EMPTY: &str = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391";
const EMPTY_DATA: &str = "literal 0\nHcmV?d00001\n\n";
/// A text, the same with its end changed, and the instructions that make one of the other.
const F: &str = "189140cf6eab3270520ae794f89ba7fda5fde6ea";
const F_TEXT: &str = "\0abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ\n";
const G: &str = "8e1fbd3d349884584f833ed0ff5126b1a3f944c1";
const G_DATA: &str = "delta 7\nOcmZ>8m|(}m#Q*>YDFIsm\n\n";
const BACK: &str = "delta 7\nOcmZ>8m|({g#RUKd(*d;r\n\n";

fn new(path: &str, id: &str, data: &str) -> String {
    format!("diff --git a/{path} b/{path}\nnew file mode 100644\nindex {NONE}..{id}\n{data}")
}

fn change(path: &str, old: &str, new: &str, data: &str) -> String {
    format!("diff --git a/{path} b/{path}\nindex {old}..{new} 100644\n{data}")
}

fn gone(path: &str, old: &str, data: &str) -> String {
    format!("diff --git a/{path} b/{path}\ndeleted file mode 100644\nindex {old}..{NONE}\n{data}")
}

fn data(blocks: &[&str]) -> String {
    format!("GIT binary patch\n{}", blocks.concat())
}

type Case = (&'static str, char, &'static [(&'static str, &'static str)], String);

/// `a` applies and `f` fails.
fn whole() -> Vec<Case> {
    let f: &[_] = &[("f", F_TEXT)];
    let z: &[_] = &[("z", "a\0b")];
    let differ = "Binary files a/z and b/z differ\n";
    let text =
        "diff --git a/t b/t\nnew file mode 100644\n--- /dev/null\n+++ b/t\n@@ -0,0 +1 @@\n+t\n";
    vec![
        ("new", 'a', &[], new("z", Z, &data(&[Z_DATA, EMPTY_DATA]))),
        ("new, one way", 'a', &[], new("z", Z, &data(&[Z_DATA]))),
        ("new and empty", 'a', &[], new("z", EMPTY, &data(&[EMPTY_DATA]))),
        ("new exists", 'f', z, new("z", Z, &data(&[Z_DATA]))),
        ("delta", 'a', f, change("f", F, G, &data(&[G_DATA, BACK]))),
        ("delta of another file", 'f', z, change("z", Z, G, &data(&[G_DATA]))),
        ("old id differs", 'f', z, change("z", F, G, &data(&[G_DATA]))),
        ("new id differs", 'f', f, change("f", F, Z, &data(&[G_DATA]))),
        ("literal", 'a', f, change("f", F, Z, &data(&[Z_DATA]))),
        ("old id in capitals", 'f', f, change("f", &F.to_uppercase(), Z, &data(&[Z_DATA]))),
        ("new id in capitals", 'f', f, change("f", F, &Z.to_uppercase(), &data(&[Z_DATA]))),
        ("short ids", 'f', f, change("f", &F[..7], &Z[..7], &data(&[Z_DATA]))),
        ("no index line", 'f', f, format!("diff --git a/f b/f\n{}", data(&[Z_DATA]))),
        ("gone", 'a', z, gone("z", Z, &data(&[EMPTY_DATA, Z_DATA]))),
        ("gone, other data", 'a', z, gone("z", Z, &data(&[Z_DATA]))),
        ("gone without data", 'a', z, gone("z", Z, differ)),
        ("gone, but another file", 'f', f, gone("f", Z, differ)),
        ("emptied without data", 'a', z, change("z", Z, NONE, differ)),
        ("without data", 'f', f, change("f", F, Z, differ)),
        ("without data, empty after", 'f', z, change("z", Z, EMPTY, differ)),
        ("without data, the same after", 'f', z, change("z", Z, Z, differ)),
        ("files differ", 'f', f, change("f", F, Z, "Files a/f and b/f differ\n")),
        (
            "renamed",
            'a',
            z,
            format!(
                "diff --git a/z b/y\nrename from z\nrename to y\nindex {Z}..{EMPTY} 100644\n{}",
                data(&[EMPTY_DATA])
            ),
        ),
        (
            "copied",
            'a',
            z,
            format!(
                "diff --git a/z b/y\ncopy from z\ncopy to y\nindex {Z}..{EMPTY} 100644\n{}",
                data(&[EMPTY_DATA])
            ),
        ),
        (
            "executable",
            'a',
            z,
            format!(
                "diff --git a/z b/z\nold mode 100644\nnew mode 100755\nindex {Z}..{EMPTY}\n{}",
                data(&[EMPTY_DATA])
            ),
        ),
        (
            "a link with a NUL",
            'a',
            &[],
            format!(
                "diff --git a/l b/l\nnew file mode 120000\nindex {NONE}..{Z}\n{}",
                data(&[Z_DATA])
            ),
        ),
        (
            "twice",
            'a',
            f,
            [change("f", F, Z, &data(&[Z_DATA])), change("f", Z, EMPTY, &data(&[EMPTY_DATA]))]
                .concat(),
        ),
        ("prose after it", 'a', &[], new("z", Z, &data(&[Z_DATA, "That is all.\n"]))),
        ("text after it", 'a', &[], new("z", Z, &data(&[Z_DATA])) + text),
        ("before hunks", 'f', z, change("z", Z, Z, &data(&[Z_DATA, "@@ -1 +1 @@\n-a\n+b\n"]))),
        ("after hunks", 'a', &[], text.to_owned() + &data(&[Z_DATA])),
        ("in a plain diff", 'f', z, format!("--- a/z\n+++ b/z\n{}", data(&[Z_DATA]))),
    ]
}

/// Damaged data. Git reads up to it, and applies that if it is anything.
fn damaged() -> Vec<Case> {
    let broken = |block: &str| new("z", Z, &data(&[block]));
    let mut cases: Vec<Case> = vec![
        ("no block", 'f', &[], broken("")),
        ("another word", 'f', &[], broken("raw 3\nKcmYdfNCE%>hycU@\n\n")),
        ("no blank line", 'f', &[], broken("literal 3\nKcmYdfNCE%>hycU@\n")),
        ("no newline", 'f', &[], broken("literal 3\nKcmYdfNCE%>hycU@")),
        ("a letter for the blank line", 'a', &[], broken("literal 3\nKcmYdfNCE%>hycU@\n+")),
        ("a line for it", 'f', &[], broken("literal 3\nKcmYdfNCE%>hycU@\n+\n")),
        ("no lines", 'f', &[], broken("literal 0\n\n")),
        ("too small a size", 'f', &[], broken("literal 2\nKcmYdfNCE%>hycU@\n\n")),
        ("too large a size", 'f', &[], broken("literal 4\nKcmYdfNCE%>hycU@\n\n")),
        ("a blank before the size", 'a', &[], broken("literal  3x\nKcmYdfNCE%>hycU@\n\n")),
        ("no size", 'f', &[], broken("literal x\nKcmYdfNCE%>hycU@\n\n")),
        ("another length", 'f', &[], broken("literal 3\nJcmYdfNCE%>hycU@\n\n")),
        ("a length too small", 'f', &[], broken("literal 3\nHcmYdfNCE%>hycU@\n\n")),
        ("a length too large", 'f', &[], broken("literal 3\nMcmYdfNCE%>hycU@\n\n")),
        ("a length that is none", 'f', &[], broken("literal 3\n0cmYdfNCE%>hycU@\n\n")),
        ("a line cut off", 'f', &[], broken("literal 3\nKcmYdfNCE%>hyc\n\n")),
        ("a digit that is none", 'f', &[], broken("literal 3\nKcmYdfNCE%\"hycU@\n\n")),
        ("a group too large", 'f', &[], broken("literal 3\nK~~~~~NCE%>hycU@\n\n")),
        ("another checksum", 'f', &[], broken("literal 3\nKcmYdfNCE%>hycU?\n\n")),
        ("bytes after the stream", 'a', &[], broken("literal 3\nKcmYdfNCE%>hycU@\nD00000\n\n")),
        ("carriage returns", 'f', &[], broken("literal 3\r\nKcmYdfNCE%>hycU@\r\n\r\n")),
        ("the way back is broken", 'f', &[], new("z", Z, &data(&[Z_DATA, "literal 1\nA\n\n"]))),
    ];
    let text = "--- /dev/null\n+++ b/t\n@@ -0,0 +1 @@\n+t\n";
    let after = text.to_owned() + &broken("raw 3\n") + text;
    cases.push(("a file before it is applied", 'a', &[], after));
    cases.push(("a file after it is not", 'f', &[], broken("raw 3\n") + text));
    let other = text.replace("b/t", "b/u");
    let lone = "diff --git a/u b/u\n".to_owned();
    cases.push(("a stray name before it", 'a', &[], text.to_owned() + &lone + &broken("raw 3\n")));
    cases.push((
        "what follows is dropped",
        'a',
        &[],
        format!("{text}{}{other}", broken("raw 3\n")),
    ));
    cases
}

#[test]
fn binary_changes_end_as_with_git() {
    if !git::is_here() {
        return;
    }
    let mut wrong = Vec::new();
    let cases: Vec<Case> = whole().into_iter().chain(damaged()).collect();
    for (name, want, of, patch) in &cases {
        let want = if *want == 'a' { Verdict::Applies } else { Verdict::Fails };
        match git::compare(&files(of), patch) {
            Ok(verdict) if verdict == want => {}
            Ok(verdict) => wrong.push(format!("{name}: both say {verdict:?}")),
            Err(report) => wrong.push(format!("{name}:\n{report}")),
        }
    }
    println!("{} binary cases, {} wrong", cases.len(), wrong.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
