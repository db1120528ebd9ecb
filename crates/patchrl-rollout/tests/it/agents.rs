//! What a scripted agent can do with a shipped task.

use std::collections::BTreeSet;

use patchrl_agent::{AgentConfig, Call, Calling, End, Reply, ToolCall, Trajectory, tool_specs};
use patchrl_reward::{Mode, Outcome};
use patchrl_rollout::{Action, Environment};
use patchrl_sandbox::{Tier, TierChoice};
use serde_json::json;

use crate::bench::{Bench, call};

/// Each tool at least once, with a wrong turn on the way.
fn script() -> Vec<Reply> {
    let block = "### textkit/words.py\n<<<<<<< SEARCH\n    if width > len(text):\n=======\n    \
                 if len(text) <= width:\n>>>>>>> REPLACE\n";
    vec![
        call(r#"{"tool": "view", "path": "."}"#),
        call(r#"{"tool": "search", "text": "def shorten"}"#),
        call(r#"{"tool": "view", "path": "textkit/words.py", "first": 15, "last": 20}"#),
        Reply::said("I think it is about short texts."),
        call(
            r#"{"tool": "create", "path": "try.py", "text": "from textkit import words\nprint(repr(words.shorten('hi', 5)))\n"}"#,
        ),
        call(
            r#"{"tool": "run", "command": "python3 try.py; echo made > made.txt; mkdir d; mv made.txt d/"}"#,
        ),
        call(
            r#"{"tool": "edit", "path": "textkit/words.py", "first": 19, "last": 18, "text": "    if width > len(text):\n        return text\n"}"#,
        ),
        call(r#"{"tool": "test"}"#),
        Reply::said(format!("One off.\n{block}")),
        call(r#"{"tool": "run", "command": "python3 try.py && rm try.py && rm -r d"}"#),
        call(r#"{"tool": "test"}"#),
        call(r#"{"tool": "submit"}"#),
    ]
}

pub(crate) fn every_tool_solves_a_task_and_it_replays(bench: &Bench) {
    let config = AgentConfig::default();
    let (played, judgement) = bench.play(script(), &config);
    let shown = |turn: usize| played.trajectory.turns[turn - 1].observed.text.as_str();
    assert_eq!(judgement.outcome, Outcome::Resolved, "{}", shown(11));
    assert_eq!((judgement.reward, &played.trajectory.end), (Some(1.0), &End::Submitted));
    let used: BTreeSet<&str> = played
        .trajectory
        .turns
        .iter()
        .flat_map(|turn| turn.observed.calls.iter().map(|call| call.tool.as_str()))
        .collect();
    let all = tool_specs();
    assert_eq!(used, all.iter().map(|tool| tool.name.as_str()).collect());

    assert!(shown(1).contains("textkit/ (3 files)"), "{}", shown(1));
    assert!(shown(2).starts_with("textkit/words.py:18: def shorten"), "{}", shown(2));
    assert!(shown(3).contains("   19     return text[: width - 3]"), "{}", shown(3));
    assert!(shown(4).contains("no call") && shown(4).contains("```tool"), "{}", shown(4));
    assert_eq!(shown(6), "'hi...'\n");
    assert!(shown(8).contains("FAILED") && shown(8).contains("in 0.00s"), "{}", shown(8));
    assert_eq!(shown(9), "textkit/words.py changed at line 19\n");
    assert_eq!(shown(10), "'hi'\n");
    assert!(shown(11).contains("OK"), "{}", shown(11));
    let changed: Vec<&String> = played.changes.keys().collect();
    assert_eq!(changed, ["textkit/words.py"], "what was made and removed is gone");

    // As data and back, and the same episode once more.
    let text = serde_json::to_string(&played.trajectory).unwrap();
    let read: Trajectory = serde_json::from_str(&text).unwrap();
    assert_eq!(read, played.trajectory);
    let (again, judged) = bench.play_policy(&read.script(), &config);
    assert_eq!(again, played);
    assert_eq!((judged.outcome, judged.reward), (judgement.outcome, judgement.reward));
}

/// Where the tree is a copy under another path, the model sees the same bytes.
pub(crate) fn every_tier_shows_the_same(bench: &Bench) {
    let config = AgentConfig::default();
    let look = call(
        r#"{"tool": "run", "command": "pwd; python3 -c 'import textkit; print(textkit.__file__)'"}"#,
    );
    let replies: Vec<Reply> = std::iter::once(look).chain(script()).collect();
    let (here, judgement) = bench.play(replies.clone(), &config);
    assert_eq!(judgement.outcome, Outcome::Resolved);
    let shown = &here.trajectory.turns[0].observed.text;
    assert_eq!(shown, "/workspace\n/workspace/textkit/__init__.py\n");
    for tier in [Tier::Landlock, Tier::None] {
        let other = match Bench::start(TierChoice::Exactly(tier)) {
            Ok(other) => other,
            Err(why) => {
                println!("skipped {tier}: {why}");
                continue;
            }
        };
        let (there, judgement) = other.play(replies.clone(), &config);
        assert_eq!(there, here, "{tier}");
        assert_eq!(judgement.outcome, Outcome::Resolved, "{tier}");
    }
}

pub(crate) fn native_calls_do_the_same(bench: &Bench) {
    let native = |name: &str, arguments: serde_json::Value| Reply {
        calls: vec![ToolCall {
            id: "c".into(),
            name: name.into(),
            arguments: arguments.to_string(),
        }],
        ..Reply::said("")
    };
    let edit = json!({ "path": "textkit/words.py", "search": "    return text[: width - 3] + \"...\"\n",
        "replace": "    if len(text) <= width:\n        return text\n    return text[: width - 3] + \"...\"\n" });
    let replies = [native("replace", edit), native("test", json!({})), native("submit", json!({}))];
    let config = AgentConfig::default();
    let policy = patchrl_agent::Scripted::new(replies);
    let roller = patchrl_rollout::EpisodeRoller {
        calling: Calling::Native,
        ..bench.roller(&policy, &config)
    };
    let played = roller.play(&[(&bench.ready, vec![1])], &mut |_| {}).unwrap().remove(0);
    let judgement = roller.judge(&bench.ready, &played, Mode::Tests).remove(0);
    assert_eq!(judgement.outcome, Outcome::Resolved);
    let said = &played[0].trajectory.messages();
    let kept = said.iter().find(|m| m.role == "assistant").unwrap();
    assert!(
        kept.content.starts_with("```tool\n{\"tool\": \"replace\", \"path\""),
        "{}",
        kept.content
    );
}

pub(crate) fn the_gym_pays_at_the_end(bench: &Bench) {
    let mut gym = Environment::new(&bench.judge, AgentConfig::default(), Mode::Tests);
    assert!(gym.step(Action::Text("x".into())).done, "nothing was begun");
    let seen = gym.reset(&bench.ready).unwrap();
    assert!(
        seen.issue.starts_with("shorten() is wrong")
            && seen.files.contains(&"textkit/words.py".into())
    );
    let replies = script();
    let (last, before) = replies.split_last().unwrap();
    for reply in before {
        let step = gym.step(Action::Text(reply.text.clone()));
        assert!(!step.done && step.reward.is_none() && !step.observation.is_empty());
    }
    let step = gym.step(Action::Text(last.text.clone()));
    assert_eq!((step.done, step.reward, step.info.end), (true, Some(1.0), Some(End::Submitted)));
    let again = gym.step(Action::Text("more".into()));
    assert!(again.done && again.reward.is_none(), "a reward is paid once");
    // And as calls, on another task.
    gym.reset(&bench.other).unwrap();
    let call = Call { tool: "submit".into(), arguments: serde_json::Map::new() };
    let step = gym.step(Action::Calls(vec![call]));
    assert_eq!(step.info.judgement.unwrap().outcome, Outcome::Unchanged);
}

pub(crate) fn nothing_follows_a_call_that_failed(bench: &Bench) {
    let block = |search: &str| {
        format!(
            "### textkit/words.py\n<<<<<<< SEARCH\n{search}\n=======\n    x = 1\n>>>>>>> REPLACE\n\
             ```tool\n{{\"tool\": \"submit\"}}\n```"
        )
    };
    let replies =
        [Reply::said(block("no such line")), Reply::said(block("def shorten(text, width):"))];
    let (played, _) = bench.play(replies, &AgentConfig::default());
    let shown = &played.trajectory.turns[0].observed.text;
    assert!(shown.contains("[1 calls after it were not carried out]"), "{shown}");
    assert_eq!((played.trajectory.turns.len(), &played.trajectory.end), (2, &End::Submitted));
}

pub(crate) fn ends_are_told_apart(bench: &Bench) {
    let look = || call(r#"{"tool": "view", "path": "README.md"}"#);
    let sleep = || call(r#"{"tool": "run", "command": "sleep 5"}"#);
    let wide = AgentConfig::default();
    let cases: [(Vec<Reply>, AgentConfig, &str, &str); 7] = [
        (vec![look(), look(), look()], wide.clone(), "repeated", "truncated"),
        (
            vec![Reply::said("a"), Reply::said("b"), Reply::said("c")],
            wide.clone(),
            "malformed",
            "truncated",
        ),
        (
            vec![look(), sleep()],
            AgentConfig { turns: 2, command_seconds: 1, ..wide.clone() },
            "turns",
            "truncated",
        ),
        (vec![sleep()], AgentConfig { seconds: 1, ..wide.clone() }, "time", "truncated"),
        (vec![look()], AgentConfig { tokens: 5, ..wide.clone() }, "tokens", "truncated"),
        (vec![look()], AgentConfig { context_tokens: 64, ..wide.clone() }, "overflow", "truncated"),
        (vec![look()], wide, "lost", "lost"),
    ];
    for (replies, config, end, outcome) in cases {
        let (played, judgement) = bench.play(replies, &config);
        assert_eq!(played.trajectory.end.as_str(), end);
        assert_eq!(judgement.outcome.as_str(), outcome, "{end}");
        assert_eq!(judgement.reward.is_none(), end == "lost");
    }
}
