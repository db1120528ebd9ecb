//! The page of a run, of a run cut short, and of one whose texts are hostile.

use std::path::Path;

use patchrl_telemetry::{Event, Telemetry, render_report};

use crate::run::{emit_all, events};

const HOSTILE: &str = "</pre><script>alert(1)</script><img src=x onerror=alert(2)>";

#[test]
fn a_finished_run_is_one_page_that_loads_nothing() {
    // Kept in the target folder, so that a person can open it.
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report");
    let _ = fs_err::remove_dir_all(&dir);
    let telemetry = Telemetry::open(&dir).unwrap();
    emit_all(&telemetry, &events(120));
    telemetry.emit(&Event::Warning { message: format!("no python3.9 {HOSTILE}") }).unwrap();
    write_rollouts(&dir);
    let page = fs_err::read_to_string(render_report(&dir).unwrap()).unwrap();

    for part in [
        "Reward, mean",
        "KL to the reference",
        "Supervised loss per token",
        "syntax · steps 1 to 50",
        "syntax · steps 51 to 60",
        "tests · steps 61 to 100",
        "tests · steps 101 to 120",
        "mean 0.",
        "variance 0.",
        "+40.0 points",
        "<span class=\"add\">+    return a + b",
        "Ran 3 tests",
        "not_applied",
        "hunk 1 does not match",
    ] {
        assert!(page.contains(part), "no `{part}`");
    }
    for forbidden in ["<script", "<img", "http:", "https:", "url(", "NaN", "src="] {
        let text = page.replace("img src=x onerror", "");
        assert!(!text.contains(forbidden), "`{forbidden}` on the page");
    }
    assert_eq!(page.matches("<figure>").count(), page.matches("</figure>").count());
    assert_eq!(page.matches("<details").count(), page.matches("</details>").count());
    assert_eq!(page.matches("<span").count(), page.matches("</span>").count());
    assert!(page.len() < 400_000, "{}", page.len());
}

#[test]
fn a_run_cut_short_still_has_a_page() {
    for length in [0, 1, 3, 8, 15] {
        let dir = tempfile::tempdir().unwrap();
        emit_all(&Telemetry::open(dir.path()).unwrap(), &events(8)[..length]);
        let page = fs_err::read_to_string(render_report(dir.path()).unwrap()).unwrap();
        assert!(page.contains("not ended") && page.ends_with("</html>\n"));
    }
}

#[test]
fn a_folder_that_is_no_run_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let error = render_report(dir.path()).unwrap_err();
    assert!(error.to_string().contains("journal.jsonl"), "{error}");
    assert!(error.hint().unwrap().contains("folder of a run"));
}

fn write_rollouts(dir: &Path) {
    fs_err::create_dir_all(dir.join("rollouts")).unwrap();
    for step in 1..=40_u64 {
        let mut text = String::from("not json\n");
        let patch = "diff --git a/calc.py b/calc.py\n--- a/calc.py\n+++ b/calc.py\n@@ -1,2 +1,2 @@\n def add(a, b):\n-    return a - b\n+    return a + b\n";
        for (outcome, reward) in [
            (serde_json::json!("resolved"), serde_json::json!(1.0)),
            (serde_json::json!({"not_applied": {"why": "hunk 1 does not match"}}), 0.0.into()),
            (serde_json::json!({"kind": "lost", "why": "node gone"}), serde_json::Value::Null),
        ] {
            let line = serde_json::json!({
                "task": "toy__calc-1",
                "prompt": format!("add() subtracts. {HOSTILE}"),
                "answer": format!("Here is the patch:\n```diff\n{patch}```\n{HOSTILE}"),
                "tokens": [1, 2, 3],
                "patch": patch,
                "outcome": outcome,
                "reward": reward,
                "test_log": format!("\u{1b}[31m{}\u{1b}[0m\nRan 3 tests\n", "x".repeat(20_000)),
            });
            text.push_str(&line.to_string());
            text.push('\n');
        }
        text.push_str("{\"task\":\"toy__calc-1\",\"pro");
        let name = format!("rollouts/step-{step:06}.jsonl");
        fs_err::write(dir.join(name), text).unwrap();
    }
}
