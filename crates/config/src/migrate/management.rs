//! Spring Boot's endpoints on the port for traffic. Our own form serves them only with `management.on-traffic-port`.

use crate::migrate::print::{Item, Value};
use crate::sections::management::model::{Actuator, Management};

/// Adds `management.on-traffic-port` if the port for traffic serves endpoints. Removes a management port that equals it.
pub(super) fn add(sections: &mut Vec<(String, Item)>, management: &Management) {
    let is_shared = management.on_traffic.as_ref().is_some_and(|endpoints| endpoints.actuator != Actuator::default());
    let at = sections.iter().position(|(key, _)| key == "management");
    if !is_shared || at.is_some_and(|at| sections[at].1.get("on-traffic-port").is_some()) {
        return;
    }
    let mut asked = Item::scalar("true");
    asked.note("As in Spring Boot without a management port of its own.");
    let asked = ("on-traffic-port".to_owned(), asked);
    match at.map(|at| &mut sections[at].1.value) {
        Some(Value::Map(entries)) => {
            for (_, server) in entries.iter_mut().filter(|(key, _)| key == "server") {
                if let Value::Map(keys) = &mut server.value {
                    keys.retain(|(key, _)| key != "port");
                }
            }
            entries.retain(|(key, item)| !(key == "server" && item.is_gone()));
            entries.insert(0, asked);
        }
        _ => {
            let section = Item { is_section: true, ..Item::plain(Value::Map(vec![asked])) };
            sections.push(("management".to_owned(), section));
        }
    }
}
