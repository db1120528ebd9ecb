//! Whatever a model says, an episode answers it: bounded, inside the repository, and to an end.

use patchrl_agent::{Call, Reply, ToolCall, tool_specs};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::hostile::play;

/// Paths that exist, that do not, and that lead out.
fn path() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("a.py".to_owned()),
        Just("./d/returns".to_owned()),
        Just("d/e/open".to_owned()),
        Just("d/e".to_owned()),
        Just("empty".to_owned()),
        Just("link".to_owned()),
        Just("zero".to_owned()),
        Just("a.py/x".to_owned()),
        Just("new/file.py".to_owned()),
        Just("new".to_owned()),
        Just("../up".to_owned()),
        Just("/etc/passwd".to_owned()),
        Just(".git/config".to_owned()),
        Just(String::new()),
        Just(".".to_owned()),
        "[ -~]{0,12}",
        "\\PC{0,6}",
    ]
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        path().prop_map(Value::from),
        (0_u64..400).prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[ab\n\r ]{0,20}".prop_map(Value::from),
        Just(Value::Null),
        Just(json!(["a.py"])),
        Just(json!([{ "path": "a.py", "search": "", "replace": "" }])),
    ]
}

/// A call of a tool with its own arguments, some of them left out or of a wrong kind.
fn call() -> impl Strategy<Value = Call> {
    let tools: Vec<(String, Vec<String>)> = tool_specs()
        .into_iter()
        .map(|tool| {
            let keys = tool.parameters["properties"].as_object().unwrap().keys().cloned();
            (tool.name, keys.chain(["blocks".to_owned()]).collect())
        })
        .collect();
    (prop::sample::select(tools), prop::collection::vec((value(), 0_u8..5), 8), path()).prop_map(
        |((tool, keys), values, path)| {
            let mut arguments = Map::new();
            for (key, (value, whim)) in keys.into_iter().zip(values) {
                match (key.as_str(), whim) {
                    // `blocks` stands for the other arguments of its tool.
                    ("blocks", 1..) | (_, 0) => {}
                    ("path", 1..4) => {
                        arguments.insert(key, path.clone().into());
                    }
                    _ => {
                        arguments.insert(key, value);
                    }
                }
            }
            Call { tool, arguments }
        },
    )
}

/// Texts with the marks of the protocol in them.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("```tool\n".to_owned()),
        Just("```\n".to_owned()),
        Just("<think>".to_owned()),
        Just("</think>".to_owned()),
        Just("### a.py\n".to_owned()),
        Just("<<<<<<< SEARCH\n".to_owned()),
        Just("    return x\n".to_owned()),
        Just("=======\n".to_owned()),
        Just(">>>>>>> REPLACE\n".to_owned()),
        Just("{\"tool\": \"view\", \"path\": \"a.py\"}\n".to_owned()),
        Just("{\"tool\": \"".to_owned()),
        "\\PC{0,10}",
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

fn reply() -> impl Strategy<Value = Reply> {
    let said = |call: &Call| {
        let mut object = call.arguments.clone();
        object.insert("tool".into(), call.tool.clone().into());
        format!("```tool\n{}\n```\n", Value::Object(object))
    };
    let native = |call: Call| ToolCall {
        id: "c".into(),
        name: call.tool,
        arguments: Value::Object(call.arguments).to_string(),
    };
    prop_oneof![
        text().prop_map(Reply::said),
        prop::collection::vec(call(), 1..4)
            .prop_map(move |calls| Reply::said(calls.iter().map(said).collect::<String>())),
        prop::collection::vec(call(), 1..4).prop_map(move |calls| Reply {
            calls: calls.into_iter().map(native).collect(),
            ..Reply::said("")
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_reply_is_answered(replies in prop::collection::vec(reply(), 1..12)) {
        play(&replies);
    }
}
