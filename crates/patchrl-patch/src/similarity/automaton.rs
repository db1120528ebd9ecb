//! Every substring of a text, and where it ends.
//!
//! Owns [`Automaton`], a suffix automaton with its tree of suffix links. It answers which
//! suffix of a substring is the longest that lies in a window of the text, and where the
//! first such place is. O(n) states; a question costs O(log² n) at worst, and a few
//! steps mostly. States are numbers; 0 is the empty string.

use std::sync::OnceLock;

use super::wavelet::Wavelet;

const NONE: u32 = u32::MAX;

/// The automaton of one text of symbols.
pub(super) struct Automaton {
    /// Longest string of each state.
    len: Vec<u32>,
    /// The state of the longest suffix that occurs elsewhere too.
    link: Vec<u32>,
    /// An ancestor in the tree of links, chosen so that any is reached in O(log n) steps.
    jump: Vec<u32>,
    /// Where the strings of each state end: a range of `ends`, its least and largest value.
    range: Vec<(u32, u32)>,
    least: Vec<u32>,
    largest: Vec<u32>,
    ends: Vec<u32>,
    /// Made when a range of many is asked about, which most texts never do.
    ordered: OnceLock<Wavelet>,
    edges: Edges,
}

/// Ranges of `ends` of so many values are looked through one by one.
const FEW: u32 = 1024;
/// So many ancestors are asked one by one before any is jumped over.
const NEAR: usize = 12;

impl Automaton {
    pub(super) fn new(text: &[u32]) -> Self {
        let mut build = Build::new(text.len());
        for (at, symbol) in text.iter().enumerate() {
            build.push(*symbol, at as u32);
        }
        build.finish(text.len())
    }

    /// For each position of `text` the state and the length of the longest string that
    /// ends there and occurs in the automaton's text.
    pub(super) fn trace(&self, text: &[u32]) -> (Vec<u32>, Vec<u32>) {
        let (mut states, mut lens) =
            (Vec::with_capacity(text.len()), Vec::with_capacity(text.len()));
        let (mut state, mut len) = (0, 0);
        for symbol in text {
            loop {
                if let Some(next) = self.edges.get(state, *symbol) {
                    (state, len) = (next, len + 1);
                    break;
                }
                if state == 0 {
                    len = 0;
                    break;
                }
                state = self.link[state as usize];
                len = self.len[state as usize];
            }
            states.push(state);
            lens.push(len);
        }
        (states, lens)
    }

    /// The longest suffix, `most` long at most, of the string of `state` that lies whole
    /// in `window` of the text: its state and length.
    pub(super) fn longest_within(&self, state: u32, most: u32, window: (u32, u32)) -> (u32, u32) {
        let state = self.climb(state, |at| self.len[self.link[at as usize] as usize] < most);
        let reach = |at: u32| {
            let end = self.last_end(at, window.1)?;
            Some((end + 1).saturating_sub(window.0)).filter(|len| *len > 0)
        };
        let state = self.climb(state, |at| {
            reach(at).is_some_and(|len| len > self.len[self.link[at as usize] as usize])
        });
        if state == 0 {
            return (0, 0);
        }
        (state, reach(state).unwrap_or(0).min(most).min(self.len[state as usize]))
    }

    /// Where the string of `state` of length `len` begins first at or after `from`.
    pub(super) fn first_start(&self, state: u32, len: u32, from: u32) -> Option<u32> {
        let bound = from + len - 1;
        let at = state as usize;
        let end = if self.least[at] >= bound {
            Some(self.least[at])
        } else if let Some(few) = self.few(at) {
            few.iter().copied().filter(|end| *end >= bound).min()
        } else {
            self.ordered().first_from(self.range[at], bound)
        };
        Some(end? + 1 - len)
    }

    fn last_end(&self, state: u32, bound: u32) -> Option<u32> {
        let at = state as usize;
        if self.largest[at] < bound {
            Some(self.largest[at])
        } else if self.least[at] >= bound {
            None
        } else if let Some(few) = self.few(at) {
            few.iter().copied().filter(|end| *end < bound).max()
        } else {
            self.ordered().last_below(self.range[at], bound)
        }
    }

    fn ordered(&self) -> &Wavelet {
        self.ordered.get_or_init(|| Wavelet::new(&self.ends))
    }

    /// All places where the strings of a state end, if they are few.
    fn few(&self, state: usize) -> Option<&[u32]> {
        let (from, to) = self.range[state];
        (to - from <= FEW).then(|| &self.ends[from as usize..to as usize])
    }

    /// The nearest of `state` and its ancestors that `holds`, or the root. What holds for
    /// one must hold for all above it.
    fn climb(&self, mut state: u32, holds: impl Fn(u32) -> bool) -> u32 {
        // It is mostly near, and questions about states near the root are dear.
        for _ in 0..NEAR {
            if state == 0 || holds(state) {
                return state;
            }
            state = self.link[state as usize];
        }
        while state != 0 && !holds(state) {
            let jump = self.jump[state as usize];
            state = if jump == 0 || holds(jump) { self.link[state as usize] } else { jump };
        }
        state
    }
}

/// An automaton that grows.
struct Build {
    len: Vec<u32>,
    link: Vec<u32>,
    /// Where the string of the state ends, for states that were not split off another.
    end: Vec<u32>,
    edges: Edges,
    last: u32,
}

impl Build {
    fn new(symbols: usize) -> Self {
        let states = 2 * symbols + 1;
        let mut build = Self {
            len: Vec::with_capacity(states),
            link: Vec::with_capacity(states),
            end: Vec::with_capacity(states),
            edges: Edges::new(symbols),
            last: 0,
        };
        build.state(0, 0, NONE);
        build
    }

    fn state(&mut self, len: u32, link: u32, end: u32) -> u32 {
        self.len.push(len);
        self.link.push(link);
        self.end.push(end);
        self.edges.add_state();
        self.len.len() as u32 - 1
    }

    /// The textbook step: a new state for the whole text, edges to it from its suffixes,
    /// and where a suffix's state also holds longer strings, a copy for the shorter ones.
    fn push(&mut self, symbol: u32, end: u32) {
        let new = self.state(self.len[self.last as usize] + 1, 0, end);
        let mut at = self.last;
        self.last = new;
        loop {
            let Some(next) = self.edges.get_or_add(at, symbol, new) else {
                if at == 0 {
                    return;
                }
                at = self.link[at as usize];
                continue;
            };
            if self.len[next as usize] == self.len[at as usize] + 1 {
                self.link[new as usize] = next;
                return;
            }
            let copy = self.state(self.len[at as usize] + 1, self.link[next as usize], NONE);
            self.edges.copy(next, copy);
            self.link[next as usize] = copy;
            self.link[new as usize] = copy;
            while self.edges.turn(at, symbol, next, copy) && at != 0 {
                at = self.link[at as usize];
            }
            return;
        }
    }

    fn finish(self, symbols: usize) -> Automaton {
        let Self { len, link, end, edges, .. } = self;
        let order = by_length(&len, symbols);
        let mut size: Vec<u32> = end.iter().map(|end| u32::from(*end != NONE)).collect();
        let mut least = end.clone();
        let mut largest: Vec<u32> =
            end.iter().map(|end| if *end == NONE { 0 } else { *end }).collect();
        for state in order.iter().rev().map(|state| *state as usize).filter(|state| *state != 0) {
            let parent = link[state] as usize;
            size[parent] += size[state];
            least[parent] = least[parent].min(least[state]);
            largest[parent] = largest[parent].max(largest[state]);
        }
        // Children of a state lie side by side inside its range.
        let mut range = vec![(0, 0); len.len()];
        let mut free = vec![0; len.len()];
        let mut depth = vec![0_u32; len.len()];
        let mut jump = vec![0; len.len()];
        let mut ends = vec![0; symbols];
        range[0] = (0, size[0]);
        for state in order.iter().map(|state| *state as usize) {
            if state != 0 {
                let parent = link[state] as usize;
                range[state] = (free[parent], free[parent] + size[state]);
                free[parent] += size[state];
                free[state] = range[state].0;
                depth[state] = depth[parent] + 1;
                let far = jump[parent] as usize;
                let even = depth[parent] - depth[far] == depth[far] - depth[jump[far] as usize];
                jump[state] = if even { jump[far] } else { parent as u32 };
            }
            if end[state] != NONE {
                ends[free[state] as usize] = end[state];
                free[state] += 1;
            }
        }
        let ordered = OnceLock::new();
        Automaton { len, link, jump, range, least, largest, ends, ordered, edges }
    }
}

/// All states, the shortest first.
fn by_length(len: &[u32], symbols: usize) -> Vec<u32> {
    let mut starts = vec![0_u32; symbols + 2];
    for len in len {
        starts[*len as usize + 1] += 1;
    }
    for at in 1..starts.len() {
        starts[at] += starts[at - 1];
    }
    let mut order = vec![0; len.len()];
    for (state, len) in len.iter().enumerate() {
        let slot = &mut starts[*len as usize];
        order[*slot as usize] = state as u32;
        *slot += 1;
    }
    order
}

/// Edges of all states. Most states have one: it lies in an array. The others are in a
/// hash table with open addressing, chained for each state so that they can be copied.
struct Edges {
    heads: Vec<Head>,
    slots: Vec<Slot>,
    shift: u32,
}

/// The first edge of a state, and the slot of its last one.
#[derive(Clone, Copy)]
struct Head {
    symbol: u32,
    /// [`NONE`] in a state without edges.
    target: u32,
    more: u32,
}

#[derive(Clone, Copy)]
struct Slot {
    key: u64,
    target: u32,
    /// The slot of the edge before it of the same state.
    next: u32,
}

/// No edge has this key: there are fewer states.
const FREE: u64 = u64::MAX;

impl Edges {
    /// Room for the automaton of `symbols`: it has at most three edges for each, and all
    /// states but the last have one in their head.
    fn new(symbols: usize) -> Self {
        let slots = (3 * symbols + 4).next_power_of_two();
        Self {
            heads: Vec::with_capacity(2 * symbols + 1),
            slots: vec![Slot { key: FREE, target: 0, next: NONE }; slots],
            shift: u64::BITS - slots.trailing_zeros(),
        }
    }

    /// Room for the edges of one more state.
    fn add_state(&mut self) {
        self.heads.push(Head { symbol: 0, target: NONE, more: NONE });
    }

    /// The slot of an edge, or the free one it would take.
    fn slot(&self, state: u32, symbol: u32) -> usize {
        let key = key(state, symbol);
        let mut slot = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize;
        while self.slots[slot].key != key && self.slots[slot].key != FREE {
            slot = (slot + 1) & (self.slots.len() - 1);
        }
        slot
    }

    fn get(&self, state: u32, symbol: u32) -> Option<u32> {
        let head = &self.heads[state as usize];
        if head.symbol == symbol && head.target != NONE {
            return Some(head.target);
        }
        if head.more == NONE {
            return None;
        }
        let slot = &self.slots[self.slot(state, symbol)];
        (slot.key != FREE).then_some(slot.target)
    }

    /// The edge that is there; if none is, one to `target` is added.
    fn get_or_add(&mut self, state: u32, symbol: u32, target: u32) -> Option<u32> {
        let head = self.heads[state as usize];
        if head.target == NONE {
            self.heads[state as usize] = Head { symbol, target, more: NONE };
            return None;
        }
        if head.symbol == symbol {
            return Some(head.target);
        }
        let at = self.slot(state, symbol);
        let slot = &mut self.slots[at];
        if slot.key != FREE {
            return Some(slot.target);
        }
        *slot = Slot { key: key(state, symbol), target, next: head.more };
        self.heads[state as usize].more = at as u32;
        None
    }

    /// Give `to`, which has none, the edges of `from`.
    fn copy(&mut self, from: u32, to: u32) {
        let head = self.heads[from as usize];
        self.heads[to as usize] = Head { more: NONE, ..head };
        let mut at = head.more;
        while at != NONE {
            let slot = self.slots[at as usize];
            at = slot.next;
            self.get_or_add(to, slot.key as u32, slot.target);
        }
    }

    /// Turn an edge to `old` into one to `new`. False if it leads elsewhere.
    fn turn(&mut self, state: u32, symbol: u32, old: u32, new: u32) -> bool {
        let head = &mut self.heads[state as usize];
        if head.symbol == symbol && head.target != NONE {
            let turns = head.target == old;
            if turns {
                head.target = new;
            }
            return turns;
        }
        if head.more == NONE {
            return false;
        }
        let at = self.slot(state, symbol);
        let slot = &mut self.slots[at];
        let turns = slot.key != FREE && slot.target == old;
        if turns {
            slot.target = new;
        }
        turns
    }
}

fn key(state: u32, symbol: u32) -> u64 {
    u64::from(state) << 32 | u64::from(symbol)
}
