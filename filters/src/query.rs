//! Parameters of the query, by their decoded names.

use http::Uri;
use http::uri::PathAndQuery;

use crate::percent;
use crate::repeated::Repeated;

/// Returns the raw values of the parameter `name`.
pub(crate) fn values<'a>(uri: &'a Uri, name: &str) -> impl Iterator<Item = &'a [u8]> {
    pairs(uri).filter_map(move |pair| value_of(pair, name))
}

/// Returns the raw value of the parameter `name`. Values are compared decoded.
pub(crate) fn value<'a>(uri: &'a Uri, name: &str) -> Repeated<&'a [u8]> {
    Repeated::of(values(uri, name), |one, other| percent::decode(one, true).eq(percent::decode(other, true)))
}

/// Removes the parameter `name` except for its first occurrence.
pub(crate) fn keep_first(uri: &mut Uri, name: &str) {
    let mut seen = 0;
    retain(uri, |pair| {
        let is_named = value_of(pair, name).is_some();
        seen += usize::from(is_named);
        !is_named || seen == 1
    });
}

/// Removes the parameter `name`.
#[cfg(feature = "verify-api-key")]
pub(crate) fn remove(uri: &mut Uri, name: &str) {
    retain(uri, |pair| value_of(pair, name).is_none());
}

/// Keeps the pairs for which `is_kept` returns true.
fn retain(uri: &mut Uri, mut is_kept: impl FnMut(&[u8]) -> bool) {
    let mut removes = false;
    let kept = pairs(uri).filter(|pair| {
        let is_kept = is_kept(pair);
        removes |= !is_kept;
        is_kept
    });
    let kept = kept.collect::<Vec<_>>().join(&b'&');
    let Some(query) = String::from_utf8(kept).ok().filter(|_| removes) else { return };
    let target = if query.is_empty() { uri.path().to_owned() } else { format!("{}?{query}", uri.path()) };
    // The pairs were part of a target before.
    let Ok(target) = PathAndQuery::try_from(target) else { return };
    let mut parts = std::mem::take(uri).into_parts();
    parts.path_and_query = Some(target);
    *uri = Uri::from_parts(parts).unwrap_or_default();
}

/// Returns `target` with `***` in place of the values of the parameters `names`; `None` if it has none.
#[must_use]
pub fn masked<'n>(target: &str, names: impl Iterator<Item = &'n str> + Clone) -> Option<String> {
    let (path, query) = target.split_once('?')?;
    let is_secret = |pair: &str| names.clone().any(|name| value_of(pair.as_bytes(), name).is_some());
    if !query.split('&').any(is_secret) {
        return None;
    }
    let mask = |pair: &str| match pair.split_once('=') {
        Some((name, _)) if is_secret(pair) => format!("{name}=***"),
        _ => pair.to_owned(),
    };
    Some(format!("{path}?{}", query.split('&').map(mask).collect::<Vec<_>>().join("&")))
}

fn pairs(uri: &Uri) -> impl Iterator<Item = &[u8]> {
    uri.query().into_iter().flat_map(|query| query.as_bytes().split(|b| *b == b'&'))
}

/// Returns the raw value of `pair` if its name is `name`.
fn value_of<'a>(pair: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let (raw, value) = match pair.iter().position(|b| *b == b'=') {
        Some(at) => (&pair[..at], &pair[at + 1..]),
        None => (pair, &pair[pair.len()..]),
    };
    percent::decode(raw, true).eq(name.bytes()).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_parameters_are_masked_in_every_spelling() {
        let masked = |target: &str| masked(target, ["api_key", "k"].into_iter());
        assert_eq!(
            masked("/a?x=1&api_key=s&api%5Fkey=%73&k=&y"),
            Some("/a?x=1&api_key=***&api%5Fkey=***&k=***&y".to_owned())
        );
        assert_eq!(masked("/a?api_key=a=b?c"), Some("/a?api_key=***".to_owned()));
        for target in ["/api_key=s", "/a?apikey=s", "/a?", "*"] {
            assert_eq!(masked(target), None, "{target}");
        }
    }
}
