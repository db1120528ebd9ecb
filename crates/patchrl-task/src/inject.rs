//! Mechanical bugs: correct Python in, Python with one small slip out, and the issue a user would
//! file about it.
//!
//! Owns the kinds of slips, the choice among them from a seed, and texts made of symptoms. Runs no
//! tests itself: [`inject`] asks its caller to. Bugs are small edits of one or two lines; design
//! faults and bugs across files are out of reach.

mod dice;
mod gold;
mod kind;
mod operators;
mod run;
mod symptom;
mod tokens;

pub use gold::gold_patch;
pub(crate) use gold::undo;
pub use kind::Kind;
pub use run::{InjectError, Injected, Options, Package, TestRun, inject};
pub use symptom::{Observed, Symptom, issue_text, symptoms};

use std::collections::BTreeSet;

use dice::Dice;
use tokens::Source;

/// Longest source that is looked at, in bytes.
const MAX_SOURCE: usize = 1 << 20;

/// One way to break a source text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mutation {
    /// The first line that changes, from 1.
    pub line: usize,
    /// What was done.
    pub kind: Kind,
    /// The whole text with the bug.
    pub new_source: String,
}

/// Every way to break `source` that is known here, in an order that `seed` settles. No two give
/// the same text. Some do no harm and some do not even parse: only running tests can tell.
pub fn candidates(source: &str, seed: u64) -> Vec<Mutation> {
    if source.len() > MAX_SOURCE {
        return Vec::new();
    }
    let mut dice = Dice::new(seed);
    let read = Source::read(source);
    let mut seen = BTreeSet::new();
    let mut mutations = Vec::new();
    for edit in operators::edits(&read, &mut dice) {
        let mut new_source = source.to_owned();
        new_source.replace_range(edit.span.clone(), &edit.text);
        if seen.insert(new_source.clone()) {
            let line = read.row(edit.span.start);
            mutations.push(Mutation { line, kind: edit.kind, new_source });
        }
    }
    dice.shuffle(&mut mutations);
    mutations
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const SOURCE: &str = "\
def f(xs, limit=3):
    \"\"\"Doc + text < 1.\"\"\"
    total = 0
    if not xs:
        return None
    for i in range(len(xs) - 1):
        if xs[i] <= limit and i != 2:
            total += abs(xs[0]) * max(i, limit)
    name = \"-\".join(str(x) for x in xs[1:]).strip()
    return total // limit
";

    /// The lines that differ, by kind.
    fn found() -> BTreeMap<Kind, BTreeSet<String>> {
        let mut found: BTreeMap<Kind, BTreeSet<String>> = BTreeMap::new();
        for mutation in candidates(SOURCE, 1) {
            let line = mutation.new_source.lines().nth(mutation.line - 1).unwrap_or_default();
            found.entry(mutation.kind).or_default().insert(line.trim().to_owned());
        }
        found
    }

    #[test]
    fn every_slip_is_found_where_it_can_happen() {
        let found = found();
        let has = |kind: Kind, line: &str| {
            assert!(
                found.get(&kind).is_some_and(|lines| lines.contains(line)),
                "{kind}: {found:#?}"
            );
        };
        has(Kind::Boundary, "if xs[i] < limit and i != 2:");
        has(Kind::Comparison, "if xs[i] <= limit and i == 2:");
        has(Kind::Logic, "if xs[i] <= limit or i != 2:");
        has(Kind::Negation, "if xs:");
        has(Kind::InitialValue, "total = 1");
        has(Kind::OffByOne, "for i in range(len(xs)):");
        has(Kind::OffByOne, "def f(xs, limit=4):");
        has(Kind::RangeEnd, "for i in range(len(xs) - 1 + 1):");
        has(Kind::Index, "total += abs(xs[-1]) * max(i, limit)");
        has(Kind::DroppedCall, "total += xs[0] * max(i, limit)");
        has(Kind::DroppedCall, "name = \"-\".join(str(x) for x in xs[1:])");
        has(Kind::Extremum, "total += abs(xs[0]) * min(i, limit)");
        has(Kind::Accumulation, "total -= abs(xs[0]) * max(i, limit)");
        has(Kind::Slice, "name = \"-\".join(str(x) for x in xs[:1]).strip()");
        has(Kind::Division, "return total / limit");
        has(Kind::Swapped, "return limit // total");
        has(Kind::EarlyExit, "for i in range(len(xs) - 1):");
        assert!(found.contains_key(&Kind::Variable) && found.contains_key(&Kind::ShortText));
        let docs = found.values().flatten().filter(|line| line.contains("Doc")).count();
        assert_eq!(docs, 0, "doc strings are left alone");
    }

    #[test]
    fn the_seed_settles_the_order() {
        assert_eq!(candidates(SOURCE, 7), candidates(SOURCE, 7));
        assert_ne!(candidates(SOURCE, 7), candidates(SOURCE, 8));
        let texts: BTreeSet<String> =
            candidates(SOURCE, 7).into_iter().map(|mutation| mutation.new_source).collect();
        assert_eq!(texts.len(), candidates(SOURCE, 7).len());
        assert!(!texts.contains(SOURCE));
    }

    #[test]
    fn rubbish_gives_no_panic() {
        for text in
            ["", "def f(", "def f():\n return (", "def f(a):\n  a['é", "def\n\tx[::-1", "\u{0}"]
        {
            let _ = candidates(text, 0);
        }
        for end in 0..SOURCE.len() {
            let _ = candidates(&SOURCE[..end], 0);
        }
    }
}
