//! Checks that the files and tests that documents name exist, and that each source file states its purpose.

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
