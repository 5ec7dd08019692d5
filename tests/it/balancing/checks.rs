//! Active health checks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering::SeqCst};

use super::*;

/// Starts a server that answers with its name, and health checks with a settable status.
fn checked(name: &'static str) -> (Upstream, Arc<AtomicU16>) {
    let status = Arc::new(AtomicU16::new(200));
    let shown = Arc::clone(&status);
    let upstream = Upstream::start(move |request| {
        let status = if request.target() == "/up?deep" { shown.load(SeqCst) } else { 200 };
        response(status, &[], name.as_bytes())
    });
    (upstream, status)
}

#[test]
fn an_endpoint_that_fails_its_health_checks_gets_no_requests_until_it_passes() {
    let ((a, a_status), (b, b_status)) = (checked("a"), checked("b"));
    let settings = format!(
        "{}, balance: round-robin, health: {{path: '/up?deep', interval: 20ms, healthy: 2, unhealthy: 2, status: '200-204'}}",
        endpoints(&[&a, &b])
    );
    let gateway = Gateway::start(&yaml(&[("orders", settings.clone())], ""));
    let up = || gateway.metric("tollgate_upstream_endpoints{", &["state=\"up\""]);
    assert_eq!(shares(&gateway, "/orders/x", 10, &[]).len(), 2);
    a_status.store(500, SeqCst);
    let line = gateway.logged("endpoint unhealthy");
    assert!(line.contains(&a.uri()) && line.contains("reason=\"unexpected status 500\""), "{line}");
    assert_eq!(shares(&gateway, "/orders/x", 10, &[]), [share("b", 10)].into());
    b_status.store(302, SeqCst);
    gateway.logged("no healthy endpoint");
    let answer = gateway.get("/orders/x");
    assert_eq!((answer.status, answer.text().as_str()), (503, "Service Unavailable: the upstream is unavailable\n"));
    assert_eq!(gateway.admin("/health/live").status, 200, "the gateway lives");
    assert_eq!(gateway.metric("tollgate_upstream_unavailable_total", &["\"orders\""]), 1.0);
    // Health survives a reload, and checks continue.
    gateway.reload(&yaml(
        &[("orders", settings.replace("status: '200-204'", "status: '200, 201'"))],
        "loadbalancer: {use404: true}",
    ));
    eventually("404 instead", || gateway.get("/orders/x").status == 404);
    b_status.store(201, SeqCst);
    gateway.logged("upstream available again");
    assert_eq!(shares(&gateway, "/orders/x", 10, &[]), [share("b", 10)].into());
    a_status.store(200, SeqCst);
    eventually("both pass", || up() == 2.0);
    assert_eq!(shares(&gateway, "/orders/x", 10, &[]).len(), 2);
    assert!(gateway.metric("tollgate_upstream_health_checks_total", &["outcome=\"failed\""]) >= 3.0);
    let asked = a.requests().into_iter().find(|request| request.target() == "/up?deep").unwrap();
    assert_eq!(asked.header("host"), Some(a.address.to_string().as_str()));
    assert_eq!(asked.header("user-agent"), Some("tollgate-health-check"));
}

#[test]
fn spring_health_checks_detect_a_server_that_is_down() {
    let up = Upstream::start(|request| response(200, &[], request.target().as_bytes()));
    let down = crate::support::free_address();
    let gateway = Gateway::start(&format!(
        "spring.cloud:\n  loadbalancer: {{configurations: health-check, health-check: {{interval: 50ms, path: {{orders: /ping}}}}}}\n  \
         discovery.client.simple.instances:\n    orders: [{{uri: '{}'}}, {{uri: 'http://{down}'}}]\n  \
         gateway.routes: ['orders=lb://orders,Path=/orders']\n",
        up.uri()
    ));
    let line = gateway.logged("endpoint unhealthy");
    assert!(line.contains(&down.to_string()), "{line}");
    assert_eq!(shares(&gateway, "/orders", 6, &[]), [share("/orders", 6)].into());
    eventually("it is checked", || up.targets().iter().any(|target| target == "/ping"));
}
