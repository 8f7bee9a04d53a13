//! Fetches the pages that show a form and the scripts that send it, as a browser would, and compares them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_LANGUAGE, CONTENT_TYPE, HeaderValue, LOCATION, USER_AGENT};
use http::{HeaderMap, Method};

use crate::form_comparison;
use crate::report::{Outcome, Step, StepResult};
use crate::shown_form::PageContent;
use crate::site_forms::{SiteContent, SiteForms, subject};
use frontdesk_convert::parse_url;
use frontdesk_fetch::{FetchClient, FetchResponse, Url};
use frontdesk_forms::Form;
use frontdesk_forms::text::{cut, visible};
use frontdesk_process::panics::{self, Part};

/// Maximum number of pages to fetch in a run. The same limit applies to scripts.
const MAX_FETCHED: usize = 20;
/// Maximum number of bytes of a page or a script.
pub(crate) const MAX_BYTES: usize = 2 << 20;
/// Maximum number of redirects that are followed.
const MAX_REDIRECTS: usize = 3;
/// Maximum length of a quoted address.
const MAX_QUOTED_CHARS: usize = 120;
/// The `User-Agent` of the requests. The server does not count page views of this client.
const AGENT: &str = concat!("Mozilla/5.0 (compatible; frontdesk-canary/", env!("CARGO_PKG_VERSION"), ")");

/// Fetches pages and scripts from the public address, and compares them with this server's own copies.
pub(crate) struct PageCheck<'a> {
    pub client: &'a FetchClient,
    /// The site's public address.
    pub url: &'a Url,
    pub origin: &'a str,
    pub forms: &'a [&'static Form],
    pub site: &'a SiteContent,
    /// After this time, no more pages and scripts are fetched.
    pub deadline: Instant,
}

impl PageCheck<'_> {
    /// Checks the first [`MAX_FETCHED`] pages and each form on them. Then checks the scripts of these pages
    /// that send a form, each once: the first [`MAX_FETCHED`], sorted by path. Inline scripts are not
    /// compared. After the deadline, pages are reported as skipped, and scripts are not reported.
    pub async fn run(&self, own: &SiteForms) -> Vec<StepResult> {
        let mut steps = Vec::new();
        let mut scripts: BTreeMap<&str, &str> = BTreeMap::new();
        for (page, content) in own.pages.iter().take(MAX_FETCHED) {
            if Instant::now() > self.deadline {
                steps.extend(self.skip(
                    &page.path,
                    content,
                    "not tried, because the time of this check was over",
                ));
                continue;
            }
            let began = Instant::now();
            let fetched = self.fetch_page(&page.path).await;
            for form in SiteForms::on(content, self.forms) {
                let (outcome, text) = match &fetched {
                    Ok(html) => self.judge(form, html, &page.path, own),
                    Err(fault) => (Outcome::Failed, fault.clone()),
                };
                let subject = subject(&page.path, form.form);
                steps.push(StepResult { step: Step::Page, subject, outcome, text, took: began.elapsed() });
            }
            let sending = content.scripts.intersection(&own.senders.scripts);
            scripts.extend(sending.map(|script| (script.as_str(), page.path.as_str())));
        }
        for (script, page) in scripts.into_iter().take(MAX_FETCHED) {
            let found = self.site.scripts.iter().find(|(path, _)| path == script);
            if let Some((_, body)) = found.filter(|_| Instant::now() <= self.deadline) {
                steps.push(self.check_script(script, page, body).await);
            }
        }
        steps
    }

    /// Checks a form in the `html` that visitors get. The step is skipped if the check panics.
    fn judge(
        &self,
        form: form_comparison::OwnForm<'_>,
        html: &str,
        path: &str,
        own: &SiteForms,
    ) -> (Outcome, String) {
        let judge = || {
            panics::inject("canary-page", path);
            form_comparison::judge(form, &PageContent::read(html, self.origin, path), &own.senders)
        };
        panics::catch(Part::Background, judge)
            .unwrap_or_else(|panic| (Outcome::Skipped, format!("not known, because of {panic}")))
    }

    /// The results for a page that is not fetched: each form is skipped, with `text` as the reason.
    fn skip(&self, path: &str, content: &PageContent, text: &str) -> Vec<StepResult> {
        let step = |form: form_comparison::OwnForm<'_>| StepResult {
            step: Step::Page,
            subject: subject(path, form.form),
            outcome: Outcome::Skipped,
            text: text.to_owned(),
            took: Duration::ZERO,
        };
        SiteForms::on(content, self.forms).map(step).collect()
    }

    /// The steps if the public address cannot be reached: the forms on the first [`MAX_FETCHED`] pages as
    /// skipped.
    pub fn skip_all(&self, own: &SiteForms) -> Vec<StepResult> {
        let pages = own.pages.iter().take(MAX_FETCHED);
        pages
            .flat_map(|(page, content)| {
                self.skip(&page.path, content, "not tried, because of the fault above")
            })
            .collect()
    }

    /// Fetches a page; invalid UTF-8 is replaced. The error says what visitors get instead of a complete
    /// page in HTML.
    async fn fetch_page(&self, path: &str) -> Result<String, String> {
        let response = self.get(path, "text/html,application/xhtml+xml,*/*;q=0.8").await?;
        let media_type = media_type(&response.headers);
        if !matches!(&*media_type, "text/html" | "application/xhtml+xml") {
            return Err(format!("visitors get `{}` instead of a page in HTML", quoted(&media_type)));
        }
        if !response.is_whole {
            return Err(
                "visitors get only a part of the page: check the proxy, and its limits of size and time"
                    .to_owned(),
            );
        }
        Ok(String::from_utf8_lossy(&response.body).into_owned())
    }

    /// Compares a script with that of this server, byte by byte. `page` is a page that uses it. Another
    /// version is only a warning. It is a failure if [`Self::get`] fails, if the response is incomplete or
    /// longer than [`MAX_BYTES`], or if browsers do not run its media type.
    async fn check_script(&self, script: &str, page: &str, own: &Bytes) -> StepResult {
        let began = Instant::now();
        let fault = match self.get(script, "*/*").await {
            Err(fault) => Some((Outcome::Failed, fault)),
            Ok(response) => {
                let media_type = media_type(&response.headers);
                if !media_type.contains("javascript") && !media_type.contains("ecmascript") {
                    let text = format!(
                        "visitors get the media type `{}`, which browsers do not run",
                        quoted(&media_type)
                    );
                    Some((Outcome::Failed, text))
                } else if !response.is_whole {
                    let text =
                        "visitors get only a part of it: check the proxy, and its limits of size and time";
                    Some((Outcome::Failed, text.to_owned()))
                } else if response.body != **own {
                    let text = "visitors get another version than this server's: purge caches, and keep proxies from changing scripts";
                    // Only warn, because another version of the script may also send the form.
                    Some((Outcome::Warning, text.to_owned()))
                } else {
                    None
                }
            }
        };
        let (outcome, text) = match fault {
            Some((outcome, fault)) => (outcome, format!("the script that sends the form on {page}: {fault}")),
            None => (Outcome::Ok, "the script that sends forms arrives unchanged".to_owned()),
        };
        StepResult { step: Step::Page, subject: script.to_owned(), outcome, text, took: began.elapsed() }
    }

    /// Requests a path, and follows at most [`MAX_REDIRECTS`] redirects on this site. The error says what
    /// visitors get instead of a response with 2xx, such as a redirect to another site.
    async fn get(&self, path: &str, accept: &'static str) -> Result<FetchResponse, String> {
        let mut target = path.to_owned();
        for _ in 0..=MAX_REDIRECTS {
            let headers = [
                (ACCEPT, HeaderValue::from_static(accept)),
                (ACCEPT_LANGUAGE, HeaderValue::from_static("en;q=0.9, *;q=0.8")),
                (USER_AGENT, HeaderValue::from_static(AGENT)),
            ];
            let sent = self.client.send(Method::GET, &self.url.with_target(&target), headers, "").await;
            let response =
                sent.map_err(|error| format!("visitors get no response: {}", quoted(&error.sentence)))?;
            if response.status.is_success() {
                return Ok(response);
            }
            if !response.status.is_redirection() {
                return Err(format!("visitors get {} instead", response.status));
            }
            let location =
                response.headers.get(LOCATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
            target = self.follow(&target, location).ok_or_else(|| {
                format!(
                    "visitors are redirected to {} ({}): set `base_url` to the final address",
                    quoted(location),
                    response.status
                )
            })?;
        }
        Err(format!("visitors get more than {MAX_REDIRECTS} redirects"))
    }

    /// The path and query on this site that a redirect from `target` leads to. `None` if it leads to
    /// another scheme, host or port, or if `location` is invalid.
    fn follow(&self, target: &str, location: &str) -> Option<String> {
        let site = parse_url(self.origin).ok()?;
        let next = site.join(target).ok()?.join(location).ok()?;
        let query = next.query().map(|query| format!("?{query}")).unwrap_or_default();
        (next.origin() == site.origin()).then(|| format!("{}{query}", next.path()))
    }
}

/// The media type in lower case, without parameters.
fn media_type(headers: &HeaderMap) -> String {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

fn quoted(text: &str) -> String {
    visible(cut(text, MAX_QUOTED_CHARS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::site_forms::SitePage;
    use frontdesk_fetch::{FetchTimeouts, NameResolver};
    use frontdesk_forms::CONTACT;

    const FORM: &str = "<form data-frontdesk=contact><input name=name><input name=email><textarea name=message>\
        </textarea></form>";

    /// Calls `run` with the check of a site with this many pages. The check's deadline has passed.
    fn with_check<T>(pages: usize, run: impl FnOnce(&PageCheck<'_>, &SiteForms) -> T) -> T {
        let page = |n| SitePage { path: format!("/{n}/"), html: Bytes::from_static(FORM.as_bytes()) };
        let site = SiteContent { pages: (0..pages).map(page).collect(), ..SiteContent::default() };
        let origin = "https://www.example.com";
        let url = Url::parse(origin).unwrap();
        let limit = Duration::from_secs(1);
        let timeouts =
            FetchTimeouts { resolve: limit, connect: limit, tls: limit, answer: limit, body: limit };
        let no_names = NameResolver::Custom(Box::new(|_| Vec::new()));
        let client = FetchClient::new(no_names, true, None, timeouts);
        let forms = [*CONTACT];
        let own = SiteForms::find(&site, &forms, origin, &[]);
        let deadline = Instant::now();
        let (client, url) = (&client, &url);
        run(&PageCheck { client, url, origin, forms: &forms, site: &site, deadline }, &own)
    }

    #[test]
    fn a_run_fetches_at_most_twenty_pages_until_its_time_is_over() {
        with_check(25, |check, own| {
            assert_eq!((own.pages.len(), own.known.len()), (25, 25));
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let steps = runtime.block_on(check.run(own));
            assert_eq!(steps.len(), 20);
            assert!(steps.iter().all(|step| step.outcome == Outcome::Skipped), "{steps:?}");
            assert!(steps[0].text.contains("the time of this check was over"), "{}", steps[0].text);
            assert_eq!(check.skip_all(own).len(), 20);
        });
    }

    #[test]
    fn redirects_are_followed_on_this_site_only() {
        with_check(1, |check, _| {
            for (location, expected) in [
                ("/contact/", Some("/contact/")),
                ("next?a=b#c", Some("/x/next?a=b")),
                ("https://www.example.com/y", Some("/y")),
                ("http://www.example.com/y", None),
                ("https://example.com/y", None),
                ("//evil.example/y", None),
            ] {
                assert_eq!(check.follow("/x/old", location).as_deref(), expected, "{location}");
            }
        });
    }
}
