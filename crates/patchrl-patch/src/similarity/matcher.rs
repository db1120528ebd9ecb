//! The matching blocks of two sequences, as `difflib.SequenceMatcher` finds them.
//!
//! Owns [`Prepared`], the second sequence with what can be computed once for all first
//! ones, and the order of ties: the longest common run of a window, of those the earliest
//! in the first sequence, of those the earliest in the second; then the same to the left
//! and to the right of it. CPython does this in quadratic to cubic time. Here large
//! windows ask an automaton of the second sequence and small ones fill a table.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::OnceLock;

use super::automaton::Automaton;

/// A run of equal elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Block {
    /// Start in the first sequence.
    pub(crate) a: usize,
    /// Start in the second.
    pub(crate) b: usize,
    /// Elements.
    pub(crate) len: usize,
}

/// Windows of so many cells are filled in as a table. Their shorter side has at most 255
/// elements, so that the length of a run fits a byte.
const TABLE: usize = 255 * 255;
/// Sequences from this length on have popular elements, if `autojunk` is on.
const AUTOJUNK_FROM: usize = 200;

/// An element of the first sequence that starts no match: it is popular in the second
/// sequence or not in it.
const NEVER: u32 = u32::MAX;

/// The second sequence.
pub(crate) struct Prepared<T> {
    ids: HashMap<T, u32>,
    /// The elements as ids.
    b: Vec<u32>,
    /// For each id whether it is too common to start a match.
    popular: Vec<bool>,
    /// `b` with an id of its own for each popular element.
    seeds: Vec<u32>,
    /// `seeds` as bytes, if there are few enough different ones.
    bytes: Option<Vec<u8>>,
    automaton: OnceLock<Automaton>,
}

/// A byte that stands for [`NEVER`], and one for the popular elements of the second
/// sequence. They equal no other and not each other.
const NEVER_BYTE: u8 = u8::MAX - 1;
const POPULAR_BYTE: u8 = u8::MAX;

impl<T: Copy + Eq + Hash> Prepared<T> {
    pub(crate) fn new(elements: impl IntoIterator<Item = T>, autojunk: bool) -> Self {
        let mut ids = HashMap::new();
        let b: Vec<u32> = elements
            .into_iter()
            .map(|element| {
                let next = ids.len() as u32;
                *ids.entry(element).or_insert(next)
            })
            .collect();
        let mut popular = vec![false; ids.len()];
        if autojunk && b.len() >= AUTOJUNK_FROM {
            let mut counts = vec![0; ids.len()];
            b.iter().for_each(|id| counts[*id as usize] += 1);
            let most = b.len() / 100 + 1;
            popular = counts.iter().map(|count| *count > most).collect();
        }
        let seed = |(at, id): (usize, &u32)| {
            if popular[*id as usize] { (popular.len() + at) as u32 } else { *id }
        };
        let seeds = b.iter().enumerate().map(seed).collect();
        let byte = |id: &u32| if popular[*id as usize] { POPULAR_BYTE } else { *id as u8 };
        let few = ids.len() <= usize::from(NEVER_BYTE);
        let bytes = few.then(|| b.iter().map(byte).collect());
        Self { ids, b, popular, seeds, bytes, automaton: OnceLock::new() }
    }

    /// Elements of the second sequence.
    pub(crate) fn len(&self) -> usize {
        self.b.len()
    }

    /// The blocks in which `elements` equal the second sequence, in the order they are found.
    pub(crate) fn blocks(&self, elements: impl IntoIterator<Item = T>) -> Vec<Block> {
        let a = elements.into_iter().map(|it| self.ids.get(&it).copied().unwrap_or(NEVER));
        Search::new(self, a.collect()).run()
    }
}

impl<T> Prepared<T> {
    fn automaton(&self) -> &Automaton {
        self.automaton.get_or_init(|| Automaton::new(&self.seeds))
    }
}

/// Part of both sequences: `a.0..a.1` and `b.0..b.1`.
#[derive(Clone, Copy)]
struct Window {
    a: (usize, usize),
    b: (usize, usize),
}

impl Window {
    fn cells(self) -> usize {
        (self.a.1 - self.a.0).saturating_mul(self.b.1 - self.b.0)
    }
}

/// One comparison.
struct Search<'p, T> {
    second: &'p Prepared<T>,
    a: Vec<u32>,
    /// `a` with [`NEVER`] for popular elements, and as bytes if the second sequence is.
    seeds: Vec<u32>,
    bytes: Option<Vec<u8>>,
    /// At each position of `a` a string that ends there and is at least as long as any
    /// that ends there and lies in the current window: its state and its length. Windows
    /// only shrink, so that what one finds out holds in those inside it.
    states: Vec<u32>,
    lens: Maxima,
    rows: [Vec<u8>; 2],
}

impl<'p, T> Search<'p, T> {
    fn new(second: &'p Prepared<T>, a: Vec<u32>) -> Self {
        let starts = |id: u32| id != NEVER && !second.popular[id as usize];
        let seeds: Vec<u32> = a.iter().map(|id| if starts(*id) { *id } else { NEVER }).collect();
        let byte = |id: &u32| if *id == NEVER { NEVER_BYTE } else { *id as u8 };
        let bytes = second.bytes.as_ref().map(|_| seeds.iter().map(byte).collect());
        Self {
            second,
            a,
            seeds,
            bytes,
            states: Vec::new(),
            lens: Maxima::new(&[]),
            rows: Default::default(),
        }
    }

    fn run(mut self) -> Vec<Block> {
        let mut blocks = Vec::new();
        let all = Window { a: (0, self.a.len()), b: (0, self.second.b.len()) };
        if all.cells() > TABLE {
            let (states, lens) = self.second.automaton().trace(&self.seeds);
            (self.states, self.lens) = (states, Maxima::new(&lens));
        }
        let mut windows = vec![all];
        while let Some(window) = windows.pop() {
            let block = self.longest(window);
            let block = self.extend(block, window);
            if block.len == 0 {
                continue;
            }
            blocks.push(block);
            if window.a.0 < block.a && window.b.0 < block.b {
                windows.push(Window { a: (window.a.0, block.a), b: (window.b.0, block.b) });
            }
            let (a, b) = (block.a + block.len, block.b + block.len);
            if a < window.a.1 && b < window.b.1 {
                windows.push(Window { a: (a, window.a.1), b: (b, window.b.1) });
            }
        }
        blocks
    }

    /// The longest block of `window` without popular elements, the earliest of those.
    /// If there is none, an empty one at the start, as CPython has it.
    fn longest(&mut self, window: Window) -> Block {
        let found = if window.cells() > TABLE {
            self.search(window)
        } else {
            let [before, now] = &mut self.rows;
            let (a, b) = (window.a.0..window.a.1, window.b.0..window.b.1);
            match (&self.bytes, &self.second.bytes) {
                (Some(first), Some(second)) => fill(&first[a], &second[b], before, now),
                _ => fill(&self.seeds[a], &self.second.seeds[b], before, now),
            }
        };
        match found {
            Some(at) if window.cells() > TABLE => at,
            Some(at) => Block { a: window.a.0 + at.a, b: window.b.0 + at.b, len: at.len },
            None => Block { a: window.a.0, b: window.b.0, len: 0 },
        }
    }

    fn search(&mut self, window: Window) -> Option<Block> {
        let automaton = self.second.automaton();
        let places = (window.b.0 as u32, window.b.1 as u32);
        loop {
            let (at, bound) = self.lens.first(window.a);
            if bound == 0 {
                return None;
            }
            let most = bound.min((at + 1 - window.a.0) as u32);
            let (state, len) = automaton.longest_within(self.states[at], most, places);
            if len == bound {
                let b = automaton.first_start(state, len, places.0)? as usize;
                return Some(Block { a: at + 1 - len as usize, b, len: len as usize });
            }
            self.states[at] = state;
            self.lens.set(at, len);
        }
    }

    /// Popular elements start no block, but one grows over them.
    fn extend(&self, mut block: Block, window: Window) -> Block {
        let (a, b) = (&self.a, &self.second.b);
        while block.a > window.a.0 && block.b > window.b.0 && a[block.a - 1] == b[block.b - 1] {
            (block.a, block.b, block.len) = (block.a - 1, block.b - 1, block.len + 1);
        }
        while block.a + block.len < window.a.1
            && block.b + block.len < window.b.1
            && a[block.a + block.len] == b[block.b + block.len]
        {
            block.len += 1;
        }
        block
    }
}

/// The longest common run of `a` and `b` by the table of run lengths, a row for each
/// element of `a`. One of them has at most 255 elements.
fn fill<Id: Copy + Eq>(
    a: &[Id],
    b: &[Id],
    before: &mut Vec<u8>,
    now: &mut Vec<u8>,
) -> Option<Block> {
    for row in [&mut *before, &mut *now] {
        row.clear();
        row.resize(b.len() + 1, 0);
    }
    let mut best = None;
    let mut most = 0;
    for (i, x) in a.iter().enumerate() {
        let mut top = 0;
        for ((run, shorter), y) in now[1..].iter_mut().zip(before.iter()).zip(b) {
            *run = if x == y { shorter + 1 } else { 0 };
            top = top.max(*run);
        }
        if top > most {
            most = top;
            let len = usize::from(top);
            best = now.iter().position(|run| *run == top).map(|end| Block {
                a: i + 1 - len,
                b: end - len,
                len,
            });
        }
        std::mem::swap(before, now);
    }
    best
}

/// Numbers of which the first largest of any range is found in O(log n).
struct Maxima {
    /// Leaves from `leaves` on; each node above holds the larger of its two.
    nodes: Vec<u32>,
    leaves: usize,
}

impl Maxima {
    fn new(values: &[u32]) -> Self {
        let leaves = values.len().next_power_of_two();
        let mut nodes = vec![0; 2 * leaves];
        nodes[leaves..leaves + values.len()].copy_from_slice(values);
        for at in (1..leaves).rev() {
            nodes[at] = nodes[2 * at].max(nodes[2 * at + 1]);
        }
        Self { nodes, leaves }
    }

    fn set(&mut self, at: usize, value: u32) {
        let mut at = at + self.leaves;
        self.nodes[at] = value;
        while at > 1 {
            at /= 2;
            let largest = self.nodes[2 * at].max(self.nodes[2 * at + 1]);
            if self.nodes[at] == largest {
                return;
            }
            self.nodes[at] = largest;
        }
    }

    /// The first largest number of a range that is not empty: where and what.
    fn first(&self, range: (usize, usize)) -> (usize, u32) {
        let (mut from, mut to) = (range.0 + self.leaves, range.1 + self.leaves);
        let mut largest = 0;
        while from < to {
            if from % 2 == 1 {
                largest = largest.max(self.nodes[from]);
                from += 1;
            }
            if to % 2 == 1 {
                to -= 1;
                largest = largest.max(self.nodes[to]);
            }
            (from, to) = (from / 2, to / 2);
        }
        let mut at = range.0 + self.leaves;
        loop {
            // The largest node that begins here.
            at >>= at.trailing_zeros();
            if self.nodes[at] >= largest {
                break;
            }
            at += 1;
        }
        while at < self.leaves {
            at *= 2;
            at += usize::from(self.nodes[at] < largest);
        }
        (at - self.leaves, largest)
    }
}
