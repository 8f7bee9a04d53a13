//! Entry points for the fuzz targets of parsers that are private. They panic if a result is wrong. Release
//! builds do not contain them.

#![expect(clippy::missing_panics_doc, reason = "each function panics if a result is wrong")]

use super::brand::check_font;
use super::image_size;
use super::rules::{RedirectRule, RuleList, RulesDialect, headers_for, parse_headers, parse_redirects};
use super::scale::{ScaleError, scale_down};

/// Reads a WOFF2 font as for `brand.font`.
pub fn read_font(bytes: &[u8]) {
    check_font(bytes);
}

/// Reads the size of an image, and scales the image as for its variants.
pub fn read_image(bytes: &[u8]) {
    let size = image_size::read_size(bytes);
    let is_scaled = bytes.starts_with(&[0xff, 0xd8]) || bytes.starts_with(b"\x89PNG");
    // Larger images take too long for a fuzzer.
    let Some(size) =
        size.filter(|size| is_scaled && size.width > 8 && size.width <= 512 && size.height <= 512)
    else {
        return;
    };
    let widths = [size.width - 1, size.width / 2, 1];
    match scale_down(bytes, &widths) {
        Ok(variants) => {
            for (width, variant) in widths.into_iter().zip(variants) {
                let scaled = image_size::read_size(&variant).expect("a variant has a size");
                assert_eq!(scaled, size.scaled_to(width), "the size of a variant");
            }
        }
        Err(ScaleError::Defect(panic)) => panic!("{panic}"),
        Err(_) => {}
    }
}

/// Reads `_redirects` and `_headers`, and applies the rules to the first line as the path and as the query.
pub fn read_rules(text: &str) {
    let path = text.lines().next().unwrap_or_default();
    for dialect in [RulesDialect::Netlify, RulesDialect::Cloudflare] {
        let rules = RuleList::new(parse_redirects(text, dialect, "_redirects", &mut Vec::new()));
        let applying = |rule: &&RedirectRule| rule.target(path, Some(path)).is_some();
        let all: Vec<&RedirectRule> = rules.all().iter().filter(applying).collect();
        let found: Vec<&RedirectRule> = rules.candidates(path).filter(applying).collect();
        assert_eq!(found, all, "the index finds the rules that apply to {path:?}");
        for rule in all {
            let target = rule.target(path, Some(path)).unwrap_or_default();
            assert!(!target.starts_with("//"), "a path leads to another host: {target}");
            rule.to_line();
        }
        headers_for(&RuleList::new(parse_headers(text, dialect, "_headers", &mut Vec::new())), path);
    }
}
