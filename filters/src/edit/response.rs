//! Edits of responses, and as filters call them.

use http::{HeaderMap, HeaderValue, Request};

use super::dedupe::{Dedupe, DedupeStrategy};
use super::header::ResponseHeader;
use super::location::{Asked, Location, LocationSettings};
use super::rewrite::HeaderRewrite;
use super::{Edit, EditError, Failure, Kind};

/// An edit of a response.
#[derive(Clone, Debug)]
pub(super) enum ResponseEdit {
    Header(ResponseHeader),
    Dedupe(Dedupe),
    Rewrite(Box<HeaderRewrite>),
    Location(Box<Location>),
}

/// What an edit needs of the request that the response answers.
#[derive(Debug)]
pub(super) enum Captured {
    Nothing,
    Value(HeaderValue),
    Asked(Asked),
}

// === impl ResponseEdit ===

impl ResponseEdit {
    pub(super) fn variables(&self) -> Vec<&str> {
        match self {
            Self::Header(edit) => edit.variables(),
            Self::Dedupe(_) | Self::Rewrite(_) | Self::Location(_) => Vec::new(),
        }
    }

    /// Whether it needs something of the request.
    pub(super) fn captures(&self) -> bool {
        matches!(self, Self::Location(_)) || !self.variables().is_empty()
    }

    pub(super) fn capture<B>(&self, request: &Request<B>) -> Result<Captured, Failure> {
        Ok(match self {
            Self::Header(edit) => edit.expand(request.extensions())?.map_or(Captured::Nothing, Captured::Value),
            Self::Location(edit) => Captured::Asked(edit.ask(request)),
            Self::Dedupe(_) | Self::Rewrite(_) => Captured::Nothing,
        })
    }

    /// Applies the edit with what [`Self::capture`] kept.
    pub(super) fn apply(&self, captured: Option<Captured>, headers: &mut HeaderMap) {
        match (self, captured) {
            (Self::Header(edit), Some(Captured::Value(value))) => edit.apply(Some(value), headers),
            (Self::Header(edit), _) => edit.apply(None, headers),
            (Self::Location(edit), Some(Captured::Asked(asked))) => edit.apply(&asked, headers),
            (Self::Location(_), _) => {}
            (Self::Dedupe(edit), _) => edit.apply(headers),
            (Self::Rewrite(edit), _) => edit.apply(headers),
        }
    }
}

// === impl Edit ===

impl Edit {
    /// `AddResponseHeader`: adds a value behind those that the upstream sent; unless `override_existing` (Spring's
    /// `override`, by default true) only if it sent none that is not blank.
    ///
    /// # Errors
    /// As [`Self::add_request_header`].
    pub fn add_response_header(name: &str, value: &str, override_existing: bool) -> Result<Self, EditError> {
        ResponseHeader::add(name, value, override_existing).map(|edit| Self::of_response(ResponseEdit::Header(edit)))
    }

    /// `SetResponseHeader`: replaces all values.
    ///
    /// # Errors
    /// As [`Self::add_request_header`].
    pub fn set_response_header(name: &str, value: &str) -> Result<Self, EditError> {
        ResponseHeader::set(name, value).map(|edit| Self::of_response(ResponseEdit::Header(edit)))
    }

    /// `RemoveResponseHeader`: removes all values.
    ///
    /// # Errors
    /// What is no header name.
    pub fn remove_response_header(name: &str) -> Result<Self, EditError> {
        ResponseHeader::remove(name).map(|edit| Self::of_response(ResponseEdit::Header(edit)))
    }

    /// `DedupeResponseHeader`: of the headers `names`, separated by spaces, keeps the values that `strategy` says.
    ///
    /// # Errors
    /// What is no header name, and none at all.
    pub fn dedupe_response_header(names: &str, strategy: DedupeStrategy) -> Result<Self, EditError> {
        Dedupe::new(names, strategy).map(|edit| Self::of_response(ResponseEdit::Dedupe(edit)))
    }

    /// `RewriteResponseHeader`: replaces every match of `regexp` in every value, as [`Self::rewrite_path`] does. A value
    /// that takes the expression too long is removed.
    ///
    /// # Errors
    /// What [`JavaRegex`](tollgate_java_regex::JavaRegex) refuses; a replacement that Java would fail on, or that no
    /// header can hold.
    pub fn rewrite_response_header(name: &str, regexp: &str, replacement: &str) -> Result<Self, EditError> {
        let edit = HeaderRewrite::new(name, regexp, replacement)?;
        Ok(Self::of_response(ResponseEdit::Rewrite(Box::new(edit))))
    }

    /// `RewriteLocationResponseHeader`: puts the gateway's address, and its path's version, in place of the upstream's.
    ///
    /// # Errors
    /// Protocols that are no expression; what is no host.
    pub fn rewrite_location_response_header(settings: &LocationSettings) -> Result<Self, EditError> {
        Ok(Self::of_response(ResponseEdit::Location(Box::new(Location::new(settings)?))))
    }

    fn of_response(edit: ResponseEdit) -> Self {
        Self(Kind::Response(edit))
    }
}
