//! Compares the published contract with the files in `tests/data/contract/`, and checks that generated texts
//! fit the site's forms and options.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::*;
use crate::{ContentSignals, LoadResult, Operator, load};
use frontdesk_forms::{CONTACT, Form, FormFile, FormSet, WAITLIST};

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
        form_set: FormSet::new(FormSet::built_in().iter().map(with_example_words)),
        ..starter_options()
    }
}

/// A built-in form with the words of the example site, `site/forms/NAME.toml`.
fn with_example_words(form: &'static Form) -> &'static Form {
    let place = format!("site/forms/{}.toml", form.name);
    let text = fs::read_to_string(repository().join(&place)).unwrap();
    FormFile::extend(form, &text, &place).unwrap().form
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
    let LoadResult { site, faults, options, .. } = load(folder, options, &page_forms(options));
    let mut site = site.unwrap_or_else(|| panic!("{faults:?}"));
    ResourceCache::default().add_resources(&mut site, &options, resources);
    site
}

fn text<'a>(site: &'a Site, path: &str) -> &'a str {
    let Some(SiteEntry::File(file, _)) = site.get(path) else { panic!("{path} is missing") };
    std::str::from_utf8(&file.unencoded().bytes).unwrap()
}

/// After a deliberate change of the contract, delete the files that it changes: the test writes missing
/// files, and fails.
#[test]
fn the_published_contract_is_unchanged() {
    let mut written = Vec::new();
    for (name, options) in [("site", example_options()), ("starter", starter_options())] {
        let site = load_site(&repository().join(name), &options, &resource_options());
        for path in CONTRACT {
            let file = path.trim_start_matches('/').trim_start_matches(".well-known/");
            let file = repository().join("tests/data/contract").join(name).join(file);
            let found = text(&site, path);
            if let Ok(expected) = fs::read_to_string(&file) {
                assert_eq!(found, expected, "{name}{path}");
            } else {
                fs::create_dir_all(file.parent().unwrap()).unwrap();
                fs::write(&file, found).unwrap();
                written.push(file);
            }
        }
    }
    assert!(written.is_empty(), "{written:?} were missing and have been written");
}

/// A form that is not built in, with hostile texts.
fn other_form(name: &str, title: &str) -> &'static Form {
    let text = format!(
        "title = {title:?}\n\
         [[field]]\nname = \"seats\"\ntype = \"number\"\nmin = 1\nmax = 9\nlabel = \"Seats\"\n\
         [[field]]\nname = \"plan\"\ntype = \"choices\"\nmin = 2\noptions = [\"a|b\", \"<c>\", \"d\"]\nlabel = \"`Plan`\"\n"
    );
    FormFile::read(name, &text, "forms/x.toml").unwrap().form
}

/// The files of [`CONTRACT`] of a site with one page: their paths and texts.
fn contract_of(options: &PagesOptions) -> Vec<(&'static str, String)> {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("pages")).unwrap();
    fs::write(folder.path().join("pages/index.md"), "---\ntitle: Home\n---\nWords.\n").unwrap();
    let site = load_site(folder.path(), options, &resource_options());
    CONTRACT.map(|path| (path, text(&site, path).to_owned())).into()
}

#[test]
fn texts_agree_with_the_number_of_forms() {
    let book = other_form("book-a-demo", "Book *a* demo");
    let job = other_form("job", "Apply");
    for (forms, summary, description, agents, guide, skill) in [
        (
            vec![],
            "There are no forms.",
            "There are no forms on the website of Example.",
            "It has no forms, and there are no HTTP endpoints.\n\n## Getting started",
            "as linked here.\n",
            "Read the website of Example as Markdown. Use this for questions about Example. Example is",
        ),
        (
            vec![book],
            "The form “Book *a* demo”.",
            "The form of the website of Example. It needs no credentials; it is rate limited and monitored for abuse.",
            "There is exactly one HTTP endpoint, “Book \\*a\\* demo”. It needs no credentials; it is rate limited",
            "The form “Book \\*a\\* demo” is described in [agents.md]",
            "Read the website of Example as Markdown or send its form “Book *a* demo”. Use this",
        ),
        (
            vec![*CONTACT, job],
            "The forms “Contact” and “Apply”.",
            "The two forms of the website of Example. Neither needs credentials; both are rate limited",
            "There are exactly two HTTP endpoints, “Contact” and “Apply”. Neither needs credentials; both are",
            "The 2 forms (“Contact” and “Apply”) are described in [agents.md]",
            "Read the website of Example as Markdown, send a message to its team, or send its form “Apply”. Use",
        ),
        (
            vec![*WAITLIST, *CONTACT, job],
            "The forms “Join the waitlist”, “Contact” and “Apply”.",
            "The 3 forms of the website of Example. None of them needs credentials; all are rate limited",
            "There are exactly 3 HTTP endpoints: “Join the waitlist”, “Contact” and “Apply”. None of them needs",
            "The 3 forms (“Join the waitlist”, “Contact” and “Apply”) are described in [agents.md]",
            "as Markdown, join its waitlist, send a message to its team, or send its form “Apply”. Use",
        ),
    ] {
        let set = FormSet::new(forms.iter().copied());
        let confirming = set.named(WAITLIST.name).map(|form| form.name).into_iter().collect();
        let options = PagesOptions { form_set: set, confirming, ..starter_options() };
        let files = contract_of(&options);
        let file = |name: &str| files.iter().find(|(path, _)| *path == name).unwrap().1.as_str();
        let openapi: serde_json::Value = serde_json::from_str(file("/openapi.json")).unwrap();
        assert_eq!(openapi["info"]["summary"], summary);
        assert!(openapi["info"]["description"].as_str().unwrap().starts_with(description), "{openapi}");
        assert_eq!(openapi["paths"].as_object().unwrap().len(), forms.len());
        for (name, expected) in [("/agents.md", agents), ("/llms.txt", guide), (skill::SKILL_PATH, skill)] {
            assert!(file(name).contains(expected), "{expected}: {}", file(name));
        }
        assert_eq!(file("/.well-known/api-catalog").contains("service-desc"), !forms.is_empty());
        assert_eq!(home_links(&options.form_set).len(), 4 - usize::from(forms.is_empty()));
        for form in [*WAITLIST, *CONTACT] {
            let is_named = |text: &str| text.to_lowercase().contains(form.name);
            for (path, text) in &files {
                // Ignore the member `contact` of an API description, which is no form (OpenAPI 3.1 §4.8.3).
                let text = text.replace("\"contact\": {\n", "");
                assert!(forms.contains(&form) || !is_named(&text), "{} in {path}: {text}", form.name);
            }
        }
        for (path, text) in &files {
            assert!(!text.contains("  ") || path.ends_with(".json") || path.ends_with("catalog"), "{text}");
            assert!(!text.contains("\n\n\n"), "{path}: {text}");
        }
    }
}

#[test]
fn a_table_in_markdown_shows_typed_fields() {
    let section = page_forms(&PagesOptions {
        form_set: FormSet::new([other_form("job", "Apply")]),
        base_url: "https://www.example.com".into(),
        ..PagesOptions::default()
    })
    .remove(0);
    let markdown = &section.markdown;
    for expected in [
        "| `seats` | no | a whole number from 1 to 9 | Seats |\n",
        "| `plan` | no | a list of 2 to 3 of “a\\|b”, “\\<c>” or “d” | \\`Plan\\` |\n",
        "curl --json '{\"seats\":1,\"plan\":[\"a|b\",\"<c>\"]}' https://www.example.com/api/job\n",
    ] {
        assert!(markdown.contains(expected), "{expected}: {markdown}");
    }
}

#[test]
fn sentences_are_right_without_a_title_a_name_a_description_or_an_address() {
    for (title, name, introduction, openapi_title, skill) in [
        (
            "Cranes",
            "Ada Ltd",
            "Cranes is the website of Ada Ltd. There",
            "Cranes website forms",
            "Read the website of Ada Ltd as Markdown,",
        ),
        (
            "Cranes",
            "",
            "This is the website Cranes. There",
            "Cranes website forms",
            "Read the website Cranes as Markdown,",
        ),
        (
            "",
            "Ada Ltd",
            "This is the website of Ada Ltd. There",
            "Ada Ltd website forms",
            "Read the website of Ada Ltd as Markdown,",
        ),
        ("", "", "This is a guide to this website. There", "Website forms", "Read this website as Markdown,"),
    ] {
        for (description, email) in
            [("", ""), ("We lend cranes.", "hello@example.com"), ("We lend cranes.", "")]
        {
            let operator = Operator { name: name.into(), email: email.into(), console_url: String::new() };
            let (title, description) = (title.to_owned(), description.to_owned());
            let files = contract_of(&PagesOptions {
                title,
                description: description.clone(),
                operator,
                ..starter_options()
            });
            let file = |name: &str| files.iter().find(|(path, _)| *path == name).unwrap().1.as_str();
            let agents = file("/agents.md");
            assert!(agents.contains(introduction), "{agents}");
            let mail = "contact form or by mail to <hello@example.com>.\n";
            assert_eq!(agents.contains(mail), !email.is_empty(), "{agents}");
            assert_eq!(agents.contains("\n> We lend cranes.\n"), !description.is_empty());
            let openapi: serde_json::Value = serde_json::from_str(file("/openapi.json")).unwrap();
            assert_eq!(openapi["info"]["title"], openapi_title);
            assert_eq!(openapi["info"]["contact"].get("name").is_some(), !name.is_empty());
            assert!(file(skill::SKILL_PATH).contains(skill), "{}", file(skill::SKILL_PATH));
            for (path, text) in &files {
                for wrong in [" .", " ,", " of .", "<>", "  \n", "\n\n\n", "about  ", ". \""] {
                    assert!(!text.contains(wrong), "{wrong:?} in {path}: {text}");
                }
            }
        }
    }
}

/// The values of `Content-Usage` of the home page's HTML and Markdown.
fn content_usage(site: &Site) -> [Option<&str>; 2] {
    let Some(SiteEntry::Page(page)) = site.get("/") else { panic!("no home page") };
    [&page.html, &page.markdown].map(|file| {
        let header = file.headers.iter().find(|(name, _)| name == "content-usage");
        header.map(|(_, value)| value.to_str().unwrap())
    })
}

#[test]
fn pages_state_the_preferences_of_the_operator() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("pages")).unwrap();
    fs::write(folder.path().join("pages/index.md"), "---\ntitle: Home\n---\nWords.\n").unwrap();
    for (signals, usage, lines) in [
        (ContentSignals::default(), None, ""),
        (
            ContentSignals { ai_train: Some(false), ..ContentSignals::default() },
            Some("train-ai=n"),
            "Content-Signal: ai-train=no\nContent-Usage: train-ai=n\n",
        ),
        (
            ContentSignals { search: Some(true), ai_input: Some(false), ai_train: None },
            Some("search=y, ai-use=n"),
            "Content-Signal: search=yes, ai-input=no\nContent-Usage: search=y, ai-use=n\n",
        ),
    ] {
        let site = load_site(
            folder.path(),
            &PagesOptions { signals, ..starter_options() },
            &ResourceOptions::default(),
        );
        assert_eq!(content_usage(&site), [usage; 2]);
        let robots = text(&site, "/robots.txt");
        assert!(robots.starts_with(&format!("User-agent: *\n{lines}Allow: /\n")), "{robots}");
    }
}

#[test]
fn an_own_robots_txt_must_state_the_preferences() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let file = folder.path().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    };
    write("pages/index.md", "---\ntitle: Home\n---\nWords.\n");
    let silent = "User-agent: *\nAllow: /content-usage: x\n";
    let stated = ContentSignals { ai_train: Some(false), ..ContentSignals::default() };
    for (robots, signals, is_reported) in [
        (silent, stated, true),
        (silent, ContentSignals::default(), false),
        ("User-agent: *\n content-usage : train-ai=n\n", stated, false),
        ("User-agent: *\nContent-Signal: ai-train=no\n", stated, false),
    ] {
        write("static/robots.txt", robots);
        let options = PagesOptions { signals, ..starter_options() };
        let LoadResult { site, faults, .. } = load(folder.path(), &options, &page_forms(&options));
        assert_eq!(text(&site.unwrap(), "/robots.txt"), robots);
        let reported = faults.iter().filter(|fault| fault.place == "robots.txt").collect::<Vec<_>>();
        assert_eq!(reported.len(), usize::from(is_reported), "{robots}{faults:?}");
        let hints = reported.iter().filter_map(|fault| fault.hint.as_deref());
        assert!(hints.into_iter().all(|hint| hint.starts_with("add `Content-Usage: train-ai=n` to each")));
    }
}

#[test]
fn the_index_of_skills_describes_the_file_that_is_served() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("pages")).unwrap();
    fs::write(folder.path().join("pages/index.md"), "---\ntitle: Home\n---\nWords.\n").unwrap();
    let file = folder.path().join("static").join(skill::SKILL_PATH.trim_start_matches('/'));
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    let options = starter_options();
    let entry = || {
        let site = load_site(folder.path(), &options, &resource_options());
        let index: serde_json::Value = serde_json::from_str(text(&site, skill::INDEX_PATH)).unwrap();
        index["skills"][0].clone()
    };
    let generated = entry();
    assert_eq!(generated["name"], "website-guide");
    for (skill, name, description) in [
        ("---\nname: cranes\ndescription: Rents cranes.\n---\nText\n", "cranes", "Rents cranes."),
        ("\u{feff}---\nname: lifts\ndescription: Rents lifts.\n---\nText\n", "lifts", "Rents lifts."),
        ("---\ndescription: Rents cranes.\n---\nText\n", "website-guide", "Rents cranes."),
        ("Text\n", "website-guide", generated["description"].as_str().unwrap()),
    ] {
        fs::write(&file, skill).unwrap();
        let entry = entry();
        assert_eq!((&entry["name"], &entry["description"]), (&name.into(), &description.into()));
        assert_ne!(entry["digest"], generated["digest"]);
    }
}
