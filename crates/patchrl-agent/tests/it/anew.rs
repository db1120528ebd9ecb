//! Conversations that are read anew: a template that rewrites, and a context that is cut.

use std::sync::Mutex;

use patchrl_agent::{
    AgentConfig, Calling, Crew, Overflow, Played, Policy, PolicyFault, Question, Reply, Sampled,
    Start, Voice,
};
use patchrl_model::{ChatTemplate, Scratch, Tokenizer};

use crate::retokenization::{Sampler, ground, trained};

fn scratch() -> patchrl_model::Policy {
    let sizes =
        Scratch { vocab: 900, hidden: 8, heads: 2, layers: 1, ffn: 8, ..Scratch::default() };
    patchrl_model::Policy::from_scratch(&sizes, &[include_str!("../../src/crew.rs")], 0).unwrap()
}

/// Thinks, then looks.
struct Thinks<'a>(&'a Tokenizer, Mutex<Vec<(Vec<u32>, Vec<u32>)>>);

impl Policy for Thinks<'_> {
    fn ask(&self, questions: &[Question<'_>]) -> Vec<Result<Reply, PolicyFault>> {
        let said = |question: &Question<'_>| {
            let turn = question.chat.len();
            let text = format!(
                "<think>turn {turn}</think>\n```tool\n{{\"tool\": \"view\", \"path\": \
                 \"text0.md\", \"first\": {turn}}}\n```"
            );
            let mut tokens = self.0.encode(&text);
            tokens.push(self.0.eos()[0]);
            let prompt = question.tokens.expect("the crew has a voice").to_vec();
            self.1.lock().unwrap().push((prompt.clone(), tokens.clone()));
            let log_probs = tokens.iter().map(|token| -(*token as f32)).collect();
            let versions = vec![1; tokens.len()];
            let sampled = Some(Sampled { prompt, tokens, log_probs, versions });
            Ok(Reply { sampled, ..Reply::said(text) })
        };
        questions.iter().map(said).collect()
    }
}

fn play(policy: &dyn Policy, voice: Voice<'_>, config: &AgentConfig) -> Played {
    let crew = Crew {
        policy,
        voice: Some(voice),
        config,
        calling: Calling::Text,
        max_new_tokens: 400,
        workers: 1,
    };
    let ground = ground();
    let start = Start { ground: &ground, issue: "It is broken.", seed: 3 };
    crew.play(&[start], &mut |_| {}).unwrap().remove(0)
}

/// As Qwen3's: thoughts of earlier turns are not shown again.
const FORGETS: &str = "{% for m in messages %}<|im_start|>{{ m.role }}\n\
    {% if m.role == 'assistant' %}{{ m.content.split('</think>')[-1] }}{% else %}{{ m.content }}{% endif %}\
    <|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

#[test]
fn a_template_that_forgets_thoughts_starts_a_row_with_every_turn() {
    let policy = scratch();
    let folder = tempfile::tempdir().unwrap();
    policy.tokenizer.save(folder.path()).unwrap();
    let settings = folder.path().join("tokenizer_config.json");
    let text = fs_err::read_to_string(&settings).unwrap();
    let mut json: serde_json::Value = serde_json::from_str(&text).unwrap();
    json["chat_template"] = FORGETS.into();
    fs_err::write(&settings, json.to_string()).unwrap();
    let tokenizer = Tokenizer::read(folder.path()).unwrap();
    let chat = ChatTemplate::of(&tokenizer).unwrap();

    let config = AgentConfig { turns: 4, ..AgentConfig::default() };
    let thinks = Thinks(&tokenizer, Mutex::default());
    let played = play(&thinks, Voice { chat: &chat, tokenizer: &tokenizer }, &config);
    assert_eq!((played.trajectory.turns.len(), played.rows.len()), (4, 4));
    assert_eq!(trained(&played.rows), *thinks.1.lock().unwrap(), "sampled is trained");
    let rows: Vec<usize> = played.trajectory.turns.iter().map(|turn| turn.row).collect();
    assert_eq!(rows, [0, 1, 2, 3]);
    let read = tokenizer.decode(&played.rows[3].tokens[..played.rows[3].prompt_len()]);
    assert!(!read.contains("<think>") && read.contains("\"first\": 4"), "{read}");
    // With a template that keeps them it is one row.
    let plain = Voice { chat: &policy.chat, tokenizer: &policy.tokenizer };
    let thinks = Thinks(&policy.tokenizer, Mutex::default());
    assert_eq!(play(&thinks, plain, &config).rows.len(), 1);
}

#[test]
fn a_context_that_is_cut_goes_on_in_a_row_of_its_own() {
    let policy = scratch();
    let voice = Voice { chat: &policy.chat, tokenizer: &policy.tokenizer };
    let sampler = Sampler { tokenizer: &policy.tokenizer, seen: Mutex::default() };
    let config = AgentConfig {
        turns: 30,
        tokens: usize::MAX,
        malformed: u32::MAX,
        context_tokens: 4000,
        overflow: Overflow::Cut,
        ..AgentConfig::default()
    };
    let played = play(&sampler, voice, &config);
    let seen = std::mem::take(&mut *sampler.seen.lock().unwrap());
    assert!(played.rows.len() > 1, "{}", played.trajectory.end.as_str());
    assert_eq!(trained(&played.rows), seen, "sampled is trained");
    let read = |row: &patchrl_agent::Row| policy.tokenizer.decode(&row.tokens[..row.prompt_len()]);
    assert!(!read(&played.rows[0]).contains("[left out to make room]"));
    assert!(read(&played.rows[1]).contains("[left out to make room]"));
    assert!(seen.iter().all(|(prompt, _)| prompt.len() < 4000));

    let ends = AgentConfig { overflow: Overflow::End, ..config };
    let short = play(&sampler, voice, &ends);
    assert_eq!((short.trajectory.end.as_str(), short.rows.len()), ("overflow", 1));
    assert!(short.trajectory.turns.len() < played.trajectory.turns.len());
}
