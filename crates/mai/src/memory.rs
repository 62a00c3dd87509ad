//! Memory: how much of it large answers of upstreams may take together.

/// So much anyhow: two of the largest answers there are.
const LEAST: u64 = 256 << 20;

/// A quarter of what this process may use. An answer grows in a buffer up to twice as large, and some are put into
/// another form besides.
#[must_use]
pub fn for_answers() -> usize {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    // Of version 2 (the kernel's cgroup-v2.rst): a container sees its own group as the root, a service does not.
    let group = read("/proc/self/cgroup").unwrap_or_default();
    let group = group.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or_default().trim_end_matches('/');
    let limits = [
        read(&format!("/sys/fs/cgroup{group}/memory.max")),
        read("/sys/fs/cgroup/memory.max"),
        read("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
    ];
    share(limits.iter().flatten().filter_map(|limit| limit.trim().parse().ok()), read("/proc/meminfo").as_deref())
}

/// Of the lowest of these limits in bytes and the machine's memory.
fn share(limits: impl Iterator<Item = u64>, meminfo: Option<&str>) -> usize {
    let total = meminfo.and_then(|text| text.lines().find_map(|line| line.strip_prefix("MemTotal:")));
    let total = total.and_then(|text| text.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    let least = limits.chain(total.map(|total| total.saturating_mul(1024))).min();
    // Where nothing says how much there is: as for 4 GiB.
    let share = least.unwrap_or(4 << 30) / 4;
    usize::try_from(share.max(LEAST)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_answers_may_take_a_quarter_of_what_the_group_or_the_machine_has() {
        const MEMINFO: &str = "MemTotal:       16384000 kB\nMemFree:         1234 kB\n";
        assert_eq!(share([].into_iter(), Some(MEMINFO)), 4_096_000 << 10);
        assert_eq!(share([2 << 30, u64::MAX].into_iter(), Some(MEMINFO)), 512 << 20);
        assert_eq!(share([64 << 20].into_iter(), Some(MEMINFO)), 256 << 20, "the largest answer passes");
        assert_eq!(share([].into_iter(), None), 1 << 30);
    }
}
