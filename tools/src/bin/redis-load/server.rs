//! A redis-server process, its resource usage, and `redis-benchmark` against it.

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// redis-server process; killed on drop.
pub(crate) struct Server {
    process: Child,
    port: u16,
}

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

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Server {
    pub(crate) fn start(core: &str) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let process = Command::new("taskset")
            .args(["-c", core, "redis-server", "--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""])
            .args(["--appendonly", "no"])
            .stdout(Stdio::null())
            .spawn()
            .expect("taskset and redis-server are installed");
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            std::thread::sleep(Duration::from_millis(10));
        }
        Self { process, port }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub(crate) fn connection(&self) -> redis::Connection {
        redis::Client::open(self.url()).unwrap().get_connection().unwrap()
    }

    pub(crate) fn used(&self) -> Used {
        let schedstat = std::fs::read_to_string(format!("/proc/{}/schedstat", self.process.id())).unwrap();
        let on_cpu = schedstat.split(' ').next().unwrap().parse().unwrap();
        let info: String = redis::cmd("INFO").arg("everything").query(&mut self.connection()).unwrap();
        let number = |line: &str, name: &str| -> u64 {
            line.strip_prefix(name).map_or(0, |rest| rest.split(',').next().unwrap().trim().parse().unwrap())
        };
        let sum = |names: &[&str]| info.lines().flat_map(|line| names.iter().map(move |name| number(line, name))).sum();
        Used {
            cpu: Duration::from_nanos(on_cpu),
            calls: sum(&["cmdstat_evalsha:calls=", "cmdstat_eval:calls=", "cmdstat_fcall:calls="]),
            bytes: sum(&["total_net_input_bytes:", "total_net_output_bytes:"]),
        }
    }

    /// Runs `calls` calls of `command` on 50 connections without pipelining; every `__rand_int__` is below `keys`.
    pub(crate) fn benchmark(&self, calls: u64, keys: usize, command: &[&str]) -> Benchmark {
        let output = Command::new("redis-benchmark")
            .args(["-p", &self.port.to_string(), "-c", "50", "-P", "1", "--csv"])
            .args(["-n", &calls.to_string(), "-r", &keys.to_string()])
            .args(command)
            .output()
            .expect("redis-benchmark is installed");
        let text = String::from_utf8(output.stdout).unwrap();
        let row = text.lines().rfind(|line| line.contains("EVALSHA")).expect("a row of figures");
        // The command may hold commas, the figures behind it do not: rps, avg, min, p50, p95, p99, max.
        let mut figures = row.rsplit(',').map(|figure| figure.trim_matches('"').parse::<f64>().unwrap());
        let [_max, p99, _p95, p50, _min, _average, rate] = std::array::from_fn(|_| figures.next().unwrap());
        Benchmark { rate, p50_us: p50 * 1_000.0, p99_us: p99 * 1_000.0 }
    }
}
