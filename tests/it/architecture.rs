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
