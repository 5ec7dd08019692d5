//! Requests whose client address is needed and unknown. The count is that of the process: the only test of this program.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::Request;
use tollgate_filters::client_address::requests_without_address;
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
fn requests_without_an_address_are_counted_and_the_first_is_logged() {
    let warnings = Warnings::default();
    let _guard = tracing::subscriber::set_default(warnings.clone());
    let by_extension = KeyResolver::ip_from(|address: &IpAddr| *address);
    for resolver in [KeyResolver::client_ip(), KeyResolver::client_ip_behind([]), by_extension] {
        assert_eq!(resolver.resolve(&Request::new(()), &mut KeyBuf::new()), None);
    }
    let by_field = KeyResolver::from_fn(|head| head.headers.get("x-user"));
    assert_eq!(by_field.resolve(&Request::new(()), &mut KeyBuf::new()), None);
    assert_eq!((requests_without_address(), warnings.0.load(Ordering::Relaxed)), (3, 1));
}
