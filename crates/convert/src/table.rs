//! Reads HTML tables: spans, alignment and header rows. Recognizes tables that only lay out the page.

use super::account::Rule;
use super::block::{Alignment, Block, Item, List, MarkdownTable};
use super::blocks::Converter;
use super::dom::{Dom, NodeId, Tag};

/// Maximum number of columns that one `colspan` fills. A `rowspan` fills up to 20 times as many rows.
const MAX_SPAN: usize = 50;

/// Maximum number of columns in a table. Wider tables are truncated.
const MAX_COLUMNS: usize = 200;

/// Spans may add [`FILLED_PER_CELL`] empty cells per cell of a table, plus [`FILLED_PER_TABLE`].
const FILLED_PER_CELL: usize = 8;
const FILLED_PER_TABLE: usize = 1000;

/// Appends a table, or its content if the table only lays out other blocks.
pub(super) fn append_table(dom: &Dom, id: NodeId, converter: &Converter<'_>, out: &mut Vec<Block>) {
    if let Some(caption) = dom.child_elements(id).find(|&c| dom.tag(c) == Tag::Caption) {
        converter.append_children(caption, out);
    }
    let rows = collect_rows(dom, id);
    if dom.parent(id).is_some_and(|p| dom.has_class(p, "colist"))
        && append_callouts(dom, &rows, converter, out)
    {
        return;
    }
    if is_layout(dom, id, &rows) {
        for &row in &rows {
            for cell in dom.child_elements(row) {
                let start = out.len();
                converter.append_children(cell, out);
                // LaTeXML lays out displayed equations in tables.
                if let [Block::Paragraph(text)] = &out[start..]
                    && is_latexml_equation(dom, id)
                    && let Some(tex) = text.strip_prefix('$').and_then(|t| t.strip_suffix('$'))
                {
                    out[start] = Block::Math(tex.trim_matches('$').to_owned());
                }
            }
        }
        return;
    }
    if let Some(table) = read_table(dom, converter, &rows) {
        out.push(Block::Table(table));
    }
}

/// Appends the explanations of the numbers in a code block of Asciidoctor as a list. Returns whether all rows
/// have a number and a text.
fn append_callouts(dom: &Dom, rows: &[NodeId], converter: &Converter<'_>, out: &mut Vec<Block>) -> bool {
    let mut items = Vec::new();
    for &row in rows {
        let cells: Vec<NodeId> = dom.child_elements(row).collect();
        let [number, text] = *cells else { return false };
        if !dom.collapsed_text(number).bytes().all(|b| b.is_ascii_digit()) {
            return false;
        }
        dom.skip(number, Rule::FootnoteMark);
        let mut blocks = Vec::new();
        converter.append_children(text, &mut blocks);
        items.push(Item { checked: None, blocks });
    }
    if !items.is_empty() {
        out.push(Block::List(List { start: Some(1), is_loose: false, items }));
    }
    true
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
    if matches!(dom.attribute(id, "role"), Some("presentation" | "none")) || is_latexml_equation(dom, id) {
        return true;
    }
    let cells = || rows.iter().flat_map(|&r| dom.child_elements(r)).filter(|&c| is_cell(dom, c));
    // Without the blank cells at the ends of rows.
    let widths = rows.iter().map(|&row| {
        let cells: Vec<NodeId> = dom.child_elements(row).collect();
        cells.iter().rposition(|&cell| !dom.is_blank(cell)).map_or(0, |last| last + 1)
    });
    let widths: Vec<usize> = widths.filter(|&width| width > 0).collect();
    let columns = widths.iter().max().copied().unwrap_or(0);
    let has_header = cells().any(|c| dom.tag(c) == Tag::Th);
    let holds_blocks = |cell| {
        dom.descendants(cell).any(|d| {
            matches!(dom.tag(d), Tag::Table | Tag::Pre | Tag::Blockquote)
                || dom.tag(d).heading_level().is_some()
        })
    };
    let holds_lists = |cell| dom.descendants(cell).any(|d| matches!(dom.tag(d), Tag::Ul | Tag::Ol | Tag::Hr));
    if columns <= 1 && (!has_header || widths.len() <= 1) {
        return true;
    }
    if has_header {
        return cells().any(|c| dom.find(c, Tag::Table).is_some()) && rows.len() <= 2;
    }
    cells().any(holds_blocks) || rows.len() <= 2 && cells().any(holds_lists)
}

fn is_latexml_equation(dom: &Dom, table: NodeId) -> bool {
    dom.classes(table).any(|c| c.starts_with("ltx_eqn") || c.starts_with("ltx_equation"))
}

fn is_cell(dom: &Dom, id: NodeId) -> bool {
    matches!(dom.tag(id), Tag::Td | Tag::Th)
}

/// Converts rows to a Markdown table. Fills the rest of each span with empty cells. `None` if all cells are
/// empty.
fn read_table(dom: &Dom, converter: &Converter<'_>, rows: &[NodeId]) -> Option<MarkdownTable> {
    let mut texts: Vec<Vec<String>> = Vec::new();
    let mut alignments: Vec<Alignment> = Vec::new();
    // For each column, the number of rows that a cell above still covers.
    let mut covered: Vec<usize> = Vec::new();
    let mut fillable = FILLED_PER_TABLE;
    for &row in rows {
        let mut line: Vec<String> = Vec::new();
        let fill = |line: &mut Vec<String>, covered: &mut Vec<usize>, fillable: &mut usize| {
            while let Some(rest) = covered.get_mut(line.len()).filter(|rest| **rest > 0 && *fillable > 0) {
                *rest -= 1;
                *fillable -= 1;
                line.push(String::new());
            }
        };
        for cell in dom.child_elements(row).filter(|&c| is_cell(dom, c)) {
            fillable = fillable.saturating_add(FILLED_PER_CELL);
            fill(&mut line, &mut covered, &mut fillable);
            if line.len() >= MAX_COLUMNS {
                dom.skip(cell, Rule::TooWide);
                continue;
            }
            let span =
                |name| dom.attribute(cell, name).and_then(|v| v.trim().parse::<usize>().ok()).unwrap_or(1);
            let (columns, lines) =
                (span("colspan").clamp(1, MAX_SPAN), span("rowspan").clamp(1, MAX_SPAN * 20));
            if alignments.len() <= line.len() {
                alignments.resize(line.len() + 1, Alignment::None);
            }
            let aligned = cell_alignment(dom, cell);
            if aligned != Alignment::None && alignments[line.len()] == Alignment::None {
                alignments[line.len()] = aligned;
            }
            line.push(converter.cell_line(cell));
            for column in 0..columns {
                if column > 0 {
                    line.push(String::new());
                }
                let at = line.len() - 1;
                covered.resize(covered.len().max(at + 1), 0);
                covered[at] = lines - 1;
            }
        }
        fill(&mut line, &mut covered, &mut fillable);
        if line.iter().any(|cell| !cell.is_empty()) {
            texts.push(line);
        }
    }
    let columns = texts.iter().map(Vec::len).max()?;
    // A wide span must not make a narrow table huge: if fewer than an eighth of the columns are used, drop
    // the others.
    let used =
        texts.iter().filter_map(|r| r.iter().rposition(|c| !c.is_empty())).max().map_or(0, |last| last + 1);
    let columns = columns.min(if used * texts.len() * 8 < columns * texts.len() { used } else { columns });
    for line in &mut texts {
        line.truncate(columns);
    }
    alignments.resize(columns, Alignment::None);
    Some(MarkdownTable { alignments, rows: texts })
}

/// The alignment of a cell, from its style, its `align` attribute or its classes.
fn cell_alignment(dom: &Dom, cell: NodeId) -> Alignment {
    let style = dom.attribute(cell, "style").unwrap_or_default();
    let styled = style.split(';').find_map(|rule| rule.trim().strip_prefix("text-align"));
    let value = styled.map(|v| v.trim_start_matches([':', ' '])).or_else(|| dom.attribute(cell, "align"));
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
    fn a_huge_table_stays_proportional_to_its_input() {
        let html = format!("<table><tr>{}</table>", "<td colspan=1000 rowspan=9999>x".repeat(100_000));
        assert!(markdown(&html).len() < 10 * html.len());
    }
}
