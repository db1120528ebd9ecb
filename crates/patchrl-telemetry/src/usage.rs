//! What this process has used of the machine, and what is left of its memory.
//!
//! Read from Linux's `/proc` and control groups; 0 or nothing where the system does not say.

/// Processor seconds of all threads in user mode, in ticks of 10 ms.
pub fn processor_seconds() -> f64 {
    let stat = fs_err::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let user = after_name.split_whitespace().nth(11).and_then(|ticks| ticks.parse::<f64>().ok());
    user.unwrap_or(0.0) / 100.0
}

/// The highest resident memory so far, in bytes.
pub fn peak_memory() -> u64 {
    number_after("/proc/self/status", "VmHWM:").unwrap_or(0) << 10
}

/// Bytes that this process may still take: what the system calls available, or what its
/// control group leaves if that is less.
pub fn memory_left() -> Option<u64> {
    let system = number_after("/proc/meminfo", "MemAvailable:").map(|kib| kib << 10);
    let groups = [
        ("/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
        (
            "/sys/fs/cgroup/memory",
            "memory.limit_in_bytes",
            "memory.usage_in_bytes",
            "total_inactive_file",
        ),
    ];
    let of_group = groups.into_iter().filter_map(|(folder, limit, used, cached)| {
        let number = |name: &str| {
            fs_err::read_to_string(format!("{folder}/{name}")).ok()?.trim().parse::<u64>().ok()
        };
        let cached = number_after(&format!("{folder}/memory.stat"), cached).unwrap_or(0);
        Some(number(limit)?.saturating_sub(number(used)?.saturating_sub(cached)))
    });
    system.into_iter().chain(of_group).min()
}

/// The number after `name` at the start of a line.
fn number_after(file: &str, name: &str) -> Option<u64> {
    let text = fs_err::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_process_knows_what_it_uses() {
        let held = vec![1_u8; 32 << 20];
        assert!(std::hint::black_box(&held).contains(&1));
        assert!(peak_memory() >= 32 << 20);
        assert!(memory_left().is_some_and(|left| left > 1 << 20));
    }
}
