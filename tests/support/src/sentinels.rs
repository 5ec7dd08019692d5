//! Primary and replicas monitored by sentinels.

use std::time::{Duration, Instant};

use crate::{RedisServer, eventually};

/// Name of the primary in the sentinels.
pub const MASTER: &str = "tollgate";

/// Time without a reply after which a sentinel considers the primary down.
const DOWN_AFTER: Duration = Duration::from_millis(1000);

/// Passwords of the servers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Passwords<'a> {
    /// Password of the primary and its replicas.
    pub data: Option<&'a str>,
    /// Password of the sentinels.
    pub sentinels: Option<&'a str>,
}

/// Primary, two replicas, and three sentinels with a quorum of two. A primary without a reply for a second is replaced.
#[derive(Debug)]
pub struct Sentinels {
    /// The initial primary, then its replicas.
    pub data: Vec<RedisServer>,
    /// Sentinels.
    pub sentinels: Vec<RedisServer>,
}

impl Sentinels {
    /// Starts all servers without passwords.
    pub fn start() -> Self {
        Self::start_with(Passwords::default(), &[])
    }

    /// Starts all servers with passwords, and data servers with further arguments. Waits until all know each other.
    pub fn start_with(passwords: Passwords<'_>, arguments: &[&str]) -> Self {
        let login = passwords.data.map(|password| ["--requirepass", password, "--masterauth", password]);
        let mut arguments: Vec<&str> = [login.as_ref().map_or(&[][..], |login| login), arguments].concat();
        // A replica synchronises immediately, without waiting for further replicas.
        arguments.extend(["--repl-diskless-sync-delay", "0"]);
        let primary = RedisServer::start_with(&arguments);
        let port = primary.port.to_string();
        arguments.extend(["--replicaof", "127.0.0.1", &port]);
        let replicas = [RedisServer::start_with(&arguments), RedisServer::start_with(&arguments)];
        for replica in &replicas {
            eventually("a replica follows", || replica.info("master_link_status") == "up");
        }
        let mut configuration = format!(
            "sentinel monitor {MASTER} 127.0.0.1 {port} 2\nsentinel down-after-milliseconds {MASTER} {}\n\
             sentinel failover-timeout {MASTER} 3000\nsentinel parallel-syncs {MASTER} 2\n",
            DOWN_AFTER.as_millis()
        );
        if let Some(password) = passwords.data {
            configuration.push_str(&format!("sentinel auth-pass {MASTER} {password}\n"));
        }
        if let Some(password) = passwords.sentinels {
            configuration.push_str(&format!("requirepass {password}\nsentinel sentinel-pass {password}\n"));
        }
        let sentinels = (0..3).map(|_| RedisServer::sentinel(&configuration, passwords.sentinels)).collect();
        let [first, second] = replicas;
        let all = Self { data: vec![primary, first, second], sentinels };
        all.wait_complete();
        all
    }

    /// Returns the addresses of the sentinels.
    pub fn addresses(&self) -> Vec<String> {
        self.sentinels.iter().map(|sentinel| sentinel.address.to_string()).collect()
    }

    /// Returns the index in `data` of the primary reported by the sentinels; `None` if they report none or disagree.
    pub fn named_primary(&self) -> Option<usize> {
        let mut named = self.sentinels.iter().filter(|sentinel| sentinel.is_up()).map(|sentinel| {
            let named: Option<(String, u16)> = sentinel.query(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER]).ok()?;
            self.data.iter().position(|server| server.port == named.as_ref().unwrap().1)
        });
        let first = named.next()??;
        named.all(|other| other == Some(first)).then_some(first)
    }

    /// Returns the primary reported by the sentinels.
    pub fn primary(&self) -> &RedisServer {
        &self.data[self.named_primary().expect("the sentinels agree on a primary")]
    }

    /// Waits until all sentinels report another primary than `data[old]` and it has that role. Returns its index and the
    /// duration.
    pub fn other_primary(&self, old: usize) -> (usize, Duration) {
        let start = Instant::now();
        let mut new = old;
        eventually("the sentinels name another primary", || {
            new = self.named_primary().unwrap_or(old);
            new != old && self.data[new].info("role") == "master"
        });
        (new, start.elapsed())
    }

    /// Runs a failover with a healthy primary; returns the index of the new primary.
    pub fn failover(&self) -> usize {
        let old = self.named_primary().expect("the sentinels agree on a primary");
        // Sentinels decline during the previous failover.
        eventually("a sentinel takes the order", || {
            self.sentinels[0].query::<()>(&["SENTINEL", "FAILOVER", MASTER]).is_ok()
        });
        self.other_primary(old).0
    }

    /// Kills all sentinels.
    pub fn kill_sentinels(&mut self) {
        self.sentinels.iter_mut().for_each(RedisServer::kill);
    }

    /// Waits until every sentinel knows the other two and every replica.
    pub fn wait_complete(&self) {
        for sentinel in self.sentinels.iter().filter(|sentinel| sentinel.is_up()) {
            let known = |what: &str| {
                let list: Vec<redis::Value> = sentinel.query(&["SENTINEL", what, MASTER]).unwrap_or_default();
                list.len()
            };
            eventually("a sentinel knows all others", || known("SENTINELS") == 2 && known("REPLICAS") == 2);
            let quorum = || sentinel.query::<String>(&["SENTINEL", "CKQUORUM", MASTER]);
            eventually("a sentinel could act", || quorum().is_ok_and(|text| text.contains("3 usable")));
        }
    }
}
