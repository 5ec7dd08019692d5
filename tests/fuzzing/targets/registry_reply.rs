//! Responses of registries. The first byte selects the registry and the kind of the response.
//!
//! Instances have a host, a port and bounded metadata without control characters, whatever a registry sends.

use tollgate_discovery::readers;

pub fn run(input: &[u8]) {
    let Some((kind, body)) = input.split_first() else { return };
    let Some(instances) = readers::read(*kind, body) else { return };
    for instance in &instances {
        let address = &instance.address;
        assert!(address.port > 0, "{instance:?}");
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
        assert!(!address.host.is_empty() && address.host.chars().all(is_plain), "{instance:?}");
        assert!(address.host.len() <= 253, "{instance:?}");
        let texts = instance.metadata.iter().flat_map(|(key, value)| [key, value]).chain(&instance.zone);
        for text in texts {
            assert!(text.len() <= 1024 && !text.chars().any(char::is_control), "{instance:?}");
        }
        assert!(instance.metadata.len() <= 64 && instance.weight <= 6_553_500, "{instance:?}");
    }
    assert_eq!(readers::read(*kind, body), Some(instances), "reading twice differs");
}
