#![allow(clippy::unwrap_used, clippy::panic)]
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::fixtures::any_json;
use crate::kubernetes::table::SliceTable;

fn settings() -> Kubernetes {
    let text = "kubernetes: {client: {master-url: 'http://a'}}\nroutes: [{id: a, uri: 'echo:', predicates: [Path=/]}]";
    let loaded = tollgate_config::parse("test", text, &|_| None).unwrap();
    match loaded.config.registries.into_iter().next().unwrap() {
        tollgate_config::Registry::Kubernetes(settings) => settings,
        other => panic!("{other:?}"),
    }
}

fn list(items: &Value) -> Result<Page, ReadError> {
    let text =
        json!({"kind": "EndpointSliceList", "metadata": {"resourceVersion": "7", "continue": ""}, "items": items});
    page(text.to_string().as_bytes(), &settings())
}

fn slice_of(name: &str, more: &Value) -> Value {
    let mut object = json!({
        "metadata": {"name": name, "namespace": "shop", "labels": {SERVICE_NAME: "orders"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.1.0.1"], "conditions": {"ready": true}, "zone": "eu-1"}],
        "ports": [{"name": "", "port": 8080, "protocol": "TCP"}],
    });
    for (key, value) in more.as_object().into_iter().flatten() {
        object[key] = value.clone();
    }
    object
}

/// Returns the addresses of the service `orders`.
fn addresses(items: &Value, not_ready: bool) -> Vec<String> {
    let mut table = SliceTable::default();
    table.replace("shop", list(items).unwrap().slices);
    table.instances("ORDERS", not_ready).iter().map(|instance| instance.address.to_string()).collect()
}

#[test]
fn ready_endpoints_are_used_and_terminating_ones_if_there_are_no_others() {
    let endpoint = |host: &str, conditions: Value| json!({"addresses": [host], "conditions": conditions});
    let ready = endpoint("10.1.0.1", json!({"ready": true, "serving": true}));
    let unknown = endpoint("10.1.0.2", Value::Null);
    let terminating = endpoint("10.1.0.3", json!({"ready": false, "serving": true, "terminating": true}));
    let failing = endpoint("10.1.0.4", json!({"ready": false, "serving": false, "terminating": false}));
    let of = |endpoints: &[&Value]| json!([slice_of("s", &json!({"endpoints": endpoints}))]);
    let all = of(&[&ready, &unknown, &terminating, &failing]);
    assert_eq!(addresses(&all, false), ["http://10.1.0.1:8080", "http://10.1.0.2:8080"]);
    assert_eq!(addresses(&all, true).len(), 4);
    assert_eq!(addresses(&of(&[&terminating, &failing]), false), ["http://10.1.0.3:8080"]);
    assert!(addresses(&of(&[&failing]), false).is_empty());
}

#[test]
fn slices_of_a_service_are_joined() {
    let ipv6 = json!({"addressType": "IPv6", "endpoints": [{"addresses": ["fd00::1"]}]});
    let both = json!([slice_of("a", &json!({})), slice_of("b", &json!({})), slice_of("c", &ipv6)]);
    assert_eq!(addresses(&both, false), ["http://10.1.0.1:8080"], "an endpoint in two slices, and over two families");
    assert_eq!(addresses(&json!([slice_of("c", &ipv6)]), false), ["http://[fd00::1]:8080"]);
    assert!(addresses(&json!([slice_of("a", &json!({"endpoints": null, "ports": null}))]), false).is_empty());
}

#[test]
fn the_port_is_the_primary_one_then_https_then_http() {
    let ports = |ports: Value, labels: Value| {
        let mut slice = slice_of("s", &json!({"ports": ports}));
        for (name, value) in labels.as_object().unwrap() {
            slice["metadata"]["labels"][name] = value.clone();
        }
        addresses(&json!([slice]), false).pop().unwrap()
    };
    let three = json!([{"name": "admin", "port": 1}, {"name": "http", "port": 2}, {"name": "https", "port": 3, "appProtocol": "https"}]);
    assert_eq!(ports(three.clone(), json!({})), "https://10.1.0.1:3");
    assert_eq!(ports(three.clone(), json!({"primary-port-name": "admin"})), "http://10.1.0.1:1");
    assert_eq!(ports(three, json!({"primary-port-name": "admin", "secured": "true"})), "https://10.1.0.1:1");
    assert_eq!(
        ports(json!([{"name": "a", "port": 9, "protocol": "UDP"}, {"port": 8443}]), json!({})),
        "https://10.1.0.1:8443"
    );
}

#[test]
fn unusable_slices_are_left_out_unless_all_are() {
    let bad = [
        json!(null),
        json!({}),
        slice_of("b", &json!({"endpoints": [{"addresses": ["a\r\nX: y"]}]})),
        slice_of("b", &json!({"endpoints": [{"addresses": []}]})),
        slice_of("b", &json!({"ports": [{"port": 70_000}]})),
        slice_of("b", &json!({"ports": "80"})),
        slice_of("b", &json!({"metadata": {"name": 7}})),
    ];
    for bad in bad {
        assert_eq!(list(&json!([bad, slice_of("a", &json!({}))])).unwrap().slices.len(), 1, "{bad}");
        assert!(matches!(list(&json!([bad])), Err(ReadError::NoSlice(1))), "{bad}");
    }
    assert_eq!(list(&json!(null)).unwrap().slices.len(), 0);
    assert!(matches!(page(b"{\"metadata\": {}}", &settings()), Err(ReadError::Missing(_))));
}

#[test]
fn events_are_read_as_the_api_describes_them() {
    let read =
        |kind: &str, object: Value| event(json!({"type": kind, "object": object}).to_string().as_bytes(), &settings());
    let mut object = slice_of("s", &json!({}));
    object["metadata"]["resourceVersion"] = json!("9");
    assert!(matches!(read("ADDED", object.clone()).unwrap(), Event::Changed(version, ..) if version == "9"));
    assert!(
        matches!(read("DELETED", object.clone()).unwrap(), Event::Removed(_, key) if key == ("shop".into(), "s".into()))
    );
    object["endpoints"] = json!(7);
    assert!(matches!(read("MODIFIED", object).unwrap(), Event::Unusable(..)));
    let bookmark = json!({"metadata": {"resourceVersion": "12746", "creationTimestamp": null}});
    assert!(matches!(read("BOOKMARK", bookmark).unwrap(), Event::Bookmark(version) if version == "12746"));
    assert!(matches!(read("ERROR", json!({"kind": "Status", "code": 410})).unwrap(), Event::Gone));
    assert!(
        matches!(read("ERROR", json!({"code": 500, "message": "a\nb"})), Err(ReadError::Reported { code: 500, message }) if message == "ab")
    );
    assert!(matches!(read("ADDED", json!({})), Err(ReadError::Missing(_))));
}

const KEYS: &[&str] = &[
    "type",
    "object",
    "metadata",
    "resourceVersion",
    "name",
    "namespace",
    "labels",
    "items",
    "endpoints",
    "addresses",
    "ports",
    "port",
    "conditions",
    "ready",
    "zone",
    "continue",
    "code",
];

proptest! {
    #[test]
    fn any_response_is_read_or_refused(body in any_json(KEYS)) {
        let body = body.to_string();
        let _ = event(body.as_bytes(), &settings());
        for (_, slice) in page(body.as_bytes(), &settings()).map(|page| page.slices).unwrap_or_default() {
            for endpoint in slice.endpoints {
                prop_assert!(endpoint.instance.address.port > 0 && !endpoint.instance.address.host.is_empty());
            }
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(body in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = (page(&body, &settings()), event(&body, &settings()));
    }
}
