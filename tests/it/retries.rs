//! Several `Retry` filters on one route.

use crate::support::gateway::Gateway;
use crate::support::upstream::{Upstream, response};

#[test]
fn retry_filters_of_a_request_share_one_count() {
    for nested in
        ["Retry=2", "Retry=1", "{name: Retry, args: {retries: 2, methods: GET, statuses: SERVICE_UNAVAILABLE}}"]
    {
        let upstream = Upstream::start(|_| response(503, &[], b""));
        let lists = format!(
            "  default-filters: [Retry=2]\n  routes: [{{id: a, uri: '{}', predicates: [Path=/a], filters: [{nested}]}}]\n",
            upstream.uri()
        );
        for (form, yaml) in [
            ("Spring", format!("spring:\n cloud:\n  gateway:\n{}", lists.replace("  ", "   "))),
            ("own", lists.replace("  default", "default").replace("  routes", "routes")),
        ] {
            let before = upstream.requests().len();
            let gateway = Gateway::start(&yaml);
            assert_eq!(gateway.connect().request("GET", "/a", &[], b"").status, 503);
            assert_eq!(upstream.requests().len() - before, 3, "{form} form with {nested}");
        }
    }
}
