//! One connection to each server that settings name, for a check of the settings.

use redis::aio::MultiplexedConnection;
use redis::{ConnectionAddr, ConnectionInfo, ErrorKind, RedisResult, ServerErrorKind};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::sentinel;
use crate::store::redis::connection::{CONNECT_TIMEOUT, Connector, check_primary, open, pipelined_config};
use crate::store::redis::connection_settings::{HostPort, RedisSettings, Servers};
use crate::store::redis::error::{StoreError, describe};

/// Server that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeFailure {
    /// Its address; the path with port 0 for a socket.
    pub server: HostPort,
    /// Reason.
    pub reason: StoreError,
    /// Command that failed; `None`: no connection was established.
    pub command: Option<&'static str>,
    /// Message of the server, or of the system.
    pub detail: String,
}

/// Script that reads and writes nothing.
const EMPTY_SCRIPT: &str = "return 1";

/// Command that failed, with its error.
type Failed = (Option<&'static str>, redis::RedisError);

impl RedisSettings {
    /// Connects once to each server of the settings, logs in, and sends commands that change nothing: a script with
    /// `runs_scripts`, otherwise `PING`; `CLUSTER SLOTS` to nodes of a cluster. Sentinels are asked for the primary, which is
    /// probed as well. Returns the servers that cannot be used.
    pub async fn probe(&self, runs_scripts: bool) -> Vec<ProbeFailure> {
        let (connector, one) = match Connector::new(self) {
            Ok(connector) => connector,
            // The settings were checked, with their files.
            Err(_) => return Vec::new(),
        };
        let mut probes = JoinSet::new();
        match (&self.servers, one) {
            (Servers::Sentinel(sentinel), _) => {
                let by_sentinel = Connector::for_sentinels(self, sentinel);
                for node in &sentinel.nodes {
                    let info = by_sentinel.connection_info(node);
                    probes.spawn(probe(node.clone(), info, Role::Sentinel(sentinel.master.clone())));
                }
            }
            (Servers::Cluster(nodes), _) => {
                for node in nodes {
                    probes.spawn(probe(node.clone(), connector.connection_info(node), Role::ClusterNode(runs_scripts)));
                }
            }
            (Servers::One(_), Some(info)) => {
                probes.spawn(probe(address(&info), Ok(info), Role::Server(runs_scripts)));
            }
            (Servers::One(_), None) => {}
        }
        let (mut failures, mut primaries) = (Vec::new(), Vec::new());
        while let Some(Ok(result)) = probes.join_next().await {
            match result {
                Ok(Some(primary)) if !primaries.contains(&primary) => primaries.push(primary),
                Ok(_) => {}
                Err(failure) => failures.push(failure),
            }
        }
        for primary in primaries {
            let info = connector.connection_info(&primary);
            failures.extend(probe(primary, info, Role::Primary(runs_scripts)).await.err());
        }
        failures
    }
}

/// Use of a server, which decides on the commands it gets.
enum Role {
    /// One server. Runs scripts if true.
    Server(bool),
    /// The server that a Sentinel names.
    Primary(bool),
    /// Node of a cluster.
    ClusterNode(bool),
    /// Sentinel that is asked for the primary of this name.
    Sentinel(String),
}

/// Probes a server. Returns the primary that a Sentinel names.
async fn probe(
    server: HostPort,
    info: RedisResult<ConnectionInfo>,
    role: Role,
) -> Result<Option<HostPort>, ProbeFailure> {
    let failure = |reason, command, detail| ProbeFailure { server, reason, command, detail };
    let connecting = async { open(&info?, pipelined_config()).await };
    let mut connection = match timeout(CONNECT_TIMEOUT, connecting).await {
        Ok(Ok(connection)) => connection,
        Ok(Err(error)) => return Err(failure(StoreError::classify(&error), None, describe(&error))),
        Err(_) => return Err(failure(StoreError::Timeout, None, no_reply())),
    };
    match timeout(CONNECT_TIMEOUT, ask(&mut connection, role)).await {
        Ok(Ok(primary)) => Ok(primary),
        Ok(Err((command, error))) => Err(failure(StoreError::classify(&error), command, describe(&error))),
        Err(_) => Err(failure(StoreError::Timeout, None, no_reply())),
    }
}

/// Sends the commands of a role.
async fn ask(connection: &mut MultiplexedConnection, role: Role) -> Result<Option<HostPort>, Failed> {
    let runs_scripts = match role {
        Role::Sentinel(master) => {
            let primary = sentinel::query(connection, &master).await.map_err(|error| (Some("SENTINEL"), error))?;
            return Ok(Some(primary.server));
        }
        Role::Server(runs_scripts) => runs_scripts,
        Role::Primary(runs_scripts) => {
            check_primary(connection).await.map_err(|error| (Some("ROLE"), error))?;
            runs_scripts
        }
        Role::ClusterNode(runs_scripts) => {
            let slots = redis::cmd("CLUSTER").arg("SLOTS").exec_async(connection).await;
            slots.map_err(|error| (Some("CLUSTER SLOTS"), error))?;
            runs_scripts
        }
    };
    if !runs_scripts {
        return redis::cmd("PING").exec_async(connection).await.map(|()| None).map_err(|error| (Some("PING"), error));
    }
    let unknown = redis::cmd("EVALSHA").arg("0".repeat(40)).arg(0).exec_async(connection).await;
    if let Err(error) = unknown
        && error.kind() != ErrorKind::Server(ServerErrorKind::NoScript)
    {
        return Err((Some("EVALSHA"), error));
    }
    match redis::cmd("EVAL").arg(EMPTY_SCRIPT).arg(0).exec_async(connection).await {
        // A user with `SCRIPT LOAD` needs no `EVAL`.
        Err(error) if StoreError::classify(&error) == StoreError::NoPerm => {
            let loaded = redis::cmd("SCRIPT").arg("LOAD").arg(EMPTY_SCRIPT).exec_async(connection).await;
            loaded.map(|()| None).map_err(|_| (Some("EVAL"), error))
        }
        result => result.map(|()| None).map_err(|error| (Some("EVAL"), error)),
    }
}

fn no_reply() -> String {
    format!("no reply within {CONNECT_TIMEOUT:?}")
}

/// Returns the address of a server named by a URL.
fn address(info: &ConnectionInfo) -> HostPort {
    match info.addr() {
        ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
            HostPort { host: host.clone(), port: *port }
        }
        socket => HostPort { host: socket.to_string(), port: 0 },
    }
}
