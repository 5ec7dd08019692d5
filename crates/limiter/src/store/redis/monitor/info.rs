//! The servers' `INFO`.

use std::time::Duration;

use redis::Value;

use crate::store::redis::client::{RedisClient, Unanswered};
use crate::store::redis::error::StoreError;

/// Figures of a server; `None`: it does not report the figure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerInfo {
    /// Memory in use, in bytes.
    pub used_memory: Option<u64>,
    /// Memory limit in bytes; 0: none.
    pub maxmemory: Option<u64>,
    /// Eviction policy at the memory limit, such as `noeviction`.
    pub maxmemory_policy: Option<String>,
    /// Keys evicted at the memory limit since the server started.
    pub evicted_keys: Option<u64>,
    /// Keys that expired.
    pub expired_keys: Option<u64>,
    /// Connected clients, from all applications.
    pub connected_clients: Option<u64>,
    /// Processor time used, in the kernel and in user space.
    pub cpu: Option<Duration>,
    /// Time spent in scripts and functions.
    pub in_scripts: Option<Duration>,
    /// Commands refused because a script exceeded its time limit (`BUSY`).
    pub refused_busy: Option<u64>,
}

impl RedisClient {
    /// Returns the `INFO` of each connected server, or its error reply, with the server's name. Servers that do not reply
    /// in time are left out. Waits for each at most for the client's timeout.
    pub async fn info(&self) -> Vec<(String, Result<ServerInfo, StoreError>)> {
        let mut cmd = redis::cmd("INFO");
        // Several sections by name need Redis 7.
        cmd.arg("all");
        let mut infos = Vec::new();
        for node in self.topology().nodes() {
            let Some(request) = self.info_request(&node) else { continue };
            let info = match request.run(None, &cmd, |reply| Some(reply.clone())).await {
                Ok(Value::BulkString(text)) => Ok(ServerInfo::parse(&String::from_utf8_lossy(&text))),
                Ok(Value::VerbatimString { text, .. } | Value::SimpleString(text)) => Ok(ServerInfo::parse(&text)),
                Ok(_) => Err(StoreError::Other),
                Err(Unanswered { kind, may_have_run: false }) => Err(kind),
                // No reply.
                Err(_) => continue,
            };
            infos.push((node.name.clone(), info));
        }
        infos
    }
}

impl ServerInfo {
    /// Parses the reply to `INFO all`.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let number = |name: &str| field(name)?.trim().parse().ok();
        let seconds = |name: &str| Duration::try_from_secs_f64(field(name)?.trim().parse().ok()?).ok();
        // The section is present if it has a field that it never lacks.
        let has_commands = text.lines().any(|line| line.starts_with("cmdstat_"));
        let in_scripts = text.lines().filter_map(script_us).fold(0, u64::saturating_add);
        let refused = text.lines().find_map(|line| line.strip_prefix("errorstat_BUSY:count=")?.trim().parse().ok());
        Self {
            used_memory: number("used_memory"),
            maxmemory: number("maxmemory"),
            maxmemory_policy: field("maxmemory_policy").map(|policy| policy.trim().to_owned()),
            evicted_keys: number("evicted_keys"),
            expired_keys: number("expired_keys"),
            connected_clients: number("connected_clients"),
            cpu: seconds("used_cpu_sys").zip(seconds("used_cpu_user")).map(|(sys, user)| sys + user),
            in_scripts: has_commands.then(|| Duration::from_micros(in_scripts)),
            // Reported only after the first.
            refused_busy: refused.or_else(|| has_commands.then_some(0)),
        }
    }

    /// Returns true if the server may evict unexpired keys, and with them their counts.
    #[must_use]
    pub fn may_evict(&self) -> bool {
        self.maxmemory.is_some_and(|bytes| bytes > 0)
            && self.maxmemory_policy.as_ref().is_some_and(|policy| policy != "noeviction")
    }

    /// Returns the share of the processor time since `before` that was spent in scripts. `None`: the server used none,
    /// or restarted.
    #[must_use]
    pub fn script_share(&self, before: &Self) -> Option<f64> {
        let cpu = self.cpu?.checked_sub(before.cpu?)?;
        let in_scripts = self.in_scripts?.checked_sub(before.in_scripts?)?;
        // Script times are wall-clock times, which include waits for a processor.
        (!cpu.is_zero()).then(|| in_scripts.div_duration_f64(cpu).min(1.0))
    }
}

/// Microseconds in `cmdstat_evalsha:calls=1,usec=31,usec_per_call=…`, and in lines of other commands that run scripts.
fn script_us(line: &str) -> Option<u64> {
    let (command, figures) = line.strip_prefix("cmdstat_")?.split_once(':')?;
    ["eval", "evalsha", "eval_ro", "evalsha_ro", "fcall", "fcall_ro"].contains(&command).then_some(())?;
    figures.split(',').find_map(|figure| figure.strip_prefix("usec="))?.parse().ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    const INFO: &str = "# Memory\r\nused_memory:1048576\r\nused_memory_human:1.00M\r\nmaxmemory:2097152\r\n\
        maxmemory_human:2.00M\r\nmaxmemory_policy:allkeys-lru\r\n# Stats\r\nexpired_keys:7\r\nevicted_keys:3\r\n\
        evicted_clients:1\r\nconnected_clients:5\r\nused_cpu_sys:1.250000\r\nused_cpu_user:0.750000\r\n\
        used_cpu_sys_children:9.0\r\n# Commandstats\r\ncmdstat_evalsha:calls=2,usec=400000,usec_per_call=2.0,rejected_calls=0\r\n\
        cmdstat_fcall:calls=1,usec=100000,usec_per_call=1.0\r\ncmdstat_get:calls=9,usec=77,usec_per_call=1.0\r\n\
        cmdstat_script|load:calls=9,usec=88,usec_per_call=1.0\r\n# Errorstats\r\nerrorstat_BUSY:count=4\r\n";

    #[test]
    fn figures_are_read_from_their_own_lines() {
        let info = ServerInfo::parse(INFO);
        assert_eq!((info.used_memory, info.maxmemory, info.evicted_keys), (Some(1 << 20), Some(2 << 20), Some(3)));
        assert_eq!((info.expired_keys, info.connected_clients, info.refused_busy), (Some(7), Some(5), Some(4)));
        assert_eq!((info.cpu, info.in_scripts), (Some(Duration::from_secs(2)), Some(Duration::from_millis(500))));
        assert_eq!(info.maxmemory_policy.as_deref(), Some("allkeys-lru"));
    }

    #[test]
    fn missing_figures_are_none() {
        assert_eq!(
            ServerInfo::parse("# Server\r\nredis_version:7.0.15\r\nused_memory:much\r\n"),
            ServerInfo::default()
        );
        assert_eq!(ServerInfo::parse("cmdstat_get:calls=1,usec=1").refused_busy, Some(0));
    }

    #[test]
    fn keys_may_be_evicted_under_a_memory_limit_and_an_evicting_policy() {
        let evicts = |maxmemory, policy: &str| {
            ServerInfo::parse(&format!("maxmemory:{maxmemory}\r\nmaxmemory_policy:{policy}\r\n")).may_evict()
        };
        assert!(evicts(1, "allkeys-lru") && evicts(1, "volatile-ttl"));
        assert!(!evicts(0, "allkeys-lru") && !evicts(1, "noeviction") && !ServerInfo::default().may_evict());
    }

    #[test]
    fn the_script_share_is_that_of_the_time_between() {
        let at = |cpu, in_scripts| ServerInfo {
            cpu: Some(Duration::from_millis(cpu)),
            in_scripts: Some(Duration::from_millis(in_scripts)),
            ..ServerInfo::default()
        };
        assert_eq!(at(3_000, 600).script_share(&at(1_000, 100)), Some(0.25));
        assert_eq!(at(1_100, 900).script_share(&at(1_000, 100)), Some(1.0));
        assert_eq!(at(1_000, 100).script_share(&at(1_000, 100)), None, "it was idle");
        assert_eq!(at(10, 1).script_share(&at(1_000, 100)), None, "it was restarted");
        assert_eq!(at(10, 1).script_share(&ServerInfo::default()), None);
    }
}
