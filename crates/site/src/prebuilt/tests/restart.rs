//! Tests of loads that use the conversions of an earlier process.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::atomic::AtomicBool;

use super::*;

static GO: AtomicBool = AtomicBool::new(false);

/// A build of six pages whose menu is left out, so that each has two conversions.
fn bench() -> (Bench, tempfile::TempDir) {
    let text = |title: &str| {
        page(
            &format!("{title} – Site"),
            &format!("<p>{title}</p><p>{PROSE}</p><script>{title}()</script>{MENU}"),
        )
    };
    let mut bench = Bench::new(&[]);
    for name in ["index", "a", "b", "c", "d", "e"] {
        bench.write(&format!("{name}.html"), &text(name));
    }
    let data = tempfile::tempdir().expect("a folder");
    restart(&mut bench, data.path());
    (bench, data)
}

const MENU: &str = "<ul><li><a href=/a>A</a><li><a href=/b>B</a></ul>";

const PROSE: &str = "Enough text that the page does not seem to need its scripts.";

/// Forgets everything in memory, as a new process does.
fn restart(bench: &mut Bench, data: &Path) -> Arc<ConversionCache> {
    let cache = Arc::new(ConversionCache::new(data.join("conversions")));
    bench.cache = LoadCache::new(cache.clone(), &[]);
    cache
}

/// Loads the site and stores its conversions.
fn run(bench: &mut Bench, data: &Path) -> Site {
    let cache = restart(bench, data);
    let site = bench.site();
    cache.store(&GO).expect("the cache is writable");
    site
}

/// The response at each path.
fn responses(site: &Site) -> BTreeMap<String, String> {
    let file = |file: &File| {
        let body = file.unencoded();
        format!("{:?} {:?} {:?} {}", body.bytes, body.etag(), file.headers, file.media_type)
    };
    let describe = |entry: &SiteEntry| match entry {
        SiteEntry::Page(page) => format!("{} {}", file(&page.html), file(&page.markdown)),
        SiteEntry::File(one, _) => file(one),
        other => format!("{other:?}"),
    };
    site.entries().map(|(path, entry)| (path.into_owned(), describe(entry))).collect()
}

/// The names and contents of the cached files.
fn cached(data: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(data.join("conversions")).into_iter().flatten().flatten();
    let read = |entry: fs::DirEntry| {
        (entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path()).expect("a file"))
    };
    entries.map(read).collect()
}

/// Replaces `/a`'s text in the cache, so that a load that uses the cache has a different site.
fn mark_cache(data: &Path) {
    for (name, file) in cached(data) {
        let inputs = Hash::from_hex(&name).expect("a hash");
        let mut conversion = conversion_cache::parse(&file.into(), &inputs).expect("a conversion");
        let marked = conversion.text().replace("\na\n", "\nfrom the cache\n");
        conversion.markdown = conversion.markdown.map(|_| marked.into());
        let file = conversion_cache::serialize(&inputs, &conversion).expect("JSON");
        fs::write(data.join("conversions").join(name), file).expect("a file");
    }
}

#[test]
fn a_restart_serves_the_same_from_the_cache() {
    let (mut bench, data) = bench();
    let first = run(&mut bench, data.path());
    let text = markdown(&first, "/a");
    assert!(text.contains("\n# a – Site\n\na\n") && !text.contains("[A]"), "{text}");
    let files = cached(data.path());
    assert_eq!(files.len(), 12, "two conversions of each page");
    let again = run(&mut bench, data.path());
    assert_eq!(responses(&again), responses(&first));
    assert_eq!(cached(data.path()), files);
    let mode = |path: &Path| fs::metadata(path).expect("it exists").permissions().mode() & 0o777;
    let folder = data.path().join("conversions");
    assert_eq!(mode(&folder), 0o700);
    assert!(files.keys().all(|name| mode(&folder.join(name)) == 0o600));

    mark_cache(data.path());
    let marked = markdown(&run(&mut bench, data.path()), "/a");
    assert!(
        marked.contains("\n# a – Site\n\nfrom the cache\n"),
        "the conversion was not taken from the cache: {marked}"
    );
}

#[test]
fn what_a_conversion_depends_on_is_never_taken_from_another() {
    let (mut bench, data) = bench();
    run(&mut bench, data.path());
    mark_cache(data.path());
    let mut check = |change: fn(&mut Bench), is_cached: bool| {
        change(&mut bench);
        let text = markdown(&run(&mut bench, data.path()), "/a");
        assert_eq!(text.contains("from the cache"), is_cached, "{text}");
        // The cache has the conversions of the last load only.
        run(&mut bench, data.path());
        assert_eq!(cached(data.path()).len(), 12);
        mark_cache(data.path());
    };
    check(|_| {}, true);
    check(|bench| bench.options.base_url = "https://example.org".into(), false);
    check(|bench| bench.build().exclude = "footer".into(), false);
    check(|bench| bench.build().main = "main".into(), false);
    check(
        |bench| bench.write("a.html", &page("a – Site", &format!("<p>a</p>\n<p>{PROSE}</p>{MENU}"))),
        false,
    );
    check(|bench| bench.options.title = "Title".into(), true);
    // Another page has no effect, but if the menu is not on nearly all pages any more, it is not left out.
    check(
        |bench| bench.write("e.html", &page("e – Site", &format!("<p>more</p><p>{PROSE}</p>{MENU}"))),
        true,
    );
    for name in ["c", "d", "e"] {
        bench.write(&format!("{name}.html"), &page(&format!("{name} – Site"), &format!("<p>{PROSE}</p>")));
    }
    let text = markdown(&run(&mut bench, data.path()), "/a");
    assert!(text.contains("\n- [A]"), "{text}");
}

#[test]
fn damaged_conversions_are_made_again() {
    let (mut bench, data) = bench();
    let first = responses(&run(&mut bench, data.path()));
    let whole = cached(data.path());
    let folder = data.path().join("conversions");
    for (at, (name, file)) in whole.iter().enumerate() {
        let damaged = match at % 3 {
            0 => file[..file.len() / 2].to_vec(),
            1 => Vec::new(),
            _ => {
                let mut flipped = file.clone();
                flipped[file.len() / 3] ^= 1;
                flipped
            }
        };
        fs::write(folder.join(name), damaged).expect("a file");
    }
    assert_eq!(responses(&run(&mut bench, data.path())), first);
    assert_eq!(cached(data.path()), whole, "repaired");
    let (name, file) = whole.first_key_value().expect("a file");
    let inputs = Hash::from_hex(name).expect("a hash");
    for at in 0..file.len() {
        let mut flipped = file.clone();
        flipped[at] ^= 1 << (at % 8);
        assert!(conversion_cache::parse(&flipped.into(), &inputs).is_none(), "a bit of byte {at}");
    }
    let other = blake3::hash(b"other");
    assert!(conversion_cache::parse(&file.clone().into(), &other).is_none());
}

#[test]
fn conversions_of_removed_pages_are_dropped() {
    let (mut bench, data) = bench();
    run(&mut bench, data.path());
    fs::write(data.path().join("conversions/notes.txt"), "own").expect("a file");
    fs::remove_file(bench.folder.path().join("e.html")).expect("the page exists");
    run(&mut bench, data.path());
    assert_eq!(cached(data.path()).len(), 11, "5 pages and the foreign file");
    let cache = restart(&mut bench, data.path());
    bench.write("d.html", &page("d – Site", &format!("<p>new</p><p>{PROSE}</p>")));
    bench.site();
    let stopped = AtomicBool::new(true);
    cache.store(&stopped).expect("writes nothing");
    assert_eq!(cached(data.path()).len(), 11);
    cache.store(&GO).expect("the cache is writable");
    assert_eq!(cached(data.path()).len(), 6, "the menu is not on nearly all pages any more");
    assert!(markdown(&run(&mut bench, data.path()), "/d").contains("new"));
}

#[test]
fn a_reload_keeps_the_conversions_that_it_still_uses() {
    let (mut bench, data) = bench();
    let cache = restart(&mut bench, data.path());
    bench.site();
    bench.write("a.html", &page("a – Site", &format!("<p>changed</p><p>{PROSE}</p>{MENU}")));
    let site = bench.site();
    cache.store(&GO).expect("the cache is writable");
    let files = cached(data.path());
    assert_eq!(files.len(), 12);
    assert_eq!(responses(&run(&mut bench, data.path())), responses(&site));
    assert_eq!(cached(data.path()), files, "the restart converted nothing");
}

#[test]
fn a_site_is_loaded_without_a_writable_cache() {
    let (mut bench, data) = bench();
    let expected = responses(&bench.site());
    let cache = restart(&mut bench, Path::new("/proc"));
    assert_eq!(responses(&bench.site()), expected);
    assert!(cache.store(&GO).is_err());
    assert!(cache.store(&GO).is_ok(), "the same failure is reported once");
    assert!(cache.store(&AtomicBool::new(true)).is_ok(), "it ends early and stores nothing");
    assert!(cache.store(&GO).is_ok(), "the failure was reported already");
    // The data folder may not be mounted, so it is not created.
    let missing = data.path().join("missing");
    let cache = restart(&mut bench, &missing);
    assert_eq!(responses(&bench.site()), expected);
    let error = cache.store(&GO).expect_err("the data folder is missing");
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
    assert!(!missing.exists());
    // Once it exists, what could not be stored is stored.
    fs::create_dir(&missing).expect("the parent exists");
    cache.store(&GO).expect("the cache is writable");
    assert_eq!(cached(&missing).len(), 12);
    // After a success, another failure is reported.
    fs::remove_dir_all(&missing).expect("it exists");
    bench.write("a.html", &page("a – Site", &format!("<p>changed</p><p>{PROSE}</p>{MENU}")));
    bench.site();
    assert!(cache.store(&GO).is_err());
}

#[test]
fn two_processes_share_a_cache() {
    let (mut bench, data) = bench();
    let caches: Vec<_> = (0..4)
        .map(|_| {
            let cache = restart(&mut bench, data.path());
            bench.site();
            cache
        })
        .collect();
    std::thread::scope(|scope| {
        for cache in &caches {
            scope.spawn(|| cache.store(&GO).expect("the cache is writable"));
        }
    });
    let files = cached(data.path());
    assert_eq!(files.len(), 12);
    for (name, file) in files {
        let inputs = Hash::from_hex(&name).expect("a hash");
        assert!(conversion_cache::parse(&file.into(), &inputs).is_some());
    }
}

#[test]
fn large_builds_are_the_same_on_disk() {
    let (mut bench, data) = bench();
    let expected = responses(&bench.site());
    let mut spill = PageSpill::new(vec![data.path().to_owned()]);
    spill.set_min_total(1);
    let places = CachePlaces { conversions: None, spill: Arc::new(spill) };
    let mut build = BuildCache::new(places);
    let options = bench.options.clone();
    let mut load = || {
        let mut faults = Vec::new();
        let publication_options = options.publication.clone();
        let mut publication = Publication::new(&publication_options);
        let of = options.build.as_ref().expect("a build");
        let pages = build.load(of, &options, &[], &mut publication, &mut faults).expect("no changes");
        assert_eq!(faults, []);
        let mut site = Site::new(&options, plain_not_found_page(&RuleList::default()));
        pages.insert_into(&mut site, &mut Vec::new());
        responses(&site)
    };
    let expected: BTreeMap<_, _> =
        expected.into_iter().filter(|(path, _)| load().contains_key(path)).collect();
    assert_eq!(load(), expected);
    assert!(expected.contains_key("/a"));
    assert_eq!(fs::read_dir(data.path()).expect("a folder").count(), 0);
}
