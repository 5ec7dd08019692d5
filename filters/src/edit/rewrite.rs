//! Replacement of regular expressions: `RewritePath` and `RewriteResponseHeader`.

use http::{HeaderMap, HeaderName, HeaderValue};

use super::{EditError, header};
use tollgate_java_regex::{Charset, JavaRegex, Replacement, TooSlow};

/// A regular expression and its replacement, in Spring's syntax.
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
    /// Compiles a rewrite. `encode` encodes the literal text of the replacement for its target.
    pub(super) fn new(
        regexp: &str,
        replacement: &str,
        encode: impl Fn(&str) -> Result<String, EditError>,
    ) -> Result<Self, EditError> {
        let regex = JavaRegex::new(regexp, Charset::Bytes)
            .map_err(|error| EditError::Regexp { regexp: regexp.to_owned(), problem: error.to_string() })?;
        // Spring's syntax for `${name}`, which would be a placeholder in YAML.
        let parsed = Replacement::parse(&replacement.replace("$\\", "$"), &regex);
        let mut replacement = parsed.map_err(|error| EditError::Replacement {
            replacement: replacement.to_owned(),
            problem: error.to_string(),
        })?;
        replacement.map_text(encode)?;
        Ok(Self { regex, replacement })
    }

    /// Returns true if the expression may match differently from Java.
    pub(super) fn differs_from_java(&self) -> bool {
        self.regex.repeats_empty_match()
    }

    /// Replaces every match in `text` and appends the result to `out`. Returns false if there is no match.
    pub(super) fn apply(&self, text: &[u8], out: &mut Vec<u8>) -> Result<bool, TooSlow> {
        self.replacement.replace_all(&self.regex, text, out)
    }
}

// === impl HeaderRewrite ===

impl HeaderRewrite {
    pub(super) fn new(name: &str, regexp: &str, replacement: &str) -> Result<Self, EditError> {
        let name = header::parse_settable_name(name)?;
        let checked_value = |text: &str| match HeaderValue::from_bytes(text.as_bytes()) {
            Ok(_) => Ok(text.to_owned()),
            Err(_) => Err(EditError::HeaderValue(name.to_string())),
        };
        let rewrite = Rewrite::new(regexp, replacement, checked_value)?;
        Ok(Self { name, rewrite })
    }

    pub(super) fn rewrite(&self) -> &Rewrite {
        &self.rewrite
    }

    /// Rewrites the values. If a search takes too long, the value is removed: the edit may hide confidential text.
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
                    tracing::warn!(header = %self.name, "header rewrite exceeded the limit of backtracking steps: value removed");
                }
            }
        }
        if is_changed {
            header::replace_all(headers, &self.name, values);
        }
    }
}
