//! `redis:`: one server, Sentinels or a cluster, who logs in, and TLS.

mod servers;
#[cfg(test)]
mod tests;
mod tls;
mod url;

use std::num::NonZeroUsize;
use std::time::Duration;

use tollgate_limiter::store::redis::{Login, RedisSettings};

use self::servers::Found;
use super::check::Nodes;
use super::model::Redis;
use super::problem::{Sink, reasons};
use super::raw_server::{RawProtocol, RawRedis};
use super::spot::Spot;

/// A limiter must not be what a client waits for.
const DEFAULT_TIMEOUT: Duration = Duration::from_millis(100);

/// The Redis that `raw` means; `None` when it cannot be used, which `sink` then knows.
pub(crate) fn check(raw: &Spot<RawRedis>, nodes: &Nodes<'_>, sink: &mut Sink) -> Option<Redis> {
    let redis = &raw.value;
    let timeout = timeout(redis, sink);
    let said = tls::said(redis, nodes, sink);
    let found = servers::find(raw, sink);
    let (said, found) = (said?, found?);
    let login = beside(redis, &found, sink);
    let database = database(redis, &found, sink);
    let resp2 = resp2(redis, &found, sink);
    let (servers, tls) = tls::agree(found, said, sink)?;
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
        sink.error(raw.origin.key(), reasons(&error));
        return None;
    }
    Some(Redis {
        settings,
        hash_keys: redis.hash_keys.unwrap_or(false),
        denial_cache: redis.denial_cache.unwrap_or(true),
        coalesce: redis.coalesce.unwrap_or(true),
    })
}

fn timeout(redis: &RawRedis, sink: &mut Sink) -> Duration {
    let Some(time) = redis.timeout else { return DEFAULT_TIMEOUT };
    if time.value.0.is_zero() {
        sink.error(time.origin, "must be longer than 0");
    } else if time.value.0 > Duration::from_secs(1) {
        sink.warn(time.origin, format!("while Redis hangs every limited request waits {:?}", time.value.0))
            .help("100ms is the default");
    }
    time.value.0
}

/// Who logs in, besides what a URL says of it.
fn beside(redis: &RawRedis, found: &Found, sink: &mut Sink) -> Option<Login> {
    let heeded = !found.says_all(sink);
    let username = redis.username.as_ref().filter(|_| heeded);
    let password = redis.password.as_ref().filter(|_| heeded);
    let login = login(username, password, redis.password_file.as_ref(), sink)?;
    let (named, with_password) = match found {
        Found::Url(url) => (url.has_username, url.has_password),
        _ => (false, false),
    };
    let second = username.filter(|_| named && login.username.is_some()).map(|at| ("user name", at)).or_else(|| {
        let given = password.or(redis.password_file.as_ref());
        given.filter(|_| with_password && login.password.is_some()).map(|at| ("password", at))
    });
    if let Some((what, given)) = second {
        sink.error(given.origin.key(), format!("`url` has a {what} already")).help("remove one of the two");
        return None;
    }
    if let Some(name) = username.filter(|_| login.username.is_some() && login.password.is_none() && !with_password) {
        sink.warn(name.origin.key(), "`username` without a password: nobody logs in")
            .help("add `password` or `password-file`");
    }
    Some(login)
}

/// A user name and a password, given or in a file. Empty ones count as absent: `${REDIS_PASSWORD:}`.
pub(super) fn login(
    username: Option<&Spot<String>>,
    password: Option<&Spot<String>>,
    file: Option<&Spot<String>>,
    sink: &mut Sink,
) -> Option<Login> {
    let given = |text: Option<&Spot<String>>| text.map(|text| text.value.clone()).filter(|text| !text.is_empty());
    let password = match (given(password), file) {
        (Some(_), Some(file)) => {
            sink.error(file.origin.key(), "`password` and `password-file` are both given").help("remove one of them");
            return None;
        }
        (None, Some(file)) => Some(secret(file, sink)?),
        (password, None) => password,
    };
    Some(Login { username: given(username), password })
}

/// What a file holds, without the line's end that editors put there.
fn secret(file: &Spot<String>, sink: &mut Sink) -> Option<String> {
    let path = file.value.trim();
    match std::fs::read_to_string(path) {
        Ok(text) => {
            let secret = text.trim_end_matches(['\r', '\n']);
            if secret.is_empty() {
                sink.error(file.origin, format!("the password file {path} is empty"));
                return None;
            }
            Some(secret.to_owned())
        }
        Err(error) => {
            sink.error(file.origin, format!("cannot read the password file {path}: {error}"))
                .help("a path starts at the working directory; the user that runs the gateway must be able to read it");
            None
        }
    }
}

fn database(redis: &RawRedis, found: &Found, sink: &mut Sink) -> Option<Option<u32>> {
    let Some(Spot { value: number, origin }) = redis.database.filter(|_| !found.says_all(sink)) else {
        return Some(None);
    };
    match found {
        Found::Cluster(_) if number > 0 => {
            sink.error(origin, format!("a cluster has only database 0, not {number}")).help("remove `database`");
            None
        }
        Found::Url(url) if url.database.is_some_and(|other| other != number) => {
            sink.error(origin, format!("`database` is {number}, and `url` names another"))
                .help("remove one of the two");
            None
        }
        Found::Cluster(_) => Some(None),
        _ => Some(Some(number)),
    }
}

fn resp2(redis: &RawRedis, found: &Found, sink: &mut Sink) -> Option<bool> {
    match (redis.protocol, found) {
        (Some(protocol), Found::Url(url)) if url.says_protocol => {
            sink.error(protocol.origin.key(), "`url` says which `protocol` already").help("remove one of the two");
            None
        }
        (protocol, _) => Some(protocol.is_some_and(|protocol| protocol.value == RawProtocol::Resp2)),
    }
}
