//! Reads HTML tables: spans, alignment and header rows. Recognizes tables that only lay out the page.

use super::dom::{Dom, NodeId, Tag};
use super::markdown_block::{Alignment, MarkdownTable};
use super::omission_rule::Rule;

/// Maximum number of columns that one `colspan` fills. A `rowspan` other than 0 fills up to 20 times as many
/// rows.
const MAX_SPAN: usize = 50;

/// Maximum number of columns in a table. Wider tables are truncated.
const MAX_COLUMNS: usize = 200;

/// Spans may add [`FILLED_PER_CELL`] empty cells per cell of a table, plus [`FILLED_PER_TABLE`].
const FILLED_PER_CELL: usize = 8;
const FILLED_PER_TABLE: usize = 1000;

/// The purpose of a `<table>`, with the elements to convert.
pub(super) enum Table {
    /// The explanations of the numbers in a code block of Asciidoctor, in the order of the numbers.
    Callouts(Vec<NodeId>),
    /// The cells of a table that only lays out blocks.
    Layout(Vec<NodeId>),
    /// The cells of a table that lays out displayed equations, as in pages by LaTeXML.
    Equations(Vec<NodeId>),
    /// The rows of a table of data.
    Data(Vec<NodeId>),
}

/// Determines the purpose of a table. Notes the numbers of callouts, which Markdown writes itself, as left
/// out.
pub(super) fn read_table(dom: &Dom, id: NodeId) -> Table {
    let rows = collect_rows(dom, id);
    if dom.parent(id).is_some_and(|p| dom.has_class(p, "colist"))
        && let Some(texts) = read_callouts(dom, &rows)
    {
        return Table::Callouts(texts);
    }
    let cells = || rows.iter().flat_map(|&row| dom.child_elements(row)).collect();
    if dom.classes(id).any(|c| c.starts_with("ltx_eqn") || c.starts_with("ltx_equation")) {
        return Table::Equations(cells());
    }
    if is_layout(dom, id, &rows) { Table::Layout(cells()) } else { Table::Data(rows) }
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

/// The rows of a table, header first and footer last, without the rows of tables inside its cells.
fn collect_rows(dom: &Dom, table: NodeId) -> Vec<NodeId> {
    let mut parts: [Vec<NodeId>; 3] = Default::default();
    for child in dom.child_elements(table) {
        let rows = dom.child_elements(child).filter(|&r| dom.tag(r) == Tag::Tr);
        match dom.tag(child) {
            Tag::Thead => parts[0].extend(rows),
            Tag::Tbody => parts[1].extend(rows),
            Tag::Tr => parts[1].push(child),
            Tag::Tfoot => parts[2].extend(rows),
            _ => {}
        }
    }
    parts.concat()
}

/// Whether a table lays out blocks instead of listing data.
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
    let has_header = cells().any(|c| dom.tag(c) == Tag::Th);
    if columns <= 1 && (!has_header || widths.len() <= 1) {
        return true;
    }
    let holds = |is_match: fn(Tag) -> bool| cells().any(|c| dom.descendants(c).any(|d| is_match(dom.tag(d))));
    if has_header {
        return rows.len() <= 2 && holds(|tag| tag == Tag::Table);
    }
    holds(|t| matches!(t, Tag::Table | Tag::Pre | Tag::Blockquote) || t.heading_level().is_some())
        || rows.len() <= 2 && holds(|t| matches!(t, Tag::Ul | Tag::Ol | Tag::Hr))
}

fn is_cell(dom: &Dom, id: NodeId) -> bool {
    matches!(dom.tag(id), Tag::Td | Tag::Th)
}

/// Converts rows to a Markdown table, with `convert` for each cell. Fills the rest of each span with empty
/// cells, drops the cells beyond [`MAX_COLUMNS`], and drops empty rows. `None` if all cells are empty.
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
            let span =
                |name| dom.attribute(cell, name).and_then(|v| v.trim().parse::<usize>().ok()).unwrap_or(1);
            // A `rowspan` of 0 means the rest of the group.
            let lines = match span("rowspan") {
                0 => usize::MAX,
                lines => lines.min(MAX_SPAN * 20),
            };
            let column = line.len();
            line.push(convert(cell));
            line.resize(column + span("colspan").clamp(1, MAX_SPAN), String::new());
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

/// The alignment of a cell, from its style, its `align` attribute or its classes.
fn cell_alignment(dom: &Dom, cell: NodeId) -> Alignment {
    let value = dom.style(cell, "text-align").or_else(|| dom.attribute(cell, "align"));
    let class =
        dom.classes(cell).find_map(|c| c.strip_prefix("text-").or_else(|| c.strip_prefix("has-text-align-")));
    match value.or(class).unwrap_or_default().trim() {
        "left" => Alignment::Left,
        "center" => Alignment::Center,
        "right" => Alignment::Right,
        _ => Alignment::None,
    }
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
    fn a_span_ends_with_its_group_of_rows() {
        let html = "<table><thead><tr><th rowspan=2>a<th>b<tbody><tr><td>1<td rowspan=0>2<tr><td>3<tr><td>4\
            <tfoot><tr><td>5<td>6</table>";
        assert_eq!(markdown(html), "| a | b |\n| --- | --- |\n| 1 | 2 |\n| 3 | |\n| 4 | |\n| 5 | 6 |\n");
    }

    #[test]
    fn flattens_tables_that_lay_out_blocks() {
        assert_eq!(markdown("<table><tr><td><h2>A</h2><p>b<td><p>c</table>"), "## A\n\nb\n\nc\n");
        let nested = "<table><tr><td>x<td><table><tr><th>a<th>b<tr><td>1<td>2</table></table>";
        assert_eq!(markdown(nested), "x\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n");
    }

    #[test]
    fn blocks_in_cells_become_line_breaks() {
        let html = "<table><tr><th>a<th>b<tr><td><p>x<p>y<td><ul><li>1<li>2</ul></table>";
        assert_eq!(markdown(html), "| a | b |\n| --- | --- |\n| x<br>y | 1<br>2 |\n");
        let html = "<table><tr><th>a<tr><td>x<ol start=2><li>y<li><p>z<p>z<li value=7>*</ol>w</table>";
        assert_eq!(markdown(html), "| a |\n| --- |\n| x<br>2. y<br>3. z<br>z<br>7. *<br>w |\n");
    }

    #[test]
    fn a_table_in_a_cell_keeps_its_rows_and_columns() {
        let inner = "<table><tr><th>a<th><p>b</p><tr><td><td><b>2</b></table>";
        let html = format!("<table><tr><th>x<th>y<tr><td>o<td>p {inner} q<tr><td>r<td>-</table>");
        let expected = "| x | y |\n| --- | --- |\n| o | p<br>a \\| b<br>\\| **2**<br>q |\n| r | - |\n";
        assert_eq!(markdown(&html), expected);
    }

    #[test]
    fn a_huge_table_stays_proportional_to_its_input() {
        let html = format!("<table><tr>{}</table>", "<td colspan=1000 rowspan=9999>x".repeat(100_000));
        assert!(markdown(&html).len() < 10 * html.len());
    }
}
