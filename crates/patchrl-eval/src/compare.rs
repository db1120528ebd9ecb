//! Two runs on the same instances: is one better, and how sure is that?
//!
//! Differences are paired: only instances that one resolves and the other does not tell
//! anything. The interval is Wald's on counts raised by one half each (Agresti and Min 2005),
//! the p-value `McNemar`'s exact one.

use std::collections::BTreeSet;

use serde::Serialize;

/// The comparison of a run with a base.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Instances that both runs answered.
    pub instances: usize,
    /// Resolved by the base.
    pub base: usize,
    /// Resolved by the other.
    pub other: usize,
    /// Ids that only the other resolves.
    pub gained: Vec<String>,
    /// Ids that only the base resolves.
    pub lost: Vec<String>,
    /// Share resolved by the other less that of the base.
    pub difference: f64,
    /// 95 % interval of the difference.
    pub interval: [f64; 2],
    /// How likely so uneven a split, or a more uneven one, is if neither is better.
    pub p_value: f64,
}

/// Compare on `instances`: ids that both runs answered.
pub fn compare(
    instances: &BTreeSet<String>,
    base: &BTreeSet<String>,
    other: &BTreeSet<String>,
) -> Comparison {
    let of = |run: &BTreeSet<String>| instances.intersection(run).cloned().collect();
    let (base, other): (BTreeSet<String>, BTreeSet<String>) = (of(base), of(other));
    let gained: Vec<String> = other.difference(&base).cloned().collect();
    let lost: Vec<String> = base.difference(&other).cloned().collect();
    let (n, b, c) = (instances.len() as f64, gained.len() as f64, lost.len() as f64);
    let difference = if instances.is_empty() { 0.0 } else { (b - c) / n };
    // Half an instance more in each of the four cells.
    let (n, b, c) = (n + 2.0, b + 0.5, c + 0.5);
    let middle = (b - c) / n;
    let spread = 1.959_964 * ((b + c) - (b - c).powi(2) / n).sqrt() / n;
    Comparison {
        instances: instances.len(),
        base: base.len(),
        other: other.len(),
        difference,
        interval: [(middle - spread).max(-1.0), (middle + spread).min(1.0)],
        p_value: mcnemar(gained.len(), lost.len()),
        gained,
        lost,
    }
}

/// Two-sided exact test that either outcome is equally likely.
fn mcnemar(gained: usize, lost: usize) -> f64 {
    let (n, few) = (gained + lost, gained.min(lost));
    // Logarithms: 2^-n is too small a number for runs that differ in a thousand instances.
    let mut log_choose = 0.0;
    let mut tail = 0.0;
    for k in 0..=few {
        if k > 0 {
            log_choose += ((n - k + 1) as f64).ln() - (k as f64).ln();
        }
        tail += (log_choose - n as f64 * std::f64::consts::LN_2).exp();
    }
    (2.0 * tail).min(1.0)
}

/// Unbiased estimate of the chance that one of `k` samples is right, from `n` of which
/// `right` are (Chen et al. 2021). Nothing if `k` is 0 or more than `n`.
pub fn pass_at_k(n: u64, right: u64, k: u64) -> Option<f64> {
    if k == 0 || k > n || right > n {
        return None;
    }
    if n - right < k {
        return Some(1.0);
    }
    if k == 1 {
        return Some(right as f64 / n as f64);
    }
    let all_wrong: f64 = (n - right + 1..=n).map(|i| 1.0 - k as f64 / i as f64).product();
    Some(1.0 - all_wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(range: std::ops::Range<usize>) -> BTreeSet<String> {
        range.map(|i| format!("i{i:03}")).collect()
    }

    #[test]
    fn paired_differences() {
        let result = compare(&ids(0..100), &ids(0..30), &ids(10..50));
        assert_eq!((result.base, result.other), (30, 40));
        assert_eq!((result.gained.len(), result.lost.len()), (20, 10));
        assert!((result.difference - 0.1).abs() < 1e-12);
        assert!(result.interval[0] < 0.0 && result.interval[1] > 0.2);
        // R: binom.test(10, 30)$p.value
        assert!((result.p_value - 0.098_736_97).abs() < 1e-6, "{}", result.p_value);
        let none = compare(&ids(0..0), &ids(0..3), &ids(0..3));
        assert_eq!((none.difference, none.p_value), (0.0, 1.0));
    }

    #[test]
    fn pass_at_k_is_the_share_of_draws() {
        assert_eq!(pass_at_k(10, 0, 1), Some(0.0));
        assert_eq!(pass_at_k(10, 3, 1), Some(0.3));
        assert_eq!(pass_at_k(4, 2, 3), Some(1.0));
        // 1 - C(7, 5) / C(10, 5)
        assert!((pass_at_k(10, 3, 5).unwrap() - (1.0 - 21.0 / 252.0)).abs() < 1e-12);
        assert_eq!(pass_at_k(3, 1, 4), None);
    }
}
