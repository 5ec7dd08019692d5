//! Lists of predicates and filters that are one text with commas.

use crate::source::expansion::closed_placeholders;
use crate::tree::lists;
use tollgate_document::yaml::{Node, NodeKind};

/// Splits the texts of `default-filters` and of routes' `predicates` and `filters` into lists, as Spring's binder does:
/// `Path=/a/**,Method=GET` is two predicates.
pub fn split(root: &mut Node) {
    lists(root, &["predicates", "filters"], &mut split_text);
}

fn split_text(node: &mut Node) {
    let NodeKind::Scalar(text) = &node.kind else { return };
    let items = items(text).into_iter().filter(|item| !item.is_empty());
    let items = items.map(|item| Node { span: node.span.again(), kind: NodeKind::Scalar(item.to_owned()) });
    node.kind = NodeKind::Seq(items.collect());
}

/// Splits `text` at its commas, except those in placeholders.
pub(crate) fn items(text: &str) -> Vec<&str> {
    let placeholders = closed_placeholders(text);
    let mut items = Vec::new();
    let (mut start, mut at) = (0, 0);
    while let Some(length) = text[at..].find([',', '$']) {
        let rest = &text[at + length..];
        at += length + 1;
        if rest.starts_with(',') {
            items.push(text[start..at - 1].trim());
            start = at;
        } else if let Ok(index) = placeholders.binary_search_by_key(&(at + 1), |(start, _)| *start) {
            at = placeholders[index].1 + 1;
        }
    }
    items.push(text[start..].trim());
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_within_placeholders_do_not_separate() {
        assert_eq!(items("Path=/a/**, Method=GET"), ["Path=/a/**", "Method=GET"]);
        assert_eq!(items("Path=${P:/a,/b},Method=${M:${N:GET,}}"), ["Path=${P:/a,/b}", "Method=${M:${N:GET,}}"]);
        assert_eq!(items("RewritePath=/a,$1,${open"), ["RewritePath=/a", "$1", "${open"]);
        assert_eq!(items("a:1,${HOSTS:b:1,${MORE:c:1,d:1}},e:1"), ["a:1", "${HOSTS:b:1,${MORE:c:1,d:1}}", "e:1"]);
        assert_eq!(items("a:1},b:2"), ["a:1}", "b:2"]);
        assert_eq!(items(""), [""]);
    }
}
