//! Reads tables whose keys the operator chooses: `[redirects]` and `[site.extra]`.

use serde_json::{Map, Value};

use super::reader::{FILE_NAME, Reader, requests};
use super::value_parsers::Raw;
use frontdesk_site::RedirectOption;
use frontdesk_site::fault::Fault;

/// Reads `[redirects]`. Records an error for each value that is not a redirect, and leaves it out. The paths
/// are checked when the site loads.
pub(super) fn read_redirects(r: &mut Reader<'_>) -> Vec<RedirectOption> {
    let example = "[redirects]\n\"/old/\" = \"/new/\"\n\"/archive/*\" = \"/blog/:splat\"\n\
                   \"/shop/\" = { to = \"https://shop.example.com/\", status = 302 }\n\"/offer-2019/\" = 410";
    let members = r.members(
        requests("redirects").with_example(example),
        "Redirects from paths that no page has, with and without a trailing slash. `*` at the end of a path stands for \
         all paths below it, `:splat` for the rest of the path. The status is 308 unless another one is given: 301, \
         302, 303 or 307. 410 instead of a target means that the page was removed for good (docs/pages/redirects.md).",
    );
    let read = |(from, raw, line): (String, Raw, Option<usize>)| {
        if let Some((to, status)) = parse_redirect(&raw) {
            return Some(RedirectOption { from, to, status, place: FILE_NAME.to_owned(), line });
        }
        let message = format!(
            "the redirect from `{from}` must be a target such as \"/new/\", {{ to = \"/new/\", status = 302 }} with \
             the status 301, 302, 303, 307 or 308, or the number 410"
        );
        r.report(Fault::error(FILE_NAME, line, message).about("redirects"));
        None
    };
    members.into_iter().filter_map(read).collect()
}

/// The target and the status, 308 by default. The target for the status 410 is empty. `None` if the value is
/// not a redirect.
fn parse_redirect(raw: &Raw) -> Option<(String, u16)> {
    let permanent = &Raw::Number(308);
    let (to, status) = match raw {
        Raw::Number(410) => return Some((String::new(), 410)),
        Raw::Text(_) => (raw, permanent),
        _ => match (raw.members(["to", "status"]), raw.members(["to"])) {
            (Some([to, status]), _) => (to, status),
            (None, Some([to])) => (to, permanent),
            (None, None) => return None,
        },
    };
    let Raw::Number(status @ (301 | 302 | 303 | 307 | 308)) = status else { return None };
    Some((to.as_text()?.to_owned(), u16::try_from(*status).ok()?))
}

/// Reads `[site.extra]`, whose values may have any type.
pub(super) fn read_extra(r: &mut Reader<'_>) -> Map<String, Value> {
    let example = "[site.extra]\nphone = \"+1 555 0100\"";
    let members = r.members(
        requests("site.extra").with_example(example),
        "Your own values, which templates read as `site.extra.phone` (docs/pages/theme.md).",
    );
    members.into_iter().map(|(name, raw, _)| (name, to_json(&raw))).collect()
}

/// Converts a value for templates. Dates become strings. Integers outside of signed 64 bits become
/// floating-point numbers, or strings if they are not decimal. Infinities and NaN become null.
fn to_json(raw: &Raw) -> Value {
    match raw {
        Raw::Text(text) => text.as_str().into(),
        Raw::Number(number) => (*number).into(),
        Raw::Flag(flag) => (*flag).into(),
        Raw::List(items) => items.iter().map(to_json).collect(),
        Raw::Table(members) => members.iter().map(|(name, raw)| (name.clone(), to_json(raw))).collect(),
        Raw::Other(text) => text.parse::<f64>().map_or_else(|_| text.as_str().into(), Value::from),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use crate::Config;

    #[test]
    fn redirects_have_a_target_and_a_status() {
        let text = "[redirects]\n\"/a.html\" = \"/a/\"\n\"/x\" = { to = \"https://x.example/\", status = 302 }\n\"/b\" = 410\n\
                    [redirects.\"/y/*\"]\nto = \"/z/:splat\"\n";
        let (config, faults) = Config::parse(text, Path::new(""), [], &[]);
        let errors: Vec<_> = faults.iter().filter(|fault| fault.line.is_some()).collect();
        assert!(errors.is_empty(), "{errors:?}");
        let mut found: Vec<_> =
            config.pages.redirects.iter().map(|it| (it.line, &*it.from, &*it.to, it.status)).collect();
        found.sort_unstable();
        let expected = [
            (Some(2), "/a.html", "/a/", 308),
            (Some(3), "/x", "https://x.example/", 302),
            (Some(4), "/b", "", 410),
            (Some(5), "/y/*", "/z/:splat", 308),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_wrong_redirect_is_an_error_with_its_line() {
        for (line, said) in [
            ("\"/a\" = 404", "the redirect from `/a` must be a target"),
            ("\"/a\" = { to = \"/b/\", status = 200 }", "the redirect from `/a` must be a target"),
            ("\"/a\" = { from = \"/b/\" }", "the redirect from `/a` must be a target"),
            ("\"/a\" = { to = \"/b/\", status = 410 }", "the redirect from `/a` must be a target"),
            ("\"/a\" = { to = 3 }", "the redirect from `/a` must be a target"),
        ] {
            let faults = Config::parse(&format!("[redirects]\n\n{line}\n"), Path::new(""), [], &[]).1;
            let said = format!("frontdesk.toml:3: {said}");
            assert!(faults.iter().any(|fault| fault.to_string().starts_with(&said)), "{faults:?}");
        }
        let faults = Config::parse("redirects = 3\n", Path::new(""), [], &[]).1;
        let said = "frontdesk.toml:1: `redirects` must be a table, `[redirects]`";
        assert!(faults.iter().any(|fault| fault.to_string() == said), "{faults:?}");
    }

    #[test]
    fn extra_values_keep_their_types() {
        let text =
            "[site.extra]\na = \"x\"\nb = 1.5\nc = { d = [true, 2] }\n[site.extra.e]\nf = 2026-01-02\n";
        let (config, faults) = Config::parse(text, Path::new(""), [], &[]);
        assert!(faults.iter().all(|fault| fault.line.is_none()), "{faults:?}");
        let expected = json!({ "a": "x", "b": 1.5, "c": { "d": [true, 2] }, "e": { "f": "2026-01-02" } });
        assert_eq!(serde_json::Value::from(config.pages.extra), expected);
    }
}
