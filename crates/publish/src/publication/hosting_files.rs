//! Recognizes files at the root of a build, or of `static/`, that configure or extend a host: a hosting
//! provider for static sites, such as Cloudflare Pages, Netlify or Vercel.

use std::path::Path;

use serde_json::Value;

/// A file or folder for the server of a hosting provider, not for visitors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HostingFile {
    /// `_headers` or `_redirects`, whose rules apply to a build.
    Rules,
    /// A copy of `_headers` or `_redirects` that is compressed or named in capitals. Its rules do not apply.
    RulesCopy,
    /// A program that the provider would run for requests, a part of such a program, or its routes.
    Program,
    /// The configuration of a hosting provider, which may contain passwords.
    Configuration,
}

/// The names of the configurations of Netlify, Vercel, Cloudflare, Azure, Firebase, EdgeOne, Amplify, Render
/// and Cloud Foundry.
#[rustfmt::skip]
const CONFIGURATIONS: [&str; 12] = [
    "amplify.yml", "edgeone.json", "firebase.json", "netlify.toml", "render.yaml", "staticfile", "staticfile.auth",
    "staticwebapp.config.json", "vercel.json", "wrangler.json", "wrangler.jsonc", "wrangler.toml",
];

/// A file with a general name, such as `serve.json`, is a configuration if it has one of these settings.
#[rustfmt::skip]
const SETTINGS: [&str; 14] = [
    "basicAuth", "basic_auth", "builds", "cleanUrls", "clean_urls", "directoryListing", "error_page", "headers",
    "https_only", "redirects", "renderSingle", "rewrites", "routes", "trailingSlash",
];

/// Whether a file is the configuration of `serve`, Heroku, Harp or an older version of Vercel. Their names
/// are general, so data may have them, too. A file above [`MAX_SETTINGS_BYTES`] counts as data.
pub(crate) fn has_settings(name: &str, at: &Path) -> bool {
    const NAMES: [&str; 5] = ["_harp.json", "harp.json", "now.json", "serve.json", "static.json"];
    let is_small = || at.metadata().is_ok_and(|file| file.is_file() && file.len() <= MAX_SETTINGS_BYTES);
    let read = || serde_json::from_slice::<Value>(&std::fs::read(at).ok()?).ok();
    NAMES.contains(&&*name.to_ascii_lowercase())
        && is_small()
        && read().is_some_and(|value| SETTINGS.iter().any(|setting| value.get(setting).is_some()))
}

/// Maximum size in bytes of a configuration with a general name, such as `serve.json`.
const MAX_SETTINGS_BYTES: u64 = 1 << 20;

/// A folder with more files and subfolders than this, at any depth, counts as a folder without programs.
const MAX_EXAMINED: usize = 1000;

impl HostingFile {
    /// Determines from the name in the root of a build, or in `static/`, whether the entry is for a host.
    /// Ignores case, and endings of compressed files such as `.gz`, except that [`Self::Rules`] need the
    /// exact name, as does `AUTH` of Surge. A folder can only be a [`Self::Program`].
    pub fn from_name(name: &str, is_folder: bool) -> Option<Self> {
        // Compare in lower case, because not all file systems distinguish cases.
        let lower = name.to_ascii_lowercase();
        let plain = [".br", ".gz", ".zst"].iter().find_map(|ending| lower.strip_suffix(ending));
        match plain.unwrap_or(&lower) {
            "_headers" | "_redirects" if is_folder => None,
            plain @ ("_headers" | "_redirects") if plain == name => Some(Self::Rules),
            "_headers" | "_redirects" => Some(Self::RulesCopy),
            "_worker.js" | "_worker.bundle" | "_routes.json" => Some(Self::Program),
            plain if plain.starts_with("_worker.js.") => Some(Self::Program),
            plain if (CONFIGURATIONS.contains(&plain) || name == "AUTH") && !is_folder => {
                Some(Self::Configuration)
            }
            _ => None,
        }
    }
}

/// Whether the file or folder `name` at the root of a build is a program, or has programs, for Cloudflare
/// Pages (`functions`), Netlify (`netlify/functions`, `netlify/edge-functions`) or Vercel (`api` and
/// `middleware`). Those of Vercel must be beside a `vercel.json`, because sites for other hosts may have
/// scripts for browsers there.
pub(crate) fn is_program(name: &str, at: &Path) -> bool {
    let is_for_vercel = || at.with_file_name("vercel.json").exists();
    match name {
        "functions" => has_programs(at),
        "netlify" => {
            ["functions", "edge-functions"].iter().any(|part| at.join(part).is_dir()) && has_programs(at)
        }
        "api" => is_for_vercel() && has_programs(at),
        "middleware.js" | "middleware.ts" => is_for_vercel(),
        _ => false,
    }
}

/// Whether a folder has, at any depth, at least one script, no HTML, and at most [`MAX_EXAMINED`] files and
/// folders. A folder with pages about functions has HTML.
fn has_programs(folder: &Path) -> bool {
    let (mut has_script, mut count) = (false, 0);
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            count += 1;
            let name = entry.file_name().to_string_lossy().to_ascii_lowercase();
            let has_ending = |endings: &[&str]| endings.iter().any(|ending| name.ends_with(ending));
            if count > MAX_EXAMINED || has_ending(&[".html", ".htm"]) {
                return false;
            }
            has_script |= has_ending(&[".js", ".jsx", ".mjs", ".ts", ".tsx"]);
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(entry.path());
            }
        }
    }
    has_script
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_hosts_are_recognized_by_their_names() {
        for (name, is_folder, expected) in [
            ("_headers", false, Some(HostingFile::Rules)),
            ("_redirects", false, Some(HostingFile::Rules)),
            ("_headers", true, None),
            ("_headers.br", false, Some(HostingFile::RulesCopy)),
            ("_redirects.gz", false, Some(HostingFile::RulesCopy)),
            ("_HEADERS", false, Some(HostingFile::RulesCopy)),
            ("_worker.js", false, Some(HostingFile::Program)),
            ("_worker.js", true, Some(HostingFile::Program)),
            ("_worker.js.map", false, Some(HostingFile::Program)),
            ("_worker.js.zst", false, Some(HostingFile::Program)),
            ("_worker.bundle", false, Some(HostingFile::Program)),
            ("_routes.json", false, Some(HostingFile::Program)),
            ("_worker.html", false, None),
            ("vercel.json", false, Some(HostingFile::Configuration)),
            ("vercel.json", true, None),
            ("netlify.toml", false, Some(HostingFile::Configuration)),
            ("wrangler.jsonc", false, Some(HostingFile::Configuration)),
            ("staticwebapp.config.json", false, Some(HostingFile::Configuration)),
            ("firebase.json.gz", false, Some(HostingFile::Configuration)),
            ("AUTH", false, Some(HostingFile::Configuration)),
            ("auth", false, None),
            ("AUTH", true, None),
            ("Staticfile.auth", false, Some(HostingFile::Configuration)),
            ("wrangler", true, None),
            ("index.html.gz", false, None),
        ] {
            assert_eq!(HostingFile::from_name(name, is_folder), expected, "{name}");
        }
    }

    #[test]
    fn configurations_with_general_names_are_told_apart_from_data() {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text, expected) in [
            ("serve.json", "{\"cleanUrls\": true}", true),
            ("static.json", "{\"root\": \"dist/\", \"routes\": {\"/**\": \"index.html\"}}", true),
            ("now.json", "{\"version\": 2, \"builds\": []}", true),
            ("_harp.json", "{\"basicAuth\": \"a:b\"}", true),
            ("now.json", "{\"playing\": \"a song\"}", false),
            ("static.json", "[1, 2]", false),
            ("data.json", "{\"routes\": []}", false),
        ] {
            let at = folder.path().join(name);
            std::fs::write(&at, text).expect("it is written");
            assert_eq!(has_settings(name, &at), expected, "{name}: {text}");
        }
    }

    #[test]
    fn programs_are_scripts_in_folders_of_hosts_without_pages() {
        for (name, files, expected) in [
            ("functions", &["functions/api/x.ts", "functions/a.json"][..], true),
            ("functions", &["functions/x.js", "functions/api/index.html"], false),
            ("functions", &["functions/a.png"], false),
            ("functions", &[], false),
            ("netlify", &["netlify/edge-functions/auth.ts"], true),
            ("netlify", &["netlify/badge.js"], false),
            ("api", &["api/hello.js", "vercel.json"], true),
            ("api", &["api/embed.js"], false),
            ("middleware.js", &["middleware.js", "vercel.json"], true),
            ("middleware.js", &["middleware.js"], false),
        ] {
            let folder = tempfile::tempdir().expect("a folder");
            for file in files {
                let at = folder.path().join(file);
                std::fs::create_dir_all(at.parent().expect("a folder")).expect("a folder");
                std::fs::write(at, "x").expect("it is written");
            }
            assert_eq!(is_program(name, &folder.path().join(name)), expected, "{files:?}");
        }
    }
}
