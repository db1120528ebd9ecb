//! What can go wrong with a piece of Python: one function per kind of slip.
//!
//! Owns byte-span edits on tokens. Proposes only; whether a bug shows is found by running tests.

use std::ops::Range;

use super::dice::Dice;
use super::kind::Kind;
use super::tokens::{Class, Scope, Source};

/// One change of a source text.
pub(super) struct Edit {
    pub(super) span: Range<usize>,
    pub(super) text: String,
    pub(super) kind: Kind,
}

/// Every edit of the code inside functions, in the order of the text.
pub(super) fn edits(source: &Source<'_>, dice: &mut Dice) -> Vec<Edit> {
    let mut finder = Finder { source, edits: Vec::new() };
    for scope in source.scopes() {
        // A function inside another one is read with the outer one.
        if source.lines[scope.lines.start].indent > 4 {
            continue;
        }
        for line in scope.lines.clone() {
            finder.line(&scope, line, dice);
        }
    }
    finder.edits
}

struct Finder<'a> {
    source: &'a Source<'a>,
    edits: Vec<Edit>,
}

impl Finder<'_> {
    fn line(&mut self, scope: &Scope, line: usize, dice: &mut Dice) {
        let tokens = self.source.lines[line].tokens.clone();
        match self.source.word(tokens.start) {
            // Defaults are the only code in a head.
            "def" => {
                for at in tokens {
                    if self.source.word(at.saturating_sub(1)) == "=" {
                        self.number(at);
                        self.word(at);
                    }
                }
                return;
            }
            "raise" | "import" | "from" | "@" | "class" | "assert" => return,
            _ if tokens.len() == 1 && self.source.class(tokens.start) == Some(Class::Text) => {
                return;
            }
            _ => {}
        }
        self.early_exit(scope, line);
        for at in tokens.clone() {
            self.operator(at);
            self.number(at);
            self.word(at);
            self.short_text(at, dice);
            self.variable(scope, line, at, dice);
            self.swapped(at);
            self.dropped_call(at);
            self.slice(at);
            self.range_end(at);
        }
    }

    fn put(&mut self, span: Range<usize>, text: impl Into<String>, kind: Kind) {
        let text = text.into();
        if self.source.text[span.clone()] != text {
            self.edits.push(Edit { span, text, kind });
        }
    }

    fn span(&self, at: usize) -> Range<usize> {
        self.source.tokens[at].span.clone()
    }

    fn is_binary(&self, at: usize) -> bool {
        self.source.before(at).is_some_and(|before| self.source.ends_operand(before))
    }

    fn operator(&mut self, at: usize) {
        if !self.is_binary(at) {
            return;
        }
        let replacements: &[(&str, Kind)] = match self.source.word(at) {
            "<" => &[("<=", Kind::Boundary), (">", Kind::Comparison)],
            "<=" => &[("<", Kind::Boundary), (">=", Kind::Comparison)],
            ">" => &[(">=", Kind::Boundary), ("<", Kind::Comparison)],
            ">=" => &[(">", Kind::Boundary), ("<=", Kind::Comparison)],
            "==" => &[("!=", Kind::Comparison)],
            "!=" => &[("==", Kind::Comparison)],
            "+" => &[("-", Kind::Arithmetic)],
            "-" | "*" => &[("+", Kind::Arithmetic)],
            "**" => &[("*", Kind::Arithmetic)],
            "%" => &[("//", Kind::Arithmetic)],
            "//" => &[("/", Kind::Division), ("%", Kind::Arithmetic)],
            "/" => &[("//", Kind::Division), ("*", Kind::Arithmetic)],
            "+=" => &[("-=", Kind::Accumulation), ("=", Kind::Accumulation)],
            "-=" => &[("+=", Kind::Accumulation)],
            "and" => &[("or", Kind::Logic)],
            "or" => &[("and", Kind::Logic)],
            _ => return,
        };
        // `*` in front of an argument is no multiplication.
        if self.source.after(at).is_none() {
            return;
        }
        for (text, kind) in replacements {
            self.put(self.span(at), *text, *kind);
        }
    }

    fn number(&mut self, at: usize) {
        let word = self.source.word(at);
        let Some(value) = word.parse::<u32>().ok().filter(|value| *value <= 1000) else { return };
        if self.source.class(at) != Some(Class::Number) {
            return;
        }
        let before = self.source.before(at);
        let negative =
            before.is_some_and(|minus| self.source.word(minus) == "-" && !self.is_binary(minus));
        let opener =
            if negative { before.and_then(|minus| self.source.before(minus)) } else { before };
        let opens = opener.map_or("", |opener| self.source.word(opener));
        let next = self.source.after(at).map_or("", |next| self.source.word(next));
        let indexes = opens == "["
            && next == "]"
            && opener
                .and_then(|opener| self.source.before(opener))
                .is_some_and(|sequence| self.source.ends_operand(sequence));
        if indexes {
            let start = self.span(at).start - usize::from(negative);
            let others: &[&str] = match (negative, value) {
                (false, 0) => &["1", "-1"],
                (_, 1) => &["0"],
                (true, 2) => &["-1"],
                _ => &[],
            };
            for other in others {
                self.put(start..self.span(at).end, *other, Kind::Index);
            }
            return;
        }
        if negative {
            return;
        }
        self.lost_one(at, value);
        let whole_line = self.source.word(at.saturating_sub(1)) == "="
            && self.source.after(at).is_none()
            && self.source.word(self.source.lines[self.source.tokens[at].line].tokens.start)
                != "def";
        let kind = if whole_line { Kind::InitialValue } else { Kind::OffByOne };
        self.put(self.span(at), (value + 1).to_string(), kind);
        if value > 0 {
            self.put(self.span(at), (value - 1).to_string(), kind);
        }
    }

    /// `n - 1` to `n`, where nothing binds tighter.
    fn lost_one(&mut self, at: usize, value: u32) {
        let Some(sign) = self.source.before(at) else { return };
        let next = self.source.after(at).map_or("", |next| self.source.word(next));
        let ends = matches!(next, "" | ")" | "]" | ":" | ",");
        if value == 1 && ends && matches!(self.source.word(sign), "+" | "-") && self.is_binary(sign)
        {
            let from = self.span(sign - 1).end;
            self.put(from..self.span(at).end, "", Kind::OffByOne);
        }
    }

    fn word(&mut self, at: usize) {
        let word = self.source.word(at);
        let (other, kind) = match word {
            "min" => ("max", Kind::Extremum),
            "max" => ("min", Kind::Extremum),
            "any" => ("all", Kind::Extremum),
            "all" => ("any", Kind::Extremum),
            "startswith" => ("endswith", Kind::Method),
            "endswith" => ("startswith", Kind::Method),
            "lower" => ("upper", Kind::Method),
            "upper" | "title" => ("lower", Kind::Method),
            "lstrip" => ("rstrip", Kind::Method),
            "rstrip" => ("lstrip", Kind::Method),
            "ljust" => ("rjust", Kind::Method),
            "rjust" => ("ljust", Kind::Method),
            "floor" => ("ceil", Kind::Method),
            "ceil" => ("floor", Kind::Method),
            "True" => ("False", Kind::Constant),
            "False" => ("True", Kind::Constant),
            "not" => return self.negation(at),
            "in" => return self.membership(at),
            "if" => return self.added_not(at),
            _ => return,
        };
        self.put(self.span(at), other, kind);
    }

    fn negation(&mut self, at: usize) {
        if let Some(next) = self.source.after(at) {
            self.put(self.span(at).start..self.span(next).start, "", Kind::Negation);
        }
    }

    fn membership(&mut self, at: usize) {
        let line = self.source.tokens[at].line;
        let start = self.source.lines[line].tokens.start;
        let loops = (start..at).any(|other| self.source.word(other) == "for");
        if !loops && self.is_binary(at) {
            self.put(self.span(at), "not in", Kind::Negation);
        }
    }

    /// `if x` to `if not x`, where the condition is one operand.
    fn added_not(&mut self, at: usize) {
        let (Some(name), Some(end)) = (self.source.after(at), self.source.after(at + 1)) else {
            return;
        };
        if self.source.is_name(name) && matches!(self.source.word(end), ":" | "else") {
            self.put(self.span(name).start..self.span(name).start, "not ", Kind::Negation);
        }
    }

    fn short_text(&mut self, at: usize, dice: &mut Dice) {
        const OTHERS: [&str; 6] = ["\"\"", "\" \"", "\"-\"", "\"_\"", "\",\"", "\".\""];
        let word = self.source.word(at);
        if !OTHERS.contains(&word) {
            return;
        }
        let next = self.source.after(at).map_or("", |next| self.source.word(next));
        // Only what is joined, split or put between: there the symptom shows the right text.
        let before = self.source.before(at).map_or("", |before| self.source.word(before));
        if matches!(next, "." | ")" | "," | "*" | "+" | "]") || before == "+" {
            let others: Vec<&str> = OTHERS.into_iter().filter(|other| *other != word).collect();
            let other = others[dice.below(others.len())];
            self.put(self.span(at), other, Kind::ShortText);
        }
    }

    fn variable(&mut self, scope: &Scope, line: usize, at: usize, dice: &mut Dice) {
        if !self.source.is_name(at) {
            return;
        }
        let word = self.source.word(at);
        let known = |name: &str| scope.names.iter().any(|(n, bound)| n == name && *bound <= line);
        let next = self.source.after(at).map_or("", |next| self.source.word(next));
        let before = self.source.before(at).map_or("", |before| self.source.word(before));
        let tokens = self.source.lines[line].tokens.clone();
        let written = self.source.targets(&tokens).contains(&at);
        if !known(word) || written || before == "." || matches!(next, "(" | "=") {
            return;
        }
        let others: Vec<&String> = scope
            .names
            .iter()
            .filter(|(name, bound)| name != word && *bound <= line)
            .map(|(name, _)| name)
            .collect();
        if !others.is_empty() {
            let other = others[dice.below(others.len())].clone();
            self.put(self.span(at), other, Kind::Variable);
        }
    }

    fn swapped(&mut self, at: usize) {
        let word = self.source.word(at);
        if self.source.is_name(at)
            && self.source.after(at).is_some_and(|o| self.source.word(o) == "(")
        {
            let Some(close) = self.source.closing(at + 1) else { return };
            let items = self.source.items(at + 1, close);
            let plain = |item: &Range<usize>| {
                let words = || item.clone().map(|token| self.source.word(token));
                !item.is_empty() && !words().any(|word| matches!(word, "=" | "for" | "*" | "**"))
            };
            if let [a, b] = items.as_slice()
                && plain(a)
                && plain(b)
                // These give the same either way round.
                && !matches!(word, "min" | "max" | "zip" | "range")
            {
                self.exchange(a, b);
            }
            return;
        }
        if matches!(word, "-" | "/" | "//" | "%") && self.is_binary(at) {
            let (Some(a), Some(b)) = (self.source.before(at), self.source.after(at)) else {
                return;
            };
            let simple = |token| {
                self.source.is_name(token) || self.source.class(token) == Some(Class::Number)
            };
            let outside = |token: Option<usize>, words: &[&str]| {
                token.is_none_or(|token| words.contains(&self.source.word(token)))
            };
            let free = outside(self.source.before(a), &["(", "[", ",", "=", "return", "+"])
                && outside(self.source.after(b), &[")", "]", ",", ":", "+", "=="]);
            if simple(a) && simple(b) && free {
                self.exchange(&(a..a + 1), &(b..b + 1));
            }
        }
    }

    fn exchange(&mut self, a: &Range<usize>, b: &Range<usize>) {
        let (first, second) = (self.source.bytes(a), self.source.bytes(b));
        let text = self.source.text;
        let between = &text[first.end..second.start];
        let swapped = format!("{}{between}{}", &text[second.clone()], &text[first.clone()]);
        self.put(first.start..second.end, swapped, Kind::Swapped);
    }

    fn dropped_call(&mut self, at: usize) {
        let Some(open) = self.source.after(at).filter(|open| self.source.word(*open) == "(") else {
            return;
        };
        let Some(close) = self.source.closing(open) else { return };
        let word = self.source.word(at);
        let dot = self.source.before(at).filter(|dot| self.source.word(*dot) == ".");
        if let Some(dot) = dot {
            const METHODS: [&str; 10] = [
                "strip",
                "lstrip",
                "rstrip",
                "lower",
                "upper",
                "title",
                "casefold",
                "copy",
                "replace",
                "capitalize",
            ];
            if METHODS.contains(&word) {
                self.put(self.span(dot).start..self.span(close).end, "", Kind::DroppedCall);
            }
            return;
        }
        let wraps =
            matches!(word, "abs" | "sorted" | "round" | "int" | "reversed" | "list" | "len");
        let Some(first) = self.source.items(open, close).into_iter().next() else { return };
        let operators = first.clone().any(|token| {
            self.source.class(token) == Some(Class::Operator)
                && !matches!(self.source.word(token), "." | "(" | ")" | "[" | "]")
        });
        let loops = first.clone().any(|token| self.source.word(token) == "for");
        if wraps && !loops {
            let inner = &self.source.text[self.source.bytes(&first)];
            let text = if operators { format!("({inner})") } else { inner.to_owned() };
            self.put(self.span(at).start..self.span(close).end, text, Kind::DroppedCall);
        }
    }

    fn slice(&mut self, at: usize) {
        if self.source.word(at) != "[" || !self.is_binary(at) {
            return;
        }
        let Some(close) = self.source.closing(at) else { return };
        let colons: Vec<usize> =
            (at + 1..close).filter(|token| self.source.word(*token) == ":").collect();
        let inside = self.span(at).end..self.span(close).start;
        let text = &self.source.text[inside.clone()];
        match colons.as_slice() {
            [colon] if *colon == at + 1 => {
                let right = text.trim_start_matches(':').trim();
                self.put(inside, format!("{right}:"), Kind::Slice);
            }
            [colon] if *colon + 1 == close => {
                let left = text.trim_end_matches(':').trim();
                self.put(inside, format!(":{left}"), Kind::Slice);
            }
            _ if text == "::-1" => self.put(inside, "::1", Kind::Slice),
            _ => {}
        }
    }

    fn range_end(&mut self, at: usize) {
        if self.source.word(at) != "range" {
            return;
        }
        let Some(open) = self.source.after(at) else { return };
        let Some(close) = self.source.closing(open) else { return };
        if let Some(end) = self.source.items(open, close).into_iter().take(2).next_back() {
            let bytes = self.source.bytes(&end);
            self.put(bytes.end..bytes.end, " + 1", Kind::RangeEnd);
            self.put(bytes.end..bytes.end, " - 1", Kind::RangeEnd);
        }
    }

    /// `if c:` and its single `return` or `raise`, where the function goes on after it.
    fn early_exit(&mut self, scope: &Scope, line: usize) {
        let lines = &self.source.lines;
        let (Some(exit), Some(next)) = (lines.get(line + 1), lines.get(line + 2)) else { return };
        let head = &lines[line];
        let leaves = matches!(self.source.word(exit.tokens.start), "return" | "raise");
        let goes_on = scope.lines.contains(&(line + 2))
            && next.indent == head.indent
            && !matches!(self.source.word(next.tokens.start), "else" | "elif" | "except");
        let opens = self.source.word(head.tokens.start) == "if"
            && self.source.word(head.tokens.end - 1) == ":";
        if opens && leaves && goes_on && exit.indent > head.indent {
            self.put(head.span.start..exit.span.end, "", Kind::EarlyExit);
        }
    }
}
