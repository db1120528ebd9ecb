//! Order questions about any stretch of a sequence of numbers.
//!
//! Owns [`Wavelet`], a wavelet matrix: for values below `n` it tells, for a range of
//! positions, the largest value below a bound and the smallest at or above one, in
//! O(log n) and O(n) words of memory.

/// One bit of every value, and how many zeros stand before each word.
struct Level {
    words: Vec<u64>,
    zeros_before: Vec<u32>,
    zeros: u32,
}

impl Level {
    /// Zeros among the first `at` bits.
    fn rank0(&self, at: u32) -> u32 {
        let (word, bit) = ((at / 64) as usize, at % 64);
        let before = self.zeros_before[word];
        if bit == 0 { before } else { before + (!self.words[word] << (64 - bit)).count_ones() }
    }
}

/// The sequence, most significant bit first.
pub(super) struct Wavelet {
    levels: Vec<Level>,
}

impl Wavelet {
    pub(super) fn new(values: &[u32]) -> Self {
        let most = values.iter().copied().max().unwrap_or(0);
        let bits = u32::BITS - most.leading_zeros();
        let mut values = values.to_vec();
        let mut levels = Vec::with_capacity(bits as usize);
        for bit in (0..bits).rev() {
            let mut words = vec![0_u64; values.len() / 64 + 1];
            for (at, value) in values.iter().enumerate() {
                words[at / 64] |= u64::from(value >> bit & 1) << (at % 64);
            }
            let mut zeros_before = Vec::with_capacity(words.len());
            let mut zeros = 0;
            for word in &words {
                zeros_before.push(zeros);
                zeros += word.count_zeros();
            }
            let (mut next, ones): (Vec<u32>, Vec<u32>) =
                values.iter().partition(|value| *value >> bit & 1 == 0);
            let zeros = next.len() as u32;
            next.extend(ones);
            levels.push(Level { words, zeros_before, zeros });
            values = next;
        }
        Self { levels }
    }

    /// How many values of `range` are below `bound`.
    fn count_below(&self, range: (u32, u32), bound: u32) -> u32 {
        let bits = self.levels.len() as u32;
        if bits < u32::BITS && bound >> bits != 0 {
            return range.1 - range.0;
        }
        let (mut from, mut to) = range;
        let mut count = 0;
        for (level, bit) in self.levels.iter().zip((0..bits).rev()) {
            let (zeros_from, zeros_to) = (level.rank0(from), level.rank0(to));
            if bound >> bit & 1 == 0 {
                (from, to) = (zeros_from, zeros_to);
            } else {
                count += zeros_to - zeros_from;
                (from, to) = (level.zeros + from - zeros_from, level.zeros + to - zeros_to);
            }
        }
        count
    }

    /// The value of `range` with `rank` smaller ones in it.
    fn nth(&self, range: (u32, u32), rank: u32) -> u32 {
        let (mut from, mut to) = range;
        let mut rank = rank;
        let mut value = 0;
        for level in &self.levels {
            let (zeros_from, zeros_to) = (level.rank0(from), level.rank0(to));
            let zeros = zeros_to - zeros_from;
            value <<= 1;
            if rank < zeros {
                (from, to) = (zeros_from, zeros_to);
            } else {
                value |= 1;
                rank -= zeros;
                (from, to) = (level.zeros + from - zeros_from, level.zeros + to - zeros_to);
            }
        }
        value
    }

    /// The largest value of `range` below `bound`.
    pub(super) fn last_below(&self, range: (u32, u32), bound: u32) -> Option<u32> {
        let count = self.count_below(range, bound);
        (count > 0).then(|| self.nth(range, count - 1))
    }

    /// The smallest value of `range` at or above `bound`.
    pub(super) fn first_from(&self, range: (u32, u32), bound: u32) -> Option<u32> {
        let count = self.count_below(range, bound);
        (count < range.1 - range.0).then(|| self.nth(range, count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_range_and_bound_agrees_with_a_scan() {
        let values: Vec<u32> = (0..150_u32).map(|i| i * 7919 % 131).collect();
        let wavelet = Wavelet::new(&values);
        for from in (0..150).step_by(7) {
            for to in (from..=150).step_by(5) {
                let slice = &values[from as usize..to as usize];
                for bound in [0, 1, 5, 63, 64, 65, 100, 130, 131, 500, u32::MAX] {
                    let below = slice.iter().copied().filter(|v| *v < bound).max();
                    let above = slice.iter().copied().filter(|v| *v >= bound).min();
                    assert_eq!(wavelet.last_below((from, to), bound), below);
                    assert_eq!(wavelet.first_from((from, to), bound), above);
                }
            }
        }
        assert_eq!(Wavelet::new(&[]).last_below((0, 0), 5), None);
        assert_eq!(Wavelet::new(&[0]).first_from((0, 1), 0), Some(0));
    }
}
