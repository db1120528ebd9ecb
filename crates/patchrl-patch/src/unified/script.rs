//! Which lines differ between two texts.
//!
//! Owns the shortest edit script (Myers 1986, greedy form) between common ends. The
//! script is minimal up to `MAX_EDITS` changed lines; beyond that the differing middle is
//! one change, so that cost stays linear in the lines.

use std::collections::HashMap;
use std::ops::Range;

/// Most changed lines for which the script is minimal. The trace takes 8 MiB then.
const MAX_EDITS: usize = 1000;

/// Lines of the old text that are replaced by lines of the new one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) old: Range<usize>,
    pub(super) new: Range<usize>,
}

/// The changes from `old` to `new` in order, never adjacent.
pub(super) fn changes_between(old: &[&[u8]], new: &[&[u8]]) -> Vec<Change> {
    let head = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let (old, new) = (&old[head..], &new[head..]);
    let tail = old.iter().rev().zip(new.iter().rev()).take_while(|(a, b)| a == b).count();
    let (old, new) = (&old[..old.len() - tail], &new[..new.len() - tail]);
    if old.is_empty() && new.is_empty() {
        return Vec::new();
    }
    let (old_ids, new_ids) = numbered(old, new);
    let mut changes = match trace(&old_ids, &new_ids) {
        Some(trace) => walk(&trace, old_ids.len(), new_ids.len()),
        None => vec![Change { old: 0..old.len(), new: 0..new.len() }],
    };
    for change in &mut changes {
        change.old = change.old.start + head..change.old.end + head;
        change.new = change.new.start + head..change.new.end + head;
    }
    changes
}

/// Equal lines get equal numbers.
fn numbered<'t>(old: &[&'t [u8]], new: &[&'t [u8]]) -> (Vec<usize>, Vec<usize>) {
    let mut ids: HashMap<&[u8], usize> = HashMap::new();
    let mut number = |line: &'t [u8]| {
        let next = ids.len();
        *ids.entry(line).or_insert(next)
    };
    let old = old.iter().map(|line| number(line)).collect();
    let new = new.iter().map(|line| number(line)).collect();
    (old, new)
}

/// For each number of edits the furthest old line on each diagonal `k = x - y`, at index
/// `k + edits`. `None` if it takes more than `MAX_EDITS`.
fn trace(old: &[usize], new: &[usize]) -> Option<Vec<Vec<usize>>> {
    let mut rows: Vec<Vec<usize>> = Vec::new();
    for edits in 0..=MAX_EDITS {
        let mut row = vec![0; 2 * edits + 1];
        for at in (0..=2 * edits).step_by(2) {
            let mut x = match rows.last() {
                None => 0,
                Some(last) => step(last, at, edits).1,
            };
            let Some(mut y) = (x + edits).checked_sub(at) else { continue };
            while x < old.len() && y < new.len() && old[x] == new[y] {
                x += 1;
                y += 1;
            }
            row[at] = x;
            if x == old.len() && y == new.len() {
                rows.push(row);
                return Some(rows);
            }
        }
        rows.push(row);
    }
    None
}

/// Is diagonal `at` of row `edits` best reached by an insertion, and at which old line?
fn step(last: &[usize], at: usize, edits: usize) -> (bool, usize) {
    // Index `at` is diagonal `at - edits`; in the row before it, `at - 1`. One above is `at`.
    let above = (at < 2 * edits).then(|| last.get(at)).flatten();
    let below = at.checked_sub(2).and_then(|at| last.get(at));
    match (above, below) {
        (Some(above), Some(below)) if below < above => (true, *above),
        (Some(above), None) => (true, *above),
        (_, Some(below)) => (false, below + 1),
        (None, None) => (false, 0),
    }
}

/// Follow the trace back and join edits that touch.
fn walk(rows: &[Vec<usize>], old: usize, new: usize) -> Vec<Change> {
    let mut changes: Vec<Change> = Vec::new();
    let (mut x, mut y) = (old, new);
    for edits in (1..rows.len()).rev() {
        let at = x + edits - y;
        let (inserts, from) = step(&rows[edits - 1], at, edits);
        // The edit itself, before the equal lines that follow it.
        let (end_x, end_y) = (from, from + edits - at);
        let edit = if inserts {
            Change { old: end_x..end_x, new: end_y - 1..end_y }
        } else {
            Change { old: end_x - 1..end_x, new: end_y..end_y }
        };
        (x, y) = (edit.old.start, edit.new.start);
        match changes.last_mut() {
            Some(next) if next.old.start == edit.old.end && next.new.start == edit.new.end => {
                next.old.start = edit.old.start;
                next.new.start = edit.new.start;
            }
            _ => changes.push(edit),
        }
    }
    changes.reverse();
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edits(old: &str, new: &str) -> Vec<Change> {
        let split = |text| str::as_bytes(text).chunks(1).collect::<Vec<_>>();
        changes_between(&split(old), &split(new))
    }

    #[test]
    fn scripts_are_minimal() {
        let count = |old, new| -> usize {
            edits(old, new).iter().map(|it| it.old.len() + it.new.len()).sum()
        };
        assert_eq!(count("abcabba", "cbabac"), 5);
        assert_eq!(count("abc", "abc"), 0);
        assert_eq!(count("", "abc"), 3);
        assert_eq!(count("abc", ""), 3);
        assert_eq!(count("axbxc", "abc"), 2);
    }

    #[test]
    fn a_replacement_is_one_change() {
        assert_eq!(edits("abc", "axc"), [Change { old: 1..2, new: 1..2 }]);
        assert_eq!(edits("abcd", "axyd"), [Change { old: 1..3, new: 1..3 }]);
    }
}
