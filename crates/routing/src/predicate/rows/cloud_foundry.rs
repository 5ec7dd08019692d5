//! `CloudFoundryRouteService`: the headers of a Cloud Foundry route service.

use std::fmt;

use http::HeaderName;

use crate::decision::Decision;
use crate::predicate::Predicate;
use crate::predicate::condition::{Condition, quoted_list};
use crate::predicate::row::{PredicateForm, PredicateRow};
use crate::request::{RequestPart, RequestView};

pub(super) const CLOUD_FOUNDRY_ROUTE_SERVICE: PredicateRow = PredicateRow {
    name: "CloudFoundryRouteService",
    doc: "The request has the three headers of a Cloud Foundry route service. Written `CloudFoundryRouteService=`.",
    form: PredicateForm::NoArguments(Predicate::cloud_foundry_route_service),
    remark: None,
};

/// The headers of a request to a Cloud Foundry route service.
static HEADERS: [HeaderName; 3] = [
    HeaderName::from_static("x-cf-forwarded-url"),
    HeaderName::from_static("x-cf-proxy-signature"),
    HeaderName::from_static("x-cf-proxy-metadata"),
];

#[derive(Clone, Copy, Debug, PartialEq)]
struct CloudFoundryRouteService;

impl Predicate {
    /// `CloudFoundryRouteService`: the request has the three headers of a Cloud Foundry route service.
    #[must_use]
    pub fn cloud_foundry_route_service() -> Self {
        Self::other(CloudFoundryRouteService)
    }
}

impl Condition for CloudFoundryRouteService {
    fn decide(&self, request: &RequestView<'_>) -> Decision {
        HEADERS.iter().all(|name| request.headers.contains_key(name)).into()
    }

    fn observe(&self, request: &RequestView<'_>) -> String {
        let missing: Vec<&HeaderName> = HEADERS.iter().filter(|name| !request.headers.contains_key(*name)).collect();
        match missing.is_empty() {
            true => "all headers of a route service are present".to_owned(),
            false => format!("headers are missing: {}", quoted_list(&missing)),
        }
    }

    fn reads(&self) -> Vec<RequestPart<'_>> {
        HEADERS.iter().map(RequestPart::Header).collect()
    }
}

impl fmt::Display for CloudFoundryRouteService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CloudFoundryRouteService")
    }
}
