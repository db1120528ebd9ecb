//! Which unprivileged user a command runs as when this process is root.
//!
//! A user of its own keeps signals and counts apart. The numbers come from the
//! range that systemd sets aside for such users, or from the end of what a
//! container maps.

use std::ops::Range;

const PREFERRED: Range<u64> = 61184..65520;

/// A user for job `n` of process `pid`; `None` if this process cannot choose.
pub(super) fn pick(pid: u32, n: u64) -> Option<u32> {
    if !nix::unistd::geteuid().is_root() || !may_become_others() {
        return None;
    }
    let users = fs_err::read_to_string("/proc/self/uid_map").ok()?;
    let groups = fs_err::read_to_string("/proc/self/gid_map").ok()?;
    let range = usable(&users).and_then(|u| {
        let g = usable(&groups)?;
        let both = u.start.max(g.start)..u.end.min(g.end);
        (!both.is_empty()).then_some(both)
    })?;
    let slot = (u64::from(pid).wrapping_mul(131) + n) % (range.end - range.start);
    u32::try_from(range.start + slot).ok()
}

/// Numbers that the map covers, away from those of real users.
fn usable(map: &str) -> Option<Range<u64>> {
    let ranges = map.lines().filter_map(|line| {
        let mut words = line.split_whitespace().map(str::parse::<u64>);
        let (start, _, length) = (words.next()?.ok()?, words.next()?.ok()?, words.next()?.ok()?);
        Some(start..start + length)
    });
    ranges
        .filter_map(|range| {
            if range.start <= PREFERRED.start && range.end >= PREFERRED.end {
                return Some(PREFERRED);
            }
            let length = range.end - range.start;
            (length > 1).then(|| range.end - (length / 2).min(4096)..range.end)
        })
        .max_by_key(|range| range.end - range.start)
}

/// `CAP_SETUID`, `CAP_SETGID`, `CAP_CHOWN` and `CAP_KILL` are there.
fn may_become_others() -> bool {
    const NEEDED: u64 = 1 | 1 << 5 | 1 << 6 | 1 << 7;
    capabilities() & NEEDED == NEEDED
}

/// The effective capabilities of this process.
pub(crate) fn capabilities() -> u64 {
    let status = fs_err::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_of_hosts_and_containers() {
        assert_eq!(usable("         0          0 4294967295\n"), Some(PREFERRED));
        assert_eq!(usable("0 100000 65536\n"), Some(PREFERRED));
        assert_eq!(usable("0 1000 1\n1 100000 1000\n"), Some(501..1001));
        assert_eq!(usable("0 1000 1\n"), None);
    }
}
