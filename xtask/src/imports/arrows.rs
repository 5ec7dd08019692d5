//! Imports between the folders of a crate. ARCHITECTURE.md lists the allowed ones as arrows.

use std::collections::{BTreeMap, BTreeSet};

use super::graph::Graph;

/// Folders that each folder may import from.
type Allowed<'t> = BTreeMap<&'t str, BTreeSet<&'t str>>;

/// Returns the imports of `graph` between folders that have no arrow in `architecture`.
///
/// # Errors
/// `architecture` has no valid block of arrows.
pub(super) fn violations(architecture: &str, graph: &Graph<'_>) -> Result<Vec<String>, String> {
    let allowed = parse(architecture)?;
    let mut found = Vec::new();
    for (from, to, import) in graph.between_top_folders() {
        match allowed.get(from.as_str()) {
            None => found.push(format!("ARCHITECTURE.md lists no arrows of `{from}`: {import}")),
            Some(targets) if !targets.contains(to.as_str()) => {
                found.push(format!("the arrow `{from} -> {to}` is not allowed: {import}"));
            }
            Some(_) => {}
        }
    }
    Ok(found)
}

/// Parses lines such as `server -> http` in the code block with the language `arrows`.
fn parse(architecture: &str) -> Result<Allowed<'_>, String> {
    let mut allowed = Allowed::new();
    let lines = architecture.lines().skip_while(|line| *line != "```arrows").skip(1).take_while(|line| *line != "```");
    for line in lines {
        let (from, to) = line.split_once("->").ok_or_else(|| format!("ARCHITECTURE.md: not an arrow: {line}\n"))?;
        allowed
            .entry(from.trim())
            .or_default()
            .extend(to.split([',', ' ']).map(str::trim).filter(|name| !name.is_empty()));
    }
    if allowed.is_empty() {
        Err("ARCHITECTURE.md has no code block with the language `arrows`\n".to_owned())
    } else {
        Ok(allowed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_of_arrows_is_read() {
        let allowed = parse("# A\n```arrows\ncli    -> app, http\nserver -> http\nhttp ->\n```\n").unwrap_or_default();
        assert_eq!(allowed["cli"], BTreeSet::from(["app", "http"]));
        assert!(allowed["http"].is_empty());
    }

    #[test]
    fn a_missing_block_is_an_error() {
        assert!(parse("# A\n").is_err());
    }
}
