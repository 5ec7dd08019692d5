//! Response edits and their constructors.

use http::{HeaderMap, HeaderName, HeaderValue, Request};

use super::error::{ApplyError, EditError};
use super::header::{Action, ResponseHeader, parse_name, parse_pair};
use super::location::{Location, LocationSettings, RequestLocation};
use super::rewrite::HeaderRewrite;
use super::{Edit, Kind, header};

/// An edit of a response.
#[derive(Clone, Debug)]
pub(super) enum ResponseEdit {
    Header(ResponseHeader),
    Dedupe(Dedupe),
    Rewrite(Box<HeaderRewrite>),
    Location(Box<Location>),
}

/// Values of the request for a response edit.
#[derive(Debug)]
pub(super) enum Captured {
    Nothing,
    Value(HeaderValue),
    Location(RequestLocation),
}

// === impl ResponseEdit ===

impl ResponseEdit {
    pub(super) fn variables(&self) -> Vec<&str> {
        match self {
            Self::Header(edit) => edit.variables(),
            Self::Dedupe(_) | Self::Rewrite(_) | Self::Location(_) => Vec::new(),
        }
    }

    /// Returns true if it needs values of the request.
    pub(super) fn captures(&self) -> bool {
        matches!(self, Self::Location(_)) || !self.variables().is_empty()
    }

    pub(super) fn capture<B>(&self, request: &Request<B>) -> Result<Captured, ApplyError> {
        Ok(match self {
            Self::Header(edit) => edit.expand(request.extensions())?.map_or(Captured::Nothing, Captured::Value),
            Self::Location(edit) => Captured::Location(edit.capture(request)),
            Self::Dedupe(_) | Self::Rewrite(_) => Captured::Nothing,
        })
    }

    /// Applies the edit with the result of [`Self::capture`].
    pub(super) fn apply(&self, captured: Option<Captured>, headers: &mut HeaderMap) {
        match (self, captured) {
            (Self::Header(edit), Some(Captured::Value(value))) => edit.apply(Some(value), headers),
            (Self::Header(edit), _) => edit.apply(None, headers),
            (Self::Location(edit), Some(Captured::Location(location))) => edit.apply(&location, headers),
            (Self::Location(_), _) => {}
            (Self::Dedupe(edit), _) => edit.apply(headers),
            (Self::Rewrite(edit), _) => edit.apply(headers),
        }
    }
}

// === impl Edit ===

impl Edit {
    /// `AddResponseHeader`: appends a value to those of the upstream. If `override_existing` (Spring's `override`, by
    /// default true) is false, only if the upstream sent no value that is not blank.
    ///
    /// # Errors
    /// As [`Self::add_request_header`].
    pub fn add_response_header(name: &str, value: &str, override_existing: bool) -> Result<Self, EditError> {
        let (name, value) = parse_pair(name, value)?;
        let action = if override_existing { Action::Add(value) } else { Action::AddIfAbsent(value) };
        Ok(Self::response(ResponseEdit::Header(ResponseHeader { name, action })))
    }

    /// `SetResponseHeader`: replaces all values.
    ///
    /// # Errors
    /// As [`Self::add_request_header`].
    pub fn set_response_header(name: &str, value: &str) -> Result<Self, EditError> {
        let (name, value) = parse_pair(name, value)?;
        Ok(Self::response(ResponseEdit::Header(ResponseHeader { name, action: Action::Set(value) })))
    }

    /// `RemoveResponseHeader`: removes all values.
    ///
    /// # Errors
    /// Returns an error for an invalid header name.
    pub fn remove_response_header(name: &str) -> Result<Self, EditError> {
        let (name, action) = (parse_name(name)?, Action::Remove);
        Ok(Self::response(ResponseEdit::Header(ResponseHeader { name, action })))
    }

    /// `DedupeResponseHeader`: removes duplicates from the headers `names`, separated by spaces, as `strategy` says.
    ///
    /// # Errors
    /// Returns an error for an invalid header name, or without a name.
    pub fn dedupe_response_header(names: &str, strategy: DedupeStrategy) -> Result<Self, EditError> {
        Dedupe::new(names, strategy).map(|edit| Self::response(ResponseEdit::Dedupe(edit)))
    }

    /// `RewriteResponseHeader`: replaces every match of `regexp` in every value, as [`Self::rewrite_path`] does. A value
    /// is removed if the search takes too long.
    ///
    /// # Errors
    /// Returns an error for an expression that [`JavaRegex`](tollgate_java_regex::JavaRegex) rejects, for a replacement on
    /// which Java would fail, and for one that is not a valid header value.
    pub fn rewrite_response_header(name: &str, regexp: &str, replacement: &str) -> Result<Self, EditError> {
        let edit = HeaderRewrite::new(name, regexp, replacement)?;
        Ok(Self::response(ResponseEdit::Rewrite(Box::new(edit))))
    }

    /// `RewriteLocationResponseHeader`: replaces the upstream's address by the gateway's, and removes its path's version.
    ///
    /// # Errors
    /// Returns an error for an invalid expression or host.
    pub fn rewrite_location_response_header(settings: &LocationSettings) -> Result<Self, EditError> {
        Ok(Self::response(ResponseEdit::Location(Box::new(Location::new(settings)?))))
    }

    fn response(edit: ResponseEdit) -> Self {
        Self(Kind::Response(edit))
    }
}

/// The values of a header that are kept. A line is one value, even if it is a list with commas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DedupeStrategy {
    /// The first.
    #[default]
    RetainFirst,
    /// The last.
    RetainLast,
    /// Each value once, at its first position.
    RetainUnique,
}

/// Removes duplicate values of headers.
#[derive(Clone, Debug)]
pub(super) struct Dedupe {
    names: Box<[HeaderName]>,
    strategy: DedupeStrategy,
}

// === impl Dedupe ===

impl Dedupe {
    /// Parses `names`, which are separated by spaces.
    pub(super) fn new(names: &str, strategy: DedupeStrategy) -> Result<Self, EditError> {
        let names: Box<[_]> = names.split_ascii_whitespace().map(header::parse_name).collect::<Result<_, _>>()?;
        if names.is_empty() {
            return Err(EditError::HeaderName(String::new()));
        }
        Ok(Self { names, strategy })
    }

    pub(super) fn names(&self) -> &[HeaderName] {
        &self.names
    }

    pub(super) fn apply(&self, headers: &mut HeaderMap) {
        for name in &self.names {
            let mut values: Vec<HeaderValue> = headers.get_all(name).iter().cloned().collect();
            if values.len() < 2 {
                continue;
            }
            match self.strategy {
                DedupeStrategy::RetainFirst => values.truncate(1),
                DedupeStrategy::RetainLast => drop(values.drain(..values.len() - 1)),
                DedupeStrategy::RetainUnique => {
                    let all = std::mem::take(&mut values);
                    for value in all {
                        if !values.contains(&value) {
                            values.push(value);
                        }
                    }
                }
            }
            header::replace_all(headers, name, values);
        }
    }
}
