//! A thought has a budget of its own: it is closed by force, and the closing is not trained on.

use std::sync::Mutex;

use patchrl_agent::{
    AgentConfig, Calling, Crew, Policy, PolicyFault, Question, Reply, Sampled, Start, Voice,
};
use patchrl_model::Scratch;

use crate::retokenization::ground;

/// Says a text token by token, as far as it may, and goes on where its tokens end.
struct Thinker<'a> {
    policy: &'a patchrl_model::Policy,
    thought: &'a str,
    asked: Mutex<Vec<usize>>,
}

const CALL: &str = "```tool\n{\"tool\": \"submit\"}\n```";

impl Policy for Thinker<'_> {
    fn ask(&self, questions: &[Question<'_>]) -> Vec<Result<Reply, PolicyFault>> {
        let tokenizer = &self.policy.tokenizer;
        let answer = |question: &Question<'_>| {
            self.asked.lock().unwrap().push(question.max_new_tokens);
            let prompt = question.tokens.expect("the crew has a voice").to_vec();
            let thought = tokenizer.decode(&prompt).ends_with("</think>\n\n");
            let text = if thought { CALL.to_owned() } else { format!("{}{CALL}", self.thought) };
            let mut tokens = tokenizer.encode(&text);
            tokens.push(tokenizer.eos()[0]);
            let truncated = tokens.len() > question.max_new_tokens;
            tokens.truncate(question.max_new_tokens);
            let text = tokenizer.decode(&tokens);
            let (log_probs, versions) = (vec![-1.0; tokens.len()], vec![1; tokens.len()]);
            let sampled = Sampled { prompt, tokens, log_probs, versions };
            Ok(Reply { sampled: Some(sampled), truncated, ..Reply::said(text) })
        };
        questions.iter().map(answer).collect()
    }
}

#[test]
fn a_thought_is_closed_at_its_budget_and_the_closing_is_masked() {
    let sizes =
        Scratch { vocab: 259, hidden: 8, heads: 2, layers: 1, ffn: 8, ..Scratch::default() };
    let policy = patchrl_model::Policy::from_scratch(&sizes, &["x"], 0).unwrap();
    let long = format!("<think>{}</think>\n", "hm ".repeat(100));
    // The thought, the questions, tokens of the closing that are in the row.
    for (thought, asked, forced) in [
        (long.as_str(), &[40, 60][..], true),
        ("<think>ok</think>\n", &[40, 60], false),
        ("", &[40], false),
    ] {
        let thinker = Thinker { policy: &policy, thought, asked: Mutex::default() };
        let config = AgentConfig { thinking_tokens: 40, ..AgentConfig::default() };
        let crew = Crew {
            policy: &thinker,
            voice: Some(Voice { chat: &policy.chat, tokenizer: &policy.tokenizer }),
            config: &config,
            calling: Calling::Text,
            max_new_tokens: 60,
            workers: 1,
        };
        let ground = ground();
        let start = Start { ground: &ground, issue: "x", seed: 0 };
        let played = crew.play(&[start], &mut |_| {}).unwrap().remove(0);
        let said = &played.trajectory.turns[0].message;
        assert_eq!(*thinker.asked.lock().unwrap(), asked, "{said}");
        let row = &played.rows[0];
        let from = row.prompt_len();
        let masked: Vec<u32> =
            (from..row.tokens.len()).filter(|t| !row.mask[*t]).map(|t| row.tokens[t]).collect();
        let closing = if forced { "\n</think>\n\n" } else { "" };
        assert_eq!(policy.tokenizer.decode(&masked), closing);
        if forced {
            assert_eq!(played.trajectory.end.as_str(), "submitted", "{said}");
            let whole = policy.tokenizer.decode(&row.tokens[from..]);
            assert_eq!(*said, whole, "the message is what stands in the row");
        }
    }
}
