//! Checks of weight groups.

use std::collections::BTreeMap;

use crate::diagnostics::Diagnostics;
use crate::yaml::Span;
use tollgate_routing::Predicate;

/// The weight groups of a file.
#[derive(Debug, Default)]
pub(crate) struct Groups(BTreeMap<String, Vec<Member>>);

#[derive(Debug)]
struct Member {
    route: String,
    weight: u32,
    at: Span,
    /// The route's other predicates, sorted.
    others: Vec<String>,
}

impl Groups {
    /// Records the groups of the route at `at`.
    pub(crate) fn add(&mut self, route: &str, predicates: &[Predicate], at: Span) {
        for (group, weight) in predicates.iter().filter_map(Predicate::as_weight) {
            let others = predicates.iter().filter(|predicate| predicate.as_weight().is_none());
            let mut others: Vec<String> = others.map(ToString::to_string).collect();
            others.sort_unstable();
            let member = Member { route: route.to_owned(), weight, at, others };
            self.0.entry(group.to_owned()).or_default().push(member);
        }
    }

    /// Warns of groups with unexpected behaviour.
    pub(crate) fn check(&self, diagnostics: &mut Diagnostics) {
        for (name, members) in &self.0 {
            let [first, rest @ ..] = members.as_slice() else { continue };
            if members.iter().all(|member| member.weight == 0) {
                diagnostics
                    .warn(first.at, format!("every weight of group `{name}` is 0: none of its routes is selected"))
                    .help("give one of them a weight above 0");
            } else if rest.is_empty() {
                let others = self.0.keys().map(String::as_str).filter(|other| other != name);
                let near = diagnostics.closest(name, others).map(|near| format!("did you mean group `{near}`?"));
                diagnostics
                    .note(
                        first.at,
                        format!("route `{}` is alone in weight group `{name}`: it is always selected", first.route),
                    )
                    .help(near.unwrap_or_else(|| "`Weight` needs several routes of one group".to_owned()));
            } else if let Some(other) = rest.iter().find(|other| other.others != first.others) {
                diagnostics.warn(
                    other.at,
                    format!(
                        "routes `{}` and `{}` of weight group `{name}` differ in other predicates, which are \
                         ignored when one is selected",
                        first.route, other.route
                    ),
                )
                .help("a request that they refuse is not sent to another route of the group: give each set of predicates its own group");
            }
        }
    }
}
