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
            let (name, argument) = name_and_argument(directive);
            let seconds = || delta_seconds(unquoted(argument)).unwrap_or_default();
            let smallest = |age: Option<Duration>| Some(age.map_or_else(seconds, |age| age.min(seconds())));
            match name.to_ascii_lowercase().as_slice() {
                b"no-cache" => directives.no_cache = true,
                b"max-age" => directives.max_age = smallest(directives.max_age),
                b"s-maxage" => directives.s_maxage = smallest(directives.s_maxage),
                _ => {}
            }
        }
        // Whatever stands around them, these forbid to store the response.
        for word in headers.get_all(CACHE_CONTROL).iter().flat_map(|line| words(line.as_bytes())) {
            directives.no_store |= word.eq_ignore_ascii_case(b"no-store");
            directives.private |= word.eq_ignore_ascii_case(b"private");
        }
        directives
    }
}

/// Returns the words of letters, digits and hyphens outside of quoted arguments (`="…"`). Any other byte ends a word. A
/// quote that is not closed hides none.
fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    let (mut rest, mut quotes) = (line, true);
    std::iter::from_fn(move || {
        loop {
            let length = rest.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'-').count();
            if length > 0 {
                let (word, behind) = rest.split_at(length);
                rest = behind;
                return Some(word);
            }
            let quoted = match rest {
                [b'=', argument @ ..] if quotes && argument.starts_with(b"\"") => quoted_length(argument),
                _ => Some(0),
            };
            quotes &= quoted.is_some();
            rest = rest.get(1 + quoted.unwrap_or(0)..)?;
        }
    })
}

/// Splits `name=argument`; the argument may be empty.
pub(super) fn name_and_argument(element: &[u8]) -> (&[u8], &[u8]) {
    let mut parts = element.splitn(2, |byte| *byte == b'=').map(<[u8]>::trim_ascii);
    (parts.next().unwrap_or_default(), parts.next().unwrap_or_default())
}

fn unquoted(argument: &[u8]) -> &[u8] {
    argument.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")).unwrap_or(argument)
}

/// Parses a number of seconds (RFC 9111 §1.2.2). A larger number than a `u32` becomes the maximum.
pub(super) fn delta_seconds(text: &[u8]) -> Option<Duration> {
    let digits = std::str::from_utf8(text).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
    (!digits.is_empty()).then(|| Duration::from_secs(digits.parse::<u32>().unwrap_or(u32::MAX).into()))
}

/// Returns the elements of a comma-separated list in all lines of a field (RFC 9110 §5.6.1). A semicolon separates them as
/// well: some servers write `private; max-age=60`.
pub(super) fn elements<'h>(headers: &'h HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'h [u8]> {
    headers.get_all(name).iter().flat_map(|value| split(value.as_bytes(), b",;"))
}

/// Splits at `separators` outside of quotes. A quote that is not closed is an ordinary character, so that it hides no
/// element behind it.
pub(super) fn split<'l>(list: &'l [u8], separators: &'static [u8]) -> impl Iterator<Item = &'l [u8]> {
    let (mut rest, mut quotes) = (Some(list), true);
    let next = move || {
        let list = rest?;
        let end = element_end(list, separators, &mut quotes);
        rest = list.get(end + 1..);
        list.get(..end)
    };
    std::iter::from_fn(next).map(<[u8]>::trim_ascii).filter(|element| !element.is_empty())
}

/// Returns the length of the first element. Clears `quotes` at a quote that is not closed.
fn element_end(list: &[u8], separators: &[u8], quotes: &mut bool) -> usize {
    let mut at = 0;
    while let Some(byte) = list.get(at).filter(|byte| !separators.contains(byte)) {
        let before = at.checked_sub(1).map_or(b' ', |before| list[before]);
        // Within a token, a quote is an ordinary character.
        let quoted = match before {
            b' ' | b'\t' | b'=' | b'/' if *byte == b'"' && *quotes => quoted_length(&list[at..]),
            _ => Some(1),
        };
        *quotes &= quoted.is_some();
        at += quoted.unwrap_or(1);
    }
    at
}

/// Returns the length of the quoted string at the start of `text`; `None` if it is not closed.
fn quoted_length(text: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        match text.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// Sets `max-age` to the remaining `lifetime`, as Spring does. Directives that require revalidation are removed while the
/// lifetime is above zero, and added at zero. `Pragma` and `Expires` are removed.
pub(super) fn set_lifetime(headers: &mut HeaderMap, lifetime: Duration) {
    let max_age = format!("max-age={}", lifetime.as_secs());
    let is = |directive: &[u8], name: &str| directive.eq_ignore_ascii_case(name.as_bytes());
    let mut directives: Vec<&[u8]> = elements(headers, &CACHE_CONTROL).collect();
    match directives.iter_mut().find(|directive| is(name_and_argument(directive).0, "max-age")) {
        Some(directive) => *directive = max_age.as_bytes(),
        None => directives.push(max_age.as_bytes()),
    }
    let revalidation = ["no-cache", "must-revalidate"];
    if lifetime.as_secs() > 0 {
        directives
            .retain(|directive| !revalidation.iter().any(|name| is(directive, name)) && !is(directive, "no-store"));
    } else {
        for name in revalidation {
            if !directives.iter().any(|directive| is(directive, name)) {
                directives.push(name.as_bytes());
            }
        }
    }
    // The elements come from valid header values.
    if let Ok(value) = HeaderValue::try_from(directives.join(&b',')) {
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
    fn a_directive_counts_beside_any_bytes() {
        for line in [
            &b"private, ext=\"caf\xe9\""[..],
            b"x=\xff, private",
            b"\xe9,private",
            b"ext=\"caf\xc3\xa9\", PRIVATE = \"x\"",
            b"public; private",
            b"ext=\"not closed, private",
            b"ext=\"a\\\", private",
            b"ext=\"a\", b\", private, c=\"d",
            b"\"private\"",
            b"\xa0private",
            b"\xc2\xa0private",
            b"max-age=60,\xa0private\xa0",
            b"ext=\"a\"private",
            b"x=a\"b, private\"",
            b"private:1",
            b"x= \"private\"",
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(CACHE_CONTROL, HeaderValue::from_bytes(line).unwrap());
            assert!(Directives::parse(&headers).private, "{}", line.escape_ascii());
        }
        for line in ["no-store:1", "\"no-store\"", "max-age=60 no-store", "x=\"a\"no-store"] {
            assert!(Directives::parse(&headers(&[line])).no_store, "{line}");
        }
        for line in ["x=\"private, no-store\"", "x=\"a\\\", private\"", "private-x, no-stores, x-private"] {
            let found = Directives::parse(&headers(&[line]));
            assert!(!found.private && !found.no_store, "{line}");
        }
        // The time is linear in the number of quotes.
        for quotes in ["\\\"", "=\\\""] {
            let quotes = format!("a=\"{}, private", quotes.repeat(20_000));
            let headers = HeaderMap::from_iter([(CACHE_CONTROL, HeaderValue::try_from(quotes).unwrap())]);
            assert!(Directives::parse(&headers).private);
        }
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
