//! The content security policies (CSP Level 3) of the pages and files that a site generator has built.

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use frontdesk_convert::Embedded;

/// Maximum number of hashes for one kind of code. With more hashes, the header would be too large for
/// proxies, so the policy permits all inline code of that kind instead.
const MAX_HASHES: usize = 96;

/// The directives that all files of a build share. Generators and their themes load fonts, scripts and images
/// from content delivery networks, so all secure origins are permitted. Scripts of diagrams, formulas and
/// widgets add styles to the page, so all inline styles are permitted: pages may load any style sheet anyway.
macro_rules! base {
    () => {
        "default-src 'self' https: data: blob:; connect-src 'self' https: wss: data: blob:; object-src 'self'; \
         base-uri 'self'; frame-ancestors 'self'; style-src 'self' https: 'unsafe-inline'; script-src 'self'"
    };
}

/// The policy of a file that runs no scripts of other sites, such as an image or a PDF, which pages of the
/// site may embed.
const FILE: &str = base!();

/// The policy of a file with a script, and the beginning of a page's policy. It applies to a worker that runs
/// the file, because a worker may do what pages may do.
const SCRIPT: &str = concat!(base!(), " https: blob: 'wasm-unsafe-eval'");

/// The policy of a file that is not HTML.
pub fn file_policy(media_type: &str) -> &'static str {
    if media_type.starts_with("text/javascript") { SCRIPT } else { FILE }
}

/// Builds a policy that permits the page's own inline code by hash, and all scripts in `data:` URLs if the
/// page loads one, because hashes do not apply to these. Permits all event handlers if there are more than
/// 96, and all scripts and `javascript:` URLs if there are more than 96 of either kind. If only their total
/// is more than 96, permits no `javascript:` URLs. If the page declares its own policy for scripts, returns
/// only the directive that `<meta>` cannot contain. The policy contains only printable ASCII.
pub fn content_security_policy(code: &Embedded) -> String {
    if code.has_policy {
        return "frame-ancestors 'self'".to_owned();
    }
    let mut policy = SCRIPT.to_owned();
    if code.has_data_scripts {
        policy.push_str(" data:");
    }
    let (scripts, links) = (code.scripts.len(), code.links.len());
    let drops_links = scripts.max(links) <= MAX_HASHES && scripts + links > MAX_HASHES;
    let links = code.links.iter().filter(|_| !drops_links);
    if !drops_links && !code.links.is_empty() {
        // Hashes apply to `javascript:` URLs only with this keyword. Browsers hash the whole URL.
        policy.push_str(" 'unsafe-hashes'");
    }
    add_hashes(&mut policy, code.scripts.iter().chain(links).collect());
    if !code.handlers.is_empty() {
        policy.push_str("; script-src-attr 'unsafe-hashes'");
        add_hashes(&mut policy, code.handlers.iter().collect());
    }
    policy
}

/// Appends the hashes of the code, or `'unsafe-inline'` if there are more than [`MAX_HASHES`].
fn add_hashes(policy: &mut String, code: Vec<&String>) {
    if code.len() > MAX_HASHES {
        policy.push_str(" 'unsafe-inline'");
        return;
    }
    for text in code {
        policy.push_str(" 'sha256-");
        STANDARD.encode_string(digest(&SHA256, text.as_bytes()), policy);
        policy.push('\'');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_pages_own_code_is_permitted() {
        let text = |text: &str| [text.to_owned()].into();
        let scripts = text("alert(1)");
        let code = Embedded { scripts, handlers: text("go()"), ..Embedded::default() };
        let policy = content_security_policy(&code);
        // printf 'alert(1)' | openssl dgst -sha256 -binary | base64
        assert!(
            policy.contains("'wasm-unsafe-eval' 'sha256-bhHHL3z2vDgxUt0W3dWQOrprscmda2Y5pLsLg4GF+pI=';"),
            "{policy}"
        );
        assert!(policy.contains("; script-src-attr 'unsafe-hashes' 'sha256-"), "{policy}");
        assert_eq!(content_security_policy(&Embedded::default()), SCRIPT);
        assert!(SCRIPT.ends_with("; script-src 'self' https: blob: 'wasm-unsafe-eval'"), "{SCRIPT}");
        assert!(FILE.ends_with("; script-src 'self'"), "{FILE}");
        let linked =
            content_security_policy(&Embedded { links: text("javascript:go()"), ..Embedded::default() });
        // printf 'javascript:go()' | openssl dgst -sha256 -binary | base64
        assert_eq!(
            linked,
            format!("{SCRIPT} 'unsafe-hashes' 'sha256-jDbRdnWRhziiD2lk72MDyCAg2B/6fVdy02GN3Xik1hA='")
        );
        let data = content_security_policy(&Embedded { has_data_scripts: true, ..Embedded::default() });
        assert_eq!(data, format!("{SCRIPT} data:"));
        let own = Embedded { has_policy: true, ..code };
        assert_eq!(content_security_policy(&own), "frame-ancestors 'self'");
    }

    #[test]
    fn scripts_keep_their_hashes_if_links_are_too_many() {
        let texts = |numbers: std::ops::Range<usize>| numbers.map(|number| number.to_string()).collect();
        for (scripts, links, hashes) in [(90, 6, 96), (90, 7, 90), (96, 1, 96), (0, 96, 96), (1, 97, 0)] {
            let code = Embedded {
                scripts: texts(0..scripts),
                links: texts(100..100 + links),
                ..Embedded::default()
            };
            let policy = content_security_policy(&code);
            assert_eq!(policy.matches("'sha256-").count(), hashes, "{scripts} {links}");
            assert_eq!(policy.ends_with("'unsafe-inline'"), hashes == 0, "{scripts} {links}");
        }
    }

    #[test]
    fn a_page_with_very_much_code_permits_all_of_it() {
        let scripts = (0..=MAX_HASHES).map(|number| number.to_string()).collect();
        let policy = content_security_policy(&Embedded { scripts, ..Embedded::default() });
        assert!(
            policy.ends_with("'wasm-unsafe-eval' 'unsafe-inline'") && !policy.contains("sha256"),
            "{policy}"
        );
    }
}
