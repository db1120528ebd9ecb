//! Random numbers from coordinates: the same ones on every machine and in every order.

/// A number in [0, 1) from a seed and a counter.
pub(crate) fn uniform(seed: u64, counter: u64) -> f64 {
    let bits = mix(mix(seed).wrapping_add(counter.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

/// The finalizer of `SplitMix64`.
fn mix(seed: u64) -> u64 {
    let z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
