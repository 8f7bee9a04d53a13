//! The packaged, documented and exported configurations of proxies overwrite or remove every request header
//! that frontdesk trusts from a proxy. The list of these headers comes from the code.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use frontdesk_http::trusted_proxies::{FORWARDED, TRUSTED_HEADERS, X_FORWARDED_FOR};

use crate::support::{frontdesk, small_site};

/// The values to which nginx may set a trusted header: empty, or variables that do not depend on the client.
const NGINX_VALUES: [&str; 5] = ["", "$remote_addr", "$scheme", "$request_id", "$frontdesk_hop"];

/// The values to which HAProxy may set a trusted header.
const HAPROXY_VALUES: [&str; 3] = ["%[src]", "https", "%[uuid()]"];

/// An nginx directive: its words, and the block between its braces.
#[derive(Debug)]
struct Directive {
    words: Vec<String>,
    block: Vec<Directive>,
}

/// Parses an nginx configuration up to the end of the text or block. Also returns the remaining text.
fn read_nginx(mut text: &str) -> (Vec<Directive>, &str) {
    let (mut directives, mut words) = (Vec::new(), Vec::new());
    loop {
        text = text.trim_start();
        let Some(first) = text.chars().next() else { return (directives, text) };
        match first {
            '#' => text = text.find('\n').map_or("", |end| &text[end..]),
            ';' => {
                directives.push(Directive { words: std::mem::take(&mut words), block: Vec::new() });
                text = &text[1..];
            }
            '{' => {
                let (block, rest) = read_nginx(&text[1..]);
                directives.push(Directive { words: std::mem::take(&mut words), block });
                text = rest;
            }
            '}' => return (directives, &text[1..]),
            '"' | '\'' => {
                let mut word = String::new();
                let mut characters = text[1..].char_indices();
                let end = loop {
                    match characters.next().expect("a quote is closed") {
                        (_, '\\') => word.extend(characters.next().map(|(_, escaped)| escaped)),
                        (at, c) if c == first => break at + 2,
                        (_, c) => word.push(c),
                    }
                };
                words.push(word);
                text = &text[end..];
            }
            _ => {
                let ends = |c: char| c.is_whitespace() || c == ';' || c == '{';
                let mut end = text.find(ends).unwrap_or(text.len());
                // `${name}` is a variable.
                while text[..end].ends_with('$') && text[end..].starts_with('{') {
                    end = text[end..].find('}').map_or(text.len(), |at| end + at + 1);
                    end += text[end..].find(ends).unwrap_or(text.len() - end);
                }
                words.push(text[..end].to_owned());
                text = &text[end..];
            }
        }
    }
}

/// The faults in the headers of each `proxy_pass` in `directives`, and the number of `proxy_pass` directives.
/// A block without `proxy_set_header` inherits those of the enclosing block; otherwise it inherits none.
fn examine_nginx(directives: &[Directive], around: &BTreeMap<String, String>) -> (Vec<String>, usize) {
    let own: BTreeMap<String, String> = directives
        .iter()
        .filter(|directive| directive.words[0] == "proxy_set_header")
        .map(|directive| (directive.words[1].to_ascii_lowercase(), directive.words[2].clone()))
        .collect();
    let headers = if own.is_empty() { around } else { &own };
    let (mut faults, mut count) = (Vec::new(), 0);
    for directive in directives {
        if directive.words[0] == "proxy_pass" {
            count += 1;
            for name in TRUSTED_HEADERS {
                match headers.get(name) {
                    Some(value) if NGINX_VALUES.contains(&value.as_str()) => {}
                    Some(value) => faults.push(format!("{name} is {value}")),
                    None => faults.push(format!("{name} is passed on")),
                }
            }
        }
        let (more, further) = examine_nginx(&directive.block, headers);
        faults.extend(more);
        count += further;
    }
    (faults, count)
}

/// Panics if a `proxy_pass` forwards a trusted header from the client. Returns the number of `proxy_pass`
/// directives.
fn check_nginx(of: &str, text: &str) -> usize {
    let (directives, rest) = read_nginx(text);
    assert_eq!(rest, "", "{of} is read to its end");
    let (faults, count) = examine_nginx(&directives, &BTreeMap::new());
    assert!(faults.is_empty(), "{of}: {faults:?}");
    count
}

/// The faults in the headers of each `frontend` in an HAProxy configuration, and the number of frontends.
fn examine_haproxy(text: &str) -> (Vec<String>, usize) {
    let mut sections: Vec<(&str, Vec<Vec<&str>>)> = Vec::new();
    for line in text.lines().filter(|line| !line.trim_start().starts_with('#') && !line.trim().is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match sections.last_mut() {
            Some((_, lines)) if line.starts_with(char::is_whitespace) => lines.push(words),
            _ => sections.push((words[0], Vec::new())),
        }
    }
    let (mut faults, mut count) = (Vec::new(), 0);
    for (kind, lines) in sections {
        let is_frontend = kind == "frontend";
        count += usize::from(is_frontend);
        for name in TRUSTED_HEADERS {
            let rules: Vec<&[&str]> = lines
                .iter()
                .map(Vec::as_slice)
                .filter(|words| words[0] == "http-request")
                .filter(|words| words.iter().any(|word| word.eq_ignore_ascii_case(name)))
                .collect();
            // A rule with a condition would have more words.
            let is_overwritten = match rules[..] {
                [[_, "del-header", _]] => true,
                [[_, "set-header", _, value]] => HAPROXY_VALUES.contains(value),
                _ => false,
            };
            if is_frontend && !is_overwritten || !is_frontend && !rules.is_empty() {
                faults.push(format!("{kind}, {name}: {rules:?}"));
            }
        }
    }
    (faults, count)
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The paths and contents of the files in `folder` that have this extension, sorted by name.
fn files(folder: &str, ending: &str) -> Vec<(String, String)> {
    let entries = std::fs::read_dir(root().join(folder)).expect("a folder");
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == ending));
    paths.sort();
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).expect("it can be read");
        (path.display().to_string(), text)
    };
    paths.into_iter().map(read).collect()
}

/// The code blocks in `language` in a Markdown document.
fn code_blocks(document: &str, language: &str) -> Vec<String> {
    let begin = format!("```{language}\n");
    let parts = document.split(&begin).skip(1);
    parts.map(|part| part.split("\n```").next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn every_published_configuration_overwrites_trusted_headers() {
    let packaged = files("packaging/nginx", "conf");
    let count: usize = packaged.iter().map(|(name, text)| check_nginx(name, text)).sum();
    assert!(count >= 3, "{count} in {packaged:?}");

    let packaged = files("packaging/haproxy", "cfg");
    for (name, text) in &packaged {
        let (faults, count) = examine_haproxy(text);
        assert!(faults.is_empty() && count > 0, "{name}, {count} frontends: {faults:?}");
    }
    assert!(!packaged.is_empty());

    let mut documented = 0;
    for (name, text) in files(".", "md").into_iter().chain(files("docs/pages", "md")) {
        for block in code_blocks(&text, "nginx") {
            documented += check_nginx(&name, &block);
        }
    }
    assert!(documented > 0, "docs/pages/proxies.md has one");
}

#[test]
fn an_exported_configuration_overwrites_trusted_headers() {
    for (header, value, other) in
        [(X_FORWARDED_FOR, "$remote_addr", FORWARDED), (FORWARDED, "$frontdesk_hop", X_FORWARDED_FOR)]
    {
        let folder = tempfile::tempdir().expect("a folder");
        let output = folder.path().join("out");
        let exported = frontdesk()
            .args(["export", "--site"])
            .arg(small_site())
            .arg("--output")
            .arg(&output)
            .env("FRONTDESK_BASE_URL", "https://www.example.com")
            .env("FRONTDESK_SERVER__FORWARDED_HEADER", header)
            .output()
            .expect("it runs");
        assert!(exported.status.success(), "{exported:?}");
        let read = |name: &str| std::fs::read_to_string(output.join(name)).expect("it can be read");
        let server = read("nginx/server.conf");
        assert_eq!(check_nginx("server.conf", &server), 2, "one for each form");
        let set = |name: &str, value: &str| format!("proxy_set_header {name} {value};").to_ascii_lowercase();
        let server = server.to_ascii_lowercase();
        assert_eq!(server.matches(&set(header, value)).count(), 2, "{header}");
        assert_eq!(server.matches(&set(other, "\"\"")).count(), 2, "{other}");
        // `$frontdesk_hop` must be derived from `$remote_addr` alone.
        let (http, _) = read_nginx(&read("nginx/http.conf"));
        let hop = http.iter().find(|directive| {
            directive.words[0] == "map" && directive.words.last().is_some_and(|name| name == "$frontdesk_hop")
        });
        let hop = hop.expect("a map");
        assert_eq!(hop.words[1], "$remote_addr");
        let values: Vec<&str> = hop.block.iter().map(|line| line.words[1].as_str()).collect();
        assert_eq!(values, ["for=$remote_addr", "for=\"[$remote_addr]\""]);
    }
}

#[test]
fn a_header_that_nginx_passes_on_is_noticed() {
    let fine = "proxy_set_header X-Forwarded-For $remote_addr; proxy_set_header X-Forwarded-Proto $scheme;\
                proxy_set_header Forwarded \"\"; proxy_set_header X-Request-ID $request_id;";
    let check = |text: &str, expected: &[&str]| {
        let (directives, _) = read_nginx(text);
        assert_eq!(examine_nginx(&directives, &BTreeMap::new()).0, expected, "{text}");
    };
    let location = "location / { proxy_pass http://a; }";
    check(&format!("server {{ {fine} {location} }}"), &[]);
    check(&format!("server {{ {location} }} {fine}"), &[]);
    check(
        &format!("server {{ {fine} location / {{ proxy_set_header Host $host; proxy_pass http://a; }} }}"),
        &TRUSTED_HEADERS.map(|name| format!("{name} is passed on")).each_ref().map(String::as_str),
    );
    for (from, to, fault) in [
        ("$request_id", "$http_x_request_id", "x-request-id is $http_x_request_id"),
        ("$remote_addr", "$proxy_add_x_forwarded_for", "x-forwarded-for is $proxy_add_x_forwarded_for"),
        (
            "proxy_set_header Forwarded \"\";",
            "# proxy_set_header Forwarded \"\";\n",
            "forwarded is passed on",
        ),
    ] {
        check(&format!("{} {location}", fine.replace(from, to)), &[fault]);
    }
}

#[test]
fn a_header_that_haproxy_passes_on_is_noticed() {
    let fine = "frontend a\n http-request set-header X-Forwarded-For %[src]\n http-request del-header Forwarded\n \
                http-request set-header X-Forwarded-Proto https\n http-request set-header X-Request-Id %[uuid()]\n";
    let is_fine = |text: &str| examine_haproxy(text).0.is_empty();
    assert!(is_fine(fine));
    for (from, to) in [
        ("set-header X-F", "add-header X-F"),
        ("%[uuid()]", "%[req.hdr(x-request-id)]"),
        ("https\n", "https if { ssl_fc }\n"),
        ("del-header Forwarded", "del-header X-Other"),
        (" http-request del", " # http-request del"),
    ] {
        assert!(fine.contains(from) && !is_fine(&fine.replace(from, to)), "{from}");
    }
    assert!(!is_fine(&format!("{fine}backend b\n http-request set-header Forwarded x\n")));
}

#[test]
fn trusted_headers_are_read_by_their_names_on_the_list() {
    let mut folders =
        ["crates/http/src", "crates/desk/src", "crates/app/src"].map(|folder| root().join(folder)).to_vec();
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
            if entry.path().is_dir() { folders.push(entry.path()) } else { files.push(entry.path()) }
        }
    }
    let mut seen = 0;
    for file in files {
        let name = file.display().to_string();
        if !name.ends_with(".rs") || name.ends_with("/tests.rs") {
            continue;
        }
        let text = std::fs::read_to_string(&file).expect("it can be read").to_ascii_lowercase();
        // Ignore `ForwardedHeader::Forwarded`: it ends like the HTTP library's `header::FORWARDED`.
        let text = text.replace("forwardedheader::forwarded", "");
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        if name.ends_with("/trusted_proxies.rs") {
            seen += TRUSTED_HEADERS.iter().filter(|name| code.contains(&format!("\"{name}\""))).count();
            continue;
        }
        // No other file may name one of these headers, or a similar one that is not on the list.
        for literal in
            ["\"forwarded\"", "\"x-forwarded-", "\"x-real-ip", "\"x-request-id", "header::forwarded"]
        {
            assert!(
                !code.contains(literal),
                "{name} has {literal}: put it into crates/http/src/trusted_proxies.rs"
            );
        }
    }
    assert_eq!(seen, TRUSTED_HEADERS.len());
}
