//! The operator's brand: resolves the files and colors of `[brand]`, and writes the CSS that applies them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use blake3::Hash;
use frontdesk_media::{FontMetrics, read_proportions};
use serde::Serialize;

pub use frontdesk_media::Color;

use super::file::Blob;
use super::path;
use super::site_files::Asset;
use crate::fault::{Fault, Placed, did_you_mean};
use frontdesk_process::memo::Memo;
use frontdesk_process::panics::{self, Panic, Part};
use frontdesk_publish::media_type::media_type;

/// The keys of `[brand]`. Files are named relative to `assets/`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BrandOptions {
    pub logo: Option<Placed<String>>,
    pub favicon: Option<Placed<String>>,
    /// The social preview image of pages without their own.
    pub image: Option<Placed<String>>,
    /// The font of all pages, a WOFF2 file.
    pub font: Option<Placed<String>>,
    /// The color of links and buttons on a light background; if `None`, derived from `accent_dark`.
    pub accent: Option<Placed<Color>>,
    /// The color of links and buttons on a dark background; if `None`, derived from `accent`.
    pub accent_dark: Option<Placed<Color>>,
}

/// The brand, as templates use it. All URLs are paths with fingerprints.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(super) struct Brand {
    pub logo: Option<Logo>,
    pub favicon: Option<Icon>,
    pub image: Option<String>,
    /// The URL of the font, for preloading.
    pub font: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Logo {
    pub url: String,
    /// The width in CSS pixels at a height of [`LOGO_HEIGHT`]; `None` if the file does not state its size.
    pub width: Option<u32>,
    pub height: u32,
    /// Whether the site's title is shown beside the logo. `false` for a wide logo, which contains the name,
    /// and if the size is unknown.
    pub shows_title: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Icon {
    pub url: String,
    pub media_type: &'static str,
}

/// The height of the logo in the header, in CSS pixels; the same as in the theme's stylesheet.
const LOGO_HEIGHT: u32 = 32;
/// A logo that is wider than this multiple of its height is a wordmark.
const WORDMARK_RATIO: f64 = 2.0;
/// The theme's stylesheet, to which the brand's CSS is appended.
const STYLESHEET: &str = "/assets/style.css";
/// The minimum contrast of text (WCAG 2.2, success criterion 1.4.3).
const MIN_CONTRAST: f64 = 4.5;
/// The minimum contrast of a derived dark accent.
const DARK_CONTRAST: f64 = 7.0;
/// The backgrounds `--paper` and `--raised` of the built-in theme, in light and in dark mode.
const LIGHT: [Color; 2] = [Color([0xff, 0xff, 0xff]), Color([0xf5, 0xf6, 0xf8])];
const DARK: [Color; 2] = [Color([0x11, 0x13, 0x18]), Color([0x1a, 0x1d, 0x24])];

/// The metrics of a font, the reason why it cannot be used, or the panic that it caused.
type FontResult = Result<Result<FontMetrics, &'static str>, Panic>;

/// The metrics of the brand's font, by the hash of its file.
pub(super) type FontFacts = Memo<Hash, Arc<FontResult>>;

/// Resolves the brand's files among `assets`, and appends the brand's CSS to the stylesheet, whose URL
/// changes with its content and is updated in `urls`, which maps the names that templates use to the assets'
/// URLs. Reports missing files, files of the wrong format, unreadable fonts and colors of low contrast. The
/// brand lacks files with faults, but keeps the URL of an unreadable font unless its parser panicked.
pub(super) fn apply_brand(
    options: &BrandOptions,
    assets: &mut [Asset],
    urls: &mut BTreeMap<String, String>,
    fonts: &mut FontFacts,
    faults: &mut Vec<Fault>,
) -> Brand {
    let mut find = |key, file: &Option<Placed<String>>, is_suitable: fn(&str) -> bool, hint: &str| {
        let file = file.as_ref()?;
        let fault = |message| Fault::error(&*file.place, file.line, message);
        let wanted = path::public_path(&format!("assets/{}", file.value));
        let Some(asset) = assets.iter().find(|asset| asset.path == wanted) else {
            let own = assets.iter().filter_map(|asset| asset.path.strip_prefix("/assets/"));
            let hint = did_you_mean(&file.value, own, || {
                "put the file into assets/ in the site's folder".to_owned()
            });
            let message = format!("`brand.{key}`: there is no file assets/{}", file.value);
            faults.push(fault(message).hint(hint));
            return None;
        };
        if !is_suitable(media_type(&asset.path)) {
            let message = format!("`brand.{key}`: assets/{} has the wrong format", file.value);
            faults.push(fault(message).hint(hint));
            return None;
        }
        Some((asset.fingerprinted.clone(), asset.blob.clone(), media_type(&asset.path)))
    };
    let is_image = |kind: &str| kind.starts_with("image/");
    let logo = find("logo", &options.logo, is_image, "use an SVG or PNG file");
    let favicon = find("favicon", &options.favicon, is_image, "use an SVG, PNG or ICO file");
    // Social networks do not show SVG.
    let is_photo = |kind: &str| kind.starts_with("image/") && kind != "image/svg+xml";
    let image = find("image", &options.image, is_photo, "use a PNG or JPEG file of 1200 × 630 pixels");
    let mut font = find("font", &options.font, |kind| kind == "font/woff2", "convert the font to WOFF2");
    let mut css = accent_css(options);
    faults.extend(contrast_faults(options));
    if let (Some((url, blob, _)), Some(file)) = (&font, &options.font) {
        match &*fonts.get(blob.hash, |_| Arc::new(read_font(blob))) {
            Ok(Ok(facts)) => css += &font_css(url, facts),
            Ok(Err(why)) => {
                let fault = Fault::error(format!("assets/{}", file.value), None, *why);
                faults.push(fault.hint(
                    "convert the original font to WOFF2 again: one font, with the space and the letters a to z, as a \
                     subset if it is too large",
                ));
            }
            Err(panic) => {
                let place = format!("assets/{}", file.value);
                faults.push(Fault::defect(place, panic, "pages are shown in the system's font"));
                font = None;
            }
        }
    }
    append_css(&css, assets, urls);
    Brand {
        logo: logo.map(|(url, blob, _)| Logo::new(url, read_proportions(&blob.bytes))),
        favicon: favicon.map(|(url, _, media_type)| Icon { url, media_type }),
        image: image.map(|(url, ..)| url),
        font: font.map(|(url, ..)| url),
    }
}

/// Reads the metrics of the font, and catches panics of the parser.
fn read_font(blob: &Blob) -> FontResult {
    panics::catch(Part::Content, || {
        panics::inject("font", "");
        FontMetrics::read(&blob.bytes)
    })
}

impl Logo {
    /// `size` is the width and height of the picture in any unit. Without it, the logo has no width, and the
    /// title is not shown beside it.
    fn new(url: String, size: Option<(f64, f64)>) -> Self {
        let ratio = size.map(|(width, height)| width / height);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a positive number; the cast saturates"
        )]
        let width = ratio.map(|ratio| (ratio * f64::from(LOGO_HEIGHT)).round().max(1.0) as u32);
        let shows_title = ratio.is_some_and(|ratio| ratio <= WORDMARK_RATIO);
        Self { url, width, height: LOGO_HEIGHT, shows_title }
    }
}

/// Replaces the stylesheet with one that ends with `css`, and its URL in `urls`. Does nothing if `css` is
/// empty or there is no stylesheet.
fn append_css(css: &str, assets: &mut [Asset], urls: &mut BTreeMap<String, String>) {
    let Some(sheet) = assets.iter_mut().find(|asset| asset.path == STYLESHEET && !css.is_empty()) else {
        return;
    };
    let text = [&sheet.blob.bytes, css.as_bytes()].concat();
    *sheet = Asset::new(sheet.file.clone(), &Blob::new(text));
    urls.insert("style.css".to_owned(), sheet.fingerprinted.clone());
}

/// The accents on a light and on a dark background. If only one is configured, the other is derived from it;
/// `None` if neither is configured.
fn accents(options: &BrandOptions) -> Option<[Color; 2]> {
    let light = options.accent.as_ref().map(|accent| accent.value);
    let dark = options.accent_dark.as_ref().map(|accent| accent.value);
    match (light, dark) {
        (Some(light), dark) => {
            Some([light, dark.unwrap_or_else(|| light.with_contrast(&DARK, DARK_CONTRAST))])
        }
        (None, Some(dark)) => Some([dark.with_contrast(&LIGHT, MIN_CONTRAST), dark]),
        (None, None) => None,
    }
}

/// The CSS of the accent's custom properties; empty without an accent. Printed pages keep the theme's black.
fn accent_css(options: &BrandOptions) -> String {
    let Some([light, dark]) = accents(options) else { return String::new() };
    let (on_light, on_dark) = (light.text_color(), dark.text_color());
    format!(
        "@media screen{{:root{{--accent:light-dark({light},{dark});--on-accent:light-dark({on_light},{on_dark})}}}}\n"
    )
}

/// Warnings about configured colors whose contrast with the built-in theme's backgrounds is less than
/// [`MIN_CONTRAST`]. Text on a color is always readable, because [`Color::text_color`] chooses its color.
fn contrast_faults(options: &BrandOptions) -> Vec<Fault> {
    let mut faults = Vec::new();
    let checks =
        [("accent", &options.accent, &LIGHT, "light"), ("accent_dark", &options.accent_dark, &DARK, "dark")];
    for (key, color, backgrounds, name) in checks {
        let Some(Placed { value: color, place, line }) = color else { continue };
        let ratio = color.least_contrast(backgrounds);
        if ratio < MIN_CONTRAST {
            let better = color.with_contrast(backgrounds, MIN_CONTRAST);
            let message = format!(
                "`brand.{key}`: {color} has a contrast of {:.2}:1 to the {name} background; text needs {MIN_CONTRAST}:1",
                (ratio * 100.0).floor() / 100.0
            );
            let hint = format!("use {better}, which has {:.2}:1", better.least_contrast(backgrounds));
            faults.push(Fault::warning(&**place, *line, message).hint(hint));
        }
    }
    faults
}

/// The `@font-face` rules of the font and of its substitute, which takes the same space until the font has
/// arrived. Also sets the property `--font` to both fonts.
fn font_css(url: &str, facts: &FontMetrics) -> String {
    let mut css = String::new();
    let weights = match facts.weights {
        Some((least, most)) => format!("font-weight:{least} {most};"),
        None => String::new(),
    };
    let _ = writeln!(
        css,
        "@font-face{{font-family:Brand;src:url(\"{url}\") format(\"woff2\");{weights}font-display:swap}}"
    );
    let metrics = facts.as_arial();
    let substitutes = [
        ("400", r#"local("Arial"),local("ArialMT"),local("Liberation Sans"),local("Arimo")"#),
        (
            "700",
            r#"local("Arial Bold"),local("Arial-BoldMT"),local("Liberation Sans Bold"),local("Arimo Bold")"#,
        ),
    ];
    for (weight, sources) in substitutes {
        let _ = writeln!(
            css,
            "@font-face{{font-family:\"Brand substitute\";font-weight:{weight};src:{sources};size-adjust:{:.2}%;\
             ascent-override:{:.2}%;descent-override:{:.2}%;line-gap-override:{:.2}%}}",
            metrics.size * 100.0,
            metrics.ascent * 100.0,
            metrics.descent * 100.0,
            metrics.line_gap * 100.0,
        );
    }
    css + ":root{--font:Brand,\"Brand substitute\",var(--system)}\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Severity;

    fn placed<T>(value: T) -> Placed<T> {
        Placed { value, place: "frontdesk.toml".into(), line: Some(7) }
    }

    fn color(text: &str) -> Color {
        Color::parse(text).expect("a color")
    }

    fn accent(light: &str, dark: Option<&str>) -> BrandOptions {
        let accent_dark = dark.map(|dark| placed(color(dark)));
        BrandOptions { accent: Some(placed(color(light))), accent_dark, ..BrandOptions::default() }
    }

    fn asset(name: &str, bytes: &str) -> Asset {
        Asset::new(format!("assets/{name}"), &Blob::new(bytes.as_bytes().to_vec()))
    }

    /// Applies `options` to a stylesheet and a picture. Returns the stylesheet, the brand and the faults.
    fn apply(options: &BrandOptions) -> (String, Brand, Vec<String>) {
        let svg = "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 90 30'/>";
        let mut assets = [asset("style.css", "p{}\n"), asset("logo.svg", svg), asset("bad.woff2", "wOF2")];
        let mut urls = BTreeMap::new();
        let mut faults = Vec::new();
        let brand = apply_brand(options, &mut assets, &mut urls, &mut FontFacts::default(), &mut faults);
        let sheet = String::from_utf8(assets[0].blob.bytes.to_vec()).expect("text");
        assert!(urls.get("style.css").is_none_or(|url| *url == assets[0].fingerprinted));
        (sheet, brand, faults.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn the_stylesheet_of_a_site_without_brand_is_unchanged() {
        assert_eq!(apply(&BrandOptions::default()), ("p{}\n".to_owned(), Brand::default(), vec![]));
    }

    #[test]
    fn the_accent_is_appended_for_light_and_dark() {
        let (sheet, _, faults) = apply(&accent("#00694b", Some("#5fd3a3")));
        assert_eq!(
            sheet,
            "p{}\n@media screen{:root{--accent:light-dark(#00694b,#5fd3a3);--on-accent:light-dark(#ffffff,#000000)}}\n"
        );
        assert_eq!(faults, [""; 0]);
    }

    #[test]
    fn a_derived_dark_accent_is_readable() {
        for light in ["#000000", "#00694b", "#1d4ed8", "#b91c1c", "#6d28d9", "#808080", "#ffffff", "#ffcc00"]
        {
            let [kept, dark] = accents(&accent(light, None)).expect("accents");
            assert_eq!(kept, color(light));
            assert!(dark.least_contrast(&DARK) >= DARK_CONTRAST, "{light}: {dark}");
            assert!(dark.least_contrast(&[dark.text_color()]) >= MIN_CONTRAST, "{light}: {dark}");
        }
    }

    #[test]
    fn a_weak_accent_is_a_warning_with_a_better_color() {
        let faults = contrast_faults(&accent("#ffcc00", Some("#4b2a7b")));
        let said: Vec<String> = faults.iter().map(ToString::to_string).collect();
        assert!(faults.iter().all(|fault| fault.severity == Severity::Warning));
        assert_eq!(said.len(), 2, "{said:?}");
        for (said, key, background) in [(&said[0], "accent", &LIGHT), (&said[1], "accent_dark", &DARK)] {
            assert!(said.starts_with(&format!("frontdesk.toml:7: `brand.{key}`: #")), "{said}");
            let better = said.split("hint: use ").nth(1).and_then(|hint| Color::parse(hint.get(..7)?));
            assert!(better.expect("a color").least_contrast(background) >= MIN_CONTRAST, "{said}");
        }
        assert!(said[0].contains(" 1.39:1 to the light background; text needs 4.5:1"), "{}", said[0]);
    }

    #[test]
    fn the_backgrounds_are_those_of_the_stylesheet() {
        let style = include_str!("../../../theme/style.css");
        for (name, at) in [("paper", 0), ("raised", 1)] {
            let line = format!("--{name}: light-dark({}, {});", LIGHT[at], DARK[at]);
            assert!(style.contains(&line), "{line}");
        }
        assert!(style.contains(&format!(".brand img {{ height: {LOGO_HEIGHT}px;")));
    }

    #[test]
    fn a_missing_or_unsuitable_file_is_an_error_with_a_hint() {
        let check = |options: BrandOptions, said: &str| {
            let (_, _, faults) = apply(&options);
            assert_eq!(faults, [said]);
        };
        check(
            BrandOptions { logo: Some(placed("logo.png".into())), ..BrandOptions::default() },
            "frontdesk.toml:7: `brand.logo`: there is no file assets/logo.png\n    hint: did you mean `logo.svg`?",
        );
        check(
            BrandOptions { favicon: Some(placed("symbol.ico".into())), ..BrandOptions::default() },
            "frontdesk.toml:7: `brand.favicon`: there is no file assets/symbol.ico\n    hint: put the file into assets/ in the site's folder",
        );
        check(
            BrandOptions { image: Some(placed("logo.svg".into())), ..BrandOptions::default() },
            "frontdesk.toml:7: `brand.image`: assets/logo.svg has the wrong format\n    hint: use a PNG or JPEG file of 1200 × 630 pixels",
        );
        let (_, _, faults) =
            apply(&BrandOptions { font: Some(placed("bad.woff2".into())), ..BrandOptions::default() });
        assert!(faults[0].starts_with("assets/bad.woff2: is damaged"), "{faults:?}");
    }

    #[test]
    fn a_wide_logo_replaces_the_title_and_a_symbol_stands_beside_it() {
        let (_, brand, _) =
            apply(&BrandOptions { logo: Some(placed("logo.svg".into())), ..BrandOptions::default() });
        let logo = brand.logo.expect("a logo");
        assert_eq!((logo.width, logo.height, logo.shows_title), (Some(96), 32, false));
        let symbol = Logo::new(String::new(), Some((30.0, 30.0)));
        assert_eq!((symbol.width, symbol.shows_title), (Some(32), true));
        let unknown = Logo::new(String::new(), None);
        assert_eq!((unknown.width, unknown.shows_title), (None, false));
    }
}
