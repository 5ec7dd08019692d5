//! Fields, parameters and cookies that keys are read from.

#![deny(clippy::wildcard_enum_match_arm)]

use http::header::COOKIE;
use http::{HeaderName, Request};

use super::resolver::KeyResolver;
use super::sources::KeySource;
use crate::api_key::ApiKeySource;
use crate::cookie;
#[cfg(feature = "jwt")]
use crate::jwt::TokenSource;
use crate::query;

/// Fields, parameters and cookies that keys are read from.
///
/// [`keep_first`](Self::keep_first) removes repetitions, so that the gateway and every upstream read the same value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyFields {
    headers: Vec<HeaderName>,
    parameters: Vec<Box<str>>,
    cookies: Vec<Box<str>>,
}

impl KeyFields {
    /// Collects the fields, parameters and cookies that `resolvers` read.
    pub fn of<'r>(resolvers: impl IntoIterator<Item = &'r KeyResolver>) -> Self {
        let mut fields = Self::default();
        let parts = resolvers.into_iter().flat_map(KeyResolver::parts);
        parts.for_each(|(source, _)| fields.add(source));
        fields
    }

    /// Returns true if no key is read from a field, parameter or cookie.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.headers.is_empty() && self.parameters.is_empty() && self.cookies.is_empty()
    }

    fn add(&mut self, source: KeySource<'_>) {
        match source {
            KeySource::Header(name) => self.headers.push(name.clone()),
            KeySource::Query(name) => self.parameters.push(name.into()),
            KeySource::Cookie(name) => self.cookies.push(name.into()),
            #[cfg(feature = "jwt")]
            KeySource::Token(Some(verifier)) => match &verifier.settings().source {
                TokenSource::Cookie(name) => self.cookies.push(name.as_str().into()),
                source @ (TokenSource::Bearer | TokenSource::Header(_)) => self.headers.push(source.header().clone()),
            },
            KeySource::ApiKey(settings) => {
                settings.into_iter().flat_map(|settings| &settings.sources).for_each(|source| match source {
                    ApiKeySource::Query(name) => self.parameters.push(name.clone()),
                    ApiKeySource::Header(_) | ApiKeySource::Bearer => self.headers.extend(source.header().cloned()),
                });
            }
            KeySource::Token(_) => {}
            KeySource::Client | KeySource::Extension | KeySource::Path | KeySource::Variable(_) => {}
            KeySource::Host | KeySource::Method | KeySource::Route => {}
            KeySource::Principal | KeySource::Certificate(_) | KeySource::Function => {}
        }
    }

    /// Removes each of them from `request` except for its first occurrence.
    pub fn keep_first<B>(&self, request: &mut Request<B>) {
        let headers = request.headers_mut();
        for name in self.headers.iter().filter(|name| **name != COOKIE) {
            let mut values = headers.get_all(name).iter();
            if let (Some(first), Some(_)) = (values.next(), values.next()) {
                let first = first.clone();
                headers.insert(name, first);
            }
        }
        self.cookies.iter().for_each(|name| cookie::keep_first(headers, name));
        for name in &self.parameters {
            query::keep_first(request.uri_mut(), name);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn repetitions_are_removed_and_the_rest_is_unchanged() {
        let texts = ["header:x-key", "query:key", "cookie:key"];
        let resolver = KeyResolver::composite(texts.map(|text| KeyResolver::parse(text).unwrap()).into());
        let fields = KeyFields::of([&resolver.or_shared()]);
        let mut request = Request::builder()
            .uri("/a?x=1&key=one&key=two&k%65y=three&x=2")
            .header("x-key", "one")
            .header("x-key", "two")
            .header("x-other", "1")
            .header("x-other", "2")
            .header("cookie", "key=one; key=two")
            .body(())
            .unwrap();
        fields.keep_first(&mut request);
        assert_eq!(request.uri(), "/a?x=1&key=one&x=2");
        assert_eq!(request.headers().get_all("x-key").iter().collect::<Vec<_>>(), ["one"]);
        assert_eq!(request.headers().get_all("x-other").iter().count(), 2);
        assert_eq!(request.headers()["cookie"], "key=one");
        assert!(KeyFields::of([&KeyResolver::client_ip()]).is_empty());
    }
}
