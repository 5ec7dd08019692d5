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
use crate::spring::names::refusal;
use crate::spring::switches::{self, Switches};

/// Syntax of predicates.
pub(super) const PREDICATE: Syntax =
    Syntax { noun: "predicate", example: "Path=/api/**", takes_bare_names: false, is_known };
/// Syntax of filters.
const FILTER: Syntax = Syntax { noun: "filter", example: "StripPrefix=1", takes_bare_names: true, is_known };

/// True for the name of any predicate or filter of Tollgate or Spring.
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

/// The filters of a list, in its order.
pub(super) fn filter_list(
    list: &[NodeRef],
    nodes: &Nodes<'_>,
    context: &FilterContext<'_>,
    switches: &Switches,
    diagnostics: &mut Diagnostics,
) -> Vec<ListedFilter> {
    let mut filters = Vec::with_capacity(list.len());
    for node in list.iter().filter_map(|node| nodes.get(*node)) {
        if let Some(spec) = FILTER.parse(node, diagnostics)
            && !switches.refuse(switches::ComponentKind::Filter, &spec, diagnostics)
            && let Some(filter) = filters::check(&spec, context, diagnostics)
        {
            filters.push(ListedFilter { filter, spec });
        }
    }
    filters
}
