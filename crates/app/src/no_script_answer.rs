//! Answers to forms that browsers send without JavaScript: a redirect to the thank-you page, or the form's
//! page with a message, the visitor's text and the errors.

use std::borrow::Cow;

use http::StatusCode;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION, REFERER};
use http::request::Parts;

use super::get_page::field_values;
use super::post_form::refusal::FormRefusal;
use super::response::{HttpResponse, text};
use frontdesk_forms::Form;
use frontdesk_forms::form_post::PostedForm;
use frontdesk_forms::urlencoded::parameter;
use frontdesk_http::{RequestBody, host_of};
use frontdesk_negotiate::members_with_quality;
use frontdesk_site::{FormMessage, Site, path};

/// Whether `Accept` names HTML and does not prefer JSON, as browsers do when they request a page.
pub(super) fn is_preferred(head: &Parts) -> bool {
    prefers_html(&head.headers)
}

/// Whether `Accept` names HTML, and JSON with no higher quality. Browsers send that for pages; their scripts
/// and other programs send `*/*` or name JSON. Skips members with a malformed quality.
fn prefers_html(headers: &HeaderMap) -> bool {
    let (mut html, mut json) = (0, 0);
    for line in field_values(headers, ACCEPT) {
        for (media_type, quality) in members_with_quality(line) {
            match &*media_type.to_ascii_lowercase() {
                b"text/html" | b"application/xhtml+xml" => html = html.max(quality),
                b"application/json" => json = json.max(quality),
                _ => {}
            }
        }
    }
    html > 0 && html >= json
}

/// The response to a submitted HTML form, in the language of the page from which the visitor sent it.
pub(super) struct Answer<'a> {
    site: &'a Site,
    form: &'static Form,
    /// The decoded path of the page from which the form was sent; the endpoint's path if the page is unknown.
    page: String,
}

impl<'a> Answer<'a> {
    pub(super) fn new(site: &'a Site, form: &'static Form, head: &Parts) -> Self {
        let page = page_left(head, &site.base_url).unwrap_or_else(|| form.path.to_owned());
        Self { site, form, page }
    }

    /// 303 to the thank-you page (RFC 9110 §15.4.4), so that a reload sends nothing again. The target depends
    /// only on the language of the page, so this is no open redirect.
    fn redirect_to_thanks(&self) -> HttpResponse {
        let path = self.site.thanks_path(&self.page);
        let mut response = text(StatusCode::SEE_OTHER, format!("Thank you. The next page is {path}\n"));
        if let Ok(path) = HeaderValue::from_str(&path) {
            response.headers_mut().insert(LOCATION, path);
        }
        response
    }

    /// Redirects the browser if the submission was accepted. Otherwise returns the form's page with the
    /// reason for the refusal and the visitor's text, or JSON if there is no such page.
    pub(super) fn respond(
        &self,
        result: &Result<(), FormRefusal>,
        posted: Option<&PostedForm>,
        request: &RequestBody,
    ) -> HttpResponse {
        match result {
            Ok(()) => self.redirect_to_thanks(),
            Err(refusal) => self.render_refusal(refusal, posted, request),
        }
    }

    /// The JSON response to a refusal, with the form's page as its body. Status and other headers stay. The
    /// memory of the page is charged to the connection. The response stays JSON if no page has the form.
    fn render_refusal(
        &self,
        refusal: &FormRefusal,
        posted: Option<&PostedForm>,
        request: &RequestBody,
    ) -> HttpResponse {
        let mut response = refusal.to_response();
        let Some(page) = self.site.form_page(self.form.name, &self.page) else { return response };
        let sentence = match refusal {
            // The form has an `enctype` that is not accepted, or is multipart and not on this site.
            FormRefusal::MediaType => {
                "The page sent the form in a format that is not accepted. Please fill in the form below and send it."
                    .to_owned()
            }
            FormRefusal::Invalid(sentence) if posted.is_some_and(|posted| !posted.is_readable()) => {
                format!("{sentence} Please check the text below and send it again.")
            }
            refusal => refusal.sentence(),
        };
        let message = match refusal {
            FormRefusal::Method => FormMessage::NothingSent,
            FormRefusal::TooMany(seconds) | FormRefusal::OverBudget(seconds) => {
                FormMessage::TooMany(*seconds)
            }
            FormRefusal::OtherSite => FormMessage::OtherSite,
            FormRefusal::Slow | FormRefusal::Broken => FormMessage::NoResponse,
            FormRefusal::TooLong => FormMessage::TooLarge,
            FormRefusal::NotStored(_) | FormRefusal::LowDisk(_) | FormRefusal::NotConfirmed(_) => {
                FormMessage::ServerError
            }
            // The page shows an error beside each invalid field, so the message is general.
            FormRefusal::Invalid(_) if posted.is_some_and(|posted| !posted.invalid_fields().is_empty()) => {
                FormMessage::Invalid
            }
            FormRefusal::Invalid(_) | FormRefusal::MediaType | FormRefusal::ContentCoding(_) => {
                FormMessage::Refused(&sentence)
            }
        };
        *response.body_mut() = request.charged_response(page.render(message, posted)).into();
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
        response
    }
}

/// The decoded path of the page that the visitor left: the query `page=…` of the form's address, which the
/// theme adds, or else the path of a `Referer` on this site. `None` if neither is a path.
fn page_left(head: &Parts, base_url: &str) -> Option<String> {
    let decode = |page: &str| path::decode(page).ok().map(Cow::into_owned);
    let referer = || own_referer(head, base_url)?.split(['?', '#']).next().and_then(decode);
    named_page(head).and_then(|page| decode(&page)).or_else(referer)
}

/// The page with the form, as the parameter `page` of the request's query names it. The theme writes this
/// parameter first and as a path, which may contain `&`: the rest of the query is then the page, and is not
/// decoded. Other templates encode the page as usual, and it is decoded here.
pub(super) fn named_page(head: &Parts) -> Option<Cow<'_, str>> {
    let query = head.uri.query()?;
    match query.strip_prefix("page=").filter(|page| page.starts_with('/')) {
        Some(page) => Some(page.into()),
        None => parameter(query, "page").map(Cow::Owned),
    }
}

/// The path and query of `Referer` if its host and port are those of `base_url` or of the request, spelled
/// the same. `None` without a slash after the host.
pub(super) fn own_referer<'a>(head: &'a Parts, base_url: &str) -> Option<&'a str> {
    let referer = head.headers.get(REFERER)?.to_str().ok()?;
    let (_, rest) = referer.split_once("://")?;
    let (authority, path) = rest.split_at(rest.find('/')?);
    let own = base_url.split_once("://").map_or("", |(_, own)| own);
    [own, host_of(head).unwrap_or_default()].contains(&authority).then_some(path)
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    #[test]
    fn browsers_prefer_html_and_programs_json() {
        for (accept, expected) in [
            ("text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8", true),
            ("text/html", true),
            ("application/xhtml+xml", true),
            ("TEXT/HTML ; Q=0.5, */*", true),
            ("application/json, text/html", true),
            ("application/json, text/html;q=0.9", false),
            ("application/json;q=0.2, text/html;q=0.25", true),
            ("text/html;q=0", false),
            ("text/html;q=x", false),
            ("text/html;q=1.5", false),
            ("text/html;q=0.5x", false),
            ("application/json;q=1.5, text/html;q=0.5", true),
            ("application/json;q=0.2, text/html;a=\"x,y;q=0\" ; q = .25", true),
            ("text/html;q=0.0001", true),
            ("application/json", false),
            ("*/*", false),
            ("text/*", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, HeaderValue::from_static(accept));
            assert_eq!(prefers_html(&headers), expected, "{accept}");
        }
        assert!(!prefers_html(&HeaderMap::new()));
    }

    #[test]
    fn the_page_left_is_a_path_on_this_site() {
        let check = |uri: &str, referer: Option<&str>, expected: Option<&str>| {
            let mut request = Request::builder().uri(uri).header("host", "127.0.0.1:8080");
            if let Some(referer) = referer {
                request = request.header(REFERER, referer);
            }
            let (head, ()) = request.body(()).expect("a request").into_parts();
            let found = page_left(&head, "https://www.example.com");
            assert_eq!(found.as_deref(), expected, "{uri} {referer:?}");
        };
        check("/api/contact?page=/de/kontakt/", None, Some("/de/kontakt/"));
        check("/api/contact?page=/a%20b&c=d/", None, Some("/a b&c=d/"));
        check("/api/contact?page=%2Fde%2Fkontakt%2F", None, Some("/de/kontakt/"));
        check("/api/contact?utm_source=x&page=/de/kontakt/", None, Some("/de/kontakt/"));
        check("/api/contact?page=%2Fa%2520b%2F&page=/c/", None, Some("/a b/"));
        check("/api/contact?page=%2F%2Fevil.example/", Some("https://www.example.com/y/"), Some("/y/"));
        check("/api/contact?page=%ff&homepage=/x/", None, None);
        check("/api/contact?page=/x/", Some("https://www.example.com/y/"), Some("/x/"));
        check("/api/contact", Some("https://www.example.com/de/kontakt/?a#b"), Some("/de/kontakt/"));
        check("/api/contact", Some("http://127.0.0.1:8080/x/"), Some("/x/"));
        check("/api/contact", Some("https://www.example.com"), None);
        check("/api/contact", Some("https://other.example/de/"), None);
        check("/api/contact?page=//evil.example/", None, None);
        check("/api/contact?page=https://evil.example/", None, None);
        check("/api/contact?page=/../x", None, None);
        check("/api/contact?a=b", None, None);
        check("/api/contact", None, None);
    }
}
