//! Turns elements that generators use instead of tables into tables: the `<span>` elements of LaTeXML inside
//! of text, and the `<div>` elements of Javadoc.

use super::dom::{Dom, NodeId, Tag};

/// Turns the elements of LaTeXML and Javadoc below `root` into tables.
pub(super) fn mark_tables(dom: &mut Dom, root: NodeId) {
    mark_tables_of_latexml(dom, root);
    mark_tables_of_javadoc(dom, root);
}

/// Gives a summary of Javadoc 17 and later, which is a grid of cells without rows, and its cells the tags of
/// a table. Each cell has a class for its column, such as `col-first` or `col-constructor-name`. A cell with
/// the column class of the first one begins a row. Skips a grid with other content, and a grid without a cell
/// of the class `col-last` or `table-header`, because Bootstrap's columns have similar classes.
fn mark_tables_of_javadoc(dom: &mut Dom, root: NodeId) {
    let column = |id| dom.classes(id).find(|class| class.starts_with("col-"));
    let is_of_javadoc = |cell| dom.has_class_in(cell, &["col-last", "table-header"]);
    let first_column = |grid| {
        let is_grid = dom.has_class(grid, "summary-table")
            && dom.children(grid).all(|child| dom.is_blank(child) || column(child).is_some())
            && dom.child_elements(grid).any(is_of_javadoc);
        dom.child_elements(grid).next().filter(|_| is_grid).and_then(column).map(str::to_owned)
    };
    let grids: Vec<(NodeId, String)> =
        dom.descendants(root).filter_map(|id| Some((id, first_column(id)?))).collect();
    for (grid, first) in grids {
        dom.node_mut(grid).tag = Tag::Table;
        let mut row = grid;
        for cell in dom.child_elements(grid).collect::<Vec<NodeId>>() {
            let is_header = dom.has_class(cell, "table-header");
            dom.node_mut(cell).tag = if is_header { Tag::Th } else { Tag::Td };
            if dom.has_class(cell, &first) {
                row = dom.push_element("tr", &[]);
                dom.insert_before(cell, row);
            }
            dom.detach(cell);
            dom.append(row, cell);
        }
    }
}

/// Gives the `<span>` elements of LaTeXML's tables in paragraphs the tags of `<table>` and its parts, and
/// their `colspan` and `rowspan`.
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
    fn grids_of_other_cells_are_no_tables_of_javadoc() {
        let grid = |first: &str| {
            let html = "<main><div class=summary-table><div class='table-header col-x'>A</div><div class='table-header col-last'>B</div>\
                <div class=col-x>1</div><div class=col-last>2</div></div></main>";
            convert(&html.replace("col-x", first), &Options::default()).markdown
        };
        assert_eq!(grid("col-constructor-name"), "| A | B |\n| --- | --- |\n| 1 | 2 |\n");
        let columns = "<main><div class=summary-table><div class=col-md-4>1</div><div class=col-md-4>2</div></div></main>";
        assert_eq!(convert(columns, &Options::default()).markdown, "1\n\n2\n");
        assert_eq!(grid("x"), "A\n\nB\n\n1\n\n2\n");
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
