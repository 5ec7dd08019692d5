//! Path normal form: one spelling of each path, without anything that upstreams interpret differently.

use tollgate_routing::{PathRules, Separator, check_made, normalize, normalize_by};

pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let decode = PathRules { encoded_slash: Separator::Decode, backslash: Separator::Decode };
    for rules in [PathRules::default(), PathRules::STRICT, decode] {
        if let Ok(path) = normalize_by(text, rules) {
            is_normal(&path);
            assert!(path.len() <= text.len() + 1, "{text:?} grew to {path:?}");
        }
    }
    let keep = PathRules { encoded_slash: Separator::Keep, backslash: Separator::Keep };
    assert!(check_made(bytes).is_err() || normalize_by(text, keep).is_ok(), "{text:?}");
}

/// Panics if `path` is not in normal form.
pub fn is_normal(path: &str) {
    assert_eq!(normalize(path).as_deref(), Ok(path), "normalized twice");
    assert!(path.starts_with('/'), "{path:?}");
    assert!(!path.contains("//"), "{path:?} has an empty segment");
    assert!(path.bytes().all(|byte| byte.is_ascii_graphic()), "{path:?} has a control byte");
    for name in path.split('/').map(|segment| segment.split(';').next().unwrap_or_default()) {
        assert!(!matches!(name, "." | ".."), "{path:?} has a dot segment");
    }
    for forbidden in ['\\', '?', '#', ' ', '"', '<', '>', '`'] {
        assert!(!path.contains(forbidden), "{path:?} contains {forbidden}");
    }
    let mut rest = path;
    while let Some((_, escape)) = rest.split_once('%') {
        let digits = escape.get(..2).unwrap_or_default();
        assert!(digits.len() == 2 && !digits.bytes().any(|digit| digit.is_ascii_lowercase()), "{path:?}: {digits}");
        let byte = u8::from_str_radix(digits, 16).unwrap_or_else(|_| panic!("{path:?}: {digits}"));
        assert!(!byte.is_ascii_alphanumeric() && !b"-._~\\\0".contains(&byte), "{path:?} hides {byte}");
        rest = &escape[2..];
    }
}
