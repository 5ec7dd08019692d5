//! Key resolvers as text, in the form that a configuration names them.

use std::fmt;

use super::extract::IpPrefixes;
use super::resolver::{KeyResolver, Kind};

/// Writes the name that [`KeyResolver::parse`] accepts; a list is joined by commas. Functions have no such name.
impl fmt::Display for KeyResolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Ip(IpPrefixes::DEFAULT) => f.write_str("ip"),
            Kind::Ip(prefixes) => write!(f, "ip/{}/{}", prefixes.v4, prefixes.v6),
            Kind::IpFrom(..) => f.write_str("ip-from-function"),
            Kind::Header(name) | Kind::Credentials(name) => write!(f, "header:{name}"),
            Kind::Query(name) => write!(f, "query:{name}"),
            Kind::Cookie(name) => write!(f, "cookie:{name}"),
            Kind::Path => f.write_str("path"),
            Kind::Variable(name) => write!(f, "path:{{{name}}}"),
            Kind::Host => f.write_str("host"),
            Kind::Method => f.write_str("method"),
            Kind::Route => f.write_str("route"),
            Kind::Principal => f.write_str("principal"),
            #[cfg(feature = "jwt")]
            Kind::Jwt(None, _) => f.write_str("jwt"),
            #[cfg(feature = "jwt")]
            Kind::Jwt(Some(claim), _) => write!(f, "jwt:{claim}"),
            Kind::Function(_) => f.write_str("function"),
            Kind::Composite(parts) => parts.iter().enumerate().try_for_each(|(at, part)| {
                f.write_str(if at == 0 { "" } else { "," })?;
                part.fmt(f)
            }),
            Kind::OrShared(resolver) | Kind::OrPreflight(resolver) => resolver.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_resolver_is_the_one_it_was_parsed_from() {
        let texts = [
            "ip",
            "ip/24/56",
            "header:x-key",
            "header:authorization",
            "query:q",
            "cookie:c",
            "path",
            "path:{id}",
            "host",
            "method",
            "route",
            "principal",
        ];
        for text in texts {
            assert_eq!(KeyResolver::parse(text).map(|resolver| resolver.to_string()), Ok(text.to_owned()));
        }
        let parts = vec![KeyResolver::ip(), KeyResolver::principal()];
        assert_eq!(KeyResolver::composite(parts).or_shared().to_string(), "ip,principal");
    }
}
