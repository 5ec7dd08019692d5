//! What may be kept, for how long, and what a client has already: pure decisions (RFC 9111, RFC 9110 §13).

use std::time::{Duration, SystemTime};

use http::header::{
    AGE, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, DATE, ETAG, EXPIRES,
    HeaderMap, HeaderName, IF_MODIFIED_SINCE, IF_NONE_MATCH, LAST_MODIFIED, RANGE, SET_COOKIE, VARY,
};
use http::{Method, StatusCode};

use super::directives::{Directives, delta_seconds, elements};

/// What the cache does with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// Answers it, or keeps its answer.
    Cached,
    /// Keeps its answer, which must be a new one.
    Renews,
    /// Nothing.
    Passes,
    /// Nothing, but forgets what is kept of the resource when it succeeds.
    Changes,
}

/// What the cache does with a request that has no body, or else has one. `renews`: a client that asks for a new answer
/// renews the kept one for all.
pub(super) fn use_for(method: &Method, headers: &HeaderMap, has_body: bool, renews: bool) -> Use {
    if !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE) {
        return Use::Changes;
    }
    let is_get = *method == Method::GET;
    let directives = Directives::of(headers);
    if has_body || !(is_get || *method == Method::HEAD) || directives.no_store || directives.private {
        return Use::Passes;
    }
    match (directives.no_cache, renews && is_get) {
        (false, _) => Use::Cached,
        (true, true) => Use::Renews,
        (true, false) => Use::Passes,
    }
}

/// How long an upstream's answer to a request with the fields `asked` is fresh: as long as the upstream says, at most
/// `time_to_live`. `None`: it may not be kept at all. An answer that is never fresh is kept only where the upstream
/// can be asked whether it still holds.
pub(super) fn lifetime(
    asked: &HeaderMap,
    status: StatusCode,
    headers: &HeaderMap,
    time_to_live: Duration,
    now: SystemTime,
) -> Option<Duration> {
    let understood = match status {
        StatusCode::OK | StatusCode::MOVED_PERMANENTLY => true,
        StatusCode::PARTIAL_CONTENT => asked.contains_key(RANGE),
        _ => false,
    };
    let directives = Directives::of(headers);
    let refused = directives.no_store
        || directives.private
        // A session that begins is one client's, and the cookies in the key are those from before.
        || headers.contains_key(SET_COOKIE)
        || elements(headers, &VARY).any(|name| name == "*");
    if !understood || refused {
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

/// What the upstream says of the answer's age.
pub(super) fn age(headers: &HeaderMap) -> Duration {
    headers.get(AGE).and_then(|age| delta_seconds(age.to_str().ok()?.trim())).unwrap_or_default()
}

/// The lifetime that `Expires` gives (RFC 9111 §5.3); what is no date is in the past.
fn expires(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let expires = headers.get(EXPIRES)?;
    let date = headers.get(DATE).and_then(|date| seconds(date.to_str().ok()?));
    let unix_now = now.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |passed| passed.as_secs());
    let now = date.unwrap_or(i64::try_from(unix_now).unwrap_or(i64::MAX));
    let left = expires.to_str().ok().and_then(seconds).map_or(0, |at| at.saturating_sub(now));
    Some(Duration::from_secs(u64::try_from(left).unwrap_or(0)))
}

/// A date in one of the three forms of RFC 9110 §5.6.7, in seconds since 1970.
fn seconds(date: &str) -> Option<i64> {
    if let Ok(zoned) = jiff::fmt::rfc2822::parse(date) {
        return Some(zoned.timestamp().as_second());
    }
    let civil = jiff::civil::DateTime::strptime("%A, %d-%b-%y %H:%M:%S GMT", date)
        .or_else(|_| jiff::civil::DateTime::strptime("%a %b %e %H:%M:%S %Y", date))
        .ok()?;
    civil.to_zoned(jiff::tz::TimeZone::UTC).ok().map(|zoned| zoned.timestamp().as_second())
}

/// Whether a client whose request has the fields `asked` has what is kept under `kept` already (RFC 9110 §13.2.2).
pub(super) fn is_known(asked: &HeaderMap, status: StatusCode, kept: &HeaderMap) -> bool {
    if status != StatusCode::OK {
        return false;
    }
    if asked.contains_key(IF_NONE_MATCH) {
        let Some(tag) = kept.get(ETAG).and_then(|tag| tag.to_str().ok()) else { return false };
        // Tags are quoted, so commas within one split nothing.
        return elements(asked, &IF_NONE_MATCH).any(|known| known == "*" || opaque(known) == opaque(tag));
    }
    let date = |headers: &HeaderMap, name: &HeaderName| headers.get(name).and_then(|date| seconds(date.to_str().ok()?));
    match (date(asked, &IF_MODIFIED_SINCE), date(kept, &LAST_MODIFIED)) {
        (Some(since), Some(modified)) => modified <= since,
        _ => false,
    }
}

/// A tag without its weakness: whether two are the same is asked weakly here.
fn opaque(tag: &str) -> &str {
    let tag = tag.trim();
    tag.strip_prefix("W/").unwrap_or(tag)
}

/// Fields that say something of a body, and stay those of the body that is kept.
const OF_THE_BODY: [HeaderName; 5] = [CONTENT_LENGTH, CONTENT_TYPE, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_RANGE];

/// Takes out what a 304 does not say (RFC 9110 §15.4.5).
pub(super) fn without_body(headers: &mut HeaderMap) {
    OF_THE_BODY.iter().for_each(|name| drop(headers.remove(name)));
}

/// The fields that are `kept`, brought up to date with those of a 304 (RFC 9111 §3.2).
pub(super) fn refreshed(kept: &HeaderMap, not_modified: &HeaderMap) -> HeaderMap {
    let mut headers = kept.clone();
    for name in not_modified.keys().filter(|name| !OF_THE_BODY.contains(name)) {
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

/// Replaces the client's conditions by ours: whether what is kept still holds.
pub(super) fn ask_again(request: &mut HeaderMap, kept: &HeaderMap) {
    for (condition, validator) in [(IF_NONE_MATCH, ETAG), (IF_MODIFIED_SINCE, LAST_MODIFIED)] {
        request.remove(&condition);
        if let Some(value) = kept.get(validator) {
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
    fn an_answer_is_fresh_for_the_lesser_of_what_both_sides_say() {
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
    fn statuses_of_spring_are_kept_and_parts_only_for_who_asked_for_one() {
        let keeps = |status: u16, asked: &[(&'static str, &'static str)]| {
            let status = StatusCode::from_u16(status).unwrap();
            lifetime(&headers(asked), status, &HeaderMap::new(), TTL, SystemTime::UNIX_EPOCH).is_some()
        };
        let kept: Vec<u16> = (200..600).filter(|status| keeps(*status, &[])).collect();
        assert_eq!(kept, [200, 301]);
        assert!(keeps(206, &[("range", "bytes=0-1")]));
    }

    #[test]
    fn a_request_is_for_the_cache_or_passes_it() {
        let decide = |method: &str, cache_control: &'static str, has_body: bool, renews: bool| {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            use_for(&method, &headers(&[("cache-control", cache_control)]), has_body, renews)
        };
        for (method, cache_control, has_body, renews, expected) in [
            ("GET", "", false, false, Use::Cached),
            ("HEAD", "", false, false, Use::Cached),
            ("GET", "max-age=0", false, false, Use::Cached),
            ("GET", "", true, false, Use::Passes),
            ("GET", "no-store", false, true, Use::Passes),
            ("GET", "max-age=1, no-store", false, true, Use::Passes),
            ("GET", "private", false, false, Use::Passes),
            ("GET", "no-cache", false, false, Use::Passes),
            ("GET", "no-cache", false, true, Use::Renews),
            ("HEAD", "no-cache", false, true, Use::Passes),
            ("OPTIONS", "", false, false, Use::Passes),
            ("POST", "", false, false, Use::Changes),
            ("BREW", "no-store", true, false, Use::Changes),
        ] {
            let found = decide(method, cache_control, has_body, renews);
            assert_eq!(found, expected, "{method} {cache_control} {has_body} {renews}");
        }
    }

    #[test]
    fn a_client_that_has_the_answer_is_told_so() {
        let kept = headers(&[("etag", "\"a,b\""), ("last-modified", "Sun, 06 Nov 1994 08:49:37 GMT")]);
        for (asked, expected) in [
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
            assert_eq!(is_known(&headers(&[asked]), StatusCode::OK, &kept), expected, "{asked:?}");
        }
        let both = headers(&[("if-none-match", "\"x\""), ("if-modified-since", "Sun, 06 Nov 1994 08:49:37 GMT")]);
        assert!(!is_known(&both, StatusCode::OK, &kept), "tags go before dates");
        assert!(!is_known(&headers(&[("if-none-match", "*")]), StatusCode::MOVED_PERMANENTLY, &kept));
    }

    #[test]
    fn a_304_brings_the_kept_fields_up_to_date_but_not_those_of_the_body() {
        let kept =
            headers(&[("etag", "\"a\""), ("content-type", "text/plain"), ("x-a", "1"), ("x-b", "1"), ("age", "9")]);
        let new = headers(&[("etag", "W/\"a\""), ("content-type", "text/html"), ("x-b", "2"), ("x-b", "3")]);
        let expected =
            headers(&[("etag", "W/\"a\""), ("content-type", "text/plain"), ("x-a", "1"), ("x-b", "2"), ("x-b", "3")]);
        assert_eq!(refreshed(&kept, &new), expected);
    }
}
