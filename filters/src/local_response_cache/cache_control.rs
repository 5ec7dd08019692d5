//! Parsing and writing of `Cache-Control`.

use std::time::Duration;

use http::header::{CACHE_CONTROL, EXPIRES, HeaderMap, HeaderName, HeaderValue, PRAGMA};

/// The directives of `Cache-Control` (RFC 9111 §5.2). Arguments that limit a directive, as in `private="x-user"`, are
/// ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Directives {
    pub(super) no_store: bool,
    pub(super) private: bool,
    pub(super) no_cache: bool,
    /// `max-age`: the smallest of several values, zero if a value is not a number.
    pub(super) max_age: Option<Duration>,
    /// `s-maxage`, which overrides `max-age` in a shared cache.
    pub(super) s_maxage: Option<Duration>,
}

impl Directives {
    pub(super) fn parse(headers: &HeaderMap) -> Self {
        let mut directives = Self::default();
        for directive in elements(headers, &CACHE_CONTROL) {
            let (name, argument) = directive.split_once('=').unwrap_or((directive, ""));
            let seconds = || delta_seconds(argument.trim().trim_matches('"')).unwrap_or_default();
            let smallest = |known: Option<Duration>| Some(known.map_or_else(seconds, |known| known.min(seconds())));
            match name.trim().to_ascii_lowercase().as_str() {
                "no-store" => directives.no_store = true,
                "private" => directives.private = true,
                "no-cache" => directives.no_cache = true,
                "max-age" => directives.max_age = smallest(directives.max_age),
                "s-maxage" => directives.s_maxage = smallest(directives.s_maxage),
                _ => {}
            }
        }
        directives
    }
}

/// Parses a number of seconds (RFC 9111 §1.2.2). A larger number than a `u32` becomes the maximum.
pub(super) fn delta_seconds(text: &str) -> Option<Duration> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| Duration::from_secs(text.parse::<u32>().unwrap_or(u32::MAX).into()))
}

/// Returns the elements of a comma-separated list in all lines of a field (RFC 9110 §5.6.1). Lines that are not ASCII are
/// ignored.
pub(super) fn elements<'h>(headers: &'h HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'h str> {
    headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).flat_map(split)
}

/// Splits at commas outside of quotes.
fn split(list: &str) -> impl Iterator<Item = &str> {
    let (mut quoted, mut escaped) = (false, false);
    let outside = move |c: char| {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            _ => return c == ',' && !quoted,
        }
        false
    };
    list.split(outside).map(str::trim).filter(|element| !element.is_empty())
}

/// Sets `max-age` to the remaining `lifetime`, as Spring does. Directives that require revalidation are removed while the
/// lifetime is above zero, and added at zero. `Pragma` and `Expires` are removed.
pub(super) fn set_lifetime(headers: &mut HeaderMap, lifetime: Duration) {
    let max_age = format!("max-age={}", lifetime.as_secs());
    let is = |directive: &str, name: &str| directive.eq_ignore_ascii_case(name);
    let mut directives: Vec<&str> = elements(headers, &CACHE_CONTROL).collect();
    let is_max_age = |directive: &str| directive.get(..8).is_some_and(|start| is(start, "max-age="));
    match directives.iter_mut().find(|directive| is_max_age(directive)) {
        Some(directive) => *directive = &max_age,
        None => directives.push(&max_age),
    }
    let revalidation = ["no-cache", "must-revalidate"];
    if lifetime.as_secs() > 0 {
        directives
            .retain(|directive| !revalidation.iter().any(|name| is(directive, name)) && !is(directive, "no-store"));
    } else {
        for name in revalidation {
            if !directives.iter().any(|directive| is(directive, name)) {
                directives.push(name);
            }
        }
    }
    // The elements come from valid header values.
    if let Ok(value) = HeaderValue::try_from(directives.join(",")) {
        let _ = headers.try_insert(CACHE_CONTROL, value);
    }
    headers.remove(PRAGMA);
    headers.remove(EXPIRES);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    fn headers(lines: &[&'static str]) -> HeaderMap {
        lines.iter().map(|line| (CACHE_CONTROL, HeaderValue::from_static(line))).collect()
    }

    #[test]
    fn directives_are_parsed_in_all_lines_and_ignore_case() {
        let found = Directives::parse(&headers(&["Public, MAX-AGE=\"60\"", "s-maxage=9,, no-cache=\"a, no-store\""]));
        let expected = Directives {
            no_cache: true,
            max_age: Some(Duration::from_secs(60)),
            s_maxage: Some(Duration::from_secs(9)),
            ..Directives::default()
        };
        assert_eq!(found, expected);
        assert!(Directives::parse(&headers(&["no-cache, no-store, max-age=0, must-revalidate"])).no_store);
        assert!(Directives::parse(&headers(&["max-age=1", "private=\"x\""])).private);
        assert_eq!(Directives::parse(&headers(&["max-age=7, max-age=5, max-age=x"])).max_age, Some(Duration::ZERO));
        assert_eq!(Directives::parse(&HeaderMap::new()), Directives::default());
    }

    #[test]
    fn the_lifetime_is_set_as_in_spring() {
        for (lines, left, expected) in [
            (vec![], 300, "max-age=300"),
            (vec!["public"], 300, "public,max-age=300"),
            (vec!["max-age=10, s-maxage=20"], 300, "max-age=300,s-maxage=20"),
            (vec!["must-revalidate, public", "max-age=10"], 7, "public,max-age=7"),
            (vec!["max-age=10"], 0, "max-age=0,no-cache,must-revalidate"),
            (vec!["no-cache"], 0, "no-cache,max-age=0,must-revalidate"),
        ] {
            let mut headers = headers(&lines);
            headers.insert(EXPIRES, HeaderValue::from_static("0"));
            set_lifetime(&mut headers, Duration::from_secs(left));
            assert_eq!(headers.get_all(CACHE_CONTROL).iter().collect::<Vec<_>>(), [expected], "{lines:?}");
            assert_eq!(headers.len(), 1);
        }
    }
}
