//! `RemoteAddr` and `XForwardedRemoteAddr`: the address of the TCP peer or client, and lists of networks.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;

use http::HeaderName;
use ipnet::{IpNet, Ipv4Net};

use crate::decision::Decision;
use crate::error::PredicateError;
use crate::predicate::Predicate;
use crate::predicate::condition::{Condition, JavaList, parse_each};
use crate::predicate::row::{PredicateArgument, PredicateForm, PredicateRow, PredicateSettings, Remark};
use crate::request::{RequestPart, RequestView};

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

pub(super) const REMOTE_ADDR: PredicateRow = PredicateRow {
    name: "RemoteAddr",
    doc: "The address of the TCP peer is in one of these networks. With `server.forward-headers-strategy`, it is the client \
          address that trusted proxies report.",
    form: PredicateForm::List([SOURCES], Predicate::remote_addr),
    remark: None,
};

#[derive(Clone, Debug, PartialEq)]
struct RemoteAddr(Networks);

impl Predicate {
    /// `RemoteAddr`: the remote address of the request is in one of these networks, such as `10.0.0.0/8` or `fd00::/8`. Host
    /// bits may be set.
    ///
    /// A single address matches only itself. In Spring, a single IPv6 address matches its whole `/32`, which is a bug. An
    /// IPv4-mapped IPv6 address (`::ffff:10.0.0.1`) is compared as its IPv4 address.
    ///
    /// # Errors
    /// Returns an error if `sources` is empty or a network is invalid.
    pub fn remote_addr(sources: &[String]) -> Result<Self, PredicateError> {
        Networks::parse(sources).map(|networks| Self::other(RemoteAddr(networks)))
    }
}

impl Condition for RemoteAddr {
    fn decide(&self, request: &RequestView<'_>) -> Decision {
        self.0.contains(request.remote_addr).into()
    }

    fn observe(&self, request: &RequestView<'_>) -> String {
        format!("the remote address is {}", request.remote_addr.to_canonical())
    }

    fn reads(&self) -> Vec<RequestPart<'_>> {
        vec![RequestPart::RemoteAddr]
    }
}

impl fmt::Display for RemoteAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RemoteAddrs: {}", JavaList(self.0.sources()))
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

pub(super) const X_FORWARDED_REMOTE_ADDR: PredicateRow = PredicateRow {
    name: "XForwardedRemoteAddr",
    doc: "The client address of `X-Forwarded-For` is in one of these networks; without the field, or with \
          several lines of it, the address of the TCP peer. Only `trusted-proxies` may send the field.",
    form: PredicateForm::ListWithOption(
        [
            SOURCES,
            PredicateArgument::number(
                INDEX,
                "1-based position of the entry to use, from the right; the leftmost if there are fewer. Default 1.",
            ),
        ],
        |sources, index| Predicate::x_forwarded_remote_addr(sources, parse_index(index)?),
    ),
    remark: Some(remark),
};

const INDEX: &str = "maxTrustedIndex";
static X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

#[derive(Clone, Debug, PartialEq)]
struct XForwardedRemoteAddr {
    networks: Networks,
    /// Position from the right, from 1.
    max_trusted_index: NonZeroUsize,
}

impl Predicate {
    /// `XForwardedRemoteAddr`: the client's address in `X-Forwarded-For` is in one of these networks (see
    /// [`remote_addr`](Self::remote_addr)).
    ///
    /// The address is the entry `max_trusted_index` from the right, 1 being the last, or the first entry if there are
    /// fewer. If the field is missing, empty or repeated, the remote address is used. The request must have the field only if
    /// a trusted proxy sent it: its entries are those of the client and the proxies, and `max_trusted_index` is the number of
    /// trusted ones.
    ///
    /// # Errors
    /// Returns an error if `sources` is empty, or one of them is invalid.
    pub fn x_forwarded_remote_addr(
        sources: &[String],
        max_trusted_index: NonZeroUsize,
    ) -> Result<Self, PredicateError> {
        Ok(Self::other(XForwardedRemoteAddr { networks: Networks::parse(sources)?, max_trusted_index }))
    }
}

fn parse_index(text: Option<&str>) -> Result<NonZeroUsize, PredicateError> {
    let Some(text) = text else { return Ok(NonZeroUsize::MIN) };
    let error = || PredicateError::Option { name: INDEX, expected: "a number from 1", value: text.to_owned() };
    text.trim().parse().map_err(|_| error())
}

fn remark(settings: &PredicateSettings) -> Option<Remark> {
    (!settings.trusts_proxies).then_some(Remark {
        is_mistake: false,
        message: "`XForwardedRemoteAddr` without `trusted-proxies`: `X-Forwarded-For` is ignored, and the TCP peer compared",
        help: "`trusted-proxies` names the proxies before this gateway; `RemoteAddr` compares the TCP peer",
    })
}

// === impl XForwardedRemoteAddr ===

impl XForwardedRemoteAddr {
    /// Returns the client's address; `None` if the selected entry is not an IP address.
    fn client(&self, request: &RequestView<'_>) -> Option<IpAddr> {
        let mut lines = request.forwarded_for.get_all(&X_FORWARDED_FOR).iter();
        // Several lines may come from different senders in an unknown order.
        let (Some(line), None) = (lines.next(), lines.next()) else { return Some(request.remote_addr) };
        let line = line.to_str().ok()?;
        if line.trim().is_empty() {
            return Some(request.remote_addr);
        }
        let from_the_right = self.max_trusted_index.get() - 1;
        let entry = line.rsplit(',').nth(from_the_right).or_else(|| line.split(',').next())?.trim();
        let with_port = || entry.parse::<SocketAddr>().ok().map(|address| address.ip());
        entry.parse().ok().or_else(with_port)
    }
}

impl Condition for XForwardedRemoteAddr {
    fn decide(&self, request: &RequestView<'_>) -> Decision {
        self.client(request).is_some_and(|client| self.networks.contains(client)).into()
    }

    fn observe(&self, request: &RequestView<'_>) -> String {
        match self.client(request) {
            Some(client) => format!("the client is {client}"),
            None => "the entry of `X-Forwarded-For` is not an IP address".to_owned(),
        }
    }

    fn reads(&self) -> Vec<RequestPart<'_>> {
        vec![RequestPart::RemoteAddr, RequestPart::Header(&X_FORWARDED_FOR)]
    }
}

impl fmt::Display for XForwardedRemoteAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "XForwardedRemoteAddrs: {}", JavaList(self.networks.sources()))?;
        match self.max_trusted_index.get() {
            1 => Ok(()),
            index => write!(f, ", max trusted index: {index}"),
        }
    }
}
