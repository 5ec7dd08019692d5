//! Cookies of a request (RFC 6265).

use http::header::COOKIE;
use http::{HeaderMap, HeaderValue};

use crate::repeated::Repeated;

/// Returns the value of the cookie `name`, without space around it and without the double quotes that may enclose it
/// (RFC 6265 §4.2.1).
pub(crate) fn value<'a>(headers: &'a HeaderMap, name: &str) -> Repeated<&'a [u8]> {
    let pairs = headers.get_all(COOKIE).iter().flat_map(|line| line.as_bytes().split(|b| *b == b';'));
    let values = pairs.filter_map(|pair| value_of(pair, name));
    Repeated::of(values, |one, other| one == other)
}

/// Removes the cookie `name` except for its first occurrence.
pub(crate) fn keep_first(headers: &mut HeaderMap, name: &str) {
    let mut seen = 0;
    let is_named = |pair: &&[u8]| value_of(pair, name).is_some();
    let count = |line: &HeaderValue| line.as_bytes().split(|b| *b == b';').filter(is_named).count();
    if headers.get_all(COOKIE).iter().map(count).sum::<usize>() <= 1 {
        return;
    }
    let lines: Vec<HeaderValue> = headers.get_all(COOKIE).iter().cloned().collect();
    headers.remove(COOKIE);
    for line in lines {
        let kept = line.as_bytes().split(|b| *b == b';').filter(|pair| {
            seen += usize::from(value_of(pair, name).is_some());
            value_of(pair, name).is_none() || seen == 1
        });
        let kept = kept.map(<[u8]>::trim_ascii).collect::<Vec<_>>().join(&b"; "[..]);
        if let Ok(value) = HeaderValue::from_bytes(&kept)
            && !kept.is_empty()
        {
            headers.append(COOKIE, value);
        }
    }
}

/// Returns the value of `pair` if its name is `name`. Space around both is ignored, as upstreams do.
fn value_of<'a>(pair: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let value = pair.trim_ascii().strip_prefix(name.as_bytes())?.trim_ascii_start().strip_prefix(b"=")?.trim_ascii();
    Some(value.strip_prefix(b"\"").and_then(|v| v.strip_suffix(b"\"")).unwrap_or(value).trim_ascii())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn headers(lines: &[&'static str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(COOKIE, HeaderValue::from_static(line));
        }
        headers
    }

    #[test]
    fn differing_cookies_of_one_name_have_no_value() {
        for (lines, expected) in [
            (&["a=1; b=2"][..], Repeated::One(&b"1"[..])),
            (&["b=2"], Repeated::Absent),
            (&["a=1; a=\"1\""], Repeated::One(b"1")),
            (&["a=1; a=2"], Repeated::Differing),
            (&["a=1", "b=2; a=2"], Repeated::Differing),
            (&["a=; a=1"], Repeated::Differing),
            (&["a= 1"], Repeated::One(b"1")),
            (&["a=\t1 ; b=2"], Repeated::One(b"1")),
            (&["a = \" 1\t\""], Repeated::One(b"1")),
            (&["a=1; a= 1; a\t=1"], Repeated::One(b"1")),
            (&["a=1; a= 2"], Repeated::Differing),
            (&["a=1 2"], Repeated::One(b"1 2")),
            (&["a b=1"], Repeated::Absent),
            (&["a= "], Repeated::One(b"")),
        ] {
            assert_eq!(value(&headers(lines), "a"), expected, "{lines:?}");
        }
    }

    #[test]
    fn only_the_first_cookie_is_kept() {
        let mut repeated = headers(&["b=2; a=1; a=2", "a=3", "a=4;c=5"]);
        keep_first(&mut repeated, "a");
        assert_eq!(repeated.get_all(COOKIE).iter().collect::<Vec<_>>(), ["b=2; a=1", "c=5"]);
        let mut spaced = headers(&["a=1; a =2", "a\t= 3"]);
        keep_first(&mut spaced, "a");
        assert_eq!(spaced.get_all(COOKIE).iter().collect::<Vec<_>>(), ["a=1"]);
        let mut once = headers(&["b=2;a=1"]);
        keep_first(&mut once, "a");
        assert_eq!(once[COOKIE], "b=2;a=1", "unchanged");
    }
}
