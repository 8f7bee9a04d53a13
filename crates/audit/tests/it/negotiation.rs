//! Planted faults of the group negotiation.

use frontdesk_audit::Severity::{self, Advice, Broken};
use frontdesk_audit::{Group, NotJudged};

use crate::content;
use crate::site::{Answer, Asked, FakeSite, describe};

/// A site that reads `Accept` in another way: `read` returns the value that it takes for the field.
fn reading(read: impl Fn(&str, &Asked) -> String + Send + Sync + 'static) -> FakeSite {
    FakeSite::serving(move |asked| {
        let accept = read(&asked.header("accept"), asked);
        let mut seen = asked.clone();
        seen.headers.retain(|(name, _)| name != "accept");
        seen.headers.push(("accept".to_owned(), accept));
        content::conclude(asked, content::answer(&seen))
    })
}

/// A site without Markdown that otherwise answers as the correct one.
fn html_only() -> FakeSite {
    FakeSite::serving(|asked| {
        let mut seen = asked.clone();
        seen.headers.retain(|(name, _)| name != "accept");
        let mut answer = content::answer(&seen);
        if asked.path().ends_with(".md") {
            answer = Answer::new(404, "text/html; charset=utf-8", "<!doctype html><title>x</title>");
        }
        let link = "<link rel=\"alternate\" type=\"text/markdown\"";
        let answer = match &*asked.path().to_owned() {
            "/llms.txt" => Answer::new(404, "text/plain", "none"),
            _ => answer.replaced(link, "<link rel=\"other\"").with("vary", ""),
        };
        content::conclude(asked, answer)
    })
}

fn found(site: &FakeSite) -> Vec<(&'static str, Severity)> {
    site.found_in("negotiation")
}

#[test]
fn an_agent_that_gets_html_is_found() {
    reading(
        |accept, _| if accept.contains("text/plain") { "text/html".to_owned() } else { accept.to_owned() },
    )
    .assert_finds("agent-gets-html", Broken);
    // Equal weights leave the choice to the server.
    let site = reading(|accept, _| accept.replace("text/markdown, text/html, */*", "text/html"));
    assert_eq!(found(&site), [("agent-gets-html", Advice)]);
}

/// At the page's own address, a cache may keep what an agent gets.
#[test]
fn a_site_that_forbids_queries_is_not_asked_as_an_agent() {
    let site = FakeSite::with_fault(|asked, answer| match asked.path() {
        "/robots.txt" => answer.replaced("Allow: /", "Allow: /\nDisallow: /*?"),
        _ => answer,
    });
    let report = site.audit();
    assert!(report.findings.is_empty(), "{}", describe(&report));
    let is_told = |note: &NotJudged| note.group == Group::Negotiation && note.reason.contains("robots.txt");
    assert!(report.not_judged.iter().any(is_told), "{}", describe(&report));
    let requests = site.requests();
    assert!(requests.iter().all(|asked| !asked.header("accept").contains("text/markdown")), "{requests:?}");
}

#[test]
fn a_wrong_response_from_a_cache_is_not_judged_as_that_of_the_site() {
    let site = FakeSite::with_fault(|asked, answer| {
        if !asked.header("accept").contains("text/plain") {
            return answer;
        }
        content::answer(&Asked { headers: vec![], ..asked.clone() }).with("x-cache", "HIT")
    });
    assert_eq!(found(&site), []);
    let report = site.audit();
    let note =
        report.not_judged.iter().find(|note| note.rule.is_some_and(|rule| rule.id == "agent-gets-html"));
    assert!(note.is_some_and(|note| note.reason.contains("X-Cache: HIT")), "{}", describe(&report));
}

#[test]
fn a_browser_that_gets_markdown_is_found() {
    let markdown = |accept: &str, part: &str| {
        if accept.contains(part) { "text/markdown".to_owned() } else { accept.to_owned() }
    };
    reading(move |accept, _| markdown(accept, "image/gif")).assert_finds("browser-gets-markdown", Broken);
    let codex = reading(|accept, _| accept.replace("text/html, */*", "text/markdown"));
    assert_eq!(found(&codex), [("browser-gets-markdown", Advice)]);
    let chrome = reading(move |accept, asked| match asked.path() {
        "/about/" => markdown(accept, "image/avif"),
        _ => accept.to_owned(),
    });
    assert_eq!(found(&chrome), [("browser-gets-markdown", Broken)]);
}

#[test]
fn a_client_without_preference_that_gets_markdown_is_found() {
    reading(|accept, _| if accept.is_empty() { "text/markdown" } else { accept }.to_owned())
        .assert_finds("any-gets-markdown", Broken);
    let site = reading(|accept, _| match accept {
        "" | "*/*" => "text/markdown".to_owned(),
        _ => accept.to_owned(),
    });
    let report = site.audit();
    let own: Vec<_> = report.findings.iter().filter(|own| own.rule.id == "any-gets-markdown").collect();
    assert!(own.len() == 1 && own[0].message.contains("*/*`, and no `Accept`"), "{}", describe(&report));
}

#[test]
fn an_accept_that_leads_to_an_error_is_found() {
    for part in ["*; q=.2", "video/*", "text/plain;q=0.9, */*"] {
        let site = FakeSite::with_fault(move |asked, answer| {
            if asked.header("accept").contains(part) {
                Answer::new(500, "text/plain", "cannot parse Accept")
            } else {
                answer
            }
        });
        site.assert_finds("accept-refused", Broken);
    }
}

#[test]
fn a_search_in_the_text_of_accept_is_found() {
    let site = reading(|accept, _| {
        if accept.contains("text/markdown") { "text/markdown".to_owned() } else { "text/html".to_owned() }
    });
    assert_eq!(
        found(&site),
        [
            ("q-values-ignored", Advice),
            ("q-zero-ignored", Advice),
            ("media-type-case", Advice),
            ("substring-negotiation", Advice)
        ]
    );
}

#[test]
fn the_first_type_of_the_list_is_not_the_preferred_one() {
    let site = reading(|accept, _| accept.split([',', ';']).next().unwrap_or_default().to_owned());
    let found = found(&site);
    assert!(found.contains(&("q-values-ignored", Advice)), "{found:?}");
    assert!(found.contains(&("q-zero-ignored", Advice)), "{found:?}");
}

#[test]
fn a_range_of_subtypes_that_is_not_read_is_found() {
    reading(|accept, _| accept.replace("text/*", "unknown/x"))
        .assert_finds("wildcard-subtype-ignored", Broken);
}

#[test]
fn lines_that_are_not_joined_are_found() {
    for is_first in [true, false] {
        let site = reading(move |_, asked| {
            let mut lines = asked.headers.iter().filter(|(name, _)| name == "accept").map(|(_, value)| value);
            let line = if is_first { lines.next() } else { lines.next_back() };
            line.cloned().unwrap_or_default()
        });
        site.assert_finds("accept-lines-ignored", Advice);
    }
}

#[test]
fn names_and_parameters_that_are_compared_literally_are_found() {
    reading(|accept, _| accept.replace("TEXT/M", "other/M")).assert_finds("media-type-case", Advice);
    reading(|accept, _| accept.replace(";variant=GFM", "x").replace("; charset=utf-8", "x"))
        .assert_finds("accept-parameters", Advice);
}

#[test]
fn a_longer_name_that_selects_markdown_is_found() {
    reading(|accept, _| accept.replace("text/markdownx", "text/markdown").replace("text/markdown;q=0,", ""))
        .assert_finds("substring-negotiation", Advice);
}

#[test]
fn a_body_that_is_not_its_content_type_is_found() {
    let site = FakeSite::with_fault(|asked, answer| {
        if asked.path().ends_with(".md") {
            Answer::new(200, "text/markdown; charset=utf-8", "<!doctype html><title>App</title>")
        } else {
            answer
        }
    });
    assert!(found(&site).contains(&("content-type-untrue", Broken)));
    let site = FakeSite::with_fault(|asked, answer| {
        if asked.path().ends_with(".md") {
            answer.with("content-type", "text/html; charset=utf-8")
        } else {
            answer
        }
    });
    assert!(found(&site).contains(&("content-type-untrue", Broken)));
}

#[test]
fn markdown_with_another_type_is_found() {
    for kind in ["text/plain; charset=utf-8", "application/octet-stream", "text/x-markdown", ""] {
        let site = FakeSite::with_fault(move |asked, answer| {
            if asked.path().ends_with(".md") { answer.with("content-type", kind) } else { answer }
        });
        assert_eq!(found(&site), [("markdown-content-type", Advice)], "{kind}");
        assert_eq!(site.found_in("links"), [], "{kind}: another finding on the same fact");
    }
    // Negotiated Markdown.
    let site = FakeSite::with_fault(|_, answer| {
        if answer.header("content-type").contains("markdown") {
            answer.with("content-type", "text/plain; charset=utf-8")
        } else {
            answer
        }
    });
    assert_eq!(found(&site), [("markdown-content-type", Advice)]);
    // Browsers store what has this type.
    let site = FakeSite::with_fault(|asked, answer| {
        let is_markdown = answer.status == 200 && answer.header("content-type").contains("markdown");
        if is_markdown && asked.path().ends_with('/') {
            answer.with("content-type", "application/octet-stream")
        } else {
            answer
        }
    });
    assert_eq!(found(&site), [("markdown-content-type", Broken)]);
}

#[test]
fn a_missing_or_wrong_charset_is_found() {
    let changed = |kind: &'static str, to: &'static [u8]| {
        FakeSite::with_fault(move |_, mut answer| {
            if answer.status == 200 && answer.header("content-type").contains("markdown") {
                let at = answer.body.windows(8).position(|part| part == b"sentence").expect("a sentence");
                answer.body.splice(at..at, to.iter().copied());
                return answer.with("content-type", kind);
            }
            answer
        })
    };
    for (kind, text, expected) in [
        ("text/markdown", "ä".as_bytes(), Some(("charset-missing", Advice))),
        ("text/markdown; charset=iso-8859-1", "ä".as_bytes(), Some(("charset-wrong", Broken))),
        ("text/markdown; charset=UTF-8", b"\xe4", Some(("charset-wrong", Broken))),
        ("text/markdown; charset=ISO-8859-1", b"\xe4", None),
        ("text/markdown; charset=\"utf-8\"", "ä".as_bytes(), None),
        ("text/markdown", b"x", None),
    ] {
        assert_eq!(found(&changed(kind, text)), expected.into_iter().collect::<Vec<_>>(), "{kind}");
    }
    let page = |kind: &'static str, declared: &'static str, text: &'static [u8]| {
        FakeSite::with_fault(move |asked, mut answer| {
            if asked.path() == "/about/" && answer.header("content-type").contains("html") {
                answer = answer.replaced("charset=\"utf-8\"", declared);
                let at = answer.body.windows(8).position(|part| part == b"sentence").expect("a sentence");
                answer.body.splice(at..at, text.iter().copied());
                return answer.with("content-type", kind);
            }
            answer
        })
    };
    for (kind, declared, text, is_wrong) in [
        ("text/html", "charset=iso-8859-1", "ä".as_bytes(), true),
        ("text/html", "charset=utf-8", b"\xe4", true),
        ("text/html", "charset=iso-8859-1", b"\xe4", false),
        ("text/html", "charset=shift_jis", "ä".as_bytes(), false),
        ("text/html; charset=utf-8", "charset=iso-8859-1", "ä".as_bytes(), false),
        ("application/xhtml+xml", "charset=iso-8859-1", "ä".as_bytes(), false),
    ] {
        let expected = if is_wrong { vec![("charset-wrong", Broken)] } else { vec![] };
        assert_eq!(found(&page(kind, declared, text)), expected, "{kind} {declared}");
    }
}

/// Changes what a page is for clients whose `User-Agent` contains `Bot/`.
fn for_bots(change: impl Fn(&Asked, Answer) -> Answer + Send + Sync + 'static) -> FakeSite {
    FakeSite::with_fault(move |asked, answer| {
        if asked.header("user-agent").contains("Bot/") { change(asked, answer) } else { answer }
    })
}

#[test]
fn a_format_chosen_by_user_agent_is_found() {
    let markdown = |asked: &Asked, answer: Answer| {
        let body = content::markdown_page(asked, "/", "Example company");
        Answer { body: body.into(), ..answer }.with("content-type", "text/markdown; charset=utf-8")
    };
    let site = for_bots(move |asked, answer| markdown(asked, answer).with("cache-control", "max-age=60"));
    assert_eq!(found(&site), [("user-agent-selects-format", Broken)]);
    let site = for_bots(move |asked, answer| markdown(asked, answer).with("vary", "Accept, User-Agent"));
    assert_eq!(found(&site), [("user-agent-selects-format", Advice)]);
    // Caches do not store it for a stated time.
    let site = FakeSite::with_fault(move |asked, answer| {
        let is_crawler = asked.header("user-agent").contains("compatible;");
        if is_crawler { markdown(asked, answer).with("cache-control", "") } else { answer }
    });
    let report = site.audit();
    let own: Vec<_> =
        report.findings.iter().filter(|own| own.rule.id == "user-agent-selects-format").collect();
    assert_eq!((own.len(), own[0].severity), (1, Advice), "{}", describe(&report));
    assert!(own[0].message.contains("ClaudeBot and ChatGPT-User get Markdown"), "{}", own[0].message);
}

#[test]
fn other_content_for_agents_is_found() {
    let prove =
        "<!doctype html><html lang=en><title>Check</title><main><h1>Check</h1><p>Prove that you are human.";
    let site = for_bots(move |_, answer| {
        Answer { body: prove.into(), ..answer }.with("cache-control", "public, max-age=60")
    });
    assert_eq!(found(&site), [("user-agent-changes-content", Broken)]);
    // More content than others get is no loss, such as that of a page rendered for robots.
    let site = for_bots(|_, answer| answer.replaced("<h2>", "<p>Also this.</p><h2>"));
    assert_eq!(found(&site), []);
}

#[test]
fn content_that_is_not_complete_is_not_compared() {
    let site = FakeSite::with_late_fault(|asked, answer| {
        if asked.header("user-agent").contains("Bot/") && answer.header("content-encoding") == "gzip" {
            let body = answer.body[..answer.body.len() / 4].to_vec();
            return Answer { body, ..answer };
        }
        answer
    });
    site.assert_finds("encoding-untrue", Broken);
}

#[test]
fn a_page_that_always_differs_is_not_judged() {
    let counter = std::sync::atomic::AtomicUsize::new(0);
    let site = FakeSite::with_fault(move |asked, answer| {
        let count = counter.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let text: String = (0..200).map(|word| format!("w{count}x{word} ")).collect();
        if asked.path() == "/" { answer.replaced("<h2>", &format!("<p>{text}</p><h2>")) } else { answer }
    });
    let report = site.audit();
    assert!(report.findings.iter().all(|finding| finding.rule.id != "user-agent-changes-content"));
    let notes = report.not_judged.iter().filter_map(|note| note.rule);
    assert!(notes.map(|rule| rule.id).any(|id| id == "user-agent-changes-content"), "{}", describe(&report));
}

#[test]
fn a_refused_agent_is_found_unless_robots_forbid_it() {
    for_bots(|_, _| Answer::new(403, "text/plain", "no")).assert_finds("user-agent-refused", Advice);
    // A challenge for another client does not end the audit.
    for_bots(|_, _| Answer::new(403, "text/plain", "no").with("cf-mitigated", "challenge"))
        .assert_finds("user-agent-refused", Advice);
    let site = FakeSite::with_fault(|asked, answer| match asked.path() {
        "/robots.txt" => answer.replaced(
            "User-agent: *",
            "User-agent: GPTBot\nUser-agent: ClaudeBot\nDisallow: /\n\nUser-agent: *",
        ),
        _ if asked.header("user-agent").contains("Bot/") => Answer::new(403, "text/plain", "no"),
        _ => answer,
    });
    assert_eq!(found(&site), []);
    assert!(site.requests().iter().all(|asked| !asked.header("user-agent").contains("Bot/")));
}

#[test]
fn other_designs_have_no_finding_of_negotiation() {
    let twins_only = FakeSite::with_fault(|asked, answer| {
        if content::PAGES.iter().any(|p| p.0 == asked.path()) {
            content::answer(&Asked { headers: vec![], ..asked.clone() }).with("vary", "")
        } else {
            answer
        }
    });
    let without_406 = FakeSite::with_fault(|asked, answer| match answer.status {
        406 => content::answer(&Asked { headers: vec![], ..asked.clone() }),
        _ => answer,
    });
    let with_star = FakeSite::with_fault(|_, answer| answer.with("vary", "*"));
    let by_redirect = FakeSite::with_fault(|asked, answer| {
        if answer.header("content-type").contains("markdown") && asked.path().ends_with('/') {
            Answer::new(307, "", "").with("location", &format!("{}index.md", asked.path()))
        } else {
            answer
        }
    });
    let without_queries = FakeSite::with_fault(|asked, answer| {
        if asked.target.contains('?') {
            Answer::new(301, "", "").with("location", asked.path())
        } else {
            answer
        }
    });
    let without_etag = FakeSite::with_late_fault(|_, answer| answer.with("etag", ""));
    let with_weak_etag = FakeSite::with_late_fault(|_, answer| {
        let etag = format!("W/{}", answer.header("etag"));
        answer.with("etag", &etag)
    });
    let private = FakeSite::with_fault(|_, answer| answer.with("cache-control", "private, no-cache"));
    for site in [
        html_only(),
        twins_only,
        without_406,
        with_star,
        by_redirect,
        without_queries,
        without_etag,
        with_weak_etag,
        private,
    ] {
        let report = site.audit();
        let mut groups = report.findings.iter().map(|finding| finding.rule.group.title());
        assert!(groups.all(|group| !matches!(group, "negotiation" | "basics")), "{}", describe(&report));
    }
}

#[test]
fn a_wrong_answer_to_an_unacceptable_request_is_found() {
    for (status, kind, severity) in [
        (404, "text/plain", Broken),
        (500, "text/plain", Broken),
        (400, "text/plain", Advice),
        (200, "text/markdown", Advice),
        (200, "", Broken),
        (406, "", Advice),
    ] {
        let body = if kind.is_empty() { "" } else { "# Text" };
        let site = FakeSite::with_fault(move |asked, answer| match &*asked.header("accept") {
            "application/pdf" => Answer::new(status, kind, body).with("vary", "Accept"),
            _ => answer,
        });
        assert_eq!(found(&site), [("not-acceptable", severity)], "{status} {kind}");
    }
}

#[test]
fn a_head_that_is_not_that_of_get_is_found() {
    let head = |change: fn(Answer) -> Answer| {
        FakeSite::with_late_fault(
            move |asked, answer| {
                if asked.method == "HEAD" { change(answer) } else { answer }
            },
        )
    };
    for (change, severity) in [
        (
            (|answer| Answer { status: 405, ..answer }.with("content-type", "text/plain")) as fn(_) -> _,
            Advice,
        ),
        (|answer: Answer| Answer { status: 404, ..answer }, Broken),
        (|answer: Answer| answer.with("content-type", "application/octet-stream"), Broken),
        (|answer: Answer| answer.with("content-length", "0").with("content-encoding", ""), Advice),
    ] {
        assert_eq!(found(&head(change)), [("head-differs", severity)]);
    }
    let plain = FakeSite::serving(|asked| {
        let headers = asked.headers.iter().filter(|(name, _)| name != "accept-encoding").cloned().collect();
        let asked = Asked { headers, ..asked.clone() };
        let answer = content::conclude(&asked, content::answer(&asked));
        if asked.method == "HEAD" { answer.with("content-length", "17") } else { answer }
    });
    assert_eq!(found(&plain), [("head-differs", Advice)]);
    for change in [
        |answer: Answer| answer.with("content-length", "17").with("etag", ""),
        |answer: Answer| answer.with("content-length", "17").with("content-encoding", ""),
        // The length of nothing, compressed.
        |answer: Answer| answer.with("content-length", "20"),
        |answer: Answer| answer.with("content-type", ""),
        |answer: Answer| Answer { status: 404, ..answer }.with("age", "7"),
    ] {
        assert_eq!(found(&head(change)), []);
    }
}

#[test]
fn a_head_is_compared_with_gets_of_its_own_address() {
    // The response of the home page alternates.
    let count = std::sync::atomic::AtomicUsize::new(0);
    let site = FakeSite::with_late_fault(move |asked, answer| {
        let is_page = asked.target == "/" && asked.header("accept").contains("image/avif");
        let is_first = is_page && count.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 0;
        if is_page && !is_first { answer.with("content-type", "application/xhtml+xml") } else { answer }
    });
    assert_eq!(found(&site), []);
    // A cache has Markdown at the address for browsers, and passes HEAD on.
    let poisoned = FakeSite::with_fault(|asked, answer| {
        if asked.target == "/" && asked.method == "GET" {
            let headers = vec![("accept".to_owned(), "text/markdown".to_owned())];
            return content::answer(&Asked { headers, ..asked.clone() });
        }
        answer
    });
    let found = found(&poisoned);
    assert!(found.iter().all(|(rule, _)| *rule != "head-differs"), "{found:?}");
}

#[test]
fn a_404_in_html_for_agents_is_found() {
    let site = FakeSite::with_fault(|asked, answer| {
        if answer.status != 404 {
            return answer;
        }
        content::answer(&Asked { headers: vec![], ..asked.clone() })
    });
    assert_eq!(found(&site), [("not-found-format", Advice)]);
}

/// A site that gives HTML to clients for which both types have the same weight.
fn html_for_ties(fault: impl Fn(&Asked, Answer) -> Answer + Send + Sync + 'static) -> FakeSite {
    FakeSite::serving(move |asked| {
        let mut seen = asked.clone();
        if asked.header("accept") == "text/markdown, text/html, */*" {
            seen.headers.retain(|(name, _)| name != "accept");
        }
        fault(asked, content::conclude(&seen, content::answer(&seen)))
    })
}

#[test]
fn markdown_only_for_clients_that_accept_nothing_else_is_judged() {
    let report = html_for_ties(|_, answer| answer).audit();
    let found: Vec<_> = report.findings.iter().map(|finding| (finding.rule.id, finding.severity)).collect();
    assert_eq!(found, [("agent-gets-html", Severity::Advice)], "{}", describe(&report));
    // Redirects are followed as the agent that gets Markdown.
    let redirects = |asked: &Asked, answer: Answer| match asked.path() {
        "/docs" => Answer::new(301, "", "").with("location", "/docs/").with("vary", "Accept"),
        _ => answer,
    };
    let report = html_for_ties(redirects).audit();
    let found: Vec<_> = report.findings.iter().map(|finding| finding.rule.id).collect();
    assert_eq!(found, ["agent-gets-html"], "{}", describe(&report));
    let without_vary = |asked: &Asked, answer: Answer| match asked.header("accept").as_str() {
        "text/markdown" if answer.status == 200 => answer.with("vary", ""),
        _ => answer,
    };
    let report = html_for_ties(without_vary).audit();
    assert!(
        report.findings.iter().any(|found| found.rule.id == "vary-missing-page"),
        "{}",
        describe(&report)
    );
}

#[test]
fn a_browser_that_gets_only_markdown_is_a_finding() {
    let site = FakeSite::serving(|_| Answer::new(200, "text/markdown; charset=utf-8", "# Title\n\nText.\n"));
    let report = site.audit();
    let found: Vec<_> = report.findings.iter().map(|finding| (finding.rule.id, finding.severity)).collect();
    assert_eq!(found, [("browser-gets-markdown", Severity::Broken)], "{}", describe(&report));
    assert_eq!(report.not_judged.len(), 1);
}
