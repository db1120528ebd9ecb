//! Python source as tokens and logical lines, as far as small edits need it.
//!
//! Owns spans, brackets, indentation and which names a function knows. Is no parser: source that
//! Python would refuse gives odd tokens, never a panic.

use std::ops::Range;

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Name,
    Number,
    Text,
    Operator,
}

/// One token: bytes `span` of the text, inside logical line `line`.
#[derive(Clone, Debug)]
pub(super) struct Token {
    pub(super) class: Class,
    pub(super) span: Range<usize>,
    pub(super) line: usize,
}

/// One logical line. A line that ends inside brackets goes on in the next.
#[derive(Clone, Debug)]
pub(super) struct Line {
    /// Bytes of white space before the first token.
    pub(super) indent: usize,
    /// Tokens of the line.
    pub(super) tokens: Range<usize>,
    /// Bytes from the start of its first to the end of its last physical line.
    pub(super) span: Range<usize>,
}

/// One function: its logical lines and what it knows by name.
#[derive(Clone, Debug)]
pub(super) struct Scope {
    /// From the `def` line to the last line of the body.
    pub(super) lines: Range<usize>,
    /// Parameters and variables, each with the line from which it is bound.
    pub(super) names: Vec<(String, usize)>,
}

/// A source text and its tokens.
pub(super) struct Source<'a> {
    pub(super) text: &'a str,
    pub(super) tokens: Vec<Token>,
    pub(super) lines: Vec<Line>,
}

const LONG_OPERATORS: [&str; 23] = [
    "**=", "//=", ">>=", "<<=", "...", "**", "//", ">>", "<<", "<=", ">=", "==", "!=", "->", "+=",
    "-=", "*=", "/=", "%=", "&=", "|=", "^=", ":=",
];

const KEYWORDS: [&str; 25] = [
    "and", "as", "assert", "break", "continue", "def", "del", "elif", "else", "except", "finally",
    "for", "from", "if", "import", "in", "is", "lambda", "not", "or", "pass", "raise", "return",
    "while", "yield",
];

impl<'a> Source<'a> {
    pub(super) fn read(text: &'a str) -> Self {
        let mut reader = Reader { text, at: 0, depth: 0, tokens: Vec::new(), lines: Vec::new() };
        reader.run();
        Self { text, tokens: reader.tokens, lines: reader.lines }
    }

    /// The text of token `at`; empty beyond the last one.
    pub(super) fn word(&self, at: usize) -> &'a str {
        self.tokens.get(at).map_or("", |token| &self.text[token.span.clone()])
    }

    pub(super) fn class(&self, at: usize) -> Option<Class> {
        self.tokens.get(at).map(|token| token.class)
    }

    /// The token before `at` on the same line.
    pub(super) fn before(&self, at: usize) -> Option<usize> {
        let previous = at.checked_sub(1)?;
        (self.tokens[previous].line == self.tokens[at].line).then_some(previous)
    }

    /// The token after `at` on the same line.
    pub(super) fn after(&self, at: usize) -> Option<usize> {
        let next = self.tokens.get(at + 1)?;
        (next.line == self.tokens[at].line).then_some(at + 1)
    }

    /// A name that is no keyword.
    pub(super) fn is_name(&self, at: usize) -> bool {
        self.class(at) == Some(Class::Name) && !KEYWORDS.contains(&self.word(at))
    }

    /// Whether an operand may end with token `at`, so that an operator after it is binary.
    pub(super) fn ends_operand(&self, at: usize) -> bool {
        match self.class(at) {
            Some(Class::Name) => self.is_name(at),
            Some(Class::Number | Class::Text) => true,
            Some(Class::Operator) => matches!(self.word(at), ")" | "]" | "}"),
            None => false,
        }
    }

    /// The bracket that closes the one at `open`, on the same logical line.
    pub(super) fn closing(&self, open: usize) -> Option<usize> {
        let line = self.tokens.get(open)?.line;
        let mut depth = 0_usize;
        for at in open..self.lines[line].tokens.end {
            match self.word(at) {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => {
                    depth = depth.checked_sub(1)?;
                    if depth == 0 {
                        return Some(at);
                    }
                }
                _ => {}
            }
        }
        None
    }

    /// What stands between the commas of a bracket pair, as token ranges.
    pub(super) fn items(&self, open: usize, close: usize) -> Vec<Range<usize>> {
        let mut items = Vec::new();
        let (mut depth, mut start) = (0_usize, open + 1);
        for at in open + 1..close {
            match self.word(at) {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth = depth.saturating_sub(1),
                "," if depth == 0 => {
                    items.push(start..at);
                    start = at + 1;
                }
                _ => {}
            }
        }
        if start < close {
            items.push(start..close);
        }
        items
    }

    /// The bytes from the first to the last token of a range.
    pub(super) fn bytes(&self, tokens: &Range<usize>) -> Range<usize> {
        if tokens.is_empty() || tokens.end > self.tokens.len() {
            return 0..0;
        }
        self.tokens[tokens.start].span.start..self.tokens[tokens.end - 1].span.end
    }

    /// The physical line (from 1) of byte `at`.
    pub(super) fn row(&self, at: usize) -> usize {
        self.text[..at].matches('\n').count() + 1
    }

    /// Every function, in order.
    pub(super) fn scopes(&self) -> Vec<Scope> {
        let is_def = |line: &Line| self.word(line.tokens.start) == "def";
        let starts = self.lines.iter().enumerate().filter(|(_, line)| is_def(line));
        starts
            .map(|(start, line)| {
                let rest = &self.lines[start + 1..];
                let body = rest.iter().take_while(|other| other.indent > line.indent).count();
                let lines = start..start + 1 + body;
                Scope { names: self.names(&lines), lines }
            })
            .collect()
    }

    fn names(&self, lines: &Range<usize>) -> Vec<(String, usize)> {
        let mut names: Vec<(String, usize)> = Vec::new();
        let mut bind = |name: &str, line: usize| {
            if !names.iter().any(|(known, _)| known == name) {
                names.push((name.to_owned(), line));
            }
        };
        for line in lines.clone() {
            let tokens = self.lines[line].tokens.clone();
            if line == lines.start {
                let open = tokens.start + 2;
                let Some(close) = self.closing(open) else { continue };
                for item in self.items(open, close) {
                    let first = item.clone().find(|at| self.is_name(*at));
                    if let Some(at) = first {
                        bind(self.word(at), line);
                    }
                }
                continue;
            }
            for at in self.targets(&tokens) {
                if self.is_name(at) {
                    bind(self.word(at), line + 1);
                }
            }
        }
        names
    }

    /// Tokens that are written to: before a plain `=`, or between `for` and `in`.
    pub(super) fn targets(&self, tokens: &Range<usize>) -> Range<usize> {
        if self.word(tokens.start) == "for" {
            let end = tokens.clone().find(|at| self.word(*at) == "in").unwrap_or(tokens.start);
            return tokens.start + 1..end.max(tokens.start + 1);
        }
        let mut depth = 0_usize;
        for at in tokens.clone() {
            match self.word(at) {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth = depth.saturating_sub(1),
                "=" if depth == 0 => return tokens.start..at,
                word if word.len() > 1 && word.ends_with('=') && depth == 0 => {
                    let comparison = matches!(word, "==" | "!=" | "<=" | ">=" | ":=");
                    return if comparison { tokens.start..tokens.start } else { tokens.start..at };
                }
                _ => {}
            }
        }
        tokens.start..tokens.start
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    tokens: Vec<Token>,
    lines: Vec<Line>,
}

impl Reader<'_> {
    fn run(&mut self) {
        let bytes = self.text.as_bytes();
        let (mut line_start, mut first) = (0, 0);
        while self.at < bytes.len() {
            match bytes[self.at] {
                b'\n' => {
                    self.at += 1;
                    if self.depth == 0 {
                        self.end_line(line_start, first);
                        (line_start, first) = (self.at, self.tokens.len());
                    }
                }
                b'#' => {
                    while self.at < bytes.len() && bytes[self.at] != b'\n' {
                        self.at += 1;
                    }
                }
                b'\\' if bytes.get(self.at + 1) == Some(&b'\n') => self.at += 2,
                byte if byte.is_ascii_whitespace() => self.at += 1,
                _ => self.token(),
            }
        }
        self.end_line(line_start, first);
    }

    fn end_line(&mut self, start: usize, first: usize) {
        if first == self.tokens.len() {
            return;
        }
        // A comment or an empty line before the first token belongs to no logical line.
        let begin = self.tokens[first].span.start;
        let start = self.text[start..begin].rfind('\n').map_or(start, |at| start + at + 1);
        self.lines.push(Line {
            indent: begin - start,
            tokens: first..self.tokens.len(),
            span: start..self.at,
        });
    }

    fn token(&mut self) {
        let rest = &self.text[self.at..];
        let first = rest.chars().next().unwrap_or(' ');
        let (class, length) = if let Some(length) = string_length(rest) {
            (Class::Text, length)
        } else if first.is_alphabetic() || first == '_' {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
            (Class::Name, end.unwrap_or(rest.len()))
        } else if first.is_ascii_digit() {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '.' && c != '_');
            (Class::Number, end.unwrap_or(rest.len()))
        } else {
            let long = LONG_OPERATORS.iter().find(|operator| rest.starts_with(**operator));
            (Class::Operator, long.map_or(first.len_utf8(), |operator| operator.len()))
        };
        match &rest[..length] {
            "(" | "[" | "{" => self.depth += 1,
            ")" | "]" | "}" => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        let span = self.at..self.at + length;
        self.tokens.push(Token { class, span, line: self.lines.len() });
        self.at += length;
    }
}

/// The length of the string literal that `text` begins with.
fn string_length(text: &str) -> Option<usize> {
    let prefix = text.bytes().take_while(|byte| b"rRbBfFuU".contains(byte)).count();
    let body = text.get(prefix..)?;
    let quote = body.chars().next().filter(|c| prefix <= 2 && (*c == '"' || *c == '\''))?;
    let triple: String = [quote; 3].iter().collect();
    let end = if body.starts_with(&triple) { triple } else { quote.to_string() };
    let mut at = prefix + end.len();
    while at < text.len() {
        if text[at..].starts_with(&end) {
            return Some(at + end.len());
        }
        let c = text[at..].chars().next()?;
        if c == '\n' && end.len() == 1 {
            return Some(at);
        }
        at += c.len_utf8();
        if c == '\\' {
            at += text[at..].chars().next().map_or(0, char::len_utf8);
        }
    }
    Some(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
\"\"\"Doc.\"\"\"

# a comment
def f(a, b=1, *c):
    x, y = a.strip(), 'q\\'# no'
    for i in range(
        len(c)
    ):
        x += i  # add
    return x[i:-1] // y
";

    #[test]
    fn lines_join_inside_brackets() {
        let source = Source::read(TEXT);
        let firsts: Vec<&str> = source.lines.iter().map(|l| source.word(l.tokens.start)).collect();
        assert_eq!(firsts, ["\"\"\"Doc.\"\"\"", "def", "x", "for", "x", "return"]);
        let indents: Vec<usize> = source.lines.iter().map(|line| line.indent).collect();
        assert_eq!(indents, [0, 0, 4, 4, 8, 4]);
        assert_eq!(&TEXT[source.lines[1].span.clone()], "def f(a, b=1, *c):\n");
        assert_eq!(source.row(source.lines[4].span.start), 9);
    }

    #[test]
    fn a_function_knows_its_names() {
        let source = Source::read(TEXT);
        let scopes = source.scopes();
        assert_eq!(scopes.len(), 1);
        assert_eq!(scopes[0].lines, 1..6);
        let names: Vec<&str> = scopes[0].names.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["a", "b", "c", "x", "y", "i"]);
    }

    #[test]
    fn rubbish_gives_no_panic() {
        for text in ["", "(", "]]", "'", "\"\"\"", "def", "def f", "def f(", "é\\", "f'{'", "\\"] {
            let source = Source::read(text);
            let _ = source.scopes();
            for at in 0..source.tokens.len() {
                let _ = (source.before(at), source.after(at), source.closing(at));
            }
        }
    }
}
