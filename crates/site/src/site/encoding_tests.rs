//! Tests that a site keeps and uses the encodings of its files.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use frontdesk_negotiate::Encoding;
use frontdesk_process::page_spill::PageSpill;

use crate::file::{Cache, File};
use crate::{Encodings, Page, PagesOptions, Role, Site, SiteEntry};

const TEXT: &str = "text/plain; charset=utf-8";

static GO: AtomicBool = AtomicBool::new(false);

fn site(texts: &[&str]) -> Site {
    let missing = Arc::new(File::new(TEXT, Cache::Revalidate, "none"));
    let page = Page::new(missing.clone(), missing, "/".into(), "/".into());
    let options = PagesOptions { base_url: "https://www.example.com".into(), ..PagesOptions::default() };
    let mut site = Site::new(&options, page);
    for (number, text) in texts.iter().enumerate() {
        site.insert_resource(&format!("/{number}"), File::new(TEXT, Cache::Revalidate, (*text).to_owned()));
    }
    site
}

fn file(site: &Site, path: &str) -> Arc<File> {
    match site.get(path) {
        Some(SiteEntry::File(file, Role::Resource)) => file.clone(),
        other => panic!("{other:?}"),
    }
}

fn names(encodings: &Encodings) -> Vec<String> {
    let entries = fs::read_dir(&encodings.folder).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort_unstable();
    names
}

#[test]
fn cached_encodings_are_used_by_the_next_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let encodings = Encodings::new(folder.path().join("encodings"));
    let text = "A line that repeats itself, more or less.\n".repeat(50);
    let first = site(&[&text, "short"]);
    first.compress(usize::MAX, Some(&encodings));
    let quick = file(&first, "/0").body(Encoding::Gzip).etag().to_owned();
    assert!(first.strengthen(&encodings, &GO).expect("the cache is writable"));
    assert_eq!(names(&encodings).len(), 1, "the short text is sent unencoded");
    let mode = |path: &Path| fs::metadata(path).expect("the file exists").permissions().mode() & 0o777;
    assert_eq!(mode(&encodings.folder), 0o700);
    assert_eq!(mode(&encodings.folder.join(&names(&encodings)[0])), 0o600);
    assert!(
        first.strengthen(&encodings, &GO).expect("the cache is readable"),
        "this site does not use them yet"
    );
    let with_them = first.strengthened(&encodings);
    assert!(
        !with_them.strengthen(&encodings, &GO).expect("the cache is readable"),
        "no encodings are missing"
    );

    let second = site(&[&text]);
    second.compress(usize::MAX, Some(&encodings));
    let (strong, swapped) = (file(&second, "/0"), file(&first.strengthened(&encodings), "/0"));
    assert!(strong.is_strong() && swapped.is_strong() && !file(&first, "/0").is_strong());
    for encoding in Encoding::PREFERENCE {
        assert!(strong.has_encoding(encoding));
        assert_eq!(strong.body(encoding).bytes, swapped.body(encoding).bytes);
    }
    assert_ne!(strong.body(Encoding::Gzip).etag(), quick, "different bytes have a different ETag");
    assert_eq!(strong.unencoded().etag(), file(&first, "/0").unencoded().etag());
    let mut unpacked = Vec::new();
    brotli_decompressor::BrotliDecompress(&mut &strong.body(Encoding::Brotli).bytes[..], &mut unpacked)
        .expect("brotli");
    assert_eq!(unpacked, text.as_bytes());
}

#[test]
fn quick_encodings_of_a_large_site_are_on_disk() {
    let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a folder");
    let mut spill = PageSpill::new(vec![folder.path().to_owned()]);
    spill.set_min_total(1);
    spill.begin(1);
    let spill = Arc::new(spill);
    let long: String = (0..20_000_u64).map(|n| format!("{:x} ", n.wrapping_mul(n) % 9_973)).collect();
    let mut site = site(&[&long]);
    site.spills = vec![spill.clone()];
    site.compress(usize::MAX, None);
    // Forgets what is mapped: the bytes are then read from the file.
    spill.note_read(usize::MAX / 2);
    let body = file(&site, "/0");
    let gzip = &body.body(Encoding::Gzip).bytes;
    let mut unpacked = String::new();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(&gzip[..]), &mut unpacked).expect("gzip");
    assert_eq!(unpacked, long);
    let maps = fs::read_to_string("/proc/self/maps").expect("Linux");
    let is_mapped = |encoding| {
        let address = body.body(encoding).bytes.as_ptr() as usize;
        maps.lines().filter(|line| line.ends_with(" (deleted)")).any(|line| {
            let range = line.split(' ').next().and_then(|range| range.split_once('-'));
            let parse = |text| usize::from_str_radix(text, 16).expect("an address");
            range.is_some_and(|(start, end)| (parse(start)..parse(end)).contains(&address))
        })
    };
    assert!(Encoding::PREFERENCE.into_iter().all(is_mapped), "{maps}");
}

#[test]
fn files_are_served_if_the_cache_cannot_be_written() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("file"), "x").expect("the cache is writable");
    let encodings = Encodings::new(folder.path().join("file/encodings"));
    let site = site(&["A line that repeats itself.\n".repeat(20).as_str()]);
    site.compress(usize::MAX, Some(&encodings));
    assert!(file(&site, "/0").has_encoding(Encoding::Brotli));
    assert!(site.strengthen(&encodings, &GO).is_err());
}
