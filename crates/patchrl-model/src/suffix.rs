//! Which text ends like this one: a suffix automaton over several texts that grow side by side.
//!
//! Owns the search for the longest suffix of a text that was seen before, in any text, with a
//! token behind it. One token more costs constant time on average; n tokens take at most 2n
//! states and 3n edges (Blumer et al. 1985; several texts: Mohri et al. 2009).

/// A state: all substrings that end at the same places.
#[derive(Clone, Debug)]
struct State {
    /// Tokens of the longest of them.
    len: usize,
    /// The state of its longest suffix that ends at other places too.
    link: u32,
    /// Where the first occurrence ends: text, and tokens of it up to there.
    end: (u32, u32),
    /// Token and next state, by token.
    edges: Vec<(u32, u32)>,
}

/// The empty substring.
const ROOT: u32 = 0;

/// The texts and their automaton.
#[derive(Clone, Debug)]
pub struct Suffixes {
    states: Vec<State>,
    texts: Vec<Text>,
}

#[derive(Clone, Debug)]
struct Text {
    tokens: Vec<u32>,
    /// The state of the whole text.
    state: u32,
}

/// What may follow a text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Copied<'a> {
    /// Tokens at the text's end that were seen before.
    pub matched: usize,
    /// What followed them there; at least one token.
    pub tokens: &'a [u32],
}

impl Default for Suffixes {
    fn default() -> Self {
        let root = State { len: 0, link: ROOT, end: (0, 0), edges: Vec::new() };
        Self { states: vec![root], texts: Vec::new() }
    }
}

impl Suffixes {
    /// No texts.
    pub fn new() -> Self {
        Self::default()
    }

    /// Add a text; its number.
    pub fn add(&mut self, tokens: &[u32]) -> usize {
        self.texts.push(Text { tokens: Vec::new(), state: ROOT });
        for &token in tokens {
            self.extend(self.texts.len() - 1, token);
        }
        self.texts.len() - 1
    }

    /// One token more at the end of a text.
    pub fn extend(&mut self, text: usize, token: u32) {
        self.texts[text].tokens.push(token);
        let end = (text as u32, self.texts[text].tokens.len() as u32);
        self.texts[text].state = self.next(self.texts[text].state, token, end);
    }

    /// The longest suffix of a text with a known continuation.
    pub fn continuation(&self, text: usize) -> Option<Copied<'_>> {
        let mut at = self.texts[text].state;
        while at != ROOT {
            let State { len, link, end, .. } = self.states[at as usize];
            let tokens = &self.texts[end.0 as usize].tokens[end.1 as usize..];
            if !tokens.is_empty() {
                return Some(Copied { matched: len, tokens });
            }
            at = link;
        }
        None
    }

    /// The state of a text whose state was `from`, after `token`.
    fn next(&mut self, from: u32, token: u32, end: (u32, u32)) -> u32 {
        let len = self.states[from as usize].len + 1;
        if let Some(to) = self.edge(from, token) {
            return self.exactly(from, token, (to, len));
        }
        let new = self.states.len() as u32;
        self.states.push(State { len, link: ROOT, end, edges: Vec::new() });
        let mut at = from;
        let link = loop {
            if let Some(to) = self.edge(at, token) {
                break self.exactly(at, token, (to, self.states[at as usize].len + 1));
            }
            self.set_edge(at, token, new);
            if at == ROOT {
                break ROOT;
            }
            at = self.states[at as usize].link;
        };
        self.states[new as usize].link = link;
        new
    }

    /// The state of the substring of `len` tokens that lies in `to`, reached from `from`. It
    /// leaves `to` if that has longer ones: those do not end where this one now does.
    fn exactly(&mut self, from: u32, token: u32, (to, len): (u32, usize)) -> u32 {
        if self.states[to as usize].len == len {
            return to;
        }
        let new = self.states.len() as u32;
        self.states.push(State { len, ..self.states[to as usize].clone() });
        self.states[to as usize].link = new;
        let mut at = from;
        while self.edge(at, token) == Some(to) {
            self.set_edge(at, token, new);
            if at == ROOT {
                break;
            }
            at = self.states[at as usize].link;
        }
        new
    }

    fn edge(&self, from: u32, token: u32) -> Option<u32> {
        let edges = &self.states[from as usize].edges;
        edges.binary_search_by_key(&token, |edge| edge.0).ok().map(|at| edges[at].1)
    }

    fn set_edge(&mut self, from: u32, token: u32, to: u32) {
        let edges = &mut self.states[from as usize].edges;
        match edges.binary_search_by_key(&token, |edge| edge.0) {
            Ok(at) => edges[at].1 = to,
            Err(at) => edges.insert(at, (token, to)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The longest suffix of `texts[of]` that occurs in any text with a token behind it.
    fn longest(texts: &[Vec<u32>], of: usize) -> usize {
        let own = &texts[of];
        let seen = |suffix: &[u32]| {
            texts.iter().any(|text| {
                text.windows(suffix.len() + 1).any(|window| window[..suffix.len()] == *suffix)
            })
        };
        (1..=own.len()).rev().find(|&len| seen(&own[own.len() - len..])).unwrap_or(0)
    }

    #[test]
    fn continuations_are_those_of_the_longest_known_suffix() {
        let mut state = 5_u64;
        let mut token = |kinds: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
            ((state >> 33) % kinds) as u32
        };
        for kinds in [1, 2, 3, 8] {
            let mut texts: Vec<Vec<u32>> = vec![(0..40).map(|_| token(kinds)).collect()];
            let mut suffixes = Suffixes::new();
            suffixes.add(&texts[0]);
            for _ in 0..3 {
                texts.push(Vec::new());
                suffixes.add(&[]);
            }
            for _ in 0..150 {
                let (text, token) = (1 + token(3) as usize, token(kinds));
                texts[text].push(token);
                suffixes.extend(text, token);
                let got = suffixes.continuation(text);
                let matched = got.map_or(0, |copied| copied.matched);
                // The first occurrence may end a text where a later one goes on.
                assert!(matched <= longest(&texts, text));
                if let Some(Copied { matched, tokens }) = got {
                    let own = &texts[text];
                    let follows = [&own[own.len() - matched..], tokens].concat();
                    assert!(texts.iter().any(|text| text.ends_with(&follows)));
                }
            }
            let total: usize = texts.iter().map(Vec::len).sum();
            assert!(suffixes.states.len() <= 2 * total);
            let edges: usize = suffixes.states.iter().map(|state| state.edges.len()).sum();
            assert!(edges <= 3 * total);
        }
    }

    #[test]
    fn a_copy_goes_on_where_the_match_ended() {
        let mut suffixes = Suffixes::new();
        suffixes.add(&[1, 2, 3, 4, 5, 2, 3, 9]);
        let answer = suffixes.add(&[7]);
        assert_eq!(suffixes.continuation(answer), None);
        suffixes.extend(answer, 2);
        suffixes.extend(answer, 3);
        let tokens: &[u32] = &[4, 5, 2, 3, 9];
        assert_eq!(suffixes.continuation(answer), Some(Copied { matched: 2, tokens }));
        let sibling = suffixes.add(&[5, 2, 3]);
        assert_eq!(suffixes.continuation(sibling), Some(Copied { matched: 3, tokens: &[9] }));
        suffixes.extend(sibling, 8);
        for token in [3, 8] {
            suffixes.extend(answer, token);
        }
        // Its own "3 8" has nothing behind it yet, its sibling's neither.
        assert_eq!(suffixes.continuation(answer), None);
        suffixes.extend(sibling, 6);
        assert_eq!(suffixes.continuation(answer), Some(Copied { matched: 2, tokens: &[6] }));
    }
}
