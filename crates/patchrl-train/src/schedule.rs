//! The learning rate of a step: a linear warm-up, then constant.

/// The rate of `step` (counted from 0): `peak * (step + 1) / warmup` until the
/// warm-up ends, then `peak`.
pub fn linear_warmup(peak: f32, warmup: u64, step: u64) -> f32 {
    if step < warmup { peak * (step + 1) as f32 / warmup as f32 } else { peak }
}

#[cfg(test)]
mod tests {
    use super::linear_warmup;

    #[test]
    fn rises_in_equal_parts_and_stays() {
        let rates: Vec<f32> = (0..6).map(|s| linear_warmup(8.0, 4, s)).collect();
        assert_eq!(rates, [2.0, 4.0, 6.0, 8.0, 8.0, 8.0]);
        assert_eq!(linear_warmup(1.0, 0, 0).to_bits(), 1.0_f32.to_bits());
    }
}
