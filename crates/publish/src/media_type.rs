//! Chooses the media types of files by their extensions, and those of a few files by their content.

use std::collections::{HashMap, HashSet};
use std::sync::{LazyLock, Mutex, PoisonError};

use serde::de::IgnoredAny;

/// The media type of files whose content is unknown.
const UNKNOWN: &str = "application/octet-stream";

const PLAIN_TEXT: &str = "text/plain; charset=utf-8";

/// The extensions for which the table of `mime_guess` has no type, or an outdated one. The reason is above
/// each group.
const OVERRIDES: [(&str, &str); 41] = [
    // Registered by RFC 9239, which makes `application/javascript` obsolete.
    ("mjs", "text/javascript"),
    ("cjs", "text/javascript"),
    // Registered by RFC 8081.
    ("woff", "font/woff"),
    ("otf", "font/otf"),
    // RFC 8216: playlists and segments of HTTP live streaming.
    ("m3u8", "application/vnd.apple.mpegurl"),
    ("ts", "video/mp2t"),
    // Registered by RFC 4337.
    ("m4a", "audio/mp4"),
    ("m4v", "video/mp4"),
    // ECMA-426: source maps are JSON.
    ("map", "application/json"),
    // As `text/xml`, it would get a `charset`, which overrides the encoding that the document declares
    // (RFC 7303 §3).
    ("xml", "application/xml"),
    ("xsl", "application/xml"),
    // Most `*.asc` files are OpenPGP keys, not signatures; browsers show neither.
    ("asc", "application/pgp-keys"),
    // `mime_guess` returns the type of RealAudio plug-ins, but most `*.rpm` files are packages.
    ("rpm", "application/x-rpm"),
    // `.tgz` is short for `.tar.gz`, so the file is in gzip format (RFC 1952).
    ("tgz", "application/gzip"),
    // Registered by RFC 9512 and RFC 6350, and TOML by IANA.
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
    ("vcf", "text/vcard"),
    ("toml", "application/toml"),
    // Windows and Apple devices install such files only if they are served with these types.
    ("appinstaller", "application/appinstaller"),
    ("msix", "application/msix"),
    ("msixbundle", "application/msixbundle"),
    ("pkpasses", "application/vnd.apple.pkpasses"),
    // Registered by IANA, and missing in `mime_guess`.
    ("zst", "application/zstd"),
    ("usdz", "model/vnd.usdz+zip"),
    ("sqlite", "application/vnd.sqlite3"),
    // Registered by IANA; `mime_guess` returns the types of other formats with these extensions.
    ("obj", "model/obj"),
    ("stl", "model/stl"),
    // Apple's devices offer to install a profile of this type.
    ("mobileconfig", "application/x-apple-aspen-config"),
    // No type is registered: the first two are JSON, and browsers show JSON Lines only as plain text.
    ("ipynb", "application/json"),
    ("topojson", "application/json"),
    ("jsonl", "text/plain"),
    ("ndjson", "text/plain"),
    // Shaders: `WebGPU` loads them as text.
    ("wgsl", "text/wgsl"),
    // Plain text: subtitles, bibliographies, patches; AsciiDoc, Org, reStructuredText and Mermaid documents.
    ("adoc", "text/plain"),
    ("ass", "text/plain"),
    ("bib", "text/plain"),
    ("diff", "text/plain"),
    ("patch", "text/plain"),
    ("org", "text/plain"),
    ("rst", "text/plain"),
    ("mmd", "text/plain"),
];

/// The media type for a file name's extension, or `application/octet-stream` if the extension is unknown.
/// Types `text/*` have the parameter `charset=utf-8`.
pub fn media_type(name: &str) -> &'static str {
    let Some((_, extension)) = name.rsplit_once('.') else { return UNKNOWN };
    let own = OVERRIDES.iter().find(|(known, _)| known.eq_ignore_ascii_case(extension));
    let found = own.map(|(_, media_type)| *media_type);
    let found = found.or_else(|| mime_guess::from_ext(extension).first_raw()).unwrap_or(UNKNOWN);
    if found.starts_with("text/") { with_charset(found) } else { found }
}

/// Like [`media_type()`], but depends on the content. A text that is not UTF-8, other than Markdown, has no
/// charset, because that would override the encoding which a style sheet or a page declares. A file without
/// an extension, such as `LICENSE`, or without a known one in `.well-known/`, is JSON, XML, plain text or
/// unknown by its content: standards choose such names, some with a dot (`nodeinfo/2.0`). `name` is relative
/// to the site's root.
pub fn media_type_of(name: &str, bytes: &[u8]) -> &'static str {
    let file = name.rsplit('/').next().unwrap_or(name);
    let found = media_type(file);
    if found != UNKNOWN || file.contains('.') && !name.starts_with(".well-known/") {
        let without_charset = found.strip_suffix("; charset=utf-8").filter(|found| *found != "text/markdown");
        return without_charset.filter(|_| std::str::from_utf8(bytes).is_err()).unwrap_or(found);
    }
    let is_object = bytes.trim_ascii_start().starts_with(b"{") || bytes.trim_ascii_start().starts_with(b"[");
    if is_object && serde_json::from_slice::<IgnoredAny>(bytes).is_ok() {
        return "application/json";
    }
    if bytes.starts_with(b"<?xml ") {
        return "application/xml";
    }
    let is_text = |text: &str| !text.chars().any(|c| c.is_control() && !c.is_ascii_whitespace());
    if std::str::from_utf8(bytes).is_ok_and(is_text) { PLAIN_TEXT } else { UNKNOWN }
}

/// The media type of the content of a compressed file, and its content coding, if browsers must decode the
/// file although its own name is requested: an SVG file that ends with `.svgz`, or a part of a game that
/// Unity has built, which the game's loader requests as `x.wasm.br` and does not decode. `None` for other
/// files: scripts such as Blazor's decode theirs. `has_loader` says whether a file `*.loader.js` is in the
/// same folder.
pub fn encoded_media_type(
    name: &str,
    bytes: &[u8],
    has_loader: bool,
) -> Option<(&'static str, &'static str)> {
    const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
    const PARTS: [&str; 4] = [".data", ".framework.js", ".symbols.json", ".wasm"];
    if name.to_ascii_lowercase().ends_with(".svgz") {
        return bytes.starts_with(&GZIP_MAGIC).then(|| (media_type(name), "gzip"));
    }
    let (stem, coding) = [(".gz", "gzip"), (".br", "br")]
        .iter()
        .find_map(|(end, coding)| Some((name.strip_suffix(end)?, *coding)))?;
    (has_loader && PARTS.iter().any(|part| stem.ends_with(part))).then(|| (media_type(stem), coding))
}

/// The folders, with a final slash, that contain a file `*.loader.js`, as builds of Unity games do.
pub fn loader_folders<'n>(names: impl Iterator<Item = &'n str>) -> HashSet<&'n str> {
    names.filter(|name| name.ends_with(".loader.js")).map(folder_of).collect()
}

/// The folder of a file with a final slash; empty for a file that is not in a folder.
pub fn folder_of(name: &str) -> &str {
    &name[..name.rfind('/').map_or(0, |at| at + 1)]
}

/// A text type with its charset. Each result is allocated once and never freed.
fn with_charset(text_type: &'static str) -> &'static str {
    static TYPES: LazyLock<Mutex<HashMap<&'static str, &'static str>>> = LazyLock::new(Mutex::default);
    let mut types = TYPES.lock().unwrap_or_else(PoisonError::into_inner);
    types.entry(text_type).or_insert_with(|| format!("{text_type}; charset=utf-8").leak())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_the_types_that_browsers_expect() {
        for (extensions, expected) in [
            ("html HTM", "text/html; charset=utf-8"),
            ("md markdown", "text/markdown; charset=utf-8"),
            ("txt text jsonl diff patch org mmd", PLAIN_TEXT),
            ("css", "text/css; charset=utf-8"),
            ("csv", "text/csv; charset=utf-8"),
            ("js mjs cjs", "text/javascript; charset=utf-8"),
            ("ics", "text/calendar; charset=utf-8"),
            ("vtt", "text/vtt; charset=utf-8"),
            ("json map", "application/json"),
            ("webmanifest", "application/manifest+json"),
            ("mobileconfig", "application/x-apple-aspen-config"),
            ("geojson", "application/geo+json"),
            ("jsonld", "application/ld+json"),
            ("xml xsl", "application/xml"),
            ("xhtml", "application/xhtml+xml"),
            ("rss", "application/rss+xml"),
            ("atom", "application/atom+xml"),
            ("svg", "image/svg+xml"),
            ("png", "image/png"),
            ("JPG jpeg", "image/jpeg"),
            ("gif", "image/gif"),
            ("webp", "image/webp"),
            ("avif", "image/avif"),
            ("jxl", "image/jxl"),
            ("ico", "image/x-icon"),
            ("woff", "font/woff"),
            ("woff2", "font/woff2"),
            ("ttf", "font/ttf"),
            ("otf", "font/otf"),
            ("mp4 m4v", "video/mp4"),
            ("webm", "video/webm"),
            ("ogv", "video/ogg"),
            ("mov", "video/quicktime"),
            ("mp3", "audio/mpeg"),
            ("m4a", "audio/mp4"),
            ("ogg oga opus", "audio/ogg"),
            ("flac", "audio/flac"),
            ("wav", "audio/wav"),
            ("m3u8", "application/vnd.apple.mpegurl"),
            ("mpd", "application/dash+xml"),
            ("wasm", "application/wasm"),
            ("pdf", "application/pdf"),
            ("epub", "application/epub+zip"),
            ("apk", "application/vnd.android.package-archive"),
            ("docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
            ("glb", "model/gltf-binary"),
            ("gltf", "model/gltf+json"),
            ("obj", "model/obj"),
            ("stl", "model/stl"),
            ("gpx", "application/gpx+xml"),
            ("zip", "application/zip"),
            ("gz tgz", "application/gzip"),
            ("asc", "application/pgp-keys"),
            ("yaml yml", "application/yaml"),
            ("vcf", "text/vcard; charset=utf-8"),
            ("qqq bin", UNKNOWN),
        ] {
            for extension in extensions.split(' ') {
                assert_eq!(media_type(&format!("folder.d/a.{extension}")), expected, "{extension}");
            }
        }
        assert_eq!(media_type("LICENSE"), UNKNOWN);
        assert_eq!(media_type("html/a"), UNKNOWN);
    }

    #[test]
    fn browsers_decode_compressed_drawings_and_parts_of_games() {
        let gzip = [0x1f, 0x8b, 8];
        for (name, bytes, has_loader, expected) in [
            ("a.svgz", &gzip[..], false, Some(("image/svg+xml", "gzip"))),
            ("a.SVGZ", &gzip, false, Some(("image/svg+xml", "gzip"))),
            ("a.svgz", b"<svg/>", false, None),
            ("Build/a.wasm.br", b"", true, Some(("application/wasm", "br"))),
            ("Build/a.framework.js.gz", &gzip, true, Some(("text/javascript; charset=utf-8", "gzip"))),
            ("Build/a.symbols.json.gz", &gzip, true, Some(("application/json", "gzip"))),
            ("Build/a.data.br", b"", true, Some((UNKNOWN, "br"))),
            ("Build/a.tar.gz", &gzip, true, None),
            ("_framework/dotnet.wasm.br", b"", false, None),
            ("a.wasm", b"", true, None),
        ] {
            assert_eq!(encoded_media_type(name, bytes, has_loader), expected, "{name}");
        }
        let folders = loader_folders(["a/b.loader.js", "c/d.js", "e.loader.js"].into_iter());
        assert_eq!(folders, HashSet::from(["a/", ""]));
    }

    #[test]
    fn every_override_differs_from_the_table() {
        for (extension, own) in OVERRIDES {
            assert_ne!(mime_guess::from_ext(extension).first_raw(), Some(own), "{extension}");
        }
    }

    #[test]
    fn the_content_decides_on_charsets_and_well_known_files() {
        for (name, content, expected) in [
            (".well-known/apple-app-site-association", " {\"applinks\": {}}\n", "application/json"),
            ("apple-app-site-association", "{}", "application/json"),
            (".well-known/matrix/client", "{}", "application/json"),
            (".well-known/atproto-did", "did:plc:abc", PLAIN_TEXT),
            (".well-known/acme-challenge/token", "token.key\n", PLAIN_TEXT),
            (".well-known/broken", "{\"a\":", PLAIN_TEXT),
            (".well-known/signed", "\u{1}\u{2}", UNKNOWN),
            (".well-known/nodeinfo/2.0", "{}", "application/json"),
            (".well-known/com.apple.remotemanagement", "{}", "application/json"),
            (".well-known/a.b/c", "text", PLAIN_TEXT),
            ("nodeinfo/2.0", "{}", UNKNOWN),
            ("feed", "<?xml version=\"1.0\"?><rss/>", "application/xml"),
            (".well-known/a.json", "text", "application/json"),
            ("a.css", "p::before{content:'\u{e9}'}", "text/css; charset=utf-8"),
            ("LICENSE", "Text.", PLAIN_TEXT),
            ("data/latest", "{}", "application/json"),
            ("tool", "\u{7f}ELF", UNKNOWN),
        ] {
            assert_eq!(media_type_of(name, content.as_bytes()), expected, "{name}");
        }
        for (name, expected) in [
            (".well-known/a", UNKNOWN),
            ("a.css", "text/css"),
            ("b/a.csv", "text/csv"),
            ("a.md", "text/markdown; charset=utf-8"),
            ("a.json", "application/json"),
        ] {
            assert_eq!(media_type_of(name, b"caf\xe9"), expected, "{name}");
        }
    }
}
