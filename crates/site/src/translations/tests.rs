//! Tests of sites in several languages.

use std::fs;

use super::*;
use crate::{FooterGroup, FooterLink, PagesOptions, Site, SiteEntry, load};

const FILES: &[(&str, &str)] = &[
    ("pages/index.md", "title: Welcome"),
    ("pages/product.md", "title: Product\nnav: 1\ntags: []"),
    ("pages/only.md", "title: Only in English"),
    ("pages/team.md", "title: Team\ntranslation: people"),
    ("pages/de/index.md", "title: Willkommen"),
    ("pages/de/product.md", "title: Produkt\nslug: produkt\nnav: 1"),
    ("pages/leute.md", "title: Leute\nlang: de\ntranslation: people"),
    ("posts/2026-11-20-hello.md", "title: Hello\ntags: [news]"),
    ("posts/de/2026-11-20-hello.md", "title: Hallo\ntags: [News]"),
];

/// The options of a site in English and German, with a footer for all languages and one for German only.
fn options() -> PagesOptions {
    let link = |href: &str| FooterLink { title: None, href: href.into() };
    let group = |title: &str, language: Option<&str>, href: &str| FooterGroup {
        title: title.into(),
        language: language.map(Into::into),
        links: vec![link(href)],
    };
    PagesOptions {
        title: "Site".into(),
        language: "en".into(),
        languages: vec!["en".into(), "de".into()],
        base_url: "https://www.example.com".into(),
        today: jiff::civil::date(2026, 11, 21),
        footer: vec![group("All", None, "/product/"), group("Nur Deutsch", Some("de"), "/leute/")],
        ..PagesOptions::default()
    }
}

fn load_site(files: &[(&str, &str)], options: &PagesOptions) -> (Option<Site>, Vec<Fault>) {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, matter) in files {
        let file = folder.path().join(name);
        fs::create_dir_all(file.parent().expect("a folder")).expect("the folder exists");
        let text = format!("---\n{matter}\ndescription: About it.\nupdated: 2026-11-20\n---\nText.\n");
        fs::write(file, text).expect("the file is written");
    }
    let loaded = load(folder.path(), options, &[]);
    (loaded.site, loaded.faults)
}

fn site() -> Site {
    let (site, faults) = load_site(FILES, &options());
    assert_eq!(faults, []);
    site.expect("a valid site")
}

fn page(site: &Site, path: &str) -> (String, String) {
    let Some(SiteEntry::Page(page)) = site.get(path) else { panic!("there is no page {path}") };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&page.html.unencoded().bytes), text(&page.markdown.unencoded().bytes))
}

#[test]
fn each_language_has_its_pages_and_words() {
    let site = site();
    for (path, language, word) in [
        ("/", "en", "Latest posts"),
        ("/de/", "de", "Neueste Beiträge"),
        ("/product/", "en", "Skip to content"),
        ("/de/produkt/", "de", "Zum Inhalt springen"),
        ("/leute/", "de", "Als Markdown kopieren"),
        ("/blog/hello/", "en", "20 November 2026"),
        ("/de/blog/hello/", "de", "20. November 2026"),
        ("/de/blog/", "de", "Alles, was Site veröffentlicht hat"),
        ("/de/blog/tags/", "de", "Die Themen unserer Beiträge."),
        ("/de/blog/tags/news/", "de", "Was Site über News geschrieben hat."),
    ] {
        let html = page(&site, path).0;
        assert!(html.contains(&format!("<html lang=\"{language}\">")), "{path}");
        assert!(html.contains(&format!("\"inLanguage\":\"{language}\"")), "{path}");
        assert!(html.contains(word), "{path} lacks {word}: {html}");
    }
    let (_, markdown) = page(&site, "/de/blog/hello/");
    assert!(markdown.contains("\nllms_txt: https://www.example.com/de/llms.txt\n"), "{markdown}");
    assert!(markdown.contains("\nlanguage: de\n"), "{markdown}");
}

#[test]
fn navigation_lists_and_tags_stay_within_a_language() {
    let site = site();
    let (german, _) = page(&site, "/de/");
    assert!(german.contains(">Produkt</a>") && !german.contains(">Product</a>"), "{german}");
    assert!(
        german.contains("href=\"/de/blog/hello/\"") && !german.contains("href=\"/blog/hello/\""),
        "{german}"
    );
    assert!(german.contains("<a class=\"brand\" href=\"/de/\" aria-current=\"page\">"), "{german}");
    assert!(german.contains("href=\"/de/blog/rss.xml\""), "{german}");
    let (english, _) = page(&site, "/blog/tags/news/");
    assert!(english.contains("/blog/hello/") && !english.contains("/de/blog/hello/"), "{english}");
    let (post, _) = page(&site, "/de/blog/hello/");
    let crumbs = post.split("\"itemListElement\":").nth(1).expect("breadcrumbs");
    assert!(
        crumbs.starts_with(
            "[{\"@type\":\"ListItem\",\"position\":1,\"name\":\"Startseite\",\"item\":\"https://www.example.com/de/\"}"
        ),
        "{crumbs}"
    );
}

#[test]
fn translations_link_to_each_other() {
    let site = site();
    let links = |path: &str| -> Vec<String> {
        let html = page(&site, path).0;
        let links = html.lines().filter(|line| line.starts_with("<link rel=\"alternate\" hreflang="));
        links
            .map(|line| line.replace("<link rel=\"alternate\" ", "").replace("https://www.example.com", ""))
            .collect()
    };
    for (english, german) in [
        ("/", "/de/"),
        ("/product/", "/de/produkt/"),
        ("/team/", "/leute/"),
        ("/blog/hello/", "/de/blog/hello/"),
        ("/blog/", "/de/blog/"),
        ("/blog/tags/news/", "/de/blog/tags/news/"),
    ] {
        let expected = [
            format!("hreflang=\"en\" href=\"{english}\">"),
            format!("hreflang=\"de\" href=\"{german}\">"),
            format!("hreflang=\"x-default\" href=\"{english}\">"),
        ];
        assert_eq!(links(english), expected);
        assert_eq!(links(german), expected);
        let summary = site.pages.iter().find(|page| page.path == german).expect("a summary");
        assert_eq!(summary.translations, [(0, english.to_owned()), (1, german.to_owned())]);
    }
    assert_eq!(links("/only/"), [""; 0]);
    let html = page(&site, "/only/").0;
    assert!(html.contains("<a href=\"/de/\" lang=\"de\" hreflang=\"de\">Deutsch</a>"), "{html}");
    assert!(
        html.contains("<a href=\"/only/\" lang=\"en\" hreflang=\"en\" aria-current=\"true\">English</a>"),
        "{html}"
    );
    assert!(page(&site, "/team/").0.contains("<a href=\"/leute/\" lang=\"de\""));
    assert!(html.contains("<meta property=\"og:locale\" content=\"en_US\">"), "{html}");
    assert!(page(&site, "/de/").0.contains("<meta property=\"og:locale:alternate\" content=\"en_US\">"));
}

#[test]
fn the_footer_leads_to_translations() {
    let site = site();
    let (english, german) = (page(&site, "/").0, page(&site, "/de/").0);
    assert!(
        english.contains("<a href=\"/product/\">Product</a>") && !english.contains("Nur Deutsch"),
        "{english}"
    );
    assert!(
        german.contains("<a href=\"/de/produkt/\">Produkt</a>") && german.contains("Nur Deutsch"),
        "{german}"
    );
}

#[test]
fn a_missing_page_is_reported_in_the_language_of_its_path() {
    let site = site();
    for (path, word) in [
        ("/x", "There is nothing here"),
        ("/de/x", "Hier ist nichts"),
        ("/de", "Hier ist nichts"),
        ("/dex", "There is nothing here"),
    ] {
        let html = site.not_found_at(path).html.unencoded().bytes.clone();
        assert!(String::from_utf8_lossy(&html).contains(word), "{path}");
    }
}

#[test]
fn a_site_in_one_language_has_no_switcher() {
    let options = PagesOptions { languages: Vec::new(), footer: Vec::new(), ..options() };
    let (site, faults) = load_site(&FILES[..4], &options);
    assert_eq!(faults, []);
    let site = site.expect("a valid site");
    let (html, markdown) = page(&site, "/product/");
    assert!(!html.contains("hreflang") && !html.contains("class=\"languages\""), "{html}");
    assert!(!markdown.contains("language:"), "{markdown}");
}

#[test]
fn wrong_languages_and_keys_are_reported() {
    let check = |matter: &str, expected: &str| {
        let files: Vec<_> = FILES.iter().copied().chain([("pages/x.md", matter)]).collect();
        let faults = load_site(&files, &options()).1;
        assert!(faults.iter().any(|fault| fault.to_string() == expected), "{faults:?}");
    };
    check(
        "title: X\nlang: fr",
        "pages/x.md:3: `lang` is ignored: `fr` is not a language of this site\n    hint: add it to `site.languages` in frontdesk.toml",
    );
    let languages = ["en", "de", "fr"].map(String::from).to_vec();
    let faults = load_site(FILES, &PagesOptions { languages, ..options() }).1;
    let expected = "pages/: the language `fr` has no home page\n    hint: create `pages/fr/index.md`";
    assert_eq!(faults.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
    check(
        "title: X\ntranslation: people",
        "pages/x.md:3: pages/team.md has the same `translation` in the same language\n    hint: change one of them: only the first page is linked as a translation",
    );
    let files =
        [("pages/en/index.md", "title: A"), ("pages/de/index.md", "title: B"), ("pages/x.mdx", "title: X")];
    let faults = load_site(&files, &options()).1;
    for expected in [
        "pages/: there is no home page\n    hint: move the files in `pages/en/` to `pages/`: `en` is the default language",
        "pages/x.mdx: the file is not published\n    hint: only files that end with `.md` are pages; rename it, and remove what is not Markdown",
    ] {
        assert!(faults.iter().any(|fault| fault.to_string() == expected), "{faults:?}");
    }
}
