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

/// Windows of so many cells are filled in as a table at once. Their shorter side has at
/// most 255 elements, so that the length of a run fits a byte.
const SMALL: usize = 255 * 255;
/// Windows of so many cells are, if not [`TRIES`] questions give the answer; here the
/// length of a run fits 16 bits.
const TABLE: usize = 1023 * 1023;
const TRIES: usize = 24;
/// Sequences with so few cells in all are not worth an automaton.
const NO_AUTOMATON: usize = 1 << 17;
/// Sequences from this length on have popular elements, if `autojunk` is on.
const AUTOJUNK_FROM: usize = 200;

/// An element of the first sequence that starts no match: it is popular in the second
/// sequence or not in it.
const NEVER: u32 = u32::MAX;

/// What sequences are made of.
pub(crate) trait Element: Copy + Eq + Hash {
    /// The element as a small number, for most of those that are characters: looked up in
    /// an array they cost a tenth.
    fn ascii(self) -> Option<usize>;
}

impl Element for char {
    fn ascii(self) -> Option<usize> {
        self.is_ascii().then_some(self as usize)
    }
}

impl Element for &str {
    fn ascii(self) -> Option<usize> {
        None
    }
}

/// A number for each different element, from 0.
struct Ids<T> {
    ascii: [u32; 128],
    others: HashMap<T, u32>,
    count: u32,
}

impl<T: Element> Ids<T> {
    fn new() -> Self {
        Self { ascii: [NEVER; 128], others: HashMap::new(), count: 0 }
    }

    fn get(&self, element: T) -> u32 {
        match element.ascii() {
            Some(at) => self.ascii[at],
            None => self.others.get(&element).copied().unwrap_or(NEVER),
        }
    }

    fn get_or_add(&mut self, element: T) -> u32 {
        let id = match element.ascii() {
            Some(at) => &mut self.ascii[at],
            None => self.others.entry(element).or_insert(NEVER),
        };
        if *id == NEVER {
            *id = self.count;
            self.count += 1;
        }
        *id
    }
}

/// The second sequence.
pub(crate) struct Prepared<T> {
    ids: Ids<T>,
    /// The elements as ids.
    b: Vec<u32>,
    /// For each id whether it is too common to start a match.
    popular: Vec<bool>,
    /// `b` with an id of its own for each popular element.
    seeds: Vec<u32>,
    /// `seeds` in fewer bits, if there are few enough different ones.
    bytes: Option<Vec<u8>>,
    words: Option<Vec<u16>>,
    automaton: OnceLock<Automaton>,
}

impl<T: Element> Prepared<T> {
    pub(crate) fn new(elements: impl IntoIterator<Item = T>, autojunk: bool) -> Self {
        let mut ids = Ids::new();
        let b: Vec<u32> = elements.into_iter().map(|element| ids.get_or_add(element)).collect();
        let different = ids.count as usize;
        let mut popular = vec![false; different];
        if autojunk && b.len() >= AUTOJUNK_FROM {
            let mut counts = vec![0; different];
            for id in &b {
                counts[*id as usize] += 1;
            }
            let most = b.len() / 100 + 1;
            popular = counts.iter().map(|count| *count > most).collect();
        }
        let seed = |(at, id): (usize, &u32)| {
            if popular[*id as usize] { (popular.len() + at) as u32 } else { *id }
        };
        let seeds = b.iter().enumerate().map(seed).collect();
        let bytes = narrow(&b, different, |id| popular[id as usize].then_some(u8::MAX));
        let words = narrow(&b, different, |id| popular[id as usize].then_some(u16::MAX));
        Self { ids, b, popular, seeds, bytes, words, automaton: OnceLock::new() }
    }

    /// Elements of the second sequence.
    pub(crate) fn len(&self) -> usize {
        self.b.len()
    }

    /// The blocks in which `elements` equal the second sequence, in the order they are found.
    pub(crate) fn blocks(&self, elements: impl IntoIterator<Item = T>) -> Vec<Block> {
        let a = elements.into_iter().map(|element| self.ids.get(element));
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

    fn start(self) -> Block {
        Block { a: self.a.0, b: self.b.0, len: 0 }
    }
}

/// One comparison.
struct Search<'p, T> {
    second: &'p Prepared<T>,
    a: Vec<u32>,
    /// `a` with [`NEVER`] for popular elements, and in fewer bits where the second is.
    seeds: Vec<u32>,
    bytes: Option<Vec<u8>>,
    words: Option<Vec<u16>>,
    /// At each position of `a` a string that ends there and is at least as long as any
    /// that ends there and lies in the current window: its state and its length. Windows
    /// only shrink, so that what one finds out holds in those inside it.
    states: Vec<u32>,
    lens: Maxima,
}

impl<'p, T> Search<'p, T> {
    fn new(second: &'p Prepared<T>, a: Vec<u32>) -> Self {
        let starts = |id: u32| id != NEVER && !second.popular[id as usize];
        let seeds: Vec<u32> = a.iter().map(|id| if starts(*id) { *id } else { NEVER }).collect();
        let different = second.popular.len();
        let bytes = narrow(&seeds, different, |id| (id == NEVER).then_some(u8::MAX - 1));
        let words = narrow(&seeds, different, |id| (id == NEVER).then_some(u16::MAX - 1));
        Self { second, a, seeds, bytes, words, states: Vec::new(), lens: Maxima::new(&[]) }
    }

    fn run(mut self) -> Vec<Block> {
        let mut blocks = Vec::new();
        let all = Window { a: (0, self.a.len()), b: (0, self.second.b.len()) };
        if all.cells() > NO_AUTOMATON {
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
        if window.cells() > SMALL && !self.states.is_empty() {
            let tries = if window.cells() > TABLE { usize::MAX } else { TRIES };
            if let Some(found) = self.search(window, tries) {
                return found;
            }
        }
        let (a, b) = (window.a.0..window.a.1, window.b.0..window.b.1);
        let shorter = a.len().min(b.len());
        let second = self.second;
        let found = match (&self.bytes, &second.bytes, &self.words, &second.words) {
            (Some(first), Some(second), ..) if shorter <= u8::MAX.into() => {
                fill(&first[a], &second[b])
            }
            (_, _, Some(first), Some(second)) => fill(&first[a], &second[b]),
            _ => fill(&self.seeds[a], &second.seeds[b]),
        };
        found.map_or(window.start(), |at| Block {
            a: window.a.0 + at.a,
            b: window.b.0 + at.b,
            len: at.len,
        })
    }

    /// The same by asking the automaton about the most promising position until its answer
    /// is the bound. Nothing if `tries` questions are not enough.
    fn search(&mut self, window: Window, tries: usize) -> Option<Block> {
        let automaton = self.second.automaton();
        let places = (window.b.0 as u32, window.b.1 as u32);
        for _ in 0..tries {
            let (at, bound) = self.lens.first(window.a);
            if bound == 0 {
                return Some(window.start());
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
        None
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

/// Ids in fewer bits, if all `different` ones and two more fit; the two stand for elements
/// that equal nothing, one on each side, and are given by `special`.
fn narrow<Id: TryFrom<u32> + Cell>(
    ids: &[u32],
    different: usize,
    special: impl Fn(u32) -> Option<Id>,
) -> Option<Vec<Id>> {
    let fits = different + 2 <= Id::STATES;
    let id = |id: &u32| special(*id).or_else(|| Id::try_from(*id).ok());
    if fits { ids.iter().map(id).collect() } else { None }
}

/// A number for an id and for the length of a run, as wide as needed and no wider: a
/// vector register holds more of the narrow ones.
trait Cell: Copy + Ord {
    const STATES: usize;
    const ZERO: Self;
    /// A run one longer than this if its next elements are equal, else none. Without a
    /// branch, so that the compiler makes vectors of it.
    fn next(self, equal: bool) -> Self;
    fn get(self) -> usize;
}

macro_rules! cell {
    ($number:ty) => {
        impl Cell for $number {
            const STATES: usize = (<$number>::MAX as usize).saturating_add(1);
            const ZERO: Self = 0;
            #[inline]
            fn next(self, equal: bool) -> Self {
                self.wrapping_add(1) & <$number>::from(equal).wrapping_neg()
            }
            fn get(self) -> usize {
                self as usize
            }
        }
    };
}

cell!(u8);
cell!(u16);
cell!(u32);

/// The longest common run of `a` and `b` by the table of run lengths, a row for each
/// element of `a`, with the widest vectors this processor has.
fn fill<N: Cell>(a: &[N], b: &[N]) -> Option<Block> {
    pulp::Arch::new().dispatch(Table { a, b })
}

struct Table<'s, N> {
    a: &'s [N],
    b: &'s [N],
}

impl<N: Cell> pulp::WithSimd for Table<'_, N> {
    type Output = Option<Block>;

    #[expect(clippy::inline_always, reason = "compiled for the vectors of its caller")]
    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) -> Option<Block> {
        let width = self.b.len();
        let (mut before, mut now) = (vec![N::ZERO; width + 1], vec![N::ZERO; width + 1]);
        let mut best = None;
        let mut most = N::ZERO;
        for (i, x) in self.a.iter().enumerate() {
            let top = row(*x, self.b, &before[..width], &mut now[1..]);
            if top > most {
                most = top;
                let len = top.get();
                let end = now.iter().position(|run| *run == top);
                best = end.map(|end| Block { a: i + 1 - len, b: end - len, len });
            }
            std::mem::swap(&mut before, &mut now);
        }
        best
    }
}

/// The lengths of the runs that end at `x` and at each element of `b`, and the largest.
#[expect(clippy::inline_always, reason = "compiled for the vectors of its caller")]
#[inline(always)]
fn row<N: Cell>(x: N, b: &[N], before: &[N], now: &mut [N]) -> N {
    let mut top = N::ZERO;
    for ((run, shorter), y) in now.iter_mut().zip(before).zip(b) {
        let len = shorter.next(x == *y);
        *run = len;
        top = top.max(len);
    }
    top
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
