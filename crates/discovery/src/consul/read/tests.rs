#![allow(clippy::unwrap_used)]
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::fixtures::any_json;

fn read(body: &Value) -> Result<Vec<Instance>, ReadError> {
    instances(body.to_string().as_bytes(), "orders", "zone").map(|listed| listed.instances)
}

#[test]
fn instances_have_the_address_of_the_service_or_of_its_node() {
    let found = read(&json!([
        {"Node": {"Node": "n1", "Address": "10.1.10.12", "Datacenter": "dc1"},
         "Service": {"ID": "redis", "Service": "redis", "Tags": ["primary"], "Address": "10.1.10.13", "Port": 8000,
                     "Meta": {"zone": "a", "secure": "true"}, "Weights": {"Passing": 10, "Warning": 1}},
         "Checks": [{"CheckID": "service:redis", "Status": "passing"}]},
        {"Node": {"Address": "10.1.10.12"},
         "Service": {"Address": "", "Port": 8001, "Tags": ["zone=b", "secure=false"], "Meta": null,
                     "Weights": {"Passing": 10, "Warning": 1}},
         "Checks": [{"Status": "warning"}]},
        {"Node": {"Address": "10.1.10.12"}, "Service": {"Port": 8002}, "Checks": [{"Status": "critical"}]},
    ]))
    .unwrap();
    let shown: Vec<_> = found
        .iter()
        .map(|instance| (instance.address.to_string(), instance.weight, instance.zone.as_deref().unwrap()))
        .collect();
    assert_eq!(shown, [("https://10.1.10.13:8000".to_owned(), 10, "a"), ("http://10.1.10.12:8001".to_owned(), 1, "b")]);
    assert_eq!(read(&json!([])).unwrap(), []);
}

#[test]
fn unusable_entries_are_left_out_unless_all_are() {
    let good = json!({"Node": {}, "Service": {"Address": "a", "Port": 80}});
    let bad = [
        json!(null),
        json!({}),
        json!({"Service": {"Address": "a", "Port": 0}}),
        json!({"Service": {"Address": "a\r\nX: y", "Port": 80}}),
        json!({"Service": {"Address": "a", "Port": "80"}}),
        json!({"Service": {"Address": "a", "Port": 80, "Meta": [1]}}),
        json!({"Service": {"Port": 80}}),
    ];
    for bad in bad {
        assert_eq!(read(&json!([bad, good])).unwrap().len(), 1, "{bad}");
        assert!(matches!(read(&json!([bad])), Err(ReadError::NoneUsable(1, _))), "{bad}");
    }
    for body in ["", "{}", "null", "[", "\"x\"", "[1,", "<html>"] {
        assert!(
            matches!(
                instances(body.as_bytes(), "orders", "zone").map(|listed| listed.instances),
                Err(ReadError::Json(_))
            ),
            "{body}"
        );
    }
}

proptest! {
    #[test]
    fn any_response_is_read_or_refused(body in any_json(&["Node", "Service", "Checks", "Address", "Port", "Meta", "Tags", "Weights", "Status", "Passing"])) {
        for instance in read(&body).unwrap_or_default() {
            prop_assert!(instance.address.port > 0 && !instance.address.host.is_empty());
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(body in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = instances(&body, "orders", "zone").map(|listed| listed.instances);
    }
}
