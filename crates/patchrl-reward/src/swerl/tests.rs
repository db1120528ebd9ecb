//! The reward against numbers that the original code gave, and diffs against the library
//! that reads them there.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use patchrl_sandbox::host::{self, Trusted};
use serde::Deserialize;
use serde_json::Value;

use super::{Texts, from_answer, unidiff};

fn data(path: &str) -> Option<PathBuf> {
    let found = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data").join(path);
    if found.exists() {
        return Some(found);
    }
    println!("skipped: no {}", found.display());
    None
}

#[test]
fn every_reward_of_the_original_is_met() {
    #[derive(Deserialize)]
    struct Case {
        name: String,
        context: Texts,
        oracle: Texts,
        output: String,
        reward: f64,
        error: Option<String>,
    }
    let Some(path) = data("vectors/swerl_golden.json") else { return };
    let cases: Vec<Case> = serde_json::from_slice(&fs_err::read(path).unwrap()).unwrap();
    assert_eq!(cases.len(), 33);
    for case in cases {
        let score = from_answer(&case.context, &case.oracle, &case.output).unwrap();
        assert_eq!(score.reward.to_bits(), case.reward.to_bits(), "{}", case.name);
        assert_eq!(score.error, case.error, "{}", case.name);
    }
}

/// Reads one diff a line, as JSON, and prints what `get_filelevel_diff` of the original
/// gives: a list of path and text, or null where the library raises.
const READER: &str = r#"
import json, sys
import unidiff
assert unidiff.VERSION == "0.7.5", unidiff.VERSION
for line in sys.stdin:
    try:
        found = []
        for file in unidiff.PatchSet(json.loads(line)):
            if file.is_binary_file:
                continue
            header, path = "", None
            if file.is_rename:
                source, target = file.source_file, file.target_file
                source = source[2:] if source.startswith("a/") else source
                target = target[2:] if target.startswith("b/") else target
                header, path = f"rename from {source} to {target}", source
            else:
                path = file.path
            body = "\n".join(str(hunk).strip() for hunk in file)
            found.append([path, (header + "\n" + body).strip()])
    except Exception:
        found = None
    print(json.dumps(found))
"#;

/// Real model patches, whole and with lines lost, doubled or replaced.
fn diffs(path: &Path) -> Vec<String> {
    let other = [
        "\n",
        "\\ No newline at end of file\n",
        "@@ -1 +01,0 @@ x\n",
        "@@ -0,0 +0,0 @@\n",
        "--- a/f\n",
        "+++ b/f\n",
        "diff --git a/x y b/z\n",
        "new file mode 100644\n",
        "GIT binary patch\n",
        "Binary files a/x and b/x differ\n",
        "rename from x\n",
        "deleted file mode 1\n",
        " \n",
        "-\r\n",
        "\r\n",
        "diff --git x y\n",
        "--- /dev/null\n",
        "+++ /dev/null\n",
        "text\n",
    ];
    let mut rows = String::new();
    flate2::read::GzDecoder::new(fs_err::File::open(path).unwrap())
        .read_to_string(&mut rows)
        .unwrap();
    let mut diffs = Vec::new();
    let mut draw = 1_u64;
    let mut next = |below: usize| {
        draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (draw >> 33) as usize % below
    };
    for row in rows.lines() {
        let row: Value = serde_json::from_str(row).unwrap();
        let Some(text) = row["model_patch"].as_str().filter(|text| text.len() < 20_000) else {
            continue;
        };
        diffs.push(text.to_owned());
        for _ in 0..6 {
            let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
            for _ in 0..=next(2) {
                let at = next(lines.len().max(1)).min(lines.len());
                match next(3) {
                    0 if at < lines.len() => drop(lines.remove(at)),
                    1 if at < lines.len() => lines.insert(at, lines[at]),
                    _ => lines.insert(at, other[next(other.len())]),
                }
            }
            diffs.push(lines.concat());
        }
    }
    diffs
}

#[test]
fn diffs_are_read_as_the_library_does() {
    if host::run_ok(&Trusted::new(["python3", "-c", "import unidiff"])).is_err() {
        println!("skipped: python3 has no `unidiff` 0.7.5 to compare with");
        return;
    }
    let Some(folder) = data("predictions") else { return };
    let mut count = 0;
    for file in fs_err::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        if !path.to_string_lossy().ends_with(".jsonl.gz") {
            continue;
        }
        let diffs = diffs(&path);
        let lines: String =
            diffs.iter().map(|diff| serde_json::to_string(diff).unwrap() + "\n").collect();
        let reader = Trusted::new(["python3", "-c", READER]).stdin(lines);
        let said = host::run_ok(&reader).unwrap().text();
        assert_eq!(said.lines().count(), diffs.len());
        for (diff, said) in diffs.iter().zip(said.lines()) {
            let said: Option<Vec<(String, String)>> = serde_json::from_str(said).unwrap();
            assert_eq!(unidiff::by_file(diff).ok(), said, "{diff}");
        }
        count += diffs.len();
    }
    println!("{count} diffs equal");
}
