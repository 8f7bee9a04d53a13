//! Planted faults of caching.

use std::collections::HashMap;
use std::sync::Mutex;

use frontdesk_audit::{Group, NotJudged, Report, Severity};

use crate::content;
use crate::site::{Answer, Asked, FakeSite, describe};

use Severity::{Advice, Broken};

/// Asserts that the audit reports this rule with this severity, and no other rule about caches.
#[track_caller]
fn assert_finds(site: &FakeSite, rule: &str, severity: Severity) -> Report {
    let report = site.audit();
    let of_caches = report.findings.iter().filter(|found| found.rule.group == Group::Caches);
    let found: Vec<_> = of_caches.map(|found| (found.rule.id, found.severity)).collect();
    let is_right = !found.is_empty() && found.iter().all(|found| *found == (rule, severity));
    assert!(is_right, "expected {rule} as {}: {}", severity.word(), describe(&report));
    report
}

/// Asserts that the audit reports no rule about caches.
#[track_caller]
fn assert_no_finding(design: &str, site: &FakeSite) {
    let report = site.audit();
    let is_clean = report.findings.iter().all(|found| found.rule.group != Group::Caches);
    assert!(is_clean, "{design}: {}", describe(&report));
}

fn is_markdown(answer: &Answer) -> bool {
    answer.header("content-type").starts_with("text/markdown")
}

fn is_page(asked: &Asked) -> bool {
    content::PAGES.iter().any(|(path, _)| *path == asked.path())
}

/// A response of a page to a request without condition.
fn is_whole_page(asked: &Asked, answer: &Answer) -> bool {
    asked.method == "GET"
        && answer.status == 200
        && is_page(asked)
        && asked.header("if-none-match").is_empty()
}

/// A site behind a cache. `key` is the key of a response, or `None` if the cache does not store it; hits have
/// the given fields.
fn behind_cache(
    key: impl Fn(&Asked, &Answer) -> Option<String> + Send + Sync + 'static,
    fields: &'static [(&'static str, &'static str)],
) -> FakeSite {
    let stored = Mutex::new(HashMap::<String, Answer>::new());
    FakeSite::with_late_fault(move |asked, answer| {
        // The key of any response of this address: the cache does not see what the origin would send.
        let lookup = format!("{} {}", asked.target, asked.header("accept-encoding"));
        let with_accept = format!("{lookup} {}", asked.header("accept"));
        let mut stored = stored.lock().expect("no panic");
        if is_whole_page(asked, &answer)
            && let Some(hit) = stored.get(&lookup).or_else(|| stored.get(&with_accept))
        {
            return fields.iter().fold(hit.clone(), |hit, (name, value)| hit.with(name, value));
        }
        if is_whole_page(asked, &answer)
            && let Some(key) = key(asked, &answer)
        {
            stored.insert(
                key.replace("URL", &lookup).replace("ACCEPT", &asked.header("accept")),
                answer.clone(),
            );
        }
        answer
    })
}

fn url_if(is_stored: bool) -> Option<String> {
    is_stored.then(|| "URL".to_owned())
}

#[test]
fn html_of_a_cache_for_agents_is_found() {
    let everywhere = behind_cache(|_, answer| url_if(!is_markdown(answer)), &[("x-cache", "HIT")]);
    let report = assert_finds(&everywhere, "cache-serves-html-to-agents", Broken);
    let message = &report.findings[0].message;
    assert!(message.contains("`X-Cache: HIT`") && message.contains("`Vary: Accept`"), "{message}");
    let popular =
        behind_cache(|asked, answer| url_if(!is_markdown(answer) && asked.target == "/"), &[("age", "7")]);
    assert_finds(&popular, "cache-serves-html-to-agents", Broken);

    let silent =
        behind_cache(|asked, answer| url_if(!is_markdown(answer) && asked.target.contains('?')), &[]);
    assert_finds(&silent, "cache-serves-html-to-agents", Broken);
    // Without a field of a cache, HTML at the page's address may have other reasons.
    let unsure =
        behind_cache(|asked, answer| url_if(!is_markdown(answer) && !asked.target.contains('?')), &[]);
    assert_finds(&unsure, "cache-serves-html-to-agents", Advice);
}

#[test]
fn markdown_of_a_cache_for_browsers_is_found() {
    let everywhere = behind_cache(|_, answer| url_if(is_markdown(answer)), &[("age", "7")]);
    assert_finds(&everywhere, "cache-serves-markdown-to-browsers", Broken);
    let fresh = behind_cache(|asked, answer| url_if(is_markdown(answer) && asked.target.contains('?')), &[]);
    assert_finds(&fresh, "cache-serves-markdown-to-browsers", Broken);
}

#[test]
fn a_cache_without_vary_by_default_is_advice() {
    let status = |value: &'static str| {
        FakeSite::with_fault(move |asked, answer| {
            if is_page(asked) {
                answer.with("cf-cache-status", value).with("cache-control", "max-age=60")
            } else {
                answer
            }
        })
    };
    assert_finds(&status("MISS"), "cache-ignores-vary", Advice);
    assert_no_finding("pages that Cloudflare does not store", &status("DYNAMIC"));
}

#[test]
fn responses_without_vary_are_found() {
    let pages = |lifetime: &'static str| {
        FakeSite::with_fault(move |_, answer| match answer.status {
            200 => answer.with("vary", "").with("cache-control", lifetime),
            _ => answer,
        })
    };
    let report = assert_finds(&pages("no-cache"), "vary-missing-page", Broken);
    assert_eq!(report.findings.len(), report.pages.len(), "one for each page: {}", describe(&report));
    assert_eq!(report.findings[0].evidence.len(), 2);
    assert_finds(&pages("private, max-age=60"), "vary-missing-page", Advice);
    assert_no_finding("pages that no cache stores", &pages("no-store"));

    let status = |status: u16, lifetime: &'static str| {
        FakeSite::with_late_fault(move |_, answer| {
            if answer.status == status {
                answer.with("vary", "").with("cache-control", lifetime)
            } else {
                answer
            }
        })
    };
    assert_finds(&status(404, ""), "vary-missing-not-found", Broken);
    let for_agents = FakeSite::with_late_fault(|_, answer| {
        if answer.status == 404 && is_markdown(&answer) { answer.with("vary", "Origin") } else { answer }
    });
    assert_finds(&for_agents, "vary-missing-not-found", Broken);
    assert_finds(&status(404, "private"), "vary-missing-not-found", Advice);
    assert_finds(&status(406, ""), "vary-missing-not-acceptable", Advice);
    assert_finds(&status(406, "max-age=60"), "vary-missing-not-acceptable", Broken);
    assert_finds(&status(304, ""), "vary-missing-not-modified", Advice);
    let head = FakeSite::with_late_fault(|asked, answer| match &*asked.method {
        "HEAD" => answer.with("vary", ""),
        _ => answer,
    });
    assert_finds(&head, "vary-missing-head", Advice);
}

#[test]
fn redirects_of_agents_without_vary_are_found() {
    let redirecting = |status: u16, vary: &'static str| {
        FakeSite::with_fault(move |asked, answer| match (is_page(asked), is_markdown(&answer)) {
            (true, true) => Answer::new(status, "", "")
                .with("location", &format!("{}index.md", asked.path()))
                .with("vary", vary),
            (true, false) => answer.with("vary", vary),
            _ => answer,
        })
    };
    assert_finds(&redirecting(301, ""), "vary-missing-redirect", Broken);
    let arrival = FakeSite::with_fault(|asked, answer| match asked.path() {
        "/" if is_markdown(&answer) => Answer::new(301, "", "").with("location", "/docs/index.md"),
        "/" => Answer::new(301, "", "").with("location", "/docs/").with("vary", "Accept"),
        _ => answer,
    });
    assert_finds(&arrival, "vary-missing-redirect", Broken);
    assert_no_finding("redirects that say that they depend on Accept", &redirecting(302, "Accept"));
}

#[test]
fn languages_without_vary_are_found() {
    let wants_german = |asked: &Asked| asked.header("accept-language").contains("de");
    let redirecting = |status: u16, fields: &'static [(&'static str, &'static str)]| {
        FakeSite::with_fault(move |asked, answer| match asked.path() {
            "/" => {
                // `v1` has two characters, but is no language.
                let target = if wants_german(asked) { "/v1/de/" } else { "/docs/" };
                let redirect = Answer::new(status, "", "").with("location", target);
                fields.iter().fold(redirect, |redirect, (name, value)| redirect.with(name, value))
            }
            _ => answer,
        })
    };
    assert_finds(&redirecting(301, &[]), "vary-missing-language", Broken);
    assert_finds(&redirecting(302, &[]), "vary-missing-language", Advice);
    let findings = redirecting(302, &[]).audit().findings;
    let own = findings.iter().filter(|own| own.rule.id == "vary-missing-language");
    assert_eq!(own.count(), 1, "one cause is one finding");
    for fields in [[("vary", "Accept-Language")], [("cache-control", "no-store")]] {
        assert_no_finding("redirects by language", &redirecting(301, fields.to_vec().leak()));
    }
    let translating = |vary: &'static str| {
        FakeSite::with_fault(move |asked, answer| {
            if !is_page(asked) || is_markdown(&answer) {
                return answer;
            }
            let link = "<link rel=alternate hreflang=de href=/de/>";
            let answer = answer.with("vary", vary).replaced("<title>", &format!("{link}<title>"));
            if wants_german(asked) { answer.replaced("lang=\"en\"", "lang=\"de\"") } else { answer }
        })
    };
    assert_finds(&translating("Accept, Accept-Encoding"), "vary-missing-language", Broken);
    assert_no_finding("pages in two languages", &translating("Accept, Accept-Encoding, Accept-Language"));
}

#[test]
fn encodings_that_caches_mix_up_are_found() {
    let without_vary = |lifetime: &'static str| {
        FakeSite::with_late_fault(move |asked, answer| {
            if is_page(asked) {
                answer.with("vary", "Accept").with("cache-control", lifetime)
            } else {
                answer
            }
        })
    };
    assert_finds(&without_vary("max-age=60"), "vary-missing-encoding", Broken);
    assert_finds(&without_vary("no-cache"), "vary-missing-encoding", Advice);
    // A cache compresses for each client what it has stored.
    let separating = FakeSite::with_late_fault(|asked, answer| {
        let is_stored = is_page(asked) && asked.header("accept-encoding") == "identity";
        let answer = if is_stored { answer.with("x-cache-status", "HIT") } else { answer };
        if is_page(asked) {
            answer.with("vary", "Accept").with("cache-control", "max-age=60")
        } else {
            answer
        }
    });
    assert_finds(&separating, "vary-missing-encoding", Advice);

    let always_gzip = FakeSite::serving(|asked| {
        let mut asked = asked.clone();
        asked.headers.retain(|(name, _)| name != "accept-encoding");
        asked.headers.push(("accept-encoding".to_owned(), "gzip".to_owned()));
        content::conclude(&asked, content::answer(&asked))
    });
    assert_finds(&always_gzip, "encoding-mixed", Broken);
    let undeclared = FakeSite::with_late_fault(|asked, answer| {
        if asked.target.contains('?') { answer.with("content-encoding", "") } else { answer }
    });
    assert_finds(&undeclared, "encoding-mixed", Broken);
}

#[test]
fn validators_that_do_not_tell_apart_are_found() {
    let fixed = |etag: &'static str| {
        FakeSite::with_late_fault(move |asked, answer| {
            if is_page(asked) && matches!(answer.status, 200 | 304) {
                answer.with("etag", etag)
            } else {
                answer
            }
        })
    };
    assert_finds(&fixed("W/\"1\""), "etag-shared-by-representations", Advice);
    let strong = FakeSite::with_late_fault(|asked, answer| {
        if is_page(asked) && answer.status == 200 {
            answer.with("etag", &format!("\"{}\"", asked.header("accept-encoding").len()))
        } else {
            answer
        }
    });
    assert_finds(&strong, "etag-shared-by-representations", Broken);

    let any_matches = FakeSite::with_fault(|asked, answer| {
        let condition = asked.header("if-none-match");
        if condition.is_empty() || !is_page(asked) {
            return answer;
        }
        Answer::new(304, "", "").with("vary", "Accept").with("etag", &condition)
    });
    assert_finds(&any_matches, "etag-wrong-not-modified", Broken);

    let same_for_codings = FakeSite::with_late_fault(|asked, answer| {
        let etag = answer.header("etag").replace("-gzip", "");
        if is_page(asked) { answer.with("etag", &etag) } else { answer }
    });
    assert_finds(&same_for_codings, "etag-shared-by-encodings", Advice);
    let unbalanced = FakeSite::with_late_fault(|asked, answer| {
        let etag = answer.header("etag").trim_end_matches('"').to_owned();
        if is_page(asked) { answer.with("etag", &etag) } else { answer }
    });
    assert_finds(&unbalanced, "etag-invalid", Advice);
    let silent = FakeSite::with_late_fault(|_, answer| match answer.status {
        304 => answer.with("etag", ""),
        _ => answer,
    });
    assert_finds(&silent, "etag-missing-in-not-modified", Advice);
}

#[test]
fn odd_lifetimes_are_found() {
    let pages = |name: &'static str, value: &'static str, lifetime: &'static str| {
        FakeSite::with_fault(move |asked, answer| {
            if is_page(asked) && !asked.target.contains('?') {
                answer.with("cache-control", lifetime).with(name, value)
            } else {
                answer
            }
        })
    };
    assert_finds(&pages("age", "900", "max-age=600"), "age-exceeds-lifetime", Advice);
    assert_no_finding(
        "stale pages on purpose",
        &pages("age", "900", "max-age=600, stale-while-revalidate=600"),
    );
    assert_no_finding("a platform that purges", &pages("age", "90000", "public, max-age=0, must-revalidate"));
    assert_finds(&pages("x", "y", "max-age=31536000, immutable"), "immutable-page", Advice);
    assert_finds(&pages("vary", "Accept, User-Agent", "no-cache"), "vary-user-agent", Advice);

    let markdown = FakeSite::with_fault(|asked, answer| {
        if is_page(asked) && is_markdown(&answer) {
            answer.with("cache-control", "max-age=86400")
        } else {
            answer
        }
    });
    assert_finds(&markdown, "markdown-cached-differently", Advice);
    let without_query = |name: &'static str, value: &'static str| {
        FakeSite::with_fault(
            move |asked, answer| if is_page(asked) { answer.with(name, value) } else { answer },
        )
    };
    assert_finds(&without_query("x-cache", "Hit from cloudfront"), "fresh-url-is-cached", Advice);
    assert_no_finding("a build on a platform", &without_query("cache-status", "\"Netlify Edge\"; hit"));
}

/// Sites that are right in another way than the site of the other tests.
#[test]
fn other_designs_of_caching_are_right() {
    let only_twins = FakeSite::serving(|asked| {
        let mut asked = asked.clone();
        let is_accept = |name: &str| name == "accept";
        asked.headers.retain(|(name, _)| !is_accept(name));
        let answer = content::answer(&asked).with("etag", "");
        content::conclude(&asked, if is_page(&asked) { answer.with("vary", "") } else { answer })
    });
    assert_no_finding("Markdown at other addresses only", &only_twins);
    let late = |change: fn(Answer) -> Answer| FakeSite::with_late_fault(move |_, answer| change(answer));
    assert_no_finding("Vary with a star", &late(|answer| answer.with("vary", "*")));
    assert_no_finding("private caching", &late(|answer| answer.with("cache-control", "private, max-age=60")));
    assert_no_finding("no validators", &late(|answer| answer.with("etag", "")));
    let weak = late(|answer| {
        let etag = answer.header("etag").to_owned();
        if etag.is_empty() { answer } else { answer.with("etag", &format!("W/{etag}")) }
    });
    assert_no_finding("weak validators", &weak);
    let not_a_coding = late(|answer| {
        if answer.header("content-encoding").is_empty() {
            answer.with("content-encoding", "utf-8")
        } else {
            answer
        }
    });
    assert_no_finding("a character encoding as the content coding", &not_a_coding);
    let without_queries = FakeSite::with_fault(|_, answer| answer.replaced("Allow: /\n", "Disallow: /*?\n"));
    assert_no_finding("queries that robots.txt forbids", &without_queries);
    let fallback = FakeSite::serving(|asked| {
        let mut asked = asked.clone();
        if asked.header("accept") == "application/pdf" {
            asked.headers.retain(|(name, _)| name != "accept");
        }
        content::conclude(&asked, content::answer(&asked))
    });
    assert_no_finding("HTML for clients that accept something else", &fallback);
    let cache =
        behind_cache(|_, _| Some("URL ACCEPT".to_owned()), &[("cf-cache-status", "HIT"), ("age", "3")]);
    assert_no_finding("a cache that respects Vary", &cache);
    let origin_without_query = FakeSite::serving(|asked| {
        let mut asked = asked.clone();
        if asked.target.contains('?') {
            asked.headers.retain(|(name, _)| name != "accept");
        }
        content::conclude(&asked, content::answer(&asked))
    });
    assert_no_finding("HTML at addresses with a query", &origin_without_query);
}

#[test]
fn markdown_that_was_stored_before_the_audit_is_found() {
    let site = FakeSite::with_late_fault(|asked, answer| {
        if asked.target == "/" && asked.method == "GET" {
            let agent = Asked { headers: vec![("accept".into(), "text/markdown".into())], ..asked.clone() };
            return content::conclude(&agent, content::answer(&agent)).with("x-cache", "HIT");
        }
        answer
    });
    assert_finds(&site, "cache-serves-markdown-to-browsers", Severity::Broken);
}

/// A cache whose key is the URL alone keeps what it may, as a proxy without `Vary` from the origin does.
fn behind_url_cache(origin: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> FakeSite {
    let stored = Mutex::new(HashMap::<String, Answer>::new());
    FakeSite::serving(move |asked| {
        // Proxies turn HEAD into GET.
        let asked = Asked { method: asked.method.replace("HEAD", "GET"), ..asked.clone() };
        let mut stored = stored.lock().expect("no panic");
        if let Some(hit) = stored.get(&asked.target).filter(|_| asked.method == "GET") {
            return hit.clone().with("x-cache-status", "HIT");
        }
        let answer = origin(&asked);
        if answer.header("cache-control").starts_with("public") {
            stored.insert(asked.target.clone(), answer.clone());
        }
        answer
    })
}

/// The audit must not put Markdown into a cache that browsers use.
#[test]
fn an_audit_leaves_no_markdown_for_browsers() {
    let site = behind_url_cache(|asked| {
        let answer = content::answer(asked);
        if is_page(asked) {
            let lifetime = if is_markdown(&answer) { "public, max-age=600" } else { "no-store" };
            answer.with("cache-control", lifetime).with("vary", "")
        } else {
            answer
        }
    });
    assert!(site.found_in("caches").contains(&("cache-serves-markdown-to-browsers", Broken)));
    let as_agent = |asked: &Asked| asked.header("accept").contains("text/markdown");
    let requests = site.requests();
    let harmful: Vec<_> = requests
        .iter()
        .filter(|asked| as_agent(asked) && !asked.target.contains("?frontdesk-audit="))
        .collect();
    assert!(harmful.is_empty(), "{harmful:?}");
    assert!(requests.iter().any(as_agent));
}

/// At the page's own address, only a cache with the representation of another client shows the defect.
#[test]
fn agents_ask_at_the_own_address_where_that_is_harmless() {
    let separate = |answer: Answer| {
        if is_markdown(&answer) {
            answer.with("cache-control", "private")
        } else {
            answer.with("cache-control", "public")
        }
        .with("vary", "")
    };
    let own = |site: &FakeSite| {
        site.audit();
        let requests = site.requests();
        requests
            .iter()
            .filter(|asked| asked.target == "/" && asked.header("accept") == "text/markdown, text/html, */*")
            .count()
    };
    assert_eq!(own(&FakeSite::correct()), 1, "both vary");
    assert_eq!(own(&FakeSite::with_fault(move |_, answer| separate(answer))), 1, "private Markdown");
    let stored = behind_cache(|_, _| Some("URL ACCEPT".to_owned()), &[("age", "3"), ("vary", "")]);
    assert_eq!(own(&stored), 1, "a cache with another key");
    let unknown = FakeSite::with_fault(|_, answer| answer.with("vary", "").with("cache-control", ""));
    assert_eq!(own(&unknown), 0, "no proof");
    let operator =
        FakeSite::with_fault(|_, answer| answer.with("vary", "").with("cdn-cache-control", "max-age=60"));
    assert_eq!(own(&operator), 0, "a lifetime for the operator's caches");
}

#[test]
fn refused_queries_are_not_judged() {
    for status in [301, 403, 404] {
        let site = FakeSite::with_fault(move |asked, answer| {
            if is_page(asked) && asked.target.contains('?') {
                Answer::new(status, "text/plain", "no queries").with("location", asked.path())
            } else {
                answer
            }
        });
        let report = site.audit();
        assert!(report.findings.is_empty(), "{status}: {}", describe(&report));
        let is_harmful = |asked: &&Asked| {
            let sent = asked.header("accept") + &asked.header("user-agent");
            !asked.target.contains('?') && (sent.contains("text/markdown") || sent.contains("ClaudeBot"))
        };
        assert_eq!(site.requests().iter().filter(is_harmful).count(), 0, "{status}");
        let rules: Vec<_> = report
            .not_judged
            .iter()
            .filter(|note| note.reason.contains(&status.to_string()))
            .filter_map(|note| Some(note.rule?.id))
            .collect();
        let expected = [
            "agent-gets-html",
            "cache-serves-html-to-agents",
            "cache-serves-markdown-to-browsers",
            "encoding-mixed",
            "fresh-url-is-cached",
            "user-agent-refused",
        ];
        for rule in expected {
            assert!(rules.contains(&rule), "{status} {rule}: {}", describe(&report));
        }
    }
}

/// Servers that do not know the type of Markdown call it bytes or plain text.
#[test]
fn markdown_with_a_vague_type_is_negotiated() {
    for kind in ["application/octet-stream", "text/plain; charset=utf-8", ""] {
        let vague = move |answer: Answer| {
            if is_markdown(&answer) { answer.with("content-type", kind) } else { answer }
        };
        let lacking = FakeSite::with_fault(move |asked, answer| {
            if is_page(asked) && answer.status == 200 { vague(answer.with("vary", "")) } else { answer }
        });
        assert_finds(&lacking, "vary-missing-page", Broken);
        let other = FakeSite::with_fault(move |asked, answer| {
            let answer = if asked.path() == "/about/index.md" {
                answer.replaced(
                    "The first paragraph of About us says what the page is about",
                    "Another site tells this",
                )
            } else {
                answer
            };
            vague(answer)
        });
        let found = other.found_in("parity");
        assert!(found.iter().any(|(rule, _)| *rule == "twin-differs"), "{kind}: {found:?}");
    }
    let stored = behind_url_cache(|asked| {
        let answer = content::answer(asked);
        if is_page(asked) && is_markdown(&answer) {
            answer
                .with("content-type", "application/octet-stream")
                .with("cache-control", "public, max-age=60")
        } else {
            answer
        }
    });
    let found = stored.found_in("caches");
    assert!(found.contains(&("cache-serves-markdown-to-browsers", Broken)), "{found:?}");
    let message = FakeSite::with_fault(|asked, answer| {
        if is_page(asked) && is_markdown(&answer) {
            Answer::new(200, "text/plain", "This page is not available.").with("cache-control", "no-store")
        } else {
            answer.with("vary", "")
        }
    });
    assert_no_finding("plain text that is no Markdown", &message);
}

#[test]
fn a_cache_that_hides_the_negotiation_is_told() {
    let site = FakeSite::serving(|asked| {
        let mut asked = asked.clone();
        if is_page(&asked) {
            asked.headers.retain(|(name, _)| name != "accept");
        }
        let answer = content::conclude(&asked, content::answer(&asked));
        if is_page(&asked) { answer.with("x-cache", "HIT").with("vary", "Accept-Encoding") } else { answer }
    });
    let report = assert_finds(&site, "fresh-url-is-cached", Advice);
    let is_told = |note: &NotJudged| note.reason.starts_with("a cache hides the negotiation");
    assert!(report.not_judged.iter().any(is_told), "{}", describe(&report));
    let as_agent = |asked: &Asked| asked.target == "/" && asked.header("accept").contains("text/markdown");
    assert!(!site.requests().iter().any(as_agent));
}
