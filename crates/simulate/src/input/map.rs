//! Names of the fields of JSON logs: `--map time=ts,client=remote_addr,target=uri`.

use http::HeaderName;
use thiserror::Error;

/// Part of a request that a field of the log holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Slot {
    /// Arrival.
    Time,
    /// Times of decisions.
    Decided,
    /// Positions of decisions within their microsecond.
    DecidedOrder,
    /// Client address.
    Client,
    /// Method.
    Method,
    /// Path, with or without a query.
    Target,
    /// Query without `?`.
    Query,
    /// Whole request line.
    Request,
    /// Host.
    Host,
    /// Status.
    Status,
    /// Bytes of the request body.
    ReceivedBytes,
    /// Route.
    Route,
    /// Verdict.
    Verdict,
    /// Reason of a response of the gateway.
    Reason,
    /// Rule.
    Rule,
    /// Key.
    Key,
    /// Keys by rule.
    Keys,
    /// Header field of the request.
    Header(HeaderName),
    /// Part that nothing reads.
    Skipped,
}

/// Names of the fields of JSON logs.
#[derive(Clone, Debug)]
pub struct Map {
    pub(super) fields: Vec<(String, Slot)>,
    is_tollgate_format: bool,
}

/// Error in `--map`.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum MapError {
    /// An item is not `PART=FIELD`.
    #[error("`{0}` in --map is not PART=FIELD, such as client=remote_addr")]
    Form(String),
    /// Unknown part of a request.
    #[error("unknown part `{0}` in --map; known: {known}, header.NAME", known = NAMES.map(|(name, _)| name).join(", "))]
    Part(String),
    /// A necessary part is missing.
    #[error("--map needs {0}")]
    Missing(&'static str),
}

/// Parts by their names in `--map`, with aliases.
const NAMES: [(&str, Slot); 10] = [
    ("time", Slot::Time),
    ("client", Slot::Client),
    ("ip", Slot::Client),
    ("method", Slot::Method),
    ("path", Slot::Target),
    ("query", Slot::Query),
    ("request", Slot::Request),
    ("host", Slot::Host),
    ("status", Slot::Status),
    ("received-bytes", Slot::ReceivedBytes),
];

impl Default for Map {
    /// Returns the fields of our own log.
    fn default() -> Self {
        let tollgate_fields = [
            ("time", Slot::Time),
            ("decided_us", Slot::Decided),
            ("decided_order", Slot::DecidedOrder),
            ("client", Slot::Client),
            ("method", Slot::Method),
            ("target", Slot::Target),
            ("host", Slot::Host),
            ("status", Slot::Status),
            ("reason", Slot::Reason),
            ("received_bytes", Slot::ReceivedBytes),
            ("route", Slot::Route),
            ("verdict", Slot::Verdict),
            ("rule", Slot::Rule),
            ("key", Slot::Key),
            ("keys", Slot::Keys),
            ("referer", Slot::Header(http::header::REFERER)),
            ("user_agent", Slot::Header(http::header::USER_AGENT)),
        ];
        Self { fields: tollgate_fields.map(|(name, slot)| (name.to_owned(), slot)).into(), is_tollgate_format: true }
    }
}

impl Map {
    /// Parses the argument of `--map`: items `PART=FIELD`, separated by commas. A field of an object is `OBJECT.FIELD`.
    ///
    /// # Errors
    /// An item is malformed, or time or path are missing.
    pub fn parse(text: &str) -> Result<Self, MapError> {
        let mut fields = Vec::new();
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            let (part, field) = item.split_once('=').ok_or_else(|| MapError::Form(item.to_owned()))?;
            let (part, field) = (part.trim(), field.trim());
            if field.is_empty() {
                return Err(MapError::Form(item.to_owned()));
            }
            fields.push((field.to_owned(), slot(part)?));
        }
        let has = |slot: &Slot| fields.iter().any(|(_, mapped)| mapped == slot);
        if !has(&Slot::Time) {
            return Err(MapError::Missing("time=FIELD"));
        }
        if !has(&Slot::Target) && !has(&Slot::Request) {
            return Err(MapError::Missing("path=FIELD, or request=FIELD with the whole request line"));
        }
        Ok(Self { fields, is_tollgate_format: false })
    }

    /// Returns the map without the values of fields for which `is_read` is false.
    pub(super) fn without_unread(mut self, is_read: impl Fn(&Slot) -> bool) -> Self {
        if !self.is_tollgate_format {
            // Lines that lack them are counted.
            for (_, slot) in self.fields.iter_mut().filter(|(_, slot)| !is_read(slot)) {
                *slot = Slot::Skipped;
            }
            return self;
        }
        self.fields.retain(|(_, slot)| is_read(slot));
        self
    }

    /// Returns the position of the field `name` of a flat object.
    pub(super) fn find_flat(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|(field, _)| *field == name)
    }

    /// Returns the position and the slot of the field `name` of the object with the path `prefix`. The search starts at
    /// `expected`.
    pub(super) fn find(&self, prefix: &str, name: &str, expected: usize) -> Option<(usize, &Slot)> {
        let is_named = |(_, (field, _)): &(usize, &(String, Slot))| {
            field.len() == prefix.len() + name.len() && field.ends_with(name) && field.starts_with(prefix)
        };
        let (before, after) = self.fields.split_at(expected.min(self.fields.len()));
        let mut fields = after.iter().enumerate().map(|(at, field)| (at + before.len(), field));
        let field = fields.find(is_named).or_else(|| before.iter().enumerate().find(is_named));
        field.map(|(position, (_, slot))| (position, slot))
    }

    /// Returns true for the fields of our own log.
    pub fn is_tollgate_format(&self) -> bool {
        self.is_tollgate_format
    }

    /// Returns the parts of a request that the log has.
    pub fn fields(&self) -> impl Iterator<Item = &Slot> {
        self.fields.iter().map(|(_, slot)| slot)
    }

    /// Returns true if the log has `slot`.
    pub fn has(&self, slot: &Slot) -> bool {
        self.fields.iter().any(|(_, mapped)| mapped == slot)
    }
}

fn slot(part: &str) -> Result<Slot, MapError> {
    if let Some(name) = part.strip_prefix("header.") {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| MapError::Part(part.to_owned()))?;
        return Ok(if name == http::header::HOST { Slot::Host } else { Slot::Header(name) });
    }
    let part = if part == "target" || part == "uri" { "path" } else { part };
    let part_slot = NAMES.into_iter().find(|(name, _)| *name == part);
    part_slot.map(|(_, slot)| slot).ok_or_else(|| MapError::Part(part.to_owned()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn maps_name_fields_and_report_mistakes() {
        let map = Map::parse("time=ts, ip=remote_addr,path=uri,header.X-Api-Key=http.key").unwrap();
        assert!(map.has(&Slot::Client) && map.has(&Slot::Header(HeaderName::from_static("x-api-key"))));
        assert!(!map.is_tollgate_format() && !map.has(&Slot::Host));
        for (text, problem) in [
            ("ts", "`ts` in --map is not PART=FIELD"),
            ("time=", "`time=` in --map is not PART=FIELD"),
            ("time=a,path=b,colour=c", "unknown part `colour` in --map; known: time, client,"),
            ("time=a,path=b,header.a b=c", "unknown part `header.a b`"),
            ("path=a", "--map needs time=FIELD"),
            ("time=a,ip=b", "--map needs path=FIELD"),
        ] {
            let error = Map::parse(text).unwrap_err().to_string();
            assert!(error.starts_with(problem), "{error}");
        }
    }
}
