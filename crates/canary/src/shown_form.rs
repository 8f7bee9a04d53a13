//! Reads the forms and scripts of a page, as a browser sees them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use frontdesk_convert::{HtmlElement, HtmlTree, Selector, Url, parse_url};
use frontdesk_forms::Form;

/// Prefix of controls that belong to the theme and to the form's script, not to the form definition.
const OWN_PREFIX: &str = "desk_";

/// The parts of a page that the form check needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PageContent {
    pub title: String,
    pub forms: Vec<ShownForm>,
    /// The paths of the site's own scripts, without queries.
    pub scripts: BTreeSet<String>,
    /// Whether the page has scripts from other sites, which may send a form as well. Also true for a script
    /// with an invalid `src`.
    pub has_foreign_scripts: bool,
    /// The text of the scripts in the page itself.
    pub inline_scripts: String,
}

/// A form on a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ShownForm {
    pub action: PageAddress,
    pub is_post: bool,
    /// The form's name in its attribute `data-frontdesk`.
    pub attribute: Option<String>,
    /// The names of the form's controls, and whether a browser requires a value for each.
    pub controls: BTreeMap<String, bool>,
}

/// An address in a page's HTML: the target of a form or the source of a script.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum PageAddress {
    /// There is no address. A browser sends a form without an address to the page itself.
    #[default]
    Missing,
    /// A path on this site, without its query.
    Path(String),
    /// A URL on another site, or with another scheme or port.
    Elsewhere(String),
}

static SCRIPT: LazyLock<Selector> = LazyLock::new(|| selector("script"));
static BASE: LazyLock<Selector> = LazyLock::new(|| selector("base"));
static TITLE: LazyLock<Selector> = LazyLock::new(|| selector("title"));

fn selector(text: &str) -> Selector {
    Selector::parse(text).unwrap_or_else(|_| panic!("`{text}` is a selector"))
}

impl PageContent {
    /// Reads the page at `path` of the site at `origin`, such as `https://www.example.com`. Leaves out
    /// forms and scripts in a `<template>`. If `origin` is invalid, all addresses are on another site.
    pub(crate) fn read(html: &str, origin: &str, path: &str) -> PageContent {
        let tree = HtmlTree::parse(html);
        let addresses = Addresses::new(&tree, origin, path);
        let mut content = PageContent {
            title: tree.all(&TITLE).first().map(|title| title.text()).unwrap_or_default(),
            ..PageContent::default()
        };
        let forms = tree.forms();
        content.forms.extend(forms.iter().map(|(form, controls)| read_form(*form, controls, &addresses)));
        for script in tree.all(&SCRIPT).into_iter().filter(|script| !is_in_template(*script)) {
            match script.attribute("src").map(|source| addresses.resolve(source)) {
                None => content.inline_scripts.extend([&*script.text(), "\n"]),
                // Browsers run neither the text nor a file of a script with an empty `src`.
                Some(PageAddress::Missing) => {}
                Some(PageAddress::Path(path)) => drop(content.scripts.insert(path)),
                Some(PageAddress::Elsewhere(_)) => content.has_foreign_scripts = true,
            }
        }
        content
    }
}

/// Whether an element is in a `<template>`, whose content browsers neither show nor send.
fn is_in_template(element: HtmlElement<'_>) -> bool {
    element.ancestors().any(|outer| outer.name() == "template")
}

/// Reads a form and its named controls, without buttons that send no value. Of several controls with the same
/// name, the last one decides whether it is required.
fn read_form(form: HtmlElement<'_>, controls: &[HtmlElement<'_>], addresses: &Addresses) -> ShownForm {
    let sends_value =
        |control: &&HtmlElement| control.name() != "button" || control.attribute("value").is_some();
    let named = controls.iter().filter(sends_value).filter_map(|control| {
        let name = control.attribute("name").filter(|name| !name.is_empty())?;
        Some((name.to_owned(), control.attribute("required").is_some()))
    });
    ShownForm {
        action: form.attribute("action").map_or(PageAddress::Missing, |action| addresses.resolve(action)),
        is_post: form.attribute("method").is_some_and(|method| method.trim().eq_ignore_ascii_case("post")),
        attribute: form.attribute("data-frontdesk").map(str::to_owned),
        controls: named.collect(),
    }
}

/// Resolves relative URLs on a page (RFC 3986 §5).
struct Addresses {
    site: Option<Url>,
    base: Option<Url>,
}

impl Addresses {
    /// Addresses are relative to the first `<base href>`, otherwise to the page. If that or `origin` is
    /// invalid, all addresses count as those of another site.
    fn new(tree: &HtmlTree, origin: &str, path: &str) -> Addresses {
        let site = parse_url(origin).ok();
        let page = site.as_ref().and_then(|site| site.join(path).ok());
        let declared = tree.all(&BASE).into_iter().find_map(|base| base.attribute("href"));
        let base = match (&page, declared) {
            (Some(page), Some(declared)) => page.join(declared.trim()).ok(),
            _ => page,
        };
        Addresses { site, base }
    }

    /// Resolves an address. Keeps only the path of one on this site. An empty one is
    /// [`PageAddress::Missing`]; an invalid one is [`PageAddress::Elsewhere`], as written.
    fn resolve(&self, address: &str) -> PageAddress {
        let address = address.trim();
        if address.is_empty() {
            return PageAddress::Missing;
        }
        let (Some(site), Some(base)) = (&self.site, &self.base) else {
            return PageAddress::Elsewhere(address.to_owned());
        };
        match base.join(address) {
            Ok(url) if url.origin() == site.origin() => PageAddress::Path(url.path().to_owned()),
            Ok(url) => PageAddress::Elsewhere(url.to_string()),
            Err(_) => PageAddress::Elsewhere(address.to_owned()),
        }
    }
}

impl ShownForm {
    /// Whether this form on a page is sent to the endpoint of `form`.
    pub(crate) fn sends_to(&self, form: &Form) -> bool {
        matches!(&self.action, PageAddress::Path(path) if path == form.path)
    }

    /// Whether the page marks this form as `form`: by `data-frontdesk` or, without it, by the address.
    pub(crate) fn is_marked_as(&self, form: &Form) -> bool {
        self.attribute.as_deref() == Some(form.name) || self.attribute.is_none() && self.sends_to(form)
    }

    /// The names of the required fields of `form`, in the set of its fields that applies to the controls of
    /// this form.
    fn required_fields_of<'f>(&self, form: &'f Form) -> impl Iterator<Item = &'f str> {
        let fields = form.choose_fields(|name| self.controls.contains_key(name));
        fields.iter().filter(|field| field.required).map(|field| field.name)
    }

    /// The names of the required fields of `form` that this form has no controls for.
    pub(crate) fn missing_fields_of<'f>(&self, form: &'f Form) -> Vec<&'f str> {
        self.required_fields_of(form).filter(|name| !self.controls.contains_key(*name)).collect()
    }

    /// Whether this form has controls for all required fields of `form`. False if it requires none.
    pub(crate) fn has_required_fields_of(&self, form: &Form) -> bool {
        self.required_fields_of(form).next().is_some() && self.missing_fields_of(form).is_empty()
    }

    /// Whether all controls of this form, apart from those with [`OWN_PREFIX`], are fields of `form` in one
    /// of its shapes.
    pub(crate) fn has_only_fields_of(&self, form: &Form) -> bool {
        self.controls.keys().all(|name| name.starts_with(OWN_PREFIX) || form.field(name).is_some())
    }

    /// The names of controls that browsers require and that are not fields of `form`, apart from those with
    /// [`OWN_PREFIX`].
    pub(crate) fn unknown_required(&self, form: &Form) -> Vec<&str> {
        let unknown = |(name, is_required): &(&String, &bool)| {
            **is_required && !name.starts_with(OWN_PREFIX) && form.field(name).is_none()
        };
        self.controls.iter().filter(unknown).map(|(name, _)| name.as_str()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use frontdesk_forms::{CONTACT, WAITLIST};

    fn read(html: &str) -> PageContent {
        PageContent::read(html, "https://www.example.com", "/about/contact/")
    }

    fn action(attributes: &str) -> PageAddress {
        read(&format!("<form {attributes}></form>")).forms[0].action.clone()
    }

    #[test]
    fn actions_are_resolved_as_browsers_do() {
        let path = |text: &str| PageAddress::Path(text.to_owned());
        for (attributes, expected) in [
            ("", PageAddress::Missing),
            ("action=' '", PageAddress::Missing),
            ("action=/api/contact", path("/api/contact")),
            ("action=/api/contact?page=/x/", path("/api/contact")),
            ("action=../../api/contact", path("/api/contact")),
            ("action=api/contact", path("/about/contact/api/contact")),
            ("action=https://www.example.com/api/contact", path("/api/contact")),
            ("action=https://www.example.com:443/api/contact", path("/api/contact")),
            ("action=//www.example.com/api/contact", path("/api/contact")),
        ] {
            assert_eq!(action(attributes), expected, "{attributes}");
        }
        for elsewhere in [
            "http://www.example.com/api/contact",
            "https://www.example.com:8443/api/contact",
            "https://www.example.com.evil.test/api/contact",
            "//old.example/api/contact",
            "mailto:team@example.com",
        ] {
            let found = action(&format!("action={elsewhere}"));
            assert!(matches!(found, PageAddress::Elsewhere(_)), "{elsewhere}: {found:?}");
        }
        let with_base = read("<base href=/sub/><form action=x></form>");
        assert_eq!(with_base.forms[0].action, path("/sub/x"));
    }

    #[test]
    fn controls_belong_to_their_form_and_not_to_another() {
        let content = read(
            "<form id=a><input name=email required><input type=submit><input name=''></form>\
             <textarea name=message form=a></textarea><form id=b method=POST data-frontdesk=waitlist>\
             <select name=size></select><input name=name form=a><button name=go>Go</button>\
             <button name=use value=work>Work</button></form>",
        );
        let names = |form: &ShownForm| form.controls.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&content.forms[0]), ["email", "message", "name"]);
        assert_eq!(names(&content.forms[1]), ["size", "use"]);
        assert!(content.forms[0].controls["email"] && !content.forms[0].controls["message"]);
        assert!(!content.forms[0].is_post && content.forms[1].is_post);
        assert_eq!(content.forms[1].attribute.as_deref(), Some("waitlist"));
    }

    #[test]
    fn comments_and_templates_have_no_forms() {
        let form = "<form data-frontdesk=contact><input name=email></form><script src=/a.js></script>";
        assert_eq!(read(form).forms.len(), 1);
        for hidden in [
            format!("<!-- {form} -->"),
            format!("<template>{form}</template>"),
            format!("<template><div>{form}</div></template>"),
            format!("<textarea>{form}</textarea>"),
            format!("<script type=text/x>{}</script>", form.replace("</script>", "")),
        ] {
            let content = read(&hidden);
            assert!(content.forms.is_empty() && content.scripts.is_empty(), "{hidden}: {content:?}");
        }
    }

    #[test]
    fn scripts_of_the_site_are_told_from_others() {
        let content = read(
            "<title> Contact  us</title><script src='/assets/forms.js?v=1'></script><script src=app.js></script>\
             <script>send('/api/contact')</script>",
        );
        assert_eq!(content.title, "Contact us");
        assert_eq!(content.scripts.iter().collect::<Vec<_>>(), ["/about/contact/app.js", "/assets/forms.js"]);
        assert!(content.inline_scripts.contains("/api/contact") && !content.has_foreign_scripts);
        assert!(read("<script src=https://cdn.example/x.js></script>").has_foreign_scripts);
        for empty in ["<script src=''>send()</script>", "<script src=' '></script>", "<script src></script>"]
        {
            assert_eq!(read(empty), PageContent::default(), "{empty}");
        }
    }

    #[test]
    fn a_form_is_known_by_attribute_address_or_fields() {
        let read = |html: &str| read(html).forms.remove(0);
        assert!(read("<form data-frontdesk=contact></form>").is_marked_as(&CONTACT));
        assert!(read("<form action=/api/contact></form>").is_marked_as(&CONTACT));
        assert!(!read("<form action=/api/contact data-frontdesk=waitlist></form>").is_marked_as(&CONTACT));
        let login = read("<form><input name=email required><input name=password required></form>");
        assert!(login.has_required_fields_of(&WAITLIST) && !login.has_only_fields_of(&WAITLIST));
        assert_eq!(login.unknown_required(&WAITLIST), ["password"]);
        let own = read("<form><input name=email><input name=desk_note required></form>");
        assert!(own.has_only_fields_of(&WAITLIST) && own.unknown_required(&WAITLIST).is_empty());
        assert!(!own.has_required_fields_of(&CONTACT));
    }
}
