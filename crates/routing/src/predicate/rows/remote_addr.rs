//! `RemoteAddr`: the address of the TCP peer or client.

use std::fmt;

use crate::decision::Decision;
use crate::predicate::Predicate;
use crate::predicate::condition::{Condition, JavaList};
use crate::predicate::error::PredicateError;
use crate::predicate::networks::{Networks, SOURCES};
use crate::predicate::row::{PredicateForm, PredicateRow};
use crate::request::{RequestPart, RequestView};

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
