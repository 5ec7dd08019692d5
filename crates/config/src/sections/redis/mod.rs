//! `redis:`: one server, Sentinels or a cluster, credentials, and TLS.

pub(crate) mod model;
pub(crate) mod raw;
mod servers;
#[cfg(test)]
mod tests;
mod tls;
mod url;

use std::num::NonZeroUsize;
use std::time::Duration;

use tollgate_limiter::store::redis::{Login, RedisSettings};

use self::servers::FoundServers;
use crate::de::nodes::Nodes;
use crate::de::spanned::Spanned;
use crate::diagnostics::{Diagnostics, reasons};
use crate::sections::redis::model::Redis;
use crate::sections::redis::raw::{RawProtocol, RawRedis};

/// Short, so that a slow Redis does not slow down clients.
const DEFAULT_TIMEOUT: Duration = Duration::from_millis(100);

/// Checks `redis`. Reports errors; `None` if it cannot be used.
pub(crate) fn check(raw: &Spanned<RawRedis>, nodes: &Nodes<'_>, diagnostics: &mut Diagnostics) -> Option<Redis> {
    let redis = &raw.value;
    let timeout = timeout(redis, diagnostics);
    let tls = tls::settings(redis, nodes, diagnostics);
    let found = servers::find(raw, diagnostics);
    let (tls, found) = (tls?, found?);
    let login = credentials(redis, &found, diagnostics);
    let database = database(redis, &found, diagnostics);
    let resp2 = resp2(redis, &found, diagnostics);
    let (servers, tls) = tls::combine(found, tls, diagnostics)?;
    let settings = RedisSettings {
        login: login?,
        database: database?,
        tls,
        resp2: resp2?,
        timeout,
        connections: redis.connections.unwrap_or(NonZeroUsize::MIN),
        batch: redis.batch.unwrap_or(true),
        ..RedisSettings::of(servers)
    };
    if let Err(error) = settings.check() {
        diagnostics.error(raw.span.key(), reasons(&error));
        return None;
    }
    Some(Redis {
        settings,
        hash_keys: redis.hash_keys.unwrap_or(false),
        denial_cache: redis.denial_cache.unwrap_or(true),
        coalesce: redis.coalesce.unwrap_or(true),
    })
}

fn timeout(redis: &RawRedis, diagnostics: &mut Diagnostics) -> Duration {
    let Some(time) = redis.timeout else { return DEFAULT_TIMEOUT };
    if time.value.0.is_zero() {
        diagnostics.error(time.span, "must be longer than 0");
    } else if time.value.0 > Duration::from_secs(1) {
        diagnostics
            .warn(time.span, format!("while Redis hangs, every limited request waits {:?}", time.value.0))
            .help("100ms is the default");
    }
    time.value.0
}

/// Credentials beside the URL.
fn credentials(redis: &RawRedis, found: &FoundServers, diagnostics: &mut Diagnostics) -> Option<Login> {
    let heeded = !found.url_decides(diagnostics);
    let username = redis.username.as_ref().filter(|_| heeded);
    let password = redis.password.as_ref().filter(|_| heeded);
    let login = login(username, password, redis.password_file.as_ref(), diagnostics)?;
    let (named, with_password) = match found {
        FoundServers::Url(url) => (url.has_username, url.has_password),
        _ => (false, false),
    };
    let second = username.filter(|_| named && login.username.is_some()).map(|at| ("user name", at)).or_else(|| {
        let given = password.or(redis.password_file.as_ref());
        given.filter(|_| with_password && login.password.is_some()).map(|at| ("password", at))
    });
    if let Some((what, given)) = second {
        diagnostics.error(given.span.key(), format!("the {what} is already in `url`")).help("remove one of the two");
        return None;
    }
    if let Some(name) = username.filter(|_| login.username.is_some() && login.password.is_none() && !with_password) {
        diagnostics
            .warn(name.span.key(), "`username` without a password: Redis is used without authentication")
            .help("add `password` or `password-file`");
    }
    Some(login)
}

/// User name and password, the latter in the file or in a file of its own. Empty texts count as absent: `${REDIS_PASSWORD:}`.
pub(super) fn login(
    username: Option<&Spanned<String>>,
    password: Option<&Spanned<String>>,
    file: Option<&Spanned<String>>,
    diagnostics: &mut Diagnostics,
) -> Option<Login> {
    let given = |text: Option<&Spanned<String>>| text.map(|text| text.value.clone()).filter(|text| !text.is_empty());
    let password = match (given(password), file) {
        (Some(_), Some(file)) => {
            diagnostics
                .error(file.span.key(), "`password` and `password-file` are both given")
                .help("remove one of them");
            return None;
        }
        (None, Some(file)) => Some(secret(file, diagnostics)?),
        (password, None) => password,
    };
    Some(Login { username: given(username), password })
}

/// Content of a file without the final line break.
fn secret(file: &Spanned<String>, diagnostics: &mut Diagnostics) -> Option<String> {
    let path = file.value.trim();
    match std::fs::read_to_string(path) {
        Ok(text) => {
            let secret = text.trim_end_matches(['\r', '\n']);
            if secret.is_empty() {
                diagnostics.error(file.span, format!("the password file {path} is empty"));
                return None;
            }
            Some(secret.to_owned())
        }
        Err(error) => {
            diagnostics.error(file.span, format!("cannot read the password file {path}: {error}")).help(
                "relative paths start at the working directory; the gateway's user must be able to read the file",
            );
            None
        }
    }
}

fn database(redis: &RawRedis, found: &FoundServers, diagnostics: &mut Diagnostics) -> Option<Option<u32>> {
    let Some(Spanned { value: number, span }) = redis.database.filter(|_| !found.url_decides(diagnostics)) else {
        return Some(None);
    };
    match found {
        FoundServers::Cluster(_) if number > 0 => {
            diagnostics.error(span, format!("a cluster has only database 0, found {number}")).help("remove `database`");
            None
        }
        FoundServers::Url(url) if url.database.is_some_and(|other| other != number) => {
            diagnostics
                .error(span, format!("`database` is {number}, but `url` names another one"))
                .help("remove one of the two");
            None
        }
        FoundServers::Cluster(_) => Some(None),
        _ => Some(Some(number)),
    }
}

fn resp2(redis: &RawRedis, found: &FoundServers, diagnostics: &mut Diagnostics) -> Option<bool> {
    match (redis.protocol, found) {
        (Some(protocol), FoundServers::Url(url)) if url.says_protocol => {
            diagnostics.error(protocol.span.key(), "`protocol` is already in `url`").help("remove one of the two");
            None
        }
        (protocol, _) => Some(protocol.is_some_and(|protocol| protocol.value == RawProtocol::Resp2)),
    }
}
