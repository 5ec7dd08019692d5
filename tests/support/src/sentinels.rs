//! A primary and its replicas under the eyes of sentinels.

use std::time::{Duration, Instant};

use crate::{RedisServer, eventually};

/// What sentinels call the primary.
pub const MASTER: &str = "tollgate";

/// How long a primary must be silent before a sentinel thinks it down.
const DOWN_AFTER: Duration = Duration::from_millis(1000);

/// What servers want to hear before they answer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Passwords<'a> {
    /// Of the primary and its replicas.
    pub data: Option<&'a str>,
    /// Of the sentinels.
    pub sentinels: Option<&'a str>,
}

/// A primary, two replicas and three sentinels of which two must agree. A primary that is silent for a second is
/// replaced.
#[derive(Debug)]
pub struct Sentinels {
    /// The primary at first, then its replicas.
    pub data: Vec<RedisServer>,
    /// Those who watch.
    pub sentinels: Vec<RedisServer>,
}

impl Sentinels {
    /// Starts them, without passwords.
    pub fn start() -> Self {
        Self::start_with(Passwords::default(), &[])
    }

    /// Starts them with passwords, the data servers with further arguments; waits until all know each other.
    pub fn start_with(passwords: Passwords<'_>, arguments: &[&str]) -> Self {
        let login = passwords.data.map(|password| ["--requirepass", password, "--masterauth", password]);
        let mut arguments: Vec<&str> = [login.as_ref().map_or(&[][..], |login| login), arguments].concat();
        // A replica asks for the data at once, and is not made to wait for others that may want it as well.
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

    /// Where the sentinels listen.
    pub fn addresses(&self) -> Vec<String> {
        self.sentinels.iter().map(|sentinel| sentinel.address.to_string()).collect()
    }

    /// The place in `data` of the primary that the sentinels name; `None` while they name none or disagree.
    pub fn named_primary(&self) -> Option<usize> {
        let mut named = self.sentinels.iter().filter(|sentinel| sentinel.is_up()).map(|sentinel| {
            let named: Option<(String, u16)> = sentinel.query(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER]).ok()?;
            self.data.iter().position(|server| server.port == named.as_ref().unwrap().1)
        });
        let first = named.next()??;
        named.all(|other| other == Some(first)).then_some(first)
    }

    /// The primary that the sentinels name.
    pub fn primary(&self) -> &RedisServer {
        &self.data[self.named_primary().expect("the sentinels agree on a primary")]
    }

    /// Waits until all sentinels name another primary than `data[old]` and it says that it is one; returns its place and
    /// how long it took.
    pub fn other_primary(&self, old: usize) -> (usize, Duration) {
        let start = Instant::now();
        let mut new = old;
        eventually("the sentinels name another primary", || {
            new = self.named_primary().unwrap_or(old);
            new != old && self.data[new].info("role") == "master"
        });
        (new, start.elapsed())
    }

    /// Orders a failover, with the primary in order; returns the place of the new one.
    pub fn failover(&self) -> usize {
        let old = self.named_primary().expect("the sentinels agree on a primary");
        // They decline while they still busy themselves with the last one.
        eventually("a sentinel takes the order", || {
            self.sentinels[0].query::<()>(&["SENTINEL", "FAILOVER", MASTER]).is_ok()
        });
        self.other_primary(old).0
    }

    /// Kills all sentinels.
    pub fn kill_sentinels(&mut self) {
        self.sentinels.iter_mut().for_each(RedisServer::kill);
    }

    /// Waits until every sentinel knows the two others and every replica, and could act.
    pub fn wait_complete(&self) {
        for sentinel in self.sentinels.iter().filter(|sentinel| sentinel.is_up()) {
            let known = |what: &str| {
                let list: Vec<redis::Value> = sentinel.query(&["SENTINEL", what, MASTER]).unwrap_or_default();
                list.len()
            };
            eventually("a sentinel knows everybody", || known("SENTINELS") == 2 && known("REPLICAS") == 2);
            let quorum = || sentinel.query::<String>(&["SENTINEL", "CKQUORUM", MASTER]);
            eventually("a sentinel could act", || quorum().is_ok_and(|text| text.contains("3 usable")));
        }
    }
}
