//! Places of the servers that a configuration names.

use std::collections::HashMap;

use crate::yaml::Span;

/// Places of the servers that a configuration names, for diagnostics about connections to them.
#[derive(Debug, Default)]
pub struct ServerPlaces(HashMap<(String, u16), Span>);

impl ServerPlaces {
    /// Notes that the value at `at` names a server. The first place of a server stays. An IPv6 address has no brackets; a
    /// socket is its path with port 0.
    pub fn add(&mut self, host: &str, port: u16, at: Span) {
        self.0.entry((host.to_owned(), port)).or_insert(at);
    }

    /// Returns the place of a server.
    #[must_use]
    pub fn of(&self, host: &str, port: u16) -> Option<Span> {
        self.0.get(&(host.to_owned(), port)).copied()
    }
}
