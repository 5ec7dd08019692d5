//! Java's exceptions, by which Spring Cloud Gateway names faults.

use std::borrow::Cow;

use super::{Fault, FaultSet};

/// Java exception that Spring Cloud Gateway throws for a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JavaException {
    /// The full class name.
    pub class: &'static str,
    /// The message. It discloses neither hosts nor addresses.
    pub message: Cow<'static, str>,
}

/// Request extension: the failure that sent a request to a circuit breaker's fallback. `FallbackHeaders` reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FallbackCause {
    /// The exception that the breaker caught.
    pub execution: JavaException,
    /// Its root cause; the same exception if it has none.
    pub root: JavaException,
}

/// A class, then its superclasses.
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
/// The exception that filters around the breaker see for [`Fault::TimeLimit`], and the cause of
/// [`Fault::ResponseTimeout`].
const GATEWAY_TIMEOUT: Lineage = &["org.springframework.cloud.gateway.support.TimeoutException", EXCEPTION, THROWABLE];

impl Fault {
    /// Returns the class that is thrown where the fault happens, with its superclasses.
    fn lineage(self) -> Lineage {
        match self {
            Self::NoEndpoint => &[NOT_FOUND, STATUS, ERROR_RESPONSE, NESTED, RUNTIME, EXCEPTION, THROWABLE],
            Self::NameNotResolved => &["java.net.UnknownHostException", IO, EXCEPTION, THROWABLE],
            Self::Unreachable => &[CONNECT, SOCKET, IO, EXCEPTION, THROWABLE],
            Self::ConnectTimeout => {
                &["io.netty.channel.ConnectTimeoutException", CONNECT, SOCKET, IO, EXCEPTION, THROWABLE]
            }
            Self::Tls => {
                &["javax.net.ssl.SSLHandshakeException", "javax.net.ssl.SSLException", IO, EXCEPTION, THROWABLE]
            }
            Self::ConnectionClosed => &["reactor.netty.http.client.PrematureCloseException", IO, EXCEPTION, THROWABLE],
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

    /// Returns the class of the exception's cause, or of the exception that filters around a circuit breaker see instead.
    fn related_classes(self) -> Lineage {
        match self {
            Self::ResponseTimeout | Self::TimeLimit => GATEWAY_TIMEOUT,
            Self::CircuitOpen => &["org.springframework.cloud.gateway.support.ServiceUnavailableException"],
            Self::NoEndpoint
            | Self::NameNotResolved
            | Self::Unreachable
            | Self::ConnectTimeout
            | Self::Tls
            | Self::ConnectionClosed
            | Self::Malformed
            | Self::FailureStatus => &[],
        }
    }

    fn message(self) -> &'static str {
        match self {
            Self::NoEndpoint => "503 SERVICE_UNAVAILABLE \"Unable to find instance\"",
            Self::NameNotResolved => "the name has no address",
            Self::Unreachable => "Connection refused",
            Self::ConnectTimeout => "connection timed out",
            Self::Tls => "the TLS handshake failed",
            Self::ConnectionClosed => "Connection prematurely closed BEFORE response",
            Self::Malformed => "no valid HTTP response",
            Self::ResponseTimeout => "504 GATEWAY_TIMEOUT",
            Self::TimeLimit => "Did not observe any item or terminal signal within the time limit",
            Self::CircuitOpen => "CircuitBreaker is OPEN and does not permit further calls",
            Self::FailureStatus => "the status counts as a failure",
        }
    }

    /// Returns the exception and its root cause, which is the same exception if it has none.
    #[doc(hidden)]
    #[must_use]
    pub fn exceptions(self) -> (JavaException, JavaException) {
        let exception = JavaException { class: self.lineage()[0], message: self.message().into() };
        let root = match self {
            Self::ResponseTimeout => {
                JavaException { class: GATEWAY_TIMEOUT[0], message: "Response took longer than timeout".into() }
            }
            _ => exception.clone(),
        };
        (exception, root)
    }
}

impl FaultSet {
    /// Returns the faults whose exception or its cause has the type `class`, as `Retry` matches them. The package is
    /// optional.
    ///
    /// Returns [`Self::NONE`] for a class that no fault has.
    #[doc(hidden)]
    #[must_use]
    pub fn of_class(class: &str) -> Self {
        Self::matching(|fault| {
            fault.lineage().iter().chain(fault.related_classes()).any(|full_name| is_named(full_name, class))
        })
    }

    /// Returns the faults with an exception of the type `class`, causes excluded, as resilience4j matches them.
    #[doc(hidden)]
    #[must_use]
    pub fn of_class_excluding_causes(class: &str) -> Self {
        Self::matching(|fault| fault.lineage().iter().any(|full_name| is_named(full_name, class)))
    }
}

/// Returns true if `name` is the full class name `full_name` or its last part.
fn is_named(full_name: &str, name: &str) -> bool {
    let part = |separator| full_name.rsplit(separator).next() == Some(name);
    full_name == name || part('.') || part('$')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_maps_to_the_faults_that_spring_throws_it_for() {
        use Fault::*;
        let io = vec![NameNotResolved, Unreachable, ConnectTimeout, Tls, ConnectionClosed];
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
        assert_eq!(FaultSet::of_class_excluding_causes("TimeoutException"), [TimeLimit].into_iter().collect());
    }

    #[test]
    fn a_response_timeout_is_a_status_exception_caused_by_a_timeout() {
        let (exception, root) = Fault::ResponseTimeout.exceptions();
        assert_eq!(exception.class, "org.springframework.web.server.ResponseStatusException");
        assert_eq!(root.class, "org.springframework.cloud.gateway.support.TimeoutException");
        assert_eq!(Fault::Unreachable.exceptions().0, Fault::Unreachable.exceptions().1);
    }
}
