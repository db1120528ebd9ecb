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
    nodes: Vec<Node>,
    edges: Edges,
    /// Where the strings of each state end.
    places: Vec<Places>,
    ends: Vec<u32>,
    /// Where each place stands in `ends`.
    ranks: Vec<u32>,
    /// Made when an ancestor is far, which in most texts none is.
    jumps: OnceLock<Vec<Jump>>,
    /// Made when neither a short look through a range nor one at the places near the bound
    /// gives the answer.
    ordered: OnceLock<Wavelet>,
}

/// A range of `ends`, its least and its largest value.
#[derive(Clone, Copy)]
struct Places {
    from: u32,
    to: u32,
    least: u32,
    largest: u32,
}

/// An ancestor in the tree of links, chosen so that any is reached in O(log n) steps, and
/// how many ancestors the state has.
#[derive(Clone, Copy)]
struct Jump {
    to: u32,
    depth: u32,
}

/// Ranges of `ends` of so many values are looked through one by one; in longer ones the
/// value that is looked for is mostly so near.
const FEW: usize = 1024;
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
                let node = &self.nodes[state as usize];
                if let Some(next) = self.edges.get(node, state, *symbol) {
                    (state, len) = (next, len + 1);
                    break;
                }
                if state == 0 {
                    len = 0;
                    break;
                }
                state = node.link;
                len = self.nodes[state as usize].len;
            }
            states.push(state);
            lens.push(len);
        }
        (states, lens)
    }

    /// The longest suffix, `most` long at most, of the string of `state` that lies whole
    /// in `window` of the text: its state and length.
    pub(super) fn longest_within(&self, state: u32, most: u32, window: (u32, u32)) -> (u32, u32) {
        let state = self.climb(state, |at| self.shorter(at) < most);
        let reach = |at: u32| self.last_end(at, window).map_or(0, |end| end + 1 - window.0);
        let state = self.climb(state, |at| reach(at) > self.shorter(at));
        if state == 0 {
            return (0, 0);
        }
        (state, reach(state).min(most).min(self.nodes[state as usize].len))
    }

    /// The longest suffix of a state's strings that is another state's.
    fn shorter(&self, state: u32) -> u32 {
        self.nodes[self.nodes[state as usize].link as usize].len
    }

    /// Where the string of `state` of length `len` begins first at or after `from`.
    pub(super) fn first_start(&self, state: u32, len: u32, from: u32) -> Option<u32> {
        let bound = from + len - 1;
        let at = self.places[state as usize];
        let end = if at.least >= bound {
            Some(at.least)
        } else if let Some(few) = self.few(at) {
            few.iter().copied().filter(|end| *end >= bound).min()
        } else {
            let mut near = (bound..self.places[0].to).take(FEW);
            let end = near.find(|end| self.is_end(at, *end));
            end.or_else(|| self.ordered().first_from((at.from, at.to), bound))
        };
        Some(end? + 1 - len)
    }

    /// Where in `window` the strings of a state end last.
    fn last_end(&self, state: u32, window: (u32, u32)) -> Option<u32> {
        let at = self.places[state as usize];
        let end = if at.largest < window.1 {
            Some(at.largest)
        } else if at.least >= window.1 {
            None
        } else if let Some(few) = self.few(at) {
            few.iter().copied().filter(|end| *end < window.1).max()
        } else {
            let near = (window.0..window.1).rev().take(FEW);
            let all = near.len() < FEW;
            let end = near.into_iter().find(|end| self.is_end(at, *end));
            if end.is_some() || all {
                end
            } else {
                self.ordered().last_below((at.from, at.to), window.1)
            }
        };
        end.filter(|end| *end >= window.0)
    }

    fn ordered(&self) -> &Wavelet {
        self.ordered.get_or_init(|| Wavelet::new(&self.ends))
    }

    /// All places where the strings of a state end, if they are few.
    fn few(&self, at: Places) -> Option<&[u32]> {
        (at.to - at.from <= FEW as u32).then(|| &self.ends[at.from as usize..at.to as usize])
    }

    /// Whether strings of a state end here.
    fn is_end(&self, at: Places, end: u32) -> bool {
        (at.from..at.to).contains(&self.ranks[end as usize])
    }

    /// The nearest of `state` and its ancestors that `holds`, or the root. What holds for
    /// one must hold for all above it.
    fn climb(&self, mut state: u32, holds: impl Fn(u32) -> bool) -> u32 {
        // It is mostly near, and questions about states near the root are dear.
        for _ in 0..NEAR {
            if state == 0 || holds(state) {
                return state;
            }
            state = self.nodes[state as usize].link;
        }
        let jumps = self.jumps.get_or_init(|| jumps(&self.nodes));
        while state != 0 && !holds(state) {
            let jump = jumps[state as usize].to;
            let near = jump == 0 || holds(jump);
            state = if near { self.nodes[state as usize].link } else { jump };
        }
        state
    }
}

/// An automaton that grows.
struct Build {
    nodes: Vec<Node>,
    edges: Edges,
    last: u32,
}

/// A state: its longest string, the state of the longest suffix that occurs elsewhere
/// too, where the string ends (if the state was not split off another) and its edges.
#[derive(Clone, Copy)]
struct Node {
    len: u32,
    link: u32,
    end: u32,
    /// The first edge; [`NONE`] as its target in a state without edges.
    symbol: u32,
    target: u32,
    /// The last of the other edges.
    more: u32,
}

impl Build {
    fn new(symbols: usize) -> Self {
        let nodes = Vec::with_capacity(2 * symbols + 1);
        let mut build = Self { nodes, edges: Edges::new(symbols), last: 0 };
        build.state(0, 0, NONE);
        build
    }

    fn state(&mut self, len: u32, link: u32, end: u32) -> u32 {
        self.nodes.push(Node { len, link, end, symbol: 0, target: NONE, more: NONE });
        self.nodes.len() as u32 - 1
    }

    /// The textbook step: a new state for the whole text, edges to it from its suffixes,
    /// and where a suffix's state also holds longer strings, a copy for the shorter ones.
    fn push(&mut self, symbol: u32, end: u32) {
        let new = self.state(self.nodes[self.last as usize].len + 1, 0, end);
        let mut at = self.last;
        self.last = new;
        loop {
            let node = &mut self.nodes[at as usize];
            let Some(next) = self.edges.get_or_add(node, at, symbol, new) else {
                if at == 0 {
                    return;
                }
                at = node.link;
                continue;
            };
            let shorter = node.len + 1;
            let longer = self.nodes[next as usize];
            if longer.len == shorter {
                self.nodes[new as usize].link = next;
                return;
            }
            let copy = self.state(shorter, longer.link, NONE);
            self.edges.copy(&longer, &mut self.nodes[copy as usize], copy);
            self.nodes[next as usize].link = copy;
            self.nodes[new as usize].link = copy;
            loop {
                let node = &mut self.nodes[at as usize];
                if !self.edges.turn(node, at, symbol, next, copy) || at == 0 {
                    return;
                }
                at = node.link;
            }
        }
    }

    fn finish(self, symbols: usize) -> Automaton {
        let Self { nodes, edges, .. } = self;
        let order = by_length(&nodes);
        let mut places: Vec<Places> = nodes
            .iter()
            .map(|node| match node.end {
                NONE => Places { from: 0, to: 0, least: NONE, largest: 0 },
                end => Places { from: 0, to: 1, least: end, largest: end },
            })
            .collect();
        for state in order[1..].iter().rev().map(|state| *state as usize) {
            let below = places[state];
            let parent = &mut places[nodes[state].link as usize];
            parent.to += below.to;
            parent.least = parent.least.min(below.least);
            parent.largest = parent.largest.max(below.largest);
        }
        // Children of a state lie side by side inside its range.
        let mut free = vec![0; nodes.len()];
        let mut ends = vec![0; symbols];
        for state in order.iter().map(|state| *state as usize) {
            let node = nodes[state];
            let parent = node.link as usize;
            if state != 0 {
                let from = free[parent];
                places[state].from = from;
                places[state].to += from;
                free[parent] = places[state].to;
                free[state] = from;
            }
            if node.end != NONE {
                ends[free[state] as usize] = node.end;
                free[state] += 1;
            }
        }
        let mut ranks = vec![0; symbols];
        for (rank, end) in ends.iter().enumerate() {
            ranks[*end as usize] = rank as u32;
        }
        let (jumps, ordered) = (OnceLock::new(), OnceLock::new());
        Automaton { nodes, edges, places, ends, ranks, jumps, ordered }
    }
}

/// The jump of each state: to its parent, or if the jumps of that one and of where it leads
/// are equally long, as far as both together.
fn jumps(nodes: &[Node]) -> Vec<Jump> {
    let mut jumps = vec![Jump { to: 0, depth: 0 }; nodes.len()];
    for state in by_length(nodes).into_iter().skip(1) {
        let parent = nodes[state as usize].link;
        let near = jumps[parent as usize];
        let far = jumps[near.to as usize];
        let even = near.depth - far.depth == far.depth - jumps[far.to as usize].depth;
        let to = if even { far.to } else { parent };
        jumps[state as usize] = Jump { to, depth: near.depth + 1 };
    }
    jumps
}

/// All states, the shortest first: the root, then the others.
fn by_length(nodes: &[Node]) -> Vec<u32> {
    let longest = nodes.iter().map(|node| node.len).max().unwrap_or(0);
    let mut starts = vec![0_u32; longest as usize + 2];
    for node in nodes {
        starts[node.len as usize + 1] += 1;
    }
    for at in 1..starts.len() {
        starts[at] += starts[at - 1];
    }
    let mut order = vec![0; nodes.len()];
    for (state, node) in nodes.iter().enumerate() {
        let slot = &mut starts[node.len as usize];
        order[*slot as usize] = state as u32;
        *slot += 1;
    }
    order
}

/// The edges that are not their state's first, in a hash table with open addressing, and
/// chained for each state so that they can be copied.
struct Edges {
    list: Vec<Edge>,
    /// Places in `list`; [`NONE`] is free. At most half are taken.
    table: Vec<u32>,
    shift: u32,
}

#[derive(Clone, Copy)]
struct Edge {
    state: u32,
    symbol: u32,
    target: u32,
    /// The edge before it of the same state.
    next: u32,
}

impl Edges {
    /// Room for as many edges as a text of `symbols` mostly has.
    fn new(symbols: usize) -> Self {
        let mut edges = Self { list: Vec::with_capacity(symbols), table: Vec::new(), shift: 0 };
        edges.resize((symbols + 2).next_power_of_two());
        edges
    }

    fn resize(&mut self, slots: usize) {
        self.table = vec![NONE; slots];
        self.shift = u64::BITS - slots.trailing_zeros();
        for at in 0..self.list.len() {
            let edge = self.list[at];
            let slot = self.slot(edge.state, edge.symbol);
            self.table[slot] = at as u32;
        }
    }

    /// The slot of an edge, or the free one it would take.
    fn slot(&self, state: u32, symbol: u32) -> usize {
        let key = u64::from(state) << 32 | u64::from(symbol);
        let mut slot = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize;
        while let Some(edge) = self.list.get(self.table[slot] as usize) {
            if edge.state == state && edge.symbol == symbol {
                break;
            }
            slot = (slot + 1) & (self.table.len() - 1);
        }
        slot
    }

    fn get(&self, node: &Node, state: u32, symbol: u32) -> Option<u32> {
        if node.symbol == symbol && node.target != NONE {
            return Some(node.target);
        }
        if node.more == NONE {
            return None;
        }
        let slot = self.slot(state, symbol);
        self.list.get(self.table[slot] as usize).map(|edge| edge.target)
    }

    /// The edge that is there; if none is, one to `target` is added.
    fn get_or_add(&mut self, node: &mut Node, state: u32, symbol: u32, target: u32) -> Option<u32> {
        if node.target == NONE {
            (node.symbol, node.target) = (symbol, target);
            return None;
        }
        if node.symbol == symbol {
            return Some(node.target);
        }
        let slot = self.slot(state, symbol);
        if let Some(edge) = self.list.get(self.table[slot] as usize) {
            return Some(edge.target);
        }
        let at = self.list.len() as u32;
        self.list.push(Edge { state, symbol, target, next: node.more });
        self.table[slot] = at;
        node.more = at;
        if 2 * self.list.len() > self.table.len() {
            self.resize(2 * self.table.len());
        }
        None
    }

    /// Give `to`, which has none, the edges of `from`.
    fn copy(&mut self, from: &Node, to: &mut Node, state: u32) {
        (to.symbol, to.target) = (from.symbol, from.target);
        let mut at = from.more;
        while at != NONE {
            let edge = self.list[at as usize];
            at = edge.next;
            self.get_or_add(to, state, edge.symbol, edge.target);
        }
    }

    /// Turn an edge to `old` into one to `new`. False if it leads elsewhere.
    fn turn(&mut self, node: &mut Node, state: u32, symbol: u32, old: u32, new: u32) -> bool {
        let target = if node.symbol == symbol && node.target != NONE {
            &mut node.target
        } else {
            let slot = self.slot(state, symbol);
            match self.list.get_mut(self.table[slot] as usize) {
                Some(edge) => &mut edge.target,
                None => return false,
            }
        };
        let turns = *target == old;
        if turns {
            *target = new;
        }
        turns
    }
}
