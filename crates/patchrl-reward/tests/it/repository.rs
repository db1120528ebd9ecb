//! A tiny Python repository with history, made for one test run.

use std::fmt::Write as _;
use std::path::Path;

use patchrl_sandbox::git;
use patchrl_task::Task;
use serde_json::{Value, json};

/// Files at the base commit. `add` is wrong in two ways.
const FILES: [(&str, &str); 4] = [
    ("README.md", "# calc\n"),
    (
        "calc/__init__.py",
        "def add(a, b):\n    return a - b\n\n\ndef join(a, b):\n    return a\n\n\ndef sub(a, b):\n    return a - b\n",
    ),
    ("tests/__init__.py", ""),
    (
        "tests/test_calc.py",
        "import unittest\n\nimport calc\n\n\nclass CalcTest(unittest.TestCase):\n\
         \x20   def test_add(self):\n        self.assertEqual(calc.add(1, 2), 3)\n\n\
         \x20   def test_join(self):\n        self.assertEqual(calc.join('a', 'b'), 'ab')\n\n\
         \x20   def test_sub(self):\n        self.assertEqual(calc.sub(3, 2), 1)\n",
    ),
];

/// The known answer.
pub(crate) const GOLD: &str = "\
diff --git a/calc/__init__.py b/calc/__init__.py
--- a/calc/__init__.py
+++ b/calc/__init__.py
@@ -1,9 +1,9 @@
 def add(a, b):
-    return a - b
+    return a + b
 
 
 def join(a, b):
-    return a
+    return a + b
 
 
 def sub(a, b):
";

/// A test file that is not in the tree yet.
const TEST_PATCH: &str = "\
diff --git a/tests/test_more.py b/tests/test_more.py
new file mode 100644
--- /dev/null
+++ b/tests/test_more.py
@@ -0,0 +1,8 @@
+import unittest
+
+import calc
+
+
+class MoreTest(unittest.TestCase):
+    def test_more(self):
+        self.assertEqual(calc.add(2, 2), 4)
";

/// Write the repository as a bare clone under `repos`; its commit id.
pub(crate) fn write(repos: &Path) -> String {
    let mut stream =
        String::from("commit refs/heads/main\ncommitter A <a@example.org> 0 +0000\ndata 4\nbase\n");
    for (path, text) in FILES {
        let _ = write!(stream, "M 100644 inline {path}\ndata {}\n{text}\n", text.len());
    }
    let bare = repos.join("some__calc.git");
    git::fast_import(stream.as_bytes(), &bare).unwrap();
    git::commit_id(&bare, "main").unwrap()
}

fn row(commit: &str) -> Value {
    json!({
        "instance_id": "some__calc-1",
        "repo": "some/calc",
        "base_commit": commit,
        "problem_statement": "add and join are wrong",
        "patch": GOLD,
        "test_patch": "",
        "FAIL_TO_PASS": ["tests.test_calc.CalcTest.test_add", "tests.test_calc.CalcTest.test_join"],
        "PASS_TO_PASS": ["tests.test_calc.CalcTest.test_sub"],
        "environment": {
            "test_command": ["{python}", "-m", "unittest", "discover", "-v", "-s", "tests", "-t", "."],
            "runner": "unittest",
        },
    })
}

/// A task whose tests are in the tree.
pub(crate) fn task(commit: &str) -> Task {
    serde_json::from_value(row(commit)).unwrap()
}

/// A task whose test file comes with the test patch.
pub(crate) fn task_with_test_patch(commit: &str) -> Task {
    let mut row = row(commit);
    row["test_patch"] = json!(TEST_PATCH);
    row["FAIL_TO_PASS"] = json!(["tests.test_more.MoreTest.test_more"]);
    serde_json::from_value(row).unwrap()
}

/// A diff that replaces `old` by `new` in one line of a file of the repository.
pub(crate) fn replace(path: &str, old: &str, new: &str) -> String {
    format!("```\n{path}\n<<<<<<< SEARCH\n{old}\n=======\n{new}\n>>>>>>> REPLACE\n```\n")
}

/// A diff that creates a file.
pub(crate) fn create(path: &str, text: &str) -> String {
    let mut diff = format!(
        "diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1,{} @@\n",
        text.lines().count()
    );
    for line in text.lines() {
        let _ = writeln!(diff, "+{line}");
    }
    diff
}
