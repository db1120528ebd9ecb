//! The learning rate of a step: a linear warm-up, then constant, at the end a linear fall.

/// The rate of `step` (counted from 0): `peak * (step + 1) / warmup` until the
/// warm-up ends, then `peak`.
pub fn linear_warmup(peak: f32, warmup: u64, step: u64) -> f32 {
    if step < warmup { peak * (step + 1) as f32 / warmup as f32 } else { peak }
}

/// The rate of `step` of `steps`: [`linear_warmup`], and in the last `cooldown` steps
/// `peak * (steps - step) / (cooldown + 1)`, so that the step after the last would have 0.
pub(crate) fn trapezoid(peak: f32, warmup: u64, cooldown: u64, (step, steps): (u64, u64)) -> f32 {
    let falling = peak * steps.saturating_sub(step) as f32 / (cooldown + 1) as f32;
    linear_warmup(peak, warmup, step).min(falling)
}

#[cfg(test)]
mod tests {
    use super::{linear_warmup, trapezoid};

    #[test]
    fn falls_in_equal_parts_at_the_end() {
        let rates: Vec<f32> = (0..8).map(|s| trapezoid(8.0, 2, 3, (s, 8))).collect();
        assert_eq!(rates, [4.0, 8.0, 8.0, 8.0, 8.0, 6.0, 4.0, 2.0]);
        assert_eq!(trapezoid(8.0, 0, 0, (7, 8)).to_bits(), 8.0_f32.to_bits());
    }

    #[test]
    fn rises_in_equal_parts_and_stays() {
        let rates: Vec<f32> = (0..6).map(|s| linear_warmup(8.0, 4, s)).collect();
        assert_eq!(rates, [2.0, 4.0, 6.0, 8.0, 8.0, 8.0]);
        assert_eq!(linear_warmup(1.0, 0, 0).to_bits(), 1.0_f32.to_bits());
    }
}
