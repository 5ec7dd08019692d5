//! `RemoteAddr`: the client's address.

use std::fmt;

use crate::decision::Decision;
use crate::predicate::Predicate;
use crate::predicate::condition::{Condition, JavaList};
use crate::predicate::error::PredicateError;
use crate::predicate::networks::{Networks, SOURCES, ipv6_remarks};
use crate::predicate::row::{PredicateForm, PredicateRow};
use crate::request::RequestView;

pub(super) const REMOTE_ADDR: PredicateRow = PredicateRow {
    name: "RemoteAddr",
    doc: "The address of the TCP peer is in one of these networks.",
    form: PredicateForm::List([SOURCES], Predicate::remote_addr),
    remarks: Some(ipv6_remarks),
};

#[derive(Clone, Debug)]
struct RemoteAddr(Networks);

impl Predicate {
    /// `RemoteAddr`: the client's address is in one of these networks (`10.0.0.0/8`, `fd00::/8`, host bits allowed).
    ///
    /// A single address matches only itself. Spring reads a single IPv6 address as its whole `/32`, an error that is not
    /// copied. An IPv4-mapped IPv6 address (`::ffff:10.0.0.1`) is compared as its IPv4 address.
    ///
    /// # Errors
    /// Returns an error without a network, or with an invalid one.
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
}

impl fmt::Display for RemoteAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RemoteAddrs: {}", JavaList(self.0.sources()))
    }
}
