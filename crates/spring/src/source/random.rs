//! Spring's random values: `${random.int(10)}`.

/// Returns one of Spring's random values: `random.value`, `random.uuid`, `random.int` and `random.long`, the latter two with `(max)` or `[min,max]`,
/// `max` itself excluded.
pub fn value(name: &str) -> Option<String> {
    let kind = name.strip_prefix("random.")?;
    let (kind, range) = kind.split_at(kind.find(['(', '[']).unwrap_or(kind.len()));
    let bounds: Vec<i64> = range
        .trim_matches(['(', ')', '[', ']'])
        .split(',')
        .filter(|bound| !bound.is_empty())
        .map(|bound| bound.trim().parse().ok())
        .collect::<Option<_>>()?;
    let (least, most) = match (kind, bounds.as_slice()) {
        ("value", []) => return Some(format!("{:032x}", fastrand::u128(..))),
        ("uuid", []) => {
            // Version 4 (RFC 9562 §5.4): six bits say so.
            let bits = fastrand::u128(..) & !(0xF << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62;
            let hex = format!("{bits:032x}");
            return Some([&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-"));
        }
        ("int", []) => (i64::from(i32::MIN), i64::from(i32::MAX)),
        ("long", []) => (i64::MIN, i64::MAX),
        ("int" | "long", [max]) => (0, *max),
        ("int" | "long", [min, max]) => (*min, *max),
        _ => return None,
    };
    (least < most).then(|| fastrand::i64(least..most).to_string())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn random_values_have_their_type_and_range() {
        for _ in 0..100 {
            let within = |name: &str| value(name).unwrap().parse::<i64>().unwrap();
            assert!((0..7).contains(&within("random.int(7)")) && (3..5).contains(&within("random.long[3,5]")));
            assert!(i32::try_from(within("random.int")).is_ok());
        }
        let uuid = value("random.uuid").unwrap();
        assert!(uuid.len() == 36 && &uuid[14..15] == "4" && "89ab".contains(&uuid[19..20]), "{uuid}");
        assert_eq!(value("random.value").unwrap().len(), 32);
        for name in
            ["random.int(0)", "random.int[5,5]", "random.int(x)", "random.colour", "randomness", "random.uuid(3)"]
        {
            assert_eq!(value(name), None, "{name}");
        }
    }
}
