//! Timeouts of requests to upstreams: Spring has none unless one is set.

use crate::translate::Explicit;
use tollgate_document::yaml::Node;

pub(super) fn translate(root: &mut Node, explicit: &mut Explicit) {
    for timeout in ["response-timeout", "read-timeout"] {
        let reason = "As in Spring, there is no such timeout; Tollgate's default is 60s.";
        explicit.add_missing(root, &["httpclient", timeout], "-1", reason);
    }
}
