//! User name and password.

use tollgate_limiter::store::redis::Login;

use crate::de::spanned::Spanned;
use crate::diagnostics::Diagnostics;
use crate::sections::redis::RawRedis;
use crate::sections::redis::servers::FoundServers;

/// Credentials beside the URL.
pub(super) fn credentials(redis: &RawRedis, found: &FoundServers, diagnostics: &mut Diagnostics) -> Option<Login> {
    let (username, password) = (redis.username.as_ref(), redis.password.as_ref());
    let login = login(username, password, redis.password_file.as_ref(), diagnostics)?;
    let (named, with_password) = match found {
        FoundServers::Url(url) => (url.has_username, url.has_password),
        _ => (false, false),
    };
    let second = username.filter(|_| named && login.username.is_some()).map(|at| ("user name", at)).or_else(|| {
        let given = password.or(redis.password_file.as_ref());
        given.filter(|_| with_password && login.password.is_some()).map(|at| ("password", at))
    });
    if let Some((what, given)) = second {
        diagnostics.error(given.span.key(), format!("the {what} is already in `url`")).help("remove one of the two");
        return None;
    }
    if let Some(name) = username.filter(|_| login.username.is_some() && login.password.is_none() && !with_password) {
        diagnostics
            .warn(name.span.key(), "`username` without a password: Redis is used without authentication")
            .help("add `password` or `password-file`");
    }
    Some(login)
}

/// Returns the user name and the password, which may be in a file of its own. Empty texts count as absent:
/// `${REDIS_PASSWORD:}`.
pub(super) fn login(
    username: Option<&Spanned<String>>,
    password: Option<&Spanned<String>>,
    file: Option<&Spanned<String>>,
    diagnostics: &mut Diagnostics,
) -> Option<Login> {
    let given = |text: Option<&Spanned<String>>| text.map(|text| text.value.clone()).filter(|text| !text.is_empty());
    let password = match (given(password), file) {
        (Some(_), Some(file)) => {
            let other = password.map_or(file.span, |password| password.span);
            diagnostics
                .error(file.span.key(), "`password` and `password-file` are both given")
                .beside(", the other at", other.key())
                .help("remove one of them");
            return None;
        }
        (None, Some(file)) => Some(secret_file(file, "password file", diagnostics)?),
        (password, None) => password,
    };
    Some(Login { username: given(username), password })
}

/// Returns the content of a file without the final line break. `what` names the file in messages.
pub(crate) fn secret_file(file: &Spanned<String>, what: &str, diagnostics: &mut Diagnostics) -> Option<String> {
    let path = file.value.trim();
    match std::fs::read_to_string(path) {
        Ok(text) => {
            let secret = text.trim_end_matches(['\r', '\n']);
            if secret.is_empty() {
                diagnostics.error(file.span, format!("the {what} {path} is empty"));
                return None;
            }
            Some(secret.to_owned())
        }
        Err(error) => {
            diagnostics.error(file.span, format!("cannot read the {what} {path}: {error}")).help(
                "relative paths start at the working directory; the gateway's user must be able to read the file",
            );
            None
        }
    }
}
