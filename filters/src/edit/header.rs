//! Header edits.

use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{Extensions, HeaderMap, HeaderName, HeaderValue, Request};

use super::template::Value;
use super::{EditError, Failure};

/// An edit of a request's headers.
#[derive(Clone, Debug)]
pub(super) struct RequestHeader {
    name: HeaderName,
    action: Action,
}

/// An edit of a response's headers.
#[derive(Clone, Debug)]
pub(super) struct ResponseHeader {
    name: HeaderName,
    action: Action,
}

#[derive(Clone, Debug)]
enum Action {
    Add(Value),
    /// Only where there is no value that is not blank.
    AddIfAbsent(Value),
    Set(Value),
    Remove,
}

fn parse_name(name: &str) -> Result<HeaderName, EditError> {
    HeaderName::from_bytes(name.as_bytes()).map_err(|_| EditError::HeaderName(name.to_owned()))
}

/// A name that may be given values. Framing is the connection's: a made-up length would split messages elsewhere.
fn parse_pair(name: &str, value: &str) -> Result<(HeaderName, Value), EditError> {
    let parsed = parse_name(name)?;
    if parsed == CONTENT_LENGTH || parsed == TRANSFER_ENCODING {
        return Err(EditError::Framing(name.to_owned()));
    }
    Ok((parsed, Value::parse(name, value)?))
}

// === impl RequestHeader ===

impl RequestHeader {
    pub(super) fn add(name: &str, value: &str) -> Result<Self, EditError> {
        let (name, value) = parse_pair(name, value)?;
        Ok(Self { name, action: Action::Add(value) })
    }

    pub(super) fn set(name: &str, value: &str) -> Result<Self, EditError> {
        let (name, value) = parse_pair(name, value)?;
        Ok(Self { name, action: Action::Set(value) })
    }

    pub(super) fn remove(name: &str) -> Result<Self, EditError> {
        Ok(Self { name: parse_name(name)?, action: Action::Remove })
    }

    pub(super) fn needs_variables(&self) -> bool {
        self.action.needs_variables()
    }

    pub(super) fn variables(&self) -> Vec<&str> {
        self.action.variables()
    }

    pub(super) fn apply<B>(&self, request: &mut Request<B>) -> Result<(), Failure> {
        let value = self.action.value().map(|value| value.expand(request.extensions())).transpose()?;
        self.action.apply(&self.name, value, request.headers_mut());
        Ok(())
    }
}

// === impl ResponseHeader ===

impl ResponseHeader {
    pub(super) fn add(name: &str, value: &str, override_existing: bool) -> Result<Self, EditError> {
        let (name, value) = parse_pair(name, value)?;
        let action = if override_existing { Action::Add(value) } else { Action::AddIfAbsent(value) };
        Ok(Self { name, action })
    }

    pub(super) fn set(name: &str, value: &str) -> Result<Self, EditError> {
        let (name, value) = parse_pair(name, value)?;
        Ok(Self { name, action: Action::Set(value) })
    }

    pub(super) fn remove(name: &str) -> Result<Self, EditError> {
        Ok(Self { name: parse_name(name)?, action: Action::Remove })
    }

    pub(super) fn needs_variables(&self) -> bool {
        self.action.needs_variables()
    }

    pub(super) fn variables(&self) -> Vec<&str> {
        self.action.variables()
    }

    /// The value for the response to the request that has `extensions`; nothing for edits that need no request.
    pub(super) fn expand(&self, extensions: &Extensions) -> Result<Option<HeaderValue>, Failure> {
        match self.action.value() {
            Some(value) if value.needs_variables() => value.expand(extensions).map(Some),
            _ => Ok(None),
        }
    }

    /// Applies the edit with what [`Self::expand`] made.
    pub(super) fn apply(&self, expanded: Option<HeaderValue>, headers: &mut HeaderMap) {
        let value = expanded.or_else(|| match self.action.value() {
            Some(Value::Ready(value)) => Some(value.clone()),
            _ => None,
        });
        self.action.apply(&self.name, value, headers);
    }
}

// === impl Action ===

impl Action {
    fn value(&self) -> Option<&Value> {
        match self {
            Self::Add(value) | Self::AddIfAbsent(value) | Self::Set(value) => Some(value),
            Self::Remove => None,
        }
    }

    fn needs_variables(&self) -> bool {
        self.value().is_some_and(Value::needs_variables)
    }

    fn variables(&self) -> Vec<&str> {
        self.value().map(Value::variables).unwrap_or_default()
    }

    /// A map that is full (32,768 headers) goes without the value.
    fn apply(&self, name: &HeaderName, value: Option<HeaderValue>, headers: &mut HeaderMap) {
        match (self, value) {
            (Self::Remove, _) => {
                headers.remove(name);
            }
            (Self::AddIfAbsent(_), Some(_))
                if headers.get_all(name).iter().any(|v| !v.as_bytes().trim_ascii().is_empty()) => {}
            (Self::Add(_) | Self::AddIfAbsent(_), Some(value)) => {
                let _ = headers.try_append(name, value);
            }
            (Self::Set(_), Some(value)) => {
                let _ = headers.try_insert(name, value);
            }
            (_, None) => {}
        }
    }
}
