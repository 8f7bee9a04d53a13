//! Finds the title and the description of a site in the home page of its build.

use http::Uri;

use super::{Prebuilt, PrebuiltPage};
use crate::options::PagesOptions;
use crate::path;

impl Prebuilt {
    /// A copy of `options`, with a missing title or description taken from the build's home page, or else
    /// from the page to which a rule for its path leads. If that page only redirects to another one with
    /// `<meta>`, takes that one. The title is the site's name in the page's metadata, or else the name that
    /// the titles of the pages have in common, or else the title of the page.
    pub fn complete(&self, options: &PagesOptions) -> PagesOptions {
        let mut options = options.clone();
        let target = self.redirects.iter().find_map(|rule| rule.target(&self.mount, None));
        let find = |path: &str| {
            let is_at =
                |page: &&PrebuiltPage| page.path == path || page.redirects.iter().any(|from| from == path);
            self.pages.iter().find(is_at)
        };
        let home = find(&self.mount).or_else(|| find(target.as_ref()?));
        let redirected = home.and_then(|home| {
            let parse = |url: &Option<String>| url.as_ref()?.parse::<Uri>().ok();
            let url = parse(&home.metadata.redirect)?;
            // Ignore a redirect to another host: none of the build's pages is its target.
            let own = [&home.metadata.url, &home.metadata.canonical]
                .map(|own| parse(own)?.host().map(str::to_owned));
            if url.host().is_some_and(|host| !own.iter().flatten().any(|own| own == host)) {
                return None;
            }
            find(&path::decode(url.path()).ok()?)
        });
        let home = redirected.or(home).map(|home| home.metadata.clone()).unwrap_or_default();
        let fill = |text: &mut String, value: Option<String>| {
            if text.is_empty() {
                *text = value.unwrap_or_default();
            }
        };
        fill(&mut options.title, home.site.or_else(|| self.site_name.clone()).or(home.title));
        fill(&mut options.description, home.description);
        options
    }
}
