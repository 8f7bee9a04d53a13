//! The theme: templates, words, stylesheet and scripts. The binary includes a theme, and a file in the site's
//! `theme/` folder replaces the built-in file of the same name.

use std::collections::BTreeMap;

use blake3::Hash;
use minijinja::{AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior, Value};

use super::file::Blob;
use super::form_function;
use super::placeholder::add_filters;
use crate::fault::Fault;
use frontdesk_forms::text::escape_html;

/// The script that submits the forms on rendered pages and on a build's pages.
pub const FORMS_SCRIPT: &str = include_str!("../../../theme/forms.js");

/// The folder in the theme that contains the files of words.
pub(super) const WORDS_FOLDER: &str = "words/";

/// Embeds files of the theme's folder, as pairs of a name and its content.
macro_rules! theme_files {
    ($($name:literal,)*) => { &[$(($name, include_str!(concat!("../../../theme/", $name)))),*] };
}

/// The built-in files, by their names in the theme's folder.
#[rustfmt::skip]
pub const BUILT_IN: &[(&str, &str)] = theme_files![
    "404.html", "base.html", "blog.html", "confirm.html", "favicon.svg", "forms.js", "home.html",
    "page.html", "partials/breadcrumbs.html", "partials/copy.html", "partials/cta.html",
    "partials/fields.html", "partials/footer.html", "partials/form.html", "partials/head.html", "partials/header.html",
    "partials/highlights.html", "partials/pagination.html", "partials/posts.html", "partials/rail.html",
    "partials/search.html", "partials/section.html", "partials/turn.html", "post.html", "script.js",
    "search.js", "style.css", "tag.html", "tags.html", "theme.js", "words/de.toml", "words/en.toml",
    "words/es.toml", "words/fr.toml", "words/ja.toml",
];

/// Maximum number of instructions of the template engine for one page, so that a loop ends. Listing 50,000
/// pages takes about a million.
const MAX_INSTRUCTIONS: u64 = 10_000_000;
/// Maximum size of a template in bytes: the larger the template, the more stack the engine's parser needs.
const MAX_TEMPLATE_BYTES: usize = 256 * 1024;

/// The theme's files by name. The operator's file replaces a built-in file of the same name.
#[derive(Debug)]
pub struct Theme {
    files: BTreeMap<String, Blob>,
}

/// The compiled templates of a theme, without those that have faults.
#[derive(Debug)]
pub struct CompiledTheme {
    pub environment: Environment<'static>,
    pub faults: Vec<Fault>,
}

/// The inputs of a compiled theme: the hashes of its templates, and the URLs of assets, both by name.
pub type TemplateInputs = (BTreeMap<String, Hash>, BTreeMap<String, String>);

impl Theme {
    /// Combines the built-in theme with `overrides`, which are named relative to the theme's folder and
    /// replace built-in files of the same name.
    pub fn new(overrides: impl IntoIterator<Item = (String, Blob)>) -> Self {
        let built_in = BUILT_IN.iter().map(|(name, text)| ((*name).to_owned(), Blob::new(text.as_bytes())));
        Self { files: built_in.chain(overrides).collect() }
    }

    pub fn asset_files(&self) -> impl Iterator<Item = (&str, &Blob)> {
        self.files.iter().filter(|(name, _)| is_theme_asset(name)).map(|(name, blob)| (name.as_str(), blob))
    }

    fn template_files(&self) -> impl Iterator<Item = (&String, &Blob)> {
        self.files.iter().filter(|(name, _)| is_template(name))
    }

    /// Whether the theme has a template, valid or not. `name` is the file name without `.html`.
    pub fn has_template(&self, name: &str) -> bool {
        self.files.contains_key(&format!("{name}.html"))
    }

    /// The hashes of the templates, by name.
    pub fn template_hashes(&self) -> BTreeMap<String, Hash> {
        self.template_files().map(|(name, blob)| (name.clone(), blob.hash)).collect()
    }

    /// Compiles the templates, with the functions `asset` and `form` and the filters for words. Reports and
    /// leaves out templates that are invalid or too large. Limits each rendering to `MAX_INSTRUCTIONS`.
    /// `urls` has the URLs of assets by the names that templates use; `asset` fails for other names. An
    /// undefined variable renders as nothing.
    pub fn compile(&self, urls: BTreeMap<String, String>) -> CompiledTheme {
        let mut faults = Vec::new();
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Lenient);
        environment.set_fuel(Some(MAX_INSTRUCTIONS));
        environment.set_auto_escape_callback(|_| AutoEscape::Html);
        // The engine's default formatter also escapes `/`, so programs that search the HTML for URLs would
        // not find any.
        environment.set_formatter(|output, _, value| {
            let written = match value.as_str() {
                Some(text) if value.is_safe() => output.write_str(text),
                Some(text) => output.write_str(&escape_html(text)),
                None if value.is_undefined() || value.is_none() => Ok(()),
                None => output.write_str(&escape_html(&value.to_string())),
            };
            written.map_err(Error::from)
        });
        environment.add_function("asset", move |name: String| -> Result<Value, Error> {
            let url = urls.get(name.trim_start_matches('/').trim_start_matches("assets/"));
            url.map(|url| Value::from_safe_string(url.clone())).ok_or_else(|| {
                let message = format!("there is no asset `{name}` in the theme or in assets/");
                Error::new(ErrorKind::InvalidOperation, message)
            })
        });
        add_filters(&mut environment);
        form_function::add_to(&mut environment);
        for (name, blob) in self.template_files() {
            if blob.bytes.len() > MAX_TEMPLATE_BYTES {
                let message = format!("the template is larger than {} KiB", MAX_TEMPLATE_BYTES >> 10);
                let fault = Fault::error(format!("theme/{name}"), None, message);
                faults.push(fault.hint("divide it into files in `theme/partials/` with `{% include %}`"));
                continue;
            }
            let Ok(text) = std::str::from_utf8(&blob.bytes) else {
                let fault = Fault::error(format!("theme/{name}"), None, "the template is not valid UTF-8");
                faults.push(fault.hint("save it as UTF-8"));
                continue;
            };
            if let Err(error) = environment.add_template_owned(name.clone(), text.to_owned()) {
                faults.push(template_fault(&error));
            }
        }
        CompiledTheme { environment, faults }
    }
}

/// Whether a file of the theme is published: all except templates and the files with the texts of a language.
pub(super) fn is_theme_asset(name: &str) -> bool {
    !is_template(name) && !name.starts_with(WORDS_FOLDER)
}

fn is_template(name: &str) -> bool {
    name.ends_with(".html")
}

/// Converts a template engine's error into a fault with the line of the innermost template, and its file in
/// `theme/`, even if the template is built in.
pub fn template_fault(error: &Error) -> Fault {
    // Use the innermost error: the outer ones name only the lines that include the faulty template.
    let causes = std::iter::successors(Some(error as &dyn std::error::Error), |cause| cause.source());
    let place = causes.filter_map(|cause| cause.downcast_ref::<Error>()).last().unwrap_or(error);
    let name = place.name().unwrap_or("template");
    let detail = place.detail().map_or_else(|| place.kind().to_string(), str::to_owned);
    Fault::error(format!("theme/{name}"), place.line(), detail)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn every_file_of_the_theme_is_built_in() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../theme");
        let mut folders = vec![root.clone()];
        let mut names = Vec::new();
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).expect("the theme folder").flatten() {
                if entry.path().is_dir() {
                    folders.push(entry.path());
                } else if let Ok(name) = entry.path().strip_prefix(&root) {
                    names.push(name.to_string_lossy().into_owned());
                }
            }
        }
        names.sort_unstable();
        assert_eq!(names, BUILT_IN.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    }

    #[test]
    fn a_faulty_template_is_named_with_its_line() {
        let theme = Theme::new([("page.html".to_owned(), Blob::new("a\n{% if %}\n"))]);
        let compiled = theme.compile(BTreeMap::new());
        let faults = &compiled.faults;
        assert_eq!(faults.len(), 1);
        assert!(faults[0].to_string().starts_with("theme/page.html:2: "), "{}", faults[0]);
    }
}
