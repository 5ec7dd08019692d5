//! Settings, as the driver wants them.

use std::io;
use std::time::Duration;

use redis::io::tcp::{TcpSettings, socket2::TcpKeepalive};
use redis::{
    ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion, RedisConnectionInfo, RedisError, RedisResult,
};

use super::settings::{HostPort, Login, RedisSettings, RedisSettingsError, Sentinel, Servers, Tls};
use super::tls::over_tls;

/// How to connect to any of the servers.
pub(super) struct Dial {
    redis: RedisConnectionInfo,
    tls: Option<Tls>,
}

impl Dial {
    /// What `settings` say of all servers, and where the one server is if there is only one.
    pub(super) fn new(settings: &RedisSettings) -> Result<(Self, Option<ConnectionInfo>), RedisSettingsError> {
        if settings.timeout.is_zero() {
            return Err(RedisSettingsError::ZeroTimeout);
        }
        let one = match &settings.servers {
            Servers::One(url) => Some(parse(url)?),
            _ => None,
        };
        let said = one.as_ref().map(|info| info.redis_settings().clone()).unwrap_or_default();
        let wants_resp2 = match &settings.servers {
            Servers::One(url) if url.split_once('?').is_some_and(|(_, query)| query.contains("protocol=")) => {
                said.protocol() == ProtocolVersion::RESP2
            }
            _ => settings.resp2,
        };
        let mut redis = login(said, &settings.login)
            .set_protocol(if wants_resp2 { ProtocolVersion::RESP2 } else { ProtocolVersion::RESP3 })
            .set_lib_name("tollgate", env!("CARGO_PKG_VERSION"));
        if let Some(database) = settings.database {
            redis = redis.set_db(database.into());
        }
        let url_wants_tls = one.as_ref().is_some_and(|info| matches!(info.addr(), ConnectionAddr::TcpTls { .. }));
        let tls = settings.tls.clone().or_else(|| url_wants_tls.then(Tls::default));
        let dial = Self { redis, tls };
        let place = one.map(|info| info.addr().clone());
        dial.try_out(place.clone().unwrap_or(ConnectionAddr::Tcp(String::new(), 0)))?;
        let one = place.map(|place| dial.info(place)).transpose().map_err(bad_url)?;
        Ok((dial, one))
    }

    /// How to connect to the Sentinels of `settings`: with a login of their own, and TLS if the servers have it.
    pub(super) fn to_sentinels(settings: &RedisSettings, sentinel: &Sentinel) -> Self {
        // RESP2, which every Sentinel understands.
        let redis = login(RedisConnectionInfo::default(), &sentinel.login).set_skip_set_lib_name();
        Self { redis, tls: settings.tls.clone() }
    }

    /// How to connect to the server at `address`.
    pub(super) fn to(&self, address: &HostPort) -> RedisResult<ConnectionInfo> {
        self.info(ConnectionAddr::Tcp(address.host.clone(), address.port))
    }

    /// The same as `info`, with the certificates that are in the files now.
    pub(super) fn again(&self, info: &ConnectionInfo) -> RedisResult<ConnectionInfo> {
        match &self.tls {
            None => Ok(info.clone()),
            Some(tls) => over_tls(info, tls).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error).into()),
        }
    }

    pub(super) fn speaks_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Finds out what cannot work before anything connects.
    fn try_out(&self, place: ConnectionAddr) -> Result<(), RedisSettingsError> {
        let Some(tls) = &self.tls else { return Ok(()) };
        over_tls(&place.into_connection_info().map_err(bad_url)?, tls).map(drop)
    }

    fn info(&self, place: ConnectionAddr) -> RedisResult<ConnectionInfo> {
        let tcp = TcpSettings::default()
            // One small write a call: waiting to fill a packet would cost up to 40 ms.
            .set_nodelay(true)
            .set_keepalive(
                TcpKeepalive::new().with_time(Duration::from_secs(15)).with_interval(Duration::from_secs(5)),
            );
        #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
        let tcp = tcp.set_user_timeout(Duration::from_secs(2));
        let info = place.into_connection_info()?;
        self.again(&info.set_redis_settings(self.redis.clone()).set_tcp_settings(tcp))
    }
}

fn parse(url: &str) -> Result<ConnectionInfo, RedisSettingsError> {
    let info = url.into_connection_info().map_err(bad_url)?;
    match info.addr() {
        ConnectionAddr::TcpTls { insecure: true, .. } => Err(RedisSettingsError::Url {
            reason: "`#insecure` would believe any certificate: name the authority in `redis.tls.ca` instead".into(),
        }),
        _ => Ok(info),
    }
}

fn bad_url(error: RedisError) -> RedisSettingsError {
    RedisSettingsError::Url { reason: error.to_string() }
}

fn login(mut redis: RedisConnectionInfo, login: &Login) -> RedisConnectionInfo {
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

    fn one(settings: &RedisSettings) -> Result<ConnectionInfo, RedisSettingsError> {
        Dial::new(settings).map(|(_, one)| one.unwrap())
    }

    #[test]
    fn a_bad_url_is_refused_without_repeating_it() {
        for url in ["", "not a url", "http://user:s3cret@host", "redis://user:s3cret@host:port/", "redis://:s3cret@h/x"]
        {
            let text = one(&RedisSettings::new(url)).unwrap_err().to_string();
            assert!(text.starts_with("`redis.url`") && !text.contains("s3cret"), "{text}");
        }
    }

    #[test]
    fn a_timeout_of_nothing_is_refused() {
        let settings = RedisSettings { timeout: Duration::ZERO, ..RedisSettings::new("redis://localhost") };
        assert!(matches!(one(&settings), Err(RedisSettingsError::ZeroTimeout)));
    }

    #[test]
    fn resp3_is_spoken_unless_told_otherwise() {
        let protocol = |settings: RedisSettings| one(&settings).unwrap().redis_settings().protocol();
        let new = RedisSettings::new;
        assert_eq!(protocol(new("redis://localhost")), ProtocolVersion::RESP3);
        assert_eq!(protocol(new("redis://localhost?protocol=resp2")), ProtocolVersion::RESP2);
        assert_eq!(protocol(RedisSettings { resp2: true, ..new("redis://localhost") }), ProtocolVersion::RESP2);
    }

    #[test]
    fn a_login_beside_the_url_goes_before_the_one_in_it() {
        let login = Login { username: None, password: Some("second".into()) };
        let info =
            one(&RedisSettings { login, database: Some(3), ..RedisSettings::new("redis://a:first@h/1") }).unwrap();
        let redis = info.redis_settings();
        assert_eq!((redis.username(), redis.password(), redis.db()), (Some("a"), Some("second"), 3));
    }
}
