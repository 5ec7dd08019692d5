//! Placeholders that refer to properties of the file, which may move or disappear.

use std::borrow::Cow;

use crate::de::same_name;
use crate::raw_config;
use crate::source::dotted::Properties;
use crate::source::expansion::closing_brace;
use crate::source::placeholder::{OfMaven, maven_name, of_maven};
use crate::yaml::{Node, NodeKind};

/// Nesting of properties at most; a property that refers to itself stays unresolved.
const MAX_DEPTH: usize = 8;

/// Writes the values of `properties` into the placeholders below `node` that name them: `${a.b}` becomes `${a.b:VALUE}`. A
/// default that the placeholder had is replaced. The environment still overrides the value, as in Spring.
pub(super) fn inline_properties(node: &mut Node, properties: &Node) {
    inline_properties_of(node, "", &Properties::of(properties));
}

/// Does the same for a value of `key`.
fn inline_properties_of(node: &mut Node, key: &str, properties: &Properties<'_>) {
    match &mut node.kind {
        NodeKind::Null => {}
        NodeKind::Scalar(text) => {
            for _ in 0..MAX_DEPTH {
                let Some(OfMaven { before, name, after }) = of_maven(text, key) else { break };
                if properties.text(name).is_none_or(|value| maven_name(&value).is_some()) {
                    break;
                }
                *text = format!("{before}${{{name}}}{after}");
            }
            if text.contains("${") {
                *text = rewritten(text, properties, 0);
            }
        }
        NodeKind::Seq(items) => items.iter_mut().for_each(|item| inline_properties_of(item, key, properties)),
        NodeKind::Map(entries) => {
            entries.iter_mut().for_each(|(key, value)| inline_properties_of(value, key, properties))
        }
    }
}

fn rewritten(text: &str, properties: &Properties<'_>, depth: usize) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, from)) = rest.split_once("${") {
        out.push_str(before);
        out.push_str("${");
        let Some(end) = closing_brace(from) else {
            rest = from;
            break;
        };
        let inside = &from[..end];
        let (name, default) = inside.split_once(':').map_or((inside, None), |(name, default)| (name, Some(default)));
        out.push_str(&environment_name(name.trim()));
        let default = match properties.text(name.trim()) {
            Some(value) if depth < MAX_DEPTH => Some(rewritten(&value, properties, depth + 1)),
            _ if depth < MAX_DEPTH => default.map(|default| rewritten(default, properties, depth + 1)),
            _ => default.map(str::to_owned),
        };
        if let Some(default) = default {
            out.push(':');
            out.push_str(&default);
        }
        out.push('}');
        rest = &from[end + 1..];
    }
    out.push_str(rest);
    out
}

/// Returns the name of an environment variable for a property whose name is a key of the new file: `REDIS_HOST` for
/// `redis.host`. The placeholder would otherwise refer to the setting that contains it. Spring reads the same variable.
fn environment_name(name: &str) -> Cow<'_, str> {
    let is_setting =
        name.split_once('.').is_some_and(|(first, _)| raw_config::sections().iter().any(|key| same_name(key, first)));
    if !is_setting {
        return Cow::Borrowed(name);
    }
    let letters = name.chars().filter(|letter| *letter != '-');
    Cow::Owned(letters.map(|letter| if letter == '.' { '_' } else { letter.to_ascii_uppercase() }).collect())
}
