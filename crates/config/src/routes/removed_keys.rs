//! Header fields that a filter removes before a limiter reads its key from them.

use http::HeaderName;

use crate::diagnostics::Diagnostics;
use crate::routes::list::ListedFilter;

/// Warns of limiters whose key a `RemoveRequestHeader` before them has removed.
pub(super) fn check(filters: &[ListedFilter], diagnostics: &mut Diagnostics) {
    let mut removed: Vec<(&HeaderName, &ListedFilter)> = Vec::new();
    for listed in filters {
        if let Some(edit) = listed.filter.as_edit() {
            removed.extend(edit.removed_header().map(|header| (header, listed)));
            let set = edit.set_headers();
            removed.retain(|(header, _)| !set.contains(header));
        }
        let name = &listed.spec.name;
        let read = listed.filter.key_resolvers().flat_map(|resolver| resolver.headers()).collect::<Vec<_>>();
        let Some((header, edit)) = removed.iter().find(|(header, _)| read.contains(header)) else { continue };
        diagnostics
            .warn(
                listed.spec.span,
                format!("`{name}` finds no `{header}` for its key: `{}` before it removes the field", edit.spec.text),
            )
            .help(format!("list `{}` after `{name}`", edit.spec.text));
    }
}
