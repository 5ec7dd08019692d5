//! Who is let through uncounted, and who is not let through at all.

use std::collections::HashSet;
use std::net::IpAddr;

use ipnet::IpNet;

/// Key ids and networks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessList {
    keys: HashSet<Box<[u8]>>,
    networks: Vec<IpNet>,
}

impl AccessList {
    /// A list of these.
    #[must_use]
    pub fn new(keys: impl IntoIterator<Item = String>, networks: Vec<IpNet>) -> Self {
        Self { keys: keys.into_iter().map(|key| key.into_bytes().into()).collect(), networks }
    }

    /// Whether nobody is on it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.networks.is_empty()
    }

    /// Whether it speaks of addresses.
    #[must_use]
    pub fn has_networks(&self) -> bool {
        !self.networks.is_empty()
    }

    /// Whether the client's address is on it; an IPv4-mapped one counts as IPv4.
    pub(super) fn has_address(&self, address: Option<IpAddr>) -> bool {
        let Some(address) = address.filter(|_| self.has_networks()).map(|address| address.to_canonical()) else {
            return false;
        };
        self.networks.iter().any(|network| network.contains(&address))
    }

    /// Whether the key id is on it.
    pub(super) fn has_key(&self, id: &[u8]) -> bool {
        self.keys.contains(id)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn addresses_are_looked_for_in_networks_and_keys_as_they_are() {
        let list = AccessList::new(["ada".to_owned()], vec!["10.0.0.0/8".parse().unwrap()]);
        let at = |text: &str| list.has_address(Some(text.parse().unwrap()));
        assert_eq!([at("10.1.2.3"), at("::ffff:10.1.2.3"), at("11.0.0.1"), at("::1")], [true, true, false, false]);
        assert!(!list.has_address(None));
        assert_eq!([list.has_key(b"ada"), list.has_key(b"Ada"), list.has_key(b"10.1.2.3")], [true, false, false]);
    }
}
