//! The images of a site: their sizes, and the names of smaller variants.

use frontdesk_media::{ImageSize, is_sized_format, read_size};

use super::file::Blob;
use super::site_files::Asset;
use crate::fault::Fault;
use frontdesk_process::hash_maps::HashMap;
use frontdesk_process::panics::{self, Part};
use frontdesk_publish::media_type::media_type;

/// The widths of the variants in pixels: a phone's screen, and the column of text on a screen with two pixels
/// per CSS pixel.
pub(super) const WIDTHS: [u32; 2] = [800, 1_600];

/// The size and the smaller variants of an image.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ImageFacts {
    pub size: ImageSize,
    /// Smaller variants, from narrow to wide.
    pub variants: Vec<Variant>,
}

/// The images in `assets/`, beside pages and in `static/`, by their decoded paths. Images whose size cannot
/// be read are missing; a panic while reading one is reported. Images in `static/` have no variants.
pub(super) fn catalog_images(
    assets: &[Asset],
    verbatim: &[(String, Blob)],
    faults: &mut Vec<Fault>,
) -> HashMap<String, ImageFacts> {
    let mut size = |file: String, blob: &Blob| {
        let read = || {
            panics::inject("image", &file);
            read_size(&blob.bytes)
        };
        let is_sized = is_sized_format(media_type(&file));
        let size = panics::catch(Part::Content, || is_sized.then(read).flatten());
        size.unwrap_or_else(|panic| {
            faults.push(Fault::defect(file, &panic, "pages do not state the size of the image"));
            None
        })
    };
    let mut images = HashMap::default();
    for (name, blob) in verbatim {
        if let Some(size) = size(format!("static/{name}"), blob) {
            images.insert(format!("/{name}"), ImageFacts { size, variants: Vec::new() });
        }
    }
    for asset in assets {
        if let Some(size) = size(asset.file.clone(), &asset.blob) {
            images.insert(asset.path.clone(), ImageFacts { size, variants: variants_of(asset, size) });
        }
    }
    images
}

/// Whether the path's extension stands for an image format that always states its size. False for SVG.
pub(super) fn should_have_size(path: &str) -> bool {
    let media_type = media_type(path);
    is_sized_format(media_type) && media_type != "image/svg+xml"
}

/// A scaled-down variant of an image: its width in pixels and its percent-encoded path.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Variant {
    pub width: u32,
    pub href: String,
}

/// An image that has scaled-down variants.
#[derive(Debug, Clone)]
pub(super) struct LargeImage {
    /// The file name of the original, relative to the site's folder: `assets/photo.jpg`.
    pub file: String,
    pub original: Blob,
    /// The decoded path of each variant, in the order of [`WIDTHS`].
    pub variants: [String; WIDTHS.len()],
}

/// The variants of an image. Empty unless the image is a PNG or JPEG that is wider than the largest variant.
fn variants_of(asset: &Asset, size: ImageSize) -> Vec<Variant> {
    let is_scaled_format = matches!(media_type(&asset.path), "image/png" | "image/jpeg");
    let is_large = size.width > WIDTHS[WIDTHS.len() - 1];
    let widths = WIDTHS.iter().filter(|_| is_scaled_format && is_large);
    widths.map(|width| Variant { width: *width, href: variant_name(&asset.fingerprinted, *width) }).collect()
}

/// The name of a variant: `/assets/photo.0a1b2c3d4e-800w.jpg`.
fn variant_name(fingerprinted: &str, width: u32) -> String {
    let (stem, ending) = fingerprinted.rsplit_once('.').unwrap_or((fingerprinted, ""));
    format!("{stem}-{width}w.{ending}")
}
