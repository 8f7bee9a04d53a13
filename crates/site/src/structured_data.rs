//! Structured data (schema.org) as JSON-LD.

use jiff::civil::Date;
use serde::Serialize;

/// An object of a schema.org type. Serialised without `serde_json::Value`s, because each page has several.
#[derive(Serialize)]
#[serde(tag = "@type", rename_all_fields = "camelCase")]
pub(super) enum Thing<'a> {
    WebPage(PageThing<'a>),
    BlogPosting(PageThing<'a>),
    WebSite { name: &'a str, url: String, description: &'a str },
    BreadcrumbList { item_list_element: Vec<Thing<'a>> },
    ListItem { position: usize, name: &'a str, item: String },
    Organization { name: &'a str, url: String },
    Person { name: &'a str },
}

/// A page or a post.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PageThing<'a> {
    #[serde(rename = "@id")]
    pub id: &'a str,
    pub url: &'a str,
    pub name: &'a str,
    pub in_language: &'a str,
    pub date_modified: Date,
    pub publisher: Box<Thing<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub date_published: Option<Date>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headline: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub author: Option<Box<Thing<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keywords: Option<String>,
}

/// The things as JSON-LD, escaped for use in a script element.
pub(super) fn to_json_ld(things: &[Thing<'_>]) -> String {
    #[derive(Serialize)]
    struct Graph<'a> {
        #[serde(rename = "@context")]
        context: &'a str,
        #[serde(rename = "@graph")]
        graph: &'a [Thing<'a>],
    }
    // Serialising texts and dates cannot fail.
    let graph = Graph { context: "https://schema.org", graph: things };
    let json = serde_json::to_string(&graph).unwrap_or_default();
    if json.contains('<') { json.replace("</", "<\\/").replace("<!--", "<\\u0021--") } else { json }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_cannot_end_the_script_element() {
        let name = "</script><!-- \"quoted\" \\ é";
        let json = to_json_ld(&[Thing::Person { name }]);
        assert!(!json.contains("</") && !json.contains("<!--"), "{json}");
        let value: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!(value["@graph"][0], serde_json::json!({ "@type": "Person", "name": name }));
    }
}
