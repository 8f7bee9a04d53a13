//! Recognizes elements that no visitor sees, whether a script runs or not: those that the style sheet of a
//! generator always hides, traps for bots in forms, and text outside of the screen.

use super::dom::{Dom, NodeId, Tag};
use super::media::is_embedded;
use super::script_embeds::canonical_address;

/// Whether an element is always hidden, so that it is not content even if a control seems to open it.
pub(super) fn is_never_shown(dom: &Dom, id: NodeId) -> bool {
    is_hidden_by_generator(dom, id) || is_trap(dom, id)
}

/// Whether the style sheet of a generator always hides an element, by its classes or those of its parent.
/// Webflow hides elements with a false condition or an empty field, and the answer to a form that was not
/// sent; Dokka hides the message that something was copied, Quarto that no item of a list matches, Divi the
/// copy of a number that it animates, Ghost the picture that an audio file does not have, Sphinx the text of
/// a link that covers a card, Crayon a copy of the code for the clipboard, and VuePress, except in print, a
/// copy of the label of a tab.
fn is_hidden_by_generator(dom: &Dom, id: NodeId) -> bool {
    let is_in_form = || dom.parent(id).is_some_and(|parent| dom.has_class(parent, "w-form"));
    let has_icon = || dom.child_elements(id).any(|child| dom.has_class(child, "copy-popup-icon"));
    let is_hidden = |class| match class {
        "w-condition-invisible"
        | "w-dyn-bind-empty"
        | "kg-audio-hide"
        | "crayon-plain-wrap"
        | "vp-tab-title"
        | "vp-code-tab-title" => true,
        "copy-popup-wrapper" => has_icon(),
        "listing-no-matching" => dom.has_class(id, "d-none"),
        "et_pb_counter_amount" => dom.has_class(id, "overlay"),
        "w-form-done" | "w-form-fail" => {
            is_in_form() && dom.style(id, "display").is_none_or(|display| display == "none")
        }
        _ => false,
    };
    let is_hidden_text = |link| dom.tag(link) == Tag::A && dom.has_class(link, "sd-hide-link-text");
    dom.classes(id).any(is_hidden) || dom.parent(id).is_some_and(is_hidden_text)
}

/// Parts of the classes of traps for bots ("honeypots"): fields of forms that visitors do not see and that
/// must stay empty.
const TRAPS: [&str; 3] = ["honeypot", "gform_validation_container", "wpforms-field-hp"];

/// Names of fields that are traps for bots.
const TRAP_FIELDS: [&str; 3] = ["honeypot", "bot-field", "_gotcha"];

/// Maximum number of nodes in an element that counts as a trap for bots.
const MAX_TRAP: usize = 20;

/// Whether an element in a form is a trap for bots: it has at most [`MAX_TRAP`] nodes and exactly one field,
/// and its class says so, or the name of the field, which may be in Netlify's attribute of the form. If only
/// the name says so, the element must have no link, button or image, and no text outside of labels.
fn is_trap(dom: &Dom, id: NodeId) -> bool {
    if !matches!(dom.tag(id), Tag::Div | Tag::P | Tag::Label | Tag::Li | Tag::Span) {
        return false;
    }
    // Check this first, because most elements are not in a form.
    let Some(form) = dom.ancestors(id).find(|&a| dom.tag(a) == Tag::Form) else { return false };
    let nodes: Vec<NodeId> = dom.subtree(id).take(MAX_TRAP + 1).collect();
    let is_field = |&node: &NodeId| {
        matches!(dom.tag(node), Tag::Input | Tag::Textarea | Tag::Select)
            && dom.attribute(node, "type") != Some("hidden")
    };
    let mut fields = nodes.iter().copied().filter(is_field);
    let (Some(field), None) = (fields.next(), fields.next()) else { return false };
    let name = dom.first_attribute(field, &["name"]);
    let declared = dom.first_attribute(form, &["netlify-honeypot", "data-netlify-honeypot"]);
    let has_class = dom.classes(id).any(|class| TRAPS.iter().any(|trap| class.contains(trap)));
    let has_name = name.is_some_and(|name| TRAP_FIELDS.contains(&name) || declared == Some(name));
    let is_content = |&node: &NodeId| match dom.tag(node) {
        Tag::Text => !dom.is_blank(node) && !dom.is_in(node, &[Tag::Label]),
        tag => matches!(tag, Tag::A | Tag::Button | Tag::Img),
    };
    nodes.len() <= MAX_TRAP && (has_class || has_name && !nodes.iter().any(is_content))
}

/// Whether the style of an element puts text where no visitor sees it: far outside of the screen, if screen
/// readers skip it or it has a link to another host, as the spam on a hacked site does; without size and
/// transparent; in letters without size; or the preview of an e-mail. Elements with headings outside of the
/// screen do not count, because a slider may show them, and neither does zero height alone, because a script
/// may open the element.
pub(super) fn is_out_of_sight(dom: &Dom, id: NodeId) -> bool {
    if !dom.has_attribute(id, "style") {
        return false;
    }
    let number = |property| {
        let value = dom.style(id, property)?.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == '%');
        value.parse::<f32>().ok()
    };
    let is_zero = |property| number(property) == Some(0.0);
    let has_foreign_link = || {
        let own = canonical_address(dom).and_then(host);
        let mut hosts = dom.descendants(id).take(200).filter_map(|d| host(dom.attribute(d, "href")?));
        hosts.any(|host| Some(host) != own)
    };
    let is_far = || ["left", "right", "top"].iter().any(|side| number(side).is_some_and(|at| at <= -5000.0));
    let is_placed = matches!(dom.style(id, "position"), Some("absolute" | "fixed"));
    let has_heading = || dom.descendants(id).any(|d| dom.is_heading(d));
    let has_text = |id| dom.children(id).any(|child| dom.text(child).is_some() && !dom.is_blank(child));
    is_placed
        && is_far()
        && (dom.attribute(id, "aria-hidden") == Some("true") || has_foreign_link())
        && !has_heading()
        || ["opacity", "width", "height"].into_iter().all(is_zero)
        // Letters without size around other elements remove the space between these, which set a size of
        // their own. In a link, they are the label of a symbol.
        || is_zero("font-size")
            && dom.child_elements(id).next().is_none()
            && has_text(id)
            && !is_embedded(dom.tag(id))
            && !dom.is_in(id, &[Tag::A, Tag::Button])
        // `mso-hide` alone hides an element only in Outlook, so another property must hide it elsewhere.
        || dom.style(id, "mso-hide") == Some("all")
            && ["max-height", "font-size", "opacity"].into_iter().any(is_zero)
}

/// The host in an address; `None` if the address has no host.
fn host(address: &str) -> Option<&str> {
    address.split_once("//")?.1.split(['/', '?', '#']).next()
}

#[cfg(test)]
mod tests {
    use super::super::tests::markdown;

    #[test]
    fn what_a_generator_hides_with_a_class_is_dropped() {
        let card = "<div class=badge>a</div><div class='badge w-condition-invisible'>b</div>\
            <a href=# class='button w-condition-invisible'>c</a><div class='text w-dyn-bind-empty'></div>";
        let form = "<div class=w-form><form><p>d</form><div class=w-form-done>e</div>\
            <div class=w-form-fail><p>f</div></div>";
        let copied = "<div class='copy-popup-wrapper popup-to-left'><i class=copy-popup-icon></i>g</div>";
        assert_eq!(markdown(&format!("{card}{form}{copied}")), "a\n\nd\n");
        let card = "<div class=sd-card><p>a</p><a class='sd-stretched-link sd-hide-link-text' href=/b><i>c</i></a></div>";
        let page = format!("<!doctype html><title>t</title><main>{card}</main>");
        assert_eq!(markdown(&page), "# t\n\n[a](/b)\n");
        let listing = "<p>a</p><div class='listing-no-matching d-none'>No matching items</div>";
        assert_eq!(markdown(listing), "a\n");
        let counter = "<b class=et_pb_counter_amount>80%</b><b class='et_pb_counter_amount overlay'>80%</b>";
        assert_eq!(markdown(counter), "**80%**\n");
        let crayon = "<div class=crayon-plain-wrap><textarea readonly>a</textarea></div><div class=crayon-main>\
            <table class=crayon-table><tr><td class=crayon-nums><div>1</div><td><div class=crayon-line>a</div></table></div>";
        assert_eq!(markdown(crayon), "```\na\n```\n");
        let tabs = "<div class=vp-tabs><div role=tablist><button role=tab>a</button><button role=tab>b</button></div>\
            <div class=vp-tab role=tabpanel><div class=vp-tab-title>a</div><p>c</div>\
            <div class=vp-tab role=tabpanel><div class=vp-tab-title>b</div><p>d</div></div>";
        assert_eq!(markdown(tabs), "**a**\n\nc\n\n**b**\n\nd\n");
        let shown = "<div class=w-form><div class=w-form-done style='display: block'>a</div></div>\
            <p class=w-form-fail>b</p><p class=w-condition-visible>c</p>";
        assert_eq!(markdown(shown), "a\n\nb\n\nc\n");
    }

    #[test]
    fn traps_for_bots_are_dropped_with_their_labels() {
        for trap in [
            "<div class='gfield gform_validation_container'><label>b</label><input><div>Leave it.</div></div>",
            "<p class=hidden><label>Do not fill this out: <input name=bot-field></label></p>",
            "<div class=wpforms-field-hp><label>b</label><input></div>",
            "<label>b <input name=middle-name></label>",
        ] {
            let form = format!("<form netlify-honeypot=middle-name><label>a <input></label>{trap}</form>");
            assert_eq!(markdown(&form), "a\n", "{form}");
        }
        let fields = "<p><label>a <input name=bot-field></label> <label>b <input name=c></label></p>";
        assert_eq!(markdown(&format!("<form>{fields}</form>")), "b\n");
        assert_eq!(
            markdown("<div class=honeypots><p>How honeypots work <input></div>"),
            "How honeypots work\n"
        );
    }

    #[test]
    fn text_beside_traps_for_bots_stays() {
        for (html, expected) in [
            (
                "<form><div><p>By sending you accept our <a href=/t>terms</a>.</p><input name=_gotcha style=display:none>\
                 <button>Send</button></div></form>",
                "By sending you accept our [terms](/t).\n\nSend\n",
            ),
            (
                "<form><div class=row><p>Hours: 9–17</p><div class=hp><label>Leave empty <input name=honeypot></label></div></div></form>",
                "Hours: 9–17\n",
            ),
            ("<form><label>Which robot? <input name=robot-field></label></form>", "Which robot?\n"),
        ] {
            assert_eq!(markdown(html), expected, "{html}");
        }
    }

    #[test]
    fn text_out_of_sight_is_dropped() {
        for html in [
            "<div style='position:absolute; left:-9999px'><a href=https://spam.example>b</a></div>",
            "<div style='position:absolute;top:-9999em' aria-hidden=true>b</div>",
            "<i style='opacity:0;height:0;width:0px;position:absolute'>b</i>",
            "<p style=font-size:0>b",
            "<div style='display:block;max-height:0;mso-hide:all'>b</div>",
        ] {
            assert_eq!(markdown(&format!("<p>a</p>{html}")), "a\n", "{html}");
        }
        for html in [
            "<div style='position:absolute; left:-9999px'><a href=#main>b</a></div>",
            "<div style='opacity:0;height:0;overflow:hidden'>b</div>",
            "<div style=font-size:0><p style=font-size:16px>b</div>",
            "<a href=/b style='padding:9px;mso-hide:all'>b</a>",
            "<a href=/b class=icon style=font-size:0>b</a>",
            "<div style='position:relative;left:-9999px' aria-hidden=true>b</div>",
            "<div class=slide style='position:absolute;left:-1200px' aria-hidden=true><p>b</div>",
            "<div class=slide style='position:absolute;left:-9999px' aria-hidden=true><h2>b</h2></div>",
            "<div role=tabpanel aria-hidden=true style='position:absolute;left:-10000px'><p>b</div>",
            "<button aria-controls=p>a</button><div id=p aria-hidden=true style='position:absolute;left:-9999px'>b</div>",
            "<link rel=canonical href=https://oak.example/a><div style='position:absolute;left:-9999px'>\
             <a href=https://oak.example/c>b</a></div>",
            "<img src=/a.jpg alt=b style='font-size:0;display:block'>",
            "<iframe src=/b style=font-size:0>c</iframe>",
        ] {
            assert!(markdown(html).contains('b'), "{html}");
        }
    }
}
