//! Why an upstream gave no good answer: what filters tell each other, and what Spring Cloud Gateway would have thrown.
//!
//! A [`Fault`] stands in the extensions of the response that a gateway makes of it, beside
//! [`LocalReply`](crate::context::LocalReply). `Retry`'s `exceptions`, a breaker's `recordExceptions` and what
//! `FallbackHeaders` sends name Java classes; here is which class stands for which fault.
//!
//! Sources: `NettyRoutingFilter`, `ReactiveLoadBalancerClientFilter` and `SpringCloudCircuitBreakerFilterFactory` of Spring
//! Cloud Gateway, `CallNotPermittedException` of resilience4j, and the exceptions of Netty and Reactor Netty that get through.

use std::borrow::Cow;

/// Why there is no good answer from the upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// No endpoint can be asked: a load balancer without a healthy one.
    NoEndpoint,
    /// The name has no address.
    Unresolved,
    /// Nobody listens, or the way is barred.
    Unreachable,
    /// The connection was not accepted in time.
    ConnectTimeout,
    /// The TLS handshake failed.
    Tls,
    /// The connection broke off before the answer.
    BrokeOff,
    /// What came is no answer.
    Malformed,
    /// No answer within the response timeout.
    ResponseTimeout,
    /// No answer within the time limit of a circuit breaker.
    TimeLimit,
    /// An open circuit breaker let the request not through.
    CircuitOpen,
    /// An answer, with a status that a circuit breaker counts as a failure.
    FailureStatus,
}

/// Any of several faults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultSet(u16);

/// An exception, as Spring would have thrown it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thrown {
    /// The Java class.
    pub class: &'static str,
    /// What it says. Nothing about the inside: neither hosts nor addresses.
    pub message: Cow<'static, str>,
}

/// Why a request came to the fallback of a circuit breaker; a request extension, which `FallbackHeaders` reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FallbackCause {
    /// What the breaker caught.
    pub execution: Thrown,
    /// The first cause of it: the same, where it has none.
    pub root: Thrown,
}

/// The class that is thrown, then those that it extends.
type Lineage = &'static [&'static str];

const NOT_FOUND: &str = "org.springframework.cloud.gateway.support.NotFoundException";
const FAILURE_STATUS: &str = concat!(
    "org.springframework.cloud.gateway.filter.factory.",
    "SpringCloudCircuitBreakerFilterFactory$CircuitBreakerStatusCodeException"
);
const THROWABLE: &str = "java.lang.Throwable";
const EXCEPTION: &str = "java.lang.Exception";
const RUNTIME: &str = "java.lang.RuntimeException";
const IO: &str = "java.io.IOException";
const SOCKET: &str = "java.net.SocketException";
const CONNECT: &str = "java.net.ConnectException";
const STATUS: &str = "org.springframework.web.server.ResponseStatusException";
const ERROR_RESPONSE: &str = "org.springframework.web.ErrorResponseException";
const NESTED: &str = "org.springframework.core.NestedRuntimeException";
/// What [`Fault::TimeLimit`] is to whatever stands around the breaker, and the cause of [`Fault::ResponseTimeout`].
const GATEWAY_TIMEOUT: Lineage = &["org.springframework.cloud.gateway.support.TimeoutException", EXCEPTION, THROWABLE];

impl Fault {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::NoEndpoint,
        Self::Unresolved,
        Self::Unreachable,
        Self::ConnectTimeout,
        Self::Tls,
        Self::BrokeOff,
        Self::Malformed,
        Self::ResponseTimeout,
        Self::TimeLimit,
        Self::CircuitOpen,
        Self::FailureStatus,
    ];

    /// What is thrown where it happens.
    fn lineage(self) -> Lineage {
        match self {
            Self::NoEndpoint => &[NOT_FOUND, STATUS, ERROR_RESPONSE, NESTED, RUNTIME, EXCEPTION, THROWABLE],
            Self::Unresolved => &["java.net.UnknownHostException", IO, EXCEPTION, THROWABLE],
            Self::Unreachable => &[CONNECT, SOCKET, IO, EXCEPTION, THROWABLE],
            Self::ConnectTimeout => {
                &["io.netty.channel.ConnectTimeoutException", CONNECT, SOCKET, IO, EXCEPTION, THROWABLE]
            }
            Self::Tls => {
                &["javax.net.ssl.SSLHandshakeException", "javax.net.ssl.SSLException", IO, EXCEPTION, THROWABLE]
            }
            Self::BrokeOff => &["reactor.netty.http.client.PrematureCloseException", IO, EXCEPTION, THROWABLE],
            Self::Malformed => &[
                "io.netty.handler.codec.DecoderException",
                "io.netty.handler.codec.CodecException",
                RUNTIME,
                EXCEPTION,
                THROWABLE,
            ],
            Self::ResponseTimeout => &[STATUS, ERROR_RESPONSE, NESTED, RUNTIME, EXCEPTION, THROWABLE],
            Self::TimeLimit => &["java.util.concurrent.TimeoutException", EXCEPTION, THROWABLE],
            Self::CircuitOpen => {
                &["io.github.resilience4j.circuitbreaker.CallNotPermittedException", RUNTIME, EXCEPTION, THROWABLE]
            }
            Self::FailureStatus => &[
                FAILURE_STATUS,
                "org.springframework.web.client.HttpStatusCodeException",
                "org.springframework.web.client.RestClientResponseException",
                "org.springframework.web.client.RestClientException",
                NESTED,
                RUNTIME,
                EXCEPTION,
                THROWABLE,
            ],
        }
    }

    /// What it is besides: its cause, or what becomes of it outside of the breaker.
    fn also(self) -> Lineage {
        match self {
            Self::ResponseTimeout | Self::TimeLimit => GATEWAY_TIMEOUT,
            Self::CircuitOpen => &["org.springframework.cloud.gateway.support.ServiceUnavailableException"],
            _ => &[],
        }
    }

    fn message(self) -> &'static str {
        match self {
            Self::NoEndpoint => "503 SERVICE_UNAVAILABLE \"Unable to find instance\"",
            Self::Unresolved => "the name has no address",
            Self::Unreachable => "Connection refused",
            Self::ConnectTimeout => "connection timed out",
            Self::Tls => "the TLS handshake failed",
            Self::BrokeOff => "Connection prematurely closed BEFORE response",
            Self::Malformed => "no valid HTTP response",
            Self::ResponseTimeout => "504 GATEWAY_TIMEOUT",
            Self::TimeLimit => "Did not observe any item or terminal signal within the time limit",
            Self::CircuitOpen => "CircuitBreaker is OPEN and does not permit further calls",
            Self::FailureStatus => "the status counts as a failure",
        }
    }

    /// The exception, and its root cause: itself where it has none.
    #[must_use]
    pub fn thrown(self) -> (Thrown, Thrown) {
        let thrown = Thrown { class: self.lineage()[0], message: self.message().into() };
        let root = match self {
            Self::ResponseTimeout => {
                Thrown { class: GATEWAY_TIMEOUT[0], message: "Response took longer than timeout".into() }
            }
            _ => thrown.clone(),
        };
        (thrown, root)
    }
}

impl FaultSet {
    /// No fault.
    pub const NONE: Self = Self(0);
    /// Every fault.
    pub const ALL: Self = Self(u16::MAX);

    /// Whether `fault` is one of them.
    #[must_use]
    pub fn contains(self, fault: Fault) -> bool {
        self.0 & (1 << fault as u16) != 0
    }

    /// These and those of `other`.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The faults that are a `class`, itself or by their cause (`Retry` looks at both); its package may be left out.
    /// [`Self::NONE`] for a class that no fault is.
    #[must_use]
    pub fn of_class(class: &str) -> Self {
        Self::where_(|fault| fault.lineage().iter().chain(fault.also()).any(|known| is_called(known, class)))
    }

    /// The faults that are a `class` themselves: what resilience4j looks at.
    #[must_use]
    pub fn of_class_itself(class: &str) -> Self {
        Self::where_(|fault| fault.lineage().iter().any(|known| is_called(known, class)))
    }

    fn where_(holds: impl Fn(Fault) -> bool) -> Self {
        Fault::ALL.into_iter().filter(|fault| holds(*fault)).collect()
    }
}

impl FromIterator<Fault> for FaultSet {
    fn from_iter<I: IntoIterator<Item = Fault>>(faults: I) -> Self {
        Self(faults.into_iter().fold(0, |set, fault| set | (1 << fault as u16)))
    }
}

/// Whether the class of the full name `known` may be called `name`: by its full name or by the last part of it.
fn is_called(known: &str, name: &str) -> bool {
    let part = |separator| known.rsplit(separator).next() == Some(name);
    known == name || part('.') || part('$')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_stands_for_the_faults_that_spring_throws_it_for() {
        use Fault::*;
        let io = vec![Unresolved, Unreachable, ConnectTimeout, Tls, BrokeOff];
        for (class, faults) in [
            ("java.io.IOException", io.clone()),
            ("IOException", io),
            ("java.net.ConnectException", vec![Unreachable, ConnectTimeout]),
            ("io.netty.channel.ConnectTimeoutException", vec![ConnectTimeout]),
            ("org.springframework.cloud.gateway.support.TimeoutException", vec![ResponseTimeout, TimeLimit]),
            ("java.util.concurrent.TimeoutException", vec![TimeLimit]),
            ("org.springframework.cloud.gateway.support.NotFoundException", vec![NoEndpoint]),
            ("org.springframework.web.server.ResponseStatusException", vec![NoEndpoint, ResponseTimeout]),
            ("org.springframework.cloud.gateway.support.ServiceUnavailableException", vec![CircuitOpen]),
            ("java.lang.Throwable", Fault::ALL.to_vec()),
            ("java.lang.IllegalStateException", vec![]),
        ] {
            assert_eq!(FaultSet::of_class(class), faults.into_iter().collect(), "{class}");
        }
        assert_eq!(FaultSet::of_class_itself("TimeoutException"), [TimeLimit].into_iter().collect());
    }

    #[test]
    fn a_response_timeout_is_a_status_with_a_timeout_for_its_cause() {
        let (thrown, root) = Fault::ResponseTimeout.thrown();
        assert_eq!(thrown.class, "org.springframework.web.server.ResponseStatusException");
        assert_eq!(root.class, "org.springframework.cloud.gateway.support.TimeoutException");
        assert_eq!(Fault::Unreachable.thrown().0, Fault::Unreachable.thrown().1);
    }
}
