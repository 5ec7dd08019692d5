//! File descriptors: the number of client connections that the system's limit allows.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors of the process: signals, logs, the admin port and its clients.
const PROCESS: u64 = 16;
/// Descriptors of each worker: runtime, listener, connections to Redis.
const WORKER: u64 = 8;

/// Returns the number of client connections that `workers` may hold together: `wanted`, or fewer if the limit on open
/// files is too low. Half of the descriptors are kept for upstream connections. Raises the soft limit to the hard one.
#[must_use]
pub fn client_connections(wanted: usize, workers: usize) -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let limit = if setrlimit(Resource::Nofile, raised).is_ok() { limit.maximum } else { limit.current };
    let workers = u64::try_from(workers).unwrap_or(u64::MAX);
    let possible = limit.map_or(usize::MAX, |limit| affordable(limit, workers));
    if possible < wanted {
        tracing::info!(
            connections = possible,
            "open file limit is lower than `server.max-connections` needs: raise it with `ulimit -n`"
        );
    }
    wanted.min(possible)
}

/// Returns the number of clients, at two descriptors each (client and upstream), at least 1.
fn affordable(limit: u64, workers: u64) -> usize {
    let reserved = PROCESS.saturating_add(WORKER.saturating_mul(workers));
    usize::try_from(limit.saturating_sub(reserved) / 2).unwrap_or(usize::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_get_half_of_the_remaining_descriptors() {
        assert_eq!(affordable(1024, 2), 496);
        assert_eq!(affordable(40, 1), 8);
        assert_eq!(affordable(10, 1), 1);
        assert_eq!(affordable(u64::MAX, u64::MAX), 1);
    }
}
