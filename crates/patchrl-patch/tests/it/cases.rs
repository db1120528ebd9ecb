//! Cases by hand: one for each rule of `git apply` that a model's diff can meet.
//!
//! `a` applies and `f` fails, for git and for this crate, with the same bytes. Where this
//! crate refuses on purpose what git takes, the case is in `REFUSED`.

use patchrl_patch::{Entry, Mode, Patch};

use crate::git::{self, Files, Verdict};

/// Name, verdict, files, patch. A path ending in `*` is executable, in `@` a link.
type Case = (&'static str, char, &'static [(&'static str, &'static str)], &'static str);

const TEN: &str = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n";
const SAME: &str = "x\nx\nx\nx\nx\nx\nx\n";

const CASES: &[Case] = &[
    // Places.
    ("exact place", 'a', &[("f", TEN)], "--- a/f\n+++ b/f\n@@ -4,3 +4,3 @@\n 4\n-5\n+V\n 6\n"),
    (
        "wrong line, later",
        'a',
        &[("f", TEN)],
        "--- a/f\n+++ b/f\n@@ -2,3 +2,3 @@\n 4\n-5\n+V\n 6\n",
    ),
    (
        "wrong line, earlier",
        'a',
        &[("f", TEN)],
        "--- a/f\n+++ b/f\n@@ -8,3 +8,3 @@\n 4\n-5\n+V\n 6\n",
    ),
    (
        "line far past the end",
        'a',
        &[("f", TEN)],
        "--- a/f\n+++ b/f\n@@ -99999999,3 +99999999,3 @@\n 4\n-5\n+V\n 6\n",
    ),
    (
        "the new line counts, not the old",
        'a',
        &[("f", "a\nb\nc\na\nb\nc\na\nb\nc\n")],
        "--- a/f\n+++ b/f\n@@ -2,3 +5,3 @@\n a\n-b\n+V\n c\n",
    ),
    (
        "forward wins at equal distance",
        'a',
        &[("f", "q\na\nb\nc\nq\nq\na\nb\nc\nq\n")],
        "--- a/f\n+++ b/f\n@@ -4,3 +4,3 @@\n a\n-b\n+V\n c\n",
    ),
    (
        "the nearer one wins backward",
        'a',
        &[("f", "q\na\nb\nc\nq\nq\nq\nq\na\nb\nc\nq\n")],
        "--- a/f\n+++ b/f\n@@ -4,3 +4,3 @@\n a\n-b\n+V\n c\n",
    ),
    (
        "first line is anchored",
        'f',
        &[("f", TEN)],
        "--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n 4\n-5\n+V\n 6\n",
    ),
    (
        "anchored at the first line",
        'a',
        &[("f", TEN)],
        "--- a/f\n+++ b/f\n@@ -1,3 +7,3 @@\n 1\n-2\n+V\n 3\n",
    ),
    (
        "line zero is anchored",
        'f',
        &[("f", TEN)],
        "--- a/f\n+++ b/f\n@@ -0,2 +0,2 @@\n-4\n+V\n 5\n",
    ),
    (
        "no trailing context means the end",
        'f',
        &[("f", TEN)],
        "--- a/f\n+++ b/f\n@@ -4,2 +4,2 @@\n 4\n-5\n+V\n",
    ),
    (
        "the end is found from anywhere",
        'a',
        &[("f", TEN)],
        "--- a/f\n+++ b/f\n@@ -4,2 +4,2 @@\n 9\n-10\n+V\n",
    ),
    (
        "insertion without context goes to the end",
        'a',
        &[("f", TEN)],
        "--- a/f\n+++ b/f\n@@ -4,0 +5 @@\n+V\n",
    ),
    (
        "insertion without context at the start",
        'f',
        &[("f", TEN)],
        "--- a/f\n+++ b/f\n@@ -1,0 +2 @@\n+V\n",
    ),
    ("insertion into an empty file", 'a', &[("f", "")], "--- a/f\n+++ b/f\n@@ -0,0 +1 @@\n+V\n"),
    (
        "equal lines, stated place",
        'a',
        &[("f", SAME)],
        "--- a/f\n+++ b/f\n@@ -3,3 +3,3 @@\n x\n-x\n+V\n x\n",
    ),
    ("context differs", 'f', &[("f", TEN)], "--- a/f\n+++ b/f\n@@ -4,3 +4,3 @@\n 4\n-5\n+V\n 7\n"),
    (
        "white space differs",
        'f',
        &[("f", "a\nb \nc\n")],
        "--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n a\n-b\n+V\n c\n",
    ),
    ("no change", 'a', &[("f", "a\n")], "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+a\n"),
    (
        "longer than the file",
        'f',
        &[("f", "a\n")],
        "--- a/f\n+++ b/f\n@@ -2,3 +2,3 @@\n a\n-b\n+c\n d\n",
    ),
    // Several hunks.
    (
        "two hunks",
        'a',
        &[("f", TEN)],
        "--- a/f\n+++ b/f\n@@ -1,2 +1,3 @@\n+0\n 1\n 2\n@@ -9,2 +10,2 @@\n 9\n-10\n+X\n",
    ),
    (
        "hunks in the wrong order",
        'a',
        &[("f", TEN)],
        "--- a/f\n+++ b/f\n@@ -8,3 +8,3 @@\n 8\n-9\n+IX\n 10\n@@ -2,3 +2,3 @@\n 2\n-3\n+III\n 4\n",
    ),
    (
        "a patched line does not match again",
        'f',
        &[("f", TEN)],
        "--- a/f\n+++ b/f\n@@ -2,3 +2,3 @@\n 2\n-3\n+III\n 4\n@@ -4,3 +4,3 @@\n 4\n-5\n+V\n 6\n",
    ),
    (
        "equal lines, second hunk moves on",
        'a',
        &[("f", SAME)],
        "--- a/f\n+++ b/f\n@@ -2,2 +2,2 @@\n-x\n+V\n x\n@@ -2,2 +2,2 @@\n-x\n+W\n x\n",
    ),
    (
        "one of two hunks fails",
        'f',
        &[("f", TEN)],
        "--- a/f\n+++ b/f\n@@ -2,3 +2,3 @@\n 2\n-3\n+III\n 4\n@@ -8,3 +8,3 @@\n 8\n-0\n+V\n 10\n",
    ),
    // Counts.
    ("count too small", 'f', &[("f", TEN)], "--- a/f\n+++ b/f\n@@ -4,2 +4,3 @@\n 4\n-5\n+V\n 6\n"),
    ("count too large", 'f', &[("f", TEN)], "--- a/f\n+++ b/f\n@@ -4,4 +4,4 @@\n 4\n-5\n+V\n 6\n"),
    (
        "count too large, then another hunk",
        'f',
        &[("f", TEN)],
        "--- a/f\n+++ b/f\n@@ -2,4 +2,4 @@\n 2\n-3\n+V\n 4\n@@ -8,3 +8,3 @@\n 8\n-9\n+V\n 10\n",
    ),
    (
        "count too small by a context line at the end",
        'a',
        &[("f", TEN)],
        "--- a/f\n+++ b/f\n@@ -4,3 +4,3 @@\n 4\n-5\n+V\n 6\n 7\n",
    ),
    ("only context", 'f', &[("f", TEN)], "--- a/f\n+++ b/f\n@@ -4,2 +4,2 @@\n 4\n 5\n"),
    ("no counts", 'a', &[("f", "a\n")], "--- a/f\n+++ b/f\n@@ -1 +1 @@ def x():\n-a\n+b\n"),
    ("no numbers", 'f', &[("f", "a\n")], "--- a/f\n+++ b/f\n@@ ... @@\n-a\n+b\n"),
    ("no closing @@", 'f', &[("f", "a\n")], "--- a/f\n+++ b/f\n@@ -1 +1\n-a\n+b\n"),
    (
        "huge counts",
        'f',
        &[("f", "a\n")],
        "--- a/f\n+++ b/f\n@@ -1,99999999999999999999999 +1 @@\n-a\n+b\n",
    ),
    (
        "a blank context line without its blank",
        'a',
        &[("f", "a\n\nb\n")],
        "--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n a\n\n-b\n+c\n",
    ),
    ("an unknown mark", 'f', &[("f", "a\nb\n")], "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n-a\n+c\nb\n"),
    (
        "no final newline in the patch",
        'f',
        &[("f", "a\n")],
        "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b",
    ),
    ("empty patch", 'f', &[("f", "a\n")], ""),
    ("prose only", 'f', &[("f", "a\n")], "I would change\nthe file as follows\n"),
    (
        "prose around",
        'a',
        &[("f", "a\n")],
        "Here it is:\n\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n\nThat is all.\n",
    ),
    (
        "a stray hunk",
        'f',
        &[("f", "a\n")],
        "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\nand\n@@ -1 +1 @@\n-a\n+b\n",
    ),
    // The end of the file.
    (
        "no newline on both sides",
        'a',
        &[("f", "a\nb")],
        "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+c\n\\ No newline at end of file\n",
    ),
    (
        "adds the newline",
        'a',
        &[("f", "a\nb")],
        "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n",
    ),
    (
        "drops the newline",
        'a',
        &[("f", "a\nb\n")],
        "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n-b\n+b\n\\ No newline at end of file\n",
    ),
    (
        "the marker is missing",
        'f',
        &[("f", "a\nb")],
        "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n",
    ),
    (
        "the marker is wrong",
        'f',
        &[("f", "a\nb\n")],
        "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+c\n",
    ),
    (
        "the marker on wrong context takes the newline",
        'a',
        &[("f", "a\nb\nc\n")],
        "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n-a\n+A\n b\n\\ No newline at end of file\n",
    ),
    (
        "the marker on context takes blanks too",
        'a',
        &[("f", "a\nb  \t\nc\n")],
        "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n-a\n+A\n b\n\\ No newline at end of file\n",
    ),
    (
        "the marker in the middle",
        'f',
        &[("f", "a\nb\n")],
        "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n\\ No newline at end of file\n-b\n+c\n",
    ),
    (
        "the marker in the middle, lines joined",
        'a',
        &[("f", "a\n\nb\nc\n")],
        "--- a/f\n+++ b/f\n@@ -1,2 +1,3 @@\n a\n\\ No newline at end of file\n+X\n \n",
    ),
    (
        "lines after unfinished context",
        'a',
        &[("f", "a\nb")],
        "--- a/f\n+++ b/f\n@@ -1,2 +1,3 @@\n a\n b\n\\ No newline at end of file\n+c\n",
    ),
    (
        "a marker too short",
        'f',
        &[("f", "a\nb")],
        "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n-b\n\\ No\n+c\n",
    ),
    (
        "a marker in another language",
        'a',
        &[("f", "a\nb")],
        "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n-b\n\\ Kein Zeilenumbruch\n+c\n",
    ),
    // Carriage returns.
    (
        "crlf file, crlf patch",
        'a',
        &[("f", "a\r\nb\r\n")],
        "--- a/f\r\n+++ b/f\r\n@@ -1,2 +1,2 @@\r\n a\r\n-b\r\n+c\r\n",
    ),
    (
        "crlf file, lf patch",
        'f',
        &[("f", "a\r\nb\r\n")],
        "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n",
    ),
    (
        "lf file, crlf patch",
        'f',
        &[("f", "a\nb\n")],
        "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\r\n-b\r\n+c\r\n",
    ),
    (
        "crlf in a git header",
        'a',
        &[("f", "a\r\n")],
        "diff --git a/f b/f\r\nindex 1..2 100644\r\n--- a/f\r\n+++ b/f\r\n@@ -1 +1 @@\r\n-a\r\n+c\r\n",
    ),
    (
        "crlf and a new file",
        'a',
        &[],
        "diff --git a/n b/n\r\nnew file mode 100644\r\n--- /dev/null\r\n+++ b/n\r\n@@ -0,0 +1 @@\r\n+c\r\n",
    ),
    // New files.
    (
        "new file",
        'a',
        &[],
        "diff --git a/d/n b/d/n\nnew file mode 100644\nindex 0000000..1111111\n--- /dev/null\n+++ b/d/n\n@@ -0,0 +1,2 @@\n+a\n+b\n",
    ),
    (
        "new executable",
        'a',
        &[],
        "diff --git a/n b/n\nnew file mode 100755\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+a\n",
    ),
    (
        "new file of an odd mode",
        'a',
        &[],
        "diff --git a/n b/n\nnew file mode 100600\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+a\n",
    ),
    (
        "new file with no mode at all",
        'f',
        &[],
        "diff --git a/n b/n\nnew file mode x\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+a\n",
    ),
    (
        "new empty file",
        'a',
        &[],
        "diff --git a/n b/n\nnew file mode 100644\nindex 0000000..e69de29\n",
    ),
    ("new empty file, header only", 'f', &[], "diff --git a/n b/n\n"),
    (
        "new link",
        'a',
        &[],
        "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+d/f\n\\ No newline at end of file\n",
    ),
    ("new empty link", 'f', &[], "diff --git a/l b/l\nnew file mode 120000\n"),
    (
        "new file exists",
        'f',
        &[("n", "a\n")],
        "diff --git a/n b/n\nnew file mode 100644\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+b\n",
    ),
    ("new file by a plain diff", 'a', &[], "--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+b\n"),
    (
        "new file by a plain diff exists",
        'f',
        &[("n", "")],
        "--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+b\n",
    ),
    (
        "new file under its own name on both sides",
        'a',
        &[],
        "--- a/n\n+++ b/n\n@@ -0,0 +1 @@\n+b\n",
    ),
    (
        "new file by the epoch",
        'a',
        &[],
        "--- a/n\t1970-01-01 00:00:00 +0000\n+++ b/n\t2020-01-01 00:00:00 +0000\n@@ -0,0 +1 @@\n+b\n",
    ),
    (
        "a git diff cannot do that",
        'f',
        &[],
        "diff --git a/n b/n\n--- a/n\n+++ b/n\n@@ -0,0 +1 @@\n+b\n",
    ),
    (
        "new file without its mode line",
        'f',
        &[],
        "diff --git a/n b/n\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+b\n",
    ),
    (
        "new file with old lines",
        'f',
        &[("n", "a\n")],
        "--- /dev/null\n+++ b/n\n@@ -1 +1 @@\n-a\n+b\n",
    ),
    (
        "new file below a file",
        'f',
        &[("d", "a\n")],
        "--- /dev/null\n+++ b/d/n\n@@ -0,0 +1 @@\n+b\n",
    ),
    (
        "new file in place of a directory",
        'f',
        &[("d/f", "a\n")],
        "--- /dev/null\n+++ b/d\n@@ -0,0 +1 @@\n+b\n",
    ),
    (
        "the same new file twice",
        'a',
        &[],
        "--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+a\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+b\n",
    ),
    // Deletions.
    (
        "deletion",
        'a',
        &[("d/f", "a\nb\n")],
        "diff --git a/d/f b/d/f\ndeleted file mode 100644\nindex 1..0\n--- a/d/f\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-a\n-b\n",
    ),
    (
        "deletion leaves lines",
        'f',
        &[("f", "a\nb\n")],
        "diff --git a/f b/f\ndeleted file mode 100644\n--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n",
    ),
    (
        "deletion without hunks",
        'f',
        &[("f", "a\n")],
        "diff --git a/f b/f\ndeleted file mode 100644\n",
    ),
    (
        "deletion of an empty file",
        'a',
        &[("f", "")],
        "diff --git a/f b/f\ndeleted file mode 100644\nindex e69de29..0000000\n",
    ),
    (
        "deletion of what is not there",
        'f',
        &[],
        "diff --git a/f b/f\ndeleted file mode 100644\n--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n",
    ),
    (
        "deletion by a plain diff",
        'a',
        &[("f", "a\n")],
        "--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n",
    ),
    (
        "all lines by a plain diff leave an empty file",
        'a',
        &[("f", "a\n")],
        "--- a/f\n+++ b/f\n@@ -1 +0,0 @@\n-a\n",
    ),
    (
        "deletion without its mode line moves to dev/null",
        'a',
        &[("f", "a\n")],
        "diff --git a/f b/f\n--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n",
    ),
    (
        "deletion with new lines",
        'f',
        &[("f", "a\n")],
        "--- a/f\n+++ /dev/null\n@@ -1 +1 @@\n-a\n+b\n",
    ),
    (
        "deletion twice",
        'f',
        &[("f", "a\n")],
        "--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n",
    ),
    (
        "deletion, then creation",
        'a',
        &[("f", "a\n")],
        "--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+b\n",
    ),
    (
        "change, then deletion",
        'a',
        &[("f", "a\n")],
        "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-b\n",
    ),
    (
        "creation, then deletion",
        'a',
        &[],
        "--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+b\n--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-b\n",
    ),
    // Renames and copies.
    (
        "rename",
        'a',
        &[("d/f", "a\n")],
        "diff --git a/d/f b/e/g\nsimilarity index 100%\nrename from d/f\nrename to e/g\n",
    ),
    (
        "rename with an edit",
        'a',
        &[("f*", "a\nb\n")],
        "diff --git a/f b/g\nsimilarity index 50%\nrename from f\nrename to g\nindex 1..2 100755\n--- a/f\n+++ b/g\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n",
    ),
    (
        "rename onto a file",
        'f',
        &[("f", "a\n"), ("g", "b\n")],
        "diff --git a/f b/g\nrename from f\nrename to g\n",
    ),
    ("rename of what is not there", 'f', &[], "diff --git a/f b/g\nrename from f\nrename to g\n"),
    (
        "rename onto itself",
        'a',
        &[("f", "a\n")],
        "diff --git a/f b/f\nrename from f\nrename to f\n",
    ),
    (
        "two names swapped",
        'a',
        &[("f", "a\n"), ("g", "b\n")],
        "diff --git a/f b/g\nrename from f\nrename to g\ndiff --git a/g b/f\nrename from g\nrename to f\n",
    ),
    (
        "copy",
        'a',
        &[("f", "a\n")],
        "diff --git a/f b/g\nsimilarity index 100%\ncopy from f\ncopy to g\n",
    ),
    (
        "copy and change, from the old text",
        'a',
        &[("f", "a\n")],
        "diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+z\ndiff --git a/f b/g\ncopy from f\ncopy to g\n--- a/f\n+++ b/g\n@@ -1 +1 @@\n-a\n+c\n",
    ),
    (
        "a renamed file is gone",
        'f',
        &[("f", "a\n")],
        "diff --git a/f b/g\nrename from f\nrename to g\ndiff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n",
    ),
    (
        "a renamed file under its new name",
        'a',
        &[("f", "a\n")],
        "diff --git a/f b/g\nrename from f\nrename to g\ndiff --git a/g b/g\n--- a/g\n+++ b/g\n@@ -1 +1 @@\n-a\n+b\n",
    ),
    (
        "two names without a rename line",
        'a',
        &[("f", "a\n")],
        "diff --git a/f b/g\n--- a/f\n+++ b/g\n@@ -1 +1 @@\n-a\n+b\n",
    ),
    (
        "two names in a plain diff",
        'a',
        &[("f", "a\n"), ("g", "a\n")],
        "--- a/f\n+++ b/g\n@@ -1 +1 @@\n-a\n+b\n",
    ),
    (
        "an .orig name in a plain diff",
        'a',
        &[("f", "a\n")],
        "--- a/f.orig\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n",
    ),
    (
        "an .orig name on the new side",
        'a',
        &[("f", "a\n")],
        "--- a/f\n+++ b/f.new\n@@ -1 +1 @@\n-a\n+b\n",
    ),
    (
        "rename and copy at once",
        'f',
        &[("f", "a\n")],
        "diff --git a/f b/g\nrename from f\ncopy to g\n",
    ),
    (
        "one file changed twice",
        'a',
        &[("f", "a\n")],
        "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-b\n+c\n",
    ),
    // Modes and links.
    ("mode only", 'a', &[("f", "a\n")], "diff --git a/f b/f\nold mode 100644\nnew mode 100755\n"),
    (
        "the tree's mode stays",
        'a',
        &[("f*", "a\n")],
        "diff --git a/f b/f\nindex 1..2 100644\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n",
    ),
    (
        "equal modes and nothing else",
        'f',
        &[("f", "a\n")],
        "diff --git a/f b/f\nold mode 100644\nnew mode 100644\n",
    ),
    ("mode zero", 'f', &[("f", "a\n")], "diff --git a/f b/f\nnew mode 0\n"),
    ("mode of a directory", 'f', &[("f", "a\n")], "diff --git a/f b/f\nnew mode 40000\n"),
    (
        "new file of a directory's mode",
        'a',
        &[],
        "diff --git a/n b/n\nnew file mode 040000\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+a\n",
    ),
    (
        "a mode too large",
        'a',
        &[("f", "a\n")],
        "diff --git a/f b/f\nold mode 40000100644\nnew mode +100711\n",
    ),
    ("a negative mode", 'f', &[("f", "a\n")], "diff --git a/f b/f\nnew mode -1\n"),
    (
        "a link's target",
        'a',
        &[("l@", "x")],
        "diff --git a/l b/l\nindex 1..2 120000\n--- a/l\n+++ b/l\n@@ -1 +1 @@\n-x\n\\ No newline at end of file\n+y\n\\ No newline at end of file\n",
    ),
    (
        "a link taken for a file",
        'f',
        &[("l@", "x")],
        "diff --git a/l b/l\nindex 1..2 100644\n--- a/l\n+++ b/l\n@@ -1 +1 @@\n-x\n\\ No newline at end of file\n+y\n",
    ),
    (
        "a file to a link in one step",
        'f',
        &[("f", "x")],
        "diff --git a/f b/f\nold mode 100644\nnew mode 120000\n",
    ),
    (
        "a file to a link in two",
        'a',
        &[("f", "x\n")],
        "diff --git a/f b/f\ndeleted file mode 100644\n--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\ndiff --git a/f b/f\nnew file mode 120000\n--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+y\n\\ No newline at end of file\n",
    ),
    (
        "new file beyond a link",
        'f',
        &[("d/f", "a\n"), ("l@", "d")],
        "--- /dev/null\n+++ b/l/n\n@@ -0,0 +1 @@\n+b\n",
    ),
    (
        "a change beyond a link",
        'f',
        &[("d/f", "a\n"), ("l@", "d")],
        "--- a/l/f\n+++ b/l/f\n@@ -1 +1 @@\n-a\n+b\n",
    ),
    (
        "a deletion beyond a link",
        'f',
        &[("d/f", "a\n"), ("l@", "d")],
        "--- a/l/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n",
    ),
    (
        "a link and a file beyond it",
        'f',
        &[("d/f", "a\n")],
        "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+d\n\\ No newline at end of file\n--- /dev/null\n+++ b/l/n\n@@ -0,0 +1 @@\n+b\n",
    ),
    // Names.
    (
        "a quoted name",
        'a',
        &[("t\tb\"ü", "a\n")],
        "diff --git \"a/t\\tb\\\"\\303\\274\" \"b/t\\tb\\\"\\303\\274\"\n--- \"a/t\\tb\\\"\\303\\274\"\n+++ \"b/t\\tb\\\"\\303\\274\"\n@@ -1 +1 @@\n-a\n+b\n",
    ),
    (
        "a name with blanks",
        'a',
        &[("a b", "a\n")],
        "diff --git a/a b b/a b\n--- a/a b\t\n+++ b/a b\t\n@@ -1 +1 @@\n-a\n+b\n",
    ),
    (
        "mode of a name with blanks",
        'a',
        &[("a b", "a\n")],
        "diff --git a/a b b/a b\nold mode 100644\nnew mode 100755\n",
    ),
    (
        "a timestamp after a tab",
        'a',
        &[("f", "a\n")],
        "--- a/f\t2020-01-01 10:00:00.123 +0100\n+++ b/f\t2020-01-01 10:00:00\n@@ -1 +1 @@\n-a\n+b\n",
    ),
    (
        "a timestamp after blanks",
        'a',
        &[("f", "a\n")],
        "--- a/f  2020-01-01 10:00:00.123 +01:00\n+++ b/f  2020-01-01 10:00:00\n@@ -1 +1 @@\n-a\n+b\n",
    ),
    ("no prefixes", 'f', &[("d/f", "a\n")], "--- d/f\n+++ d/f\n@@ -1 +1 @@\n-a\n+b\n"),
    ("no directory at all", 'a', &[("f", "a\n")], "--- f\n+++ f\n@@ -1 +1 @@\n-a\n+b\n"),
    (
        "no directory, then prefixes",
        'f',
        &[("f", "a\n"), ("g", "a\n")],
        "--- f\n+++ f\n@@ -1 +1 @@\n-a\n+b\n--- a/g\n+++ b/g\n@@ -1 +1 @@\n-a\n+b\n",
    ),
    ("no directory and no old file", 'a', &[], "--- /dev/null\n+++ n\n@@ -0,0 +1 @@\n+b\n"),
    (
        "prefix on the new side only",
        'a',
        &[("f", "a\n")],
        "--- f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n--- f\n+++ f\n@@ -1 +1 @@\n-b\n+c\n",
    ),
    ("no directory, deleted", 'f', &[("f", "a\n")], "--- f\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n"),
    (
        "prefix on the old side only, then on both",
        'f',
        &[("f", "a\n"), ("g", "a\n")],
        "--- a/f\n+++ f\n@@ -1 +1 @@\n-a\n+b\n--- a/g\n+++ b/g\n@@ -1 +1 @@\n-a\n+b\n",
    ),
    ("prefix on the old side only", 'a', &[("f", "a\n")], "--- a/f\n+++ f\n@@ -1 +1 @@\n-a\n+b\n"),
    ("repeated slashes", 'a', &[("d/f", "a\n")], "--- a/d//f\n+++ b/d/f\n@@ -1 +1 @@\n-a\n+b\n"),
    ("parent", 'f', &[("f", "a\n")], "--- a/../f\n+++ b/../f\n@@ -1 +1 @@\n-a\n+b\n"),
    ("new file in the parent", 'f', &[], "--- /dev/null\n+++ b/../n\n@@ -0,0 +1 @@\n+b\n"),
    ("new file in .git", 'f', &[], "--- /dev/null\n+++ b/.git/n\n@@ -0,0 +1 @@\n+b\n"),
    ("new file in .GIT below", 'f', &[], "--- /dev/null\n+++ b/d/.GiT/n\n@@ -0,0 +1 @@\n+b\n"),
    ("new file beside .git", 'a', &[], "--- /dev/null\n+++ b/.gitignore\n@@ -0,0 +1 @@\n+b\n"),
    ("a dot in the path", 'f', &[("f", "a\n")], "--- a/./f\n+++ b/./f\n@@ -1 +1 @@\n-a\n+b\n"),
    ("absolute", 'a', &[], "--- /dev/null\n+++ /n\n@@ -0,0 +1 @@\n+b\n"),
    (
        "header and lines disagree",
        'f',
        &[("f", "a\n")],
        "diff --git a/f b/f\n--- a/g\n+++ b/g\nindex 1..2\nnew file mode 100644\n@@ -1 +1 @@\n-a\n+b\n",
    ),
    (
        "names of the lines win over the header",
        'a',
        &[("g", "a\n")],
        "diff --git a/f b/f\n--- a/g\n+++ b/g\n@@ -1 +1 @@\n-a\n+b\n",
    ),
    ("a name is missing", 'f', &[("f", "a\n")], "diff --git a/f b/g\n"),
    (
        "a header alone, then another",
        'f',
        &[("g", "a\n")],
        "diff --git a/f b/f\ndiff --git a/g b/g\n--- a/g\n+++ b/g\n@@ -1 +1 @@\n-a\n+b\n",
    ),
    (
        "a header alone, then a plain diff",
        'a',
        &[("g", "a\n")],
        "diff --git a/f b/f\nprose\n--- a/g\n+++ b/g\n@@ -1 +1 @@\n-a\n+b\n",
    ),
    (
        "a header alone, then a deletion",
        'a',
        &[("f", "a\n")],
        "diff --git a/f b/f\nprose\ndeleted file mode 100644\n--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n",
    ),
    (
        "a header alone, then a creation",
        'f',
        &[],
        "diff --git a/f b/f\ndiff --git a/g b/g\nnew file mode 100644\nindex 0000000..e69de29\n",
    ),
    (
        "a header alone, then a creation by a plain diff",
        'f',
        &[],
        "diff --git a/f b/f\n\n--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+a\n",
    ),
    (
        "a header alone, then a link deleted",
        'a',
        &[("l@", "x")],
        "diff --git a/l b/l\nprose\n--- a/l\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n\\ No newline at end of file\n",
    ),
    (
        "a header alone, then a deletion, and the name lives on",
        'a',
        &[("f", "")],
        "diff --git a/g b/g\ndiff --git a/f b/f\ndeleted file mode 100644\ndiff --git a/g b/g\nold mode 100644\nnew mode 100755\n",
    ),
    (
        "a change, a header alone, then a deletion",
        'a',
        &[("f", "a\n")],
        "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\ndiff --git a/f b/f\nprose\n--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-b\n",
    ),
    (
        "a new name, then a deletion",
        'a',
        &[("f", "")],
        "diff --git a/f b/f\n+++ b/f\ndeleted file mode 100644\n",
    ),
    ("a header and only garbage", 'f', &[("f", "a\n")], "diff --git a/f b/f\nindex 1..2\nprose\n"),
    (
        "no hunks under the names",
        'f',
        &[("f", "a\n")],
        "diff --git a/f b/f\n--- a/f\n+++ b/f\nprose and more prose\n",
    ),
    (
        "prose between header and hunks",
        'f',
        &[("f", "a\n")],
        "diff --git a/f b/f\n--- a/f\n+++ b/f\nprose\n@@ -1 +1 @@\n-a\n+b\n",
    ),
    (
        "all or nothing",
        'f',
        &[("f", "a\n")],
        "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n--- a/g\n+++ b/g\n@@ -1 +1 @@\n-a\n+b\n",
    ),
    (
        "binary without data",
        'f',
        &[("f", "a\n")],
        "diff --git a/f b/f\nindex 1..2 100644\nBinary files a/f and b/f differ\n",
    ),
];

/// Name, files, patch, and how our fault begins.
type Refusal = (&'static str, &'static [(&'static str, &'static str)], &'static str, &'static str);

/// What git applies and this crate refuses.
const REFUSED: &[Refusal] = &[
    (
        "submodule",
        &[],
        "diff --git a/m b/m\nnew file mode 160000\n--- /dev/null\n+++ b/m\n@@ -0,0 +1 @@\n+Subproject commit 1111111111111111111111111111111111111111\n",
        "malformed",
    ),
    (
        "mode zero is a submodule's",
        &[],
        "diff --git a/m b/m\nnew file mode 0\n--- /dev/null\n+++ b/m\n@@ -0,0 +1 @@\n+a\n",
        "malformed",
    ),
    (
        "a directory is taken for a submodule, and nothing happens",
        &[("d/f", "a\n")],
        "--- a/d\n+++ b/d\n@@ -1 +1 @@\n-a\n+b\n",
        "no_such_file",
    ),
    (
        "a new file is not there because it is a directory",
        &[("d/f", "a\n")],
        "--- a/d\n+++ b/d\n@@ -0,0 +1 @@\n+b\n",
        "already_exists",
    ),
    (
        "a file below a link, which git leaves out without a word",
        &[("d@", "x")],
        "--- a/d\n+++ b/d\n@@ -1 +1 @@\n-x\n\\ No newline at end of file\n+y\n\\ No newline at end of file\ndiff --git a/d b/d/f\nrename from d\nrename to d/f\nindex 1..2 120000\n--- a/d\n+++ b/d/f\n@@ -1 +1 @@\n-x\n\\ No newline at end of file\n+z\n\\ No newline at end of file\n",
        "already_exists: `d`",
    ),
    (
        "a copy of what may lie outside",
        &[("f", "a\n"), ("d/g", "b\n")],
        "diff --git a/d/f b/h\ncopy from d/../f\ncopy to h\n",
        "unsafe_path: `d/../f`",
    ),
    (
        "a name that is not UTF-8",
        &[("f", "a\n")],
        "diff --git a/f \"b/\\377\"\ncopy from f\ncopy to \"\\377\"\n",
        "a file name that is not UTF-8",
    ),
    (
        "a directory emptied for a file",
        &[("d/f", "a\n")],
        "--- a/d/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n--- /dev/null\n+++ b/d\n@@ -0,0 +1 @@\n+b\n",
        "already_exists",
    ),
];

pub(crate) fn files(of: &[(&str, &str)]) -> Files {
    let entry = |(path, text): &(&str, &str)| {
        let (path, mode) = match (path.strip_suffix('*'), path.strip_suffix('@')) {
            (Some(path), _) => (path, Mode::Executable),
            (_, Some(path)) => (path, Mode::Symlink),
            (None, None) => (*path, Mode::Regular),
        };
        (path.to_owned(), Entry { mode, bytes: text.as_bytes().to_vec() })
    };
    of.iter().map(entry).collect()
}

#[test]
fn verdicts_and_bytes_equal_git() {
    if !git::is_here() {
        return;
    }
    let mut wrong = Vec::new();
    for (name, want, of, patch) in CASES {
        let want = if *want == 'a' { Verdict::Applies } else { Verdict::Fails };
        match git::compare(&files(of), patch) {
            Ok(verdict) if verdict == want => {}
            Ok(verdict) => wrong.push(format!("{name}: both say {verdict:?}")),
            Err(report) => wrong.push(format!("{name}:\n{report}")),
        }
    }
    println!("{} cases, {} wrong", CASES.len(), wrong.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn what_git_takes_and_this_refuses() {
    if !git::is_here() {
        return;
    }
    for (name, of, patch, word) in REFUSED {
        let files = files(of);
        git::apply(&files, patch).unwrap_or_else(|said| panic!("{name}: {said}"));
        let ours = git::ours(&files, patch).unwrap_err();
        assert!(ours.starts_with(word), "{name}: {ours}");
    }
}

/// The link is gone when the file is written, but git looks through it before.
#[test]
fn git_refuses_a_file_below_a_link_to_itself() {
    if !git::is_here() {
        return;
    }
    let files = files(&[("d@", "d")]);
    let patch = "diff --git a/d b/d/f\nrename from d\nrename to d/f\nindex 1..2 120000\n--- a/d\n+++ b/d/f\n@@ -1 +1 @@\n-d\n\\ No newline at end of file\n+z\n\\ No newline at end of file\n";
    let said = git::apply(&files, patch).unwrap_err();
    assert!(said.contains("Too many levels of symbolic links"), "{said}");
    git::ours(&files, patch).unwrap();
}

#[test]
fn corrupt_lines_are_numbered_as_git_does() {
    if !git::is_here() {
        return;
    }
    let bad = [
        "@@ -1,3 +1,2 @@\n a\n-b\n+c\n",
        "@@ -1,2 +1,2 @@\n a\n-b\n*\n+c\n",
        "@@ -1,2 +1,3 @@\n a\n-b\n+c\nx\n",
        "@@ -1 +1\n",
    ];
    for hunk in bad {
        let patch = format!("--- a/f\n+++ b/f\n{hunk}");
        let said = git::apply(&files(&[("f", "a\nb\n")]), &patch).unwrap_err();
        let ours = git::ours(&Files::new(), &patch).unwrap_err();
        let ours = ours.split(": ").next().unwrap();
        assert!(said.contains(ours), "git: {said}ours: {ours}");
    }
}

#[test]
fn a_lone_git_line_is_printed_with_what_it_names() {
    let text = "diff --git a/f b/f\nprose\nindex 1..2 100644\ndiff --git a/m b/n\n\
                new file mode 100644\n";
    assert!(Patch::parse(text).is_err());
    let text = "diff --git a/f b/f\nprose\ndiff --git a/m b/n\nold mode 100644\nnew mode 100755\n";
    let patch = Patch::parse(text).unwrap();
    assert_eq!(patch.files()[0].path(), "f");
    assert_eq!(patch.to_string(), text);
}

#[test]
fn prose_that_keeps_two_headers_apart_is_printed() {
    let text = "diff --git a/f b/g\nrename from f\nrename to g\nand\n\
                --- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n";
    let patch = Patch::parse(text).unwrap();
    assert_eq!(patch.files().len(), 2);
    assert_eq!(patch.to_string(), text);
}

/// Git takes it for a header, if `@@ -` is the very end.
#[test]
fn a_header_without_a_hunk_is_printed_as_one() {
    let text = "--- /dev/null\tsome time long ago\n+++ b/f\n@@ -";
    let lone = format!("diff --git a/m b/m\nprose\n{text}");
    for text in [text, &lone] {
        assert_eq!(Patch::parse(text).unwrap().to_string(), text);
    }
    assert!(Patch::parse(&text[..text.len() - 4]).is_err());
}

#[test]
fn a_short_marker_is_printed_in_full() {
    let hunk = "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n";
    let patch = Patch::parse(&format!("{hunk}\\ No\nand some prose\n")).unwrap();
    let printed = patch.to_string();
    assert_eq!(printed, format!("{hunk}\\ No newline at end of file\n"));
    assert_eq!(Patch::parse(&printed).unwrap().to_string(), printed);
}
