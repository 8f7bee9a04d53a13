//! Collects a page's inline scripts and event handlers, which its content security policy permits by hash.

use std::collections::BTreeSet;

use super::dom::{DOCUMENT, Dom, Tag};
use super::parse::parse;

/// The inline code of a page and of the documents in `srcdoc` attributes, without duplicates. Such a document
/// inherits the page's policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Embedded {
    /// The contents of inline `<script>` elements, except those that are only data.
    pub scripts: BTreeSet<String>,
    /// The values of event handlers such as `onclick`: of all attributes whose names begin with `on`.
    pub handlers: BTreeSet<String>,
    /// The `javascript:` URLs in addresses such as `href`, without whitespace around them, without tabs and
    /// line breaks, and with the scheme in lower case.
    pub links: BTreeSet<String>,
    /// Whether the page loads a script from a `data:` URL, as plugins that delay inline scripts do.
    pub has_data_scripts: bool,
    /// Whether a `<meta>` element of the page itself, as a child of `<head>`, declares a content security
    /// policy for scripts. Browsers ignore such an element elsewhere.
    pub has_policy: bool,
}

/// Attributes whose `javascript:` URLs browsers run.
const ADDRESSES: [&str; 6] = ["href", "xlink:href", "action", "formaction", "src", "data"];

/// Maximum nesting depth of documents in `srcdoc` attributes.
const MAX_DEPTH: usize = 3;

impl Embedded {
    /// Collects the code of an HTML file that is not converted.
    pub fn of_html(html: &str) -> Self {
        Self::read(&parse(html))
    }

    /// Collects the code of a page. Call this before anything is removed from the tree.
    pub(super) fn read(dom: &Dom) -> Self {
        Self::read_nested(dom, 0)
    }

    /// Collects the code of a document that is nested in `depth` other documents, and of the documents in the
    /// `srcdoc` of its frames, down to [`MAX_DEPTH`]. The policies of the documents in frames do not count.
    fn read_nested(dom: &Dom, depth: usize) -> Self {
        let mut found = Self::default();
        for id in dom.descendants(DOCUMENT) {
            match dom.tag(id) {
                Tag::Script
                    if !dom.has_attribute(id, "src") && is_subject_to_policy(dom.attribute(id, "type")) =>
                {
                    found.scripts.insert(dom.text_content(id));
                }
                Tag::Script => {
                    let source = dom.attribute(id, "src").unwrap_or_default().trim_start();
                    found.has_data_scripts |=
                        source.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("data:"));
                }
                Tag::Meta if dom.parent(id).is_some_and(|parent| dom.tag(parent) == Tag::Head) => {
                    let equiv = dom.attribute(id, "http-equiv").unwrap_or_default();
                    found.has_policy |= equiv.eq_ignore_ascii_case("content-security-policy")
                        && dom.attribute(id, "content").is_some_and(restricts_scripts);
                }
                Tag::Iframe if depth < MAX_DEPTH => {
                    if let Some(html) = dom.attribute(id, "srcdoc") {
                        let inner = Self::read_nested(&parse(html), depth + 1);
                        found.scripts.extend(inner.scripts);
                        found.handlers.extend(inner.handlers);
                        found.links.extend(inner.links);
                        found.has_data_scripts |= inner.has_data_scripts;
                    }
                }
                _ => {}
            }
            for attribute in dom.element(id).iter().flat_map(|element| &element.attributes) {
                let name = &*attribute.name.local;
                if name.len() > 2 && name.starts_with("on") {
                    found.handlers.insert(attribute.value.to_string());
                } else if ADDRESSES.contains(&name)
                    && attribute.value.trim_start().starts_with(['j', 'J'])
                    && let Some(code) = javascript_of_url(&attribute.value)
                {
                    found.links.insert(format!("javascript:{code}"));
                }
            }
        }
        found
    }
}

/// The code of a `javascript:` URL. Removes tabs and line breaks, as browsers do in URLs.
fn javascript_of_url(url: &str) -> Option<String> {
    let url = url.replace(['\t', '\r', '\n'], "");
    let (scheme, code) = url.trim().split_once(':')?;
    scheme.eq_ignore_ascii_case("javascript").then(|| code.to_owned())
}

/// Whether a content security policy has a directive for `<script>` elements.
fn restricts_scripts(policy: &str) -> bool {
    policy.split(';').any(|directive| {
        let name = directive.split_whitespace().next().unwrap_or_default().to_ascii_lowercase();
        matches!(&*name, "script-src" | "script-src-elem" | "default-src")
    })
}

/// Whether content security policies apply to inline scripts of this type: JavaScript, modules, import maps
/// and speculation rules (HTML §4.12.1). Scripts of other types are data. Accepts all types that end with
/// `javascript` or `ecmascript`.
fn is_subject_to_policy(kind: Option<&str>) -> bool {
    let kind = kind.unwrap_or_default().trim().to_ascii_lowercase();
    matches!(kind.as_str(), "" | "module" | "importmap" | "speculationrules")
        || kind.ends_with("javascript")
        || kind.ends_with("ecmascript")
        || kind.starts_with("text/javascript1.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inline_code_is_collected() {
        let found = Embedded::of_html(
            "<meta http-equiv=Content-Security-Policy content=script-src><script>a &lt;\r\nb</script><script type=module>c</script>\
             <script src=d></script><script type=application/json>e</script>\
             <p onclick='h()'>j<script>c</script><a href=' JavaScript:k(&quot;l&quot;) '>m</a><a href='javascript:\n go()'>o</a><a href=javascript.html>n</a>",
        );
        let texts = |set: &BTreeSet<String>| set.iter().cloned().collect::<Vec<_>>();
        assert_eq!(texts(&found.scripts), ["a &lt;\nb", "c"]);
        assert_eq!(texts(&found.handlers), ["h()"]);
        assert_eq!(texts(&found.links), ["javascript: go()", "javascript:k(\"l\")"]);
        assert!(found.has_policy);
        for html in ["<p style='i'>x<style>f</style>", "<img alt='JavaScript: The Good Parts'>"] {
            assert_eq!(Embedded::of_html(html), Embedded::default(), "{html}");
        }
    }

    #[test]
    fn only_policies_for_scripts_that_browsers_apply_count() {
        let policy = |content: &str| {
            format!("<meta http-equiv='content-security-policy' content=\"img-src *; {content}\">")
        };
        for (html, expected) in [
            (policy("script-src 'self'"), true),
            (
                format!(
                    "<html><head><title>a</title>{}</head><body>b</body></html>",
                    policy("Default-Src *")
                ),
                true,
            ),
            (policy("script-src-elem 'self'"), true),
            (policy("script-src-attr 'none'"), false),
            (policy("upgrade-insecure-requests"), false),
            (format!("<body>{}</body>", policy("script-src 'self'")), false),
            (format!("<head><template>{}</template></head>", policy("script-src 'self'")), false),
        ] {
            assert_eq!(Embedded::of_html(&html).has_policy, expected, "{html}");
        }
    }

    #[test]
    fn scripts_from_data_urls_are_noticed() {
        for (html, expected) in [
            ("<script src=' Data:text/javascript;base64,YQ==' defer></script>", true),
            ("<iframe srcdoc='&lt;script src=data:,a>&lt;/script>'></iframe>", true),
            ("<script src=/data:a></script><script>'data:'</script><img src='data:,a'>", false),
        ] {
            assert_eq!(Embedded::of_html(html).has_data_scripts, expected, "{html}");
        }
    }

    #[test]
    fn code_of_documents_in_srcdoc_is_collected() {
        let found = Embedded::of_html(
            "<iframe srcdoc='&lt;meta http-equiv=Content-Security-Policy content=x>&lt;script>a &amp;&amp; b&lt;/script>\
             &lt;p onclick=&quot;h()&quot;>&lt;iframe srcdoc=\"&lt;script>c&lt;/script>\">&lt;/iframe>'></iframe>\
             <iframe src=/x></iframe><p srcdoc='&lt;script>d&lt;/script>'>",
        );
        assert_eq!(found.scripts.iter().collect::<Vec<_>>(), ["a && b", "c"]);
        assert_eq!(found.handlers.iter().collect::<Vec<_>>(), ["h()"]);
        assert!(!found.has_policy);
    }
}
