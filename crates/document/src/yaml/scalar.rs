//! Words and numbers of plain scalars.

use std::borrow::Cow;

/// Prefix of the tags of YAML's own types.
const CORE: &str = "tag:yaml.org,2002:";

/// Returns the text of a scalar as a configuration holds it: words and numbers of one value in one spelling, such as `true`
/// for `True` and `31` for `0x1F`, other texts unchanged. `None` is null. `tag` is the full name of its tag; a scalar that
/// `is_plain` has no quotes. The error describes a text that its tag excludes.
///
/// The words are those of YAML 1.1 that YAML 1.2 has, too: `yes`, `no`, `on` and `off` stay texts, which fields of flags
/// accept.
pub(super) fn resolve<'t>(
    text: Cow<'t, str>,
    tag: Option<&str>,
    is_plain: bool,
) -> Result<Option<Cow<'t, str>>, String> {
    let expected = |what: &str| format!("its tag expects {what}");
    match tag.and_then(|tag| tag.strip_prefix(CORE)) {
        Some("bool") => flag(&text).map(|flag| Some(flag.into())).ok_or_else(|| expected("a boolean")),
        Some("int") => integer(&text).map(|number| Some(number.into())).ok_or_else(|| expected("an integer")),
        Some("float") => float(&text).map(|number| Some(number.into())).ok_or_else(|| expected("a float")),
        Some("null") if is_null(&text) => Ok(None),
        Some("null") => Err(expected("null")),
        _ if tag.is_some() || !is_plain => Ok(Some(text)),
        _ if text.is_empty() || is_null(&text) => Ok(None),
        _ => Ok(Some(match text.as_bytes()[0] {
            b't' | b'T' | b'f' | b'F' => flag(&text).map_or(text, Cow::Borrowed),
            b'0'..=b'9' | b'+' | b'-' | b'.' => number(&text).map_or(text, Cow::Owned),
            _ => text,
        })),
    }
}

fn is_null(text: &str) -> bool {
    matches!(text, "null" | "Null" | "NULL" | "~")
}

fn flag(text: &str) -> Option<&'static str> {
    match text {
        "true" | "True" | "TRUE" => Some("true"),
        "false" | "False" | "FALSE" => Some("false"),
        _ => None,
    }
}

/// Returns a number in its usual spelling. Digits behind a leading zero are a text, such as `007`.
fn number(text: &str) -> Option<String> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let is_text = digits.len() > 1 && digits.starts_with('0') && digits.bytes().all(|digit| digit.is_ascii_digit());
    if is_text { None } else { integer(text).or_else(|| float(text)) }
}

fn integer(text: &str) -> Option<String> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let of_radix = |(prefix, radix)| Some((digits.strip_prefix(prefix)?, radix));
    let (digits, radix) = [("0x", 16), ("0o", 8), ("0b", 2)].into_iter().find_map(of_radix).unwrap_or((digits, 10));
    let has_zeros = radix == 10 && digits.len() > 1 && digits.starts_with('0');
    if has_zeros || digits.starts_with(['+', '-']) {
        return None;
    }
    let size = u128::from_str_radix(digits, radix).ok()?;
    match (sign, size) {
        (_, 0) => Some("0".to_owned()),
        ("-", size) => (size <= i128::MIN.unsigned_abs()).then(|| format!("-{size}")),
        (_, size) => Some(size.to_string()),
    }
}

/// Returns a decimal number, with the fraction of `1.0`, as Java writes it.
fn float(text: &str) -> Option<String> {
    let digits = text.strip_prefix('+').unwrap_or(text);
    match (text, digits) {
        (_, ".inf" | ".Inf" | ".INF") => return Some("inf".to_owned()),
        ("-.inf" | "-.Inf" | "-.INF", _) => return Some("-inf".to_owned()),
        (".nan" | ".NaN" | ".NAN", _) => return Some("NaN".to_owned()),
        _ if digits.len() < text.len() && digits.starts_with(['+', '-']) => return None,
        _ => {}
    }
    digits.parse::<f64>().ok().filter(|number| number.is_finite()).map(|number| format!("{number:?}"))
}
