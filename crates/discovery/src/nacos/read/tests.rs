#![allow(clippy::unwrap_used)]
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::fixtures::any_json;

fn read(body: &Value) -> Result<Vec<Instance>, ReadError> {
    instances(body.to_string().as_bytes(), "orders", "").map(|listed| listed.instances)
}

#[test]
fn the_lists_of_all_versions_are_read() {
    let host = |port: u16, weight: f64, healthy: bool, enabled: bool| {
        json!({"instanceId": "10.0.0.1#8080#DEFAULT#DEFAULT_GROUP@@orders", "ip": "10.0.0.1", "port": port, "weight": weight,
               "healthy": healthy, "enabled": enabled, "ephemeral": true, "clusterName": "HZ",
               "serviceName": "DEFAULT_GROUP@@orders", "metadata": {"secure": "true"}, "instanceHeartBeatInterval": 5000})
    };
    let hosts = json!([
        host(1, 1.0, true, true),
        host(2, 0.5, true, true),
        host(3, 1.0, false, true),
        host(4, 1.0, true, false),
        host(5, 0.0, true, true),
    ]);
    for body in [
        json!({"name": "DEFAULT_GROUP@@orders", "hosts": hosts, "cacheMillis": 10_000, "valid": true}),
        json!({"code": 0, "message": "success", "data": {"hosts": hosts}}),
        json!({"code": 0, "message": "success", "data": hosts}),
    ] {
        let found = read(&body).unwrap();
        let shown: Vec<_> = found.iter().map(|one| (one.address.to_string(), one.weight)).collect();
        assert_eq!(shown, [("https://10.0.0.1:1".to_owned(), 100), ("https://10.0.0.1:2".to_owned(), 50)]);
        assert_eq!(found[0].zone.as_deref(), Some("HZ"));
    }
    assert_eq!(read(&json!({"code": 21_008, "message": "service not exist", "data": null})).unwrap(), []);
    assert!(matches!(read(&json!({"code": 30_000, "data": []})), Err(ReadError::Code(30_000))));
}

#[test]
fn clusters_select_whatever_the_server_sends() {
    let host = |port: u16, cluster: Value| json!({"ip": "10.0.0.1", "port": port, "clusterName": cluster});
    let hosts =
        json!({"hosts": [host(1, json!("HZ")), host(2, json!("SH")), host(3, json!("hz")), host(4, Value::Null)]});
    let ports = |clusters: &str| -> Vec<String> {
        let found = instances(hosts.to_string().as_bytes(), "orders", clusters).map(|listed| listed.instances).unwrap();
        found.iter().map(|one| one.address.to_string().rsplit(':').next().unwrap().to_owned()).collect()
    };
    assert_eq!(ports(""), ["1", "2", "3", "4"]);
    assert_eq!(ports("HZ"), ["1", "4"]);
    assert_eq!(ports("XX, SH,HZ"), ["1", "2", "4"]);
    let one = json!({"hosts": [host(1, json!("SH"))]});
    assert!(instances(one.to_string().as_bytes(), "orders", "HZ").map(|listed| listed.instances).unwrap().is_empty());
}

#[test]
fn unusable_entries_are_left_out_unless_all_are() {
    let good = json!({"ip": "10.0.0.1", "port": 80});
    for bad in [
        json!(1),
        json!({}),
        json!({"ip": "a b", "port": 80}),
        json!({"ip": "a", "port": 0}),
        json!({"ip": "a", "port": "x"}),
    ] {
        assert_eq!(read(&json!({"hosts": [bad, good]})).unwrap().len(), 1, "{bad}");
        assert!(matches!(read(&json!({"hosts": [bad]})), Err(ReadError::NoneUsable(1, _))), "{bad}");
    }
    for body in ["", "{}", "[]", "{\"hosts\": 1}", "caused: error"] {
        assert!(instances(body.as_bytes(), "orders", "").map(|listed| listed.instances).is_err(), "{body}");
    }
}

#[test]
fn a_token_has_a_lifetime() {
    let old = json!({"accessToken": "abc", "tokenTtl": 18_000, "globalAdmin": true});
    assert_eq!(token(old.to_string().as_bytes()).unwrap(), ("abc".to_owned(), 18_000));
    assert_eq!(
        token(json!({"code": 0, "data": {"accessToken": "x"}}).to_string().as_bytes()).unwrap(),
        ("x".to_owned(), 600)
    );
    assert!(token(b"{\"accessToken\": \"\"}").is_err());
}

proptest! {
    #[test]
    fn any_response_is_read_or_refused(body in any_json(&["hosts", "data", "code", "ip", "port", "weight", "healthy", "metadata", "clusterName", "accessToken", "tokenTtl"])) {
        for instance in read(&body).unwrap_or_default() {
            prop_assert!(instance.address.port > 0 && instance.weight > 0);
        }
        let _ = (token(body.to_string().as_bytes()), names(body.to_string().as_bytes()));
    }
}
