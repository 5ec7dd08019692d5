//! A redis-server process on a free port.

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::error::ToolError;

/// Time for the start.
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// redis-server process without persistence; killed on drop.
#[derive(Debug)]
pub struct RedisServer {
    process: Child,
    port: u16,
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl RedisServer {
    /// Starts the server with further `arguments`, on one `core` if given, and waits until it listens.
    ///
    /// # Errors
    /// The server does not start.
    pub fn start(core: Option<&str>, arguments: &[&str]) -> Result<Self, ToolError> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let (program, mut command) = match core {
            Some(core) => {
                let mut taskset = Command::new("taskset");
                taskset.args(["-c", core, "redis-server"]);
                ("taskset or redis-server", taskset)
            }
            None => ("redis-server", Command::new("redis-server")),
        };
        let started = command
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .args(arguments)
            .stdout(Stdio::null())
            .spawn();
        let mut server = Self { process: started.map_err(|source| ToolError::Program { program, source })?, port };
        let start = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if server.process.try_wait()?.is_some() || start.elapsed() > START_TIMEOUT {
                let source = std::io::Error::other("it does not listen");
                return Err(ToolError::Program { program, source });
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(server)
    }

    /// Returns the port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Opens a connection.
    ///
    /// # Errors
    /// The server does not respond.
    pub fn connection(&self) -> Result<redis::Connection, ToolError> {
        Ok(redis::Client::open(self.url())?.get_connection()?)
    }

    /// Returns the processor time so far: proc_pid_schedstat(5).
    ///
    /// # Errors
    /// The server has ended.
    pub fn on_cpu(&self) -> Result<Duration, ToolError> {
        let text = std::fs::read_to_string(format!("/proc/{}/schedstat", self.process.id()))?;
        first_number(&text).map(Duration::from_nanos)
    }
}

/// Returns the first number of a line of `schedstat`.
///
/// # Errors
/// The line does not start with a number.
pub fn first_number(text: &str) -> Result<u64, ToolError> {
    let number = text.split(' ').next().and_then(|number| number.parse().ok());
    number.ok_or_else(|| ToolError::form("schedstat", text))
}
