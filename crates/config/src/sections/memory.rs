//! `memory` and `metering`: limits and counts that the gateway keeps in memory, and the bounds that follow from the memory that
//! there is.

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use crate::de::{Flag, Or, PositiveTime, secs};

/// Limits kept in memory.
#[section(Clone)]
pub struct Memory {
    /// Maximum number of keys in memory. If a limiter has used its share, its new keys share buckets. Default: 1000000, some tens of megabytes, or what fits in an eighth of the memory.
    max_keys: Option<NonZeroUsize>,
    /// Hands the buckets to the process that follows: on SIGUSR2, and in `state-file`. If false, each process starts with full buckets.
    pub hand_over: Flag<true>,
    /// File in which a process that ends leaves its buckets to the next one; its folder must be writable. Default: none.
    pub state_file: Option<PathBuf>,
}

/// Delivery of the counts of `RequestCounter` to Redis.
#[section(Clone, PartialEq, Eq)]
pub struct Metering {
    /// Interval at which counts are sent. Default {}: a killed gateway loses at most as much.
    pub flush_every: Or<PositiveTime, { secs(1) }>,
    /// Counts kept in memory, each a key, route, method and status class; further ones are counted under the key `#`. Default: 100000, some twenty megabytes, or what fits in an eighth of the memory.
    max_cells: Option<NonZeroUsize>,
    /// Batches that may wait for Redis at once; further counts wait in memory.
    pub retry_queue: Or<NonZeroUsize, 16>,
}

/// Largest default of `filter.local-response-cache.size`: room for four thousand responses of 16 KB.
const MAX_CACHE_BYTES: u64 = 64 << 20;

/// Memory that the process may use, in bytes.
static AVAILABLE: LazyLock<u64> = LazyLock::new(|| {
    let text = |path| fs::read_to_string(path).unwrap_or_default();
    available(Path::new("/sys/fs/cgroup"), &text("/proc/self/cgroup"), &text("/proc/meminfo"))
});

impl Memory {
    /// Returns the maximum number of keys in memory.
    pub fn max_keys(&self) -> NonZeroUsize {
        // A key with a log of a few requests; a bucket takes half as much.
        self.max_keys.unwrap_or_else(|| fitting(1_000_000, 64, *AVAILABLE / 8))
    }
}

impl Metering {
    /// Returns the maximum number of counts kept in memory.
    pub fn max_cells(&self) -> NonZeroUsize {
        self.max_cells.unwrap_or_else(|| fitting(100_000, 256, *AVAILABLE / 8))
    }
}

/// Returns the default of `server.max-connections`: an idle connection with TLS takes 16 KB.
pub(crate) fn default_connections() -> NonZeroUsize {
    fitting(20_000, 16 << 10, *AVAILABLE / 4)
}

/// Returns the default size of each of `count` caches. It changes only when their number doubles, since a cache of another size
/// starts empty.
pub(crate) fn default_cache_bytes(count: usize) -> u64 {
    cache_bytes(count, *AVAILABLE)
}

/// Returns `most`, or the number of pieces of `bytes` that fit in `available` bytes, at least one.
fn fitting(most: usize, bytes: u64, available: u64) -> NonZeroUsize {
    let fitting = usize::try_from(available / bytes).unwrap_or(usize::MAX);
    NonZeroUsize::new(fitting.min(most)).unwrap_or(NonZeroUsize::MIN)
}

fn cache_bytes(count: usize, available: u64) -> u64 {
    let count = u64::try_from(count.next_power_of_two()).unwrap_or(u64::MAX);
    // An eighth for all of them, and as much for bodies on their way into a cache.
    (available / 8 / count).clamp(1, MAX_CACHE_BYTES)
}

/// Returns the bytes of the machine in `meminfo`, or the lowest limit of the cgroup (v2) in `cgroup` and of those above it, below
/// `root`.
fn available(root: &Path, cgroup: &str, meminfo: &str) -> u64 {
    let machine =
        meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:")?.strip_suffix("kB")?.trim().parse().ok());
    let machine = machine.map_or(u64::MAX, |kib: u64| kib.saturating_mul(1024));
    let path = cgroup.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    let limit = |folder: &Path, name: &str| fs::read_to_string(root.join(folder).join(name)).ok()?.trim().parse().ok();
    let limits =
        Path::new(path).ancestors().flat_map(|folder| ["memory.max", "memory.high"].map(|name| limit(folder, name)));
    // A limit that is none is `max`.
    limits.flatten().fold(machine, u64::min)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::filters::model::Filter;

    const MACHINE: &str = "MemTotal:       16384000 kB\nMemFree:         1000000 kB\n";

    #[test]
    fn the_lowest_limit_of_the_cgroups_is_what_the_process_may_use() {
        let root = tempfile::tempdir().unwrap();
        let pod = root.path().join("kubepods/pod1");
        fs::create_dir_all(pod.join("container")).unwrap();
        let of = |cgroup| available(root.path(), cgroup, MACHINE);
        let (none, inner) = ("0::/\n", "1:name=systemd:/elsewhere\n0::/kubepods/pod1/container\n");
        assert_eq!([of(""), of(none), of(inner)], [16_384_000 << 10; 3]);
        fs::write(root.path().join("kubepods/memory.max"), "1073741824\n").unwrap();
        fs::write(pod.join("memory.max"), "134217728\n").unwrap();
        fs::write(pod.join("container/memory.max"), "max\n").unwrap();
        assert_eq!([of(none), of(inner)], [16_384_000 << 10, 128 << 20]);
        fs::write(pod.join("container/memory.high"), "100000000\n").unwrap();
        assert_eq!(of(inner), 100_000_000);
        // A container sees its own cgroup at the root, by another path in /proc or none.
        fs::write(root.path().join("memory.max"), "67108864\n").unwrap();
        assert_eq!([of(none), of("0::/host/path\n")], [64 << 20; 2]);
        assert_eq!(available(root.path(), none, "damaged"), 64 << 20);
        fs::write(root.path().join("memory.max"), "damaged").unwrap();
        assert_eq!(available(root.path(), none, "MemTotal: many kB"), u64::MAX);
    }

    #[test]
    fn the_bounds_by_default_fit_in_the_memory_that_there_is() {
        for (available, connections, keys, cells, caches) in [
            (u64::MAX, 20_000, 1_000_000, 100_000, [64 << 20, 64 << 20]),
            (2 << 30, 20_000, 1_000_000, 100_000, [64 << 20, 64 << 20]),
            (512 << 20, 8_192, 1_000_000, 100_000, [64 << 20, 16 << 20]),
            (128 << 20, 2_048, 262_144, 65_536, [16 << 20, 4 << 20]),
            (0, 1, 1, 1, [1, 1]),
        ] {
            let found = [
                fitting(20_000, 16 << 10, available / 4),
                fitting(1_000_000, 64, available / 8),
                fitting(100_000, 256, available / 8),
            ];
            assert_eq!(found.map(NonZeroUsize::get), [connections, keys, cells], "{available}");
            assert_eq!([1, 3].map(|count| cache_bytes(count, available)), caches, "{available}");
        }
        let route = |id: &str, cache: &str| {
            format!("- {{id: {id}, uri: 'echo:', predicates: [Path=/{id}], filters: [{cache}]}}\n")
        };
        let routes = [
            route("a", "LocalResponseCache"),
            route("b", "'LocalResponseCache=5m,10MB'"),
            route("c", "LocalResponseCache=1m"),
        ];
        let yaml = format!(
            "filter.local-response-cache.enabled: true\nroutes:\n{}{}",
            routes.concat(),
            route("d", "") + &route("e", "")
        );
        let config = crate::parse("tollgate.yaml", &yaml, &|_| None).unwrap().config;
        let size =
            |filter: &Filter| if let Filter::LocalResponseCache(cache) = filter { Some(cache.max_bytes) } else { None };
        let sizes: Vec<_> = config.routes.iter().flat_map(|route| &route.filters).filter_map(size).collect();
        let each = default_cache_bytes(3);
        assert_eq!(sizes, [each, 10 << 20, each, each, each], "two caches, and the one that `d` and `e` share");
        let sizes = [2, 3, 4, 5].map(|count| cache_bytes(count, 128 << 20) >> 20);
        assert_eq!(sizes, [8, 4, 4, 2]);
    }
}
