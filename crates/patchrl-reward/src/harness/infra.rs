//! Signs in a log that the environment broke, as version 5 reads them. Advice only: no
//! verdict depends on it.

use std::sync::LazyLock;

use regex::Regex;

/// What a sign tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// No patch of the repository can be the cause.
    Environment,
    /// The environment or the patch.
    Ambiguous,
}

/// Why a log without results may be nobody's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Infra {
    /// The harness's word for it.
    pub reason: &'static str,
    /// How sure that is.
    pub tier: Tier,
}

const SIGNS: [(&str, Tier, &str); 8] = [
    ("browser_launch_failed", Tier::Environment, "Failed to launch|Failed to connect to the bus"),
    (
        "display_unavailable",
        Tier::Environment,
        "cannot open display|Missing X server|unable to open X display",
    ),
    ("out_of_memory", Tier::Environment, "(?m)Cannot allocate memory|OutOfMemoryError|^Killed$"),
    (
        "container_unavailable",
        Tier::Environment,
        "Error response from daemon|Cannot connect to the Docker daemon",
    ),
    (
        "network_unreachable",
        Tier::Environment,
        "Could not resolve host|Temporary failure in name resolution",
    ),
    ("missing_module", Tier::Ambiguous, "Cannot find module|MODULE_NOT_FOUND|ModuleNotFoundError"),
    ("no_tests_collected", Tier::Ambiguous, "no tests ran|collected 0 items"),
    ("tests_timed_out", Tier::Ambiguous, r"Timeout error: \d+ seconds exceeded"),
];

static COMPILED: LazyLock<Vec<(Infra, Regex)>> = LazyLock::new(|| {
    let compile = |(reason, tier, pattern): (&'static str, Tier, &str)| {
        Some((Infra { reason, tier }, Regex::new(pattern).ok()?))
    };
    SIGNS.into_iter().filter_map(compile).collect()
});

/// The first sign that the text holds.
pub fn infra(text: &str) -> Option<Infra> {
    COMPILED.iter().find(|(_, pattern)| pattern.is_match(text)).map(|(infra, _)| *infra)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_sign_counts() {
        assert_eq!(COMPILED.len(), SIGNS.len());
        let found = infra("ModuleNotFoundError\nKilled\n").unwrap();
        assert_eq!((found.reason, found.tier), ("out_of_memory", Tier::Environment));
        assert_eq!(infra("Killed by hand"), None);
    }
}
