//! Header edits, and parsing of header names and hosts.

use std::collections::HashMap;

use http::header::{CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use http::{Extensions, HeaderMap, HeaderName, HeaderValue, Request};
use tollgate_routing::host_form;

use super::error::{ApplyError, EditError};
use super::template::Value;
use crate::context::RequestContext;

static HOST_FIELD: HeaderName = HOST;

/// An edit of a request's headers.
#[derive(Clone, Debug)]
pub(super) enum RequestHeader {
    One(HeaderName, Action),
    /// Adds the values of each header for which the request has only blank values or none.
    AddIfNotPresent(Box<[(HeaderName, Vec<Value>)]>),
    /// Adds the values of one header to those of another.
    Map {
        from: HeaderName,
        to: HeaderName,
    },
    /// Sets the `Host` for the upstream.
    Host(Value),
}

/// An edit of one header of a response.
#[derive(Clone, Debug)]
pub(super) struct ResponseHeader {
    pub(super) name: HeaderName,
    pub(super) action: Action,
}

#[derive(Clone, Debug)]
pub(super) enum Action {
    Add(Value),
    /// Adds the value if there are only blank values or none.
    AddIfAbsent(Value),
    Set(Value),
    Remove,
}

pub(super) fn parse_name(name: &str) -> Result<HeaderName, EditError> {
    HeaderName::from_bytes(name.as_bytes()).map_err(|_| EditError::HeaderName(name.to_owned()))
}

/// Parses the name of a header that may be set. `Content-Length` and `Transfer-Encoding` may not: a wrong value would make
/// the upstream split messages differently (request smuggling).
pub(super) fn parse_settable_name(name: &str) -> Result<HeaderName, EditError> {
    let parsed = parse_name(name)?;
    if parsed == CONTENT_LENGTH || parsed == TRANSFER_ENCODING {
        return Err(EditError::Framing(name.to_owned()));
    }
    Ok(parsed)
}

pub(super) fn parse_pair(name: &str, value: &str) -> Result<(HeaderName, Value), EditError> {
    Ok((parse_settable_name(name)?, Value::parse(name, value)?))
}

/// Parses `host[:port]` as a header value.
pub(super) fn parse_host(host: &str) -> Result<HeaderValue, EditError> {
    let value = HeaderValue::from_str(host).ok().filter(|value| check_host(value).is_ok());
    value.ok_or_else(|| EditError::Host(host.to_owned()))
}

/// Checks a `Host` with text of the client: an invalid one could change the message to the upstream.
fn check_host(value: &HeaderValue) -> Result<(), ApplyError> {
    host_form(value.as_bytes()).map(drop).ok_or(ApplyError::BadHost)
}

/// Returns the value of the header `name` for a request with `extensions`.
fn expand(name: &HeaderName, value: &Value, extensions: &Extensions) -> Result<HeaderValue, ApplyError> {
    let expanded = value.expand(extensions)?;
    if value.needs_variables() && name == HOST {
        check_host(&expanded)?;
    }
    Ok(expanded)
}

/// Replaces the values of the header `name`. A full map (32,768 headers) does not get them.
pub(super) fn replace_all(headers: &mut HeaderMap, name: &HeaderName, values: Vec<HeaderValue>) {
    headers.remove(name);
    for value in values {
        let _ = headers.try_append(name, value);
    }
}

fn is_absent(headers: &HeaderMap, name: &HeaderName) -> bool {
    headers.get_all(name).iter().all(|value| value.as_bytes().trim_ascii().is_empty())
}

/// Adds a value. A request has one `Host` (RFC 9112 §3.2), which is replaced.
fn add(headers: &mut HeaderMap, name: &HeaderName, value: HeaderValue) {
    let _ = if name == HOST { headers.try_insert(name, value).map(|_| true) } else { headers.try_append(name, value) };
}

// === impl RequestHeader ===

impl RequestHeader {
    /// Returns the name of the field that it removes.
    pub(super) fn removed(&self) -> Option<&HeaderName> {
        if let Self::One(name, Action::Remove) = self { Some(name) } else { None }
    }

    /// Returns the name of the field that it sets to the same value for all requests.
    pub(super) fn fixed(&self) -> Option<&HeaderName> {
        if let Self::One(name, Action::Set(Value::Constant(_))) = self { Some(name) } else { None }
    }

    /// Returns the names of the fields that it may set.
    pub(super) fn written(&self) -> Vec<&HeaderName> {
        match self {
            Self::One(_, Action::Remove) => Vec::new(),
            Self::One(name, Action::Add(_) | Action::AddIfAbsent(_) | Action::Set(_)) => vec![name],
            Self::AddIfNotPresent(headers) => headers.iter().map(|(name, _)| name).collect(),
            Self::Map { to, .. } => vec![to],
            Self::Host(_) => vec![&HOST_FIELD],
        }
    }

    pub(super) fn add_if_not_present<'p>(
        pairs: impl IntoIterator<Item = (&'p str, &'p str)>,
    ) -> Result<Self, EditError> {
        let mut headers: Vec<(HeaderName, Vec<Value>)> = Vec::new();
        let mut positions: HashMap<HeaderName, usize> = HashMap::new();
        for (name, value) in pairs {
            let (name, value) = parse_pair(name, value)?;
            let position = *positions.entry(name.clone()).or_insert(headers.len());
            match headers.get_mut(position) {
                Some((_, values)) => values.push(value),
                None => headers.push((name, vec![value])),
            }
        }
        Ok(Self::AddIfNotPresent(headers.into()))
    }

    pub(super) fn host(host: &str) -> Result<Self, EditError> {
        let value = Value::parse(HOST.as_str(), host)?;
        if !value.needs_variables() {
            parse_host(host)?;
        }
        Ok(Self::Host(value))
    }

    /// Returns the names of the headers that it reads or changes, except `Host`.
    pub(super) fn names(&self) -> Vec<&HeaderName> {
        match self {
            Self::One(name, _) => vec![name],
            Self::AddIfNotPresent(headers) => headers.iter().map(|(name, _)| name).collect(),
            Self::Map { from, to } => vec![from, to],
            Self::Host(_) => Vec::new(),
        }
    }

    pub(super) fn variables(&self) -> Vec<&str> {
        match self {
            Self::One(_, action) => action.variables(),
            Self::AddIfNotPresent(headers) => {
                headers.iter().flat_map(|(_, values)| values).flat_map(Value::variables).collect()
            }
            Self::Map { .. } => Vec::new(),
            Self::Host(value) => value.variables(),
        }
    }

    /// Returns true if it changes `Host`, which is forwarded only if the client's is preserved.
    pub(super) fn touches_host(&self) -> bool {
        match self {
            Self::One(name, action) => name == HOST && !matches!(action, Action::Remove),
            Self::Map { to, .. } => to == HOST,
            // A request always has a `Host`.
            Self::AddIfNotPresent(_) | Self::Host(_) => false,
        }
    }

    pub(super) fn apply<B>(&self, request: &mut Request<B>) -> Result<(), ApplyError> {
        match self {
            Self::One(name, action) => {
                let value = action.value().map(|value| expand(name, value, request.extensions())).transpose()?;
                action.apply(name, value, request.headers_mut());
            }
            Self::AddIfNotPresent(headers) => {
                for (name, values) in headers {
                    if !is_absent(request.headers(), name) {
                        continue;
                    }
                    let value = |value: &Value| expand(name, value, request.extensions());
                    let values: Vec<HeaderValue> = values.iter().map(value).collect::<Result<_, _>>()?;
                    values.into_iter().for_each(|value| add(request.headers_mut(), name, value));
                }
            }
            Self::Map { from, to } => {
                let values: Vec<HeaderValue> = request.headers().get_all(from).iter().cloned().collect();
                if to == HOST {
                    values.iter().try_for_each(check_host)?;
                }
                values.into_iter().for_each(|value| add(request.headers_mut(), to, value));
            }
            Self::Host(value) => {
                let value = expand(&HOST, value, request.extensions())?;
                replace_all(request.headers_mut(), &HOST, vec![value]);
                request.extensions_mut().get_or_insert_default::<RequestContext>().preserve_host = true;
            }
        }
        Ok(())
    }
}

// === impl ResponseHeader ===

impl ResponseHeader {
    pub(super) fn variables(&self) -> Vec<&str> {
        self.action.variables()
    }

    /// Returns the header to which it adds a value unconditionally.
    pub(super) fn added_header(&self) -> Option<&HeaderName> {
        matches!(self.action, Action::Add(_)).then_some(&self.name)
    }

    /// Expands the value with the variables in `extensions`; `None` for an edit without variables.
    pub(super) fn expand(&self, extensions: &Extensions) -> Result<Option<HeaderValue>, ApplyError> {
        match self.action.value() {
            Some(value) if value.needs_variables() => value.expand(extensions).map(Some),
            _ => Ok(None),
        }
    }

    /// Applies the edit with the result of [`Self::expand`].
    pub(super) fn apply(&self, expanded: Option<HeaderValue>, headers: &mut HeaderMap) {
        let value = expanded.or_else(|| match self.action.value() {
            Some(Value::Constant(value)) => Some(value.clone()),
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

    fn variables(&self) -> Vec<&str> {
        self.value().map(Value::variables).unwrap_or_default()
    }

    /// Applies the action. A full map does not get the value.
    fn apply(&self, name: &HeaderName, value: Option<HeaderValue>, headers: &mut HeaderMap) {
        match (self, value) {
            (Self::Remove, _) => {
                headers.remove(name);
            }
            (Self::AddIfAbsent(_), Some(_)) if !is_absent(headers, name) => {}
            (Self::Add(_) | Self::AddIfAbsent(_), Some(value)) => add(headers, name, value),
            (Self::Set(_), Some(value)) => {
                let _ = headers.try_insert(name, value);
            }
            (_, None) => {}
        }
    }
}
