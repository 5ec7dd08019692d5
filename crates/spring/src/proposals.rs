//! Proposed replacements for Java parts of an application, guessed from their names. `check` writes them to its overlay.

use tollgate_document::yaml::key::words;

/// Proposal for a missing part: the value of its key, and a comment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// Definition of the resolver.
    pub value: String,
    /// Remark for the author to check; may be empty.
    pub comment: &'static str,
}

/// Words in names of beans, and the key resolver that they suggest. The first match wins.
const RESOLVERS: [(&[&str], &str, &str); 6] = [
    (
        &["user", "principal", "account", "username", "login"],
        "header:Authorization",
        "counts by token; for its user write \"jwt:sub\" with `tollgate: {jwt: …}`, or \"header:X-User\"",
    ),
    (&["token", "authorization", "bearer", "jwt"], "header:Authorization", ""),
    (&["ip", "remote", "address", "addr", "host", "hostaddr", "hostname", "client"], "ip", ""),
    (&["path", "uri", "url", "api", "request", "endpoint"], "path", ""),
    (&["route", "service"], "route", ""),
    (&["tenant"], "header:X-Tenant", "name the header that tells the tenant"),
];

/// Returns a proposal for the key resolver bean `name`.
pub fn resolver(name: &str) -> Proposal {
    let words = words(name);
    let suggestion =
        RESOLVERS.iter().find(|(signs, ..)| signs.iter().any(|sign| words.iter().any(|word| word == sign)));
    let (value, comment) = suggestion
        .map_or(("ip", "the name does not show the key: check what the bean reads"), |(_, value, comment)| {
            (value, comment)
        });
    let value = if value.contains(':') { format!("\"{value}\"") } else { value.to_owned() };
    Proposal { value, comment }
}

/// Beginnings of words in names of filters that check who sends a request.
const IDENTITY: [&str; 11] =
    ["auth", "jwt", "token", "login", "sso", "oidc", "security", "permission", "role", "session", "bearer"];
/// Beginnings of words in names of filters that refuse requests for another reason.
const REFUSAL: [&str; 24] = [
    "access", "black", "white", "allow", "deny", "denied", "block", "forbid", "guard", "protect", "check", "valid",
    "verif", "require", "sign", "apikey", "key", "captcha", "code", "csrf", "xss", "inject", "ip", "limit",
];

/// The gateway's filter for limits.
const LIMITER: &str = "RequestRateLimiter";

/// Returns the filter of the gateway that `name` means by other words, such as `Throttle`.
pub fn synonym(name: &str) -> Option<&'static str> {
    let words = words(name);
    let is_limit = |pair: &[String]| ["rate", "request"].contains(&pair[0].as_str()) && pair[1].starts_with("limit");
    let is_word = |word: &String| word.starts_with("throttl") || word.starts_with("ratelimit");
    (words.iter().any(is_word) || words.windows(2).any(is_limit)).then_some(LIMITER)
}

/// Returns a proposal for the filter `name`.
pub fn filter(name: &str) -> Proposal {
    let words = words(name);
    let begins = |signs: &[&str]| {
        // Too many words begin with a short prefix.
        words.iter().any(|word| {
            let letters = word.trim_end_matches(|c: char| c.is_ascii_digit());
            signs.iter().any(|sign| letters == *sign || sign.len() > 3 && letters.starts_with(sign))
        })
    };
    let comment = if begins(&IDENTITY) {
        "`skip` admits requests that the filter refuses; `{use: jwt}` verifies tokens by `tollgate: {jwt: {jwks: …}}`"
    } else if begins(&REFUSAL) && !begins(&["log", "logging", "logger"]) {
        "`skip` admits requests that the filter refuses; or `{use: NAME, args: {…}}` with a filter of the gateway"
    } else {
        "or `{use: NAME, args: {…}}` with a filter of the gateway"
    };
    Proposal { value: "skip".to_owned(), comment }
}

/// Returns a proposal for a filter of Spring's that is refused. `None` if requests could not be served without it.
pub fn refused(name: &str) -> Option<Proposal> {
    let comment = match name {
        "ModifyRequestBody" | "ModifyResponseBody" => "`skip` forwards bodies unchanged: change them in the upstream",
        _ => return None,
    };
    Some(Proposal { value: "skip".to_owned(), comment })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn telling_names_have_offers() {
        for (name, value) in [
            ("ipKeyResolver", "ip"),
            ("remoteAddrKeyResolver", "ip"),
            ("hostAddrKeyResolver", "ip"),
            ("pathKeyResolver", "path"),
            ("uriKeyResolver", "path"),
            ("apiKeyResolver", "path"),
            ("userKeyResolver", "\"header:Authorization\""),
            ("tenant-key-resolver", "\"header:X-Tenant\""),
            ("myKeyResolver", "ip"),
        ] {
            assert_eq!(resolver(name).value, value, "{name}");
        }
        assert!(resolver("userKeyResolver").comment.contains("jwt:sub"));
        assert!(filter("JwtAuthenticationFilter").comment.contains("use: jwt"));
        for guard in ["JWTRelay", "OAuth2Filter", "SSOFilter", "RequireRole", "Authfilter"] {
            assert!(filter(guard).comment.contains("refuses; `{use: jwt}`"), "{guard}");
        }
        for guard in [
            "BlackListUrlFilter",
            "IpWhitelist",
            "ApiKeyCheck",
            "SignatureVerify",
            "AccessFilter",
            "ValidateCode",
            "ValidateCodeFilter",
            "XSSFilter",
        ] {
            assert!(filter(guard).comment.contains("refuses; or `{use: NAME"), "{guard}");
        }
        for plain in ["RequestTime", "AccessLog", "Logging", "Elapsed", "CacheRequest", "IpsumHeader"] {
            assert!(!filter(plain).comment.contains("refuses"), "{plain}");
        }
    }
}
