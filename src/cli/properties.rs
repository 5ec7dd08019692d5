//! Properties among the arguments, as in Spring Boot: `--server.port=9000`.
//!
//! An argument is a property if its name has a dot. No option has one, so a mistyped option remains an error.

use std::ffi::OsString;

/// The other arguments, and the properties as pairs of name and value.
type Split = (Vec<OsString>, Vec<(String, String)>);

/// Separates the properties from the other `arguments`. Values of repeated names are joined with commas, as in Spring
/// Boot.
///
/// # Errors
/// The name of a property without `=`.
pub(super) fn split(arguments: impl IntoIterator<Item = OsString>) -> Result<Split, String> {
    let (mut others, mut properties) = (Vec::new(), Vec::<(String, String)>::new());
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        if argument == "--" {
            others.push(argument);
            others.extend(arguments);
            break;
        }
        let Some(text) = argument.to_str().and_then(|text| text.strip_prefix("--")) else {
            others.push(argument);
            continue;
        };
        let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
        if !is_property(name) {
            others.push(argument);
            continue;
        }
        let Some(value) = value else { return Err(name.to_owned()) };
        match properties.iter_mut().find(|(known, _)| known == name) {
            Some((_, values)) => {
                values.push(',');
                values.push_str(value);
            }
            None => properties.push((name.to_owned(), value.to_owned())),
        }
    }
    Ok((others, properties))
}

/// Returns true for a dotted name, such as `spring.profiles.active` or `routes[0].uri`.
fn is_property(name: &str) -> bool {
    let has_valid_start = name.starts_with(|first: char| first.is_ascii_alphanumeric());
    has_valid_start && name.contains('.') && !name.ends_with('.') && !name.contains(['/', ' '])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn of(arguments: &[&str]) -> Result<Split, String> {
        split(arguments.iter().map(OsString::from))
    }

    #[test]
    fn dotted_names_are_properties_and_all_others_stay() {
        let (others, properties) = of(&[
            "tollgate",
            "--server.port=1",
            "check",
            "--config=./a.b=c",
            "a.b=c",
            "--routes[0].uri=http://a=b",
            "--server.port=2",
            "--cnfig=x",
            "-c",
            "--",
            "--a.b=c",
        ])
        .unwrap();
        assert_eq!(others, ["tollgate", "check", "--config=./a.b=c", "a.b=c", "--cnfig=x", "-c", "--", "--a.b=c"]);
        let of = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(properties, [of("server.port", "1,2"), of("routes[0].uri", "http://a=b")]);
    }

    #[test]
    fn a_property_needs_a_value() {
        assert_eq!(of(&["tollgate", "--spring.config.location", "x"]).unwrap_err(), "spring.config.location");
        assert_eq!(of(&["tollgate", "--a.b="]).unwrap().1, [("a.b".to_owned(), String::new())]);
    }
}
