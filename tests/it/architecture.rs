//! Checks ARCHITECTURE.md: its table of dependencies matches the code, and the files that it names exist.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The `| module | may use |` rows of ARCHITECTURE.md.
fn table() -> BTreeMap<String, Vec<String>> {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("it is there");
    let rows = text
        .lines()
        .skip_while(|line| !line.starts_with("| module "))
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    let words = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
    let mut table = BTreeMap::new();
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split('|').collect();
        assert_eq!(cells.len(), 2, "{row}");
        for module in words(cells[0]) {
            table.insert(module, words(cells[1]));
        }
    }
    table
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

/// The first path segments after `crate::`: one, or one for each member of a group `{a::b, c::{d, e}}`.
fn members(path: &str) -> Vec<String> {
    let name =
        |text: &str| text.trim_start().chars().take_while(|c| c.is_ascii_lowercase() || *c == '_').collect();
    let Some(group) = path.strip_prefix('{') else { return vec![name(path)] };
    let mut names = vec![name(group)];
    let mut depth = 1;
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 1 => names.push(name(&group[at + 1..])),
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    names
}

#[test]
fn grouped_imports_are_read_completely() {
    assert_eq!(members("{pages::{A, B}, web::X}; use other;"), ["pages", "web"]);
    assert_eq!(members("forms::email::Email;"), ["forms"]);
}

#[test]
fn every_row_of_the_table_is_a_module() {
    for module in table().keys() {
        assert!(root().join(format!("src/{module}.rs")).exists(), "there is no module `{module}`");
    }
}

#[test]
fn modules_depend_on_each_other_only_as_the_table_allows() {
    let table = table();
    let mut files = Vec::new();
    sources(&root().join("src"), &mut files);
    let mut wrong = Vec::new();
    for file in files {
        let relative = file.strip_prefix(root().join("src")).expect("it is below").to_owned();
        // Unit tests may use any module.
        if relative
            .components()
            .any(|part| ["tests", "tests.rs"].iter().any(|tests| part.as_os_str() == *tests))
        {
            continue;
        }
        let first = relative.components().next().expect("a name").as_os_str().to_string_lossy();
        let module = first.trim_end_matches(".rs");
        if module == "lib" {
            continue;
        }
        let allowed =
            table.get(module).unwrap_or_else(|| panic!("ARCHITECTURE.md has no row for `{module}`"));
        let text = std::fs::read_to_string(&file).expect("it can be read");
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let climbs = "super::".repeat(relative.components().count());
        if code.contains(&climbs) {
            wrong.push(format!("{}: `{climbs}` leaves the module", relative.display()));
        }
        for known in code.split("crate::").skip(1).chain(code.split("frontdesk::").skip(1)).flat_map(members)
        {
            if !known.is_empty() && known != module && !allowed.contains(&known) {
                wrong.push(format!("{}: `{module}` may not know `{known}`", relative.display()));
            }
        }
    }
    wrong.sort();
    wrong.dedup();
    assert_eq!(wrong, [""; 0]);
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
        let folder = if file.starts_with("src/") { "" } else { "tests/it/" };
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
    for file in files {
        let text = std::fs::read_to_string(&file).expect("it can be read");
        assert!(text.starts_with("//! "), "{} does not begin with a `//!` line", file.display());
    }
}
