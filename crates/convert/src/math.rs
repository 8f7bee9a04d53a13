//! Reads the TeX of formulas from the markup of KaTeX, MathJax and MathML.

use super::dom::{DOCUMENT, Dom, NodeId, Tag, clip, collapse};
use super::inline::Inline;
use super::markdown_block::Block;
use super::mathml::{is_group, mathml_to_tex};
use super::parse::parse;

/// A formula in the page.
#[derive(Debug, PartialEq)]
pub(super) struct Formula {
    /// The TeX of the formula; empty for the output of MathJax before version 3, which contains no TeX.
    pub(super) tex: String,
    /// Whether the formula is on lines of its own.
    pub(super) is_display: bool,
}

impl Formula {
    /// Adds the formula to inline Markdown on one line, unless its TeX is empty. Escapes `|` in a table cell.
    pub(super) fn write(&self, out: &mut Inline) {
        let tex = self.tex.replace('\n', " ");
        let tex = if out.is_cell { tex.replace('|', "\\|") } else { tex };
        if !tex.is_empty() {
            out.add_markdown(&if self.is_display { format!("$${tex}$$") } else { format!("${tex}$") });
        }
    }
}

/// The formula that an element shows; `None` if it shows no formula, or one whose TeX is missing or cannot be
/// read. For output of MathJax without TeX, [`Formula::tex`] is empty instead. The TeX of a `<math>` is its
/// annotation, or else its text alternative if that is TeX, or else `data-latex` or its MathML.
pub(super) fn read_formula(dom: &Dom, id: NodeId) -> Option<Formula> {
    let (tex, is_display) = match dom.tag(id) {
        Tag::Math => {
            let alternative = || dom.first_attribute(id, &["alttext"]).filter(|text| is_tex(text));
            let attribute =
                || alternative().or_else(|| dom.first_attribute(id, &["data-latex"])).map(str::to_owned);
            let tex = tex_annotation(dom, id).or_else(attribute).unwrap_or_else(|| mathml_to_tex(dom, id));
            (clean_tex(&tex)?, dom.attribute(id, "display") == Some("block"))
        }
        Tag::Img => return read_image(dom, id),
        Tag::Script => {
            let rest = dom.attribute(id, "type")?.strip_prefix("math/tex")?;
            (clean_tex(without_cdata(&dom.text_content(id)))?, rest.contains("display"))
        }
        Tag::Table if dom.has_class_in(id, EQUATION_TABLES) => (read_equations(dom, id)?, true),
        // Code is a formula only if it has this attribute, which GitLab sets.
        Tag::Code | Tag::Pre if !dom.has_attribute(id, "data-math-style") => return None,
        Tag::Span | Tag::Div | Tag::Section | Tag::Other | Tag::P | Tag::Code | Tag::Pre => {
            return read_renderer_element(dom, id);
        }
        _ => return None,
    };
    Some(Formula { tex, is_display })
}

/// The formula in an element of KaTeX, MathJax or another renderer, recognized by its name, classes or
/// attributes. The TeX is empty for output of MathJax whose TeX only a script after it may have.
fn read_renderer_element(dom: &Dom, id: NodeId) -> Option<Formula> {
    // Markdown renderers such as Comrak mark formulas with this attribute.
    if let Some(style) = dom.attribute(id, "data-math-style") {
        return Some(Formula { tex: clean_tex(&dom.text_content(id))?, is_display: style == "display" });
    }
    let class = dom.attribute(id, "class").unwrap_or_default();
    if is_output_before_script(dom, id) {
        return Some(Formula { tex: String::new(), is_display: false });
    }
    if let Some(tex) = editor_formula(dom, id) {
        let is_display = matches!(dom.tag(id), Tag::Div | Tag::Section)
            || dom.name(id) == "d-math" && dom.has_attribute(id, "block");
        return Some(Formula { tex: clean_tex(&tex)?, is_display });
    }
    // Each class below contains one of these parts, which lack the first letter if it may be a capital. Only
    // elements with an unknown name may be formulas without such a class, by their name or an attribute.
    if dom.tag(id) != Tag::Other && !["ath", "atex", "temml", "mjx"].iter().any(|part| class.contains(part)) {
        return None;
    }
    let has = |name: &str| dom.has_class(id, name);
    let is_mathjax = dom.name(id) == "mjx-container" || dom.has_class_in(id, &["MathJax", "mjx-chtml"]);
    let is_plain = dom.has_class_in(id, &["math", "math-tex", "arithmatex", "MathJax_Preview"]);
    let tex = dom.first_attribute(id, &["data-latex", "data-tex", "data-math"]);
    let is_renderer = is_mathjax || is_plain || tex.is_some() || dom.has_class_in(id, RENDERERS);
    if !is_renderer {
        return None;
    }
    let display = dom.attribute(id, "display");
    let mut is_display = dom.has_class_in(id, &["katex-display", "katex--display", "display"])
        || is_plain && has("block")
        || matches!(display, Some("true" | "block"))
        || is_mathjax && display.is_some() && dom.has_attribute(id, "jax")
        || dom.tag(id) == Tag::Div && (is_plain || tex.is_some())
        // Accept classes such as `math-block` or `math-display`, but not `inline-block`.
        || dom.classes(id).any(|c| {
            (c.contains("math") || c.contains("tex")) && (c.ends_with("block") || c.ends_with("display"))
        });
    let tex = if let Some(tex) = tex {
        clean_tex(tex)?
    } else if let Some(math) = dom.find(id, Tag::Math) {
        let formula = read_formula(dom, math)?;
        is_display |= formula.is_display;
        formula.tex
    } else if is_plain && !has("MathJax_Preview") {
        // Sphinx puts the number of an equation before the equation.
        let number = dom.child_elements(id).find(|&c| dom.has_class(c, "eqno"));
        let parts = dom.children(id).filter(|&c| Some(c) != number).map(|c| dom.text_content(c));
        let text: String = parts.collect();
        let (tex, is_delimited_display) = strip_delimiters(text.trim())?;
        is_display |= is_delimited_display;
        let number = number.map(|number| dom.collapsed_text(number)).unwrap_or_default();
        match number.trim_matches(['(', ')', '¶', ' ', '#']) {
            "" => clean_tex(tex)?,
            number => format!("{} \\tag{{{number}}}", clean_tex(tex)?),
        }
    } else if is_mathjax {
        // MathJax before version 3 renders only boxes, so the TeX stays empty. A `<script>` with the TeX may
        // follow.
        let layout = dom.descendants(id).find(|&d| dom.name(d) == "mjx-math");
        layout.and_then(|layout| clean_tex(&mathml_to_tex(dom, layout))).unwrap_or_default()
    } else {
        return None;
    };
    Some(Formula { tex, is_display })
}

/// The classes of the tables in which LaTeXML lays out equations: a row for each, with cells for the sides of
/// the equals sign and for the number.
const EQUATION_TABLES: &[&str] = &["ltx_equation", "ltx_equationgroup", "ltx_eqn_table"];

/// The equations in a table of LaTeXML, as one formula with their numbers as `\tag`; `None` if the table is
/// blank, or has an equation whose TeX cannot be read or other text, such as a number without parentheses.
fn read_equations(dom: &Dom, table: NodeId) -> Option<String> {
    let mut rows: Vec<String> = Vec::new();
    let (mut is_aligned, mut has_number) = (false, false);
    for row in dom.descendants(table).filter(|&id| dom.tag(id) == Tag::Tr) {
        let (mut sides, mut number) = (Vec::new(), None);
        for cell in dom.child_elements(row) {
            let part = dom.child_elements(cell).next();
            let text = || dom.collapsed_text(cell);
            match part {
                Some(math) if dom.tag(math) == Tag::Math && dom.next_element(math).is_none() => {
                    let is_blank = |id| id == math || dom.is_blank(id);
                    let tex = read_formula(dom, math).filter(|_| dom.children(cell).all(is_blank))?.tex;
                    sides.push(tex.strip_prefix("\\displaystyle").unwrap_or(&tex).trim().to_owned());
                }
                Some(tag) if dom.has_class(tag, "ltx_tag") => {
                    number = text().strip_prefix('(')?.strip_suffix(')').map(str::to_owned);
                }
                _ if dom.is_blank(cell) => {}
                _ => return None,
            }
        }
        is_aligned |= sides.len() > 1;
        has_number |= number.is_some();
        let tag = number.map(|number| format!(" \\tag{{{number}}}")).unwrap_or_default();
        let row = sides.join(" & ") + &tag;
        rows.extend((!row.is_empty()).then_some(row));
    }
    Some(match (&*rows, is_aligned) {
        ([], _) => return None,
        ([row], false) => row.clone(),
        // `align` accepts equation numbers; `aligned` does not.
        (_, _) => {
            let name = if has_number { "align" } else { "aligned" };
            format!("\\begin{{{name}}}\n{}\n\\end{{{name}}}", rows.join(" \\\\\n"))
        }
    })
}

/// An element with `data-formula` that contains more nodes than this is not a formula.
const MAX_DRAWING: usize = 2000;

/// Maximum length in bytes of the address of an image from which TeX is read.
const MAX_ADDRESS: usize = 4000;

/// The TeX of a formula that Quill, TipTap, Substack or Distill leaves to a script to render, or that an
/// editor for WeChat draws beside it. `data-formula` may also have a formula of chemistry or of a price, so
/// only TeX with a command or a power counts if the element has images or text outside of drawings.
fn editor_formula(dom: &Dom, id: NodeId) -> Option<String> {
    if dom.name(id) == "d-math" {
        return Some(dom.text_content(id));
    }
    if dom.has_class(id, "latex-rendered") {
        let attributes: serde_json::Value = serde_json::from_str(dom.attribute(id, "data-attrs")?).ok()?;
        return attributes.get("persistentExpression")?.as_str().map(str::to_owned);
    }
    if let Some(tex) = dom.attribute(id, "data-formula").filter(|tex| !tex.starts_with('=')) {
        let is_drawing = |a| dom.tag(a) == Tag::Svg || dom.name(a).starts_with("mjx-");
        let is_drawn = |d| dom.is_blank(d) || dom.ancestors(d).take_while(|&a| a != id).any(is_drawing);
        let is_shown = |d| (dom.text(d).is_some() || dom.tag(d) == Tag::Img) && !is_drawn(d);
        let has_block = || dom.descendants(id).any(|d| dom.tag(d).is_block());
        let is_small = dom.descendants(id).nth(MAX_DRAWING).is_none();
        let is_formula = || !dom.descendants(id).any(is_shown) || tex.contains(['\\', '^']) && !has_block();
        return (is_small && is_formula()).then(|| tex.to_owned());
    }
    let is_math = dom.attribute(id, "data-type").is_some_and(|kind| kind.ends_with("-math"));
    let name = if dom.has_class(id, "ql-formula") { "data-value" } else { "data-latex" };
    dom.attribute(id, name).filter(|_| is_math || name == "data-value").map(str::to_owned)
}

/// The formula that an image shows: the MathML that MathType adds, else the TeX in the address of a service
/// that draws formulas, else the description if a class or the attribute `eeimg` says that the image is a
/// formula. `None` if the description is not TeX, or has neither a command, a script nor an equals sign.
fn read_image(dom: &Dom, id: NodeId) -> Option<Formula> {
    const CLASSES: [&str; 4] = ["latex", "math", "ql-img-inline-formula", "ql-img-displayed-equation"];
    let is_marked = || dom.has_class_in(id, &CLASSES) || dom.has_attribute(id, "eeimg");
    let is_formula = |alt: &&str| is_marked() && is_tex(alt) && alt.contains(['\\', '^', '_', '=']);
    let alt = || dom.first_attribute(id, &["alt"]).filter(is_formula).map(str::to_owned);
    let mathml = dom.attribute(id, "data-mathml").map(|text| {
        let text = text.replace('«', "<").replace('»', ">").replace('¨', "\"").replace('§', "&");
        let dom = parse(&text);
        dom.find(DOCUMENT, Tag::Math).and_then(|math| read_formula(&dom, math)).map(|formula| formula.tex)
    });
    let address = || tex_in_address(dom.attribute(id, "src")?);
    let tex = mathml.flatten().or_else(address).or_else(alt)?;
    Some(Formula { tex: clean_tex(&tex)?, is_display: dom.has_class(id, "ql-img-displayed-equation") })
}

/// The TeX in the address of an image that CodeCogs, Google Charts, WordPress.com or Zhihu draws. `None` for
/// other addresses, and for those longer than [`MAX_ADDRESS`].
fn tex_in_address(address: &str) -> Option<String> {
    let (page, query) = address.split_once('?').filter(|_| address.len() <= MAX_ADDRESS)?;
    let decode = |query: &str, name: &str| {
        let mut pairs = url::form_urlencoded::parse(query.as_bytes());
        pairs.find(|(own, _)| own == name).map(|(_, value)| value.into_owned())
    };
    let name = match page.split_once("://")?.1 {
        // The whole query is TeX, in which `+` is not a space.
        page if page.starts_with("latex.codecogs.com/") => {
            let query = query.replace("&space;", "%20").replace('+', "%2B").replace('&', "%26");
            return decode(&format!("tex={}", query.replace('=', "%3D")), "tex");
        }
        page if page.starts_with("chart.") && query.contains("cht=tx") => "chl",
        page if page.ends_with("wp.com/latex.php") => "latex",
        "www.zhihu.com/equation" => "tex",
        _ => return None,
    };
    decode(query, name)
}

/// Whether the text alternative of MathML or an image is TeX: it has commands or scripts, or no word of four
/// letters or more.
fn is_tex(text: &str) -> bool {
    let is_word = |word: &str| word.len() > 3 && word.bytes().all(|b| b.is_ascii_alphabetic());
    text.contains(['\\', '^', '_']) || !text.split_whitespace().any(is_word)
}

/// Whether an element is the output or the preview of MathJax 2, and the script with the TeX follows it: as
/// the next element, or after one more output.
fn is_output_before_script(dom: &Dom, id: NodeId) -> bool {
    let is_output =
        |&id: &NodeId| dom.classes(id).any(|class| class.starts_with("MathJax") || class.starts_with("mjx-"));
    let after = || dom.nodes_after(id).filter(|&n| dom.element(n).is_some()).take(2);
    let is_script = |&id: &NodeId| {
        dom.tag(id) == Tag::Script && dom.attribute(id, "type").is_some_and(|t| t.starts_with("math/tex"))
    };
    is_output(&id) && after().find(|id| !is_output(id)).is_some_and(|next| is_script(&next))
}

/// Classes of elements that renderers put around MathML.
#[rustfmt::skip]
const RENDERERS: &[&str] = &["katex", "katex-display", "katex--display", "katex--inline", "mwe-math-element", "temml"];

/// The delimiters of TeX in text, and whether they delimit a display formula.
const DELIMITERS: [(&str, &str, bool); 4] =
    [("$$", "$$", true), ("\\[", "\\]", true), ("\\(", "\\)", false), ("$", "$", false)];

/// Removes the delimiters of a formula. The second value is whether they delimit a display formula. `None` if
/// the text has neither delimiters nor TeX syntax, and so is not a formula, if the delimiter at its start has
/// no counterpart at its end, or if it has several formulas.
fn strip_delimiters(text: &str) -> Option<(&str, bool)> {
    let Some((start, end, is_display)) = DELIMITERS.into_iter().find(|(start, ..)| text.starts_with(start))
    else {
        return text.contains(['\\', '^', '_']).then_some((text, false));
    };
    let tex = text.strip_prefix(start)?.strip_suffix(end)?;
    // In TeX, `\\` is a line break, so a bracket after it is not a delimiter.
    let tex_without_breaks = tex.replace(r"\\", "");
    let is_single = match start {
        "$" => !has_dollar(&tex_without_breaks),
        _ => !tex_without_breaks.contains(end),
    };
    is_single.then_some((tex, is_display))
}

/// Whether TeX has a dollar sign outside of braces that is not escaped. One in braces may begin a formula in
/// the text of a formula, as in `\text{if $a$}`.
fn has_dollar(tex: &str) -> bool {
    let (mut depth, mut chars) = (0_i32, tex.chars());
    while let Some(c) = chars.next() {
        match c {
            '\\' => _ = chars.next(),
            '{' => depth += 1,
            '}' => depth -= 1,
            '$' if depth <= 0 => return true,
            _ => {}
        }
    }
    false
}

/// The text of the first `<annotation>` of a MathML formula that declares TeX or LaTeX as its encoding.
fn tex_annotation(dom: &Dom, math: NodeId) -> Option<String> {
    let is_tex = |&id: &NodeId| {
        let names_tex = |encoding: &str| encoding.to_ascii_lowercase().replace("text/", "").contains("tex");
        dom.name(id) == "annotation" && dom.attribute(id, "encoding").is_some_and(names_tex)
    };
    dom.descendants(math).find(is_tex).map(|id| dom.text_content(id))
}

/// Trims TeX, and removes blank lines and the style group that Wikipedia adds around the whole formula.
/// `None` if nothing is left.
fn clean_tex(tex: &str) -> Option<String> {
    let mut tex = tex.trim();
    for style in ["{\\displaystyle", "{\\textstyle"] {
        if let Some(inner) = tex.strip_prefix(style).and_then(|t| t.strip_suffix('}'))
            && is_group(tex)
        {
            tex = inner.trim();
        }
    }
    let lines: Vec<_> = tex.lines().map(str::trim_end).filter(|l| !l.is_empty()).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// Removes the markers of a CDATA section around TeX. kramdown writes them as TeX comments.
fn without_cdata(tex: &str) -> &str {
    let inner = tex.trim().trim_start_matches(['%', ' ']).strip_prefix("<![CDATA[");
    let inner = inner.and_then(|inner| inner.strip_suffix("]]>"));
    inner.map_or(tex, |inner| inner.strip_suffix('%').unwrap_or(inner))
}

/// Whether the page loads a script that renders TeX between delimiters as formulas: MathJax or KaTeX, or one
/// of the files of MathJax on another server, or an inline script that configures or loads one of these.
pub(super) fn has_math_script(dom: &Dom) -> bool {
    let is_renderer = |source: &str| {
        let file = source.rsplit('/').next().unwrap_or_default();
        source.to_ascii_lowercase().contains("mathjax")
            || source.contains("katex")
            || file.starts_with("tex-") && (file.contains("chtml") || file.contains("svg"))
    };
    let is_loader = |code: &str| code.contains("MathJax") || code.contains("renderMathInElement");
    dom.descendants(DOCUMENT).filter(|&id| dom.tag(id) == Tag::Script).any(|id| {
        dom.attribute(id, "src").is_some_and(is_renderer)
            || dom.attribute(id, "type").is_none_or(|kind| !kind.contains("json"))
                && dom.children(id).filter_map(|text| dom.text(text)).any(is_loader)
    })
}

/// Adds text to inline Markdown. TeX between delimiters such as `$…$` becomes a formula, but prices do not.
pub(super) fn add_text_with_formulas(text: &str, out: &mut Inline) {
    let mut rest = text;
    while let Some((start, tex, end, is_display)) = next_formula(rest) {
        out.add_text(&rest[..start]);
        Formula { tex: collapse(tex), is_display }.write(out);
        rest = &rest[end..];
    }
    out.add_text(rest);
}

/// The environments that are formulas without delimiters.
const ENVIRONMENTS: [&str; 6] = ["align", "equation", "gather", "multline", "eqnarray", "alignat"];

/// The environment at the start of `text`, with its `\begin` and `\end`. `None` if it is longer than 2000
/// bytes or has no end, and for names that are not in [`ENVIRONMENTS`] with or without a `*` at the end.
fn environment(text: &str) -> Option<&str> {
    let name = clip(text.strip_prefix("\\begin{")?, 20).split_once('}')?.0;
    if !ENVIRONMENTS.contains(&name.trim_end_matches('*')) {
        return None;
    }
    let close = format!("\\end{{{name}}}");
    let end = clip(text, 2000).find(&close)? + close.len();
    Some(&text[..end])
}

/// The first formula in `text`: where it starts, its TeX of at most 2000 bytes, where it ends, and whether it
/// is a display formula. Skips empty and longer formulas, prices, and dollar signs after a backslash.
fn next_formula(text: &str) -> Option<(usize, &str, usize, bool)> {
    let mut from = 0;
    while let Some(at) = text[from..].find(['$', '\\']).map(|i| from + i) {
        if text[at..].starts_with("\\$") {
            from = at + 2;
            continue;
        }
        if let Some(tex) = environment(&text[at..]) {
            return Some((at, tex, at + tex.len(), true));
        }
        let found = DELIMITERS.into_iter().find(|(open, ..)| text[at..].starts_with(open));
        from = at + found.map_or(1, |(open, ..)| open.len());
        let Some((open, close, is_display)) = found else { continue };
        let Some(length) = clip(&text[from..], 2000).find(close).filter(|&l| l > 0) else { continue };
        let tex = &text[from..from + length];
        let end = from + length + close.len();
        // `$5 and $6` are prices, not a formula.
        let is_price = open == "$"
            && (tex.starts_with(char::is_whitespace)
                || tex.ends_with(char::is_whitespace)
                || text[end..].starts_with(|c: char| c.is_ascii_digit()));
        if !is_price {
            return Some((at, tex, end, is_display));
        }
    }
    None
}

/// Converts inline Markdown to a block: a display formula if the text consists only of one, otherwise a
/// paragraph.
pub(super) fn paragraph_or_formula(text: String) -> Block {
    let tex = text.strip_prefix("$$").and_then(|t| t.strip_suffix("$$"));
    match tex.filter(|t| !t.is_empty() && !t.contains('$')) {
        Some(tex) => Block::Math(tex.to_owned()),
        None => Block::Paragraph(text),
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse::parse;
    use super::*;

    fn first(html: &str) -> Option<(String, bool)> {
        let dom = parse(html);
        let found = dom.descendants(DOCUMENT).find_map(|id| read_formula(&dom, id));
        found.map(|f| (f.tex, f.is_display))
    }

    #[test]
    fn an_address_that_is_too_long_has_no_formula() {
        let image = |sum: &str| format!("<img src='https://latex.codecogs.com/svg.latex?{sum}'>");
        let sum = |terms: usize| vec!["x_1"; terms].join("+");
        assert_eq!(first(&image(&sum(900))), Some((sum(900), false)));
        assert_eq!(first(&image(&sum(1100))), None);
        let marked = image(&sum(1100)).replace('>', " class=latex alt='x_1+x_1'>");
        assert_eq!(first(&marked), Some(("x_1+x_1".into(), false)));
    }

    #[test]
    fn reads_tex_annotations_and_scripts() {
        let annotated = "<math><semantics><mi>x</mi><annotation encoding='text/plain'>x squared</annotation><annotation encoding='application/x-tex'>x^2</annotation></semantics></math>";
        let katex = format!(
            "<span class=katex><span class=katex-mathml>{annotated}</span><span aria-hidden=true>x2</span></span>"
        );
        assert_eq!(first(&katex), Some(("x^2".into(), false)));
        assert_eq!(first(&format!("<span class=katex-display>{katex}</span>")), Some(("x^2".into(), true)));
        assert_eq!(
            first("<script type='math/tex; mode=display'>\\frac12</script>"),
            Some(("\\frac12".into(), true))
        );
        let cdata = "<script type=math/tex>% <![CDATA[\na < b %]]></script>";
        assert_eq!(first(cdata), Some(("a < b".into(), false)));
        assert_eq!(first("<span class='math inline'>\\(a_1\\)</span>"), Some(("a_1".into(), false)));
        assert_eq!(first("<span class=math>addition</span>"), None);
        assert_eq!(
            first("<span class=math-inline data-math=x_1><b class=katex>x</b></span>"),
            Some(("x_1".into(), false))
        );
        assert_eq!(first("<div class=math-block data-math=x_1>x</div>"), Some(("x_1".into(), true)));
        let numbered = "<div class=math><span class=eqno>(1)<a href=#e>¶</a></span>\\[a_1\\]</div>";
        assert_eq!(first(numbered), Some(("a_1 \\tag{1}".into(), true)));
    }

    #[test]
    fn formulas_that_editors_leave_to_scripts_are_read() {
        for (html, expected) in [
            ("<span class=ql-formula data-value='e=mc^2'><i></i></span>", Some(("e=mc^2", false))),
            ("<span data-type=inline-math data-latex=a_1></span>", Some(("a_1", false))),
            (
                "<img src='https://latex.codecogs.com/svg.image?E%3Dmc%5E2&space;+1'>",
                Some(("E=mc^2 +1", false)),
            ),
            (
                "<img src='https://chart.apis.google.com/chart?cht=tx&chl=%5Calpha%2B1'>",
                Some(("\\alpha+1", false)),
            ),
            (
                "<img src='https://s0.wp.com/latex.php?latex=E%3Dmc%5E2&bg=fff' alt=x>",
                Some(("E=mc^2", false)),
            ),
            ("<img class=math src=/a.png alt='\\sum_k r_k'>", Some(("\\sum_k r_k", false))),
            ("<img class=ql-img-displayed-equation src=/a.png alt='a^2'>", Some(("a^2", true))),
            (
                "<img data-mathml='«math»«msup»«mi»x«/mi»«mn»2«/mn»«/msup»«/math»' alt='x squared'>",
                Some(("x^{2}", false)),
            ),
            ("<img class=math src=/a.png alt='A formula'>", None),
            ("<img class=math src=/fig1.png alt='Fig 1'>", None),
            ("<section data-formula=a_1><svg><text>a</text></svg></section>", Some(("a_1", true))),
            ("<span data-formula='a^2'>a²</span>", Some(("a^2", false))),
            ("<div data-formula=C8H10N4O2><h3>Caffeine</h3><p>Lab grade.</p></div>", None),
            ("<span data-formula='qty*price'>€ 90</span>", None),
            ("<div data-formula=H2O><img src=/water.png></div>", None),
            ("<img src='https://chart.apis.google.com/chart?cht=p&chl=a' alt='a_b'>", None),
            ("<div data-type=block-math data-latex=a_1></div>", Some(("a_1", true))),
            (
                "<div class=latex-rendered data-attrs='{\"persistentExpression\":\"a_1\"}'></div>",
                Some(("a_1", true)),
            ),
            ("<p><code data-math-style=inline>a_1</code>", Some(("a_1", false))),
            ("<pre data-math-style=display><code>a_1</code></pre>", Some(("a_1", true))),
            ("<d-math>a_1</d-math>", Some(("a_1", false))),
            ("<d-math block>a_1</d-math>", Some(("a_1", true))),
            ("<span class=math-tex>\\( a_1 \\)</span>", Some(("a_1", false))),
            ("<span class=math-tex>addition</span>", None),
            ("<span data-value=5>a</span>", None),
            ("<div class=latex-rendered data-attrs=x>a</div>", None),
            ("<code>a_1</code>", None),
        ] {
            assert_eq!(first(html), expected.map(|(tex, is_display)| (tex.to_owned(), is_display)), "{html}");
        }
    }

    #[test]
    fn delimiters_that_do_not_match_stay() {
        for (tex, expected) in [
            (r"{\displaystyle {x}+{y}}", r"{x}+{y}"),
            (r"{\displaystyle x}+{y}", r"{\displaystyle x}+{y}"),
            (r"{\textstyle \{x\}}", r"\{x\}"),
            (r"{\displaystyle x}+\{y\}", r"{\displaystyle x}+\{y\}"),
        ] {
            assert_eq!(clean_tex(tex).as_deref(), Some(expected), "{tex}");
        }
        for (text, expected) in [
            (r"\(a\)", Some(("a", false))),
            (r"\(a\) and \(b\)", None),
            (r"\[a\] and \[b\]", None),
            ("$$a$$ and $$b$$", None),
            (r"\[a \text{ if \(b\)}\]", Some((r"a \text{ if \(b\)}", true))),
            (r"$\$5$", Some((r"\$5", false))),
            ("$a$ and $b$", None),
            ("$a$ and $$b$$", None),
            (r"$a \text{ if $b$}$", Some((r"a \text{ if $b$}", false))),
            (r"\[[a \\]\]", Some((r"[a \\]", true))),
            (r"a_1", Some((r"a_1", false))),
        ] {
            assert_eq!(strip_delimiters(text), expected, "{text}");
        }
    }

    #[test]
    fn several_formulas_in_an_element_are_read_one_by_one() {
        let html = r"<p><span class=math>\(a\) and \(b\)</span>";
        let script = "<script src=/mathjax/x.js></script>";
        assert_eq!(super::super::tests::markdown(&format!("{script}{html}")), "$a$ and $b$\n");
        let dollars = format!("{script}<div class=math>$a$ and $b$</div>");
        assert_eq!(super::super::tests::markdown(&dollars), "$a$ and $b$\n");
        assert_eq!(super::super::tests::markdown(html), "\\\\(a\\\\) and \\\\(b\\\\)\n");
    }

    #[test]
    fn words_that_describe_a_formula_are_no_tex() {
        let math = |alternative: &str| first(&format!("<math alttext='{alternative}'><mi>a</mi></math>"));
        for words in ["x squared plus two", "E equals m c squared"] {
            assert_eq!(math(words), Some(("a".to_owned(), false)));
        }
        for tex in ["x + y", "\\sin four times", "sin x", "E=mc^2"] {
            assert_eq!(math(tex), Some((tex.to_owned(), false)));
        }
    }

    #[test]
    fn a_script_that_renders_formulas_is_found() {
        let is_found = |script: &str| has_math_script(&parse(script));
        for script in [
            "<script src=/js/tex-mml-chtml.js></script>",
            "<script src=/mathjax/x.js></script>",
            "<script>window.MathJax = {}</script>",
            "<script>renderMathInElement(document.body)</script>",
        ] {
            assert!(is_found(script), "{script}");
            let html = format!(
                "{script}<p>We get</p>\n\\begin{{align*}}\na &amp;= b \\\\\n\\end{{align*}}<p>\\begin{{x}}a\\end{{x}}"
            );
            let markdown = super::super::tests::markdown(&html);
            let formula = "We get\n\n$$\n\\begin{align*} a &= b \\\\ \\end{align*}\n$$\n\n";
            assert!(markdown.starts_with(formula) && !markdown[formula.len()..].contains('$'), "{markdown}");
        }
        let prices = r"<script src=mathjax.js></script><p>\$5 and \$6";
        assert_eq!(super::super::tests::markdown(prices), "\\\\$5 and \\\\$6\n");
        for script in [
            "<script src=/js/tex-editor.js></script>",
            "<script type=application/ld+json>\"MathJax\"</script>",
            "<p>MathJax",
        ] {
            assert!(!is_found(script), "{script}");
        }
    }

    #[test]
    fn a_table_of_latexml_is_one_formula() {
        let math = |tex: &str| format!("<td> <math alttext='{tex}'><mi>x</mi></math> </td>");
        let number = "<td class=ltx_eqn_eqno><span class='ltx_tag ltx_tag_equation'>(1)</span></td>";
        let table = |rows: &str| first(&format!("<table class=ltx_eqn_table>{rows}</table>"));
        let formula = |tex: &str| Some((tex.to_owned(), true));
        assert_eq!(table(&format!("<tr><td>{}{number}", math("a=b"))), formula("a=b \\tag{1}"));
        let row = format!("<tr>{}{}", math("\\displaystyle a"), math("\\displaystyle=b"));
        assert_eq!(table(&row), formula("\\begin{aligned}\na & =b\n\\end{aligned}"));
        assert_eq!(
            table(&format!("{row}{number}{row}")),
            formula("\\begin{align}\na & =b \\tag{1} \\\\\na & =b\n\\end{align}")
        );
        let with_text = format!("{row}<tr><td>and</td>");
        assert_eq!(table(&with_text), Some(("\\displaystyle a".to_owned(), false)), "not one formula");
    }

    #[test]
    fn writes_presentation_mathml_as_tex() {
        let html = "<math display=block><mi>y</mi><mo>=</mo><mfrac><msup><mi>x</mi><mn>2</mn></msup><msqrt><mi>z</mi></msqrt></mfrac></math>";
        assert_eq!(first(html), Some(("y = \\frac{x^{2}}{\\sqrt{z}}".into(), true)));
        let row = "<mrow><mo>(</mo><mtable><mtr><mtd><mi>a</mi></mtd><mtd><mover><mi>b</mi><mo>→</mo></mover></mtd></mtr></mtable><mo>)</mo></mrow>";
        let matrix = "\\begin{pmatrix} a & \\vec{b} \\end{pmatrix}";
        assert_eq!(first(&format!("<math>{row}</math>")), Some((matrix.into(), false)));
    }

    #[test]
    fn mathml_becomes_valid_tex_with_the_same_meaning() {
        for (mathml, expected) in [
            // A command ends before the letter that follows.
            (
                "<mi>π</mi><mi>r</mi><mo>∂</mo><mi>y</mi><mn>2</mn><mi>α</mi><mi>β</mi>",
                r"\pi r\partial y2\alpha\beta",
            ),
            ("<munder><mo>lim</mo><mi>n</mi></munder><mi>a</mi>", r"\lim_{n}a"),
            ("<mo>lim</mo><mi>a</mi>", r"\lim a"),
            // Characters that are syntax in TeX are escaped.
            ("<mn>50</mn><mo>%</mo><mi>$</mi><mi>#</mi><mo>&amp;</mo><mi>_</mi>", r"50\%\$\#\&\_"),
            (r"<mo>~</mo><mo>\</mo><mo>^</mo><mi>a_b</mi>", r"\sim \backslash \hat{}\text{a\_b}"),
            ("<mtext>5$ {a} ^&nbsp;</mtext><mi>x</mi>", r"\text{5\$ \{a\} \textasciicircum{} }x"),
            // Fractions without a line are binomial coefficients or stacks.
            ("<mo>(</mo><mfrac linethickness=0pt><mi>n</mi><mi>k</mi></mfrac><mo>)</mo>", r"\binom{n}{k}"),
            ("<mfrac linethickness=0><mi>n</mi><mi>k</mi></mfrac>", r"\genfrac{}{}{0pt}{}{n}{k}"),
            (
                "<mo>(</mo><mrow><mfrac linethickness=0><mi>n</mi><mi>k</mi></mfrac><mi>x</mi></mrow><mo>)</mo>",
                r"(\genfrac{}{}{0pt}{}{n}{k}x)",
            ),
            ("<mfrac linethickness=2><mi>n</mi><mi>k</mi></mfrac>", r"\frac{n}{k}"),
            // Brackets around a table, also in a row with other operands
            (
                "<mi>f</mi><mo>=</mo><mo>{</mo><mtable><mtr><mtd><mn>1</mn></mtd></mtr><mtr><mtd><mn>0</mn></mtd></mtr></mtable>",
                r"f = \begin{cases} 1 \\ 0 \end{cases}",
            ),
            (
                "<mi>A</mi><mo>=</mo><mo>[</mo><mtable><mtr><mtd><mn>1</mn></mtd></mtr></mtable><mo>]</mo><mi>x</mi>",
                r"A = \begin{bmatrix} 1 \end{bmatrix}x",
            ),
            ("<mo>{</mo><mi>x</mi><mo>}</mo>", r"\{x\}"),
            // Subscripts and superscripts, also of a base that already has one
            ("<msup><msup><mi>x</mi><mn>2</mn></msup><mn>3</mn></msup>", "{x^{2}}^{3}"),
            ("<msub><msub><mi>x</mi><mn>2</mn></msub><mn>3</mn></msub>", "{x_{2}}_{3}"),
            ("<msup><msub><mi>x</mi><mn>2</mn></msub><mn>3</mn></msup>", "x_{2}^{3}"),
            ("<msup><msqrt><msup><mi>x</mi><mn>2</mn></msup></msqrt><mn>3</mn></msup>", r"\sqrt{x^{2}}^{3}"),
            (
                "<mmultiscripts><mi>C</mi><mi>a</mi><none/><mprescripts/><mn>6</mn><mn>14</mn></mmultiscripts>",
                "{}_{6}^{14}C_{a}",
            ),
            ("<mi>f</mi><mfenced><mi>u</mi><mi>w</mi></mfenced>", "f(u,w)"),
            (
                "<mfenced open='{' close='' separators='; |'><mi>a</mi><mi>b</mi><mi>c</mi><mi>d</mi></mfenced>",
                r"\{a;b|c|d",
            ),
            ("<msub><mrow><mo>{</mo><mi>_</mi></mrow><mn>2</mn></msub>", r"\{\__{2}"),
            // `<maction>` shows one of its children.
            ("<maction selection=2><mi>a</mi><mi>b</mi></maction>", "b"),
            ("<maction actiontype=tooltip><mi>a</mi><mtext>b</mtext></maction>", "a"),
            ("<mi mathvariant=double-struck>R</mi><mi mathvariant=normal>d</mi>", r"\mathbb{R}d"),
            (
                "<munder><mi>x</mi><mo>_</mo></munder><mover><mi>x</mi><mo>^</mo></mover>",
                r"\underline{x}\hat{x}",
            ),
        ] {
            assert_eq!(first(&format!("<math>{mathml}</math>")), Some((expected.into(), false)), "{mathml}");
        }
    }

    #[test]
    fn a_script_replaces_what_mathjax_showed_for_it() {
        for html in [
            "<span class=MathJax_Preview></span><span class='mjx-chtml MathJax_CHTML'><span class=mjx-math>q</span><span class=MJX_Assistive_MathML><math><mi>q</mi></math></span></span><script type=math/tex>q_1</script>",
            "<span class=MathJax_Preview>q</span><span class=MathJax_SVG><svg></svg><span class=MJX_Assistive_MathML><math><mi>q</mi></math></span></span><script type=math/tex>q_1</script>",
            "<span class=MathJax><nobr>q</nobr></span><script type=math/tex>q_1</script>",
        ] {
            assert_eq!(super::super::tests::markdown(&format!("<p>a {html}")), "a $q_1$\n", "{html}");
        }
        let display = "<p>a</p><div class=MathJax_SVG_Display><span class=MathJax_SVG><math><mi>q</mi></math></span></div><script type='math/tex; mode=display'>q_1</script>";
        assert_eq!(super::super::tests::markdown(display), "a\n\n$$\nq_1\n$$\n");
        assert_eq!(
            super::super::tests::markdown("<p><span class=mjx-chtml><math><mi>q</mi></math></span>"),
            "$q$\n"
        );
    }

    #[test]
    fn a_class_may_say_that_a_formula_is_displayed() {
        let page = |class: &str| {
            super::super::tests::markdown(&format!("<p>a<p><span class={class} data-math='x_1'>x</span>"))
        };
        assert_eq!(page("math-block"), "a\n\n$$\nx_1\n$$\n");
        assert_eq!(page("math-inline"), "a\n\n$x_1$\n");
        assert_eq!(page("'math inline-block'"), "a\n\n$x_1$\n");
    }

    #[test]
    fn reads_what_mathjax_shows() {
        let letter = |code: &str| format!("<mjx-mi><mjx-c class=mjx-c{code}></mjx-c></mjx-mi>");
        let html = format!(
            "<mjx-container class=MathJax jax=CHTML display=true><mjx-math><mjx-mfrac><mjx-frac><mjx-num>\
             <mjx-nstrut></mjx-nstrut><mjx-mfrac><mjx-frac><mjx-num>{z}</mjx-num><mjx-dbox><mjx-den>{n}</mjx-den>\
             </mjx-dbox></mjx-frac></mjx-mfrac></mjx-num><mjx-dbox><mjx-dtable><mjx-row><mjx-den><mjx-msubsup>{sigma}\
             <mjx-script><mjx-mn><mjx-c class=mjx-c32></mjx-c></mjx-mn><mjx-spacer></mjx-spacer>{n}</mjx-script>\
             </mjx-msubsup></mjx-den></mjx-row></mjx-dtable></mjx-dbox></mjx-frac></mjx-mfrac></mjx-math></mjx-container>",
            z = letter("1D467"),
            n = letter("1D45B"),
            sigma = letter("1D70E"),
        );
        assert_eq!(first(&html), Some(("\\frac{\\frac{z}{n}}{\\sigma_{n}^{2}}".into(), true)));
        let row = |text: &str| {
            format!("<mjx-mtr><mjx-mtd><mjx-mn>{text}</mjx-mn><mjx-tstrut></mjx-tstrut></mjx-mtd></mjx-mtr>")
        };
        let html = format!(
            "<mjx-container class=MathJax jax=CHTML><mjx-math><mjx-mo><mjx-stretchy-v class=mjx-c7B><mjx-beg><mjx-c></mjx-c></mjx-beg>\
             </mjx-stretchy-v></mjx-mo><mjx-mtable><mjx-table><mjx-itable>{}{}</mjx-itable></mjx-table></mjx-mtable></mjx-math></mjx-container>",
            row("1"),
            row("0"),
        );
        assert_eq!(first(&html), Some(("\\begin{cases} 1 \\\\ 0 \\end{cases}".into(), false)));
    }
}
