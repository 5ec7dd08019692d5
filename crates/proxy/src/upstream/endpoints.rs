//! Endpoints of a route, and targets that filters set (`SetRequestUri`, `RequestHeaderToRequestUri`) instead of its `uri`.

use std::rc::Rc;
use std::sync::Arc;

use http::Request;
use http::uri::PathAndQuery;

use crate::upstream::balance::Balancer;
use crate::upstream::error::ForwardError;
use crate::upstream::origin::Origin;
use crate::upstream::pick::Pick;
use crate::upstream::pool::Pool;
use crate::upstream::pools::Pools;
use tollgate_config::{Http2, Scheme, Tls};
use tollgate_filters::context::TargetUri;

/// Endpoints of a route.
#[derive(Clone, Debug)]
pub enum RouteEndpoints {
    /// None: a filter names the target of each request.
    None,
    /// One endpoint.
    Single(Rc<Pool>),
    /// Endpoints of a load-balanced upstream.
    Balanced(Rc<Balancer>),
}

impl RouteEndpoints {
    /// Selects an endpoint for the request.
    ///
    /// # Errors
    /// No endpoint can take it.
    pub fn pick<B>(&self, request: &Request<B>) -> Result<Pick, ForwardError> {
        match self {
            Self::None => Err(ForwardError::BadTarget),
            Self::Single(pool) => Ok(Pick { pool: Rc::clone(pool), attempt: None }),
            Self::Balanced(balancer) => balancer.pick(request),
        }
    }
}

/// Connections to targets set by filters, with the settings of the route.
#[derive(Debug)]
pub struct DynamicTarget {
    /// Pools of the worker.
    pub pools: Rc<Pools>,
    /// TLS settings for `https` targets.
    pub tls: Arc<Tls>,
    /// Use of HTTP/2.
    pub http2: Http2,
}

impl DynamicTarget {
    /// Selects the server that `target` names. The target's path and query replace those of the request.
    ///
    /// # Errors
    /// The target is not an HTTP URI, or too many origins are in use.
    pub(super) fn pick<B>(&self, TargetUri(target): TargetUri, request: &mut Request<B>) -> Result<Pick, ForwardError> {
        let origin = self.origin(&target).ok_or(ForwardError::BadTarget)?;
        *request.uri_mut() = match target.into_parts().path_and_query {
            Some(path) if path.as_str().starts_with('/') => path.into(),
            Some(query) if !query.as_str().is_empty() => {
                format!("/{}", query.as_str()).parse().map_err(|_| ForwardError::BadTarget)?
            }
            _ => PathAndQuery::from_static("/").into(),
        };
        Ok(Pick { pool: self.pools.get_dynamic(origin)?, attempt: None })
    }

    fn origin(&self, target: &http::Uri) -> Option<Origin> {
        let scheme = match target.scheme_str()?.to_ascii_lowercase().as_str() {
            "http" | "ws" => Scheme::Http,
            "https" | "wss" => Scheme::Https,
            _ => return None,
        };
        let authority = target.authority()?;
        let host = authority.host();
        // Credentials must not reach the log of the server.
        if host.is_empty() || authority.as_str().contains('@') {
            return None;
        }
        let port = match authority.port() {
            None => scheme.default_port(),
            Some(port) => port.as_str().parse().ok().filter(|port| *port > 0)?,
        };
        Some(Origin::new(scheme, host, port, &self.tls, self.http2))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_target_is_parsed_or_refused() {
        let dynamic_target =
            DynamicTarget { pools: Rc::new(Pools::new(None)), tls: Arc::default(), http2: Http2::Auto };
        for (target, host, port, authority, path) in [
            ("http://shop", "shop", 80, "shop", "/"),
            ("ws://shop:80/a?b=c", "shop", 80, "shop", "/a?b=c"),
            ("https://[::1]/x", "::1", 443, "[::1]", "/x"),
            ("wss://Shop:8443", "Shop", 8443, "Shop:8443", "/"),
            ("http://shop?q=1", "shop", 80, "shop", "/?q=1"),
        ] {
            let mut request = Request::new(());
            let pick = dynamic_target.pick(TargetUri(target.parse().unwrap()), &mut request).unwrap();
            let origin = pick.pool.origin();
            assert_eq!((origin.host.as_str(), origin.port), (host, port), "{target}");
            assert_eq!(origin.authority, HeaderValue::from_static(authority), "{target}");
            assert_eq!(*request.uri(), path, "{target}");
        }
        for target in ["ftp://a/", "http://u:p@a/", "/path", "http://a:0/"] {
            let mut request = Request::new(());
            assert!(dynamic_target.pick(TargetUri(target.parse().unwrap()), &mut request).is_err(), "{target}");
        }
    }
}
