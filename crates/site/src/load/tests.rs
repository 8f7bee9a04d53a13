//! Tests that a reload with a cache gives the same site as a load without one, after any edits.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::{self, File as Disk};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use proptest::prelude::*;

use super::*;
use crate::document::Document;
use crate::fault::Placed;
use crate::file::noindex_header;
use crate::resources::{ResourceCache, ResourceOptions};
use crate::{
    AllowedOrigin, BrandOptions, Color, ContentSignals, FooterGroup, FooterLink, Page, RedirectOption, Role,
    SiteEntry, WordOverride,
};

/// An operator's change to a site.
#[derive(Debug, Clone)]
enum Edit {
    Body(usize, usize),
    Title(usize, u8),
    Matter(usize, usize),
    Rename(usize, usize),
    Remove(usize),
    Asset(usize, u8),
    Static(usize, u8),
    Theme(usize, usize),
    Options(usize),
    /// Treats all files as settled, as if they had been written long ago.
    Age,
}

/// Generates edits. Changes of pages and the passing of time are the most frequent.
fn edit() -> impl Strategy<Value = Edit> {
    let (file, asset) = (0..FILES.len(), 0..ASSETS.len());
    prop_oneof![
        5 => (file.clone(), 0..BODIES.len()).prop_map(|(file, body)| Edit::Body(file, body)),
        2 => (file.clone(), any::<u8>()).prop_map(|(file, title)| Edit::Title(file, title % 4)),
        4 => (file.clone(), 0..MATTERS.len()).prop_map(|(file, matter)| Edit::Matter(file, matter)),
        2 => (file.clone(), file.clone()).prop_map(|(from, to)| Edit::Rename(from, to)),
        1 => file.prop_map(Edit::Remove),
        2 => (asset.clone(), any::<u8>()).prop_map(|(asset, byte)| Edit::Asset(asset, byte % 3)),
        1 => (0..STATICS.len(), any::<u8>()).prop_map(|(file, byte)| Edit::Static(file, byte % 3)),
        2 => (0..THEMES.len(), 0..THEMES.len()).prop_map(|(file, text)| Edit::Theme(file, text)),
        2 => (0_usize..19).prop_map(Edit::Options),
        3 => Just(Edit::Age),
    ]
}

const FILES: [&str; 16] = [
    "pages/index.md",
    "pages/about.md",
    "pages/about/team.md",
    "pages/docs/index.md",
    "pages/docs/first.md",
    "pages/404.md",
    "posts/2026-01-01-one.md",
    "posts/2026-02-02-two.md",
    "posts/three/index.md",
    "posts/2026-01-03-four.markdown",
    "posts/_index.md",
    "pages/blog/tags/rust.md",
    "pages/de/index.md",
    "pages/de/about.md",
    "posts/de/2026-01-01-one.md",
    "pages/about/index.md",
];

const ASSETS: [&str; 5] =
    ["assets/a.svg", "assets/custom.css", "posts/three/pic.png", "pages/docs/x.png", "pages/note.txt"];

const STATICS: [&str; 3] = ["static/llms.txt", "static/old/index.html", "static/about.md"];

const BODIES: [&str; 9] = [
    "Some words.\n",
    "## One\n\nTo [two](/blog/two/#one), [team](team.md), [first](../docs/first.md) and [here](#one).\n",
    "## One\n\n```rust\nfn main() {}\n```\n\n```text\nplain\n```\n\n```rust\nfn main() {}\n```\n",
    "![a](/assets/a.svg) and ![pic](pic.png) and <img src=\"x.png\">\n",
    "[a]: /docs/first/\n\nSee [a], [@](@/about.md#none), [gone](/gone/).\n",
    "# A second title\n\n{{ shortcode }}\n\n| a |\n| --- |\n| b |\n",
    "## One {#chosen}\n\n## Two {#chosen}\n\n[x](/about/#chosen) [y](/blog/tags/rust/)\n",
    "<h2 id=\"raw\">Raw</h2>\n<script>1</script> [raw](/docs/#raw)\n",
    "",
];

const MATTERS: [&str; 20] = [
    "",
    "nav: 1\nnav_title: Short\n",
    "nav: 2\n",
    "draft: true\n",
    "unlisted: true\n",
    "tags: [rust, Go]\n",
    "tags: [Rust, c, \"C++\"]\n",
    "updated: 2026-03-03\ndate: 2025-01-01\n",
    "aliases: [/old/, /docs/]\n",
    "slug: moved\n",
    "cta:\n  - { label: Go, href: first.md }\n  - { label: No, href: /nowhere/#x }\n",
    "image: /assets/a.svg\ntoc: true\n",
    "template: own\n",
    "form: contact\n",
    "lang: de\n",
    "translation: same\n",
    "highlights:\n  - { title: A, text: B, href: ../about.md }\n",
    "title: [\n",
    "section: true\nweight: 2\n",
    "weight: 1\ngroup: Start\nextra:\n  color: { red: 1 }\n",
];

const THEMES: [(&str, &str); 8] = [
    (
        "theme/page.html",
        "{% extends \"base.html\" %}{% block main %}<i>{{ page.html }}</i>{{ tags|length }}{% endblock %}",
    ),
    ("theme/page.html", "{{ page.html|upper }}{{ asset(\"a.svg\") }}"),
    ("theme/post.html", "{% if %}"),
    (
        "theme/own.html",
        "<p id=\"own\">{{ page.title }} {{ page.next.title }}{% for p in site.nav %}{{ p.title }}{% endfor %}</p>{{ page.html }}",
    ),
    ("theme/style.css", "p { color: red }"),
    ("theme/words/de.toml", "home = \"Anfang\"\n"),
    ("theme/words/en.toml", "blog = \"Writing\"\nhoem = \"x\"\n"),
    ("theme/404.html", "{{ page.html }}{{ nothing.at.all }}"),
];

/// A site in a temporary folder, and a cache of its loads.
struct Bench {
    folder: tempfile::TempDir,
    /// Keyed by index into `FILES`. The values are the number in the page's title, an index into `MATTERS`
    /// and an index into `BODIES`.
    pages: BTreeMap<usize, (u8, usize, usize)>,
    options: PagesOptions,
    cache: LoadCache,
    resources: ResourceCache,
}

impl Bench {
    /// A valid site with six pages and posts and one asset.
    fn new() -> Self {
        let options = PagesOptions {
            title: "Site".into(),
            language: "en".into(),
            base_url: "https://www.example.com".into(),
            reserved: vec!["/llms.txt"],
            today: jiff::civil::date(2026, 11, 20),
            ..PagesOptions::default()
        };
        let folder = tempfile::tempdir().expect("a folder");
        let (cache, resources) = (LoadCache::default(), ResourceCache::default());
        let mut bench = Self { folder, pages: BTreeMap::new(), options, cache, resources };
        for file in [0, 1, 3, 6, 7, 8] {
            bench.pages.insert(file, (0, 0, 1));
            bench.write_page(file);
        }
        bench.write("assets/a.svg", "<svg/>");
        bench
    }

    fn at(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    fn write(&self, file: &str, text: &str) {
        let at = self.at(file);
        fs::create_dir_all(at.parent().expect("a folder")).expect("the folder exists");
        // Replace the file, as editors often do: a second write with the same time stamp then gets a new
        // inode.
        let draft = self.folder.path().join("draft");
        fs::write(&draft, text).expect("the file is written");
        fs::rename(draft, at).expect("the file is renamed");
    }

    fn write_page(&self, file: usize) {
        let Some((title, matter, body)) = self.pages.get(&file) else {
            let _ = fs::remove_file(self.at(FILES[file]));
            return;
        };
        let (matter, body) = (MATTERS[*matter], BODIES[*body]);
        let text = format!("---\ntitle: Title {title}\ndescription: About it.\n{matter}---\n{body}");
        self.write(FILES[file], &text);
    }

    /// Applies an edit to the files and the options. A change of a page that does not exist creates it.
    fn apply(&mut self, edit: &Edit) {
        match *edit {
            Edit::Body(file, body) => self.pages.entry(file).or_default().2 = body,
            Edit::Title(file, title) => self.pages.entry(file).or_default().0 = title,
            Edit::Matter(file, matter) => self.pages.entry(file).or_default().1 = matter,
            Edit::Rename(from, to) => {
                if let Some(page) = self.pages.remove(&from) {
                    self.pages.insert(to, page);
                }
                self.write_page(to);
            }
            Edit::Remove(file) => {
                self.pages.remove(&file);
            }
            Edit::Asset(asset, byte) => self.put(ASSETS[asset], byte, "content"),
            Edit::Static(file, byte) => self.put(STATICS[file], byte, "<p>static</p>"),
            Edit::Theme(file, text) => {
                let (name, own) = THEMES[file];
                self.put(name, u8::from(file == text), own);
            }
            Edit::Options(0) => self.options.title.push('x'),
            Edit::Options(1) => self.options.base_url = "https://example.com".into(),
            Edit::Options(2) => self.options.today = jiff::civil::date(2025, 12, 31),
            Edit::Options(3) => self.options.operator.email = "desk@example.com".into(),
            Edit::Options(4) => {
                let asset =
                    || Some(Placed { value: "a.svg".into(), place: "frontdesk.toml".into(), line: None });
                let color = Color::parse("#00694b").expect("a color");
                let accent = Some(Placed { value: color, place: "frontdesk.toml".into(), line: None });
                self.options.brand =
                    BrandOptions { logo: asset(), favicon: asset(), accent, ..BrandOptions::default() };
            }
            Edit::Options(7) => self.options.shows_unpublished ^= true,
            Edit::Options(8) => {
                let now = "2026-01-02T00:00Z".parse().expect("a time");
                self.options.now = if self.options.now.is_some() { None } else { Some(now) };
            }
            Edit::Options(9) => {
                self.options.has_reload_script ^= true;
                let origin = AllowedOrigin::parse("https://img.example.org").expect("an origin");
                self.options.allowed.image = vec![origin];
            }
            Edit::Options(10) => self.options.languages = vec!["en".into(), "de".into()],
            Edit::Options(11) => self.options.words = vec![word("copied", "Done")],
            Edit::Options(12) => self.options.search = Some(true),
            Edit::Options(13) => self.options.posts_per_page = 1,
            Edit::Options(14) => {
                let redirect = |from: &str, to: &str| RedirectOption {
                    from: from.into(),
                    to: to.into(),
                    status: if to.is_empty() { 410 } else { 308 },
                    place: "frontdesk.toml".into(),
                    line: Some(1),
                };
                self.options.redirects = vec![
                    redirect("/old/", "/about/"),
                    redirect("/former/*", "/docs/:splat"),
                    redirect("/gone", ""),
                ];
            }
            Edit::Options(15) => self.options.html_posts ^= true,
            Edit::Options(16) if self.options.confirms_addresses() => self.options.confirming.clear(),
            Edit::Options(16) => self.options.confirming.push("waitlist"),
            Edit::Options(17) => {
                let search = self.options.signals.search.is_none().then_some(true);
                self.options.signals = ContentSignals { search, ..ContentSignals::default() };
            }
            Edit::Options(_) => {
                let link = |href: &str| FooterLink { title: None, href: href.into() };
                let links = vec![link("/about/"), link("/nowhere/")];
                self.options.footer = vec![FooterGroup { title: "More".into(), language: None, links }];
            }
            Edit::Age => {}
        }
        if let Edit::Body(file, _)
        | Edit::Title(file, _)
        | Edit::Matter(file, _)
        | Edit::Rename(file, _)
        | Edit::Remove(file) = *edit
        {
            self.write_page(file);
        }
        if matches!(edit, Edit::Age) {
            self.cache.files.trust();
        }
    }

    /// Writes the file, or removes it if `byte` is zero.
    fn put(&self, file: &str, byte: u8, text: &str) {
        if byte == 0 {
            let _ = fs::remove_file(self.at(file));
        } else {
            self.write(file, &format!("{text}{}", if byte > 1 { "!" } else { "" }));
        }
    }

    /// Checks that a load with the cache gives the same faults, responses and resources as one without.
    fn check(&mut self, forms: &[PageForm]) {
        let mut again = self.cache.load(self.folder.path(), &self.options, forms);
        let mut fresh = load(self.folder.path(), &self.options, forms);
        assert_eq!(again.faults, fresh.faults);
        let resources = [&mut self.resources, &mut ResourceCache::default()];
        for (loaded, resources) in [&mut again, &mut fresh].into_iter().zip(resources) {
            if let Some(site) = &mut loaded.site {
                resources.add_resources(site, &loaded.options, &ResourceOptions::default());
            }
        }
        assert_eq!(again.site.as_ref().map(state), fresh.site.as_ref().map(state));
    }
}

fn word(name: &str, text: &str) -> WordOverride {
    let text = Placed { value: text.into(), place: "frontdesk.toml".into(), line: Some(3) };
    WordOverride { language: None, name: name.into(), text }
}

/// All responses and page summaries of a site, in a comparable form.
fn state(site: &Site) -> (BTreeMap<Cow<'_, str>, String>, String, String) {
    let file = |file: &File| {
        let text = String::from_utf8_lossy(&file.unencoded().bytes);
        let File { media_type, cache, link, headers, .. } = file;
        format!("{media_type} {cache:?} {link:?} {headers:?} {} {text}", file.unencoded().etag())
    };
    let page =
        |page: &Page| format!("{} {} {} {}", page.path, page.twin, file(&page.html), file(&page.markdown));
    let entries = site.entries().map(|(path, entry)| {
        let entry = match entry {
            SiteEntry::Page(both) => page(both),
            SiteEntry::File(one, role) => format!("{role:?} {}", file(one)),
            SiteEntry::Redirect(to) => format!("{to:?}"),
            SiteEntry::Gone => "gone".to_owned(),
        };
        (path, entry)
    });
    let missing = site.folder_not_found.iter().map(|(folder, missing)| format!("{folder} {}", page(missing)));
    let missing = page(&site.not_found) + &missing.collect::<String>();
    let confirm: String = site.confirm_pages.iter().map(page).collect();
    (
        entries.collect(),
        format!(
            "{missing} {confirm} {:?} {:?} {:?} {:?} {:?}",
            &site.pages,
            &site.languages,
            &site.scheduled,
            (&site.drafts, &site.expired),
            &site.form_pages
        ),
        site.hash().to_owned(),
    )
}

fn form() -> PageForm {
    PageForm { definition: *frontdesk_forms::CONTACT, confirms: false, markdown: "Send it.".into() }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 200, ..ProptestConfig::default() })]
    #[test]
    fn a_cached_load_gives_the_same_site_as_a_fresh_one(edits in prop::collection::vec(edit(), 1..14)) {
        let mut bench = Bench::new();
        bench.check(&[form()]);
        for edit in &edits {
            bench.apply(edit);
            bench.check(&[form()]);
        }
    }
}

#[test]
fn a_page_keeps_its_text_after_another_page_claimed_its_path() {
    let mut bench = Bench::new();
    bench.write("pages/x/index.md", "---\ntitle: A\ndescription: A.\n---\nThe first text.\n");
    bench.check(&[]);
    bench.write("pages/x.md", "---\ntitle: B\ndescription: B.\n---\nAnother text.\n");
    bench.check(&[]);
    fs::remove_file(bench.at("pages/x.md")).expect("it exists");
    bench.check(&[]);
}

#[test]
fn a_page_gets_the_text_of_a_page_that_claimed_its_path() {
    let mut bench = Bench::new();
    let page = |body: &str| format!("---\ntitle: A\ndescription: A.\n---\n{body}\n");
    bench.write("pages/x.md", &page("The first text."));
    bench.write("pages/x/index.md", &page("The second text."));
    bench.check(&[]);
    bench.check(&[]);
    fs::remove_file(bench.at("pages/x/index.md")).expect("it exists");
    bench.write("pages/x.md", &page("The second text."));
    bench.check(&[]);
}

#[test]
fn an_unusable_path_is_reported_with_what_would_change_it() {
    let bench = Bench::new();
    let page = |more: &str| format!("---\ntitle: A\ndescription: A.\n{more}---\nText.\n");
    bench.write("pages/a.md", &page("aliases: [/b/]\n"));
    bench.write("pages/b.md", &page(""));
    bench.write("pages/c.md", &page("slug: b\n"));
    bench.write("pages/d\u{7}.md", &page(""));
    bench.write("pages/e\\f.md", &page(""));
    let said: Vec<String> = load(bench.folder.path(), &bench.options, &[])
        .faults
        .into_iter()
        .filter(|fault| fault.severity == Severity::Error)
        .map(|fault| format!("{}; {}", fault.message, fault.hint.unwrap_or_default()))
        .collect();
    assert_eq!(
        said,
        [
            "the path `/b/` is taken by pages/b.md; remove the alias",
            "the path `/b/` is taken by pages/b.md; rename the page's file or its folder, or set `slug` in the page",
            "`/d\u{7}/` cannot be requested: it has a control character; rename the file or its folder",
            "`/e\\f/` cannot be requested: it has a backslash; rename the file or its folder",
        ]
    );
}

#[test]
fn warnings_name_current_lines_when_an_unchanged_text_moves() {
    let mut bench = Bench::new();
    for edit in [Edit::Matter(0, 12), Edit::Body(1, 0), Edit::Title(1, 1)] {
        bench.check(&[]);
        bench.apply(&edit);
    }
    bench.check(&[]);
}

#[test]
fn future_pages_appear_at_their_time_with_their_files() {
    let mut bench = Bench::new();
    bench.write("pages/about.md", "---\ntitle: A\ndescription: B.\ndate: 2026-01-01T12:00:00Z\n---\n");
    bench.write("posts/three/index.md", "---\ntitle: A\ndescription: B.\ndate: 2026-02-02\n---\n");
    bench.write("posts/three/pic.png", "picture");
    let mut paths = |now: &str, preview: bool| {
        bench.options.now = Some(now.parse().expect("a time"));
        bench.options.shows_unpublished = preview;
        let loaded = bench.cache.load(bench.folder.path(), &bench.options, &[]);
        let site = loaded.site.unwrap_or_else(|| panic!("{:?}", loaded.faults));
        let expected = ["/about/", "/blog/one/", "/blog/two/", "/blog/three/", "/assets/blog/three/pic.png"];
        let found: Vec<bool> = expected
            .iter()
            .map(|path| site.get(path).is_some() || site.get(&path.replace("/assets", "")).is_some())
            .collect();
        let scheduled: Vec<String> =
            site.scheduled.iter().map(|page| format!("{} {}", page.at, page.file)).collect();
        (found, scheduled)
    };
    let about = "2026-01-01T12:00:00Z pages/about.md".to_owned();
    let three = "2026-02-02T00:00:00Z posts/three/index.md".to_owned();
    let two = "2026-02-02T00:00:00Z posts/2026-02-02-two.md".to_owned();
    let later = vec![about.clone(), two.clone(), three.clone()];
    assert_eq!(paths("2026-01-01T11:59:59Z", false), (vec![false, true, false, false, false], later.clone()));
    assert_eq!(paths("2026-01-01T11:59:59Z", true), (vec![true; 5], later));
    assert_eq!(
        paths("2026-01-01T12:00:00Z", false),
        (vec![true, true, false, false, false], vec![two, three])
    );
    assert_eq!(paths("2026-02-02T00:00:00Z", false), (vec![true; 5], vec![]));
}

#[test]
fn a_reload_renders_changed_pages_only() {
    let mut bench = Bench::new();
    let mut pages = || {
        bench.cache.files.trust();
        let loaded = bench.cache.load(bench.folder.path(), &bench.options, &[]);
        let site = loaded.site.unwrap_or_else(|| panic!("{:?}", loaded.faults));
        let file = |path: &str| match site.get(path) {
            Some(SiteEntry::Page(page)) => page.html.clone(),
            other => panic!("{path}: {other:?}"),
        };
        [file("/"), file("/about/"), file("/blog/two/")]
    };
    let before = pages();
    let same = pages();
    assert!(before.iter().zip(&same).all(|(before, same)| Arc::ptr_eq(before, same)));

    // Write different text of the same length, and restore the old modification time.
    let at = bench.folder.path().join("pages/about.md");
    let modified = fs::metadata(&at).and_then(|meta| meta.modified()).expect("a time");
    let changed = |at: &Path| fs::metadata(at).map(|meta| (meta.ctime(), meta.ctime_nsec())).expect("a time");
    let (written, probe) = (changed(&at), bench.folder.path().join("probe"));
    while {
        fs::write(&probe, "tick").expect("the file is written");
        changed(&probe) <= written
    } {}
    let text = fs::read_to_string(&at).expect("the file exists").replace("here", "HERE");
    fs::write(&at, text).expect("the file is written");
    Disk::options()
        .write(true)
        .open(&at)
        .and_then(|file| file.set_modified(modified))
        .expect("the time is set");
    let after = pages();
    assert!(Arc::ptr_eq(&before[0], &after[0]) && Arc::ptr_eq(&before[2], &after[2]));
    assert!(!Arc::ptr_eq(&before[1], &after[1]), "the inode change time differs");
    assert!(String::from_utf8_lossy(&after[1].unencoded().bytes).contains("HERE"));
}

#[test]
fn recently_written_files_are_read_again() {
    let bench = Bench::new();
    let at = bench.folder.path().join("pages/about.md");
    let written = fs::metadata(&at).expect("the file exists");
    for (later, settled) in [(0, false), (1, false), (4, true), (3_600, true)] {
        let now = SystemTime::now() + Duration::from_secs(later);
        assert_eq!(crate::site_files::is_settled(&written, now), settled, "{later}");
    }
    assert!(!crate::site_files::is_settled(&written, SystemTime::UNIX_EPOCH), "a clock that was set back");
}

#[test]
fn the_cache_shares_bodies_with_the_site() {
    let mut bench = Bench::new();
    let loaded = bench.cache.load(bench.folder.path(), &bench.options, &[]);
    let site = loaded.site.expect("a valid site");
    let Some(SiteEntry::Page(page)) = site.get("/about/") else { panic!("no page") };
    let html = page.html.unencoded().bytes.as_ptr_range();
    let markdown = page.markdown.unencoded().bytes.as_ptr_range();
    let document = Document { file: "pages/about.md".into(), path: "/about/".into(), ..Document::default() };
    let kept = [bench.cache.bodies.of(&document), bench.cache.pages.content("/about/").expect("a page")];
    for kept in kept {
        assert!(html.contains(&kept.html.as_ptr()) && markdown.contains(&kept.markdown.as_ptr()));
    }
}

/// Writes `count` posts, and returns the site with `per_page` posts on a page.
fn site_with_posts(bench: &mut Bench, count: usize, per_page: usize) -> Site {
    for number in 1..=count {
        let day =
            jiff::civil::date(2026, 1, 1) + jiff::Span::new().days(i64::try_from(number).unwrap_or_default());
        let text = format!("---\ntitle: Post {number}\ndescription: It.\ndate: {day}\ntags: [rust]\n---\n");
        bench.write(&format!("posts/p{number}.md"), &text);
    }
    bench.options.posts_per_page = per_page;
    let loaded = bench.cache.load(bench.folder.path(), &bench.options, &[]);
    loaded.site.unwrap_or_else(|| panic!("{:?}", loaded.faults))
}

/// The HTML and the Markdown of a page.
fn texts(site: &Site, path: &str) -> Option<[String; 2]> {
    let Some(SiteEntry::Page(page)) = site.get(path) else { return None };
    Some(
        [&page.html, &page.markdown]
            .map(|file| String::from_utf8_lossy(&file.unencoded().bytes).into_owned()),
    )
}

#[test]
fn long_lists_of_posts_are_divided_into_pages() {
    for (posts, pages) in [(0, 1), (1, 1), (20, 1), (21, 2), (41, 3)] {
        let mut bench = Bench::new();
        for file in [6, 7, 8] {
            bench.apply(&Edit::Remove(file));
        }
        let site = site_with_posts(&mut bench, posts, 20);
        for base in ["/blog/", "/blog/tags/rust/"] {
            let first = texts(&site, base);
            assert_eq!(first.is_some(), posts > 0, "{base}: {posts}");
            for number in 2..=pages + 1 {
                let page = texts(&site, &format!("{base}page/{number}/"));
                assert_eq!(page.is_some(), number <= pages, "{base}: {posts}, {number}");
            }
            let alias = site.get(&format!("{base}page/1/"));
            assert_eq!(matches!(alias, Some(SiteEntry::Redirect(to)) if to.to == base), pages > 1, "{posts}");
        }
        let listed: usize = (1..=pages)
            .filter_map(|number| texts(&site, &crate::pagination::page_path("/blog/", number)))
            .map(|[_, markdown]| markdown.matches("- [Post ").count())
            .sum();
        assert_eq!(listed, posts, "each post is listed once");
    }
}

#[test]
fn pages_of_a_list_link_to_each_other_in_both_representations() {
    let mut bench = Bench::new();
    let site = site_with_posts(&mut bench, 21, 10);
    let [html, markdown] = texts(&site, "/blog/page/2/").expect("the second page");
    for part in [
        "<link rel=\"prev\" href=\"/blog/\">",
        "<link rel=\"next\" href=\"/blog/page/3/\">",
        "<link rel=\"canonical\" href=\"https://www.example.com/blog/page/2/\">",
        "<h1>Blog, page 2</h1>",
        "aria-current=\"page\"",
    ] {
        assert!(html.contains(part), "{part}: {html}");
    }
    assert!(markdown.contains("[Newer posts](https://www.example.com/blog/) · [Older posts](https://www.example.com/blog/page/3/)"), "{markdown}");
    assert!(
        site.pages.iter().any(|page| page.path == "/blog/page/3/" && page.is_generated),
        "in the sitemap"
    );
    bench.options.language = "de".into();
    let [_, markdown] =
        texts(&site_with_posts(&mut bench, 21, 10), "/blog/page/2/").expect("the second page");
    assert!(markdown.contains("[Neuere Beiträge](") && markdown.contains("[Ältere Beiträge]("), "{markdown}");
    // With fewer posts per page, the same posts need more pages, so the cached pages must be discarded.
    bench.options.language = "en".into();
    let site = site_with_posts(&mut bench, 21, 5);
    let [html, _] = texts(&site, "/blog/page/3/").expect("the third page");
    assert!(html.contains("/blog/page/5/"), "{html}");
    bench.check(&[]);
}

#[test]
fn the_search_has_listed_pages_only() {
    let mut bench = Bench::new();
    bench.options.search = Some(true);
    bench.apply(&Edit::Matter(1, 4));
    bench.apply(&Edit::Matter(6, 3));
    let site = bench.cache.load(bench.folder.path(), &bench.options, &[]).site.expect("a valid site");
    let Some(SiteEntry::File(index, Role::Resource)) = site.get("/_frontdesk/search.json") else {
        panic!("no index")
    };
    let index: serde_json::Value = serde_json::from_slice(&index.unencoded().bytes).expect("JSON");
    let mut paths: Vec<_> =
        index.as_array().expect("a list").iter().filter_map(|page| page[0].as_str()).collect();
    paths.sort_unstable();
    assert_eq!(
        paths,
        ["/", "/blog/three/", "/blog/two/", "/docs/"],
        "without unlisted pages, drafts and lists"
    );
    let [html, _] = texts(&site, "/").expect("a page");
    assert!(html.contains("data-search=\"/_frontdesk/search.json\""), "{html}");
    bench.options.languages = vec!["en".into(), "de".into()];
    bench.write("pages/de/index.md", "---\ntitle: Start\ndescription: S.\n---\nText.\n");
    let site = bench.cache.load(bench.folder.path(), &bench.options, &[]).site.expect("a valid site");
    let [html, _] = texts(&site, "/de/").expect("a page");
    assert!(html.contains("data-search=\"/_frontdesk/search.de.json\""), "{html}");
    let Some(SiteEntry::File(index, Role::Resource)) = site.get("/_frontdesk/search.de.json") else {
        panic!("no index")
    };
    let index: serde_json::Value = serde_json::from_slice(&index.unencoded().bytes).expect("JSON");
    assert_eq!((index.as_array().map(Vec::len), &index[0][0]), (Some(1), &"/de/".into()));
    // Nine pages or fewer have no search by default.
    bench.options.search = None;
    let site = bench.cache.load(bench.folder.path(), &bench.options, &[]).site.expect("a valid site");
    assert!(site.get("/_frontdesk/search.json").is_none());
    let [html, _] = texts(&site, "/").expect("a page");
    assert!(!html.contains("data-search"), "{html}");
}

#[test]
fn the_pages_of_a_section_have_its_navigation() {
    let mut bench = Bench::new();
    bench.apply(&Edit::Matter(3, 18));
    bench.apply(&Edit::Matter(4, 19));
    let site = bench.cache.load(bench.folder.path(), &bench.options, &[]).site.expect("a valid site");
    let [html, _] = texts(&site, "/docs/first/").expect("a page");
    assert!(html.contains("<a href=\"/docs/first/\" aria-current=\"page\">"), "{html}");
    assert!(html.contains("<a rel=\"prev\" href=\"/docs/\">"), "{html}");
    let [other, _] = texts(&site, "/about/").expect("a page");
    assert!(!other.contains("section-nav"), "{other}");
}

#[test]
fn a_home_page_that_opens_a_section_shows_the_pages_in_its_language() {
    let mut bench = Bench::new();
    bench.options.languages = vec!["en".into(), "de".into()];
    let page = |title: &str, more: &str| format!("---\ntitle: {title}\ndescription: D.\n{more}---\nText.\n");
    bench.write("pages/index.md", &page("Docs", "section: true\n"));
    bench.write("pages/de/index.md", &page("Start", "section: true\n"));
    bench.write("pages/de/mehr.md", &page("Mehr", ""));
    let site = bench.cache.load(bench.folder.path(), &bench.options, &[]).site.expect("a valid site");
    let navigation = |path| {
        let [html, _] = texts(&site, path).expect("a page");
        let (_, after) = html.split_once("section-nav").unwrap_or_else(|| panic!("{html}"));
        after.split_once("</nav>").expect("it ends").0.to_owned()
    };
    let english = navigation("/");
    assert!(english.contains("<a href=\"/\" aria-current=\"page\">Docs</a>"), "{english}");
    assert!(english.contains("/about/") && !english.contains("/de/"), "{english}");
    let german = navigation("/de/");
    assert!(german.contains("/de/mehr/") && !german.contains("/about/"), "{german}");
    assert!(texts(&site, "/de/").expect("a page")[0].contains("<a rel=\"next\" href=\"/de/mehr/\">"));
}

#[test]
fn tables_and_tasks_are_named_in_the_language_of_their_page() {
    let mut bench = Bench::new();
    bench.write(
        "pages/about.md",
        "---\ntitle: T\ndescription: D.\n---\n| a |\n|---|\n| b |\n\n- [x] c\n- [ ] d\n",
    );
    for (language, words, expected) in [
        ("en", vec![], ["Table 1", "Done", "Open"]),
        ("de", vec![], ["Tabelle 1", "Erledigt", "Offen"]),
        ("de", vec![word("task_open", "\"Neu\"")], ["Tabelle 1", "Erledigt", "&quot;Neu&quot;"]),
    ] {
        (bench.options.language, bench.options.words) = (language.into(), words);
        let site = bench.cache.load(bench.folder.path(), &bench.options, &[]).site.expect("a valid site");
        let [html, _] = texts(&site, "/about/").expect("a page");
        for name in expected {
            assert!(html.contains(&format!("aria-label=\"{name}\"")), "{language}: {name}: {html}");
        }
    }
}

#[test]
fn templates_read_extra_values_of_page_and_site() {
    let mut bench = Bench::new();
    bench.apply(&Edit::Matter(1, 19));
    bench.options.extra.insert("phone".into(), "+1 555".into());
    bench.write(
        "theme/page.html",
        "{% if page.extra.color %}{{ page.extra.color.red }}{% endif %} {{ site.extra.phone }}",
    );
    let site = bench.cache.load(bench.folder.path(), &bench.options, &[]).site.expect("a valid site");
    assert_eq!(texts(&site, "/about/").expect("a page")[0], "1 +1 555");
}

#[test]
fn redirects_of_the_configuration_are_entries_or_rules() {
    let mut bench = Bench::new();
    bench.apply(&Edit::Options(14));
    let loaded = bench.cache.load(bench.folder.path(), &bench.options, &[]);
    let site = loaded.site.unwrap_or_else(|| panic!("{:?}", loaded.faults));
    for path in ["/old", "/old/"] {
        assert!(
            matches!(site.get(path), Some(SiteEntry::Redirect(to)) if to.to == "/about/" && to.status == 308)
        );
    }
    let rule = site.find_rule("/former/x/");
    assert!(matches!(rule.as_deref(), Some(SiteEntry::Redirect(to)) if to.to == "/docs/x/"));
    assert_eq!(site.rule_lines(), ["/former/* /docs/:splat 308"]);
    for path in ["/gone", "/gone/"] {
        assert!(matches!(site.get(path), Some(SiteEntry::Gone)), "{path}");
    }
    bench.options.redirects[0].to = "/abuot/".into();
    let faults = bench.cache.load(bench.folder.path(), &bench.options, &[]).faults;
    let said = "frontdesk.toml:1: the link to `/abuot/` is broken";
    assert!(faults.iter().any(|fault| fault.to_string().starts_with(said)), "{faults:?}");
}

#[test]
fn posts_of_one_day_are_sorted_by_their_times() {
    let mut bench = Bench::new();
    for (name, date) in [
        ("a", "2026-05-01T08:00:00Z"),
        ("b", "2026-05-01T11:00:00+02:00"),
        ("c", "2026-05-01"),
        ("d", "2026-05-01"),
        ("e", "2026-05-02"),
    ] {
        bench.write(
            &format!("posts/{name}.md"),
            &format!("---\ntitle: T\ndescription: D.\ndate: {date}\n---\nText.\n"),
        );
    }
    let site = bench.cache.load(bench.folder.path(), &bench.options, &[]).site.expect("a valid site");
    let posts = site.pages.iter().filter(|page| page.is_post && page.path.len() == "/blog/a/".len());
    let order: Vec<&str> = posts.map(|page| page.path.as_str()).collect();
    assert_eq!(order, ["/blog/e/", "/blog/b/", "/blog/a/", "/blog/c/", "/blog/d/"]);
}

#[test]
fn faults_are_sorted_and_unique_if_the_theme_fails() {
    let mut bench = Bench::new();
    bench.write("theme/post.html", "{% if %}");
    let page = "---\ntitle: T\ndescription: D.\n---\n[a](/gone/) and [b](/gone/)\n";
    bench.write("pages/about.md", page);
    let loaded = bench.cache.load(bench.folder.path(), &bench.options, &[]);
    assert!(loaded.site.is_none());
    let mut places: Vec<&str> = loaded.faults.iter().map(|fault| fault.place.as_str()).collect();
    places.retain(|place| ["pages/about.md", "theme/post.html"].contains(place));
    assert_eq!(places, ["pages/about.md", "theme/post.html"], "{:?}", loaded.faults);
}

#[test]
fn the_images_beside_a_draft_are_not_published() {
    for (draft, image, is_published) in [
        ("posts/a/index.md", "posts/a/x.svg", false),
        ("posts/a/_index.md", "posts/a/x.svg", false),
        ("posts/a/index.markdown", "posts/a/x.svg", false),
        ("pages/a/_index.markdown", "pages/a/x.svg", false),
        ("posts/a/reindex.md", "posts/a/rest.svg", true),
    ] {
        let mut bench = Bench::new();
        bench.write(draft, "---\ntitle: T\ndescription: D.\ndraft: true\n---\n");
        bench.write(image, "<svg/>");
        let site = bench.cache.load(bench.folder.path(), &bench.options, &[]).site.expect("a valid site");
        let path = crate::path::public_path(image);
        assert_eq!(site.get(&path).is_some(), is_published, "{draft}");
    }
}

#[test]
fn the_markdown_of_cards_has_their_text() {
    let mut bench = Bench::new();
    let (card, link) = ("{ title: A, text: a *b* c }", "{ title: B, text: '<x> [y](z)', href: / }");
    let page = format!("---\ntitle: T\ndescription: D.\nhighlights: [{card}, {link}]\n---\n");
    bench.write("pages/about.md", &page);
    let site = bench.cache.load(bench.folder.path(), &bench.options, &[]).site.expect("a valid site");
    let [_, markdown] = texts(&site, "/about/").expect("a page");
    for (start, text) in [("**A**", "a *b* c"), ("[B](https://www.example.com/)", "<x> [y](z)")] {
        let item = format!("- {start}: {}\n", frontdesk_convert::escape_text(text));
        assert!(item.contains('\\') && markdown.contains(&item), "{item}: {markdown}");
    }
}

#[test]
fn the_markdown_of_a_page_escapes_texts_of_the_front_matter() {
    let mut bench = Bench::new();
    bench.write("pages/about.md", "---\ntitle: 'Why F #'\ndescription: '1. April: we open'\n---\n");
    let post = "---\ntitle: T\ndescription: D.\ndate: 2026-01-02\nauthor: A *B* <C>\ntags: [List<T>]\n---\n";
    bench.write("posts/a.md", post);
    let site = bench.cache.load(bench.folder.path(), &bench.options, &[]).site.expect("a valid site");
    let [_, page] = texts(&site, "/about/").expect("a page");
    assert!(page.contains("\n# Why F \\#\n\n1\\. April: we open\n"), "{page}");
    let [_, list] = texts(&site, "/blog/").expect("a list");
    assert!(list.contains("(2026-01-02; A \\*B\\* \\<C>; tags: List\\<T>): D.\n"), "{list}");
}

#[test]
fn the_front_matter_and_folder_above_a_page_can_withhold_it() {
    let mut bench = Bench::new();
    bench.options.now = Some("2026-11-20T00:00Z".parse().expect("a time"));
    // The file, its front matter, and whether the page is served and listed.
    let pages = [
        ("team/_index.md", "cascade: {build: {render: never}}", false, false),
        ("team/ada.md", "nav: 1", false, false),
        ("team/open/bob.md", "build: {render: always}", true, true),
        ("old/_index.md", "draft: false\ncascade: [{type: x}, {draft: true}]", true, true),
        ("old/a.md", "nav: 1", false, false),
        ("old/b/_index.md", "cascade: {draft: false}", true, true),
        ("old/b/c.md", "nav: 1", true, true),
        ("old/d.md", "private: false\npassword:\nstatus: published", false, false),
        ("quiet/index.md", "cascade: {noindex: true}", true, false),
        ("quiet/c.md", "sitemap: {priority: 0.5}\nrobots: nofollow", true, false),
        ("quiet/a.md", "nav: 1", true, false),
        ("quiet/b.md", "unlisted: false", true, true),
        ("_drafts/a.md", "nav: 1", false, false),
        ("old-news.md", "expiryDate: 2026-11-20", false, false),
        ("news.md", "expiryDate: 2026-11-21", true, true),
    ];
    for (file, matter, ..) in pages {
        bench.write(&format!("pages/{file}"), &format!("---\ntitle: T\ndescription: D.\n{matter}\n---\n"));
    }
    bench.write("pages/_drafts/x.png", "picture");
    let loaded = bench.cache.load(bench.folder.path(), &bench.options, &[]);
    let site = loaded.site.unwrap_or_else(|| panic!("{:?}", loaded.faults));
    for (file, _, is_served, is_listed) in pages {
        let path = format!(
            "/{}/",
            file.trim_end_matches(".md").trim_end_matches("/index").trim_end_matches("/_index")
        );
        let listed = site.pages.iter().any(|page| page.path == path);
        assert_eq!((site.get(&path).is_some(), listed), (is_served, is_listed), "{file}");
    }
    for (path, expected) in [("/quiet/", true), ("/quiet/a/", true), ("/quiet/b/", false), ("/news/", false)]
    {
        let [html, _] = texts(&site, path).expect("a page");
        assert_eq!(html.contains(r#"<meta name="robots" content="noindex">"#), expected, "{path}");
        let Some(SiteEntry::Page(page)) = site.get(path) else { panic!("{path} is no page") };
        assert_eq!(page.markdown.headers.contains(&noindex_header()), expected, "{path}");
    }
    assert!(site.get("/_drafts/x.png").is_none());
    assert_eq!(site.drafts, ["pages/_drafts/a.md", "pages/old/a.md", "pages/old/d.md"]);
    assert_eq!(site.expired, ["pages/old-news.md"]);
    let expiries: Vec<&str> = site.scheduled.iter().filter(|it| it.expires).map(|it| &*it.file).collect();
    assert_eq!(expiries, ["pages/news.md"]);
}

#[test]
fn the_name_of_a_file_can_withhold_a_page() {
    let mut bench = Bench::new();
    let publish = vec!["pages/_public/**".to_owned()];
    bench.options.publication.publish =
        Some(Placed { value: publish, place: "frontdesk.toml".into(), line: None });
    bench.options.languages = vec!["en".into(), "de".into()];
    let pages = [
        ("plan.draft.md", None),
        ("plan.draft.de.md", None),
        ("draft.md", Some("/draft/")),
        ("in_between_.md", Some("/in_between_/")),
        ("b/_index.md", Some("/b/")),
        ("a/_index.de.md", Some("/de/a/")),
        ("_drafts/a.md", None),
        ("_drafts.md", None),
        ("_note.md", None),
        ("_private/a/index.md", None),
        ("_public/b.md", Some("/_public/b/")),
    ];
    for (file, _) in pages {
        bench.write(&format!("pages/{file}"), "---\ntitle: T\ndescription: D.\n---\n");
    }
    bench.write("pages/_private/x.png", "picture");
    let loaded = bench.cache.load(bench.folder.path(), &bench.options, &[]);
    let site = loaded.site.unwrap_or_else(|| panic!("{:?}", loaded.faults));
    for path in pages.iter().filter_map(|(_, path)| *path).chain(["/_private/x.png"]) {
        assert!(site.get(path).is_some(), "{path}");
    }
    for path in ["/plan.draft/", "/de/plan.draft/", "/_drafts/", "/_drafts/a/", "/_note/", "/_private/a/"] {
        assert!(site.get(path).is_none(), "{path}");
    }
    assert_eq!(site.drafts, ["pages/_drafts/a.md", "pages/plan.draft.de.md", "pages/plan.draft.md"]);
    let excluded: Vec<String> = loaded.publication.exclusions.iter().map(ToString::to_string).collect();
    let reason = "its name, or that of a folder above it, begins with `_`";
    let expected = ["pages/_drafts.md", "pages/_note.md", "pages/_private/a/index.md"].map(|file| {
        format!("{file} is not published: {reason}; `publish = [\"{file}\"]` in [site] publishes it")
    });
    assert_eq!(excluded, expected);
}

#[test]
fn pages_that_crawlers_must_not_fetch_are_in_no_list_for_programs() {
    let mut bench = Bench::new();
    for file in ["pages/index.md", "pages/own/a.md", "pages/b.md", "posts/2026-01-02-c.md"] {
        bench.write(file, "---\ntitle: T\ndescription: D.\n---\n");
    }
    bench.write("static/robots.txt", "User-agent: *\nDisallow: /own/\nDisallow: /blog/c/\n");
    let loaded = bench.cache.load(bench.folder.path(), &bench.options, &[]);
    let site = loaded.site.unwrap_or_else(|| panic!("{:?}", loaded.faults));
    for (path, is_listed) in [("/", true), ("/own/a/", false), ("/b/", true), ("/blog/c/", false)] {
        assert!(matches!(site.get(path), Some(SiteEntry::Page(_))), "{path}");
        assert_eq!(site.pages.iter().any(|page| page.path == path), is_listed, "{path}");
    }
    let [html, _] = texts(&site, "/blog/").expect("a page");
    assert!(html.contains("/blog/c/"), "people still find the post: {html}");
}

#[test]
fn aliases_are_relative_to_the_folder_of_their_page() {
    let mut bench = Bench::new();
    for (file, aliases) in
        [("docs/a", "[/old/, next, ../up/, /a%20b]"), ("docs/b", "[next/../then, a/]"), ("next", "[]")]
    {
        bench.write(
            &format!("pages/{file}.md"),
            &format!("---\ntitle: T\ndescription: D.\naliases: {aliases}\n---\n"),
        );
    }
    let loaded = bench.cache.load(bench.folder.path(), &bench.options, &[]);
    let site = loaded.site.unwrap_or_else(|| panic!("{:?}", loaded.faults));
    for (path, expected) in [
        ("/old/", Some("/docs/a/")),
        ("/old", Some("/docs/a/")),
        ("/docs/next", Some("/docs/a/")),
        ("/up/", Some("/docs/a/")),
        ("/a b", Some("/docs/a/")),
        ("/docs/then", Some("/docs/b/")),
        // As in Zola, an alias is also relative to the root, unless the path is in use.
        ("/then", Some("/docs/b/")),
        ("/a/", Some("/docs/b/")),
        ("/docs/a", Some("/docs/a/")),
        ("/next", Some("/next/")),
        ("/a%20b", None),
    ] {
        let target = match site.get(path) {
            Some(SiteEntry::Redirect(redirect)) => Some(redirect.to.as_str()),
            _ => None,
        };
        assert_eq!(target, expected, "{path}");
    }
}

#[test]
fn a_link_to_a_source_file_leads_to_its_page_unless_a_file_is_there() {
    let mut bench = Bench::new();
    bench.options.reserved = vec!["/agents.md"];
    let page = |more: &str| format!("---\ntitle: T\ndescription: D.\n{more}\n---\n");
    let links = "[1](/g/in.md) [2](/pages/g/in.md#top) [3](/notes.md) [4](/agents.md) [5](/a.md)";
    bench.write("pages/a.md", &format!("{}{links}", page("")));
    bench.write("pages/g/in.md", &page(""));
    bench.write("pages/notes.md", &page("slug: other"));
    bench.write("pages/agents.md", &page("slug: for-agents"));
    bench.write("static/notes.md", "notes");
    let loaded = bench.cache.load(bench.folder.path(), &bench.options, &[]);
    let site = loaded.site.unwrap_or_else(|| panic!("{:?}", loaded.faults));
    let [html, _] = texts(&site, "/a/").expect("a page");
    for (text, href) in [(1, "/g/in/"), (2, "/g/in/#top"), (3, "/notes.md"), (4, "/agents.md"), (5, "/a.md")]
    {
        assert!(html.contains(&format!("<a href=\"{href}\">{text}</a>")), "{href} {html}");
    }
    assert!(loaded.faults.iter().all(|fault| fault.place != "pages/a.md"), "{:?}", loaded.faults);
}

#[test]
fn the_name_of_a_file_may_end_with_its_language() {
    let mut bench = Bench::new();
    bench.options.languages = vec!["en".into(), "de".into()];
    for (file, title) in [("about.de.md", "Über"), ("docs/index.de.md", "Doku"), ("v1.2.md", "Version")] {
        bench.write(&format!("pages/{file}"), &format!("---\ntitle: {title}\ndescription: D.\n---\n"));
    }
    let loaded = bench.cache.load(bench.folder.path(), &bench.options, &[]);
    let site = loaded.site.unwrap_or_else(|| panic!("{:?}", loaded.faults));
    let title = |path: &str| site.pages.iter().find(|page| page.path == path).map(|page| &*page.title);
    assert_eq!((title("/de/about/"), title("/de/docs/")), (Some("Über"), Some("Doku")));
    assert_eq!((title("/v1.2/"), title("/about.de/")), (Some("Version"), None));
    let german = site.pages.iter().find(|page| page.path == "/de/about/").expect("a page");
    assert_eq!(german.translations.len(), 2, "{:?}", german.translations);
}

#[test]
fn the_index_of_one_language_withholds_pages_and_images() {
    let mut bench = Bench::new();
    bench.options.languages = vec!["en".into(), "de".into()];
    for (file, matter) in [
        ("x/_index.de", "draft: true\ncascade: {draft: true}"),
        ("x/a", "nav: 1"),
        ("x/b.de", "nav: 1"),
        ("y/index.de", "render: n"),
        ("_drafts/in/index", "nav: 1"),
    ] {
        bench.write(&format!("pages/{file}.md"), &format!("---\ntitle: T\ndescription: D.\n{matter}\n---\n"));
    }
    for folder in ["x", "y", "_drafts"] {
        bench.write(&format!("pages/{folder}/p.png"), "picture");
    }
    let loaded = bench.cache.load(bench.folder.path(), &bench.options, &[]);
    let site = loaded.site.unwrap_or_else(|| panic!("{:?}", loaded.faults));
    for (path, is_served) in [
        ("/x/a/", true),
        ("/x/p.png", true),
        ("/de/x/", false),
        ("/de/x/b/", false),
        ("/y/p.png", false),
        ("/_drafts/p.png", false),
    ] {
        assert_eq!(site.get(path).is_some(), is_served, "{path}");
    }
}

#[test]
fn files_whose_paths_cannot_be_requested_are_reported() {
    let mut bench = Bench::new();
    bench.write("static/a\\b.txt", "text");
    bench.write("assets/c\u{7}.png", "picture");
    let loaded = bench.cache.load(bench.folder.path(), &bench.options, &[]);
    assert!(loaded.site.is_some());
    let named = |fault: &&Fault| fault.message.contains("cannot be requested");
    assert_eq!(loaded.faults.iter().filter(named).count(), 2, "{:?}", loaded.faults);
}

#[test]
fn compressed_drawings_have_their_content_coding() {
    let bench = Bench::new();
    for name in ["static/a.svgz", "assets/a.svgz"] {
        let at = bench.folder.path().join(name);
        std::fs::create_dir_all(at.parent().expect("a folder")).expect("a folder");
        std::fs::write(at, [0x1f, 0x8b, 8, 0]).expect("a file");
    }
    let site = load(bench.folder.path(), &bench.options, &[]).site.expect("a site");
    for path in ["/a.svgz", "/assets/a.svgz"] {
        let Some(SiteEntry::File(file, _)) = site.get(path) else { panic!("{path} is no file") };
        let coding = (http::header::CONTENT_ENCODING, http::HeaderValue::from_static("gzip"));
        assert!(file.media_type == "image/svg+xml" && file.headers.contains(&coding), "{path}: {file:?}");
    }
}

#[test]
fn only_a_file_named_index_html_is_served_at_its_folder() {
    let mut bench = Bench::new();
    bench.write("static/myindex.html", "<p>mine</p>");
    bench.write("static/my", "text");
    bench.write("static/in/index.html", "<p>in</p>");
    let loaded = bench.cache.load(bench.folder.path(), &bench.options, &[]);
    assert!(loaded.faults.iter().all(|fault| !fault.place.starts_with("static/")), "{:?}", loaded.faults);
    let site = loaded.site.expect("a valid site");
    let body = |path: &str| match site.get(path) {
        Some(SiteEntry::File(file, _)) => String::from_utf8_lossy(&file.unencoded().bytes).into_owned(),
        other => format!("{other:?}"),
    };
    assert_eq!(["/my", "/myindex.html", "/in/"].map(body), ["text", "<p>mine</p>", "<p>in</p>"]);
    assert!(matches!(site.get("/in"), Some(SiteEntry::Redirect(redirect)) if redirect.to == "/in/"));
}

#[test]
fn assets_with_one_path_are_a_fault() {
    let bench = Bench::new();
    for file in ["pages/assets/b.svg", "assets/b.svg", "pages/blog/c.svg", "posts/c.svg", "assets/style.css"]
    {
        bench.write(file, file);
    }
    bench.write("static/d.svg", "d");
    bench.write("pages/d.svg", "d");
    let loaded = load(bench.folder.path(), &bench.options, &[]);
    let errors = loaded.faults.iter().filter(|fault| fault.severity == Severity::Error);
    assert_eq!(
        errors.map(|fault| format!("{}: {}", fault.place, fault.message)).collect::<Vec<_>>(),
        [
            "assets/b.svg: the path `/assets/b.svg` is taken by pages/assets/b.svg",
            "pages/d.svg: the path `/d.svg` is taken by static/d.svg",
            "posts/c.svg: the path `/blog/c.svg` is taken by pages/blog/c.svg",
        ]
    );
}

#[test]
fn the_name_of_an_asset_means_the_file_in_assets_or_the_theme() {
    let mut bench = Bench::new();
    for file in ["assets/logo.svg", "pages/logo.svg", "pages/favicon.svg", "pages/docs/only.svg"] {
        bench.write(file, &format!("<svg id=\"{file}\"/>"));
    }
    let own = "{{ asset('logo.svg') }} {{ asset('favicon.svg') }} {{ asset('docs/only.svg') }}";
    bench.write("theme/page.html", own);
    let site = bench.cache.load(bench.folder.path(), &bench.options, &[]).site.expect("a valid site");
    let [html, _] = texts(&site, "/about/").expect("a page");
    let urls: Vec<&str> = html.split(' ').collect();
    for (url, expected) in urls.iter().zip(["/assets/logo.", "/assets/favicon.", "/docs/only."]) {
        assert!(url.starts_with(expected), "{html}");
    }
}

#[test]
fn the_markdown_of_the_404_page_escapes_titles_and_descriptions() {
    let mut bench = Bench::new();
    let page = |matter: &str| format!("---\n{matter}\n---\n");
    bench.write("pages/about.md", &page("title: List[T] <b>\ndescription: a *b* [c](d)\nnav: 1"));
    bench.write("pages/bare.md", &page("title: Bare\nnav: 2"));
    let site = bench.cache.load(bench.folder.path(), &bench.options, &[]).site.expect("a valid site");
    let text = String::from_utf8_lossy(&site.not_found.markdown.unencoded().bytes).into_owned();
    let base = "https://www.example.com";
    let (title, description) =
        (frontdesk_convert::escape_text("List[T] <b>"), frontdesk_convert::escape_sentence("a *b* [c](d)"));
    assert!(text.contains(&format!("\n- [{title}]({base}/about/): {description}\n")), "{text}");
    assert!(text.contains(&format!("\n- [Bare]({base}/bare/)\n")), "{text}");
}

#[test]
fn footer_links_to_pages_are_encoded_and_marked_as_current() {
    let mut bench = Bench::new();
    bench.options.languages = vec!["en".into(), "de".into()];
    for (file, title) in [("größe", "Sizes"), ("de/index", "Start"), ("de/größe", "Größen")] {
        bench.write(&format!("pages/{file}.md"), &format!("---\ntitle: {title}\ndescription: D.\n---\n"));
    }
    for written in ["/größe/", "/gr%C3%B6%C3%9Fe/"] {
        let links = vec![FooterLink { title: None, href: written.into() }];
        bench.options.footer = vec![FooterGroup { title: "More".into(), language: None, links }];
        let site = bench.cache.load(bench.folder.path(), &bench.options, &[]).site.expect("a valid site");
        for (prefix, title) in [("", "Sizes"), ("/de", "Größen")] {
            let [html, _] = texts(&site, &format!("{prefix}/größe/")).expect("a page");
            let link = format!("<a href=\"{prefix}/gr%C3%B6%C3%9Fe/\" aria-current=\"page\">{title}</a>");
            assert!(html.contains(&link), "{written} {html}");
        }
    }
}
