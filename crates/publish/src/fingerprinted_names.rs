//! Recognizes files that caches may keep forever, because their names contain a hash of their content.

/// Folders in which bundlers put only files whose names contain a hash of their content.
const FINGERPRINTED_FOLDERS: [&str; 4] = ["_astro/", "_next/static/", "_app/immutable/", "_nuxt/"];

/// Folders in which the names of some files contain a hash.
const BUNDLE_FOLDERS: [&str; 3] = ["assets/", "static/", "build/"];

/// The extensions of the files that bundlers fingerprint.
const BUNDLED: [&str; 12] =
    ["js", "mjs", "css", "map", "wasm", "woff", "woff2", "svg", "png", "jpg", "webp", "avif"];

/// Whether a file's name contains a hash of its content, so that caches may keep the file forever: after a
/// `.`, `-` or `_`, at least eight hexadecimal digits in lower case, or, for files in the folders and of the
/// types that bundlers write, eight letters in both cases and digits. `false` in doubtful cases, because
/// dates, words and ids can look like hashes. `true` for all files in the bundlers' own folders, such as
/// `_astro/`; in `_nuxt/builds/`, only for those in `meta/`. `name` may be a path.
pub fn is_fingerprinted(name: &str) -> bool {
    let is_below =
        |folders: &[&str]| folders.iter().any(|folder| format!("/{name}").contains(&format!("/{folder}")));
    // Nuxt replaces `_nuxt/builds/latest.json` with each build. In `_nuxt/builds/meta/`, names contain the
    // build's id.
    if is_below(&["_nuxt/builds/"]) {
        return is_below(&["_nuxt/builds/meta/"]);
    }
    if is_below(&FINGERPRINTED_FOLDERS) {
        return true;
    }
    let file = name.rsplit('/').next().unwrap_or(name);
    let Some((stem, ending)) = file.rsplit_once('.').filter(|(stem, _)| !ends_with_uuid(stem)) else {
        return false;
    };
    let may_be_mixed = BUNDLED.contains(&ending) && is_below(&BUNDLE_FOLDERS);
    stem.split(['.', '-', '_']).skip(1).any(|part| {
        let has = |is: fn(&u8) -> bool| part.bytes().any(|byte| is(&byte));
        let is_hex = part.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
        let is_mixed = part.len() == 8 && part.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let is_hash = is_hex && has(u8::is_ascii_lowercase) && !is_date(part) && part.len() != OBJECT_ID
            || may_be_mixed
                && is_mixed
                && has(u8::is_ascii_lowercase)
                && has(u8::is_ascii_uppercase)
                && !is_numbered_word(part);
        part.len() >= 8 && has(u8::is_ascii_digit) && is_hash
    })
}

/// The number of hexadecimal digits in a MongoDB document id, which does not depend on the content.
const OBJECT_ID: usize = 24;

/// Whether a part of a name is a date without separators, with up to three letters or digits after it, as in
/// `20240102a`.
fn is_date(part: &str) -> bool {
    let number = |from: usize, to: usize| part.get(from..to).and_then(|digits| digits.parse::<u16>().ok());
    let is_in = |from, to, range: std::ops::RangeInclusive<u16>| {
        number(from, to).is_some_and(|number| range.contains(&number))
    };
    part.len() < 12 && is_in(0, 4, 1900..=2099) && is_in(4, 6, 1..=12) && is_in(6, 8, 1..=31)
}

/// Whether a name ends like a UUID (RFC 9562 §4): with parts of 8, 4, 4, 4 and 12 characters, which need not
/// be hexadecimal digits. A UUID identifies a file and does not depend on its content.
fn ends_with_uuid(stem: &str) -> bool {
    let lengths = stem.rsplit('-').take(5).map(str::len).collect::<Vec<_>>();
    let first = stem.rsplit('-').nth(4).and_then(|part| part.rsplit(['.', '_']).next());
    lengths.get(..4) == Some(&[12, 4, 4, 4]) && first.is_some_and(|first| first.len() == 8)
}

/// Whether letters and digits are probably words and a number, as in `June2025`, `TeamPic1` and `Mobile2x`.
fn is_numbered_word(part: &str) -> bool {
    let capitals = part.bytes().filter(u8::is_ascii_uppercase).count();
    let mut runs = part.as_bytes().chunk_by(|a, b| a.is_ascii_digit() == b.is_ascii_digit());
    runs.by_ref().take(2).for_each(drop);
    capitals <= 2 && runs.next().is_none_or(|unit| unit.len() == 1) && runs.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_hashes_make_a_name_immutable() {
        for (name, expected) in [
            ("_astro/page.css", true),
            ("de/_next/static/chunks/main.js", true),
            ("css/style.0a1b2c3d4e.css", true),
            ("_nuxt/entry.js", true),
            ("_nuxt/builds/latest.json", false),
            ("_nuxt/builds/meta/550e8400-e29b-41d4-a716-446655440000.json", true),
            ("files/report-550e8400-e29b-41d4-a716-446655440000.pdf", false),
            ("files/report_550e8400-e29b-41d4-a716-446655440000.pdf", false),
            ("550e8400-e29b-41d4-a716-446655440000.pdf", false),
            ("a-550e8400-e29b-41d4-a716.pdf", true),
            ("main.1234abcd.js", true),
            ("assets/index-B1c2D3e4.js", true),
            ("img/index-B1c2D3e4.js", false),
            ("photo-20240102.jpg", false),
            ("img/DSC_20240102a.jpg", false),
            ("build-20240102abc.zip", false),
            ("build-20241302abc.zip", true),
            ("build-20240102abcd.zip", true),
            ("index-507f1f77bcf86cd799439011.json", false),
            ("index-507f1f77bcf86cd79943.js", true),
            ("assets/report-Quarter3.pdf", false),
            ("assets/menu-June2025.jpg", false),
            ("static/hero-Mobile2x.webp", false),
            ("build/team-2024Team.png", false),
            ("assets/TeamPic1.png", false),
            ("assets/a-TeamPic1.png", false),
            ("assets/index-Cdef12gh.js", true),
            ("assets/index-BcDeFgH1.js", true),
            ("deadbeef1.js", false),
            ("style.css", false),
        ] {
            assert_eq!(is_fingerprinted(name), expected, "{name}");
        }
    }
}
