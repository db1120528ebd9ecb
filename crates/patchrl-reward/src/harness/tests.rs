//! What swebench 4.1.0 and 5.0.2 said on real logs, and on small ones.
//!
//! The data is read in place; where it is missing the test says so and passes.

use std::collections::HashMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::script::{self, Instance, Specs};
use super::*;

const DIALECTS: [(Dialect, &str); 2] = [(Dialect::V4, "v410"), (Dialect::V5, "v502")];

fn data(path: &str) -> Option<PathBuf> {
    let found = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data").join(path);
    if !found.exists() {
        println!("skipped: no {}", found.display());
    }
    found.exists().then_some(found)
}

fn rows(path: &str) -> Option<Vec<Value>> {
    let mut text = String::new();
    let file = fs_err::File::open(data(path)?).unwrap();
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
    Some(text.lines().map(|row| serde_json::from_str(row).unwrap()).collect())
}

fn json(path: &str) -> Option<Value> {
    Some(serde_json::from_str(&fs_err::read_to_string(data(path)?).unwrap()).unwrap())
}

fn list(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => serde_json::from_str(text).unwrap(),
        list => serde_json::from_value(list.clone()).unwrap(),
    }
}

fn context(dialect: Dialect) -> Context<'static> {
    Context { dialect, instance_id: "", version: None }
}

#[test]
fn every_vector_of_the_parsers_is_met() {
    for (dialect, name) in DIALECTS {
        let Some(vectors) = json(&format!("vectors/parser_vectors_{name}.json")) else { return };
        let vectors = vectors.as_array().unwrap();
        for case in vectors {
            let parser = Parser::named(case["parser"].as_str().unwrap()).unwrap();
            let read = parser.parse(case["input"].as_str().unwrap(), context(dialect));
            match &case["output"] {
                Value::String(exception) => assert!(read.is_err(), "{exception}: {case}"),
                output => assert_eq!(&serde_json::json!(read.unwrap()), output, "{name} {case}"),
            }
        }
        println!("{name}: {} parser vectors equal", vectors.len());
    }
}

#[test]
fn every_vector_of_the_grading_is_met() {
    let Some(vectors) = json("vectors/grading_vectors_v502.json") else { return };
    let vectors = vectors.as_array().unwrap();
    for case in vectors {
        let (f2p, p2p) = (list(&case["FAIL_TO_PASS"]), list(&case["PASS_TO_PASS"]));
        let expected = Expected {
            parser: Parser::named(case["log_parser"].as_str().unwrap()).unwrap(),
            context: context(Dialect::V5),
            eval_type: serde_json::from_value(case["eval_type"].clone()).unwrap(),
            fail_to_pass: &f2p,
            pass_to_pass: &p2p,
        };
        let report = grade(expected, true, case["log"].as_str().unwrap()).unwrap();
        assert_eq!(serde_json::json!(report), case["report"], "{case}");
    }
    println!("{} grading vectors equal", vectors.len());
}

#[test]
fn real_evaluations_end_as_in_the_harness() {
    let Some(evaluations) = rows("grading/evaluations_v4.jsonl.gz") else { return };
    let mut instances = HashMap::new();
    for set in ["Verified_test", "Lite_test"] {
        let Some(rows) = rows(&format!("instances/SWE-bench_{set}.jsonl.gz")) else { return };
        instances.extend(rows.into_iter().map(|row| (row["instance_id"].clone(), row)));
    }
    for (dialect, name) in DIALECTS {
        let mut resolved = 0;
        for row in &evaluations {
            let instance = &instances[&row["instance_id"]];
            let (f2p, p2p) = (list(&instance["FAIL_TO_PASS"]), list(&instance["PASS_TO_PASS"]));
            let id = row["instance_id"].as_str().unwrap();
            let expected = Expected {
                parser: Parser::of_repo(instance["repo"].as_str().unwrap()).unwrap(),
                context: Context {
                    dialect,
                    instance_id: id,
                    version: instance["version"].as_str(),
                },
                eval_type: EvalType::PassAndFail,
                fail_to_pass: &f2p,
                pass_to_pass: &p2p,
            };
            assert_eq!(expected.parser.name, row["parser"]);
            let log = row["test_output"].as_str().unwrap();
            let statuses = logged(expected, &log.replace("\r\n", "\n").replace('\r', "\n"));
            let statuses = serde_json::json!(statuses.unwrap().unwrap_or_default());
            assert_eq!(statuses, row[format!("status_map_{name}")], "{name} {id}");
            let report = grade(expected, true, log).unwrap();
            resolved += u32::from(report.resolved);
            let report = serde_json::json!({ id: report });
            assert_eq!(report, row[format!("report_{name}")], "{name} {id}");
        }
        println!("{name}: {} reports equal, {resolved} resolved", evaluations.len());
    }
}

fn masked(test: &str) -> String {
    let address = regex::Regex::new(r"[a-z]+@example\.[a-z]+").unwrap();
    address.replace_all(test, "author@example.invalid").into_owned()
}

#[test]
fn real_logs_are_read_as_in_the_harness() {
    let Some(logs) = rows("grading/logs_v1.jsonl.gz") else { return };
    for (dialect, name) in DIALECTS {
        let (mut equal, mut replaced, mut without) = (0, 0, 0);
        for row in &logs {
            let want = &row[format!("status_map_{name}")];
            if want.is_null() {
                without += 1;
                continue;
            }
            let log = row["log"].as_str().unwrap();
            let (_, log) = log.split_once(">>>>> Applied Patch (pred)").unwrap_or(("", log));
            let parser = Parser::named(row["parser"].as_str().unwrap()).unwrap();
            let read = parser.parse(log, context(dialect)).unwrap();
            let mut want: StatusMap = serde_json::from_value(want.clone()).unwrap();
            if read != want {
                // Addresses are replaced in these logs, but not in the maps made of them.
                want = want.into_iter().map(|(test, word)| (masked(&test), word)).collect();
                replaced += 1;
            }
            assert_eq!(read, want, "{name} {} {}", row["run"], row["instance_id"]);
            equal += 1;
        }
        println!(
            "{name}: {equal} status maps equal, {replaced} of them but for addresses, \
             {without} logs without one"
        );
        assert!(replaced < 5);
    }
}

#[test]
fn scripts_of_version_4_are_the_published_ones() {
    let Some(specs) = data("vectors/specs_v410.json") else { return };
    let specs: Specs = serde_json::from_str(&fs_err::read_to_string(specs).unwrap()).unwrap();
    let (mut equal, mut other) = (0, Vec::new());
    for set in ["Verified_test", "Lite_test", "Lite_dev"] {
        let Some(rows) = rows(&format!("instances/SWE-bench_{set}.jsonl.gz")) else { return };
        for row in rows {
            let text = |field: &str| row[field].as_str().unwrap();
            let instance = Instance {
                repo: text("repo"),
                version: text("version"),
                base_commit: text("base_commit"),
                test_patch: text("test_patch"),
                image_assets: None,
            };
            let ours = script::v4(instance, &specs).unwrap();
            if ours == text("eval_script") {
                equal += 1;
            } else {
                other.push(text("instance_id").to_owned());
            }
        }
    }
    println!("{equal} scripts equal, {} other: {other:?}", other.len());
    assert_eq!((equal, other.len()), (792, 31));
}

#[test]
fn version_5_prints_the_exit_code() {
    let made = script::v5(
        "#!/bin/bash\nset -uxo pipefail\ncd /testbed\n: '>>>>> Start Test Output'\npytest -rA\n\
         : '>>>>> End Test Output'\ngit checkout x\n",
    );
    assert_eq!(
        made,
        "#!/bin/bash\nset -uxo pipefail\ncd /testbed\n: '>>>>> Start Test Output'\npytest -rA\n\
         SWEBENCH_TEST_EXIT_CODE=$?\n: '>>>>> End Test Output'\n\
         echo \">>>>> Test Exit Code: $SWEBENCH_TEST_EXIT_CODE\"\ngit checkout x\n"
    );
    assert_eq!(script::v5("pytest"), "#!/bin/bash\nset -uxo pipefail\npytest\n");
}
