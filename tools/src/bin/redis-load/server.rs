//! A redis-server process, its resource usage, and `redis-benchmark` against it.

use std::process::Command;
use std::time::Duration;

use tollgate_tools::error::ToolError;
use tollgate_tools::redis_server::RedisServer;

/// redis-server process with figures of its usage.
pub(crate) struct Server(RedisServer);

/// Resources used by Redis since its start.
pub(crate) struct Used {
    /// Processor time.
    pub(crate) cpu: Duration,
    /// Number of script and function calls.
    pub(crate) calls: u64,
    /// Bytes read and written.
    pub(crate) bytes: u64,
}

/// Results of a `redis-benchmark` run.
pub(crate) struct Benchmark {
    pub(crate) rate: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
}

impl Server {
    pub(crate) fn start(core: &str) -> Result<Self, ToolError> {
        RedisServer::start(Some(core), &[]).map(Self)
    }

    pub(crate) fn url(&self) -> String {
        self.0.url()
    }

    pub(crate) fn connection(&self) -> Result<redis::Connection, ToolError> {
        self.0.connection()
    }

    pub(crate) fn used(&self) -> Result<Used, ToolError> {
        let info: String = redis::cmd("INFO").arg("everything").query(&mut self.connection()?)?;
        let number = |line: &str, name: &str| -> u64 {
            let number = line.strip_prefix(name).and_then(|rest| rest.split(',').next());
            number.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
        };
        let sum = |names: &[&str]| info.lines().flat_map(|line| names.iter().map(move |name| number(line, name))).sum();
        Ok(Used {
            cpu: self.0.on_cpu()?,
            calls: sum(&["cmdstat_evalsha:calls=", "cmdstat_eval:calls=", "cmdstat_fcall:calls="]),
            bytes: sum(&["total_net_input_bytes:", "total_net_output_bytes:"]),
        })
    }

    /// Runs `calls` calls of `command` on 50 connections without pipelining; every `__rand_int__` is below `keys`.
    pub(crate) fn benchmark(&self, calls: u64, keys: usize, command: &[&str]) -> Result<Benchmark, ToolError> {
        let output = Command::new("redis-benchmark")
            .args(["-p", &self.0.port().to_string(), "-c", "50", "-P", "1", "--csv"])
            .args(["-n", &calls.to_string(), "-r", &keys.to_string()])
            .args(command)
            .output()
            .map_err(|source| ToolError::Program { program: "redis-benchmark", source })?;
        let text = String::from_utf8_lossy(&output.stdout);
        let unexpected = || ToolError::form("the output of redis-benchmark", &text);
        let row = text.lines().rfind(|line| line.contains("EVALSHA")).ok_or_else(unexpected)?;
        // The command may hold commas, the figures behind it do not: rps, avg, min, p50, p95, p99, max.
        let figures = row.rsplit(',').take(7).map(|figure| figure.trim_matches('"').parse::<f64>());
        let figures: Vec<f64> = figures.collect::<Result<_, _>>().map_err(|_| unexpected())?;
        let [_max, p99, _p95, p50, _min, _average, rate] = figures[..] else { return Err(unexpected()) };
        Ok(Benchmark { rate, p50_us: p50 * 1_000.0, p99_us: p99 * 1_000.0 })
    }
}
