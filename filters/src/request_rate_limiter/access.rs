//! List of clients, by key id or network.

use std::collections::HashSet;
use std::net::IpAddr;

use ipnet::IpNet;

use crate::key_resolver::KeyResolver;

/// List of clients, by key id or network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessList {
    keys: HashSet<Box<[u8]>>,
    networks: Vec<IpNet>,
}

impl AccessList {
    /// Creates a list of key ids, as key resolvers return them, and networks.
    #[must_use]
    pub fn new(keys: impl IntoIterator<Item = String>, networks: Vec<IpNet>) -> Self {
        Self { keys: keys.into_iter().map(|key| key.into_bytes().into()).collect(), networks }
    }

    /// Adds the forms in which `resolvers` return the key ids of the list.
    pub fn add_normal_ids<'r>(&mut self, resolvers: impl Iterator<Item = &'r KeyResolver>) {
        for resolver in resolvers {
            let normal: Vec<Box<[u8]>> =
                self.keys.iter().map(|id| resolver.normal_id(id).into_owned().into()).collect();
            self.keys.extend(normal);
        }
    }

    /// Returns true if the list has no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.networks.is_empty()
    }

    /// Returns true if the list has networks.
    #[must_use]
    pub fn has_networks(&self) -> bool {
        !self.networks.is_empty()
    }

    /// Returns true if the list contains the client's address. An IPv4-mapped address counts as IPv4.
    pub(super) fn has_address(&self, address: Option<IpAddr>) -> bool {
        let Some(address) = address.filter(|_| self.has_networks()).map(|address| address.to_canonical()) else {
            return false;
        };
        self.networks.iter().any(|network| network.contains(&address))
    }

    /// Returns true if the list contains the key id.
    pub(super) fn has_key(&self, id: &[u8]) -> bool {
        self.keys.contains(id)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn addresses_match_networks_and_keys_match_exactly() {
        let list = AccessList::new(["ada".to_owned()], vec!["10.0.0.0/8".parse().unwrap()]);
        let at = |text: &str| list.has_address(Some(text.parse().unwrap()));
        assert_eq!([at("10.1.2.3"), at("::ffff:10.1.2.3"), at("11.0.0.1"), at("::1")], [true, true, false, false]);
        assert!(!list.has_address(None));
        assert_eq!([list.has_key(b"ada"), list.has_key(b"Ada"), list.has_key(b"10.1.2.3")], [true, false, false]);
    }
}
