//! Texts that readers of YAML 1.1, such as Spring's, would read otherwise, and tags.

use std::ops::Range;

use granit_parser::Tag;

use super::Builder;
use crate::yaml::parse::Problem;

impl Builder<'_> {
    /// Returns the full name of the tag of a value. A tag of the author's is an error.
    pub(super) fn tag(&mut self, tag: Option<&Tag>, at: usize) -> Result<Option<String>, Problem> {
        if tag.is_none() || self.map_without_key().is_some() {
            return Ok(None);
        }
        let name = tag.map(|tag| format!("{}{}", tag.handle(), tag.suffix()));
        if name.as_deref().is_some_and(|name| name.starts_with('!')) {
            let help = "quote a text that begins with `!`".to_owned();
            return Err(Problem { help: Some(help), ..self.error(at..at, "a tag has no meaning here") });
        }
        Ok(name)
    }

    /// Checks the name of an anchor. In YAML 1.1, a colon does not belong to it.
    pub(super) fn anchor(&self, name: &str, at: Range<usize>) -> Result<(), Problem> {
        let help = "write a space before the colon, or name the anchor without one".to_owned();
        let error = || Problem { help: Some(help), ..self.error(at, "a colon in the name of an anchor") };
        if name.contains(':') { Err(error()) } else { Ok(()) }
    }

    /// Checks a plain scalar. Within brackets, YAML 1.1 has a key behind a question mark.
    pub(super) fn plain(&self, text: &str, at: &Range<usize>) -> Result<(), Problem> {
        if !text.starts_with('?') || !self.open.last().is_some_and(|open| open.is_flow) {
            return Ok(());
        }
        let help = "quote a text that begins with `?` within `[…]` and `{…}`".to_owned();
        Err(Problem { help: Some(help), ..self.error(at.clone(), "a text begins with `?`") })
    }
}
