//! Lists of predicates and filters.

use crate::de::nodes::Nodes;
use crate::de::spanned::NodeRef;
use crate::diagnostics::Diagnostics;
use crate::filters;
use crate::filters::context::FilterContext;
use crate::filters::model::Filter;
use crate::predicates;
use crate::spec::FilterSpec;
use crate::spec::parse::Syntax;
use crate::spring::names::{SKIP, refusal};
use crate::switches::{ComponentKind, Switches};

/// Syntax of predicates.
pub(super) const PREDICATE: Syntax =
    Syntax { noun: "predicate", example: "Path=/api/**", takes_bare_names: false, is_known };
/// Syntax of filters.
const FILTER: Syntax = Syntax { noun: "filter", example: "StripPrefix=1", takes_bare_names: true, is_known };

/// Returns true for the name of any predicate or filter of Tollgate or Spring.
fn is_known(name: &str) -> bool {
    predicates::names().any(|known| known == name)
        || filters::filters().any(|entry| entry.name == name)
        || refusal(name).is_some()
}

/// A checked filter and its specification.
#[derive(Clone)]
pub(super) struct ListedFilter {
    pub(super) filter: Filter,
    pub(super) spec: FilterSpec,
}

/// Position in a list of filters; `None` for a filter that is left out.
pub(super) type FilterSlot = Option<ListedFilter>;

/// Returns the filters of a list, in its order.
pub(super) fn filter_list(
    list: &[NodeRef],
    nodes: &Nodes<'_>,
    context: &FilterContext<'_>,
    switches: &Switches,
    diagnostics: &mut Diagnostics,
) -> Vec<FilterSlot> {
    let mut filters = Vec::with_capacity(list.len());
    for node in list.iter().filter_map(|node| nodes.get(*node)) {
        if node.scalar().is_some_and(|text| text.trim() == SKIP) {
            filters.push(None);
        } else if let Ok(spec) = FILTER.parse(node, diagnostics)
            && switches.refuse(ComponentKind::Filter, &spec, diagnostics).is_ok()
            && let Ok(filter) = filters::check(&spec, context, diagnostics)
        {
            filters.push(Some(ListedFilter { filter, spec }));
        }
    }
    filters
}

/// Merges both lists as Spring does, which numbers each from 1 and puts the default filter first: d1 r1 d2 r2 …
/// Filters with an order of their own keep it. A filter that is left out keeps its number.
pub(super) fn interleave(defaults: &[FilterSlot], own: Vec<FilterSlot>) -> Vec<ListedFilter> {
    let mut merged = Vec::with_capacity(defaults.len() + own.len());
    let mut defaults = defaults.iter().cloned();
    for filter in own {
        merged.extend(defaults.next().flatten());
        merged.extend(filter);
    }
    merged.extend(defaults.flatten());
    merged.sort_by_key(|listed| listed.filter.properties().position);
    merged
}
