//! A problem of one function as a prompt, and its known solution as an answer.
//!
//! Owns the words: those of the MBPP paper (arXiv 2108.07732, figure 1), with every assertion
//! shown as there. Where the code in an answer is, `patchrl_reward::code_of` decides.

use patchrl_model::Message;

/// The prompt for `statement`, which `asserts` will judge.
pub fn function_messages(statement: &str, asserts: &[String]) -> Vec<Message> {
    let user = format!(
        "You are an expert Python programmer, and here is your task: {} Your code should pass \
         these tests:\n\n{}\n",
        statement.trim(),
        asserts.join("\n")
    );
    vec![Message::new("user", user)]
}

/// `code` as an answer: in a fence, with tabs and line ends as Python files have them today.
pub fn function_answer(code: &str) -> String {
    let code = code.replace("\r\n", "\n");
    format!("```python\n{}\n```", code.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_shows_its_assertions_and_an_answer_its_code() {
        let asserts = ["assert f(1) == 2".to_owned(), "assert f(2) == 4".to_owned()];
        let [message] = function_messages(" Write f. ", &asserts).try_into().expect("one turn");
        assert_eq!(
            message.content,
            "You are an expert Python programmer, and here is your task: Write f. Your code \
             should pass these tests:\n\nassert f(1) == 2\nassert f(2) == 4\n"
        );
        assert_eq!(
            function_answer("def f():\r\n\treturn 1 \r\n"),
            "```python\ndef f():\n\treturn 1\n```"
        );
    }
}
