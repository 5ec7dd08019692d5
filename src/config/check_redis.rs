//! `redis:`: one URL, or Spring's parts of one.

use std::fmt::Write as _;
use std::num::NonZeroUsize;
use std::time::Duration;

use super::model::{Redis, Secret};
use super::problem::Sink;
use super::raw_server::RawRedis;
use super::spot::Spot;
use super::yaml::Origin;

/// A limiter must not be what a client waits for.
const DEFAULT_TIMEOUT: Duration = Duration::from_millis(100);

/// The Redis that `raw` means; `None` when it cannot be used, which `sink` then knows.
pub(crate) fn check(raw: &Spot<RawRedis>, sink: &mut Sink) -> Option<Redis> {
    let redis = &raw.value;
    for (part, name) in [(redis.cluster, "Redis Cluster"), (redis.sentinel, "Redis Sentinel")] {
        if let Some(part) = part {
            sink.error(part.0.key(), format!("{name} is not supported yet")).help("name a single server with `url`");
            return None;
        }
    }
    let timeout = redis.timeout.map_or(DEFAULT_TIMEOUT, |time| time.value.0);
    if let Some(time) = redis.timeout {
        if timeout.is_zero() {
            sink.error(time.origin, "must be longer than 0");
        } else if timeout > Duration::from_secs(1) {
            sink.warn(time.origin, format!("while Redis hangs every limited request waits {timeout:?}"))
                .help("100ms is the default");
        }
    }
    let url = match &redis.url {
        Some(url) => {
            let at = raw.origin.key();
            if redis.host.is_some()
                || redis.port.is_some()
                || redis.password.is_some()
                || redis.username.is_some()
                || redis.database.is_some()
            {
                sink.warn(at, "`url` wins over host, port, username, password and database").help("remove them");
            }
            check_url(url.value.trim(), url.origin, sink)?;
            url.value.trim().to_owned()
        }
        None => joined(redis, raw.origin, sink)?,
    };
    Some(Redis {
        url: Secret::new(url),
        timeout,
        connections: redis.connections.unwrap_or(NonZeroUsize::MIN),
        hash_keys: redis.hash_keys.unwrap_or(false),
        denial_cache: redis.denial_cache.unwrap_or(true),
        coalesce: redis.coalesce.unwrap_or(true),
    })
}

fn check_url(url: &str, at: Origin, sink: &mut Sink) -> Option<()> {
    let shown = "redis://127.0.0.1:6379";
    let Some((scheme, rest)) = url.split_once("://") else {
        sink.error(at, "`redis.url` has no scheme").help(format!("write it like `{shown}`"));
        return None;
    };
    match scheme {
        "redis" => {}
        "rediss" => {
            sink.error(at, "TLS to Redis (`rediss://`) is not supported yet")
                .help("use `redis://` within a trusted network");
            return None;
        }
        "redis+unix" | "unix" => {
            sink.error(at, "unix sockets to Redis are not supported yet").help(format!("use `{shown}`"));
            return None;
        }
        other => {
            sink.error(at, format!("`redis.url` must begin with redis://, not {other}://"))
                .help(format!("write it like `{shown}`"));
            return None;
        }
    }
    let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
    let host_port = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let database = database.split('?').next().unwrap_or_default();
    // The password is in there: the message must not repeat the URL.
    let uri = format!("http://{host_port}/");
    let host = uri.parse::<http::Uri>().ok().and_then(|uri| uri.host().map(str::to_owned));
    let port_fits =
        host_port.rsplit_once(':').is_none_or(|(_, port)| port.ends_with(']') || port.parse::<u16>().is_ok());
    if host.is_none_or(|host| host.is_empty()) || !port_fits {
        sink.error(at, format!("`redis.url` has no usable host and port in `{host_port}`"))
            .help(format!("write it like `{shown}`"));
        return None;
    }
    if !database.is_empty() && database.parse::<u32>().is_err() {
        sink.error(at, format!("`redis.url` must end in the number of a database, found `{database}`"))
            .help(format!("write it like `{shown}/0`"));
        return None;
    }
    Some(())
}

/// One URL from Spring's parts.
fn joined(redis: &RawRedis, at: Origin, sink: &mut Sink) -> Option<String> {
    let host = redis.host.as_ref().map_or("localhost", |host| host.value.trim());
    let mut url = String::from("redis://");
    let password = redis.password.as_deref().filter(|password| !password.is_empty());
    let username = redis.username.as_deref().filter(|username| !username.is_empty());
    if username.is_some() || password.is_some() {
        url.push_str(&encode(username.unwrap_or_default()));
        url.push(':');
        url.push_str(&encode(password.unwrap_or_default()));
        url.push('@');
    }
    if host.contains(':') && !host.starts_with('[') {
        let _ = write!(url, "[{host}]");
    } else {
        url.push_str(host);
    }
    let _ = write!(url, ":{}/{}", redis.port.unwrap_or(6379), redis.database.unwrap_or(0));
    check_url(&url, redis.host.as_ref().map_or(at, |host| host.origin), sink)?;
    Some(url)
}

/// Percent-encodes what is not unreserved (RFC 3986 §2.3).
fn encode(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
        out
    })
}
