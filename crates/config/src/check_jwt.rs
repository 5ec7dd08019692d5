//! `jwt:`, and the key resolvers that read claims.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use tokio::sync::Notify;
use tollgate_filters::jwt::{Algorithm, KeySet, Settings, TokenSource, Verifier};
use tollgate_filters::key_resolver::KeyResolver;

use super::check::{Nodes, positive};
use super::jwt::{Jwt, KeySource};
use super::problem::{Sink, reasons, suggest};
use super::raw_jwt::RawJwt;
use super::spot::{Spot, Whole};
use super::values::header_name;
use super::yaml::{Kind, Node, Origin};

/// What an author may write under `algorithms`.
const ALGORITHMS: [&str; 12] =
    ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA", "HS256", "HS384", "HS512"];

/// What `jwt:CLAIM` is bound to.
pub(crate) struct Tokens {
    /// Whether the file has a section `jwt`, usable or not.
    is_given: bool,
    pub(crate) jwt: Option<Jwt>,
}

impl Tokens {
    pub(crate) fn check(raw: Option<&Spot<RawJwt>>, nodes: &Nodes<'_>, sink: &mut Sink) -> Self {
        Self { is_given: raw.is_some(), jwt: raw.and_then(|raw| jwt(raw, nodes, sink)) }
    }

    /// `resolver` with a verifier where it needs one; it stands at `at`.
    pub(crate) fn bind(&self, resolver: KeyResolver, at: Origin, sink: &mut Sink) -> KeyResolver {
        match &self.jwt {
            Some(jwt) => resolver.with_jwt(&jwt.verifier),
            None => {
                if !self.is_given && resolver.lacks_jwt() {
                    sink.error(at, "`jwt:` reads a claim, and nothing says whose tokens to believe")
                        .help("add at the top level: `jwt: {jwks: \"https://id.example.com/jwks.json\", issuer: \"https://id.example.com\", audience: my-api}`");
                }
                resolver
            }
        }
    }
}

/// The section; `None` when it cannot be used, which `sink` then knows.
fn jwt(raw: &Spot<RawJwt>, nodes: &Nodes<'_>, sink: &mut Sink) -> Option<Jwt> {
    let (at, raw) = (raw.origin.key(), &raw.value);
    let mut settings = Settings::default();
    if let Some(listed) = &raw.algorithms {
        settings.algorithms = listed.iter().filter_map(|name| algorithm(name, sink)).collect();
        if listed.is_empty() {
            sink.error(at, "`algorithms` is empty: no token would count").help("remove it for the default");
        }
    }
    settings.issuers = texts(raw.issuer, nodes, sink);
    settings.audiences = texts(raw.audience, nodes, sink);
    if settings.audiences.is_empty() {
        sink.info(at, "without `audience` tokens count that were made for other services")
            .help("`audience: my-api` takes those whose `aud` names it");
    }
    if let Some(leeway) = raw.leeway {
        settings.leeway = leeway.value.0;
        if settings.leeway > Duration::from_secs(300) {
            sink.warn(leeway.origin, "tokens count for longer than five minutes after they expired");
        }
    }
    let source = source(raw, sink);
    let refresh = positive(raw.refresh, 300, sink);
    let Some(jwks) = &raw.jwks else {
        sink.error(at, "`jwt` needs `jwks`: the keys that tokens are signed with")
            .help("`jwks: \"https://id.example.com/jwks.json\"`, or a file's path");
        return None;
    };
    let keys = key_source(jwks, sink)?;
    settings.source = source?;
    let key_set = match &keys {
        KeySource::File(path) => key_set(path, &settings, jwks.origin, sink)?,
        KeySource::Server(_) => KeySet::empty(),
    };
    let wanted = Arc::new(Notify::new());
    let hook = Arc::clone(&wanted);
    let verifier = Verifier::new(settings, key_set).on_unknown_key(move || hook.notify_one());
    Some(Jwt { keys, refresh, verifier: Arc::new(verifier), wanted })
}

fn algorithm(name: &Spot<String>, sink: &mut Sink) -> Option<Algorithm> {
    let text = name.value.trim();
    let known = ALGORITHMS.iter().find(|known| known.eq_ignore_ascii_case(text)).and_then(|known| known.parse().ok());
    if known.is_none() {
        if text.eq_ignore_ascii_case("none") {
            sink.error(name.origin, "`none` is no signature: anybody can write such a token").help("remove it");
        } else {
            sink.error(name.origin, format!("unknown algorithm `{text}`")).help(suggest(text, &ALGORITHMS));
        }
    }
    known
}

/// One text or a list of them.
fn texts(whole: Option<Whole>, nodes: &Nodes<'_>, sink: &mut Sink) -> Vec<String> {
    let Some(node) = whole.and_then(|whole| nodes.get(whole)) else { return Vec::new() };
    let items: &[Node] = match &node.kind {
        Kind::Null => return Vec::new(),
        Kind::Seq(items) => items,
        _ => std::slice::from_ref(node),
    };
    let mut texts = Vec::with_capacity(items.len());
    for item in items {
        match item.scalar() {
            Some(text) if !text.is_empty() => texts.push(text.to_owned()),
            _ => drop(sink.error(item.origin, format!("expected a text, found {}", item.describe()))),
        }
    }
    texts
}

fn source(raw: &RawJwt, sink: &mut Sink) -> Option<TokenSource> {
    match (&raw.header, &raw.cookie) {
        (Some(_), Some(cookie)) => {
            sink.error(cookie.origin.key(), "`header` and `cookie` are both given").help("remove one of them");
            None
        }
        (Some(header), None) => {
            let name = header_name(&header.value, header.origin, sink)?;
            Some(if name == http::header::AUTHORIZATION { TokenSource::Bearer } else { TokenSource::Header(name) })
        }
        (None, Some(cookie)) => Some(TokenSource::Cookie(cookie.value.trim().to_owned())),
        (None, None) => Some(TokenSource::Bearer),
    }
}

fn key_source(jwks: &Spot<String>, sink: &mut Sink) -> Option<KeySource> {
    let text = jwks.value.trim();
    if text.is_empty() {
        sink.error(jwks.origin, "`jwks` must be a file's path or a URL, found nothing");
        return None;
    }
    let Some((scheme, rest)) = text.split_once("://") else { return Some(KeySource::File(text.into())) };
    let uri: Option<Uri> = text.parse().ok();
    let host = uri.as_ref().and_then(Uri::host).unwrap_or_default().to_owned();
    if !["http", "https"].contains(&scheme) || host.is_empty() || rest.contains('@') {
        sink.error(jwks.origin, "`jwks` must be `https://host[:port]/path`, or a file's path")
            .help("`jwks: \"https://id.example.com/jwks.json\"`");
        return None;
    }
    let is_local = host == "localhost" || host.trim_matches(['[', ']']).parse().is_ok_and(is_loopback);
    if scheme == "http" && !is_local {
        sink.warn(jwks.origin, "over `http://` whoever stands between can put in keys of his own")
            .help("use `https://`");
    }
    uri.map(KeySource::Server)
}

fn is_loopback(address: std::net::IpAddr) -> bool {
    address.is_loopback()
}

/// The keys of a file, which must be there and in order from the start.
fn key_set(path: &Path, settings: &Settings, at: Origin, sink: &mut Sink) -> Option<KeySet> {
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(error) => {
            sink.error(at, format!("cannot read the key set {}: {error}", path.display()));
            return None;
        }
    };
    let keys = match KeySet::parse(&text) {
        Ok(keys) => keys,
        Err(error) => {
            sink.error(at, format!("cannot use the key set {}: {}", path.display(), reasons(&error)))
                .help("it is a JWK set (RFC 7517): `{\"keys\": [{\"kty\": \"RSA\", \"kid\": …}]}`");
            return None;
        }
    };
    for reason in keys.unusable() {
        sink.warn(at, format!("{reason}; it is left out"));
    }
    if !keys.fits_any(&settings.algorithms) {
        sink.error(at, "no key of the set is made for one of `algorithms`")
            .help("name the one that tokens are signed with; HS256, HS384 and HS512 only count when they are named");
        return None;
    }
    Some(keys)
}
