//! The author's own comments, by the key or list item below them.
//!
//! The YAML parser drops comments, and reports a position only with an error. So this module reads the lines of block
//! style itself: it derives from the indentation the path of entry positions that leads to each key or item, as [`Places`]
//! count them. If a line does not match the parsed node at that path, as in flow style, its comments are left out rather
//! than put above another key.

use std::cell::RefCell;

use crate::diagnostics::{A_SECRET, Format, PROPOSAL, SourceText, is_proposal};
use crate::migrate::ByPlace;
use crate::yaml::{Node, NodeKind, Places, Span};

/// Comments by the place of the node below them.
#[derive(Debug, Default)]
pub(super) struct Comments {
    /// Each is taken once: the nodes of a dotted key share one place.
    above: RefCell<ByPlace<Vec<String>>>,
}

/// An open map or list.
struct Open {
    indent: usize,
    is_list: bool,
    /// Position of its latest entry.
    at: u32,
}

impl Comments {
    /// Collects the comments of the YAML files of `text`, parsed as `root`.
    pub(super) fn of(text: &SourceText, root: &Node, places: &Places) -> Self {
        let mut keys = ByPlace::new();
        index(root, places, &mut keys);
        let mut above = ByPlace::new();
        for (file, source) in text.files.iter().enumerate().filter(|(_, source)| source.format == Format::Yaml) {
            let keeps = if is_proposal(&source.text) { is_own_in_proposal } else { |_: &str, _: bool| true };
            collect(&source.text, file, &keys, &keeps, &mut above);
        }
        Self { above: RefCell::new(above) }
    }

    /// Removes and returns the comments above the node at `span`.
    pub(super) fn take(&self, places: &Places, span: Span) -> Vec<String> {
        let place = places.get(span).map(|place| (place.file, place.document, place.path.clone()));
        place.and_then(|place| self.above.borrow_mut().remove(&place)).unwrap_or_default()
    }
}

/// Returns true for a comment of the author's in an overlay that `check` has proposed. Its own comments are its head, those
/// behind values, and the names of secrets.
fn is_own_in_proposal(comment: &str, is_trailing: bool) -> bool {
    !is_trailing && comment != PROPOSAL && !comment.starts_with("tollgate ") && !comment.contains(A_SECRET)
}

/// Collects the comments that `keeps` selects in one file, by the node below them. It is called with the text and whether
/// the comment is behind a value.
fn collect(
    text: &str,
    file: usize,
    keys: &ByPlace<Option<String>>,
    keeps: &dyn Fn(&str, bool) -> bool,
    above: &mut ByPlace<Vec<String>>,
) {
    let (mut document, mut open): (usize, Vec<Open>) = (0, Vec::new());
    let (mut waiting, mut has_content, mut block) = (Vec::new(), false, None);
    for line in text.lines() {
        let content = line.trim_start();
        let indent = line.len() - content.len();
        if block.is_some_and(|above| content.is_empty() || indent > above) {
            continue;
        }
        block = None;
        if line.trim_end() == "---" {
            if has_content {
                document += 1;
            }
            (open, waiting, has_content) = (Vec::new(), Vec::new(), false);
        } else if let Some(comment) = content.strip_prefix('#') {
            waiting.extend(Some(comment.trim().to_owned()).filter(|comment| keeps(comment, false)));
        } else if content.is_empty() {
            // A comment before an empty line belongs to no node.
            waiting.clear();
        } else {
            has_content = true;
            let trailing = content.split_once(" #").map(|(_, comment)| comment.trim().to_owned());
            let trailing = trailing.filter(|comment| keeps(comment, true));
            let comments: Vec<String> = waiting.drain(..).chain(trailing).collect();
            let first = enter(content, indent, &mut open);
            let path: Vec<u32> = open[..first].iter().map(|open| open.at).collect();
            let fits = keys.get(&(file, document, path.clone())).is_some_and(|key| fits(key.as_deref(), content));
            if !comments.is_empty() && fits {
                above.insert((file, document, path), comments);
            }
            block = content.trim_end().ends_with(['|', '>']).then_some(indent);
        }
    }
}

/// Follows one line into the maps and lists that it opens or continues. Returns the depth of the line's first node.
fn enter(content: &str, mut indent: usize, open: &mut Vec<Open>) -> usize {
    let mut rest = content;
    let mut first = None;
    loop {
        let is_list = rest == "-" || rest.starts_with("- ");
        open.retain(|open| open.indent <= indent);
        // A list may stand in the column of the key that it belongs to.
        while open.last().is_some_and(|open| open.indent == indent && open.is_list && !is_list) {
            open.pop();
        }
        match open.last_mut() {
            Some(last) if last.indent == indent && last.is_list == is_list => last.at += 1,
            _ => open.push(Open { indent, is_list, at: 0 }),
        }
        first.get_or_insert(open.len());
        let Some(inner) = rest.strip_prefix('-').filter(|_| is_list) else { break };
        let trimmed = inner.trim_start();
        indent += 1 + inner.len() - trimmed.len();
        rest = trimmed;
        let opens = rest.starts_with("- ") || rest.split_once(':').is_some_and(|(key, after)| is_key(key, after));
        if rest.is_empty() || !opens {
            break;
        }
    }
    first.unwrap_or(open.len())
}

fn is_key(key: &str, after: &str) -> bool {
    (after.is_empty() || after.starts_with(' ')) && !key.contains(['{', '[', '"', '\'', '='])
}

/// Returns true if the line `content` begins with the parsed key, or with an item of a list.
fn fits(key: Option<&str>, content: &str) -> bool {
    match key {
        Some(key) => content.trim_start_matches(['"', '\'', '[']).starts_with(key.split('.').next().unwrap_or(key)),
        None => content.starts_with('-'),
    }
}

/// Collects the place of every node, with its key if it has one.
fn index(node: &Node, places: &Places, into: &mut ByPlace<Option<String>>) {
    let mut add = |node: &Node, key: Option<&String>| {
        if let Some(place) = places.get(node.span) {
            into.entry((place.file, place.document, place.path.clone())).or_insert_with(|| key.cloned());
        }
        index(node, places, into);
    };
    match &node.kind {
        NodeKind::Map(entries) => entries.iter().for_each(|(key, value)| add(value, Some(key))),
        NodeKind::Seq(items) => items.iter().for_each(|item| add(item, None)),
        NodeKind::Null | NodeKind::Scalar(_) => {}
    }
}
