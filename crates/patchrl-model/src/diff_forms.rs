//! A file's lines as a unified diff of it would show them.

use crate::Tokenizer;

/// Texts whose suffixes a diff of the file has, each in the diff's own tokens.
///
/// The file's lines, in a prompt, have no ' ' and no '-' before them: a copy breaks at every
/// line, and indentation becomes other tokens. Here each line follows the one before it in every
/// form: context after context, deletion after context, deletion after deletion, and context or
/// the line itself again, to be edited, after deletion.
pub fn diff_forms(path: &str, text: &str, tokenizer: &Tokenizer) -> Vec<Vec<u32>> {
    let lines: Vec<&str> = text.lines().collect();
    let all = |mark: &str| lines.iter().map(|line| format!("{mark}{line}\n")).collect::<String>();
    let mut forms = vec![
        format!("diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -"),
        all(" "),
        all("-"),
    ];
    forms
        .extend(lines.windows(2).map(|pair| format!(" {}\n-{}\n+{}\n", pair[0], pair[1], pair[1])));
    forms.extend(lines.windows(2).map(|pair| format!("-{}\n {}\n", pair[0], pair[1])));
    forms.iter().map(|form| tokenizer.encode(form)).collect()
}
