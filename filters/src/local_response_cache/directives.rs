//! `Cache-Control`, read and written.

use std::time::Duration;

use http::header::{CACHE_CONTROL, EXPIRES, HeaderMap, HeaderName, HeaderValue, PRAGMA};

/// What a message's `Cache-Control` says (RFC 9111 §5.2). A directive's arguments, as in `private="x-user"`, make it no
/// weaker here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Directives {
    pub(super) no_store: bool,
    pub(super) private: bool,
    pub(super) no_cache: bool,
    /// `max-age`; the least where there are several, none of it where it is no number.
    pub(super) max_age: Option<Duration>,
    /// `s-maxage`, which goes before `max-age` in a cache that is shared.
    pub(super) s_maxage: Option<Duration>,
}

impl Directives {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let mut found = Self::default();
        for directive in elements(headers, &CACHE_CONTROL) {
            let (name, argument) = directive.split_once('=').unwrap_or((directive, ""));
            let seconds = || delta_seconds(argument.trim().trim_matches('"')).unwrap_or_default();
            let least = |known: Option<Duration>| Some(known.map_or_else(seconds, |known| known.min(seconds())));
            match name.trim().to_ascii_lowercase().as_str() {
                "no-store" => found.no_store = true,
                "private" => found.private = true,
                "no-cache" => found.no_cache = true,
                "max-age" => found.max_age = least(found.max_age),
                "s-maxage" => found.s_maxage = least(found.s_maxage),
                _ => {}
            }
        }
        found
    }
}

/// A number of seconds (RFC 9111 §1.2.2): one that is too large is as good as for ever.
pub(super) fn delta_seconds(text: &str) -> Option<Duration> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| Duration::from_secs(text.parse::<u32>().unwrap_or(u32::MAX).into()))
}

/// The elements of a comma-separated list over all of its lines (RFC 9110 §5.6.1). What is no text is left out.
pub(super) fn elements<'h>(headers: &'h HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'h str> {
    headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).flat_map(split)
}

/// Splits at commas that stand outside of quotes.
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

/// Tells the client how long it may keep the answer, as Spring does: `max-age` is `left`, and as long as some is left
/// nothing says that the answer must be checked first. `Pragma` and `Expires`, which would say something else, go.
pub(super) fn restate(headers: &mut HeaderMap, left: Duration) {
    let max_age = format!("max-age={}", left.as_secs());
    let is = |directive: &str, name: &str| directive.eq_ignore_ascii_case(name);
    let mut directives: Vec<&str> = elements(headers, &CACHE_CONTROL).collect();
    let is_max_age = |directive: &str| directive.get(..8).is_some_and(|start| is(start, "max-age="));
    match directives.iter_mut().find(|directive| is_max_age(directive)) {
        Some(directive) => *directive = &max_age,
        None => directives.push(&max_age),
    }
    let checks = ["no-cache", "must-revalidate"];
    if left.as_secs() > 0 {
        directives.retain(|directive| !checks.iter().any(|check| is(directive, check)) && !is(directive, "no-store"));
    } else {
        for check in checks {
            if !directives.iter().any(|directive| is(directive, check)) {
                directives.push(check);
            }
        }
    }
    // Its elements were the text of headers.
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
    fn directives_are_read_over_all_lines_whatever_their_case() {
        let found = Directives::of(&headers(&["Public, MAX-AGE=\"60\"", "s-maxage=9,, no-cache=\"a, no-store\""]));
        let expected = Directives {
            no_cache: true,
            max_age: Some(Duration::from_secs(60)),
            s_maxage: Some(Duration::from_secs(9)),
            ..Directives::default()
        };
        assert_eq!(found, expected);
        assert!(Directives::of(&headers(&["no-cache, no-store, max-age=0, must-revalidate"])).no_store);
        assert!(Directives::of(&headers(&["max-age=1", "private=\"x\""])).private);
        assert_eq!(Directives::of(&headers(&["max-age=7, max-age=5, max-age=x"])).max_age, Some(Duration::ZERO));
        assert_eq!(Directives::of(&HeaderMap::new()), Directives::default());
    }

    #[test]
    fn the_lifetime_is_restated_as_spring_does() {
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
            restate(&mut headers, Duration::from_secs(left));
            assert_eq!(headers.get_all(CACHE_CONTROL).iter().collect::<Vec<_>>(), [expected], "{lines:?}");
            assert_eq!(headers.len(), 1);
        }
    }
}
