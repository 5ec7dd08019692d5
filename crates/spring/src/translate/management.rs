//! Spring Boot's endpoints, which are on the port for traffic unless management has a port of its own.

use crate::translate::Explicit;
use tollgate_document::yaml::Node;

pub(super) fn translate(root: &mut Node, explicit: &mut Explicit) {
    if root.get("management").is_some() {
        let reason = "As in Spring Boot, unless management has a port of its own; Tollgate's default is `false`.";
        explicit.add_missing(root, &["management", "on-traffic-port"], "auto", reason);
    }
}
