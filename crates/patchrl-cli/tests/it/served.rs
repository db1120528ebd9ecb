//! Training on the answers of a server that has the same weights: what reaches it, what leaves it,
//! and which version drew each token.

use std::path::Path;
use std::time::Duration;

use patchrl_model::Policy;
use patchrl_rollout::{Record, records_path};
use patchrl_telemetry::{Event, Step, read_journal};
use patchrl_testkit::{Brain, Change, FakeServer, Fault, Flavour};

use crate::tiny::write_model;
use crate::{Said, finish, patchrl};

/// A folder with a model, a configuration for it, and a server that has it.
fn begin(flavour: Flavour) -> (tempfile::TempDir, FakeServer) {
    let dir = tempfile::tempdir().unwrap();
    write_model(&dir.path().join("model"));
    let policy = Policy::load(&dir.path().join("model")).unwrap();
    let server = FakeServer::start(flavour, Brain::Model(Box::new(policy)));
    (dir, server)
}

/// A reward for every length, so that the groups of a model that knows nothing differ.
fn train(dir: &Path, server: &FakeServer, steps: u32, more: &str, flags: &[&str]) -> Said {
    train_by(dir, &settings(server, steps, more), flags)
}

fn settings(server: &FakeServer, steps: u32, more: &str) -> String {
    format!(
        "model: ./model\n\
         prompt: {{ max_tokens: 600 }}\nsampling: {{ max_new_tokens: 24, temperature: 1.0 }}\n\
         rollout: {{ engine: openai, base_url: '{}', backoff: 0.01, retries: 2, request_timeout: 20{more} }}\n\
         train:\n  lora: {{ rank: 2, alpha: 4.0 }}\n  checkpoint_every: 100\n  \
         grpo: {{ group_size: 6, tasks_per_step: 1, lr: 3.0e-3, mask_truncated: false, kl_coef: 0.0, \
         overlong_buffer: 24, overlong_penalty: 1.0 }}\n  \
         curriculum: [{{ mode: syntax, steps: {steps} }}]\n",
        server.base_url()
    )
}

fn train_by(dir: &Path, settings: &str, flags: &[&str]) -> Said {
    fs_err::write(dir.join("run.yaml"), settings).unwrap();
    let words = ["train", "grpo", "--config", "run.yaml", "--run", "run", "--train-limit", "4"];
    finish(patchrl(dir).args(words).args(flags))
}

fn steps(dir: &Path) -> Vec<Step> {
    let journal = read_journal(&dir.join("runs/run/journal.jsonl")).unwrap();
    let step = |event| match event {
        Event::StepEnded(step) => Some(step),
        _ => None,
    };
    journal.into_iter().filter_map(|record| step(record.event)).collect()
}

fn warnings(dir: &Path) -> Vec<String> {
    let journal = read_journal(&dir.join("runs/run/journal.jsonl")).unwrap();
    let warning = |event| match event {
        Event::Warning { message } => Some(message),
        _ => None,
    };
    journal.into_iter().filter_map(|record| warning(record.event)).collect()
}

fn records(dir: &Path, step: u64) -> Vec<Record> {
    let text = fs_err::read_to_string(records_path(&dir.join("runs/run"), step)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// No fault: the first answer, which is taken before a run begins.
fn well() -> Fault {
    Fault::Late(Duration::ZERO)
}

fn name(version: u64) -> String {
    format!("policy-v{version}")
}

#[test]
fn thirty_steps_hand_over_thirty_adapters_and_each_token_knows_its_own() {
    for flavour in [Flavour::Vllm, Flavour::Sglang] {
        let (dir, server) = begin(flavour);
        let dir = dir.path();
        // One more than is asked at a time, while the next one comes.
        server.places(2);
        let said = train(dir, &server, 30, "", &[]);
        assert_eq!(said.code, 0, "{}", said.err);

        // What came and left, and who answered in between.
        let mut history = server.history().into_iter().peekable();
        assert_eq!(history.next(), Some(Change::Answered("base".into())));
        assert_eq!(history.next(), Some(Change::Flushed));
        for version in 0..=30 {
            assert_eq!(history.next(), Some(Change::Loaded(name(version))), "{flavour:?}");
            if version > 0 {
                assert_eq!(history.next(), Some(Change::Unloaded(name(version - 1))));
            }
            let mut answers = 0;
            while history.next_if_eq(&Change::Answered(name(version))).is_some() {
                answers += 1;
            }
            assert_eq!(answers, if version < 30 { 6 } else { 0 }, "{flavour:?} {version}");
        }
        assert_eq!(history.next(), None);
        assert_eq!(server.loaded(), [name(30)]);

        let steps = steps(dir);
        assert_eq!(steps.len(), 30);
        let learnt = steps.iter().filter(|it| it.grad_norm > 0.0).count();
        assert!(learnt > 5, "{learnt} steps changed the weights");
        for step in &steps {
            // The very weights that are trained drew the answers.
            assert!(step.ratio_mismatch_max < 1e-3, "{}: {}", step.step, step.ratio_mismatch_max);
            assert!(step.stale == 0.0 && step.lost == 0);
            for record in records(dir, step.step) {
                assert_eq!(record.versions, vec![step.step - 1; record.tokens.len()]);
                assert!(record.log_probs.iter().all(|it| it.is_finite()) && !record.retokenized);
            }
        }
        assert_eq!(warnings(dir), [""; 0]);
    }
}

#[test]
fn drawing_ahead_stays_within_its_bound() {
    let (dir, server) = begin(Flavour::Vllm);
    let dir = dir.path();
    server.places(4);
    let said = train(dir, &server, 12, ", staleness: 2", &[]);
    assert_eq!(said.code, 0, "{}", said.err);
    let steps = steps(dir);
    assert!(steps.iter().any(|it| it.stale > 0.0), "nothing was drawn ahead");
    for step in &steps {
        for record in records(dir, step.step) {
            let newest = step.step - 1;
            let within = |v: &u64| *v <= newest && newest - *v <= 2;
            assert!(record.versions.iter().all(within), "{}: {:?}", step.step, record.versions);
            assert!(record.versions.windows(2).all(|pair| pair[0] == pair[1]));
        }
    }
    // The answers of older weights are weighed.
    let config = fs_err::read_to_string(dir.join("runs/run/config.yaml")).unwrap();
    assert!(config.contains("sampler_weight: token-truncate"), "{config}");
    let moved = |it: &&Step| it.stale > 0.0 && (it.sampler_weight - 1.0).abs() > 1e-4;
    assert!(steps.iter().any(|it| moved(&it)), "no weight was ever another than 1");
    assert_eq!(server.loaded(), [name(10), name(11), name(12)]);
}

#[test]
fn a_run_that_goes_on_hands_over_where_it_was() {
    let (dir, server) = begin(Flavour::Vllm);
    let dir = dir.path();
    let said = train(dir, &server, 6, "", &["--checkpoint-every", "2"]);
    assert_eq!(said.code, 0, "{}", said.err);
    let whole: Vec<f32> = steps(dir).iter().map(|it| it.loss).collect();
    // As a crash after step 4 leaves it.
    let checkpoints = dir.join("runs/run/checkpoints");
    fs_err::remove_dir_all(checkpoints.join("step-000006")).unwrap();
    fs_err::remove_file(checkpoints.join("latest")).unwrap();
    std::os::unix::fs::symlink("step-000004", checkpoints.join("latest")).unwrap();
    let said = train(dir, &server, 6, "", &["--checkpoint-every", "2", "--resume"]);
    assert_eq!(said.code, 0, "{}", said.err);
    let again: Vec<f32> = steps(dir).iter().map(|it| it.loss).collect();
    assert_eq!(again, whole);
    assert_eq!(server.loaded(), [name(6)]);
}

/// A thought that the template opens has eight tokens and the answer after it twelve, drawn by a
/// server and here.
#[test]
fn what_closes_a_thought_is_recorded_and_not_trained_on() {
    let (dir, server) = begin(Flavour::Vllm);
    let template = dir.path().join("model/tokenizer_config.json");
    let opens = fs_err::read_to_string(&template).unwrap();
    let opens = opens.replace("assistant\\n{% endif", "assistant\\n<think>\\n{% endif");
    assert!(opens.contains("<think>"));
    fs_err::write(&template, opens).unwrap();
    let served = settings(&server, 4, "")
        .replace("max_new_tokens: 24", "max_new_tokens: 12")
        .replace("temperature: 1.0", "temperature: 1.0, thinking_tokens: 8");
    let line = served.lines().find(|line| line.starts_with("rollout:")).unwrap();
    let here = served.replace(line, "");
    for text in [&served, &here] {
        let dir = dir.path();
        let said = train_by(dir, text, &["--checkpoint-every", "2"]);
        assert_eq!(said.code, 0, "{}", said.err);
        let mut closed = 0;
        let whole = steps(dir);
        for step in &whole {
            assert!(step.ratio_mismatch_max < 1e-3, "{}", step.ratio_mismatch_max);
            assert!(step.stale == 0.0 && step.lost == 0 && step.loss.is_finite());
            let mut drawn = 0;
            for record in records(dir, step.step) {
                let mask = record.mask;
                let own = |at: usize| mask.get(at).is_none_or(|own| *own);
                assert!(mask.is_empty() || mask.len() == record.tokens.len());
                drawn += (0..record.tokens.len()).filter(|at| own(*at)).count();
                closed += usize::from(!mask.is_empty());
                assert_eq!(record.answer.contains("\n</think>\n\n"), !mask.is_empty());
                for (at, said) in record.log_probs.iter().enumerate() {
                    assert_eq!(said.is_finite(), own(at));
                    assert_eq!(record.versions[at], if own(at) { step.step - 1 } else { 0 });
                }
            }
            assert_eq!(drawn as u64, step.tokens, "what was put in was not sampled");
        }
        assert!(closed > 12, "{closed} thoughts were closed");
        // As a crash after step 2 leaves it.
        let checkpoints = dir.join("runs/run/checkpoints");
        fs_err::remove_dir_all(checkpoints.join("step-000004")).unwrap();
        fs_err::remove_file(checkpoints.join("latest")).unwrap();
        std::os::unix::fs::symlink("step-000002", checkpoints.join("latest")).unwrap();
        let said = train_by(dir, text, &["--checkpoint-every", "2", "--resume"]);
        assert_eq!(said.code, 0, "{}", said.err);
        let losses = |steps: &[Step]| steps.iter().map(|it| it.loss).collect::<Vec<_>>();
        assert_eq!(losses(&steps(dir)), losses(&whole));
        fs_err::remove_dir_all(dir.join("runs")).unwrap();
    }
    let chat = served.replace("engine: openai", "engine: openai, api: chat");
    let said = train_by(dir.path(), &chat, &[]);
    assert_eq!(said.code, 2, "{}", said.err);
    assert!(said.err.contains("`sampling.thinking_tokens` needs"), "{}", said.err);
}

#[test]
fn lost_answers_are_no_answers_and_the_run_goes_on() {
    let (dir, server) = begin(Flavour::Vllm);
    let dir = dir.path();
    let faults = [Fault::error(503, "x"), Fault::Cut, Fault::body(r#"{"choices":[]}"#)];
    let filtered = Fault::body(r#"{"choices":[{"text":"","finish_reason":"content_filter"}]}"#);
    let lost = [well(), filtered.clone(), filtered];
    server.fail("completions", lost.into_iter().chain(faults));
    let said = train(dir, &server, 2, "", &[]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert_eq!(steps(dir).iter().map(|it| it.lost).collect::<Vec<_>>(), [2, 0]);
    let lost: Vec<Record> = records(dir, 1).into_iter().filter(|it| it.outcome == "lost").collect();
    assert_eq!(lost.len(), 2);
    for record in lost {
        assert_eq!((record.reward, record.advantage), (None, None));
        assert!(record.judgement["outcome"]["why"].as_str().unwrap().contains("filtered"));
    }
}

#[test]
fn a_server_that_cannot_be_trained_with_is_refused_with_the_way_out() {
    let (dir, server) = begin(Flavour::Plain);
    let refused = |more: &str, what: &str, way: &str| {
        let said = train(dir.path(), &server, 2, more, &[]);
        assert_eq!(said.code, 2, "{}", said.err);
        let (error, hint) = said.err.rsplit_once("hint: ").unwrap_or_default();
        assert!(error.contains(what) && hint.contains(way), "{}", said.err);
    };
    // None of these is a run yet, so that the same name can be taken again.
    refused("", "does not say the tokens of its answers", "rollout.retokenize");
    refused(", retokenize: true", "loads no adapters while it runs", "`rollout.handover: none`");
    server.fail("completions", vec![Fault::error(503, "busy"); 3]);
    refused("", "gave no answer that can be used", "rollout.debug_log");
    let said = train(dir.path(), &server, 2, ", handover: none, retokenize: true", &[]);
    assert_eq!(said.code, 0, "{}", said.err);
    let told = warnings(dir.path());
    assert!(told.iter().any(|it| it.contains("keeps the weights it has")), "{told:?}");
    for record in records(dir.path(), 2) {
        assert!(record.retokenized && record.log_probs.iter().all(|it| it.is_nan()));
        assert!(record.versions.iter().all(|it| *it == 0));
    }
}

#[test]
fn each_fault_has_an_exit_code_and_a_hint() {
    let web = Fault::body("<!DOCTYPE html><title>Sign in");
    // Six answers a step, with three attempts at each that may go better.
    let cases = [
        (Fault::error(401, "bad key"), 18, 2, "refuses the key", "api_key_env"),
        (web, 18, 2, "a web page", "/v1"),
        (Fault::error(422, "bad seed"), 18, 2, "bad seed", "rollout.debug_log"),
        (Fault::body(r#"{"id":"x"}"#), 18, 3, "without `choices`", "--resume"),
        (Fault::error(429, "slow down"), 18, 3, "has too much to do", "--resume"),
        (Fault::error(400, "maximum context length is 8"), 6, 3, "context length", "--resume"),
    ];
    for (fault, times, code, what, way) in cases {
        let (dir, server) = begin(Flavour::Vllm);
        server.fail("completions", std::iter::once(well()).chain(vec![fault; times]));
        let said = train(dir.path(), &server, 2, "", &[]);
        assert_eq!(said.code, code, "{}", said.err);
        let (error, hint) = said.err.rsplit_once("hint: ").unwrap_or_default();
        assert!(error.contains(what) && hint.contains(way), "{}", said.err);
        assert!(steps(dir.path()).is_empty(), "a step was made of nothing");
        if code == 3 {
            let said = train(dir.path(), &server, 2, "", &["--resume"]);
            assert_eq!((said.code, steps(dir.path()).len()), (0, 2), "{}", said.err);
        }
    }
    let (dir, server) = begin(Flavour::Vllm);
    let said = train(dir.path(), &server, 1, ", api_key_env: PATCHRL_NO_SUCH_KEY", &[]);
    assert_eq!(
        (said.code, said.err.lines().last()),
        (2, Some("hint: `export PATCHRL_NO_SUCH_KEY=...`, or leave `rollout.api_key_env` out")),
        "{}",
        said.err
    );
}

#[test]
fn another_tokenizer_ends_a_run_before_its_first_step() {
    let (dir, server) = begin(Flavour::Vllm);
    server.fail("/tokenize", [Fault::body(r#"{"tokens":[1,2]}"#)]);
    let said = train(dir.path(), &server, 1, "", &[]);
    assert_eq!(said.code, 2, "{}", said.err);
    assert!(said.err.contains("reads a text otherwise than the model here"), "{}", said.err);
    assert!(!server.seen().iter().any(|it| it.path.ends_with("completions")));
}
