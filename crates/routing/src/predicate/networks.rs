//! Lists of IP networks.

use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net};

use super::condition::parse_each;
use super::error::PredicateError;
use super::row::PredicateArgument;

/// Argument with a list of networks.
pub(super) const SOURCES: PredicateArgument =
    PredicateArgument::list("sources", "Addresses and networks such as `10.0.0.0/8`.");

/// Prefix length of `::ffff:0:0/96`, the IPv4-mapped addresses (RFC 4291, section 2.5.5.2).
const MAPPED_PREFIX: u8 = 96;

/// IP networks, and their texts for display.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Networks {
    sources: Box<[String]>,
    networks: Box<[IpNet]>,
}

// === impl Networks ===

impl Networks {
    pub(super) fn parse(sources: &[String]) -> Result<Self, PredicateError> {
        let networks = parse_each(sources, "network", |text| {
            network(text).ok_or_else(|| {
                PredicateError::value(text, "a network: write an IP address or a CIDR block such as 10.0.0.0/8")
            })
        })?;
        Ok(Self { sources: sources.into(), networks })
    }

    pub(super) fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.networks.iter().any(|network| network.contains(&address))
    }

    pub(super) fn sources(&self) -> &[String] {
        &self.sources
    }
}

/// Parses an address or a network. IPv4-mapped addresses (`::ffff:10.0.0.0/104`) become IPv4.
#[must_use]
pub fn network(text: &str) -> Option<IpNet> {
    let text = text.trim();
    let network = match text.parse::<IpNet>() {
        Ok(network) => network,
        Err(_) => IpNet::from(text.parse::<IpAddr>().ok()?),
    };
    // Addresses are compared as IPv4, so a network of mapped addresses is converted too.
    match (network.addr().to_canonical(), network.prefix_len().checked_sub(MAPPED_PREFIX)) {
        (IpAddr::V4(address), Some(prefix)) if network.addr().is_ipv6() => {
            Ipv4Net::new(address, prefix).ok().map(IpNet::from)
        }
        _ => Some(network),
    }
}
