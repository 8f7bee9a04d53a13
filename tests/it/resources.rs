//! The machine-readable files, parsed as a client would parse them.

use serde_json::Value;

use crate::support::TestServer;

#[test]
fn every_resource_is_served_for_any_accept_header() {
    let server = TestServer::with_example_site();
    for (path, media_type) in [
        ("/llms.txt", "text/plain; charset=utf-8"),
        ("/llms-full.txt", "text/plain; charset=utf-8"),
        ("/agents.md", "text/markdown; charset=utf-8"),
        ("/openapi.json", "application/json"),
        ("/sitemap-index.xml", "application/xml"),
        ("/sitemap.xml", "application/xml"),
        ("/sitemap.md", "text/markdown; charset=utf-8"),
        ("/robots.txt", "text/plain; charset=utf-8"),
        ("/blog/rss.xml", "application/rss+xml"),
        ("/.well-known/security.txt", "text/plain; charset=utf-8"),
        ("/.well-known/agent-skills/index.json", "application/json"),
        ("/.well-known/agent-skills/website-guide/SKILL.md", "text/markdown; charset=utf-8"),
        (
            "/.well-known/api-catalog",
            "application/linkset+json; profile=\"https://www.rfc-editor.org/info/rfc9727\"",
        ),
    ] {
        for accept in ["*/*", "text/html;q=0", "image/png"] {
            let answer = server.get(path, &[("Accept", accept)]);
            assert_eq!((answer.status, answer.header("content-type")), (200, Some(media_type)), "{path}");
            assert!(!answer.body.is_empty());
        }
    }
}

/// Absolute links to this server in `text`, as paths.
fn own_links<'a>(server: &TestServer, text: &'a str) -> Vec<&'a str> {
    let base = format!("http://{}", server.address);
    text.split("](")
        .skip(1)
        .filter_map(|part| part.split_once(')'))
        .map(|(target, _)| target.strip_prefix(&base).unwrap_or_else(|| panic!("{target} is not absolute")))
        .collect()
}

#[test]
fn the_guides_link_to_existing_markdown() {
    let server = TestServer::with_example_site();
    for guide in ["/llms.txt", "/sitemap.md"] {
        let answer = server.get(guide, &[]);
        let text = answer.text();
        assert!(text.len() < 50_000 && text.starts_with("# "), "{guide}");
        let links = own_links(&server, text);
        assert!(links.len() > 15, "{links:?}");
        for link in links {
            let answer = server.get(link, &[]);
            assert_eq!(
                (answer.status, answer.header("content-type")),
                (200, Some("text/markdown; charset=utf-8")),
                "{link}"
            );
        }
    }
}

#[test]
fn agents_md_asks_agents_to_confirm_with_their_user() {
    let server = TestServer::with_example_site();
    for path in ["/agents.md", "/developers.md", "/contact.md", "/waitlist.md", "/llms.txt", "/openapi.json"]
    {
        let answer = server.get(path, &[]);
        let text = answer.text().to_lowercase();
        assert!(text.contains("explicit confirmation"), "{path}");
    }
}

#[test]
fn the_index_of_skills_has_the_digest_of_the_skill() {
    let server = TestServer::with_example_site();
    let index = server.get("/.well-known/agent-skills/index.json", &[]).json();
    let [skill] = &index["skills"].as_array().expect("skills")[..] else { panic!("{index}") };
    let answer = server.get(skill["url"].as_str().expect("a URL"), &[]);
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &answer.body);
    let digest: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(skill["digest"], format!("sha256:{digest}"));
    let (front_matter, guide) = answer.text().split_once("\n---\n\n").expect("front matter");
    let description = serde_json::to_string(&skill["description"]).expect("a description");
    assert_eq!(front_matter, format!("---\nname: website-guide\ndescription: {description}"));
    assert_eq!(guide, server.get("/agents.md", &[]).text());
}

#[test]
fn openapi_describes_the_two_forms_and_every_status() {
    let server = TestServer::with_example_site();
    let document = server.get("/openapi.json", &[]).json();
    assert_eq!(document["openapi"], "3.1.0");
    assert_eq!(document["info"]["version"], "1.0.0");
    assert_eq!(document["security"], Value::Array(Vec::new()));
    let paths = document["paths"].as_object().expect("paths");
    assert_eq!(paths.keys().collect::<Vec<_>>(), ["/api/waitlist", "/api/contact"]);
    for (path, id, schema) in [
        ("/api/waitlist", "joinWaitlist", "WaitlistRequest"),
        ("/api/contact", "sendContactMessage", "ContactRequest"),
    ] {
        let operation = &document["paths"][path]["post"];
        assert_eq!(operation["operationId"], id);
        assert_eq!(operation["security"], Value::Array(Vec::new()));
        let reference = &operation["requestBody"]["content"]["application/json"]["schema"]["$ref"];
        assert_eq!(*reference, format!("#/components/schemas/{schema}"));
        let statuses: Vec<&String> = operation["responses"].as_object().expect("responses").keys().collect();
        assert_eq!(statuses, ["200", "400", "405", "408", "413", "429", "500"]);
    }
    let contact = &document["components"]["schemas"]["ContactRequest"];
    assert_eq!(contact["required"], serde_json::json!(["name", "email", "message"]));
    assert_eq!(contact["properties"]["email"]["format"], "email");
    assert_eq!(contact["properties"]["name"]["minLength"], 1);
    assert_eq!(contact["properties"]["message"]["maxLength"], 20_000);
    // The endpoints accept the examples in the description.
    for path in ["/api/waitlist", "/api/contact"] {
        let example =
            &document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["example"];
        assert_eq!(server.post(path, example).status, 200, "{example}");
    }
    server.expect(2);
}

#[test]
fn the_sitemap_dates_every_page_and_the_index_names_it() {
    let server = TestServer::with_example_site();
    let index = server.get("/sitemap-index.xml", &[]);
    assert!(index.text().contains(&format!("<loc>http://{}/sitemap.xml</loc>", server.address)));
    let sitemap = server.get("/sitemap.xml", &[]);
    let (urls, dates) =
        (sitemap.text().matches("<url>").count(), sitemap.text().matches("<lastmod>20").count());
    assert!(urls > 15 && urls == dates, "{urls} pages, {dates} dates");
}

#[test]
fn robots_carry_the_operators_signals_and_the_sitemap() {
    let server = TestServer::with_example_site();
    let answer = server.get("/robots.txt", &[]);
    for expected in [
        "User-agent: *\nContent-Signal: search=yes, ai-input=yes, ai-train=yes\n\
         Content-Usage: search=y, ai-use=y, train-ai=y\n",
        "User-agent: GPTBot\n",
        "User-agent: Claude-User\n",
        &format!("Sitemap: http://{}/sitemap-index.xml\n", server.address),
    ] {
        assert!(answer.text().contains(expected), "{expected} is not in {}", answer.text());
    }
    for path in ["/", "/index.md"] {
        let page = server.get(path, &[]);
        assert_eq!(page.header("content-usage"), Some("search=y, ai-use=y, train-ai=y"), "{path}");
    }
    assert_eq!(server.get("/nowhere/", &[]).header("content-usage"), None);
}

#[test]
fn security_txt_has_what_its_standard_requires() {
    let server = TestServer::with_example_site();
    let answer = server.get("/.well-known/security.txt", &[]);
    for expected in
        ["Contact: mailto:security@example.com\n", "Expires: 20", "Policy: http", "Canonical: http"]
    {
        assert!(answer.text().contains(expected), "{expected} is not in {}", answer.text());
    }
}

#[test]
fn the_catalog_leads_to_the_description() {
    let server = TestServer::with_example_site();
    let catalog = server.get("/.well-known/api-catalog", &[]).json();
    let links = catalog["linkset"].as_array().expect("links");
    let described =
        links.iter().find_map(|link| link["service-desc"][0]["href"].as_str()).expect("a description");
    assert_eq!(described, format!("http://{}/openapi.json", server.address));
}
