//! Answers as models write them.

use super::*;

const DIFF: &str = "--- a/f.py\n+++ b/f.py\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n";

/// Rule and edit in one line, or the fault.
fn show(answer: &str) -> String {
    match extract(answer) {
        Err(fault) => format!("{}: {fault}", fault.as_str()),
        Ok(Extraction { rule, edit: Edit::Diff(patch) }) => {
            format!("{} {:?}", rule.as_str(), patch.to_string())
        }
        Ok(Extraction { rule, edit: Edit::Blocks(blocks) }) => {
            let blocks: Vec<_> = blocks
                .iter()
                .map(|it| format!("{} {:?}>{:?}", it.path, it.search, it.replace))
                .collect();
            format!("{} {}", rule.as_str(), blocks.join(" "))
        }
    }
}

fn raw(text: &str) -> String {
    format!("raw_diff {text:?}")
}

fn fenced(text: &str) -> String {
    format!("fenced_diff {text:?}")
}

#[test]
fn raw_diffs() {
    assert_eq!(show(DIFF), raw(DIFF));
    assert_eq!(show(DIFF.trim_end()), raw(DIFF));
    let git = format!("diff --git a/f.py b/f.py\nindex 1..2 100644\n{DIFF}");
    assert_eq!(show(&git), raw(&git));
    assert_eq!(show(&format!("Here it is:\n\n{git}\nThat is all.")), raw(&git));
    assert_eq!(show(&format!("<think>\nhm\n```diff\n{DIFF}```\n</think>\n{DIFF}")), raw(DIFF));
    assert_eq!(show(&format!("hm, so\n</think>\n{DIFF}")), raw(DIFF));
    let tagged = DIFF.replace("+c", "+c</think>");
    assert_eq!(show(&tagged), raw(&tagged));
}

#[test]
fn fenced_diffs() {
    for tag in ["diff", "patch", "", "python", "text"] {
        assert_eq!(show(&format!("Fix:\n```{tag}\n{DIFF}```\nDone.\n")), fenced(DIFF));
    }
    assert_eq!(show(&format!("~~~~\n{DIFF}\n~~~~\n")), fenced(DIFF));
    assert_eq!(show(&format!("```diff\n{DIFF}")), fenced(DIFF), "complete, only not closed");
    let other = DIFF.replace("f.py", "g.py");
    let two = format!("```diff\n{DIFF}```\nand\n```diff\n{other}```\n");
    assert_eq!(show(&two), fenced(&format!("{DIFF}{other}")));
    assert_eq!(show(&format!("```diff\n{DIFF}```\n```diff\n{DIFF}```\n")), fenced(DIFF));
    assert_eq!(show(&format!("<solution>\n```diff\n{DIFF}```\n</solution>")), fenced(DIFF));
    assert_eq!(show(&format!("```python\nx = 1\n```\n{DIFF}")), raw(DIFF));
}

#[test]
fn diffs_that_are_none() {
    assert_eq!(show(""), "no_patch: the answer holds no diff and no SEARCH/REPLACE block");
    assert_eq!(extract("I cannot.\n```python\nx\n```"), Err(ExtractFault::NoPatch));
    assert_eq!(show("```diff\n-a\n+b\n```"), "malformed: line 1: no valid patches in input");
    assert_eq!(
        show("```diff\n@@ -1 +1 @@\n-a\n+b\n```"),
        "malformed: line 1: patch fragment without header at line 1"
    );
    let wrong = DIFF.replace("-1,2", "-1,3");
    assert_eq!(
        show(&format!("```diff\n{wrong}```")),
        "malformed: line 7: corrupt patch at line 7: the text ends inside a hunk"
    );
    assert_eq!(
        show(&format!("{wrong}diff --git a/x b/x\n")),
        "malformed: line 7: corrupt patch at line 7"
    );
    assert_eq!(
        show(&format!("```diff\n{}", DIFF.replace("-1,2", "-1,3"))),
        "truncated: the answer ends inside a fenced diff"
    );
    assert_eq!(show("<think>\nlong"), "truncated: the answer ends inside `<think>`");
    assert_eq!(show("```diff\n--- a/f"), "truncated: the answer ends inside a fenced diff");
}

#[test]
fn strict_blocks() {
    let one = "```python\n### d/f.py\n<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n```\n";
    assert_eq!(show(one), r#"search_replace d/f.py "a\n">"b\n""#);
    let wrapped = format!("<think>\nso\n</think>\n<solution>\n{one}\n</solution>");
    assert_eq!(show(&wrapped), r#"search_replace d/f.py "a\n">"b\n""#);
    assert_eq!(show(&format!("{one}\n{one}")), r#"search_replace d/f.py "a\n">"b\n""#);
    let two = format!("{one}\n{}", one.replace("d/f.py", "g h"));
    assert_eq!(show(&two), r#"search_replace d/f.py "a\n">"b\n" g h "a\n">"b\n""#);
    assert_eq!(show(&format!("```diff\n{DIFF}```\n{one}")), show(one), "blocks win");
}

#[test]
fn loose_blocks() {
    let body = "<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE";
    let want = r#"loose_search_replace d/f.py "a\n">"b\n""#;
    for head in [
        "d/f.py\n",
        "./d/f.py\n",
        "### d/f.py\n",
        "### `d/f.py`\n",
        "**d/f.py**\n",
        "**File: `d/f.py`**\n",
        "File: d/f.py\n",
        "`d/f.py`:\n",
        "d/f.py\n```python\n",
        "### d/f.py\n\n```\n",
        "```d/f.py\n",
        "```python:d/f.py\n",
        "```python d/f.py\n",
        "## Fix\nd/f.py\nReplace the first with the second.\n```python\n",
    ] {
        assert_eq!(show(&format!("{head}{body}\n```")), want, "{head:?}");
    }
    let two = format!("d/f.py\n```\n{body}\n```\nThen:\n```\n{}\n```", body.replace('a', "c"));
    assert_eq!(show(&two), r#"loose_search_replace d/f.py "a\n">"b\n" d/f.py "c\n">"b\n""#);
    assert_eq!(
        show("n.py\n<<<<<<< SEARCH\n=======\nb\n>>>>>>> REPLACE"),
        r#"loose_search_replace n.py "">"b\n""#
    );
    assert_eq!(
        show("n.py\n<<<<< search\nT\n=====\nU\n>>>>> replace"),
        r#"loose_search_replace n.py "T\n">"U\n""#
    );
    assert_eq!(
        show("n.rst\n<<<<<<< SEARCH\nTitle\n=====\n=======\nU\n>>>>>>> REPLACE"),
        r#"loose_search_replace n.rst "Title\n=====\n">"U\n""#
    );
}

#[test]
fn bad_blocks() {
    assert_eq!(
        show("<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE"),
        "malformed: line 1: a SEARCH block without a path"
    );
    assert_eq!(
        show("f.py\n<<<<<<< SEARCH\na\n>>>>>>> REPLACE"),
        "malformed: line 2: a SEARCH block without its ======= line"
    );
    assert_eq!(
        show("f.py\n```\n<<<<<<< SEARCH\na\n=======\nb\n```\n"),
        "malformed: line 3: a SEARCH block without its REPLACE marker"
    );
    assert_eq!(
        show("<solution>f.py\n<<<<<<< SEARCH\na\n=======\nb\n</solution>"),
        "malformed: line 2: a SEARCH block without its REPLACE marker"
    );
    assert_eq!(
        show("f.py\n<<<<<<< SEARCH\na\n<<<<<<< SEARCH\n"),
        "malformed: line 4: a SEARCH block inside another one"
    );
    for cut in ["f.py\n<<<<<<< SEARCH\na", "f.py\n<<<<<<< SEARCH\na\n=======\nb\n>>>>"] {
        assert_eq!(show(cut), "truncated: the answer ends inside a SEARCH/REPLACE block");
    }
}
