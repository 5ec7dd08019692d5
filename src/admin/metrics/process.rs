//! Metrics of the process and of the build, with the names that Prometheus' client libraries use.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

use crate::version;
use tollgate_telemetry::encode::{NO_LABELS, family, gauge};

/// Encodes the metrics of a process that `started` then.
pub(super) fn encode(encoder: &mut DescriptorEncoder<'_>, started: SystemTime) -> fmt::Result {
    let build = [("version", env!("CARGO_PKG_VERSION")), ("commit", version::COMMIT), ("features", version::FEATURES)];
    family(encoder, "tollgate_build_info", "Version of the gateway", [(build, gauge(1))])?;
    let cpu = ConstCounter::new(cpu_time().as_secs_f64());
    let help = "User and system CPU time of the process in seconds";
    family(encoder, "process_cpu_seconds", help, [(NO_LABELS, cpu)])?;
    let started = ConstGauge::new(started.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64());
    let help = "Start time of the process since the Unix epoch in seconds";
    family(encoder, "process_start_time_seconds", help, [(NO_LABELS, started)])?;
    let (resident, virtual_memory) = memory();
    let one = |value: Option<u64>| value.map(|value| (NO_LABELS, gauge(value)));
    family(encoder, "process_resident_memory_bytes", "Resident memory size in bytes", one(resident))?;
    family(encoder, "process_virtual_memory_bytes", "Virtual memory size in bytes", one(virtual_memory))?;
    family(encoder, "process_open_fds", "Open file descriptors", one(open_descriptors()))?;
    let allowed = one(getrlimit(Resource::Nofile).current);
    family(encoder, "process_max_fds", "Maximum number of open file descriptors", allowed)
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}

/// Returns resident and virtual memory in bytes; `None` if the system does not report them.
fn memory() -> (Option<u64>, Option<u64>) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let bytes = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
    };
    (bytes("VmRSS:"), bytes("VmSize:"))
}

/// Counts the open descriptors, without the one that lists them.
fn open_descriptors() -> Option<u64> {
    let listed = std::fs::read_dir("/proc/self/fd").ok()?.count();
    u64::try_from(listed).ok()?.checked_sub(1)
}
