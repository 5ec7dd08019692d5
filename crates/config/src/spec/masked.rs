//! Predicates and filters with values masked that may be secrets, for listings.

use crate::de::canonical;
use crate::diagnostics::{NAMED_VALUES, is_secret_name, without_scheme};
use crate::spec::definition::{Arg, Spec};

/// Text in place of a masked value.
const MASK: &str = "****";

/// Arguments of one predicate or filter that listings show: a table of plans may have a hundred thousand.
const MAX_LISTED: usize = 1_000;

/// Arguments that hold the name in the long form.
const NAMES: [&str; 4] = ["name", "header", "param", "_genkey_0"];

/// Reader of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// The user of a command, who has the files: values are masked whose names say that they are secrets.
    Shell,
    /// Clients of the admin port: all values are masked that may be secrets.
    Network,
}

impl Audience {
    /// Returns true if the `value` of a header field, a cookie or a parameter is masked.
    pub fn hides(self, name: &str, value: &str) -> bool {
        self == Self::Network || is_secret_name(name) || without_scheme(value).is_some()
    }
}

/// Part of an argument that may be a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Secret {
    Nothing,
    /// The value.
    Value,
    /// The value after a colon, as in `X-Token:secret`.
    AfterColon,
    /// The value after the name in a predicate, as in `Header=X-Token, secret`.
    AfterComma,
    /// The last part of the argument's name: a key in a table.
    Key,
}

impl Secret {
    /// Returns the part of a predicate in a `when` that may be a secret; `name` is that of the argument.
    fn of_condition(name: &str, value: &str, audience: Audience) -> Self {
        let Some((predicate, arguments)) = value.split_once('=').filter(|_| !name.contains(".args")) else {
            return if name.contains(".args") { Self::Value } else { Self::Nothing };
        };
        match arguments.split_once(',') {
            Some((of, value))
                if NAMED_VALUES.contains(&canonical(predicate.trim()).as_str())
                    && audience.hides(of.trim(), value.trim()) =>
            {
                Self::AfterComma
            }
            _ => Self::Nothing,
        }
    }
}

impl Spec<'_> {
    /// Returns the text of the specification with possible secrets masked: values of headers, parameters and cookies,
    /// and the keys of limiters.
    pub(crate) fn masked_text(&self, audience: Audience) -> String {
        let is_whole = self.args.len() <= MAX_LISTED;
        let secrets: Vec<Secret> =
            self.listed().iter().enumerate().map(|(at, arg)| self.secret(at, arg, audience)).collect();
        if is_whole && secrets.iter().all(|secret| *secret == Secret::Nothing) {
            return mask_urls(&self.text);
        }
        let mut shown: Vec<String> =
            self.listed().iter().zip(secrets).map(|(arg, secret)| masked(arg, secret)).collect();
        shown.extend((!is_whole).then(|| "…".to_owned()));
        match self.args.iter().any(|arg| arg.name.is_some()) {
            true => format!("{}{{{}}}", self.name, shown.join(", ")),
            false => format!("{}={}", self.name, shown.join(", ")),
        }
    }

    /// Returns the first named arguments with their values.
    pub(crate) fn named_arguments(&self) -> Vec<(String, String)> {
        self.listed().iter().filter_map(|arg| Some((arg.name.clone()?, arg.value.clone()))).collect()
    }

    /// Returns the named arguments as [`masked_text`](Self::masked_text) shows them.
    pub(crate) fn masked_arguments(&self, audience: Audience) -> Vec<(String, String)> {
        let masked = self.listed().iter().enumerate().map(|(at, arg)| masked(arg, self.secret(at, arg, audience)));
        masked
            .filter_map(|text| text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned())))
            .collect()
    }

    fn listed(&self) -> &[Arg] {
        self.args.get(..MAX_LISTED).unwrap_or(&self.args)
    }

    /// Returns the name that the values of the other arguments belong to.
    fn name_argument(&self) -> Option<(usize, &str)> {
        let is_name = |arg: &Arg| {
            let name = arg.name.as_deref().map(canonical);
            name.is_none_or(|name| NAMES.iter().any(|known| canonical(known) == name))
        };
        let (at, arg) = self.args.iter().enumerate().find(|(_, arg)| is_name(arg))?;
        Some((at, arg.value.as_str()))
    }

    fn secret(&self, position: usize, arg: &Arg, audience: Audience) -> Secret {
        let filter = canonical(&self.name);
        let name = arg.name.as_deref().map(canonical);
        match filter.as_str() {
            filter if NAMED_VALUES.contains(&filter) => match self.name_argument() {
                Some((at, _)) if at == position => Secret::Nothing,
                Some((_, of)) if !audience.hides(of, &arg.value) => Secret::Nothing,
                _ => Secret::Value,
            },
            "addrequestheadersifnotpresent" => match arg.value.split_once(':') {
                Some((name, value)) if !audience.hides(name, value) => Secret::Nothing,
                _ => Secret::AfterColon,
            },
            "requestratelimiter" | "concurrencylimiter" => {
                let name = name.unwrap_or_default();
                let argument = name.split(['[', '.']).next().unwrap_or_default();
                match argument {
                    "exempt" | "block" => Secret::Value,
                    "planresolver" if name.contains(".table.") => Secret::Key,
                    _ if name.contains("when") => Secret::of_condition(&name, &arg.value, audience),
                    _ => Secret::Nothing,
                }
            }
            _ => Secret::Nothing,
        }
    }
}

/// Masks the user information of URLs, and the values of their parameters that may be secrets.
fn mask_urls(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + "://".len());
        shown.push_str(before);
        let end = after.find([' ', ',', '}', ']']).unwrap_or(after.len());
        let (url, following) = after.split_at(end);
        let host = url.find(['/', '?', '#']).unwrap_or(url.len());
        let (authority, target) = url.split_at(host);
        match authority.rsplit_once('@') {
            Some((_, host)) => shown.push_str(&format!("{MASK}@{host}")),
            None => shown.push_str(authority),
        }
        match target.split_once('?') {
            Some((path, query)) => {
                let parameters: Vec<String> = query.split('&').map(mask_parameter).collect();
                shown.push_str(&format!("{path}?{}", parameters.join("&")));
            }
            None => shown.push_str(target),
        }
        rest = following;
    }
    shown + rest
}

fn mask_parameter(parameter: &str) -> String {
    match parameter.split_once('=') {
        Some((name, _)) if is_secret_name(name) => format!("{name}={MASK}"),
        _ => parameter.to_owned(),
    }
}

fn masked(arg: &Arg, secret: Secret) -> String {
    let value = match (secret, arg.value.split_once(':'), arg.value.split_once(',')) {
        (Secret::Nothing | Secret::Key, ..) => mask_urls(&arg.value),
        (Secret::AfterColon, Some((name, _)), _) => format!("{name}:{MASK}"),
        (Secret::AfterComma, _, Some((predicate, _))) => format!("{predicate}, {MASK}"),
        _ => MASK.to_owned(),
    };
    match (&arg.name, secret) {
        (None, _) => value,
        (Some(name), Secret::Key) => {
            let end = name.to_ascii_lowercase().find("table.").map_or(0, |at| at + "table.".len());
            format!("{}{MASK}={value}", &name[..end])
        }
        (Some(name), _) => format!("{name}={value}"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::Audience;

    #[test]
    fn listings_show_a_thousand_arguments_of_a_filter() {
        let text = |count: usize| {
            let table: Vec<String> = (0..count).map(|at| format!("s3cret{at}: gold")).collect();
            format!(
                "routes: [{{id: a, uri: 'echo:', predicates: [Path=/a], filters: [{{name: RequestRateLimiter, args: {{key-resolver: 'header:X-A', \
                 replenish-rate: 1, plans: {{gold: {{replenish-rate: 5}}}}, plan-resolver: {{table: {{{}}}}}}}}}]}}]\n",
                table.join(", ")
            )
        };
        for (count, shown, is_cut) in [(997, 997, false), (2_000, 997, true)] {
            let config = crate::parse("test", &text(count), &|_| None).unwrap().config;
            let definition = &config.routes[0].definition;
            for audience in [Audience::Shell, Audience::Network] {
                let limiter = &definition.masked_filters(audience)[0];
                assert_eq!(limiter.matches("table.****=gold").count(), shown, "{limiter}");
                assert_eq!(limiter.ends_with(", …}"), is_cut, "{limiter}");
                assert!(!limiter.contains("s3cret"), "{limiter}");
                assert_eq!(definition.masked_arguments(audience)[0].len(), shown + 3);
            }
        }
    }

    #[test]
    fn values_that_may_be_secrets_are_masked() {
        let text = "
            redis: {url: 'redis://localhost'}
            routes:
              - id: a
                uri: 'echo:'
                predicates: [Path=/a, 'Header=X-Key, s3cret', {name: Cookie, args: {name: sid, regexp: s.*}}]
                filters:
                  - AddRequestHeader=Authorization, Bearer s3cret
                  - {name: SetRequestHeader, args: {value: s3cret, name: X-Key}}
                  - AddRequestHeadersIfNotPresent=X-Key:s3cret,X-Other:shown
                  - AddResponseHeader=X-Other, shown
                  - StripPrefix=1
                  - RedirectTo=302, https://user:s3cret@example.com/a?b=c&token=s3cret
                  - name: RequestRateLimiter
                    args:
                      key-resolver: 'header:x-key'
                      replenish-rate: 1
                      exempt: [s3cret]
                      plan-resolver: {table: {s3cret: gold}}
                      plans: {gold: {replenish-rate: 5}}
                      when: ['Header=X-Key, s3cret', {any: [{name: Cookie, args: {name: a, regexp: s3cret}}, Method=GET]}]
                  - AddRequestHeader=X-Access-Code, s3cret
                  - RedirectTo=302, https://example.com/a?code=s3cret&sas=s3cret&page=2
        ";
        let config = crate::parse("test", text, &|_| None).unwrap().config;
        let definition = &config.routes[0].definition;
        let predicates = |audience| definition.masked_predicates(audience);
        assert_eq!(predicates(Audience::Network), ["Path=/a", "Header=X-Key, ****", "Cookie{name=sid, regexp=****}"]);
        assert_eq!(
            definition.masked_filters(Audience::Network)[..6],
            [
                "AddRequestHeader=Authorization, ****",
                "SetRequestHeader{value=****, name=X-Key}",
                "AddRequestHeadersIfNotPresent=X-Key:****, X-Other:****",
                "AddResponseHeader=X-Other, ****",
                "StripPrefix=1",
                "RedirectTo=302, https://****@example.com/a?b=c&token=****",
            ]
        );
        assert_eq!(
            definition.masked_filters(Audience::Shell)[..4],
            [
                "AddRequestHeader=Authorization, ****",
                "SetRequestHeader{value=****, name=X-Key}",
                "AddRequestHeadersIfNotPresent=X-Key:****, X-Other:shown",
                "AddResponseHeader=X-Other, shown",
            ]
        );
        assert_eq!(predicates(Audience::Shell)[2], "Cookie{name=sid, regexp=s.*}");
        for audience in [Audience::Shell, Audience::Network] {
            let filters = definition.masked_filters(audience);
            let limiter = &filters[6];
            assert!(limiter.contains("exempt[0]=****") && limiter.contains("table.****=gold"), "{limiter}");
            assert!(limiter.contains("replenish-rate=1"), "{limiter}");
            assert!(limiter.contains("when[0]=Header=X-Key, ****") && limiter.contains("=Method=GET"), "{limiter}");
            assert_eq!(
                filters[7..],
                [
                    "AddRequestHeader=X-Access-Code, ****",
                    "RedirectTo=302, https://example.com/a?code=****&sas=****&page=2"
                ]
            );
            assert!(
                !format!("{filters:?}{:?}", definition.masked_arguments(audience)).contains("s3cret"),
                "{filters:?}"
            );
        }
    }
}
