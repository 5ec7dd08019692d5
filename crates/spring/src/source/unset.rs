//! Placeholders without a value, and example values for the overlay file that `tollgate check` proposes.

use crate::source::environment::variable;
use tollgate_document::diagnostics::{Missing, Section, is_secret_key};
use tollgate_document::yaml::key::{canonical, same_name, words};

/// A placeholder without a value, with the text around it.
pub(super) struct Unset {
    pub(super) name: String,
    before: String,
    after: String,
}

impl Unset {
    pub(super) fn new(name: &str, before: &str, after: &str) -> Self {
        Self { name: name.to_owned(), before: before.to_owned(), after: after.to_owned() }
    }

    /// Describes the error.
    pub(super) fn message(&self) -> String {
        format!("`${{{}}}` is not set and has no default", self.name)
    }
}

/// Returns the properties that would give the placeholders of a value of `key`, all of which are `unset`, a value. Empty if one
/// of them cannot be a property. `section` is the one at the top of the tree that the value stands in.
pub(super) fn missing(unset: &[Unset], section: &str, key: &str) -> Vec<Missing> {
    let are_names = unset.iter().all(|unset| is_name(&unset.name));
    unset.iter().filter(|_| are_names).map(|unset| unset.missing(section, key)).collect()
}

/// Returns true for a name that can be a property at the top of a file.
fn is_name(name: &str) -> bool {
    let is_part = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
    name.starts_with(|first: char| first.is_ascii_alphabetic()) && name.split('.').all(is_part)
}

impl Unset {
    /// Returns the property that would give the placeholder a value.
    fn missing(&self, of: &str, key: &str) -> Missing {
        let name = self.name.clone();
        let variable = if name.contains(['.', '-']) { variable(&name) } else { name.clone() };
        let section = Section::Properties;
        let words: Vec<String> = words(&name).into_iter().filter(|word| !word.is_empty()).collect();
        if is_secret(&words, key) {
            let comment = format!("a secret: set {variable} in the environment");
            return Missing { section, name, value: String::new(), comment };
        }
        if is_profile(&words, key) {
            // Any other name would be an active profile, with the files and documents of that name.
            let comment = format!("Spring's profile without another one; {variable} in the environment wins");
            return Missing { section, name, value: "default".to_owned(), comment };
        }
        let value = example(&words, (of, key), &self.before, &self.after);
        Missing { section, name, value, comment: format!("an example; {variable} in the environment wins") }
    }
}

/// Returns true for the active profiles, by the words of their name or by the key of the value.
fn is_profile(words: &[String], key: &str) -> bool {
    let ends = |last: [&str; 2]| words.len() > 1 && words[words.len() - 2..] == last;
    ends(["profiles", "active"]) || ends(["profile", "active"]) || ["active", "profiles.active"].contains(&key)
}

/// Returns true for a secret, by the words of its name and the key of its value.
fn is_secret(words: &[String], key: &str) -> bool {
    let sounds_so =
        |text: &str| ["passw", "secret", "credential", "pwd", "passphrase"].iter().any(|sign| text.contains(sign));
    words.iter().any(|word| sounds_so(word))
        || is_secret_key(&words.join("-"))
        || sounds_so(&canonical(key))
        || is_secret_key(key)
}

/// Words for numbers, at the end of names.
const NUMBERS: [&str; 13] = [
    "rate", "capacity", "limit", "count", "size", "max", "min", "num", "burst", "tokens", "retries", "weight", "order",
];
/// Words for durations, at the end of names.
const DURATIONS: [&str; 7] = ["timeout", "ttl", "interval", "duration", "delay", "period", "backoff"];
/// Words for URLs, at the end of names.
const URLS: [&str; 6] = ["url", "uri", "endpoint", "address", "baseurl", "upstream"];
/// Words for hosts, at the end of names.
const HOSTS: [&str; 5] = ["host", "hostname", "addr", "ip", "server"];

/// Servers with a port of their own.
const PORTS: [(&str, &str); 4] = [("redis", "6379"), ("consul", "8500"), ("nacos", "8848"), ("eureka", "8761")];

/// Returns a value of the kind that the name, the key, its section and the text around the placeholder suggest.
fn example(words: &[String], (section, key): (&str, &str), before: &str, after: &str) -> String {
    let server = PORTS.iter().find(|(server, _)| same_name(section, server));
    let server = server.or_else(|| PORTS.iter().find(|(server, _)| words.iter().any(|word| word == server)));
    let port = server.map_or("8080", |(_, port)| port);
    let last = words.last().map_or("", String::as_str);
    let key = canonical(key.rsplit('.').next().unwrap_or(key));
    let is = |kinds: &[&str]| kinds.contains(&last) || kinds.iter().any(|kind| key.ends_with(kind));
    let host_words: Vec<&str> = words
        .iter()
        .map(String::as_str)
        .filter(|word| *word != "port" && !URLS.contains(word) && !HOSTS.contains(word))
        .collect();
    let host = if host_words.is_empty() { "localhost".to_owned() } else { host_words.join("-") };
    let in_authority = before.rsplit_once("://").filter(|(_, authority)| !authority.contains('/'));
    match in_authority {
        Some((_, authority)) if authority.ends_with(':') => return port.to_owned(),
        Some((scheme, "")) if scheme != "lb" && !after.starts_with([':', '.', '-']) && !last.ends_with("host") => {
            return format!("{host}:{port}");
        }
        Some(_) => return host,
        None => {}
    }
    let is_start = before.is_empty();
    if last == "port" || is_start && key.ends_with("port") {
        return port.to_owned();
    }
    let is_url = URLS.contains(&last) || URLS.iter().any(|url| key.ends_with(url));
    match canonical(section).as_str() {
        "redis" if is_start && key == "url" => return format!("redis://{host}:{port}"),
        "redis" if key == "nodes" => return format!("{host}:{port}"),
        "nacos" if is_start && key == "serveraddr" => return format!("{host}:{port}"),
        "eureka" if is_start && (key.ends_with("zone") || is_url) => return format!("http://{host}:{port}/eureka/"),
        _ => {}
    }
    if is_start && is_url {
        return if after.starts_with("://") { "http".to_owned() } else { format!("http://{host}:{port}") };
    }
    if is(&["origin", "origins"]) {
        return "http://localhost:3000".to_owned();
    }
    if is(&NUMBERS) {
        return "10".to_owned();
    }
    if is(&DURATIONS) {
        return "5s".to_owned();
    }
    if is(&["enabled", "enable"]) {
        return "true".to_owned();
    }
    if is(&HOSTS) { host } else { words.join("-") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::expansion::{Budget, Expansion, Lookup, Value};

    fn of_text(text: &str, key: &str, value: &dyn Fn(&str) -> Option<Value>) -> Vec<Missing> {
        let budget = Budget::default();
        let lookup = Lookup::new(value, &budget);
        let mut expansion = Expansion::new(&lookup);
        let is_whole = expansion.expand(text, 0).is_ok();
        if is_whole { missing(&expansion.unset, "routes", key) } else { Vec::new() }
    }

    #[test]
    fn examples_fit_their_places() {
        for (name, key, text, value) in [
            ("ACCOUNTS_URL", "uri", "${}", "http://accounts:8080"),
            ("accountsService", "uri", "${}", "http://accounts-service:8080"),
            ("LOANS_HOST", "uri", "http://${}:${LOANS_PORT}", "loans"),
            ("LOANS_PORT", "uri", "http://loans:${}", "8080"),
            ("LOANS", "uri", "http://${}/x", "loans:8080"),
            ("LOANS_HOST", "uri", "http://${}", "loans"),
            ("ORDERS", "uri", "lb://${}", "orders"),
            ("SCHEME", "uri", "${}://a", "http"),
            ("API", "predicates", "Path=/${}/**", "api"),
            ("STAGE", "filters", "AddRequestHeader=X-Stage, ${}", "stage"),
            ("gateway.port", "port", "${}", "8080"),
            ("RATE_LIMIT", "redis-rate-limiter.replenishRate", "${}", "10"),
            ("BURST", "redis-rate-limiter.burstCapacity", "${}", "10"),
            ("UPSTREAM_TIMEOUT", "response-timeout", "${}", "5s"),
            ("FRONTEND", "allowedOrigins", "${}", "http://localhost:3000"),
            ("REDIS_HOST", "host", "${}", "redis"),
            ("CACHE_PORT", "redis/port", "${}", "6379"),
            ("REDIS_PORT", "port", "${}", "6379"),
            ("REDIS_URL", "redis/url", "${}", "redis://redis:6379"),
            ("CACHE_NODES", "redis/nodes", "${}", "cache-nodes:6379"),
            ("CONSUL_PORT", "consul/port", "${}", "8500"),
            ("NACOS_ADDR", "nacos/server-addr", "${}", "nacos:8848"),
            ("NACOS_PORT", "nacos/server-addr", "nacos:${}", "8848"),
            ("REGISTRY_URL", "eureka/defaultZone", "${}", "http://registry:8761/eureka/"),
            ("EUREKA_HOST", "eureka/defaultZone", "http://${}:8761/eureka/", "eureka"),
            ("DISCOVERY_PORT", "eureka/defaultZone", "http://a:${}/eureka/", "8761"),
            ("EUREKA", "eureka/defaultZone", "http://${}/eureka/", "eureka:8761"),
            ("HOST", "host", "${}", "localhost"),
        ] {
            let (before, after) = text.split_once("${}").unwrap_or_default();
            let (section, key) = key.split_once('/').unwrap_or(("routes", key));
            assert_eq!(example(&words(name), (section, key), before, after), value, "{name} in {text}");
        }
    }

    #[test]
    fn an_active_profile_is_the_default_one() {
        for (text, key) in [
            ("http://a/${spring.profiles.active}", "uri"),
            ("${SPRING_PROFILES_ACTIVE}", "uri"),
            ("${profiles.active}", "x"),
            ("${STAGE}", "active"),
        ] {
            let missing = of_text(text, key, &|_: &str| None);
            assert_eq!(missing.len(), 1);
            assert_eq!(missing[0].value, "default", "{text}");
            assert!(!missing[0].comment.contains("example"));
        }
        assert_eq!(missing(&[Unset::new("profiles.active", "", "")], "", "active")[0].value, "default");
        assert_eq!(of_text("${STAGE}", "uri", &|_: &str| None)[0].value, "http://stage:8080");
    }

    #[test]
    fn secrets_and_names_that_are_no_properties_have_no_example() {
        let none = |_: &str| None;
        let secret = of_text("${REDIS_AUTH}", "password", &none);
        assert!(secret.len() == 1 && secret[0].value.is_empty(), "{secret:?}");
        for name in ["${DB_PASSWORD}", "${jwtSecret}", "${GITHUB_TOKEN}", "${api.key}"] {
            assert!(of_text(name, "uri", &none)[0].value.is_empty(), "{name}");
        }
        assert_eq!(of_text("${AUTH_URL}", "uri", &none)[0].value, "http://auth:8080");
        for text in ["${a..b}", "${#{x}}", "${A}${", "${}", "${a b}"] {
            assert!(of_text(text, "uri", &none).is_empty(), "{text}");
        }
        let both = of_text("http://${A}:${B}/${A}/${C:${D}}", "uri", &none);
        assert_eq!(both.iter().map(|missing| missing.name.as_str()).collect::<Vec<_>>(), ["A", "B", "D"]);
    }
}
