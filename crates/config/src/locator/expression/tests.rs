#![allow(clippy::unwrap_used)]
use super::*;

fn metadata() -> Metadata {
    [("edge", "true"), ("version", "v2"), ("path", "")].map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

/// Returns the value for the service `Orders`.
fn value(text: &str) -> Option<String> {
    Expression::parse(text).unwrap().text(Subject { service: "Orders", metadata: &metadata() })
}

#[test]
fn texts_are_joined() {
    for (text, joined) in [
        ("'lb://'+serviceId", "lb://Orders"),
        ("'/' + serviceId.toLowerCase() + '/?(?<remaining>.*)'", "/orders/?(?<remaining>.*)"),
        ("'it''s'", "it's"),
        ("\"it's\"", "it's"),
        ("'a+b'", "a+b"),
        ("'v' + 2", "v2"),
        ("'/' + metadata['version'] + '/**'", "/v2/**"),
        ("metadata.path ?: '/' + serviceId", "/Orders"),
        ("metadata['none'] + 'x'", "nullx"),
        ("metadata['edge'] == 'true' ? 'a' : 'b'", "a"),
        ("getServiceId().replace('Ord', 'W')", "Wers"),
    ] {
        let plain = text.replace("metadata.path", "metadata['path']");
        assert_eq!(value(&plain).as_deref(), Some(joined), "{text}");
    }
}

#[test]
fn a_long_chain_is_evaluated() {
    let chain = format!("1{}", "+1".repeat((MAX_LENGTH - 1) / 2));
    assert_eq!(value(&chain).as_deref(), Some("512"));
}

#[test]
fn repeated_replacements_make_no_text_beyond_a_bound() {
    let expression = |count| format!("'a'{}", ".replace('a','aaaa')".repeat(count));
    assert_eq!(value(&expression(6)).map(|text| text.len()), Some(4096));
    assert_eq!(value(&expression(7)), None);
    assert_eq!(value(&expression(45)), None);
}

#[test]
fn conditions_are_true_or_false() {
    for (text, expected) in [
        ("true", true),
        ("serviceId == 'Orders'", true),
        ("serviceId eq 'orders'", false),
        ("serviceId != 'users' and !serviceId.startsWith('x')", true),
        ("serviceId.startsWith('Ord') && serviceId.endsWith('rs') || false", true),
        ("not serviceId.contains('rd')", false),
        ("serviceId matches 'Ord.*'", true),
        ("serviceId matches 'Ord'", false),
        ("serviceId.matches('(?i)orders')", true),
        ("{'Users', 'Orders'}.contains(serviceId)", true),
        ("metadata['edge'] == 'true'", true),
        ("metadata['edge']", true),
        ("metadata[edge] == 'true'", true),
        ("metadata['none'] != null", false),
        ("metadata['none'] == null", true),
        ("metadata.containsKey('edge') and metadata.get('version') == 'v2'", true),
        ("(false or true) and !(false || false)", true),
        ("!serviceId.equalsIgnoreCase('ORDERS')", false),
        // An exception in Spring.
        ("metadata['none'].startsWith('x')", false),
        ("'orders'", false),
    ] {
        let subject = Subject { service: "Orders", metadata: &metadata() };
        assert_eq!(Expression::parse(text).unwrap().is_true(subject), expected, "{text}");
    }
}

#[test]
fn other_expressions_are_refused() {
    let nested = format!("{}true{}", "(".repeat(40), ")".repeat(40));
    let negated = "!".repeat(40) + "true";
    let long = format!("'{}'", "x".repeat(MAX_LENGTH));
    for text in [
        "",
        "'a",
        "'a' 'b'",
        "T(java.lang.Runtime).getRuntime()",
        "serviceId.length()",
        "serviceId.startsWith()",
        "serviceId < 'a'",
        "@bean.includes(serviceId)",
        "new String('a')",
        "metadata['a'",
        "serviceId matches '('",
        "host.length()",
        "getHost",
        "#root",
        "true or",
        &nested,
        &negated,
        &long,
    ] {
        assert!(Expression::parse(text).is_none(), "{text}");
    }
}

#[test]
fn the_address_of_an_instance_is_balanced_over_all_instances() {
    for (text, uri) in [
        ("'http://' + getHost() + ':' + getPort()", Some("lb:http://Orders")),
        ("'https://' + host + ':' + port + '/'", Some("lb:https://Orders/")),
        ("getScheme() + '://' + getHost() + ':' + getPort()", Some("lb://Orders")),
        ("getUri()", Some("lb://Orders")),
        ("uri.toString()", Some("lb://Orders")),
        ("'lb://' + serviceId", Some("lb://Orders")),
        ("'http://' + getHost() + ':8080'", None),
        ("'ftp://' + getHost() + ':' + getPort()", None),
        ("'http://proxy/' + host", None),
    ] {
        assert_eq!(balanced(&value(text).unwrap(), "Orders").as_deref(), uri, "{text}");
        let read = |read: fn(&Spanned<String>, &mut Diagnostics) -> Option<Expression>| {
            let text = Spanned { value: text.to_owned(), span: crate::yaml::Span::ROOT };
            read(&text, &mut Diagnostics::default()).is_some()
        };
        assert_eq!(read(Expression::read_uri), uri.is_some(), "{text}");
        assert_eq!(read(Expression::read), text.contains("serviceId"), "only in a URI: {text}");
    }
}

#[test]
fn only_metadata_need_instances() {
    for (text, expected) in [("'lb://' + serviceId", false), ("!(true and metadata['a'] == 'b')", true)] {
        assert_eq!(Expression::parse(text).unwrap().uses_metadata(), expected, "{text}");
    }
}
