//! Smaller variants of large images, which narrow screens load instead of the original.
//!
//! A page names the variants in `srcset`. Their names depend only on the original and the width, so a page
//! does not change when variants become ready. Until then, the server sends the original at a variant's path
//! and asks caches to revalidate. A background thread creates variants and stores them beside the strong
//! encodings in the data folder; requests never wait for it.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use blake3::Hash;
use bytes::Bytes;
use frontdesk_media::scale_down;

use super::file::{Cache, Encodings, File};
use super::images::{LargeImage, Variant, WIDTHS};
use super::path;
use super::site::{Role, Site, SiteEntry};
use super::site_files::Asset;
use crate::fault::Fault;
use frontdesk_process::cache_files::{build_cache_file, parse_cache_file};
use frontdesk_process::panics::{self, Part};
use frontdesk_process::parallel::in_parallel;
use frontdesk_process::progress;
use frontdesk_publish::media_type::media_type;

/// The beginning of each cached variant. Increment the number if the format, the scaler or an encoder
/// changes.
const MAGIC: &[u8] = b"frontdesk image 3\n";

/// The prefix of the names of cached variants. Compressed files in the same cache have names without it.
const PREFIX: &str = "image-";

/// The original image, served at a variant's path while the variant is missing. Caches must revalidate it.
fn placeholder(image: &LargeImage) -> File {
    File::from_blob(media_type(&image.file), Cache::Revalidate, image.original.clone())
}

/// Whether an entry serves the original of an image, as [`placeholder`] does.
fn is_placeholder(entry: &SiteEntry, image: &LargeImage) -> bool {
    matches!(entry, SiteEntry::File(file, _) if file.hash == image.original.hash)
}

/// Inserts an entry for each variant, unless its path is in use. The entry serves the original at first. Adds
/// the images to [`Site::large_images`]. Skips assets that do not have a variant of each width.
pub(super) fn insert_variants<'a>(site: &mut Site, assets: impl Iterator<Item = (&'a Asset, &'a [Variant])>) {
    for (asset, variants) in assets {
        let decoded = |variant: &Variant| path::decode(&variant.href).map(std::borrow::Cow::into_owned).ok();
        let names: Vec<String> = variants.iter().filter_map(decoded).collect();
        let Ok(variants) = <[String; WIDTHS.len()]>::try_from(names) else { continue };
        let image = LargeImage { file: asset.file.clone(), original: asset.blob.clone(), variants };
        let file = Arc::new(placeholder(&image));
        for name in &image.variants {
            let entry = SiteEntry::File(file.clone(), Role::Asset);
            site.entries.entry(name.as_str().into()).or_insert(entry);
        }
        site.large_images.push(image);
    }
}

impl Site {
    /// Makes the site serve the variants that are in the cache. Reads their files on all cores.
    pub fn use_variants(&mut self, cache: &Encodings) {
        self.set_variants(|image| WIDTHS.map(|width| read_variant(cache, image.original.hash, width)));
    }

    /// Makes the site serve all variants. Creates all variants of an image if one is missing from the cache,
    /// on all cores, and stores nothing.
    pub(super) fn use_variants_now(&mut self, cache: &Encodings) {
        self.set_variants(|image| {
            let cached = WIDTHS.map(|width| read_variant(cache, image.original.hash, width));
            if cached.iter().all(Option::is_some) { cached } else { create_variants(image).map(Some) }
        });
    }

    /// Returns a warning for each large image that cannot be scaled. Scales the images that have no cached
    /// variant, or only empty ones, on all cores, and stores nothing. Only the narrowest variant is created,
    /// which takes less time than all of them and fails for the same images.
    pub fn variant_faults(&self, cache: &Encodings) -> Vec<Fault> {
        let check = |image: &LargeImage| {
            let hash = image.original.hash;
            let is_stored = |width: &u32| read_variant(cache, hash, *width).is_some_and(|v| !v.is_empty());
            if WIDTHS.iter().any(is_stored) {
                return None;
            }
            let error = scale(&image.original.bytes, &WIDTHS[..1]).err()?;
            let message =
                format!("no smaller variants can be created, so all screens load the original: {error}");
            let hint = format!(
                "export the image again, or save it at most {} pixels wide",
                WIDTHS[WIDTHS.len() - 1]
            );
            Some(Fault::warning(&*image.file, None, message).hint(hint))
        };
        progress::begin("images", self.large_images.len() as u64);
        in_parallel(&self.large_images, check).into_iter().flatten().collect()
    }

    /// Makes the site serve the variants that `find` returns, in place of the originals. An entry stays as it
    /// is where `find` returns none or an empty one, and where a file of the operator has the variant's path.
    fn set_variants(&mut self, find: impl Fn(&LargeImage) -> [Option<Bytes>; WIDTHS.len()] + Sync) {
        progress::begin("images", self.large_images.len() as u64);
        let found = in_parallel(&self.large_images, |image| {
            progress::advance(1);
            find(image)
        });
        for (image, variants) in self.large_images.iter().zip(found) {
            for (name, variant) in image.variants.iter().zip(variants) {
                // An empty variant means that the original is served instead.
                let Some(bytes) = variant.filter(|bytes| !bytes.is_empty()) else { continue };
                let file = File::new(media_type(&image.file), Cache::Immutable, bytes);
                if let Some(entry) = self.entries.get_mut(name.as_str())
                    && is_placeholder(entry, image)
                {
                    *entry = SiteEntry::File(Arc::new(file), Role::Asset);
                }
            }
        }
    }

    /// Creates and stores the variants of the images that lack one in the cache, one image at a time, and
    /// removes those of other images from the cache. Takes up to a few seconds per image. Once `stop` is set,
    /// returns before the next image that lacks one, and then removes nothing. Returns whether the cache may
    /// have variants that this site does not serve yet. Fails at the first file that cannot be written.
    pub fn create_missing_variants(&self, cache: &Encodings, stop: &AtomicBool) -> io::Result<bool> {
        let mut is_new = false;
        for image in &self.large_images {
            let hash = image.original.hash;
            if WIDTHS.iter().any(|width| read_variant(cache, hash, *width).is_none()) {
                if stop.load(Ordering::Relaxed) {
                    return Ok(is_new);
                }
                for (width, bytes) in WIDTHS.into_iter().zip(create_variants(image)) {
                    cache.write_file(&cache_name(hash, width), &serialize(hash, width, &bytes))?;
                }
                is_new = true;
            } else {
                is_new |= self.serves_placeholder(image, cache);
            }
        }
        let names =
            self.large_images.iter().flat_map(|image| WIDTHS.map(|width| (image.original.hash, width)));
        let used: HashSet<String> = names.map(|(hash, width)| cache_name(hash, width)).collect();
        cache.remove_files(|name| name.starts_with(PREFIX), &used)?;
        Ok(is_new)
    }

    /// Whether the site serves the original instead of a variant that is in the cache.
    fn serves_placeholder(&self, image: &LargeImage, cache: &Encodings) -> bool {
        image.variants.iter().zip(WIDTHS).any(|(name, width)| {
            self.get(name).is_some_and(|entry| is_placeholder(entry, image))
                && read_variant(cache, image.original.hash, width).is_some_and(|bytes| !bytes.is_empty())
        })
    }
}

/// Creates the variants of an image. A variant is empty if it would not be smaller than the original, or if
/// the image cannot be scaled, which is logged.
fn create_variants(image: &LargeImage) -> [Bytes; WIDTHS.len()] {
    let original = &image.original.bytes;
    match scale(original, &WIDTHS) {
        Ok(scaled) => {
            let mut scaled = scaled.into_iter();
            WIDTHS.map(|_| {
                let smaller = scaled.next().filter(|bytes| bytes.len() < original.len());
                smaller.map(Bytes::from).unwrap_or_default()
            })
        }
        Err(error) => {
            tracing::warn!(%error, "cannot scale {}; serving the original to all screens", image.file);
            WIDTHS.map(|_| Bytes::new())
        }
    }
}

/// Scales an image down to each of `widths`. The error says why that is not possible. A panic of the decoder
/// becomes an error, too.
fn scale(original: &[u8], widths: &[u32]) -> Result<Vec<Vec<u8>>, String> {
    let scale = || {
        panics::inject("variant", "");
        scale_down(original, widths)
    };
    match panics::catch(Part::Content, scale) {
        Ok(scaled) => scaled.map_err(|error| error.to_string()),
        Err(panic) => Err(panic.with_message()),
    }
}

fn cache_name(original: Hash, width: u32) -> String {
    format!("{PREFIX}{}-{width}", original.to_hex())
}

/// The stored variant; empty if the original is served instead. `None` if the file is missing or damaged.
fn read_variant(cache: &Encodings, original: Hash, width: u32) -> Option<Bytes> {
    parse(&std::fs::read(cache.folder.join(cache_name(original, width))).ok()?.into(), original, width)
}

fn serialize(original: Hash, width: u32, variant: &[u8]) -> Vec<u8> {
    build_cache_file(&[MAGIC, original.as_bytes(), &width.to_le_bytes()], variant)
}

/// Parses the output of [`serialize`]. `None` if the file is damaged or belongs to another image or width.
fn parse(file: &Bytes, original: Hash, width: u32) -> Option<Bytes> {
    parse_cache_file(file, &[MAGIC, original.as_bytes(), &width.to_le_bytes()])
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{PagesOptions, load};

    static GO: AtomicBool = AtomicBool::new(false);

    /// A site with one page that shows `assets/a.png`.
    fn site(image: &[u8]) -> (tempfile::TempDir, Site) {
        let folder = tempfile::tempdir().expect("a folder");
        for part in ["pages", "assets"] {
            fs::create_dir(folder.path().join(part)).expect("a folder");
        }
        let page = "---\ntitle: T\ndescription: D.\n---\n![A](/assets/a.png)\n";
        fs::write(folder.path().join("pages/index.md"), page).expect("a file");
        fs::write(folder.path().join("assets/a.png"), image).expect("a file");
        let site = load_site(folder.path());
        (folder, site)
    }

    fn load_site(folder: &std::path::Path) -> Site {
        let options = PagesOptions { base_url: "https://www.example.com".into(), ..PagesOptions::default() };
        let loaded = load(folder, &options, &[]);
        loaded.site.unwrap_or_else(|| panic!("{:?}", loaded.faults))
    }

    fn html(site: &Site) -> String {
        let Some(SiteEntry::Page(page)) = site.get("/") else { panic!("no page") };
        String::from_utf8_lossy(&page.html.unencoded().bytes).into_owned()
    }

    fn served(site: &Site, width: u32) -> Arc<File> {
        let name = site.large_images[0].variants.iter().find(|name| name.contains(&format!("-{width}w")));
        match site.get(name.expect("a variant")) {
            Some(SiteEntry::File(file, Role::Asset)) => file.clone(),
            other => panic!("{other:?}"),
        }
    }

    /// A PNG whose pixels are computed from their coordinates.
    fn png(width: u32, height: u32, pixel: impl Fn(u32, u32) -> [u8; 4]) -> Vec<u8> {
        let points = (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
        let pixels: Vec<u8> = points.flat_map(|(x, y)| pixel(x, y)).collect();
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, width, height);
        encoder.set_color(png::ColorType::Rgba);
        let mut file = encoder.write_header().expect("memory");
        file.write_image_data(&pixels).expect("memory");
        drop(file);
        bytes
    }

    /// A wide image whose pixels do not compress well.
    fn photo() -> Vec<u8> {
        let noise = |x: u32, y: u32| {
            let mixed = x.wrapping_mul(374_761_393).wrapping_add(y.wrapping_mul(668_265_263));
            let mixed = (mixed ^ (mixed >> 13)).wrapping_mul(1_274_126_177);
            mixed ^ (mixed >> 16)
        };
        png(1_700, 20, |x, y| {
            let [a, b, c, _] = noise(x, y).to_le_bytes();
            [a, b, c, 255]
        })
    }

    #[test]
    fn the_original_is_served_until_the_variants_are_ready() {
        let original = photo();
        let (folder, mut site) = site(&original);
        let page = html(&site);
        let hash = site.hash().to_owned();
        let name = fingerprint(&original);
        let expected = format!(
            "srcset=\"/assets/a.{name}-800w.png 800w, /assets/a.{name}-1600w.png 1600w, /assets/a.{name}.png 1700w\""
        );
        assert!(page.contains(&expected), "{expected} is not in {page}");
        let cache = Encodings::new(folder.path().join("cache"));
        site.use_variants(&cache);
        assert_eq!(served(&site, 800).unencoded().bytes, original);
        assert_eq!(served(&site, 800).cache, Cache::Revalidate);
        assert_eq!(site.variant_faults(&cache), []);

        assert!(site.create_missing_variants(&cache, &GO).expect("the cache is writable"));
        assert!(site.create_missing_variants(&cache, &GO).expect("readable"), "not served yet");
        let site = site.strengthened(&cache);
        for width in [800, 1_600] {
            let file = served(&site, width);
            assert_eq!(file.cache, Cache::Immutable);
            assert_eq!(file.media_type, "image/png");
            let read = frontdesk_media::read_size(&file.unencoded().bytes);
            assert_eq!(read.expect("a size").width, width);
        }
        assert!(!site.create_missing_variants(&cache, &GO).expect("the cache is readable"));
        assert_eq!(html(&site), page);
        let mut again = load_site(folder.path());
        again.use_variants(&cache);
        assert_eq!(served(&again, 800).cache, Cache::Immutable);
        assert_eq!(again.hash(), hash, "the state of the cache is not part of the site");
    }

    #[test]
    fn a_file_of_the_operator_at_the_path_of_a_variant_stays() {
        let original = photo();
        let (folder, _) = site(&original);
        let own = png(20, 20, |_, _| [0; 4]);
        let path = folder.path().join(format!("static/assets/a.{}-800w.png", fingerprint(&original)));
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, &own).expect("a file");
        let mut site = load_site(folder.path());
        let cache = Encodings::new(folder.path().join("cache"));
        site.create_missing_variants(&cache, &GO).expect("the cache is writable");
        site.use_variants(&cache);
        assert_eq!(served(&site, 800).unencoded().bytes, own);
        assert_eq!(served(&site, 1_600).cache, Cache::Immutable);
    }

    fn fingerprint(bytes: &[u8]) -> String {
        super::super::file::fingerprint(bytes, 10)
    }

    #[test]
    fn only_large_images_have_variants() {
        let (_folder, site) = site(&png(1_600, 2, |_, _| [0; 4]));
        assert!(site.large_images.is_empty());
        assert!(!html(&site).contains("srcset"), "{}", html(&site));
    }

    #[test]
    fn a_damaged_image_is_served_as_it_is() {
        let mut image = photo();
        image.truncate(2_000);
        let (folder, mut site) = site(&image);
        let cache = Encodings::new(folder.path().join("cache"));
        site.create_missing_variants(&cache, &GO).expect("the cache is writable");
        site.use_variants(&cache);
        assert_eq!(served(&site, 800).unencoded().bytes, image);
        assert!(!site.create_missing_variants(&cache, &GO).expect("readable"), "not tried again");
        let faults: Vec<String> = site.variant_faults(&cache).iter().map(ToString::to_string).collect();
        let expected = "assets/a.png: no smaller variants can be created, so all screens load the original: \
                        the image cannot be decoded";
        assert!(faults.len() == 1 && faults[0].starts_with(expected), "{faults:?}");
    }

    #[test]
    fn damaged_cache_files_count_as_missing_and_unused_ones_are_removed() {
        let (folder, site) = site(&photo());
        let cache = Encodings::new(folder.path().join("cache"));
        site.create_missing_variants(&cache, &GO).expect("the cache is writable");
        let hash = site.large_images[0].original.hash;
        let file = cache.folder.join(cache_name(hash, 800));
        let whole = fs::read(&file).expect("the variant");
        for at in [0, 20, 60, whole.len() / 2, whole.len() - 1] {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            assert_eq!(parse(&damaged.into(), hash, 800), None, "byte {at}");
        }
        assert_eq!(parse(&whole.clone().into(), hash, 1_600), None, "another width");
        assert_eq!(parse(&whole.clone().into(), blake3::hash(b""), 800), None, "another image");
        fs::write(&file, &whole[..50]).expect("the cache is writable");
        let unused = cache.folder.join(cache_name(blake3::hash(b"x"), 800));
        fs::write(&unused, "x").expect("the cache is writable");
        site.create_missing_variants(&cache, &GO).expect("the cache is writable");
        assert_eq!(fs::read(&file).expect("the variant"), whole, "created again");
        assert!(!unused.exists());
        site.strengthen(&cache, &GO).expect("the cache is writable");
        assert!(file.exists(), "encodings and variants share the folder");
    }
}
