//! File descriptors: how many connections the system lets the process have.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What the process itself needs: signals, logs, the admin port and its clients …
const PROCESS: u64 = 16;
/// … and each worker: runtime, listener, connections to Redis.
const WORKER: u64 = 8;

/// The client connections that `workers` may hold together without taking the descriptors that their requests need
/// for upstreams: `wanted`, or fewer where the system's limit says so, which is raised as far as it may be.
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
            "the limit on open files allows fewer connections than `server.max-connections`; raise it with ulimit -n"
        );
    }
    wanted.min(possible)
}

/// One descriptor for a client and one for its upstream, but for one client at least.
fn affordable(limit: u64, workers: u64) -> usize {
    let own = PROCESS.saturating_add(WORKER.saturating_mul(workers));
    usize::try_from(limit.saturating_sub(own) / 2).unwrap_or(usize::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_what_is_left_is_for_clients() {
        assert_eq!(affordable(1024, 2), 496);
        assert_eq!(affordable(40, 1), 8);
        assert_eq!(affordable(10, 1), 1);
        assert_eq!(affordable(u64::MAX, u64::MAX), 1);
    }
}
