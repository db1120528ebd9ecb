//! Tokens trained on equal tokens sampled, over many turns of real text.
//!
//! The policy here samples pieces of real text that are tokenized one by one, so that their tokens
//! are not those that the whole text would have: as a real model does now and then.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use patchrl_agent::{
    AgentConfig, Calling, Crew, Ground, Policy, PolicyFault, Question, Reply, Row, Runner, Sampled,
    Start, Voice,
};
use patchrl_model::{ChatTemplate, Scratch, Tokenizer};
use patchrl_patch::{Entry, Mode};
use patchrl_sandbox::{Job, Output, SandboxError};

/// Real prose and real code, with fences, tables and characters beyond ASCII.
const TEXTS: [&str; 5] = [
    include_str!("../../../../README.md"),
    include_str!("../../../../CHANGELOG.md"),
    include_str!("../../../patchrl-patch/src/similarity.rs"),
    include_str!("../../src/crew.rs"),
    include_str!("../../src/observation.rs"),
];

struct NoRunner;

impl Runner for NoRunner {
    fn run(&self, _: &Job) -> Result<Output, SandboxError> {
        Err(SandboxError::Setup("no command is run here".to_owned()))
    }
}

fn mix(seed: u64) -> u64 {
    let z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z ^ (z >> 31)
}

/// Numbers below a bound, one after the other.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = mix(self.0);
        (self.0 % bound as u64) as usize
    }
}

/// What was read and what was sampled.
pub(crate) type Seen = Vec<(Vec<u32>, Vec<u32>)>;

pub(crate) struct Sampler<'a> {
    pub(crate) tokenizer: &'a Tokenizer,
    pub(crate) seen: Mutex<Seen>,
}

impl Sampler<'_> {
    /// A slice of a real text, and a call that shows another.
    fn text(dice: &mut Dice) -> String {
        let source = TEXTS[dice.below(TEXTS.len())];
        let mut from = dice.below(source.len());
        while !source.is_char_boundary(from) {
            from += 1;
        }
        let prose: String = source[from..].chars().take(20 + dice.below(300)).collect();
        let (file, first) = (dice.below(TEXTS.len()), 1 + dice.below(80));
        let last = first + dice.below(12);
        format!(
            "{prose}\n```tool\n{{\"tool\": \"view\", \"path\": \"text{file}.md\", \"first\": {first}, \
             \"last\": {last}}}\n```"
        )
    }

    fn tokens(&self, text: &str, dice: &mut Dice) -> Vec<u32> {
        let mut tokens = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let count = 1 + dice.below(9);
            let end = rest.char_indices().nth(count).map_or(rest.len(), |(at, _)| at);
            tokens.extend(self.tokenizer.encode(&rest[..end]));
            rest = &rest[end..];
        }
        tokens
    }
}

impl Policy for Sampler<'_> {
    fn ask(&self, questions: &[Question<'_>]) -> Vec<Result<Reply, PolicyFault>> {
        let mut seen = self.seen.lock().unwrap();
        questions
            .iter()
            .map(|question| {
                let mut dice = Dice(question.seed);
                let mut tokens = self.tokens(&Self::text(&mut dice), &mut dice);
                let stops = dice.below(5) > 0;
                let text = self.tokenizer.decode(&tokens);
                if stops {
                    tokens.push(self.tokenizer.eos()[0]);
                }
                let prompt = question.tokens.expect("the crew has a voice").to_vec();
                seen.push((prompt.clone(), tokens.clone()));
                let log_probs = tokens.iter().map(|token| -(*token as f32)).collect();
                let sampled =
                    Sampled { prompt, log_probs, versions: vec![1; tokens.len()], tokens };
                Ok(Reply { sampled: Some(sampled), truncated: !stops, ..Reply::said(text) })
            })
            .collect()
    }
}

pub(crate) fn ground() -> Arc<Ground> {
    let entry = |text: &str| Entry { mode: Mode::Regular, bytes: text.as_bytes().to_vec() };
    let tree: BTreeMap<String, Entry> =
        TEXTS.iter().enumerate().map(|(n, text)| (format!("text{n}.md"), entry(text))).collect();
    let files: BTreeSet<String> = tree.keys().cloned().collect();
    Arc::new(Ground {
        tree: Arc::new(tree),
        files,
        job: Job::new("/", Vec::<String>::new()),
        tests: Vec::new(),
        tests_take_files: false,
        runner: Arc::new(NoRunner),
    })
}

/// The tokenizer of SmolLM2 where a model folder is named in `PATCHRL_TEST_MODEL`, else one learnt
/// here.
fn voice() -> (ChatTemplate, Tokenizer) {
    if let Some(folder) = std::env::var_os("PATCHRL_TEST_MODEL") {
        let tokenizer = Tokenizer::read(&PathBuf::from(folder)).expect("a model folder");
        return (ChatTemplate::of(&tokenizer).expect("its template"), tokenizer);
    }
    let sizes =
        Scratch { vocab: 2000, hidden: 8, heads: 2, layers: 1, ffn: 8, ..Scratch::default() };
    let policy = patchrl_model::Policy::from_scratch(&sizes, &TEXTS, 0).expect("a tokenizer");
    (policy.chat, policy.tokenizer)
}

/// Each reply of the rows, with what was read before it.
pub(crate) fn trained(rows: &[Row]) -> Seen {
    let mut found: Seen = Vec::new();
    for row in rows {
        let mut at = 0;
        while let Some(from) = row.mask[at..].iter().position(|m| *m).map(|n| at + n) {
            let end = row.mask[from..].iter().position(|m| !m);
            let to = end.map_or(row.mask.len(), |n| from + n);
            for t in from..to {
                let said = -(row.tokens[t] as f32);
                assert_eq!((row.log_probs[t].to_bits(), row.versions[t]), (said.to_bits(), 1));
            }
            found.push((row.tokens[..from].to_vec(), row.tokens[from..to].to_vec()));
            at = to;
        }
    }
    found
}

#[test]
fn tokens_trained_on_are_tokens_sampled_in_200_episodes() {
    let (chat, tokenizer) = voice();
    let sampler = Sampler { tokenizer: &tokenizer, seen: Mutex::default() };
    let ground = ground();
    let (mut episodes, mut equal, mut re_encoded, mut replies) = (0, 0, 0, 0);
    for batch in 0..20_u64 {
        // 8 to 64 turns.
        let config = AgentConfig {
            turns: 8 + (batch * 56 / 19) as u32,
            tokens: usize::MAX,
            context_tokens: usize::MAX,
            malformed: u32::MAX,
            observation_bytes: 1000,
            ..AgentConfig::default()
        };
        let crew = Crew {
            policy: &sampler,
            voice: Some(Voice { chat: &chat, tokenizer: &tokenizer }),
            config: &config,
            calling: Calling::Text,
            max_new_tokens: 1000,
            workers: 2,
        };
        let starts: Vec<Start<'_>> = (0..10)
            .map(|n| Start { ground: &ground, issue: TEXTS[0], seed: batch * 10 + n })
            .collect();
        let played = crew.play(&starts, &mut |_| {}).expect("a policy that answers");
        let mut seen: Seen = std::mem::take(&mut sampler.seen.lock().unwrap());
        replies += seen.len();
        for one in played {
            assert_eq!(one.trajectory.turns.len(), config.turns as usize);
            let trained = trained(&one.rows);
            assert_eq!(trained.len(), one.trajectory.turns.len());
            let before = seen.len();
            seen.retain(|reply| !trained.contains(reply));
            equal += usize::from(before - seen.len() == trained.len());
            episodes += 1;
            let again = chat.encode(&tokenizer, &one.trajectory.messages(), false).unwrap();
            let first = &one.rows[0].tokens;
            re_encoded +=
                usize::from(again.len() < first.len() || again[..first.len()] != first[..]);
        }
        assert_eq!(seen, [], "something was sampled that nobody trains on");
    }
    assert_eq!((episodes, equal), (200, 200));
    assert!(replies >= 200 * 8);
    // The test would show the fault: encoding the conversation again gives other tokens.
    assert!(re_encoded >= 190, "re-encoding changed {re_encoded} of 200");
}
