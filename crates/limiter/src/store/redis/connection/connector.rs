//! Settings translated for the driver.

use std::io;
use std::time::Duration;

use redis::io::tcp::{TcpSettings, socket2::TcpKeepalive};
use redis::{
    ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion, RedisConnectionInfo, RedisError, RedisResult,
};

use super::tls::with_tls;
use crate::store::redis::connection_settings::{
    HostPort, Login, RedisSettings, RedisSettingsError, Sentinel, Servers, Tls,
};

/// Parameters of connections to any of the servers.
pub(crate) struct Connector {
    redis: RedisConnectionInfo,
    tls: Option<Tls>,
}

impl RedisSettings {
    /// Checks what can be checked without a server: the URL, and the TLS files.
    ///
    /// # Errors
    /// As [`RedisClient::start`](super::super::RedisClient::start).
    pub fn check(&self) -> Result<(), RedisSettingsError> {
        Connector::new(self).map(drop)
    }
}

impl Connector {
    /// Creates a connector from `settings`. Also returns the address if there is only one server.
    pub(crate) fn new(settings: &RedisSettings) -> Result<(Self, Option<ConnectionInfo>), RedisSettingsError> {
        if settings.timeout.is_zero() {
            return Err(RedisSettingsError::ZeroTimeout);
        }
        let url = match &settings.servers {
            Servers::One(url) => Some(parse(url)?),
            _ => None,
        };
        let url_settings = url.as_ref().map(|info| info.redis_settings().clone()).unwrap_or_default();
        let resp2 = match &settings.servers {
            Servers::One(url) if url.split_once('?').is_some_and(|(_, query)| query.contains("protocol=")) => {
                url_settings.protocol() == ProtocolVersion::RESP2
            }
            _ => settings.resp2,
        };
        let mut redis = with_login(url_settings, &settings.login)
            .set_protocol(if resp2 { ProtocolVersion::RESP2 } else { ProtocolVersion::RESP3 })
            // `CLIENT SETINFO` of a user without the permission would appear in `ACL LOG` with each connection.
            .set_skip_set_lib_name();
        if let Some(database) = settings.database {
            redis = redis.set_db(database.into());
        }
        let url_uses_tls = url.as_ref().is_some_and(|info| matches!(info.addr(), ConnectionAddr::TcpTls { .. }));
        let tls = settings.tls.clone().or_else(|| url_uses_tls.then(Tls::default));
        let connector = Self { redis, tls };
        let address = url.map(|info| info.addr().clone());
        connector.check_tls(address.clone().unwrap_or(ConnectionAddr::Tcp(String::new(), 0)))?;
        let info = address.map(|address| connector.info(address)).transpose().map_err(bad_url)?;
        Ok((connector, info))
    }

    /// Connector for the Sentinels of `settings`: with their own credentials, and TLS if the servers use it.
    pub(crate) fn for_sentinels(settings: &RedisSettings, sentinel: &Sentinel) -> Self {
        // RESP2, which every Sentinel supports.
        let redis = with_login(RedisConnectionInfo::default(), &sentinel.login).set_skip_set_lib_name();
        Self { redis, tls: settings.tls.clone() }
    }

    /// Driver's parameters for the server at `address`.
    pub(crate) fn connection_info(&self, address: &HostPort) -> RedisResult<ConnectionInfo> {
        self.info(ConnectionAddr::Tcp(address.host.clone(), address.port))
    }

    /// `info` with the certificates that the files hold now.
    pub(crate) fn with_current_certificates(&self, info: &ConnectionInfo) -> RedisResult<ConnectionInfo> {
        match &self.tls {
            None => Ok(info.clone()),
            Some(tls) => with_tls(info, tls).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error).into()),
        }
    }

    /// Returns true if servers send push messages (RESP3).
    pub(crate) fn uses_push(&self) -> bool {
        self.redis.protocol() != ProtocolVersion::RESP2
    }

    pub(crate) fn uses_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Finds invalid TLS settings before anything connects.
    fn check_tls(&self, address: ConnectionAddr) -> Result<(), RedisSettingsError> {
        let Some(tls) = &self.tls else { return Ok(()) };
        with_tls(&address.into_connection_info().map_err(bad_url)?, tls).map(drop)
    }

    fn info(&self, address: ConnectionAddr) -> RedisResult<ConnectionInfo> {
        let tcp = TcpSettings::default()
            // One small write for each call: waiting to fill a packet would cost up to 40 ms.
            .set_nodelay(true)
            .set_keepalive(
                TcpKeepalive::new().with_time(Duration::from_secs(15)).with_interval(Duration::from_secs(5)),
            );
        #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
        let tcp = tcp.set_user_timeout(Duration::from_secs(2));
        let info = address.into_connection_info()?;
        self.with_current_certificates(&info.set_redis_settings(self.redis.clone()).set_tcp_settings(tcp))
    }
}

fn parse(url: &str) -> Result<ConnectionInfo, RedisSettingsError> {
    let info = url.into_connection_info().map_err(bad_url)?;
    match info.addr() {
        ConnectionAddr::TcpTls { insecure: true, .. } => Err(RedisSettingsError::Url {
            reason: "`#insecure` would accept any certificate: name the CA in the TLS settings instead".into(),
        }),
        _ => Ok(info),
    }
}

fn bad_url(error: RedisError) -> RedisSettingsError {
    RedisSettingsError::Url { reason: error.to_string() }
}

fn with_login(mut redis: RedisConnectionInfo, login: &Login) -> RedisConnectionInfo {
    if let Some(username) = &login.username {
        redis = redis.set_username(username);
    }
    if let Some(password) = &login.password {
        redis = redis.set_password(password);
    }
    redis
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    fn info(settings: &RedisSettings) -> Result<ConnectionInfo, RedisSettingsError> {
        Connector::new(settings).map(|(_, info)| info.unwrap())
    }

    #[test]
    fn an_invalid_url_is_rejected_without_repeating_it() {
        for url in ["", "not a url", "http://user:s3cret@host", "redis://user:s3cret@host:port/", "redis://:s3cret@h/x"]
        {
            let text = info(&RedisSettings::new(url)).unwrap_err().to_string();
            assert!(text.starts_with("the URL of redis") && !text.contains("s3cret"), "{text}");
        }
    }

    #[test]
    fn a_zero_timeout_is_rejected() {
        let settings = RedisSettings { timeout: Duration::ZERO, ..RedisSettings::new("redis://localhost") };
        assert!(matches!(info(&settings), Err(RedisSettingsError::ZeroTimeout)));
    }

    #[test]
    fn resp3_is_the_default() {
        let protocol = |settings: RedisSettings| info(&settings).unwrap().redis_settings().protocol();
        let new = RedisSettings::new;
        assert_eq!(protocol(new("redis://localhost")), ProtocolVersion::RESP3);
        assert_eq!(protocol(new("redis://localhost?protocol=resp2")), ProtocolVersion::RESP2);
        assert_eq!(protocol(RedisSettings { resp2: true, ..new("redis://localhost") }), ProtocolVersion::RESP2);
    }

    #[test]
    fn explicit_credentials_override_those_in_the_url() {
        let login = Login { username: None, password: Some("second".into()) };
        let info =
            info(&RedisSettings { login, database: Some(3), ..RedisSettings::new("redis://a:first@h/1") }).unwrap();
        let redis = info.redis_settings();
        assert_eq!((redis.username(), redis.password(), redis.db()), (Some("a"), Some("second"), 3));
    }
}
