//! redis-server process.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use redis::{Connection, FromRedisValue, IntoConnectionInfo, RedisResult, Value};
use tempfile::TempDir;

use crate::ports::Port;
use crate::tls::Certificates;

/// Timeout of a test's own commands, such as one to a frozen server.
const LOOK: Duration = Duration::from_secs(2);

/// File name of a sentinel's configuration.
const SENTINEL_CONF: &str = "sentinel.conf";

/// redis-server in a temporary folder, by default without persistence. Killed on drop.
#[derive(Debug)]
pub struct RedisServer {
    /// Port without TLS.
    pub port: u16,
    /// Address without TLS.
    pub address: SocketAddr,
    process: Option<Child>,
    frozen: AtomicBool,
    arguments: Vec<String>,
    password: Option<String>,
    folder: TempDir,
    tls: Option<Port>,
    _port: Port,
}

impl RedisServer {
    /// Starts a server and waits until it is ready.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a server with further arguments, such as `--requirepass secret` or
    /// `--user name on >password ~pattern +@all`.
    pub fn start_with(arguments: &[&str]) -> Self {
        let mut server = Self::stopped(arguments);
        server.launch();
        server
    }

    /// Starts a server with an additional TLS port, [`tls_url`](Self::tls_url). `require_client_certificates` requires client
    /// certificates of that authority.
    pub fn start_tls(certificates: &Certificates, require_client_certificates: bool, arguments: &[&str]) -> Self {
        let mut server = Self::stopped(arguments);
        let port = Port::claim();
        server.arguments.extend(["--tls-port".to_owned(), port.number.to_string()]);
        server.arguments.extend(certificates.server_arguments(require_client_certificates));
        server.tls = Some(port);
        server.launch();
        server
    }

    /// Creates a server that is not running yet.
    pub fn stopped(arguments: &[&str]) -> Self {
        Self::stopped_on(Port::claim(), arguments)
    }

    /// Creates a server on a reserved port.
    pub(crate) fn stopped_on(port: Port, arguments: &[&str]) -> Self {
        let password = arguments.iter().position(|&argument| argument == "--requirepass");
        Self {
            port: port.number,
            address: port.address(),
            process: None,
            frozen: AtomicBool::new(false),
            arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
            password: password.map(|at| arguments[at + 1].to_owned()),
            folder: tempfile::tempdir().unwrap(),
            tls: None,
            _port: port,
        }
    }

    /// Starts a sentinel with these lines of configuration.
    pub(crate) fn sentinel(configuration: &str, password: Option<&str>) -> Self {
        let mut sentinel = Self::stopped_on(Port::claim(), &[]);
        let folder = sentinel.folder.path();
        let head = format!("port {}\nbind 127.0.0.1\ndir {}\n", sentinel.port, folder.display());
        std::fs::write(folder.join(SENTINEL_CONF), head + configuration).unwrap();
        sentinel.arguments = vec![SENTINEL_CONF.to_owned(), "--sentinel".to_owned()];
        sentinel.password = password.map(str::to_owned);
        sentinel.launch();
        sentinel
    }

    /// Starts the server on its port with the data in its folder, and waits until it is ready.
    pub fn launch(&mut self) {
        let mut command = Command::new("redis-server");
        if self.arguments.first().is_none_or(|first| first != SENTINEL_CONF) {
            command.args(["--port", &self.port.to_string(), "--bind", "127.0.0.1", "--unixsocket", "redis.sock"]);
            command.args(["--save", "", "--appendonly", "no"]);
        }
        let mut process = command
            .args(&self.arguments)
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("redis-server is installed");
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut said = Vec::new();
        let ready = lines.by_ref().map_while(Result::ok).any(|line| {
            let ready = line.contains("Ready to accept connections") || line.contains("Sentinel ID is");
            said.push(line);
            ready
        });
        self.process = Some(process);
        assert!(ready, "redis-server did not come up on port {}:\n{}", self.port, said.join("\n"));
        std::thread::spawn(move || lines.for_each(drop));
        self.frozen.store(false, SeqCst);
    }

    /// Kills the server. Data not on disk is lost, and its connections end.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    /// Kills the server and starts it on the same port, without data unless its arguments enable persistence.
    pub fn restart(&mut self) {
        self.kill();
        self.launch();
    }

    /// Kills the server and starts it on the same port with all of its keys.
    pub fn restart_with_data(&mut self) {
        self.query::<()>(&["SAVE"]).unwrap();
        self.restart();
        std::fs::remove_file(self.folder.path().join("dump.rdb")).unwrap();
    }

    /// Sends a signal, such as `TERM`.
    pub fn signal(&self, signal: &str) {
        let pid = self.pid().to_string();
        assert!(Command::new("kill").args([&format!("-{signal}"), &pid]).status().unwrap().success());
        match signal {
            "STOP" => self.frozen.store(true, SeqCst),
            "CONT" => self.frozen.store(false, SeqCst),
            _ => {}
        }
    }

    /// Freezes the server: it keeps its sockets and does not reply.
    pub fn freeze(&self) {
        self.signal("STOP");
    }

    /// Resumes a frozen server.
    pub fn thaw(&self) {
        self.signal("CONT");
    }

    /// Returns true if the server runs and is not frozen.
    pub fn is_up(&self) -> bool {
        self.process.is_some() && !self.frozen.load(SeqCst)
    }

    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.process.as_ref().expect("redis-server runs").id()
    }

    /// Returns the URL without credentials.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Returns the TLS URL without credentials.
    pub fn tls_url(&self) -> String {
        format!("rediss://{}", self.tls.as_ref().expect("started with TLS").address())
    }

    /// Returns the path of the Unix socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("redis.sock")
    }

    /// Returns the required password.
    pub(crate) fn password(&self) -> Option<&str> {
        self.password.as_deref()
    }

    /// Returns the working folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Opens a connection, with credentials if the server requires a password.
    pub fn connection(&self) -> Connection {
        self.try_connection().unwrap()
    }

    fn try_connection(&self) -> RedisResult<Connection> {
        let login = self.password.as_ref().map_or_else(String::new, |password| format!(":{password}@"));
        // Without `CLIENT SETINFO`, which would appear in `INFO commandstats`.
        let info = format!("redis://{login}{}", self.address).into_connection_info()?;
        let settings = info.redis_settings().clone().set_skip_set_lib_name();
        let client = redis::Client::open(info.set_redis_settings(settings))?;
        let connection = client.get_connection_with_timeout(LOOK)?;
        connection.set_read_timeout(Some(LOOK))?;
        Ok(connection)
    }

    /// Runs a command on a new connection.
    ///
    /// # Errors
    /// The error of Redis, or a timeout of two seconds.
    pub fn query<T: FromRedisValue>(&self, command: &[&str]) -> RedisResult<T> {
        let (name, arguments) = command.split_first().expect("a command");
        redis::cmd(name).arg(arguments).query(&mut self.try_connection()?)
    }

    /// Returns the value of a field of `INFO`, such as `connected_clients`.
    pub fn info(&self, field: &str) -> String {
        let info: String = self.query(&["INFO", "everything"]).unwrap();
        let value = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        value.unwrap_or_else(|| panic!("no {field} in {info}")).to_owned()
    }

    /// Returns the reply to a command as redis-cli prints it into a pipe. Arguments that begin with an option other than
    /// `--raw` start redis-cli, which takes 10 ms of CPU time.
    pub fn cli(&self, arguments: &[&str]) -> String {
        let command = arguments.strip_prefix(&["--raw"]).unwrap_or(arguments);
        if !command[0].starts_with('-') {
            return self.query(command).map_or_else(|error| error.to_string(), |value| text(&value));
        }
        let port = self.port.to_string();
        let output = Command::new("redis-cli").args(["-p", &port]).args(arguments).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }
}

/// Returns a reply as text: an element per line.
fn text(value: &Value) -> String {
    match value {
        Value::Nil => String::new(),
        Value::Okay => "OK".to_owned(),
        Value::Int(number) => number.to_string(),
        Value::SimpleString(text) => text.clone(),
        Value::BulkString(bytes) => String::from_utf8(bytes.clone()).unwrap().trim_end().to_owned(),
        Value::Array(elements) => elements.iter().map(text).collect::<Vec<_>>().join("\n"),
        other => panic!("not a reply of RESP2: {other:?}"),
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
    }
}
