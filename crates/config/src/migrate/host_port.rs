//! `Host` patterns without a port, which Spring matches with hosts without a port only.

use crate::de::canonical;
use crate::migrate::print::{Item, Value};

const NOTE: &str =
    "As in Spring, a `Host` pattern without a port matches hosts without one; Tollgate's default is any port.";

/// Adds `predicate.host.include-port: true` if a route has the predicate `Host` and the file does not set it.
pub(super) fn keep(sections: &mut Vec<(String, Item)>) {
    let Some(routes) = sections.iter().position(|(key, item)| key == "routes" && names_host(item)) else { return };
    if !sections.iter().any(|(key, _)| key == "predicate") {
        let section = Item { is_section: true, ..Item::plain(Value::Map(Vec::new())) };
        sections.insert(routes, ("predicate".to_owned(), section));
    }
    let Some(host) = map(sections, "predicate").and_then(|predicate| map(predicate, "host")) else { return };
    if !host.iter().any(|(key, _)| canonical(key) == "includeport") {
        let mut rule = Item::scalar("true");
        rule.note(NOTE);
        host.push(("include-port".to_owned(), rule));
    }
}

/// Returns true if a predicate below `item` is `Host`, as a shortcut or by its name.
fn names_host(item: &Item) -> bool {
    match &item.value {
        Value::Scalar(text) => text.split(',').any(|part| part.split('=').next().unwrap_or_default().trim() == "Host"),
        Value::Seq(items) => items.iter().any(names_host),
        Value::Map(entries) => entries.iter().any(|(_, item)| names_host(item)),
        Value::Null | Value::Absent => false,
    }
}

/// Returns the map `name` of `entries`, made if it is absent; `None` for another value.
fn map<'i>(entries: &'i mut Vec<(String, Item)>, name: &str) -> Option<&'i mut Vec<(String, Item)>> {
    let at = entries.iter().position(|(key, _)| key == name).unwrap_or_else(|| {
        entries.push((name.to_owned(), Item::plain(Value::Map(Vec::new()))));
        entries.len() - 1
    });
    match &mut entries.get_mut(at)?.1.value {
        Value::Map(entries) => Some(entries),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn migrated_host_patterns_keep_springs_port_rule() {
        let file = |settings: &str, predicates: &str| {
            let text = format!(
                "spring.cloud.gateway.server.webflux:\n  {settings}\n  routes: [{{id: a, uri: http://a, predicates: [{predicates}]}}]\n"
            );
            crate::migrate("application.yml", &text, &|_: &str| None).unwrap().yaml
        };
        for (settings, predicates, expected) in [
            ("", "Path=/a", None),
            ("", "Path=/a, Host=**.a.org", Some("include-port: true")),
            ("", "{name: Host, args: {patterns: '**.a.org'}}", Some("include-port: true")),
            ("predicate.host.include-port: false", "Host=**.a.org", Some("include-port: false")),
            ("predicate.path.enabled: true", "Host=**.a.org", Some("include-port: true")),
        ] {
            let migrated = file(settings, predicates);
            assert_eq!(migrated.matches("include-port").count(), usize::from(expected.is_some()), "{migrated}");
            assert!(expected.is_none_or(|expected| migrated.contains(expected)), "{migrated}");
            assert!(crate::parse("a.yaml", &migrated, &|_: &str| None).is_ok(), "{migrated}");
        }
    }
}
