//! Requests without what a layer or server before the limiter inserts: the client's address, the context, the identity. Each is logged
//! once in a process: the only test of this program.

#![allow(clippy::unwrap_used)]

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::Request;
use tollgate_filters::client_address::requests_without_address;
use tollgate_filters::context::RequestContext;
use tollgate_filters::key_resolver::{KeyBuf, KeyResolver};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Counts warnings.
#[derive(Clone, Default)]
struct Warnings(Arc<AtomicU64>);

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
fn requests_without_the_source_of_their_key_are_logged_once_for_each_source() {
    let warnings = Warnings::default();
    let _guard = tracing::subscriber::set_default(warnings.clone());
    let by_extension = KeyResolver::ip_from(|address: &IpAddr| *address);
    for resolver in [KeyResolver::client_ip(), KeyResolver::client_ip_behind([]), by_extension] {
        assert_eq!(resolver.resolve(&Request::new(()), &mut KeyBuf::new()), None);
    }
    let by_field = KeyResolver::from_fn(|head| head.headers.get("x-user"));
    assert_eq!(by_field.resolve(&Request::new(()), &mut KeyBuf::new()), None);
    assert_eq!((requests_without_address(), warnings.0.load(Ordering::Relaxed)), (3, 1));
    for (resolver, logged) in [("principal", 2), ("route", 2), ("path:{id}", 2), ("api-key", 3), ("api-key", 3)] {
        assert_eq!(KeyResolver::parse(resolver).unwrap().resolve(&Request::new(()), &mut KeyBuf::new()), None);
        assert_eq!(warnings.0.load(Ordering::Relaxed), logged, "{resolver}");
    }
    let mut known = Request::new(());
    known.extensions_mut().insert(RequestContext::default());
    assert_eq!(KeyResolver::principal().resolve(&known, &mut KeyBuf::new()), None);
    assert_eq!(warnings.0.load(Ordering::Relaxed), 3, "a user who is not known lacks no layer");
}
