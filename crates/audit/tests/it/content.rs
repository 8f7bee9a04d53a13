//! The responses of the site without faults.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::site::{Answer, Asked};

/// Paths and titles of the pages.
pub const PAGES: [(&str, &str); 4] = [
    ("/", "Example company"),
    ("/docs/", "Documentation"),
    ("/about/", "About us"),
    ("/docs/install/", "Installation"),
];

/// The right answer without compression, as for a GET without a condition.
pub fn answer(asked: &Asked) -> Answer {
    let path = asked.path();
    if let Some((path, title)) = PAGES.iter().find(|(own, _)| *own == path) {
        if !matches!(&*asked.method, "GET" | "HEAD") {
            return error(405, "The method is not allowed.").with("allow", "GET, HEAD");
        }
        let html = html_page(asked, path, title);
        return negotiated(asked, 200, html, markdown_page(asked, path, title));
    }
    if let Some((path, title)) = PAGES.iter().find(|(own, _)| format!("{own}index.md") == path) {
        let canonical = format!("<{}{path}>; rel=\"canonical\"", asked.origin);
        return Answer::new(200, "text/markdown; charset=utf-8", markdown_page(asked, path, title))
            .with("link", &canonical)
            .with("cache-control", "no-cache");
    }
    file(asked).unwrap_or_else(|| {
        let html = "<!doctype html><html lang=en><title>Not found</title><main><h1>Not found</h1>\
                    <p>There is no such page.</p></main></html>";
        negotiated(asked, 404, html.to_owned(), "# Not found\n\nThere is no such page.\n".to_owned())
    })
}

/// Adds a validator, answers a condition, compresses, and drops the body for HEAD and 304.
pub fn conclude(asked: &Asked, mut answer: Answer) -> Answer {
    if answer.status == 200 && answer.header("etag").is_empty() {
        let etag = format!("\"{:016x}\"", checksum(&answer.body));
        answer = answer.with("etag", &etag);
    }
    let is_text = answer.header("content-type").starts_with("text/")
        || answer.header("content-type").contains("json")
        || answer.header("content-type").contains("xml");
    if is_text && answer.body.len() > 200 && answer.header("content-encoding").is_empty() {
        let vary = [answer.header("vary"), "Accept-Encoding"].join(", ");
        answer = answer.with("vary", vary.trim_start_matches(", "));
        if asked.header("accept-encoding").split(',').any(|coding| coding.trim() == "gzip") {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(&answer.body).expect("memory");
            answer.body = encoder.finish().expect("memory");
            let etag = answer.header("etag").trim_end_matches('"').to_owned();
            answer = answer.with("content-encoding", "gzip");
            if !etag.is_empty() {
                answer = answer.with("etag", &format!("{etag}-gzip\""));
            }
        }
    }
    let condition = asked.header("if-none-match");
    if answer.status == 200 && !condition.is_empty() && condition == answer.header("etag") {
        answer.status = 304;
        answer.body.clear();
        answer.headers.retain(|(name, _)| !matches!(&**name, "content-type" | "content-encoding"));
    }
    answer
}

fn checksum(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The quality of a media type by the most specific range that matches it; without `Accept`, 1.
pub fn quality(accept: &str, kind: &str) -> f32 {
    if accept.trim().is_empty() {
        return 1.0;
    }
    let mut best = (-1, 0.0);
    for range in accept.split(',') {
        let mut parts = range.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default().to_ascii_lowercase();
        let weight = parts.find_map(|parameter| parameter.strip_prefix("q=")?.parse().ok()).unwrap_or(1.0);
        let precision = match &*name {
            "*/*" | "*" => 0,
            name if name.strip_suffix("/*").is_some_and(|major| kind.starts_with(&format!("{major}/"))) => 1,
            name if name == kind => 2,
            _ => continue,
        };
        if precision > best.0 {
            best = (precision, weight);
        }
    }
    best.1
}

/// HTML or Markdown by `Accept`; HTML wins between equals unless Markdown is named.
pub fn negotiated(asked: &Asked, status: u16, html: String, markdown: String) -> Answer {
    let accept = asked.header("accept");
    let (for_html, for_markdown) = (quality(&accept, "text/html"), quality(&accept, "text/markdown"));
    let names_markdown = accept.to_ascii_lowercase().contains("text/markdown");
    let answer = if for_html == 0.0 && for_markdown == 0.0 {
        let text = "This page is available as text/html and text/markdown.\n";
        Answer::new(if status == 200 { 406 } else { status }, "text/plain; charset=utf-8", text)
    } else if for_markdown > for_html || (for_markdown == for_html && names_markdown) {
        Answer::new(status, "text/markdown; charset=utf-8", markdown)
    } else {
        Answer::new(status, "text/html; charset=utf-8", html)
    };
    answer.with("vary", "Accept").with("cache-control", "no-cache")
}

pub fn html_page(asked: &Asked, path: &str, title: &str) -> String {
    let origin = &asked.origin;
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>{title}</title>\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <meta name=\"description\" content=\"{title} of a small company that tests audits.\">\n\
         <link rel=\"canonical\" href=\"{origin}{path}\">\n\
         <link rel=\"alternate\" type=\"text/markdown\" href=\"{path}index.md\">\n\
         <link rel=\"alternate\" type=\"application/atom+xml\" href=\"/feed.xml\" title=\"News\">\n\
         <link rel=\"help\" type=\"text/plain\" href=\"/llms.txt\">\n</head>\n<body>\n\
         <header><nav><a href=\"/\">Home</a> <a href=\"/docs/\">Documentation</a> <a href=\"/about/\">About</a></nav></header>\n\
         <main>\n<h1>{title}</h1>\n<p>The first paragraph of {title} says what the page is about, in a sentence.</p>\n\
         <h2>Details</h2>\n<p>A second paragraph has a link to the <a href=\"/docs/install/\">installation</a> and another sentence.</p>\n\
         <pre><code class=\"language-sh\">echo \"{title}\"\n</code></pre>\n\
         <p><img src=\"/image.png\" alt=\"A picture of the office\" width=\"10\" height=\"10\"></p>\n</main>\n\
         <footer><p>Example company</p></footer>\n</body>\n</html>\n"
    )
}

pub fn markdown_page(asked: &Asked, path: &str, title: &str) -> String {
    let origin = &asked.origin;
    format!(
        "---\ntitle: {title}\nurl: {origin}{path}\n---\n# {title}\n\n\
         The first paragraph of {title} says what the page is about, in a sentence.\n\n## Details\n\n\
         A second paragraph has a link to the [installation]({origin}/docs/install/) and another sentence.\n\n\
         ```sh\necho \"{title}\"\n```\n\n![A picture of the office]({origin}/image.png)\n"
    )
}

/// An error of the API.
pub fn error(status: u16, message: &str) -> Answer {
    Answer::new(status, "application/json", format!("{{\"error\":\"{message}\"}}"))
        .with("cache-control", "no-store")
}

/// The files that are no pages, and the API.
fn file(asked: &Asked) -> Option<Answer> {
    let origin = &asked.origin;
    let text =
        |kind: &str, body: String| Some(Answer::new(200, kind, body).with("cache-control", "no-cache"));
    let is_read = matches!(&*asked.method, "GET" | "HEAD");
    match asked.path() {
        "/robots.txt" => text(
            "text/plain; charset=utf-8",
            format!(
                "User-agent: *\nContent-Signal: search=yes, ai-input=yes\nAllow: /\n\nSitemap: {origin}/sitemap.xml\n"
            ),
        ),
        "/llms.txt" => text(
            "text/plain; charset=utf-8",
            format!(
                "# Example company\n\n> A small company that tests audits.\n\n## Pages\n\n{}",
                PAGES
                    .map(|(path, title)| {
                        format!("- [{title}]({origin}{path}index.md): {title} as Markdown\n")
                    })
                    .concat()
            ),
        ),
        "/sitemap.xml" => text(
            "application/xml",
            format!(
                "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\">\n{}</urlset>\n",
                PAGES
                    .map(|(path, _)| format!(
                        "<url><loc>{origin}{path}</loc><lastmod>2026-11-01</lastmod></url>\n"
                    ))
                    .concat()
            ),
        ),
        "/feed.xml" => text(
            "application/atom+xml",
            format!(
                "<?xml version=\"1.0\"?>\n<feed xmlns=\"http://www.w3.org/2005/Atom\"><title>News</title><id>{origin}/</id>\
                     <updated>2026-11-01T00:00:00Z</updated><entry><title>About us</title><id>{origin}/about/</id>\
                     <updated>2026-11-01T00:00:00Z</updated><link href=\"{origin}/about/\"/></entry></feed>\n"
            ),
        ),
        "/image.png" => {
            Some(Answer::new(200, "image/png", *b"\x89PNG\r\n\x1a\n").with("cache-control", "max-age=3600"))
        }
        "/.well-known/security.txt" => text(
            "text/plain; charset=utf-8",
            format!(
                "Contact: mailto:security@example.com\nExpires: 2126-01-01T00:00:00Z\nCanonical: {origin}/.well-known/security.txt\n"
            ),
        ),
        "/.well-known/api-catalog" => text(
            "application/linkset+json",
            format!(
                "{{\"linkset\":[{{\"anchor\":\"{origin}/api/contact\",\"service-desc\":[{{\"href\":\"{origin}/openapi.json\",\"type\":\"application/json\"}}]}}]}}"
            ),
        ),
        "/.well-known/agent-skills/index.json" => text("application/json", skills_index()),
        "/.well-known/agent-skills/guide/SKILL.md" => text("text/markdown; charset=utf-8", SKILL.to_owned()),
        "/openapi.json" => text("application/json", openapi(origin)),
        "/api/contact" if is_read => Some(error(405, "Use POST.").with("allow", "POST")),
        "/api/contact" if asked.method == "OPTIONS" => {
            Some(Answer::new(204, "", "").with("allow", "POST, OPTIONS"))
        }
        "/api/contact" if asked.method == "POST" => Some(contact(asked)),
        "/api/contact" => Some(error(405, "Use POST.").with("allow", "POST")),
        _ => None,
    }
}

pub const SKILL: &str = "---\nname: guide\ndescription: Read the site.\n---\n\nRead /llms.txt first.\n";

fn skills_index() -> String {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, SKILL.as_bytes());
    let digest: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    serde_json::json!({
        "$schema": "https://schemas.agentskills.io/discovery/0.2.0/schema.json",
        "skills": [{"name": "guide", "type": "skill-md", "description": "Read the site.",
            "url": "/.well-known/agent-skills/guide/SKILL.md", "digest": format!("sha256:{digest}")}],
    })
    .to_string()
}

fn contact(asked: &Asked) -> Answer {
    if asked.header("content-type").split(';').next() != Some("application/json") {
        return error(415, "Send application/json.");
    }
    let value: serde_json::Value = serde_json::from_str(&asked.body).unwrap_or_default();
    match (value["email"].as_str(), value["message"].as_str()) {
        (Some(email), Some(_)) if email.contains('@') => {
            Answer::new(200, "application/json", "{\"ok\":true}").with("cache-control", "no-store")
        }
        _ => error(400, "`email` and `message` are required."),
    }
}

fn openapi(origin: &str) -> String {
    let error = serde_json::json!({"description": "An error", "content": {"application/json": {"schema": {
        "type": "object", "required": ["error"], "properties": {"error": {"type": "string"}}}}}});
    serde_json::json!({
        "openapi": "3.1.0",
        "info": {"title": "Example company", "version": "1"},
        "servers": [{"url": origin}],
        "paths": {"/api/contact": {"post": {
            "operationId": "contact",
            "requestBody": {"required": true, "content": {"application/json": {"schema": {
                "type": "object", "required": ["email", "message"],
                "properties": {"email": {"type": "string", "format": "email"}, "message": {"type": "string"}}}}}},
            "responses": {"200": {"description": "Stored"}, "400": error, "415": error},
        }}},
    }).to_string()
}
