//! Seeds from coordinates, so that any rollout can be replayed and a resumed run
//! draws what an uninterrupted one would have drawn.

use patchrl_task::TaskId;

/// The seed of one sample. Stable across platforms and Rust releases.
pub fn sample_seed(run: u64, step: u64, task: &TaskId, sample: u32) -> u64 {
    let mut hash = Fnv::new();
    hash.write(&run.to_le_bytes());
    hash.write(&step.to_le_bytes());
    hash.write(&sample.to_le_bytes());
    hash.write(task.as_str().as_bytes());
    hash.finish()
}

/// The order of `len` items in pass number `epoch`: a Fisher-Yates shuffle.
pub fn order(run: u64, epoch: u64, len: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..len).collect();
    for i in (1..len).rev() {
        let mut hash = Fnv::new();
        hash.write(&run.to_le_bytes());
        hash.write(&epoch.to_le_bytes());
        hash.write(&(i as u64).to_le_bytes());
        order.swap(i, (hash.finish() % (i as u64 + 1)) as usize);
    }
    order
}

/// The `per_step` items of `step`, when `len` items are passed over in shuffled
/// order again and again. Fewer items than a step asks for are all taken once.
pub fn items_of_step(run: u64, step: u64, per_step: usize, len: usize) -> Vec<usize> {
    if len == 0 {
        return Vec::new();
    }
    let per_step = per_step.min(len);
    let first = step * per_step as u64;
    let mut items = Vec::with_capacity(per_step);
    let mut epoch = None;
    for at in first..first + per_step as u64 {
        let (number, index) = (at / len as u64, (at % len as u64) as usize);
        if epoch.as_ref().is_none_or(|(known, _)| *known != number) {
            epoch = Some((number, order(run, number, len)));
        }
        if let Some((_, order)) = &epoch {
            // A step across two passes could meet an item twice; it is taken once.
            if !items.contains(&order[index]) {
                items.push(order[index]);
            }
        }
    }
    items
}

/// The items of `len` that `step` draws in place of others, in its order: a shuffle of its
/// own, without those it has `tried`.
pub fn replacements(run: u64, step: u64, len: usize, tried: &[usize]) -> Vec<usize> {
    // Passes count from 0, so none of them has this number.
    let mut items = order(run, u64::MAX - step, len);
    items.retain(|item| !tried.contains(item));
    items
}

/// FNV-1a, with a final mix so that close inputs do not give close outputs.
struct Fnv(u64);

impl Fnv {
    fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn finish(&self) -> u64 {
        let mut x = self.0;
        x = (x ^ (x >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        x = (x ^ (x >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        x ^ (x >> 33)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_a_permutation_and_passes_differ() {
        let mut a = order(1, 0, 50);
        assert_ne!(a, order(1, 1, 50));
        assert_ne!(a, order(2, 0, 50));
        assert_eq!(a, order(1, 0, 50));
        a.sort_unstable();
        assert_eq!(a, (0..50).collect::<Vec<_>>());
    }

    #[test]
    fn steps_pass_over_every_item_before_any_comes_again() {
        let mut seen: Vec<usize> = (0..5).flat_map(|s| items_of_step(7, s, 2, 10)).collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..10).collect::<Vec<_>>());
        assert_eq!(items_of_step(7, 3, 8, 3).len(), 3);
        assert_eq!(items_of_step(7, 3, 8, 0), Vec::<usize>::new());
    }

    #[test]
    fn replacements_are_the_rest_in_the_step_s_own_order() {
        let all = replacements(7, 3, 10, &[]);
        assert_ne!(all, replacements(7, 4, 10, &[]));
        let tried = [all[0], all[4]];
        let rest: Vec<usize> = all.iter().copied().filter(|i| !tried.contains(i)).collect();
        assert_eq!(replacements(7, 3, 10, &tried), rest);
        assert_eq!(replacements(7, 3, 2, &[0, 1]), Vec::<usize>::new());
    }

    #[test]
    fn every_coordinate_changes_the_seed() {
        let task = |t: &str| TaskId::parse(t).expect("an id");
        let base = sample_seed(1, 2, &task("a__b-1"), 3);
        assert_ne!(base, sample_seed(0, 2, &task("a__b-1"), 3));
        assert_ne!(base, sample_seed(1, 0, &task("a__b-1"), 3));
        assert_ne!(base, sample_seed(1, 2, &task("a__b-2"), 3));
        assert_ne!(base, sample_seed(1, 2, &task("a__b-1"), 0));
    }
}
