//! Findings about TLS, times and sizes, which sites on loopback addresses do not show.

use std::time::Duration;

use super::{
    charset_undeclared, content_late, control_label_missing, duplicate_host, hsts_missing,
    http_not_redirected, http2_missing, https_missing, link_text_missing, mixed_content, no_compression,
    page_cut, page_size, slow_first_byte, title_missing,
};
use crate::exchange::MAX_BODY;
use crate::rule::Severity::{Advice, Broken};
use crate::rules::fixtures::{exchange, found, page, public, redirect, response, survey};
use crate::survey::basics::BasicsSurvey;

#[test]
fn a_public_site_without_tls_is_found() {
    for (url, basics, expected) in [
        ("http://example.com/", public(), vec![Advice]),
        ("https://example.com/", public(), vec![]),
        ("http://example.com/", BasicsSurvey::default(), vec![]),
    ] {
        assert_eq!(found(&https_missing::RULE, &survey(&page(url, &[], ""), basics)), expected, "{url}");
    }
}

#[test]
fn http_that_does_not_lead_to_the_page_is_found() {
    let asked = "http://example.com/a/";
    for (exchanges, expected) in [
        (vec![redirect(asked, "https://example.com/a/")], vec![]),
        (vec![redirect(asked, "/b"), redirect("http://example.com/b", "https://example.com/b")], vec![]),
        (vec![redirect(asked, "https://example.com/")], vec![Broken]),
        (vec![redirect("http://example.com/", "https://example.com/")], vec![]),
        (
            vec![redirect(asked, "http://example.com/b"), redirect("http://example.com/b", "/a/")],
            vec![Advice],
        ),
        (vec![page(asked, &[], "")], vec![Advice]),
        (vec![exchange(asked, response(404, &[], ""))], vec![Advice]),
        (vec![], vec![]),
    ] {
        let summary: Vec<_> = exchanges.iter().map(|exchange| exchange.summary()).collect();
        let survey = survey(
            &page("https://example.com/a/", &[], ""),
            BasicsSurvey { without_tls: exchanges, ..public() },
        );
        assert_eq!(found(&http_not_redirected::RULE, &survey), expected, "{summary:?}");
    }
}

#[test]
fn missing_strict_transport_security_is_found() {
    for (url, value, basics, expected) in [
        ("https://example.com/", "", public(), vec![Advice]),
        ("https://example.com/", "Max-Age = \"0\"", public(), vec![Advice]),
        ("https://example.com/", "max-age=31536000; includeSubDomains", public(), vec![]),
        ("https://example.com/", "", BasicsSurvey::default(), vec![]),
        ("http://example.com/", "", public(), vec![]),
    ] {
        let headers = [("strict-transport-security", value)];
        let survey = survey(&page(url, if value.is_empty() { &[] } else { &headers }, ""), basics);
        assert_eq!(found(&hsts_missing::RULE, &survey), expected, "{url} {value}");
    }
}

#[test]
fn a_server_without_http2_is_found() {
    for (protocol, expected) in [
        (Some(Ok("http/1.1".to_owned())), vec![Advice]),
        (Some(Ok("h2".to_owned())), vec![]),
        (Some(Err("the handshake failed".to_owned())), vec![]),
        (None, vec![]),
    ] {
        let basics = BasicsSurvey { protocol: protocol.clone(), ..public() };
        let survey = survey(&page("https://example.com/", &[], ""), basics);
        assert_eq!(found(&http2_missing::RULE, &survey), expected, "{protocol:?}");
    }
}

#[test]
fn scripts_and_styles_by_http_are_found_on_https_pages() {
    let policy = ("content-security-policy", "default-src 'self'; Upgrade-Insecure-Requests");
    for (url, headers, body, expected) in [
        ("https://example.com/", vec![], "<script src='http://example.com/a.js'></script>", vec![Broken]),
        ("https://example.com/", vec![], "<link rel=Stylesheet href=HTTP://example.com/a.css>", vec![Broken]),
        (
            "https://example.com/",
            vec![],
            "<base href='http://example.com/'><iframe src=a></iframe>",
            vec![Broken],
        ),
        ("https://example.com/", vec![policy], "<script src='http://example.com/a.js'></script>", vec![]),
        ("https://example.com/", vec![], "<script src='//example.com/a.js'></script>", vec![]),
        ("https://example.com/", vec![], "<link rel=canonical href=http://example.com/>", vec![]),
        ("http://example.com/", vec![], "<script src='http://example.com/a.js'></script>", vec![]),
    ] {
        let survey = survey(&page(url, &headers, body), public());
        assert_eq!(found(&mixed_content::RULE, &survey), expected, "{url} {body}");
    }
}

#[test]
fn what_a_page_does_not_load_is_no_mixed_content() {
    let url = "http://example.com/a";
    for (html, expected) in [
        (format!("<template><script src={url}></script></template>"), vec![]),
        (format!("<noscript><link rel=stylesheet href={url}></noscript>"), vec![]),
        (format!("<script type=text/template src={url}></script>"), vec![]),
        (format!("<script type=module src={url}></script>"), vec![Broken]),
        (format!("<link rel='alternate stylesheet' href={url}>"), vec![]),
        (format!("<link rel=stylesheet href={url} disabled>"), vec![]),
        ("<iframe src=http://app.localhost/></iframe>".to_owned(), vec![]),
        (format!("<object data={url}></object><embed src={url}>"), vec![Broken, Broken]),
        (format!("<video src=/a><object data={url}><embed src={url}></object></video>"), vec![]),
        (format!("<object data=/a><p><embed src={url}></p></object>"), vec![]),
        (format!("<object data={url}><embed src={url}></object>"), vec![Broken]),
        (format!("<object classid=x><embed src={url}></object>"), vec![Broken]),
        (format!("<style>@import\"{url}\";</style>"), vec![Broken]),
        (format!("<style>@import/**/url({url});</style>"), vec![Broken]),
        (format!("<style>/* x */ @import '{url}';</style>"), vec![Broken]),
        (format!("<style>/* @import '{url}'; */ p {{}} /* @import '{url}';</style>"), vec![]),
        (format!("<style>@IMPORT url( \"{url}\" ) print;</style>"), vec![Broken]),
        (format!("<style>@font-face {{ font-family: x; src: url({url}) }}</style>"), vec![Broken]),
        (format!("<style>@font-face {{ src: url(/a), url({url}) }}</style>"), vec![]),
        (format!("<style>@font-face {{ src: url(/a) }} p {{ background: url({url}) }}</style>"), vec![]),
        ("<style>@namespace svg url(http://www.w3.org/2000/svg);</style>".to_owned(), vec![]),
    ] {
        let survey = survey(&page("https://example.com/", &[], &html), public());
        assert_eq!(found(&mixed_content::RULE, &survey), expected, "{html}");
    }
}

#[test]
fn only_visible_controls_need_a_label() {
    for (html, expected) in [
        ("<input name=a>", vec![Advice]),
        ("<input name=a tabindex=-1>", vec![]),
        ("<li><input type=checkbox disabled checked> a", vec![]),
        ("<template><input name=a></template>", vec![]),
        ("<p><noscript><input name=a></noscript>", vec![]),
    ] {
        let survey = survey(&page("https://example.com/", &[], html), public());
        assert_eq!(found(&control_label_missing::RULE, &survey), expected, "{html}");
    }
}

#[test]
fn a_title_behind_an_image_of_the_head_counts() {
    let pixel = "<head><noscript><img src=/a></noscript>";
    for (html, expected) in [
        (format!("{pixel}<title>Clocks</title>"), vec![]),
        (format!("{pixel}<title> </title>"), vec![Advice]),
        (format!("{pixel}<svg><title>Icon</title></svg>"), vec![Advice]),
    ] {
        let survey = survey(&page("https://example.com/", &[], &html), public());
        assert_eq!(found(&title_missing::RULE, &survey), expected, "{html}");
    }
}

#[test]
fn links_need_text_unless_they_lead_to_themselves() {
    for (html, expected) in [
        ("<a href=/a></a>", vec![Advice]),
        ("<a href='#a'></a>", vec![Advice]),
        ("<pre><a id=a name=a href='#a'></a>x</pre>", vec![]),
        ("<a id=a href='#b'></a>", vec![Advice]),
    ] {
        let survey = survey(&page("https://example.com/", &[], html), public());
        assert_eq!(found(&link_text_missing::RULE, &survey), expected, "{html}");
    }
}

#[test]
fn two_hosts_without_a_canonical_address_are_found() {
    let canonical = |host: &str| format!("<link rel=canonical href='https://{host}/'>");
    let other = "https://www.example.com/";
    for (own, at_other, expected) in [
        (String::new(), page(other, &[], ""), vec![Advice]),
        (canonical("example.com"), page(other, &[], &canonical("www.example.com")), vec![Advice]),
        (canonical("example.com"), page(other, &[], &canonical("example.com")), vec![]),
        (String::new(), redirect(other, "https://example.com/"), vec![]),
        (String::new(), exchange(other, response(404, &[], "<!doctype html>")), vec![]),
    ] {
        let basics = BasicsSurvey { other_host: Some(at_other), ..public() };
        let survey = survey(&page("https://example.com/", &[], &own), basics);
        assert_eq!(found(&duplicate_host::RULE, &survey), expected, "{own}");
    }
}

#[test]
fn a_slow_median_is_found() {
    for (milliseconds, expected) in [
        (&[1_501, 1_600, 9_000, 10, 1_501][..], vec![Advice]),
        (&[1_500, 1_500, 9_000, 9_000, 10], vec![]),
        (&[9_000, 9_000, 9_000, 9_000], vec![]),
    ] {
        let mut survey = survey(&page("https://example.com/", &[], ""), public());
        survey.exchanges.extend(milliseconds.iter().map(|milliseconds| {
            let mut response = response(200, &[], "<!doctype html>");
            response.time_to_header = Duration::from_millis(*milliseconds);
            exchange("https://example.com/", response)
        }));
        assert_eq!(found(&slow_first_byte::RULE, &survey), expected, "{milliseconds:?}");
    }
}

#[test]
fn pages_without_an_early_encoding_are_found() {
    let space = " ".repeat(1_000);
    for (kind, body, expected) in [
        ("text/html", "<meta charset=utf-8>".to_owned(), vec![]),
        ("text/html", "<META CharSet = \"utf-8\">".to_owned(), vec![]),
        (
            "text/html",
            "<meta content='text/html; charset = utf-8' http-equiv='Content-Type'>".to_owned(),
            vec![],
        ),
        ("text/html; charset=utf-8", String::new(), vec![]),
        ("text/html", "\u{e4}".to_owned(), vec![Broken]),
        ("text/html", "a".to_owned(), vec![Advice]),
        ("text/html", "<meta http-equiv=content-type content=text/html>\u{e4}".to_owned(), vec![Broken]),
        ("text/html", "<!-- <meta charset=utf-8> -->\u{e4}".to_owned(), vec![Broken]),
        ("text/html", "<meta charset=klingon>\u{e4}".to_owned(), vec![Broken]),
        ("text/html", format!("{space}<meta charset = utf-8>\u{e4}"), vec![Advice]),
        ("application/xhtml+xml", "\u{e4}".to_owned(), vec![]),
    ] {
        let survey = survey(&page("https://example.com/", &[("content-type", kind)], &body), public());
        assert_eq!(found(&charset_undeclared::RULE, &survey), expected, "{kind} {body}");
    }
    let xml = "<?xml version='1.0' encoding='UTF-8'?><!DOCTYPE html><title>\u{e4}</title>";
    let page = exchange("https://example.com/", response(200, &[("content-type", "text/html")], xml));
    assert_eq!(found(&charset_undeclared::RULE, &survey(&page, public())), []);
}

#[test]
fn uncompressed_pages_are_found_unless_that_is_forbidden() {
    for (value, expected) in [
        ("no-cache", vec![Advice]),
        ("no-transform", vec![]),
        ("public, No-Transform", vec![]),
        ("ext=no-transform", vec![Advice]),
    ] {
        let page = page("https://example.com/", &[("cache-control", value)], &"x".repeat(2_000));
        assert_eq!(found(&no_compression::RULE, &survey(&page, public())), expected, "{value}");
    }
}

#[test]
fn large_and_cut_pages_are_found() {
    let (cut, large) = ((vec![], vec![Broken]), (vec![Advice], vec![]));
    let gzip = [("content-encoding", "gzip"), ("content-length", "9")];
    let short = [("content-encoding", "gzip"), ("content-length", "999")];
    for (headers, end, is_whole, expected) in [
        (&[][..], "x".repeat(MAX_BODY), false, large),
        (&[], String::new(), false, cut.clone()),
        (&[], String::new(), true, (vec![], vec![])),
        (&gzip, String::new(), false, cut.clone()),
        // The last chunk is missing.
        (&gzip, "</HTML>\n".to_owned(), false, cut.clone()),
        (&short, "</html>".to_owned(), false, cut),
    ] {
        let mut response = response(200, headers, &format!("<!doctype html>{end}"));
        response.is_whole = is_whole;
        let survey = survey(&exchange("https://example.com/", response), public());
        let found = (found(&page_size::RULE, &survey), found(&page_cut::RULE, &survey));
        assert_eq!(found, expected, "{headers:?} {} {is_whole}", end.len());
    }
    let mut response = response(200, &gzip, "<!doctype html>");
    response.has_bytes_after_gzip = true;
    let survey = survey(&exchange("https://example.com/", response), public());
    assert_eq!(found(&page_cut::RULE, &survey), [Advice]);
}

#[test]
fn content_behind_much_html_is_found() {
    for (before, mark, expected) in [
        (50_001, "<main>", vec![Advice]),
        (50_001, "<H1>", vec![Advice]),
        (49_000, "<main>", vec![]),
        (90_000, "<div>", vec![]),
    ] {
        let body = format!("<style>{}</style>{mark}x", "ä".repeat(before));
        let survey = survey(&page("https://example.com/", &[], &body), public());
        assert_eq!(found(&content_late::RULE, &survey), expected, "{before} {mark}");
    }
}
