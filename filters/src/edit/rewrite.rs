//! Replacing what matches: `RewritePath` and `RewriteResponseHeader`.

use http::{HeaderMap, HeaderName, HeaderValue};

use super::{EditError, header};
use tollgate_java_regex::{Charset, JavaRegex, Replacement, TooSlow};

/// A pattern and what its matches become, as Spring writes them.
#[derive(Clone, Debug)]
pub(super) struct Rewrite {
    regex: JavaRegex,
    replacement: Replacement,
}

/// A rewrite of every value of a response header.
#[derive(Clone, Debug)]
pub(super) struct HeaderRewrite {
    name: HeaderName,
    rewrite: Rewrite,
}

// === impl Rewrite ===

impl Rewrite {
    /// `text` says how the replacement's literal text is written where it goes.
    pub(super) fn new(
        regexp: &str,
        replacement: &str,
        text: impl Fn(&str) -> Result<String, EditError>,
    ) -> Result<Self, EditError> {
        let regex = JavaRegex::new(regexp, Charset::Bytes)
            .map_err(|error| EditError::Regexp { regexp: regexp.to_owned(), problem: error.to_string() })?;
        // Spring's way to write `${name}` where YAML would take it for a placeholder.
        let mut parsed = Replacement::parse(&replacement.replace("$\\", "$"), &regex).map_err(|error| {
            EditError::Replacement { replacement: replacement.to_owned(), problem: error.to_string() }
        })?;
        parsed.map_text(text)?;
        Ok(Self { regex, replacement: parsed })
    }

    /// Whether it may match something else than Java would.
    pub(super) fn differs_from_java(&self) -> bool {
        self.regex.repeats_empty_match()
    }

    /// Appends `text` with every match replaced to `out`, unless there is none.
    pub(super) fn apply(&self, text: &[u8], out: &mut Vec<u8>) -> Result<bool, TooSlow> {
        self.replacement.replace_all(&self.regex, text, out)
    }
}

// === impl HeaderRewrite ===

impl HeaderRewrite {
    pub(super) fn new(name: &str, regexp: &str, replacement: &str) -> Result<Self, EditError> {
        let name = header::parse_settable_name(name)?;
        let fits = |text: &str| match HeaderValue::from_bytes(text.as_bytes()) {
            Ok(_) => Ok(text.to_owned()),
            Err(_) => Err(EditError::HeaderValue(name.to_string())),
        };
        let rewrite = Rewrite::new(regexp, replacement, fits)?;
        Ok(Self { name, rewrite })
    }

    pub(super) fn rewrite(&self) -> &Rewrite {
        &self.rewrite
    }

    /// Rewrites the values. One that cannot be, since that takes too long, is removed: what was to be hidden stays so.
    pub(super) fn apply(&self, headers: &mut HeaderMap) {
        let (mut values, mut is_changed) = (Vec::new(), false);
        for value in headers.get_all(&self.name) {
            let mut rewritten = Vec::new();
            match self.rewrite.apply(value.as_bytes(), &mut rewritten) {
                Ok(false) => values.push(value.clone()),
                Ok(true) => {
                    is_changed = true;
                    values.extend(HeaderValue::try_from(rewritten));
                }
                Err(TooSlow) => {
                    is_changed = true;
                    tracing::warn!(header = %self.name, "a header took too long to rewrite and was removed");
                }
            }
        }
        if is_changed {
            header::replace_all(headers, &self.name, values);
        }
    }
}
