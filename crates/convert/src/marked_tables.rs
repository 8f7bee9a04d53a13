//! Turns elements with which generators write tables into tables: the `<span>` elements of LaTeXML inside of
//! text, and the `<div>` elements of Javadoc.

use super::dom::{Dom, NodeId, Tag};

/// Turns the elements of LaTeXML and Javadoc below `root` into tables.
pub(super) fn mark_tables(dom: &mut Dom, root: NodeId) {
    mark_tables_of_latexml(dom, root);
    mark_tables_of_javadoc(dom, root);
}

/// Gives a summary of Javadoc 17 and later, which is a grid of cells without rows, and its cells the tags of
/// a table. The first cell of each row has the class `col-first`. Does nothing to a grid with other content.
fn mark_tables_of_javadoc(dom: &mut Dom, root: NodeId) {
    const COLUMNS: [&str; 4] = ["col-first", "col-second", "col-constructor-name", "col-last"];
    let is_cell = |id: NodeId| dom.tag(id) == Tag::Div && dom.has_class_in(id, &COLUMNS);
    let is_grid = |id: &NodeId| {
        dom.has_class(*id, "summary-table")
            && dom.child_elements(*id).next().is_some_and(|first| dom.has_class(first, "col-first"))
            && dom.children(*id).all(|child| dom.is_blank(child) || is_cell(child))
    };
    let grids: Vec<NodeId> = dom.descendants(root).filter(is_grid).collect();
    for grid in grids {
        dom.node_mut(grid).tag = Tag::Table;
        let mut row = grid;
        for cell in dom.child_elements(grid).collect::<Vec<NodeId>>() {
            let is_header = dom.has_class(cell, "table-header");
            dom.node_mut(cell).tag = if is_header { Tag::Th } else { Tag::Td };
            if dom.has_class(cell, "col-first") {
                row = dom.push_element("tr", &[]);
                dom.insert_before(cell, row);
            }
            dom.detach(cell);
            dom.append(row, cell);
        }
    }
}

/// Gives the parts of tables below `root` the tags that LaTeXML uses where a table is no part of a paragraph,
/// and the cells their `colspan` and `rowspan`.
fn mark_tables_of_latexml(dom: &mut Dom, root: NodeId) {
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
    fn summaries_of_javadoc_are_tables() {
        let html = "<main><div class=table-tabs role=tablist><button role=tab id=t0 aria-controls=p>All Methods</button>\
             <button role=tab class=table-tab aria-controls=p>Static Methods</button></div>\
             <div id=p role=tabpanel aria-labelledby=t0><div class='summary-table two-column-summary'>\
             <div class='table-header col-first'>Method</div><div class='table-header col-last'>Description</div>\
             <div class='col-first even-row-color'><code>add</code></div><div class=col-last><div class=block>Adds.</div></div>\
             <div class=col-first><code>clear</code></div><div class=col-last></div></div></div></main>";
        let expected =
            "**All Methods**\n\n| Method | Description |\n| --- | --- |\n| `add` | Adds. |\n| `clear` | |\n";
        assert_eq!(convert(html, &Options::default()).markdown, expected);
    }

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
