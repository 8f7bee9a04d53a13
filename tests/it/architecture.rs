//! Checks that the files and tests that documents name exist, that documents name every resource and metric,
//! and that each source file states its purpose.

use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn the_files_that_the_documents_name_are_there() {
    let mut documents: Vec<PathBuf> = ["ARCHITECTURE.md", "README.md", "CONTRIBUTING.md", "SECURITY.md"]
        .map(|name| root().join(name))
        .into();
    let pages = std::fs::read_dir(root().join("docs/pages")).expect("it is there");
    documents.extend(pages.map(|entry| entry.expect("it can be read").path()));
    // In these pages, `theme/` is a folder in a site, not in this repository.
    documents.retain(|document| !document.ends_with("theme.md") && !document.ends_with("languages.md"));
    assert!(documents.len() > 20, "{documents:?}");
    for document in documents {
        let text = std::fs::read_to_string(&document).expect("it is there");
        for name in text.split('`').skip(1).step_by(2) {
            let is_ours = [
                "src/",
                "crates/",
                "tests/",
                "theme/",
                "site/",
                "starter/",
                "scripts/",
                "migrations/",
                "fuzz/",
                "bench/",
                "docs/",
                "packaging/",
            ]
            .iter()
            .any(|folder| name.starts_with(folder));
            if is_ours && !name.contains(['*', '{', ' ', '<']) {
                assert!(root().join(name).exists(), "{} names {name}", document.display());
            }
        }
    }
}

/// A document may name the end of a path only, such as a file beside another one.
#[test]
fn the_rust_files_that_developers_documents_name_are_there() {
    let mut files = Vec::new();
    for folder in ["src", "crates", "tests", "bench", "benches", "fuzz"] {
        sources(&root().join(folder), &mut files);
    }
    let mut documents: Vec<PathBuf> =
        ["ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md"].map(|name| root().join(name)).into();
    let crates = std::fs::read_dir(root().join("crates")).expect("it is there");
    documents.extend(crates.map(|entry| entry.expect("it can be read").path().join("README.md")));
    let mut count = 0;
    for document in documents {
        let text = std::fs::read_to_string(&document).expect("it is there");
        let code = text.split('`').skip(1).step_by(2);
        for name in code.filter(|code| code.ends_with(".rs") && !code.contains(['*', '{', ' '])) {
            count += 1;
            assert!(files.iter().any(|file| file.ends_with(name)), "{} names {name}", document.display());
        }
    }
    assert!(count > 300, "{count}");
}

#[test]
fn the_files_that_deny_toml_names_are_there() {
    let text = std::fs::read_to_string(root().join("deny.toml")).expect("it is there");
    let words = text.split_whitespace().map(|word| word.trim_matches([',', ';', '"', '`']));
    let named: Vec<&str> =
        words.filter(|word| word.starts_with("src/") || word.starts_with("crates/")).collect();
    assert!(named.len() >= 3, "{named:?}");
    for name in named {
        assert!(root().join(name).exists(), "deny.toml names {name}");
    }
}

#[test]
fn the_tests_that_the_threat_model_names_are_there() {
    let text = std::fs::read_to_string(root().join("docs/pages/security.md")).expect("it is there");
    let named: Vec<(&str, &str)> =
        text.split('`').skip(1).step_by(2).filter_map(|code| code.split_once(".rs: ")).collect();
    assert!(named.len() > 40, "{named:?}");
    for (file, name) in named {
        let folder = if file.starts_with("src/") || file.starts_with("crates/") { "" } else { "tests/it/" };
        let path = root().join(format!("{folder}{file}.rs"));
        let source =
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(source.contains(&format!("fn {name}(")), "{file}.rs has no test {name}");
    }
}

/// Every text between backticks in a page of the documentation.
fn code_in_page(name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(root().join("docs/pages").join(name)).expect("it is there");
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn the_documentation_names_every_generated_resource() {
    let code = code_in_page("agents.md");
    for path in frontdesk_site::resources::reserved_paths(frontdesk_forms::FormSet::built_in()) {
        // Files of the theme are not for agents.
        let is_named = path.starts_with("/_frontdesk/") || code.iter().any(|code| code == path);
        assert!(is_named, "docs/pages/agents.md does not name {path}");
    }
}

#[test]
fn the_documentation_names_every_metric() {
    let code = code_in_page("monitoring.md");
    let families = root().join("crates/app/src/metrics/families.txt");
    for family in std::fs::read_to_string(families).expect("it is there").lines() {
        let name = family.split(' ').next().unwrap_or_default();
        // The page names metrics of the process without their prefix, and others often with their labels.
        let short = name.strip_prefix("process_").unwrap_or(name);
        let is_named = code.iter().any(|code| code.split('{').next() == Some(short));
        assert!(is_named, "docs/pages/monitoring.md does not name {name}");
    }
}

#[test]
fn every_file_begins_with_its_purpose() {
    let mut files = Vec::new();
    sources(&root().join("src"), &mut files);
    sources(&root().join("crates"), &mut files);
    for file in files {
        let text = std::fs::read_to_string(&file).expect("it can be read");
        assert!(text.starts_with("//! "), "{} does not begin with a `//!` line", file.display());
    }
}

/// The files below `folder` that are part of the binary: all except tests and `README.md`.
fn embedded_files(folder: &Path, found: &mut Vec<PathBuf>) {
    const NOT_EMBEDDED: [&str; 3] = ["tests", "tests.rs", "README.md"];
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if NOT_EMBEDDED.iter().any(|name| path.ends_with(name)) {
            continue;
        }
        if path.is_dir() { embedded_files(&path, found) } else { found.push(path) }
    }
}

/// The lowercase text of a file without comments and tests in Rust, or nothing if it is not text.
fn embedded_text(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default().to_lowercase();
    if path.extension().is_none_or(|ending| ending != "rs") {
        return text;
    }
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    code.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// Whether `text` has `word` between characters that are no letters. Both are in lowercase.
fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let ends = [text[..at].chars().next_back(), text[at + word.len()..].chars().next()];
        ends.iter().all(|c| c.is_none_or(|c| !c.is_alphabetic()))
    })
}

#[test]
fn the_binary_has_no_words_of_the_example_company() {
    const WORDS: [&str; 14] = [
        "thornfold",
        "latch",
        "overlook",
        "paddock",
        "console.example.com",
        "coding agents",
        "microvm",
        "control plane",
        "tool calls",
        "platform access",
        "request access",
        "operator's team",
        "to request access for",
        "provision",
    ];
    let mut files = Vec::new();
    for folder in ["starter", "theme", "src", "crates"] {
        embedded_files(&root().join(folder), &mut files);
    }
    assert!(files.len() > 200, "{files:?}");
    let mut site = Vec::new();
    embedded_files(&root().join("site"), &mut site);
    let of_site: String = site.iter().map(|path| embedded_text(path)).collect();
    for word in WORDS {
        assert!(has_word(&of_site, word), "the example site does not say `{word}`");
    }
    // The phrases of the spam filter have the words of many trades and languages: a German *Provision* is a
    // commission.
    let phrases = root().join("crates/screening/lexicon");
    for path in files.iter().filter(|path| !path.starts_with(&phrases)) {
        let text = embedded_text(path);
        for word in WORDS {
            assert!(!has_word(&text, word), "{} says `{word}`", path.display());
        }
    }
}
