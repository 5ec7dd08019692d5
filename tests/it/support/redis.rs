//! A redis-server process.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};

use super::gateway::signal;
use super::{eventually, free_address};

/// A running redis-server; killed when dropped.
pub struct Redis {
    child: Option<Child>,
    /// Where it listens.
    pub address: SocketAddr,
    arguments: Vec<String>,
    folder: tempfile::TempDir,
}

impl Redis {
    /// Starts one that keeps nothing on disk.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// The same with further arguments, such as `--requirepass secret`.
    pub fn start_with(arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(ToString::to_string).collect();
        let mut redis = Self { child: None, address: free_address(), arguments, folder: tempfile::tempdir().unwrap() };
        redis.restart();
        redis
    }

    /// Its URL for `redis.url`.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Starts it on the same port, empty, and waits until it answers.
    pub fn restart(&mut self) {
        self.stop();
        let child = Command::new("redis-server")
            .args(["--bind", "127.0.0.1", "--port", &self.address.port().to_string()])
            .args(["--save", "", "--appendonly", "no", "--dir"])
            .arg(self.folder.path())
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("redis-server is installed");
        self.child = Some(child);
        // +PONG, or an error that only a server that is up can give (-NOAUTH).
        eventually("redis-server answers", || {
            let Ok(mut stream) = TcpStream::connect(self.address) else { return false };
            let mut answer = [0; 1];
            stream.write_all(b"PING\r\n").is_ok() && stream.read_exact(&mut answer).is_ok()
        });
    }

    /// Kills it.
    pub fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Freezes it: it accepts and never answers.
    pub fn freeze(&self) {
        signal(self.child.as_ref().unwrap().id(), "STOP");
    }

    /// Lets it go on.
    pub fn thaw(&self) {
        signal(self.child.as_ref().unwrap().id(), "CONT");
    }

    /// What redis-cli prints for a command.
    pub fn cli(&self, arguments: &[&str]) -> String {
        let port = self.address.port().to_string();
        let output = Command::new("redis-cli").args(["-p", &port]).args(arguments).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.stop();
    }
}
