//! Every preset on the toy task, through the judge.

use std::sync::Arc;

use patchrl_reward::{Judge, Judgement, Mode, RewardConfig, Settings, swerl};
use patchrl_sandbox::Local;

use crate::judging::{Bench, wrong};
use crate::repository::{self, GOLD, create, replace};

fn judge(sandbox: &Arc<Local>, yaml_as_json: &str) -> Judge {
    let config: RewardConfig = serde_json::from_str(yaml_as_json).unwrap();
    let settings = Settings { reward: config.resolve().unwrap(), ..Settings::default() };
    Judge::new(Arc::clone(sandbox), settings)
}

fn value(judged: &Judgement, name: &str) -> f64 {
    judged.components.iter().find(|c| c.name == name).unwrap().value
}

/// The known answer in the form that the paper asks for.
const SWERL_GOLD: &str = "<think>\nadd adds\n</think>\n<solution>\n```python\n### calc/__init__.py\n\
<<<<<<< SEARCH\ndef add(a, b):\n    return a - b\n=======\ndef add(a, b):\n    return a + b\n>>>>>>> REPLACE\n```\n\
```python\n### calc/__init__.py\n<<<<<<< SEARCH\n    return a\n\n=======\n    return a + b\n\n>>>>>>> REPLACE\n```\n</solution>";

pub(crate) fn each_preset_gives_its_number(sandbox: &Arc<Local>) {
    let bench = Bench::new(sandbox);
    let ready = bench.ready(&repository::task(&bench.commit));
    let of = |answer: &str, mode| {
        let judged = bench.judge.judge(&ready, answer, false, mode);
        (judged.outcome.as_str(), judged.reward.unwrap())
    };
    assert_eq!(of(GOLD, Mode::Resolved), ("resolved", 1.0));
    assert_eq!(of(&wrong(), Mode::Resolved), ("failed", 0.0));
    assert_eq!(of(GOLD, Mode::RuleBased), ("resolved", 1.5));
    assert_eq!(of("prose", Mode::RuleBased), ("malformed", -0.1));
    assert_eq!(of(GOLD, Mode::Similarity), ("well_formed", 1.0));
    assert_eq!(of("prose", Mode::Similarity), ("malformed", -1.0));
    assert_eq!(of(GOLD, Mode::Swerl), ("malformed", -1.0));
    assert_eq!(of(SWERL_GOLD, Mode::Swerl), ("applied", 1.0));
    // The judge's number is the one that the texts give.
    let before = "def add(a, b):\n    return a - b\n\n\ndef join(a, b):\n    return a\n\n\ndef sub(a, b):\n    return a - b\n";
    let text = |text: &str| swerl::Texts::from([("calc/__init__.py".to_owned(), text.to_owned())]);
    let after = before.replacen("a - b", "a + b", 1).replacen("return a\n", "return a + b\n", 1);
    let half = SWERL_GOLD.split("```\n```python").next().unwrap().to_owned() + "```\n</solution>";
    let score = swerl::from_answer(&text(before), &text(&after), &half).unwrap();
    assert!(score.error.is_none() && score.reward < 1.0, "{score:?}");
    assert_eq!(of(&half, Mode::Swerl), ("applied", score.reward));
    let long = format!("<think>x</think><solution>{}</solution>", "x".repeat(2 << 20));
    assert_eq!(of(&long, Mode::Swerl), ("malformed", -1.0));
}

pub(crate) fn components_add_up(sandbox: &Arc<Local>) {
    let bench = Bench::new(sandbox);
    let ready = bench.ready(&repository::task(&bench.commit));
    let judge = judge(
        sandbox,
        r#"{"components": [
            {"name": "t", "weight": 1, "fn": "tests"},
            {"name": "c", "weight": 0.5, "fn": "compile", "penalty": true},
            {"name": "d", "weight": 0.1, "fn": "diff_size_penalty"},
            {"name": "s", "weight": 0.2, "fn": "style_check"},
            {"name": "f", "weight": 0.2, "fn": "format_check"},
            {"name": "own", "weight": 0.25, "command": ["grep", "-c", "some__calc-1"]}]}"#,
    );
    let judged = judge.judge(&ready, GOLD, false, Mode::RuleBased);
    let values: Vec<f64> = judged.components.iter().map(|c| c.value).collect();
    assert_eq!(values, [1.0, 0.0, 0.0, 1.0, 0.0, 1.0], "{judged:#?}");
    assert!((judged.reward.unwrap() - 1.45).abs() < 1e-12);

    let broken = wrong().replace("return (a - b)", "return (a - b")
        + &replace("README.md", "# calc", "# calc ");
    let judged = judge.judge(&ready, &broken, false, Mode::RuleBased);
    assert_eq!((value(&judged, "t"), value(&judged, "c")), (0.0, -1.0), "{judged:#?}");
    assert_eq!((value(&judged, "d"), value(&judged, "f")), (-0.5, 0.0));
    assert_eq!(judged.outcome.as_str(), "failed");
}

pub(crate) fn a_broken_command_loses_the_answer(sandbox: &Arc<Local>) {
    let bench = Bench::new(sandbox);
    let ready = bench.ready(&repository::task(&bench.commit));
    let judge = judge(
        sandbox,
        r#"{"components": [{"name": "own", "weight": 1, "command": ["no-such-linter"]}]}"#,
    );
    let judged = judge.judge(&ready, GOLD, false, Mode::RuleBased);
    assert_eq!((judged.outcome.as_str(), judged.reward), ("lost", None));
    assert!(judged.outcome.why().unwrap().contains("no-such-linter"), "{judged:#?}");
}

pub(crate) fn a_broken_oracle_loses_the_answer(sandbox: &Arc<Local>) {
    let bench = Bench::new(sandbox);
    let mut task = repository::task(&bench.commit);
    task.patch = GOLD.replace("return a - b", "return a * b");
    let ready = bench.ready(&task);
    for mode in [Mode::Swerl, Mode::Similarity] {
        let judged = bench.judge.judge(&ready, GOLD, false, mode);
        assert_eq!((judged.outcome.as_str(), judged.reward), ("lost", None), "{judged:#?}");
    }
    let judged = bench.judge.judge(&ready, &wrong(), false, Mode::RuleBased);
    assert!(judged.outcome.why().unwrap().contains("gold patch"), "{judged:#?}");
}

pub(crate) fn the_guard_has_policies(sandbox: &Arc<Local>) {
    let bench = Bench::new(sandbox);
    let ready = bench.ready(&repository::task(&bench.commit));
    let touches = GOLD.to_owned() + &create("conftest.py", "x = 1");
    let judged = bench.judge.judge(&ready, &touches, false, Mode::Resolved);
    assert_eq!(judged.reward, Some(1.0), "{judged:#?}");
    assert_eq!(judged.evidence.restored, ["conftest.py (steers the test run)"]);
    let strict = judge(
        sandbox,
        r#"{"malformed": -1, "guard": {"presets": {"resolved": {"files": "refuse"}}}}"#,
    );
    let judged = strict.judge(&ready, &touches, false, Mode::Resolved);
    assert_eq!((judged.outcome.as_str(), judged.reward), ("cheated", Some(-1.0)), "{judged:#?}");
    let judged = strict.judge(&ready, &touches, false, Mode::Tests);
    assert_eq!(judged.reward, Some(1.0), "{judged:#?}");
}
