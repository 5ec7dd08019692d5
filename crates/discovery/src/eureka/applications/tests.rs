#![allow(clippy::unwrap_used)]
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::fixtures::any_json;

fn read(body: &Value) -> Result<Applications, ReadError> {
    Applications::read(body.to_string().as_bytes())
}

fn instance(id: &str, action: &str, status: &str, port: Value) -> Value {
    json!({
        "instanceId": id, "hostName": "10.0.0.1", "app": "ORDERS", "ipAddr": "10.0.0.1", "status": status,
        "overriddenStatus": "UNKNOWN", "port": {"$": port, "@enabled": "true"},
        "securePort": {"$": 443, "@enabled": "false"}, "countryId": 1,
        "dataCenterInfo": {"@class": "com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo", "name": "MyOwn"},
        "leaseInfo": {"renewalIntervalInSecs": 30, "durationInSecs": 90, "evictionTimestamp": 0},
        "metadata": {"@class": "java.util.Collections$EmptyMap"}, "vipAddress": "orders", "secureVipAddress": "orders",
        "isCoordinatingDiscoveryServer": "false", "lastUpdatedTimestamp": "1600000000000", "actionType": action
    })
}

fn applications(hash: &str, instances: Value) -> Value {
    json!({"applications": {"versions__delta": "1", "apps__hashcode": hash,
                            "application": [{"name": "ORDERS", "instance": instances}]}})
}

fn ports(table: &EurekaTable, name: &str) -> Vec<u16> {
    table.instances(name, true).iter().map(|instance| instance.address.port).collect()
}

#[test]
fn changes_apply_to_the_table_and_their_hash_tells_a_missed_one() {
    let all = json!([instance("a", "ADDED", "UP", json!(1)), instance("b", "ADDED", "DOWN", json!("2"))]);
    let mut table = EurekaTable::of(read(&applications("DOWN_1_UP_1_", all)).unwrap()).unwrap();
    assert_eq!(table.hash(), "DOWN_1_UP_1_");
    assert_eq!(ports(&table, "Orders"), [1]);
    assert_eq!(table.instances("orders", false).len(), 2);
    let changes = json!([
        instance("b", "MODIFIED", "UP", json!(3)),
        instance("a", "DELETED", "UP", json!(1)),
        instance("c", "ADDED", "OUT_OF_SERVICE", json!(4)),
    ]);
    table.change(read(&applications("", changes)).unwrap());
    assert_eq!((ports(&table, "orders"), table.hash()), (vec![3], "OUT_OF_SERVICE_1_UP_1_".to_owned()));
    assert!(ports(&table, "other").is_empty());
}

#[test]
fn secure_instances_single_elements_and_virtual_addresses_are_read() {
    let mut secure = instance("s", "ADDED", "UP", json!(80));
    secure["securePort"] = json!({"$": 8443, "@enabled": true});
    secure["vipAddress"] = json!("one, Two");
    secure["metadata"] = json!({"zone": "eu", "weight": 3, "nested": {}});
    let one = json!({"applications": {"application": {"name": "ORDERS", "instance": secure}}});
    let table = EurekaTable::of(read(&one).unwrap()).unwrap();
    let found = table.instances("TWO", true);
    assert_eq!(found[0].address.to_string(), "https://10.0.0.1:8443");
    assert_eq!((found[0].zone.as_deref(), found[0].metadata_weight()), (Some("eu"), 3));
    assert_eq!(table.instances("one", true).len(), 1);
    assert!(table.instances("orders", true).is_empty(), "clients look up virtual addresses");
    let empty = json!({"applications": {"versions__delta": "1", "apps__hashcode": "", "application": []}});
    assert_eq!(EurekaTable::of(read(&empty).unwrap()).unwrap().hash(), "");
}

#[test]
fn a_registry_without_usable_instances_is_refused() {
    let mut bad = instance("b", "ADDED", "UP", json!(0));
    let list = |bad: &Value| applications("UP_1_", json!([bad]));
    assert!(EurekaTable::of(read(&list(&bad)).unwrap()).is_err());
    bad["hostName"] = json!("x\r\ny");
    assert!(EurekaTable::of(read(&list(&bad)).unwrap()).is_err());
    assert!(EurekaTable::of(read(&list(&json!(7))).unwrap()).is_err());
    for body in ["", "[]", "{}", "{\"applications\": []}", "null", "<applications/>"] {
        assert!(Applications::read(body.as_bytes()).is_err(), "{body}");
    }
}

#[test]
fn ignored_instances_are_counted_by_application_with_the_first_reason() {
    let mut other = instance("x", "ADDED", "UP", json!(8080));
    other["app"] = json!("SHOP");
    other["hostName"] = json!("a b");
    let all = json!([
        instance("a", "ADDED", "UP", json!(1)),
        instance("b", "ADDED", "UP", json!(0)),
        instance("c", "ADDED", "UP", json!(70_000)),
        other,
        7,
    ]);
    let mut table = EurekaTable::of(read(&applications("UP_4_", all)).unwrap()).unwrap();
    let ignored = |table: &EurekaTable| {
        table
            .ignored()
            .into_values()
            .map(|ignored| (ignored.service, ignored.count, ignored.reason.to_string()))
            .collect::<Vec<_>>()
    };
    let (port, host) = ("an instance has no valid port", "an instance has no valid host");
    assert_eq!(
        ignored(&table),
        [
            ("-".to_owned(), 1, "an instance has no usable fields".to_owned()),
            ("ORDERS".to_owned(), 2, port.to_owned()),
            ("SHOP".to_owned(), 1, host.to_owned()),
        ]
    );
    let gone = json!([instance("b", "DELETED", "UP", json!(0)), instance("c", "MODIFIED", "UP", json!(2))]);
    table.change(read(&applications("", gone)).unwrap());
    assert_eq!(ignored(&table).len(), 2, "only those that are still ignored");
}

proptest! {
    #[test]
    fn any_response_is_read_or_refused(body in any_json(&["name", "instance", "application", "hostName", "instanceId", "port", "$", "@enabled", "securePort", "status", "metadata", "actionType", "vipAddress"])) {
        if let Ok(read) = read(&json!({"applications": body})) {
            let mut table = EurekaTable::default();
            table.change(read);
            let _ = (table.hash(), table.instances("a", false));
        }
        let _ = read(&body);
    }
}
