//! `jwt:`, and the key resolvers that read claims.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use tokio::sync::Notify;
use tollgate_bounded_file::MAX_KEY_SET_BYTES;
use tollgate_filters::jwt::{Algorithm, KeySet, Settings, TokenSource, Verifier};
use tollgate_filters::key_resolver::KeyResolver;

use crate::de::{Spanned, Texts};
use crate::diagnostics::{Diagnostics, Reported, reasons};
use crate::sections::add_server;
use crate::sections::files;
use crate::sections::jwt::RawJwt;
use crate::sections::tls::files::both_given;
use crate::spec::header_name;
use crate::yaml::Span;

/// Names of signature algorithms.
const ALGORITHMS: [&str; 12] =
    ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA", "HS256", "HS384", "HS512"];

/// Verifier of tokens for `jwt:CLAIM`.
pub(crate) struct Tokens {
    /// True if the file has a section `jwt`, valid or not.
    is_given: bool,
    pub(crate) jwt: Option<Jwt>,
}

impl Tokens {
    pub(crate) fn check(raw: Option<&Spanned<RawJwt>>, diagnostics: &mut Diagnostics) -> Self {
        Self { is_given: raw.is_some(), jwt: raw.and_then(|raw| jwt(raw, diagnostics)) }
    }

    /// Returns the resolver of requests with any valid token. `at` is the place that needs it.
    #[expect(clippy::unnecessary_wraps, reason = "the same shape as in a build without the feature")]
    pub(crate) fn any(&self, at: Span, diagnostics: &mut Diagnostics) -> Result<KeyResolver, Reported> {
        Ok(self.bind(KeyResolver::any_token(), at, diagnostics))
    }

    /// Adds the verifier to `resolver` if it needs one. `at` is its place.
    pub(crate) fn bind(&self, resolver: KeyResolver, at: Span, diagnostics: &mut Diagnostics) -> KeyResolver {
        match &self.jwt {
            Some(jwt) => resolver.with_jwt(&jwt.verifier),
            None => {
                if !self.is_given && resolver.needs_verifier() {
                    diagnostics.error(at, "`jwt:` needs a section `jwt` with the keys that tokens are verified with")
                        .help("add at the top level: `jwt: {jwks: \"https://id.example.com/jwks.json\", issuer: \"https://id.example.com\", audience: my-api}`; in an `application.yml`, below `tollgate:`");
                }
                resolver
            }
        }
    }
}

/// Checks the section. Reports errors; `None` if it cannot be used.
fn jwt(raw: &Spanned<RawJwt>, diagnostics: &mut Diagnostics) -> Option<Jwt> {
    let (at, raw) = (raw.span.key(), &raw.value);
    let mut settings = Settings::default();
    if let Some(listed) = raw.algorithms.value() {
        settings.algorithms = listed.iter().filter_map(|name| algorithm(name, diagnostics)).collect();
        if listed.is_empty() {
            diagnostics.error(at, "`algorithms` is empty: every token is rejected").help("remove it for the default");
        }
    }
    settings.issuers = texts(&raw.issuer, diagnostics);
    settings.audiences = texts(&raw.audience, diagnostics);
    if settings.audiences.is_empty() {
        diagnostics
            .note(at, "without `audience`, tokens for other services are accepted")
            .help("`audience: my-api` requires `my-api` in the `aud` of tokens");
    }
    if let Some(leeway) = raw.leeway {
        settings.leeway = leeway.value.0;
        if settings.leeway > Duration::from_secs(300) {
            diagnostics.warn(leeway.span, "tokens are accepted for more than five minutes after they expire");
        }
    }
    let source = source(raw, diagnostics);
    let refresh = raw.refresh.get();
    let Some(jwks) = &raw.jwks else {
        diagnostics
            .error(at, "`jwt` needs `jwks`, the keys that tokens are verified with")
            .help("`jwks: \"https://id.example.com/jwks.json\"`, or a file's path");
        return None;
    };
    let keys = key_source(jwks, diagnostics)?;
    settings.source = source?;
    let key_set = match &keys {
        KeySource::File(path) => key_set(path, &settings, jwks.span, diagnostics)?,
        KeySource::Server(_) => KeySet::empty(),
    };
    let wanted = Arc::new(Notify::new());
    let hook = Arc::clone(&wanted);
    let verifier = Verifier::new(settings, key_set).on_unknown_key(move || hook.notify_one());
    Some(Jwt { keys, refresh, verifier: Arc::new(verifier), wanted })
}

fn algorithm(name: &Spanned<String>, diagnostics: &mut Diagnostics) -> Option<Algorithm> {
    let text = name.value.trim();
    let algorithm = ALGORITHMS.iter().find(|name| name.eq_ignore_ascii_case(text)).and_then(|name| name.parse().ok());
    if algorithm.is_none() {
        if text.eq_ignore_ascii_case("none") {
            diagnostics.error(name.span, "`none` is not a signature: such tokens can be forged").help("remove it");
        } else {
            diagnostics.error(name.span, format!("unknown algorithm `{text}`")).suggest(text, &ALGORITHMS);
        }
    }
    algorithm
}

/// Returns the texts that are not empty. Reports empty ones.
fn texts(texts: &Texts, diagnostics: &mut Diagnostics) -> Vec<String> {
    for empty in texts.items().iter().filter(|text| text.is_empty()) {
        diagnostics.error(empty.span, "expected a text, found ``");
    }
    texts.items().iter().map(|text| text.value.clone()).filter(|text| !text.is_empty()).collect()
}

fn source(raw: &RawJwt, diagnostics: &mut Diagnostics) -> Option<TokenSource> {
    match (&raw.header, &raw.cookie) {
        (Some(header), Some(cookie)) => {
            both_given(cookie.span, ("header", "cookie"), header.span, diagnostics);
            None
        }
        (Some(header), None) => {
            let name = header_name(&header.value, header.span, diagnostics)?;
            Some(if name == http::header::AUTHORIZATION { TokenSource::Bearer } else { TokenSource::Header(name) })
        }
        (None, Some(cookie)) => Some(TokenSource::Cookie(cookie.value.trim().to_owned())),
        (None, None) => Some(TokenSource::Bearer),
    }
}

fn key_source(jwks: &Spanned<String>, diagnostics: &mut Diagnostics) -> Option<KeySource> {
    let text = jwks.value.trim();
    if text.is_empty() {
        diagnostics.error(jwks.span, "`jwks` must be a file's path or a URL, found nothing");
        return None;
    }
    let Some((scheme, rest)) = text.split_once("://") else { return Some(KeySource::File(text.into())) };
    let uri: Option<Uri> = text.parse().ok();
    let host = uri.as_ref().and_then(Uri::host).unwrap_or_default().to_owned();
    if !["http", "https"].contains(&scheme) || host.is_empty() || rest.contains('@') {
        diagnostics
            .error(jwks.span, "`jwks` must be `https://host[:port]/path`, or a file's path")
            .help("`jwks: \"https://id.example.com/jwks.json\"`");
        return None;
    }
    let is_local = host == "localhost" || host.trim_matches(['[', ']']).parse().is_ok_and(is_loopback);
    if scheme == "http" && !is_local {
        diagnostics.warn(jwks.span, "over `http://` the keys can be replaced on the way").help("use `https://`");
    }
    uri.inspect(|uri| add_server(uri, jwks.span, diagnostics)).map(KeySource::Server)
}

fn is_loopback(address: std::net::IpAddr) -> bool {
    address.is_loopback()
}

/// Reads the keys of a file, which must be valid at start.
fn key_set(path: &Path, settings: &Settings, at: Span, diagnostics: &mut Diagnostics) -> Option<KeySet> {
    let name = path.display();
    let text = files::read(path, MAX_KEY_SET_BYTES, format_args!("the key set {name}"), at, diagnostics).ok()?;
    let keys = match KeySet::parse(&text) {
        Ok(keys) => keys,
        Err(error) => {
            diagnostics
                .error(at, format!("cannot use the key set {}: {}", path.display(), reasons(&error)))
                .help("it is a JWK set (RFC 7517): `{\"keys\": [{\"kty\": \"RSA\", \"kid\": …}]}`");
            return None;
        }
    };
    for reason in keys.unusable() {
        diagnostics.warn(at, format!("{reason}; it is ignored"));
    }
    if !keys.supports_any(&settings.algorithms) {
        diagnostics
            .error(at, "no key of the set supports one of `algorithms`")
            .help("add the algorithm of your tokens; HS256, HS384 and HS512 must be named explicitly");
        return None;
    }
    Some(keys)
}

/// Verification of tokens, and the source of keys.
#[derive(Clone, Debug)]
pub struct Jwt {
    /// Source of the key set.
    pub keys: KeySource,
    /// Interval at which it is read again.
    pub refresh: Duration,
    /// Verifier that the key resolvers of this configuration share. It has the keys of a file from the start, those of a
    /// server once they are fetched.
    pub verifier: Arc<Verifier>,
    /// Notified when a token names an unknown key.
    pub wanted: Arc<Notify>,
}

/// Source of a key set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// A file.
    File(PathBuf),
    /// A server, by an absolute `http` or `https` URI.
    Server(Uri),
}

// The query is omitted, since it may contain a secret.
impl fmt::Display for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Server(uri) => {
                let (scheme, authority) = (uri.scheme_str().unwrap_or_default(), uri.authority());
                write!(f, "{scheme}://{}{}", authority.map_or("", |authority| authority.as_str()), uri.path())
            }
        }
    }
}
