//! Upstream faults, and the Java exceptions that Spring Cloud Gateway throws for them.
//!
//! A gateway that responds for a failed upstream puts the [`Fault`] into the response's extensions, beside
//! [`LocalReply`](crate::context::LocalReply). `Retry`'s `exceptions`, a breaker's `recordExceptions` and the headers of
//! `FallbackHeaders` name Java classes. This module maps each fault to its class.
//!
//! Sources: `NettyRoutingFilter`, `ReactiveLoadBalancerClientFilter` and `SpringCloudCircuitBreakerFilterFactory` of Spring
//! Cloud Gateway, `CallNotPermittedException` of resilience4j, and the exceptions of Netty and Reactor Netty that reach
//! Spring's filters.

mod java;

#[cfg(not(feature = "gateway"))]
#[allow(unused_imports, reason = "features select the users")]
pub(crate) use self::java::{FallbackCause, JavaException};
#[cfg(feature = "gateway")]
pub use self::java::{FallbackCause, JavaException};

/// Reason why there is no usable response from an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// The load balancer has no healthy endpoint.
    NoEndpoint,
    /// The host name has no address.
    NameNotResolved,
    /// The connection was refused, or the network is unreachable.
    Unreachable,
    /// The connection was not established in time.
    ConnectTimeout,
    /// The TLS handshake failed.
    Tls,
    /// The connection closed before the response.
    ConnectionClosed,
    /// The upstream sent no valid HTTP response.
    Malformed,
    /// No response within the response timeout.
    ResponseTimeout,
    /// No response within the time limit of a circuit breaker.
    TimeLimit,
    /// An open circuit breaker rejected the request.
    CircuitOpen,
    /// A response with a status that a circuit breaker counts as a failure.
    FailureStatus,
}

/// Set of faults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultSet(u16);

/// Response extension: the response of a fallback to a call that an open circuit breaker did not permit. It is no failure of
/// its own, but `Retry` treats it as [`Fault::CircuitOpen`]: another attempt would get the fallback again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CircuitOpenFallback;

impl Fault {
    /// Every fault.
    pub const ALL: [Self; 11] = [
        Self::NoEndpoint,
        Self::NameNotResolved,
        Self::Unreachable,
        Self::ConnectTimeout,
        Self::Tls,
        Self::ConnectionClosed,
        Self::Malformed,
        Self::ResponseTimeout,
        Self::TimeLimit,
        Self::CircuitOpen,
        Self::FailureStatus,
    ];
}

impl FaultSet {
    /// No fault.
    pub const NONE: Self = Self(0);
    /// Every fault.
    pub const ALL: Self = Self(u16::MAX);

    /// Returns true if the set contains `fault`.
    #[must_use]
    pub fn contains(self, fault: Fault) -> bool {
        self.0 & (1 << fault as u16) != 0
    }

    /// Returns the union with `other`.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    fn matching(matches: impl Fn(Fault) -> bool) -> Self {
        Fault::ALL.into_iter().filter(|fault| matches(*fault)).collect()
    }
}

impl FromIterator<Fault> for FaultSet {
    fn from_iter<I: IntoIterator<Item = Fault>>(faults: I) -> Self {
        Self(faults.into_iter().fold(0, |set, fault| set | (1 << fault as u16)))
    }
}
