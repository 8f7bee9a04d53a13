//! Reads `[brand]`: logo, favicon, colors, preview image and font.

use super::reader::{Reader, requests};
use super::value_parsers::{self, Raw};
use frontdesk_site::{BrandOptions, Color};

/// Reads `[brand]`. The files that its keys name are checked when the site loads.
pub(super) fn read(r: &mut Reader<'_>) -> BrandOptions {
    let mut file = |name, example, documentation| {
        let file = r.get(requests(name).with_example(example), "", documentation, parse_asset);
        file.map(|value| r.place(name, value))
    };
    let logo = file(
        "brand.logo",
        "\"logo.svg\"",
        "Files in assets/. The logo is in the header of each page: a wide one instead of the site's title, \
         another one beside it. An SVG may use `prefers-color-scheme`.",
    );
    let favicon = file("brand.favicon", "\"favicon.svg\"", "The icon in the browser's tab: SVG, PNG or ICO.");
    let image = file(
        "brand.image",
        "\"preview.png\"",
        "The preview image on social networks, for pages without an `image` of their own: PNG or JPEG, 1200 × \
         630 pixels.",
    );
    let font = file(
        "brand.font",
        "\"font.woff2\"",
        "A WOFF2 font for all text but code. If empty, the system's font is used.",
    );
    let mut color = |name, example, documentation| {
        let key = requests(name).with_example(example).show_in_starter_file();
        let color = r.get(key, "", documentation, parse_color);
        color.map(|value| r.place(name, value))
    };
    let accent = color(
        "brand.accent",
        "\"#1d4ed8\"",
        "The color of links and buttons, and that color on a dark background; if the second is empty, it is \
         derived. `frontdesk check` warns if text in this color would be hard to read.",
    );
    let accent_dark = color("brand.accent_dark", "\"#93b4ff\"", "");
    BrandOptions { logo, favicon, image, font, accent, accent_dark }
}

/// Parses the path of a file in `assets/`. Slashes at the beginning and the name of the folder are optional.
/// An empty path is `None`. Fails for `.`, `..`, empty parts and control characters.
fn parse_asset(raw: &Raw) -> value_parsers::ParseResult<Option<String>> {
    let expected = "the path of a file in assets/, such as \"logo.svg\"";
    value_parsers::parse_text(raw, expected, |text| {
        let name = text.trim_start_matches('/');
        let name = name.strip_prefix("assets/").unwrap_or(name);
        let is_inside = name.split('/').all(|part| !matches!(part, "" | "." | ".."));
        (text.is_empty() || (is_inside && !name.chars().any(char::is_control)))
            .then(|| Some(name.to_owned()).filter(|name| !name.is_empty()))
    })
}

/// Parses a color ([`Color::parse`]). An empty text is `None`.
fn parse_color(raw: &Raw) -> value_parsers::ParseResult<Option<Color>> {
    value_parsers::parse_text(
        raw,
        "a color: three or six hexadecimal digits after #, such as \"#1d4ed8\"",
        |text| match text {
            "" => Some(None),
            text => Color::parse(text).map(Some),
        },
    )
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::Config;

    #[test]
    fn a_brand_has_files_in_assets_and_colors() {
        let text = "[brand]\nlogo = \"/assets/logo.svg\"\naccent = \"#1D4ED8\"\nfont = \"fonts/a.woff2\"\n";
        let brand = Config::parse(text, Path::new(""), [], &[]).0.pages.brand;
        let logo = brand.logo.expect("a logo");
        assert_eq!((&*logo.value, &*logo.place, logo.line), ("logo.svg", "frontdesk.toml", Some(2)));
        assert_eq!(brand.font.map(|font| font.value).as_deref(), Some("fonts/a.woff2"));
        assert_eq!(brand.accent.map(|accent| accent.value.to_string()).as_deref(), Some("#1d4ed8"));
        assert_eq!((brand.favicon, brand.image, brand.accent_dark), (None, None, None));
    }

    #[test]
    fn a_wrong_color_or_path_is_an_error() {
        for (line, said) in [
            (
                "accent = \"blue\"",
                "`brand.accent` must be a color: three or six hexadecimal digits after #, such as \"#1d4ed8\"",
            ),
            (
                "logo = \"../key.pem\"",
                "`brand.logo` must be the path of a file in assets/, such as \"logo.svg\"",
            ),
            ("font = 3", "`brand.font` must be the path of a file in assets/, such as \"logo.svg\""),
        ] {
            let faults = Config::parse(&format!("[brand]\n{line}\n"), Path::new(""), [], &[]).1;
            let said = format!("frontdesk.toml:2: {said}");
            assert!(faults.iter().any(|fault| fault.to_string() == said), "{faults:?}");
        }
    }
}
