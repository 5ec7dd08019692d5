//! Dashboard: a page of a few embedded files. It reads this API as any other client does; its files have no secrets.

use bytes::Bytes;
use http::header::{CONTENT_SECURITY_POLICY, HeaderName, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, StatusCode};

use crate::admin::reply::{Reply, problem, reply};

/// Scripts, styles, connections and images of this origin only; no inline code, no frames, no forms that leave the page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Field against pages that open this one and keep a handle of its window.
const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");

/// Embedded file: name, media type and content.
type File = (&'static str, &'static str, &'static str);

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// The page.
const PAGE: File = ("index.html", HTML, include_str!("index.html"));

/// Files that the page loads, below `/dashboard/`.
const FILES: [File; 12] = [
    ("style.css", "text/css; charset=utf-8", include_str!("style.css")),
    ("icon.svg", "image/svg+xml", include_str!("icon.svg")),
    ("app.js", SCRIPT, include_str!("app.js")),
    ("api.js", SCRIPT, include_str!("api.js")),
    ("api-keys.js", SCRIPT, include_str!("api-keys.js")),
    ("dom.js", SCRIPT, include_str!("dom.js")),
    ("overview.js", SCRIPT, include_str!("overview.js")),
    ("limited.js", SCRIPT, include_str!("limited.js")),
    ("key.js", SCRIPT, include_str!("key.js")),
    ("override.js", SCRIPT, include_str!("override.js")),
    ("explain.js", SCRIPT, include_str!("explain.js")),
    ("setup.js", SCRIPT, include_str!("setup.js")),
];

/// Returns the page.
pub(super) fn page() -> Reply {
    file(&PAGE)
}

/// Returns the file `name` of the page, or 404.
pub(super) fn asset(name: &str) -> Reply {
    match FILES.iter().find(|(file_name, ..)| *file_name == name) {
        Some(embedded) => file(embedded),
        None => problem(StatusCode::NOT_FOUND, "the dashboard has no such file"),
    }
}

fn file((_, media_type, content): &File) -> Reply {
    let mut response = reply(StatusCode::OK, media_type, Bytes::from_static(content.as_bytes()));
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (OPENER_POLICY, "same-origin"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Largest size of all files of the page together, in bytes.
    const MAX_BYTES: usize = 100 * 1024;

    #[test]
    fn the_page_is_small() {
        let bytes: usize = FILES.iter().chain([&PAGE]).map(|(.., content)| content.len()).sum();
        assert!(bytes <= MAX_BYTES, "{bytes} bytes");
    }

    #[test]
    fn the_page_loads_embedded_files_only_and_has_no_inline_code() {
        let (_, _, page) = PAGE;
        for (name, _, content) in FILES.iter().chain([&PAGE]) {
            for forbidden in [
                "https://",
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
                "style=",
                "onclick=",
            ] {
                assert!(!content.contains(forbidden), "{name}: {forbidden}");
            }
            let foreign = content.split("http://").skip(1).find(|rest| !rest.starts_with("www.w3.org/2000/svg"));
            assert_eq!(foreign, None, "{name}");
            for import in content.split(" from \"./").skip(1).filter_map(|rest| rest.split('"').next()) {
                assert_eq!(asset(import).status(), StatusCode::OK, "{name} imports {import}");
            }
        }
        for (name, _, content) in FILES.iter().chain([&PAGE]) {
            for absolute in ["href=\"/", "src=\"/", "url(/", "from \"/", "fetch(\"/"] {
                assert!(!content.contains(absolute), "{name} works below no prefix: {absolute}");
            }
        }
        for path in page.split("\"dashboard/").skip(1).filter_map(|rest| rest.split('"').next()) {
            assert_eq!(asset(path).status(), StatusCode::OK, "{path}");
        }
        assert_eq!(page.matches("<script").count(), page.matches("<script type=\"module\" src=").count());
        assert_eq!(asset("../mod.rs").status(), StatusCode::NOT_FOUND);
    }
}
