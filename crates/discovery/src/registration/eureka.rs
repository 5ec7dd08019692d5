//! Registration in Eureka: a lease at the server that responds.

use http::Method;
use serde_json::json;

use crate::client::encoded;
use crate::registration::{RegistrationEntry, Step};

/// Returns method, target and body of a request.
pub(super) fn request(entry: &RegistrationEntry, step: Step) -> (Method, String, String) {
    let (name, id) = (encoded(&entry.settings.name.to_uppercase()), encoded(&entry.id));
    match step {
        Step::Register => (Method::POST, format!("/apps/{name}"), instance(entry)),
        Step::Renew => (Method::PUT, format!("/apps/{name}/{id}?status=UP"), String::new()),
        Step::Leave => (Method::DELETE, format!("/apps/{name}/{id}"), String::new()),
    }
}

fn instance(entry: &RegistrationEntry) -> String {
    let settings = &entry.settings;
    let (scheme, port) = (if entry.is_secure { "https" } else { "http" }, entry.port);
    let base = format!("{scheme}://{}:{port}", entry.host);
    let of_port = |is_on: bool| json!({"$": if is_on { port } else { 0 }, "@enabled": is_on.to_string()});
    let mut metadata = settings.metadata.clone();
    let management = settings.management_port.unwrap_or(port);
    metadata.entry("management.port".to_owned()).or_insert_with(|| management.to_string());
    let management_base = format!("{}://{}:{management}", if management == port { scheme } else { "http" }, entry.host);
    let [home, status, health] = &settings.paths;
    let instance = json!({"instance": {
        "instanceId": entry.id,
        "hostName": entry.host,
        "app": settings.name.to_uppercase(),
        "ipAddr": entry.host,
        "status": "UP",
        "overriddenStatus": "UNKNOWN",
        "port": of_port(!entry.is_secure),
        "securePort": of_port(entry.is_secure),
        "countryId": 1,
        "dataCenterInfo": {"@class": "com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo", "name": "MyOwn"},
        "leaseInfo": {
            "renewalIntervalInSecs": settings.heartbeat.as_secs().max(1),
            "durationInSecs": settings.lease.as_secs().max(2),
        },
        "metadata": metadata,
        "homePageUrl": format!("{base}{home}"),
        "statusPageUrl": format!("{management_base}{status}"),
        "healthCheckUrl": format!("{management_base}{health}"),
        "vipAddress": settings.name,
        "secureVipAddress": settings.name,
        "isCoordinatingDiscoveryServer": "false",
    }});
    instance.to_string()
}
