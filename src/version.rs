//! Version of the program and how it was built.

use std::sync::LazyLock;

/// Commit of the sources, as the environment variable `TOLLGATE_COMMIT` named it during the build; otherwise empty.
pub(crate) const COMMIT: &str = match option_env!("TOLLGATE_COMMIT") {
    Some(commit) => commit,
    None => "",
};

/// Optional features, with commas between them.
pub(crate) const FEATURES: &str = match (cfg!(feature = "jwt"), cfg!(feature = "redis-tls")) {
    (true, true) => "jwt,redis-tls",
    (true, false) => "jwt",
    (false, true) => "redis-tls",
    (false, false) => "",
};

/// Text of `--version`.
pub(crate) static TEXT: LazyLock<String> = LazyLock::new(|| {
    let commit = if COMMIT.is_empty() { "unknown" } else { COMMIT };
    let features = if FEATURES.is_empty() { "none" } else { FEATURES };
    format!("{} (commit {commit}, features {features})", env!("CARGO_PKG_VERSION"))
});
