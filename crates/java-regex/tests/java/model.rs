//! A slow reference matcher, written from the documentation of `java.util.regex`. It tries all possible matches in
//! Java's order and records the groups.

use std::fmt;

use proptest::prelude::*;

/// An expression of the generated subset. Repeated parts never match the empty text.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    Char(char),
    /// The characters of a class, and whether it is negated.
    Class(&'static str, bool),
    Dot,
    Start,
    End,
    Seq(Vec<Node>),
    Alt(Vec<Node>),
    /// Number, true if named `g` and the number, and content.
    Group(usize, bool, Box<Node>),
    /// Content, minimum, maximum, and true if reluctant.
    Repeat(Box<Node>, usize, Option<usize>, bool),
    /// True for a positive look-ahead, and its content.
    Ahead(bool, Box<Node>),
    /// A reference to the group of this number.
    Back(usize),
}

type Groups = Vec<Option<(usize, usize)>>;
type Then<'t> = &'t mut dyn FnMut(usize, &mut Groups) -> bool;

/// Generates expressions. Their groups are not numbered yet.
pub(crate) fn node() -> impl Strategy<Value = Node> {
    let leaf = prop_oneof![
        6 => prop::sample::select(vec!['a', 'b', '/', '1']).prop_map(Node::Char),
        2 => (prop::sample::select(vec!["a", "ab", "/1", "b.-"]), any::<bool>()).prop_map(|(set, not)| Node::Class(set, not)),
        1 => Just(Node::Dot),
        1 => prop_oneof![Just(Node::Start), Just(Node::End), (1..3_usize).prop_map(Node::Back)],
    ];
    leaf.prop_recursive(4, 20, 3, |inner| {
        prop_oneof![
            4 => prop::collection::vec(inner.clone(), 1..4).prop_map(Node::Seq),
            2 => prop::collection::vec(inner.clone(), 1..4).prop_map(Node::Alt),
            2 => (any::<bool>(), inner.clone()).prop_map(|(named, node)| Node::Group(0, named, Box::new(node))),
            3 => (inner.clone(), 0..3_usize, prop::option::of(0..3_usize), any::<bool>()).prop_map(|(node, min, more, lazy)| {
                if node.is_repeatable() { Node::Repeat(Box::new(node), min, more.map(|more| min + more), lazy) } else { node }
            }),
            1 => (any::<bool>(), inner).prop_map(|(is, node)| Node::Ahead(is, Box::new(node))),
        ]
    })
}

/// Replaces all matches as Java does; `None` if Java fails on the replacement.
pub(crate) fn model_replace_all(root: &Node, groups: usize, replacement: &str, text: &str) -> Option<String> {
    let text: Vec<char> = text.chars().collect();
    let pieces = pieces(replacement, groups, root)?;
    let (mut out, mut copied, mut from) = (String::new(), 0, 0);
    while from <= text.len() {
        let Some((start, end, found)) = (from..=text.len()).find_map(|start| root.matched(&text, start, groups)) else {
            break;
        };
        out.extend(&text[copied..start]);
        for piece in &pieces {
            match piece {
                Ok(char) => out.push(*char),
                Err(0) => out.extend(&text[start..end]),
                Err(group) => out.extend(found[*group].map_or(&[][..], |(start, end)| &text[start..end])),
            }
        }
        copied = end;
        from = if end == start { end + 1 } else { end };
    }
    out.extend(&text[copied..]);
    Some(out)
}

/// Parses a replacement into characters and group numbers.
fn pieces(replacement: &str, groups: usize, root: &Node) -> Option<Vec<Result<char, usize>>> {
    let (mut pieces, mut rest) = (Vec::new(), replacement);
    while let Some(char) = rest.chars().next() {
        rest = &rest[1..];
        match char {
            '\\' => {
                pieces.push(Ok(rest.chars().next()?));
                rest = &rest[1..];
            }
            '$' if rest.starts_with('{') => {
                let (name, behind) = rest[1..].split_once('}')?;
                pieces.push(Err((1..=groups).find(|group| name == format!("g{group}") && root.names(*group))?));
                rest = behind;
            }
            '$' => {
                // Java reads digit by digit: one more belongs to the number as long as such a group exists.
                let is_group = |length: &usize| rest[..*length].parse::<usize>().is_ok_and(|group| group <= groups);
                let digits = rest.chars().take_while(char::is_ascii_digit).count();
                let length = (1..=digits).take_while(is_group).last()?;
                pieces.push(Err(rest[..length].parse().ok()?));
                rest = &rest[length..];
            }
            char => pieces.push(Ok(char)),
        }
    }
    Some(pieces)
}

impl Node {
    /// Numbers the groups from left to right, and removes references to groups that are not closed before them.
    pub(crate) fn number(&mut self) -> usize {
        let (mut groups, mut closed) = (0, Vec::new());
        self.number_from(&mut groups, &mut closed);
        groups
    }

    fn number_from(&mut self, groups: &mut usize, closed: &mut Vec<usize>) {
        match self {
            Self::Group(number, _, inner) => {
                *groups += 1;
                *number = *groups;
                inner.number_from(groups, closed);
                closed.push(*number);
            }
            Self::Seq(nodes) | Self::Alt(nodes) => nodes.iter_mut().for_each(|node| node.number_from(groups, closed)),
            Self::Repeat(inner, ..) | Self::Ahead(_, inner) => inner.number_from(groups, closed),
            Self::Back(group) if !closed.contains(group) => *self = Self::Char('a'),
            _ => {}
        }
    }

    /// Returns true if the group numbered `group` has a name.
    fn names(&self, group: usize) -> bool {
        match self {
            Self::Group(number, named, inner) => (*number == group && *named) || inner.names(group),
            Self::Seq(nodes) | Self::Alt(nodes) => nodes.iter().any(|node| node.names(group)),
            Self::Repeat(inner, ..) | Self::Ahead(_, inner) => inner.names(group),
            _ => false,
        }
    }

    /// Returns true if a match has at least one character: repeated empty matches set other groups in other engines.
    fn is_repeatable(&self) -> bool {
        match self {
            Self::Char(_) | Self::Class(..) | Self::Dot => true,
            Self::Seq(nodes) => nodes.iter().any(Self::is_repeatable),
            Self::Alt(nodes) => nodes.iter().all(Self::is_repeatable),
            Self::Group(_, _, inner) => inner.is_repeatable(),
            Self::Repeat(inner, min, ..) => *min > 0 && inner.is_repeatable(),
            Self::Start | Self::End | Self::Ahead(..) | Self::Back(_) => false,
        }
    }

    /// Returns the first match in Java's order that starts at `start`.
    fn matched(&self, text: &[char], start: usize, groups: usize) -> Option<(usize, usize, Groups)> {
        let mut found = None;
        self.run(text, start, &mut vec![None; groups + 1], &mut |end, groups| {
            found = Some((start, end, groups.clone()));
            true
        });
        found
    }

    fn run(&self, text: &[char], at: usize, groups: &mut Groups, then: Then<'_>) -> bool {
        let takes = |fits: bool| fits.then_some(at + 1);
        let next = match self {
            Self::Char(char) => takes(text.get(at) == Some(char)),
            Self::Class(set, not) => takes(text.get(at).is_some_and(|char| set.contains(*char) != *not)),
            Self::Dot => takes(at < text.len()),
            Self::Start => (at == 0).then_some(at),
            Self::End => (at == text.len()).then_some(at),
            Self::Back(group) => groups[*group]
                .and_then(|(start, end)| text[at..].starts_with(&text[start..end]).then_some(at + end - start)),
            Self::Seq(nodes) => return run_all(nodes, text, at, groups, then),
            Self::Alt(nodes) => return nodes.iter().any(|node| node.run(text, at, groups, then)),
            Self::Group(number, _, inner) => {
                let before = groups[*number];
                let matched = inner.run(text, at, groups, &mut |end, groups| {
                    let inside = groups[*number].replace((at, end));
                    then(end, groups) || {
                        groups[*number] = inside;
                        false
                    }
                });
                if !matched {
                    groups[*number] = before;
                }
                return matched;
            }
            Self::Repeat(inner, min, max, lazy) => return repeat(inner, (*min, *max, *lazy), text, at, groups, then),
            Self::Ahead(is, inner) => {
                let mut inside = groups.clone();
                if inner.run(text, at, &mut inside, &mut |_, _| true) != *is {
                    return false;
                }
                if *is {
                    let before = inner.matched_groups(text, at, groups);
                    return then(at, groups) || {
                        *groups = before;
                        false
                    };
                }
                Some(at)
            }
        };
        next.is_some_and(|next| then(next, groups))
    }

    /// Stores the groups of a look-ahead in `groups` and returns the former ones.
    fn matched_groups(&self, text: &[char], at: usize, groups: &mut Groups) -> Groups {
        let before = groups.clone();
        let mut after = before.clone();
        self.run(text, at, &mut before.clone(), &mut |_, inside| {
            after.clone_from(inside);
            true
        });
        *groups = after;
        before
    }
}

fn run_all(nodes: &[Node], text: &[char], at: usize, groups: &mut Groups, then: Then<'_>) -> bool {
    match nodes.split_first() {
        None => then(at, groups),
        Some((first, rest)) => first.run(text, at, groups, &mut |next, groups| run_all(rest, text, next, groups, then)),
    }
}

fn repeat(
    inner: &Node,
    (min, max, lazy): (usize, Option<usize>, bool),
    text: &[char],
    at: usize,
    groups: &mut Groups,
    then: Then<'_>,
) -> bool {
    if min == 0 && lazy && then(at, groups) {
        return true;
    }
    let less = (min.saturating_sub(1), max.map(|max| max.saturating_sub(1)), lazy);
    let once_more = max != Some(0)
        && inner.run(text, at, groups, &mut |next, groups| repeat(inner, less, text, next, groups, then));
    once_more || (min == 0 && !lazy && then(at, groups))
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Char(char) => write!(f, "{char}"),
            Self::Class(set, not) => write!(f, "[{}{set}]", if *not { "^" } else { "" }),
            Self::Dot => f.write_str("."),
            Self::Start => f.write_str("^"),
            Self::End => f.write_str("$"),
            Self::Seq(nodes) => nodes.iter().try_for_each(|node| match node {
                Self::Alt(_) => write!(f, "(?:{node})"),
                _ => write!(f, "{node}"),
            }),
            Self::Alt(nodes) => {
                nodes.iter().enumerate().try_for_each(|(at, node)| write!(f, "{}{node}", if at > 0 { "|" } else { "" }))
            }
            Self::Group(number, true, inner) => write!(f, "(?<g{number}>{inner})"),
            Self::Group(_, false, inner) => write!(f, "({inner})"),
            Self::Repeat(inner, min, max, lazy) => {
                let counts = match (min, max) {
                    (0, None) => "*".to_owned(),
                    (1, None) => "+".to_owned(),
                    (0, Some(1)) => "?".to_owned(),
                    (min, None) => format!("{{{min},}}"),
                    (min, Some(max)) => format!("{{{min},{max}}}"),
                };
                write!(f, "(?:{inner}){counts}{}", if *lazy { "?" } else { "" })
            }
            Self::Ahead(is, inner) => write!(f, "(?{}{inner})", if *is { '=' } else { '!' }),
            Self::Back(group) => write!(f, "(?:\\{group})"),
        }
    }
}
