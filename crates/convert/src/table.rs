//! Reads HTML tables: spans, alignment and header rows. Recognizes tables that only lay out the page.

use super::dom::{Dom, NodeId, Tag};
use super::markdown_block::{Alignment, MarkdownTable};
use super::omission_reason::Rule;

/// Maximum number of columns that one `colspan` fills. A `rowspan` other than 0 fills up to 20 times as many
/// rows.
const MAX_SPAN: usize = 50;

/// Number of columns after which a table is truncated.
const MAX_COLUMNS: usize = 200;

/// Spans across rows may add [`FILLED_PER_CELL`] empty cells per cell of a table, plus [`FILLED_PER_TABLE`].
const FILLED_PER_CELL: usize = 8;
const FILLED_PER_TABLE: usize = 1000;

/// Maximum length of a marker such as `(xviii)`, in bytes.
const MAX_MARKER: usize = 8;

/// Maximum number of letters and digits in a cell that names the value beside it.
const MAX_NAME: usize = 30;

/// Maximum number of letters and digits in a cell that counts as a value, rather than as a block of text.
const MAX_VALUE: usize = 100;

/// The purpose of a `<table>`, with the elements to convert.
pub(super) enum Table {
    /// The explanations of the numbers in a code block of Asciidoctor, in the order of the numbers.
    Callouts(Vec<NodeId>),
    /// The cells of each row of a table that only lays out blocks.
    Layout(Vec<Vec<NodeId>>),
    /// The cells of a table that lays out displayed equations, as in pages by LaTeXML.
    Equations(Vec<NodeId>),
    /// The rows of a table of data, and the cells above its header that are captions.
    Data { captions: Vec<NodeId>, rows: Vec<NodeId> },
}

/// Determines the purpose of a table. Records the numbers of callouts as left out, because Markdown numbers
/// them itself.
pub(super) fn read_table(dom: &Dom, id: NodeId) -> Table {
    let mut rows = collect_rows(dom, id);
    if dom.parent(id).is_some_and(|p| dom.has_class(p, "colist"))
        && let Some(texts) = read_callouts(dom, &rows)
    {
        return Table::Callouts(texts);
    }
    let cells = || rows.iter().flat_map(|&row| dom.child_elements(row)).collect();
    if dom.classes(id).any(|c| c.starts_with("ltx_eqn") || c.starts_with("ltx_equation")) {
        return Table::Equations(cells());
    }
    if is_layout(dom, id, &rows) {
        return Table::Layout(rows.iter().map(|&row| dom.child_elements(row).collect()).collect());
    }
    let captions = split_captions(dom, &mut rows);
    Table::Data { captions, rows }
}

/// Removes the rows at the start that consist of one cell across columns, if a row of header cells follows.
/// Returns these cells, which are titles of the table.
fn split_captions(dom: &Dom, rows: &mut Vec<NodeId>) -> Vec<NodeId> {
    let cells = |row| dom.child_elements(row).filter(|&c| is_cell(dom, c));
    let title = |&row: &NodeId| {
        let mut cells = cells(row);
        let only = cells.next().filter(|_| cells.next().is_none())?;
        (span(dom, only, "colspan")? > 1).then_some(only)
    };
    let titles: Vec<NodeId> = rows.iter().map_while(title).collect();
    let is_header = |&row: &NodeId| cells(row).nth(1).is_some() && cells(row).all(|c| is_header_cell(dom, c));
    if !rows.get(titles.len()).is_some_and(is_header) {
        return Vec::new();
    }
    rows.drain(..titles.len());
    titles
}

/// The rows of an element that is a table of data by its role or its style, as [`read_table`] returns them.
/// `None` for a `<table>`, and if anything in the element is outside of its rows and cells, if it has fewer
/// than two rows or columns, or if it only lays out blocks (`is_layout`). Without header cells, the cells
/// may only have values.
pub(super) fn read_grid(dom: &Dom, id: NodeId) -> Option<Vec<NodeId>> {
    if dom.tag(id) == Tag::Table || part_of(dom, id) != Some(Part::Table) {
        return None;
    }
    let mut rows = Vec::new();
    collect_grid_rows(dom, id, &mut rows)?;
    let cells = || rows.iter().flat_map(|&row| dom.child_elements(row)).filter(|&c| is_cell(dom, c));
    let is_wide = rows.len() > 1 && rows.iter().any(|&row| dom.child_elements(row).nth(1).is_some());
    let is_data = cells().any(|c| is_header_cell(dom, c)) || cells().all(|c| is_value(dom, c));
    (is_wide && is_data && !is_layout(dom, id, &rows)).then_some(rows)
}

/// Appends the rows below an element. `None` if content is outside of the rows or of their cells.
fn collect_grid_rows(dom: &Dom, parent: NodeId, rows: &mut Vec<NodeId>) -> Option<()> {
    for child in dom.children(parent).filter(|&child| !dom.is_blank(child)) {
        match part_of(dom, child) {
            Some(Part::Row) => {
                let mut parts = dom.children(child).filter(|&part| !dom.is_blank(part));
                parts.all(|part| is_cell(dom, part)).then(|| rows.push(child))?;
            }
            Some(Part::Group) => collect_grid_rows(dom, child, rows)?,
            _ => return None,
        }
    }
    Some(())
}

/// A part of a table, such as a row or a header cell.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Table,
    Group,
    Row,
    Cell,
    HeaderCell,
}

/// The meaning in a table of an element other than `<table>` and its parts, by its `role`; by its style only
/// without a `role`. `None` if neither belongs to a table.
fn part_of(dom: &Dom, id: NodeId) -> Option<Part> {
    if let Some(role) = dom.attribute(id, "role") {
        return match role {
            "table" | "grid" | "treegrid" => Some(Part::Table),
            "rowgroup" => Some(Part::Group),
            "row" => Some(Part::Row),
            "cell" | "gridcell" => Some(Part::Cell),
            "columnheader" | "rowheader" => Some(Part::HeaderCell),
            _ => None,
        };
    }
    match dom.style(id, "display")? {
        "table" => Some(Part::Table),
        "table-row-group" | "table-header-group" | "table-footer-group" => Some(Part::Group),
        "table-row" => Some(Part::Row),
        "table-cell" => Some(Part::Cell),
        _ => None,
    }
}

/// The two cells of an item of a list that is laid out as a table: the first has only the marker of the item
/// (a number or a letter with a bracket or a dot, a dash or a bullet), the second has the text. `None` for
/// other rows. Ignores empty cells.
pub(super) fn read_marked_row(dom: &Dom, cells: &[NodeId]) -> Option<[NodeId; 2]> {
    let mut filled = cells.iter().copied().filter(|&cell| !dom.is_blank(cell));
    let (marker, text) = (filled.next()?, filled.next()?);
    (filled.next().is_none() && is_marker(dom, marker) && !is_marker(dom, text)).then_some([marker, text])
}

/// Whether the text of a cell is a marker of at most [`MAX_MARKER`] bytes: a sign such as `•`; or a word with
/// a digit, a single letter or a Roman numeral, each with a bracket or a dot. False for cells with code, an
/// image or a `<math>`.
fn is_marker(dom: &Dom, cell: NodeId) -> bool {
    let mut text = String::new();
    for part in dom.descendants(cell) {
        text += dom.text(part).unwrap_or_default().trim();
        if text.len() > MAX_MARKER || matches!(dom.tag(part), Tag::Code | Tag::Img | Tag::Math) {
            return false;
        }
    }
    let word = text.trim_matches(['(', ')', '[', ']', '.']);
    let is_sign = matches!(&*text, "-" | "–" | "—" | "•" | "·" | "*" | "o" | "§" | "■" | "▪" | "●" | "○");
    let is_number = |word: &str| {
        word.contains(|c: char| c.is_ascii_digit())
            || word.chars().nth(1).is_none()
            || word.chars().all(|c| matches!(c.to_ascii_lowercase(), 'i' | 'v' | 'x'))
    };
    is_sign
        || word.len() < text.len()
            && !word.is_empty()
            && word.chars().all(char::is_alphanumeric)
            && is_number(word)
}

/// Returns the second cell of each row, and records the numbers in the first cells as left out. Returns
/// `None` if there are no rows, or if a row does not consist of a number or an empty cell, and a second cell.
fn read_callouts(dom: &Dom, rows: &[NodeId]) -> Option<Vec<NodeId>> {
    let mut callouts = Vec::new();
    for &row in rows {
        let cells: Vec<NodeId> = dom.child_elements(row).collect();
        let [number, text] = *cells else { return None };
        let is_number = dom.collapsed_text(number).bytes().all(|b| b.is_ascii_digit());
        callouts.push(is_number.then_some((number, text))?);
    }
    for &(number, _) in &callouts {
        dom.skip(number, Rule::FootnoteMark);
    }
    (!callouts.is_empty()).then(|| callouts.into_iter().map(|(_, text)| text).collect())
}

/// The rows of a table, header first and footer last, without the rows of tables inside its cells. Like
/// browsers, leaves all but the first header and the first footer where they are.
fn collect_rows(dom: &Dom, table: NodeId) -> Vec<NodeId> {
    let mut parts: [Vec<NodeId>; 3] = Default::default();
    for child in dom.child_elements(table) {
        let rows = dom.child_elements(child).filter(|&r| dom.tag(r) == Tag::Tr);
        match dom.tag(child) {
            Tag::Thead if parts[0].is_empty() => parts[0].extend(rows),
            Tag::Tfoot if parts[2].is_empty() => parts[2].extend(rows),
            Tag::Thead | Tag::Tbody | Tag::Tfoot => parts[1].extend(rows),
            Tag::Tr => parts[1].push(child),
            _ => {}
        }
    }
    parts.concat()
}

/// Whether a table lays out blocks instead of listing data, for one of these reasons:
///
/// - Its role is `presentation` or `none`.
/// - It has at most one column and, with header cells, at most one row. Blank rows, and blank cells at the
///   end of a row, do not count here.
/// - It has header cells, at most two rows, and a table in a cell.
/// - It has no header cells, but a cell contains a table or `<pre>`; a heading or a quote, except as in
///   [`has_only_titles_and_values`]; or, if there are at most two rows, a list or `<hr>`.
/// - It has no header cells and no caption, and its only row that is not blank is a row of blocks
///   ([`is_row_of_blocks`]).
fn is_layout(dom: &Dom, id: NodeId, rows: &[NodeId]) -> bool {
    if matches!(dom.attribute(id, "role"), Some("presentation" | "none")) {
        return true;
    }
    let cells = || rows.iter().flat_map(|&r| dom.child_elements(r)).filter(|&c| is_cell(dom, c));
    // The number of cells in each row, without blank cells at its end. Blank rows do not count.
    let widths = rows.iter().filter_map(|&row| {
        let cells: Vec<NodeId> = dom.child_elements(row).collect();
        cells.iter().rposition(|&cell| !dom.is_blank(cell)).map(|last| last + 1)
    });
    let widths: Vec<usize> = widths.collect();
    let columns = widths.iter().max().copied().unwrap_or(0);
    let has_header = cells().any(|c| is_header_cell(dom, c));
    if columns <= 1 && (!has_header || widths.len() <= 1) {
        return true;
    }
    let holds = |is_match: fn(Tag) -> bool| cells().any(|c| dom.descendants(c).any(|d| is_match(dom.tag(d))));
    if has_header {
        return rows.len() <= 2 && holds(|tag| tag == Tag::Table);
    }
    holds(|t| matches!(t, Tag::Table | Tag::Pre))
        || holds(is_heading_or_quote) && !has_only_titles_and_values(dom, rows)
        || rows.len() <= 2 && holds(|t| matches!(t, Tag::Ul | Tag::Ol | Tag::Hr))
        || widths.len() == 1 && !has_caption(dom, id) && is_row_of_blocks(dom, rows)
}

fn has_caption(dom: &Dom, table: NodeId) -> bool {
    dom.child_elements(table).any(|c| dom.tag(c) == Tag::Caption)
}

fn is_heading_or_quote(tag: Tag) -> bool {
    tag == Tag::Blockquote || tag.heading_level().is_some()
}

/// Whether a cell has a short text on one line.
fn is_value(dom: &Dom, cell: NodeId) -> bool {
    let has = |tag, at| dom.descendants(cell).filter(|&d| dom.tag(d) == tag).nth(at).is_some();
    is_short(dom, cell) && !has(Tag::Br, 0) && !has(Tag::P, 1)
}

/// Whether a cell has at most [`MAX_VALUE`] letters and digits, and none of these: headings, lists, tables,
/// quotes, code blocks, forms, rules, images, videos and embedded pages.
fn is_short(dom: &Dom, cell: NodeId) -> bool {
    use Tag::{Blockquote, Form, Hr, Iframe, Img, Ol, Pre, Table, Ul, Video};
    let is_part = |t| matches!(t, Blockquote | Form | Hr | Iframe | Img | Ol | Pre | Table | Ul | Video);
    let mut tags = dom.descendants(cell).map(|d| dom.tag(d));
    !tags.any(|tag| is_part(tag) || tag.heading_level().is_some()) && dom.letters(cell) <= MAX_VALUE
}

/// Whether the only row of a table is an item of a list, or has cells that are more than values. A header is
/// no such row, and neither is a name beside a short value, which may have several lines.
fn is_row_of_blocks(dom: &Dom, rows: &[NodeId]) -> bool {
    let is_named = |cells: &[NodeId]| {
        matches!(*cells, [name, value] if is_value(dom, name) && !dom.is_blank(name)
            && dom.letters(name) <= MAX_NAME && is_short(dom, value))
    };
    rows.iter().filter(|&&row| !dom.parent(row).is_some_and(|p| dom.tag(p) == Tag::Thead)).any(|&row| {
        let cells: Vec<NodeId> = dom.child_elements(row).collect();
        read_marked_row(dom, &cells).is_some()
            || cells.iter().any(|&cell| !is_value(dom, cell)) && !is_named(&cells)
    })
}

/// Whether a table has at least three rows, which have the same number of filled cells, at least two, and
/// each heading is a whole cell of the first row, each quote is a whole cell, and other cells have values:
/// headings and quotes that only change the look of a table.
fn has_only_titles_and_values(dom: &Dom, rows: &[NodeId]) -> bool {
    let mut widths = Vec::new();
    for &row in rows {
        let cells = dom.child_elements(row).filter(|&cell| !dom.is_blank(cell));
        let mut width = 0;
        for cell in cells {
            width += 1;
            let mut parts = dom.children(cell).filter(|&part| !dom.is_blank(part));
            let whole = parts.next().filter(|_| parts.next().is_none());
            let whole = whole.filter(|&whole| match dom.tag(whole) {
                Tag::Blockquote => true,
                tag => tag.heading_level().is_some() && widths.is_empty(),
            });
            if !is_value(dom, whole.unwrap_or(cell)) {
                return false;
            }
        }
        widths.extend((width > 0).then_some(width));
    }
    widths.len() >= 3 && widths[0] >= 2 && widths.iter().all(|width| *width == widths[0])
}

fn is_cell(dom: &Dom, id: NodeId) -> bool {
    matches!(dom.tag(id), Tag::Td | Tag::Th)
        || matches!(part_of(dom, id), Some(Part::Cell | Part::HeaderCell))
}

fn is_header_cell(dom: &Dom, id: NodeId) -> bool {
    dom.tag(id) == Tag::Th || dom.tag(id) != Tag::Td && part_of(dom, id) == Some(Part::HeaderCell)
}

/// The number in `colspan`, `rowspan` or else the ARIA attribute of that name. `None` if there is none, or if
/// the value is no number.
fn span(dom: &Dom, cell: NodeId, name: &str) -> Option<usize> {
    let aria = if name == "colspan" { "aria-colspan" } else { "aria-rowspan" };
    dom.attribute(cell, name).or_else(|| dom.attribute(cell, aria))?.trim().parse().ok()
}

/// Converts rows to a Markdown table, with `convert` for each cell. Fills the rest of each span with empty
/// cells, within the limits on spans and columns. Drops the cells beyond [`MAX_COLUMNS`], rows without text,
/// and empty columns at the end if they are more than seven eighths. `None` if all cells are empty.
pub(super) fn fill_grid(
    dom: &Dom,
    rows: &[NodeId],
    convert: impl Fn(NodeId) -> String,
) -> Option<MarkdownTable> {
    let mut texts: Vec<Vec<String>> = Vec::new();
    let mut alignments: Vec<Alignment> = Vec::new();
    // For each column, the number of rows that a cell above still covers.
    let mut covered: Vec<usize> = Vec::new();
    let mut fillable = FILLED_PER_TABLE;
    let mut fill = |line: &mut Vec<String>, covered: &mut [usize], more: usize| {
        fillable = fillable.saturating_add(more);
        while let Some(rest) = covered.get_mut(line.len()).filter(|rest| **rest > 0 && fillable > 0) {
            *rest -= 1;
            fillable -= 1;
            line.push(String::new());
        }
    };
    let mut group = None;
    for &row in rows {
        // No cell spans rows of two groups, such as `<thead>` and `<tbody>`.
        if dom.parent(row) != group {
            group = dom.parent(row);
            covered.clear();
        }
        let mut line: Vec<String> = Vec::new();
        for cell in dom.child_elements(row).filter(|&c| is_cell(dom, c)) {
            fill(&mut line, &mut covered, FILLED_PER_CELL);
            if line.len() >= MAX_COLUMNS {
                dom.skip(cell, Rule::TooWide);
                continue;
            }
            let span = |name| span(dom, cell, name).unwrap_or(1);
            // A `rowspan` of 0 means the rest of the group.
            let lines = match span("rowspan") {
                0 => usize::MAX,
                lines => lines.min(MAX_SPAN * 20),
            };
            let column = line.len();
            line.push(convert(cell));
            line.resize(column + span("colspan").clamp(1, MAX_SPAN.min(MAX_COLUMNS - column)), String::new());
            covered.resize(covered.len().max(line.len()), 0);
            covered[column..line.len()].fill(lines - 1);
            alignments.resize(alignments.len().max(column + 1), Alignment::None);
            if alignments[column] == Alignment::None {
                alignments[column] = cell_alignment(dom, cell);
            }
        }
        fill(&mut line, &mut covered, 0);
        if line.iter().any(|cell| !cell.is_empty()) {
            texts.push(line);
        }
    }
    let columns = texts.iter().map(Vec::len).max()?;
    // A wide span must not make a narrow table huge: if fewer than an eighth of the columns are used, drop
    // the others.
    let used = texts.iter().filter_map(|r| r.iter().rposition(|c| !c.is_empty())).max()? + 1;
    let columns = if used * 8 < columns { used } else { columns };
    for line in &mut texts {
        line.truncate(columns);
    }
    alignments.resize(columns, Alignment::None);
    Some(MarkdownTable { alignments, rows: texts })
}

/// The alignment of a cell, from its style, or else its `align` attribute, or else the first of its classes
/// that names one. Ignores the case of the values.
fn cell_alignment(dom: &Dom, cell: NodeId) -> Alignment {
    let value = dom.style(cell, "text-align").or_else(|| dom.attribute(cell, "align"));
    let alignment = |name: &str| match &*name.trim().to_ascii_lowercase() {
        "left" => Some(Alignment::Left),
        "center" => Some(Alignment::Center),
        "right" => Some(Alignment::Right),
        _ => None,
    };
    let of_class =
        |c: &str| alignment(c.strip_prefix("text-").or_else(|| c.strip_prefix("has-text-align-"))?);
    let found = value.map_or_else(|| dom.classes(cell).find_map(of_class), alignment);
    found.unwrap_or(Alignment::None)
}

#[cfg(test)]
mod tests {
    use super::super::tests::markdown;

    #[test]
    fn fills_spans_and_keeps_alignment() {
        let html = "<table><tr><th align=right>a<th style='text-align: center'>b<th>c<tr><td colspan=2>1|2<td rowspan=2>3<tr><td>4<td>5</table>";
        assert_eq!(markdown(html), "| a | b | c |\n| ---: | :---: | --- |\n| 1\\|2 | | 3 |\n| 4 | 5 | |\n");
    }

    #[test]
    fn alignment_ignores_case_and_classes_for_other_styles() {
        for (cell, line) in [
            ("<th class='text-sm text-right'>", "---:"),
            ("<th class='text-muted'>", "---"),
            ("<th align=CENTER>", ":---:"),
            ("<th style='text-align: Left'>", ":---"),
            ("<th align=justify class=text-right>", "---"),
        ] {
            let html = format!("<table><tr>{cell}a<tr><td>b</table>");
            assert_eq!(markdown(&html), format!("| a |\n| {line} |\n| b |\n"), "{cell}");
        }
    }

    #[test]
    fn a_span_ends_with_its_group_of_rows() {
        let html = "<table><thead><tr><th rowspan=2>a<th>b<tbody><tr><td>1<td rowspan=0>2<tr><td>3<tr><td>4\
            <tfoot><tr><td>5<td>6</table>";
        assert_eq!(markdown(html), "| a | b |\n| --- | --- |\n| 1 | 2 |\n| 3 | |\n| 4 | |\n| 5 | 6 |\n");
    }

    #[test]
    fn only_the_first_header_and_the_first_footer_move() {
        let group = |name: &str, cell: &str| format!("<{name}><tr><td>{cell}<td>x</{name}>");
        let parts =
            [("tfoot", "9"), ("thead", "a"), ("tbody", "1"), ("tfoot", "2"), ("thead", "3"), ("tbody", "4")];
        let html: String = parts.iter().map(|(name, cell)| group(name, cell)).collect();
        let rows = "| a | x |\n| --- | --- |\n| 1 | x |\n| 2 | x |\n| 3 | x |\n| 4 | x |\n| 9 | x |\n";
        assert_eq!(markdown(&format!("<table>{html}</table>")), rows);
    }

    #[test]
    fn flattens_tables_that_lay_out_blocks() {
        assert_eq!(markdown("<table><tr><td><h2>A</h2><p>b<td><p>c</table>"), "## A\n\nb\n\nc\n");
        let nested = "<table><tr><td>x<td><table><tr><th>a<th>b<tr><td>1<td>2</table></table>";
        assert_eq!(markdown(nested), "x\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n");
    }

    #[test]
    fn a_row_of_blocks_is_layout_and_a_row_of_values_is_data() {
        let long = "b ".repeat(101);
        for (row, expected) in [
            ("<td><p>(1)</p><td><p>b</p><p>c</p>", "(1) b\n\nc\n"),
            ("<td><td>(iv)<td>b<table><tr><td>a)<td>c</table>", "(iv) b\n\na) c\n"),
            ("<td>—<td>b", "— b\n"),
            ("<td>1.<td><h2>b</h2>", "## 1. b\n"),
            ("<td>(1)<td><ul><li>b</ul>", "(1)\n\n- b\n"),
            (
                "<td><a href=/a>a</a><br><a href=/b>b</a><td><b>c</b><p>d",
                "[a](/a)  \n[b](/b)\n\n**c**\n\nd\n",
            ),
            (&format!("<td>a<td>{long}"), &format!("a\n\n{}\n", long.trim())),
            // These rows are data, not layout.
            ("<td>a<td>9 m<td>4 t", "| a | 9 m | 4 t |\n| --- | --- | --- |\n"),
            ("<td><p>a<td><p>9 m", "| a | 9 m |\n| --- | --- |\n"),
            ("<td>1<td>2", "| 1 | 2 |\n| --- | --- |\n"),
            ("<td>(1)<td>(2)", "| (1) | (2) |\n| --- | --- |\n"),
            ("<td>(1)<td>b<td>c", "| (1) | b | c |\n| --- | --- | --- |\n"),
            ("<th>(1)<td>b", "| (1) | b |\n| --- | --- |\n"),
            ("<td>Status<td>Open<br>since May", "| Status | Open<br>since May |\n| --- | --- |\n"),
            ("<td>Weight<td><p>9 kg<p>with sail", "| Weight | 9 kg<br>with sail |\n| --- | --- |\n"),
            ("<td>(no)<td>Name", "| (no) | Name |\n| --- | --- |\n"),
            ("<thead><tr><td>1.<td>Name</thead>", "| 1. | Name |\n| --- | --- |\n"),
            ("<td>(1)<td>b<tr><td>(2)<td>c", "| (1) | b |\n| --- | --- |\n| (2) | c |\n"),
            ("<td>a<br>b<td>c<tr><td>d<td>e", "| a<br>b | c |\n| --- | --- |\n| d | e |\n"),
        ] {
            assert_eq!(markdown(&format!("<table><tr>{row}</table>")), expected, "{row}");
        }
        let caption = format!("<table><caption>x</caption><tr><td>a<td>{long}</table>");
        assert_eq!(markdown(&caption), format!("x\n\n| a | {} |\n| --- | --- |\n", long.trim()));
    }

    #[test]
    fn headings_and_quotes_do_not_turn_rows_of_values_into_layout() {
        let head = "<td><h5>a</h5><td><h5>b</h5>";
        for (rows, is_data) in [
            (&[head, "<td>c<td>d", "<td>e<td>f"][..], true),
            (&["<td>a<td>b", "<td>c<td><blockquote>d</blockquote>", "<td>e<td>f"], true),
            (&[head, "<td>c<td>d"], false),
            (&[head, "<td>c<td>d", "<td>e<td>"], false),
            (&[head, "<td>c<td>d", "<td>e<td><p>f<p>g"], false),
            (&["<td>a<td>b", head, "<td>c<td>d"], false),
            (&["<td><h3>a</h3>b<td><h3>c</h3>d", "<td>c<td>d", "<td>e<td>f"], false),
        ] {
            let html = format!("<table><tr>{}</table>", rows.join("<tr>"));
            assert_eq!(
                markdown(&html).starts_with("| a | b |\n| --- | --- |\n| c | d |\n"),
                is_data,
                "{html}"
            );
        }
    }

    #[test]
    fn a_title_across_the_columns_is_no_header_row() {
        let title = "<thead><tr><td colspan=2>x<tr><td colspan=2>y";
        for (rows, expected) in [
            (
                format!("{title}<tr><th>a<th>b<tr><td>1<td>2"),
                "x\n\ny\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n",
            ),
            (format!("{title}<tr><th>a<td>b"), "| x | |\n| --- | --- |\n| y | |\n| a | b |\n"),
            ("<tr><th>x<tr><th>a<th>b".into(), "| x | |\n| --- | --- |\n| a | b |\n"),
            (
                "<tr><th>x<th colspan=2>y<tr><th>a<th>b<th>c".into(),
                "| x | y | |\n| --- | --- | --- |\n| a | b | c |\n",
            ),
        ] {
            assert_eq!(markdown(&format!("<table>{rows}</table>")), expected, "{rows}");
        }
    }

    #[test]
    fn elements_that_are_tables_by_role_or_style_are_tables() {
        let table = "| a | b |\n| --- | --- |\n| 1 | |\n";
        let long = format!("<p>1<p>{}", "x ".repeat(101));
        for (html, expected) in [
            (
                "<div role=table><div role=rowgroup><div role=row><span role=columnheader>a</span><span role=columnheader>b\
                 </span></div></div><div role=row><div role=cell aria-colspan=2>1</div></div></div>",
                table,
            ),
            (
                "<div style='display:table'><div style='display: table-row'><div style='display:table-cell'>a</div>\
                 <p style='display:table-cell'>b</p></div><div style='display:table-row'><div style='display:table-cell'>1\
                 </div></div></div>",
                table,
            ),
            (
                "<div role=grid><div role=row><p role=gridcell>a</p></div><div role=row><p role=gridcell>b</p></div></div>",
                "a\n\nb\n",
            ),
            (
                "<div role=grid><p>x</p><div role=row><p role=gridcell>a</p><p role=gridcell>b</p></div></div>",
                "x\n\na\n\nb\n",
            ),
            (
                "<div role=table><div role=row><p role=cell>a</p><p>x</p></div><div role=row><p role=cell>b</p></div></div>",
                "a\n\nx\n\nb\n",
            ),
        ] {
            assert_eq!(markdown(html), expected, "{html}");
        }
        let row = |a: &str, b: &str| {
            format!("<div role=row><div role=cell>{a}</div><div role=cell>{b}</div></div>")
        };
        let html = format!("<div role=table>{}{}</div>", row("a", "b"), row("c", &long));
        assert!(markdown(&html).starts_with("a\n\nb\n\nc\n\n1\n\nx x"), "{html}");
    }

    #[test]
    fn blocks_in_cells_become_line_breaks() {
        let html = "<table><tr><th>a<th>b<tr><td><p>x<p>y<td><ul><li>1<li>2</ul></table>";
        assert_eq!(markdown(html), "| a | b |\n| --- | --- |\n| x<br>y | 1<br>2 |\n");
        let html = "<table><tr><th>a<tr><td>x<ol start=2><li>y<li><p>z<p>z<li value=7>*</ol>w</table>";
        assert_eq!(markdown(html), "| a |\n| --- |\n| x<br>2. y<br>3. z<br>z<br>7. *<br>w |\n");
        let html = "<table><tr><th>a<tr><td><ol reversed><li>x<li value=0>y<li>z</ol></table>";
        assert_eq!(markdown(html), "| a |\n| --- |\n| 3. x<br>0. y<br>-1. z |\n");
    }

    #[test]
    fn a_table_in_a_cell_keeps_its_rows_and_columns() {
        let inner = "<table><tr><th>a<th><p>b</p><tr><td><td><b>2</b></table>";
        let html = format!("<table><tr><th>x<th>y<tr><td>o<td>p {inner} q<tr><td>r<td>-</table>");
        let expected = "| x | y |\n| --- | --- |\n| o | p<br>a \\| b<br>\\| **2**<br>q |\n| r | - |\n";
        assert_eq!(markdown(&html), expected);
    }

    #[test]
    fn a_span_ends_at_the_last_column() {
        let columns = |rows: &str| {
            markdown(&format!("<table><tr>{rows}</table>"))
                .lines()
                .next()
                .map(|row| row.matches('|').count() - 1)
        };
        assert_eq!(columns(&("<td>x".repeat(199) + "<td colspan=50>y<td>z")), Some(200));
        let wide = "<td colspan=50>y".repeat(5);
        assert_eq!(columns(&format!("{}<tr>{wide}", "<td>x".repeat(30))), Some(200));
    }

    #[test]
    fn a_huge_table_stays_proportional_to_its_input() {
        let html = format!("<table><tr>{}</table>", "<td colspan=1000 rowspan=9999>x".repeat(100_000));
        assert!(markdown(&html).len() < 10 * html.len());
    }
}
