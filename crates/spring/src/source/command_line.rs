//! Properties on the command line, which win over the environment and all files, as in Spring Boot.

use crate::source::documents::Document;
use tollgate_document::diagnostics::{Diagnostics, DocumentId, Format, SourceFile, SourceText};
use tollgate_document::yaml::{Bytes, Node, NodeKind, Span};

/// Settings of the command line about the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandLine {
    /// Active profiles, comma-separated, in place of those of the environment.
    pub profiles: Option<String>,
    /// Properties by their dotted names, such as `server.port`.
    pub properties: Vec<(String, String)>,
}

/// Names of properties that select files and profiles. They act before the files are read.
const SELECTORS: [&str; 4] = ["springconfig", "springprofilesactive", "springprofilesinclude", "springprofilesdefault"];
/// Name of the property with further ones as JSON.
const JSON: &str = "springapplicationjson";

impl CommandLine {
    /// Returns true if a property names the files of the configuration.
    pub fn has_location(&self) -> bool {
        self.property("SPRING_CONFIG_LOCATION").is_some_and(|list| !list.trim().is_empty())
    }

    /// Returns the environment, over which the command line wins.
    pub fn environment(&self) -> impl Fn(&str) -> Option<String> + '_ {
        move |name: &str| match &self.profiles {
            Some(profiles) if name == "SPRING_PROFILES_ACTIVE" => Some(profiles.clone()),
            _ => self.property(name).map(str::to_owned).or_else(|| std::env::var(name).ok()),
        }
    }

    /// Returns the value of the property that a variable of the environment would set.
    fn property(&self, variable: &str) -> Option<&str> {
        // Each key of a file is looked up.
        if self.properties.is_empty() {
            return None;
        }
        let letters_of_variable = letters(variable);
        self.properties.iter().find(|(name, _)| letters(name) == letters_of_variable).map(|(_, value)| value.as_str())
    }
}

/// Returns `name` without the signs in which spellings differ.
fn letters(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '.' | '-' | '_')).map(|c| c.to_ascii_lowercase()).collect()
}

/// Adds the properties of the command line as one document over all others. If the files have our own form, those below
/// `spring` have no effect.
pub fn add(documents: &mut Vec<Document>, text: &mut SourceText, is_own_form: bool, diagnostics: &mut Diagnostics) {
    let mut entries = Vec::new();
    for (name, value) in text.properties.clone() {
        let sought = letters(&name);
        if sought == JSON || SELECTORS.iter().any(|selector| sought.starts_with(selector)) {
            continue;
        }
        let file = text.files.len();
        text.files.push(SourceFile {
            name: format!("--{name}"),
            text: value.clone(),
            format: Format::Argument,
            is_of_profile: false,
        });
        let span = Span::new(file, Bytes::new(0..value.len()));
        if is_own_form && name.starts_with("spring.") {
            diagnostics
                .warn(span, format!("`{name}` has no effect: the files have Tollgate's own form"))
                .help("name the key of that form, such as `--redis.url=redis://cache:6379`");
            continue;
        }
        entries.push((name, Node { span, kind: NodeKind::Scalar(value) }));
    }
    let Some((_, first)) = entries.first() else { return };
    let file = first.span.file();
    let node = Node { span: first.span.again(), kind: NodeKind::Map(entries) };
    documents.push(Document { id: DocumentId { file, number: 0 }, is_of_profile: false, profile: None, node });
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn properties_win_over_variables_of_the_same_name() {
        let of = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let properties = vec![of("spring.config.additional-location", "x/"), of("spring.profiles.active", "a")];
        let mut line = CommandLine { profiles: None, properties };
        assert_eq!(line.environment()("SPRING_CONFIG_ADDITIONAL_LOCATION").unwrap(), "x/");
        assert_eq!(line.environment()("SPRING_PROFILES_ACTIVE").unwrap(), "a");
        assert_eq!(line.environment()("NO_SUCH_VARIABLE_OF_TOLLGATE"), None);
        assert!(!line.has_location());
        line.profiles = Some("b".to_owned());
        line.properties.push(of("spring.config.location", "y.yml"));
        assert_eq!(line.environment()("SPRING_PROFILES_ACTIVE").unwrap(), "b");
        assert!(line.has_location());
    }
}
