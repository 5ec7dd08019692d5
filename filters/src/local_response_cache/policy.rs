//! Caching decisions without I/O: storable responses, lifetimes, conditional requests (RFC 9111, RFC 9110 §13).

use std::time::{Duration, SystemTime};

use http::header::{
    AGE, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, DATE, ETAG, EXPIRES,
    HeaderMap, HeaderName, IF_MODIFIED_SINCE, IF_NONE_MATCH, LAST_MODIFIED, RANGE, SET_COOKIE, VARY,
};
use http::{Method, StatusCode};

use super::cache_control::{Directives, delta_seconds, elements};
use super::reuse::NoCache;
use crate::http_date::parse_date;

/// The use of the cache for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CacheUse {
    /// Respond from the cache, or store the response. With a `max_age`, a stored response must be younger.
    Read { max_age: Option<Duration> },
    /// Forward the request and store the response.
    Update,
    /// Do not use the cache.
    Bypass,
    /// Forward the request; if it succeeds, invalidate the stored responses of the resource.
    Invalidate,
}

/// Decides how a request uses the cache.
pub(super) fn cache_use(method: &Method, headers: &HeaderMap, has_body: bool, no_cache: NoCache) -> CacheUse {
    if !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE) {
        return CacheUse::Invalidate;
    }
    let is_get = *method == Method::GET;
    let directives = Directives::parse(headers);
    if has_body || !(is_get || *method == Method::HEAD) || directives.no_store || directives.private {
        return CacheUse::Bypass;
    }
    match (no_cache, directives.no_cache) {
        (NoCache::Revalidate, true) => CacheUse::Read { max_age: Some(Duration::ZERO) },
        (NoCache::Revalidate, false) => CacheUse::Read { max_age: directives.max_age },
        (NoCache::Bypass | NoCache::Update, false) => CacheUse::Read { max_age: None },
        (NoCache::Update, true) if is_get => CacheUse::Update,
        (NoCache::Bypass | NoCache::Update, true) => CacheUse::Bypass,
    }
}

/// Returns the lifetime of a response to a request with the fields `request`: the lifetime that the upstream states, at
/// most `time_to_live`. `None` if the response must not be stored. A lifetime of zero is for responses that can be
/// revalidated.
pub(super) fn lifetime(
    request: &HeaderMap,
    status: StatusCode,
    headers: &HeaderMap,
    time_to_live: Duration,
    now: SystemTime,
) -> Option<Duration> {
    let is_storable = match status {
        StatusCode::OK | StatusCode::MOVED_PERMANENTLY => true,
        StatusCode::PARTIAL_CONTENT => request.contains_key(RANGE),
        _ => false,
    };
    let directives = Directives::parse(headers);
    let is_forbidden = directives.no_store
        || directives.private
        // The new cookie belongs to one client. The cache key has only the cookies of the request.
        || headers.contains_key(SET_COOKIE)
        || elements(headers, &VARY).any(|name| name == b"*");
    if !is_storable || is_forbidden {
        return None;
    }
    let stated = directives.s_maxage.or(directives.max_age).or_else(|| expires(headers, now));
    let lifetime = match stated {
        _ if directives.no_cache => Duration::ZERO,
        Some(stated) => stated.saturating_sub(age(headers)).min(time_to_live),
        None => time_to_live,
    };
    let has_validator = headers.contains_key(ETAG) || headers.contains_key(LAST_MODIFIED);
    (lifetime > Duration::ZERO || has_validator).then_some(lifetime)
}

/// Returns the age that the upstream states.
pub(super) fn age(headers: &HeaderMap) -> Duration {
    headers.get(AGE).and_then(|age| delta_seconds(age.as_bytes().trim_ascii())).unwrap_or_default()
}

/// Returns the lifetime according to `Expires` (RFC 9111 §5.3). An invalid date is in the past.
fn expires(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let expires = headers.get(EXPIRES)?;
    let date = headers.get(DATE).and_then(|date| parse_date(date.to_str().ok()?));
    let unix_now = now.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |passed| passed.as_secs());
    let now = date.unwrap_or(i64::try_from(unix_now).unwrap_or(i64::MAX));
    let lifetime = expires.to_str().ok().and_then(parse_date).map_or(0, |at| at.saturating_sub(now));
    Some(Duration::from_secs(u64::try_from(lifetime).unwrap_or(0)))
}

/// Returns true if the conditions in `request` say that the client has the stored response (RFC 9110 §13.2.2).
pub(super) fn is_not_modified(request: &HeaderMap, status: StatusCode, stored: &HeaderMap) -> bool {
    if status != StatusCode::OK {
        return false;
    }
    if request.contains_key(IF_NONE_MATCH) {
        let Some(tag) = stored.get(ETAG).map(|tag| opaque_tag(tag.as_bytes())) else { return false };
        // Tags are quoted, so a comma in a tag does not split.
        return elements(request, &IF_NONE_MATCH).any(|element| element == b"*" || opaque_tag(element) == tag);
    }
    let date =
        |headers: &HeaderMap, name: &HeaderName| headers.get(name).and_then(|date| parse_date(date.to_str().ok()?));
    match (date(request, &IF_MODIFIED_SINCE), date(stored, &LAST_MODIFIED)) {
        (Some(since), Some(modified)) => modified <= since,
        _ => false,
    }
}

/// Removes the mark of a weak tag, for the weak comparison.
fn opaque_tag(tag: &[u8]) -> &[u8] {
    let tag = tag.trim_ascii();
    tag.strip_prefix(b"W/").unwrap_or(tag)
}

/// Fields that describe the body; those of the stored body are kept.
const BODY_HEADERS: [HeaderName; 5] = [CONTENT_LENGTH, CONTENT_TYPE, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_RANGE];

/// Removes the fields that a 304 does not have (RFC 9110 §15.4.5).
pub(super) fn remove_body_headers(headers: &mut HeaderMap) {
    BODY_HEADERS.iter().for_each(|name| drop(headers.remove(name)));
}

/// Returns the `stored` fields, updated with those of a 304 (RFC 9111 §3.2).
pub(super) fn update_headers(stored: &HeaderMap, not_modified: &HeaderMap) -> HeaderMap {
    let mut headers = stored.clone();
    for name in not_modified.keys().filter(|name| !BODY_HEADERS.contains(name)) {
        headers.remove(name);
        for value in not_modified.get_all(name) {
            let _ = headers.try_append(name, value.clone());
        }
    }
    if !not_modified.contains_key(AGE) {
        headers.remove(AGE);
    }
    headers
}

/// Replaces the client's conditions by the validators of the stored response.
pub(super) fn set_conditions(request: &mut HeaderMap, stored: &HeaderMap) {
    for (condition, validator) in [(IF_NONE_MATCH, ETAG), (IF_MODIFIED_SINCE, LAST_MODIFIED)] {
        request.remove(&condition);
        if let Some(value) = stored.get(validator) {
            let _ = request.try_insert(condition, value.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use http::HeaderValue;

    use super::*;

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let line = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        lines.iter().map(line).collect()
    }

    const TTL: Duration = Duration::from_secs(300);

    #[test]
    fn the_lifetime_is_the_shorter_of_both_limits() {
        let tag = ("etag", "\"x\"");
        let since = ("date", "Sun, 06 Nov 1994 08:49:37 GMT");
        for (lines, expected) in [
            (vec![], Some(300)),
            (vec![("cache-control", "max-age=60")], Some(60)),
            (vec![("cache-control", "max-age=6000")], Some(300)),
            (vec![("cache-control", "max-age=60, s-maxage=90")], Some(90)),
            (vec![("cache-control", "max-age=60"), ("age", "20")], Some(40)),
            (vec![("cache-control", "max-age=60"), ("age", "x")], Some(60)),
            (vec![("cache-control", "max-age=60"), ("age", "18446744073709551615")], None),
            (vec![("cache-control", "max-age=99999999999999999999")], Some(300)),
            (vec![("cache-control", "max-age=-1")], None),
            (vec![("cache-control", "max-age=0")], None),
            (vec![("cache-control", "max-age=0"), tag], Some(0)),
            (vec![("cache-control", "no-cache"), tag], Some(0)),
            (vec![("cache-control", "no-cache")], None),
            (vec![("cache-control", "no-store"), tag], None),
            (vec![("cache-control", "no-cache, no-store, max-age=0, must-revalidate"), tag], None),
            (vec![("cache-control", "private"), tag], None),
            (vec![("cache-control", "max-age=60, private")], None),
            (vec![("set-cookie", "a=b")], None),
            (vec![("vary", "*")], None),
            (vec![("vary", "accept, *")], None),
            (vec![("vary", "accept")], Some(300)),
            (vec![since, ("expires", "Sun, 06 Nov 1994 08:50:37 GMT")], Some(60)),
            (vec![since, ("expires", "Sunday, 06-Nov-94 08:50:37 GMT")], Some(60)),
            (vec![since, ("expires", "Sun Nov  6 08:50:37 1994")], Some(60)),
            (vec![since, ("expires", "Sun, 06 Nov 1994 08:49:00 GMT")], None),
            (vec![since, ("expires", "0")], None),
            (vec![("expires", "Thu, 01 Jan 1970 00:01:00 GMT")], Some(60)),
        ] {
            let found = lifetime(&HeaderMap::new(), StatusCode::OK, &headers(&lines), TTL, SystemTime::UNIX_EPOCH);
            assert_eq!(found, expected.map(Duration::from_secs), "{lines:?}");
        }
    }

    #[test]
    fn the_statuses_of_spring_are_stored_and_206_only_for_range_requests() {
        let is_stored = |status: u16, request: &[(&'static str, &'static str)]| {
            let status = StatusCode::from_u16(status).unwrap();
            lifetime(&headers(request), status, &HeaderMap::new(), TTL, SystemTime::UNIX_EPOCH).is_some()
        };
        let stored: Vec<u16> = (200..600).filter(|status| is_stored(*status, &[])).collect();
        assert_eq!(stored, [200, 301]);
        assert!(is_stored(206, &[("range", "bytes=0-1")]));
    }

    #[test]
    fn methods_bodies_and_directives_decide_the_use_of_the_cache() {
        let decide = |method: &str, cache_control: &'static str, has_body: bool, no_cache: NoCache| {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            cache_use(&method, &headers(&[("cache-control", cache_control)]), has_body, no_cache)
        };
        let read = |secs: Option<u64>| CacheUse::Read { max_age: secs.map(Duration::from_secs) };
        for (method, cache_control, has_body, no_cache, expected) in [
            ("GET", "", false, NoCache::Bypass, read(None)),
            ("HEAD", "", false, NoCache::Bypass, read(None)),
            ("GET", "max-age=0", false, NoCache::Bypass, read(None)),
            ("GET", "max-age=0", false, NoCache::Update, read(None)),
            ("GET", "max-age=0", false, NoCache::Revalidate, read(Some(0))),
            ("HEAD", "max-age=9, x", false, NoCache::Revalidate, read(Some(9))),
            ("GET", "max-age=9, no-cache", false, NoCache::Revalidate, read(Some(0))),
            ("GET", "", false, NoCache::Revalidate, read(None)),
            ("GET", "no-store, no-cache", false, NoCache::Revalidate, CacheUse::Bypass),
            ("GET", "", true, NoCache::Bypass, CacheUse::Bypass),
            ("GET", "no-store", false, NoCache::Update, CacheUse::Bypass),
            ("GET", "max-age=1, no-store", false, NoCache::Update, CacheUse::Bypass),
            ("GET", "private", false, NoCache::Bypass, CacheUse::Bypass),
            ("GET", "no-cache", false, NoCache::Bypass, CacheUse::Bypass),
            ("GET", "no-cache", false, NoCache::Update, CacheUse::Update),
            ("HEAD", "no-cache", false, NoCache::Update, CacheUse::Bypass),
            ("OPTIONS", "", false, NoCache::Bypass, CacheUse::Bypass),
            ("POST", "", false, NoCache::Revalidate, CacheUse::Invalidate),
            ("BREW", "no-store", true, NoCache::Bypass, CacheUse::Invalidate),
        ] {
            let found = decide(method, cache_control, has_body, no_cache);
            assert_eq!(found, expected, "{method} {cache_control} {has_body} {no_cache:?}");
        }
    }

    #[test]
    fn conditions_are_compared_with_the_stored_validators() {
        let stored = headers(&[("etag", "\"a,b\""), ("last-modified", "Sun, 06 Nov 1994 08:49:37 GMT")]);
        for (condition, expected) in [
            (("if-none-match", "\"a,b\""), true),
            (("if-none-match", "\"x\", W/\"a,b\""), true),
            (("if-none-match", "*"), true),
            (("if-none-match", "\"a\""), false),
            (("if-none-match", "a,b"), false),
            (("if-modified-since", "Sun, 06 Nov 1994 08:49:37 GMT"), true),
            (("if-modified-since", "Sunday, 06-Nov-94 08:49:38 GMT"), true),
            (("if-modified-since", "Sun, 06 Nov 1994 08:49:36 GMT"), false),
            (("if-modified-since", "yesterday"), false),
            (("accept", "*/*"), false),
        ] {
            assert_eq!(is_not_modified(&headers(&[condition]), StatusCode::OK, &stored), expected, "{condition:?}");
        }
        let both = headers(&[("if-none-match", "\"x\""), ("if-modified-since", "Sun, 06 Nov 1994 08:49:37 GMT")]);
        assert!(!is_not_modified(&both, StatusCode::OK, &stored), "tags take precedence over dates");
        assert!(!is_not_modified(&headers(&[("if-none-match", "*")]), StatusCode::MOVED_PERMANENTLY, &stored));
    }

    #[test]
    fn a_304_updates_the_stored_fields_except_those_of_the_body() {
        let stored =
            headers(&[("etag", "\"a\""), ("content-type", "text/plain"), ("x-a", "1"), ("x-b", "1"), ("age", "9")]);
        let new = headers(&[("etag", "W/\"a\""), ("content-type", "text/html"), ("x-b", "2"), ("x-b", "3")]);
        let expected =
            headers(&[("etag", "W/\"a\""), ("content-type", "text/plain"), ("x-a", "1"), ("x-b", "2"), ("x-b", "3")]);
        assert_eq!(update_headers(&stored, &new), expected);
    }
}
