//! Compares the published contract with the files in `tests/data/contract/`, and checks sentences.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::*;
use crate::{LoadResult, Operator, load};
use frontdesk_forms::FormSet;

/// The files that clients rely on.
const CONTRACT: [&str; 6] = [
    "/openapi.json",
    "/agents.md",
    "/llms.txt",
    skill::SKILL_PATH,
    skill::INDEX_PATH,
    "/.well-known/api-catalog",
];

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The options of `site/frontdesk.toml` that appear in the contract.
fn example_options() -> PagesOptions {
    PagesOptions {
        title: "Thornfold".into(),
        tagline: "Security control plane for AI coding agents".into(),
        description:
            "Thornfold inventories AI coding agents, checks each tool call against policy before it \
                      runs, asks a person where it must, and keeps a record that can be verified."
                .into(),
        operator: Operator {
            name: "Thornfold".into(),
            email: "hello@example.com".into(),
            console_url: "https://console.example.com/".into(),
        },
        ..starter_options()
    }
}

/// The options of `starter/frontdesk.toml` that appear in the contract.
fn starter_options() -> PagesOptions {
    PagesOptions {
        title: "Example".into(),
        tagline: "A small site to begin with".into(),
        description: "Example is a small website with a page, a post and two forms, served to people and to \
                      agents."
            .into(),
        language: "en".into(),
        base_url: "https://www.example.com".into(),
        operator: Operator {
            name: "Example".into(),
            email: "hello@example.com".into(),
            console_url: String::new(),
        },
        posts_per_page: 20,
        reserved: reserved_paths(FormSet::built_in()),
        ..PagesOptions::default()
    }
}

fn resource_options() -> ResourceOptions {
    ResourceOptions {
        quotas: Some((30, 300)),
        duplicate_window: Duration::from_hours(24),
        ..ResourceOptions::default()
    }
}

/// Loads a folder of the repository with its resources.
fn load_site(folder: &Path, options: &PagesOptions, resources: &ResourceOptions) -> Site {
    let LoadResult { site, faults, options, .. } =
        load(folder, options, &page_forms(&options.form_set, &options.base_url));
    let mut site = site.unwrap_or_else(|| panic!("{faults:?}"));
    ResourceCache::default().add_resources(&mut site, &options, resources);
    site
}

fn text<'a>(site: &'a Site, path: &str) -> &'a str {
    let Some(SiteEntry::File(file, _)) = site.get(path) else { panic!("{path} is missing") };
    std::str::from_utf8(&file.unencoded().bytes).unwrap()
}

/// A deliberate change of the contract deletes the file that it changes; the test then writes it, and fails.
#[test]
fn the_published_contract_is_unchanged() {
    for (name, options) in [("site", example_options()), ("starter", starter_options())] {
        let site = load_site(&repository().join(name), &options, &resource_options());
        for path in CONTRACT {
            let file = repository()
                .join("tests/data/contract")
                .join(name)
                .join(path.trim_start_matches('/').trim_start_matches(".well-known/"));
            let found = text(&site, path);
            let Ok(expected) = fs::read_to_string(&file) else {
                fs::create_dir_all(file.parent().unwrap()).unwrap();
                fs::write(&file, found).unwrap();
                panic!("{} was missing and has been written", file.display());
            };
            assert_eq!(found, expected, "{name}{path}");
        }
    }
}
