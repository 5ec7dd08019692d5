//! `server.proxy-protocol`: connections that begin with the address of their client.

use std::net::IpAddr;

use ipnet::IpNet;
use tollgate_routing::network;

use crate::de::{Or, PositiveTime, Spanned, Word, secs};
use crate::diagnostics::Diagnostics;
use crate::yaml::Span;

/// Help for a list that is too short or too long.
const BALANCERS: &str = "list your load balancers: `trusted: [10.0.0.0/8]`";

/// PROXY protocol, with which load balancers that pass TCP through name the client.
#[section(Clone)]
pub struct ProxyProtocol {
    /// Addresses and networks of the load balancers. Their connections begin with a header of version 1 or 2; all others are served as they are. Required.
    trusted: Vec<Spanned<String>>,
    /// `required`; or `optional`: a connection of these addresses without a header is served with its own address.
    mode: Word<ProxyProtocolMode>,
    /// Timeout for the whole header. If `mode` is `optional`, a connection that sends nothing for this time is served without a header.
    pub timeout: Or<PositiveTime, { secs(3) }>,
    /// Networks of `trusted`.
    #[serde(skip)]
    networks: Vec<IpNet>,
}

/// Treatment of connections without a header.
#[word(Default)]
enum ProxyProtocolMode {
    /// They are closed.
    #[default]
    Required,
    /// They are served with their own address.
    Optional,
}

impl ProxyProtocol {
    /// Returns true if connections from `peer`, an address that is not IPv4-mapped, begin with a header.
    pub fn trusts(&self, peer: IpAddr) -> bool {
        self.networks.iter().any(|network| network.contains(&peer))
    }

    /// Returns true if a connection of a trusted address without a header is served with its own address.
    pub fn is_optional(&self) -> bool {
        self.mode.0 == ProxyProtocolMode::Optional
    }

    /// Checks the section, whose key is at `at`.
    pub(crate) fn check(&mut self, at: Span, diagnostics: &mut Diagnostics) {
        if self.trusted.is_empty() {
            diagnostics.error(at, "`server.proxy-protocol` trusts no address").help(BALANCERS);
        }
        for text in &self.trusted {
            let Some(network) = network(text) else {
                let message = format!("expected an address or a network such as `10.0.0.0/8`, found `{}`", text.value);
                diagnostics.error(text.span, message);
                continue;
            };
            if network.prefix_len() == 0 {
                let message = format!("`{}` trusts every address: each client can claim any address", text.value);
                diagnostics.warn(text.span, message).help(BALANCERS);
            }
            self.networks.push(network);
        }
    }
}
