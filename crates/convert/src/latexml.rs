//! Turns the `<span>` elements with which LaTeXML writes tables inside of text into tables.

use super::dom::{Dom, NodeId, Tag};

/// Gives the parts of tables below `root` the tags that LaTeXML uses where a table is no part of a paragraph,
/// and the cells their `colspan` and `rowspan`.
pub(super) fn mark_tables(dom: &mut Dom, root: NodeId) {
    let part = |id| {
        let has = |class| dom.has_class(id, class);
        match dom.tag(id) {
            Tag::Span if has("ltx_tabular") => Some(Tag::Table),
            Tag::Span if has("ltx_thead") => Some(Tag::Thead),
            Tag::Span if dom.has_class_in(id, &["ltx_tbody", "ltx_tfoot"]) => Some(Tag::Tbody),
            Tag::Span if has("ltx_tr") => Some(Tag::Tr),
            Tag::Span if has("ltx_td") => Some(if has("ltx_th") { Tag::Th } else { Tag::Td }),
            _ => None,
        }
    };
    let parts: Vec<(NodeId, Tag)> = dom.descendants(root).filter_map(|id| Some((id, part(id)?))).collect();
    for (id, tag) in parts {
        for (name, class) in [("colspan", "ltx_colspan_"), ("rowspan", "ltx_rowspan_")] {
            let count = dom.classes(id).find_map(|own| own.strip_prefix(class)).map(str::to_owned);
            if let Some(count) = count {
                dom.set_attribute(id, name, &count);
            }
        }
        dom.node_mut(id).tag = tag;
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Options, convert};

    #[test]
    fn tables_of_spans_in_a_paragraph_are_tables() {
        let row = |cells: [&str; 2]| {
            let cell = |text: &&str| format!("<span class='ltx_td ltx_align_left'>{text}</span>");
            format!("<span class=ltx_tr>{}</span>", cells.iter().map(cell).collect::<String>())
        };
        let header = row(["A", "B"]).replace("ltx_td", "ltx_td ltx_th");
        let html = format!(
            "<main><figure><figcaption>Ropes</figcaption><p><span class=ltx_text><span class=ltx_tabular>\
             <span class=ltx_thead>{header}</span><span class=ltx_tbody>{}\
             <span class=ltx_tr><span class='ltx_td ltx_colspan ltx_colspan_2'>all</span></span>\
             </span></span></span></p></figure></main>",
            row(["1", "2"])
        );
        let expected = "Ropes\n\n| A | B |\n| --- | --- |\n| 1 | 2 |\n| all | |\n";
        assert_eq!(convert(&html, &Options::default()).markdown, expected);
    }
}
