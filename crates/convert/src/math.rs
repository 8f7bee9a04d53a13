//! Reads the TeX of formulas from the markup of KaTeX, MathJax and MathML.

use super::block::Block;
use super::dom::{DOCUMENT, Dom, NodeId, Tag, clip, collapse};
use super::inline::Inline;

/// A formula in the page.
#[derive(Debug, PartialEq)]
pub(super) struct Formula {
    /// The TeX of the formula; empty for the output of MathJax before version 3, which contains no TeX.
    pub(super) tex: String,
    /// Whether the formula is on lines of its own.
    pub(super) is_display: bool,
}

impl Formula {
    /// Adds the formula to inline Markdown on one line, unless its TeX is empty.
    pub(super) fn write(&self, out: &mut Inline) {
        let tex = self.tex.replace('\n', " ");
        let tex = if out.is_cell { tex.replace('|', "\\|") } else { tex };
        if !tex.is_empty() {
            out.add_markdown(&if self.is_display { format!("$${tex}$$") } else { format!("${tex}$") });
        }
    }
}

/// The formula that an element shows; `None` if it shows no formula or the TeX is unknown.
pub(super) fn read_formula(dom: &Dom, id: NodeId) -> Option<Formula> {
    let (tex, is_display) = match dom.tag(id) {
        Tag::Math => {
            let attribute = || dom.first_attribute(id, &["alttext", "data-latex"]).map(str::to_owned);
            let tex = tex_annotation(dom, id).or_else(attribute).unwrap_or_else(|| mathml_to_tex(dom, id));
            (clean_tex(&tex)?, dom.attribute(id, "display") == Some("block"))
        }
        Tag::Script => {
            let rest = dom.attribute(id, "type")?.strip_prefix("math/tex")?;
            (clean_tex(&dom.text_content(id))?, rest.contains("display"))
        }
        Tag::Span | Tag::Div | Tag::Other | Tag::P => return read_renderer_element(dom, id),
        _ => return None,
    };
    Some(Formula { tex, is_display })
}

/// The formula in an element of KaTeX, MathJax or another renderer, recognized by its name or classes.
fn read_renderer_element(dom: &Dom, id: NodeId) -> Option<Formula> {
    // Markdown renderers such as Comrak mark formulas with this attribute.
    if let Some(style) = dom.attribute(id, "data-math-style") {
        return Some(Formula { tex: clean_tex(&dom.text_content(id))?, is_display: style == "display" });
    }
    let class = dom.attribute(id, "class").unwrap_or_default();
    if dom.tag(id) != Tag::Other && !["ath", "atex", "temml", "mjx"].iter().any(|part| class.contains(part)) {
        return None;
    }
    let has = |name: &str| dom.has_class(id, name);
    let is_mathjax = dom.name(id) == "mjx-container" || dom.has_class_in(id, &["MathJax", "mjx-chtml"]);
    let is_plain = dom.has_class_in(id, &["math", "arithmatex", "MathJax_Preview"]);
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

/// Classes of elements that renderers put around MathML.
#[rustfmt::skip]
const RENDERERS: &[&str] = &["katex", "katex-display", "katex--display", "katex--inline", "mwe-math-element", "temml"];

/// The delimiters of TeX in text, and whether they delimit a display formula.
const DELIMITERS: [(&str, &str, bool); 4] =
    [("$$", "$$", true), ("\\[", "\\]", true), ("\\(", "\\)", false), ("$", "$", false)];

/// Removes the delimiters of a formula. The second value is whether they delimit a display formula. `None` if
/// the text has neither delimiters nor TeX syntax, and so is not a formula.
fn strip_delimiters(text: &str) -> Option<(&str, bool)> {
    let strip = |(start, end, is_display)| Some((text.strip_prefix(start)?.strip_suffix(end)?, is_display));
    let plain = || text.contains(['\\', '^', '_']).then_some((text, false));
    DELIMITERS.into_iter().find_map(strip).or_else(plain)
}

/// The TeX in the `<annotation>` of a MathML formula.
fn tex_annotation(dom: &Dom, math: NodeId) -> Option<String> {
    let is_tex = |&id: &NodeId| {
        dom.name(id) == "annotation"
            && dom.attribute(id, "encoding").is_some_and(|e| e.to_ascii_lowercase().contains("tex"))
    };
    dom.descendants(math).find(is_tex).map(|id| dom.text_content(id))
}

/// Trims TeX, and removes blank lines and the style group that Wikipedia adds. `None` if nothing is left.
fn clean_tex(tex: &str) -> Option<String> {
    let mut tex = tex.trim();
    for style in ["{\\displaystyle", "{\\textstyle"] {
        if let Some(inner) = tex.strip_prefix(style).and_then(|t| t.strip_suffix('}')) {
            tex = inner.trim();
        }
    }
    let lines: Vec<_> = tex.lines().map(str::trim_end).filter(|l| !l.is_empty()).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// Whether the page loads a script that renders TeX between delimiters as formulas.
pub(super) fn has_math_script(dom: &Dom) -> bool {
    dom.descendants(DOCUMENT).any(|id| {
        let source = if dom.tag(id) == Tag::Script { dom.attribute(id, "src") } else { None };
        source.is_some_and(|s| s.to_ascii_lowercase().contains("mathjax") || s.contains("katex"))
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

/// The first formula in `text`: where it starts, its TeX of at most 2000 bytes, where it ends, and whether it
/// is a display formula.
fn next_formula(text: &str) -> Option<(usize, &str, usize, bool)> {
    let mut from = 0;
    while let Some(at) = text[from..].find(['$', '\\']).map(|i| from + i) {
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

/// The TeX command for a Greek letter or an operator that MathML writes as a character.
fn tex_symbol(text: &str) -> Option<&'static str> {
    #[rustfmt::skip]
    const SYMBOLS: &[(&str, &str)] = &[
        ("α", "\\alpha"), ("β", "\\beta"), ("γ", "\\gamma"), ("δ", "\\delta"), ("ε", "\\epsilon"),
        ("θ", "\\theta"), ("λ", "\\lambda"), ("μ", "\\mu"), ("π", "\\pi"), ("ρ", "\\rho"), ("σ", "\\sigma"),
        ("τ", "\\tau"), ("φ", "\\phi"), ("ψ", "\\psi"), ("ω", "\\omega"), ("Γ", "\\Gamma"), ("Δ", "\\Delta"),
        ("Σ", "\\Sigma"), ("Φ", "\\Phi"), ("Ω", "\\Omega"), ("∞", "\\infty"), ("∂", "\\partial"),
        ("∇", "\\nabla"), ("∑", "\\sum"), ("∫", "\\int"), ("∏", "\\prod"), ("∮", "\\oint"), ("≤", " \\leq "),
        ("≥", " \\geq "), ("≠", " \\neq "), ("≈", " \\approx "), ("→", " \\to "), ("∈", " \\in "),
        ("×", " \\times "), ("⋅", " \\cdot "), ("±", " \\pm "), ("…", "\\dots"), ("⋯", "\\cdots"),
    ];
    SYMBOLS.iter().find(|(character, _)| *character == text).map(|(_, tex)| *tex)
}

/// Writes presentation MathML, or the elements that MathJax 3 replaces it with, as TeX. The recursion is
/// bounded, because the parser limits the depth of the tree.
fn mathml_to_tex(dom: &Dom, id: NodeId) -> String {
    let name = dom.name(id);
    let (name, parts) = match name.strip_prefix("mjx-") {
        Some(name) => (name, mathjax_operands(dom, id, name)),
        None => (name, dom.child_elements(id).collect()),
    };
    let part = |i: usize| parts.get(i).map(|&p| mathml_to_tex(dom, p)).unwrap_or_default();
    let joined = |by: &str| parts.iter().map(|&p| mathml_to_tex(dom, p)).collect::<Vec<_>>().join(by);
    let leaf = || leaf_text(dom, id);
    match name {
        "mi" => {
            let text = leaf();
            if let Some(tex) = tex_symbol(&text) {
                tex.to_owned()
            } else if text.chars().count() > 1 && text.is_ascii() {
                format!("\\text{{{text}}}")
            } else {
                text
            }
        }
        "mn" => leaf(),
        "mo" => match &*leaf() {
            "\u{2061}" | "\u{2062}" | "\u{2063}" => String::new(),
            "−" => " - ".to_owned(),
            "=" | "+" | "-" | "<" | ">" => format!(" {} ", leaf()),
            text => tex_symbol(text).unwrap_or(text).to_owned(),
        },
        "mtext" | "ms" => format!("\\text{{{}}}", leaf()),
        "msup" => format!("{}^{{{}}}", part(0), part(1)),
        "msub" | "munder" => format!("{}_{{{}}}", part(0), part(1)),
        "msubsup" | "munderover" => format!("{}_{{{}}}^{{{}}}", part(0), part(1), part(2)),
        "mover" => {
            let command = match part(1).trim() {
                "¯" | "‾" | "_" => "overline",
                "~" | "˜" => "tilde",
                "˙" => "dot",
                "⏞" => "overbrace",
                "^" => "hat",
                "\\to" => "vec",
                over => return format!("{}^{{{over}}}", part(0)),
            };
            format!("\\{command}{{{}}}", part(0))
        }
        "mfrac" => format!("\\frac{{{}}}{{{}}}", part(0), part(1)),
        "msqrt" => format!("\\sqrt{{{}}}", join_matrix(&joined(""))),
        "mroot" => format!("\\sqrt[{}]{{{}}}", part(1), part(0)),
        "mtable" => {
            format!("\\begin{{matrix}} {} \\end{{matrix}}", joined(" \\\\ "))
        }
        "mtr" => joined(" & "),
        "menclose" if dom.attribute(id, "notation") == Some("top") => {
            format!("\\overline{{{}}}", join_matrix(&joined("")))
        }
        "annotation" | "annotation-xml" | "mspace" | "mphantom" | "nstrut" | "dstrut" | "line" => {
            String::new()
        }
        "semantics" => part(0),
        _ if parts.is_empty() => leaf(),
        _ => join_matrix(&joined("")),
    }
}

/// Collapses white space, and converts a matrix between brackets to the TeX matrix with these brackets.
fn join_matrix(tex: &str) -> String {
    let text = collapse(tex);
    for (open, close, name) in [("(", ")", "pmatrix"), ("[", "]", "bmatrix"), ("|", "|", "vmatrix")] {
        let inner = text.strip_prefix(open).and_then(|t| t.strip_suffix(close));
        let matrix = inner.and_then(|t| t.strip_prefix("\\begin{matrix}")?.strip_suffix("\\end{matrix}"));
        if let Some(cells) = matrix.filter(|cells| !cells.contains("matrix}")) {
            return format!("\\begin{{{name}}}{cells}\\end{{{name}}}");
        }
    }
    text
}

/// The operands of a MathJax element in MathML order. MathJax wraps them in boxes, and orders some by their
/// position on the screen.
fn mathjax_operands(dom: &Dom, id: NodeId, name: &str) -> Vec<NodeId> {
    let boxes = dom.outermost(id, |d| {
        matches!(
            dom.name(d),
            "mjx-num" | "mjx-den" | "mjx-base" | "mjx-under" | "mjx-over" | "mjx-root" | "mjx-script"
        ) || name != "munderover" && dom.name(d) == "mjx-box"
    });
    let named = |wanted: &'static str| boxes.iter().copied().filter(move |&b| dom.name(b) == wanted);
    match name {
        "mfrac" => named("mjx-num").chain(named("mjx-den")).collect(),
        "munder" | "mover" | "munderover" => {
            named("mjx-base").chain(named("mjx-under")).chain(named("mjx-over")).collect()
        }
        "msqrt" | "mroot" => named("mjx-box").chain(named("mjx-root")).collect(),
        "msub" | "msup" | "msubsup" => {
            let base = dom.child_elements(id).next();
            let scripts: Vec<NodeId> = named("mjx-script").flat_map(|s| dom.child_elements(s)).collect();
            let is_script = |s: &NodeId| dom.name(*s) != "mjx-spacer";
            // MathJax writes the superscript first, but MathML the subscript, so reverse the order.
            base.into_iter().chain(scripts.into_iter().rev().filter(is_script)).collect()
        }
        "mi" | "mn" | "mo" | "mtext" | "ms" => Vec::new(),
        _ => dom.child_elements(id).collect(),
    }
}

/// The text of an element without operands. MathJax writes characters as classes such as `mjx-c1D467`, and
/// italic letters as mathematical alphanumeric symbols.
fn leaf_text(dom: &Dom, id: NodeId) -> String {
    let mut text = String::new();
    for c in dom.descendants(id).filter(|&d| dom.name(d) == "mjx-c" && dom.is_blank(d)) {
        let code =
            dom.classes(c).find_map(|class| u32::from_str_radix(class.strip_prefix("mjx-c")?, 16).ok());
        text.extend(code.and_then(char::from_u32));
    }
    if text.is_empty() {
        text = dom.collapsed_text(id);
    }
    text.chars().map(plain_letter).collect()
}

/// The plain letter or digit of a mathematical alphanumeric symbol (Unicode block U+1D400 to U+1D7FF, and
/// U+210E for the italic h). Other characters stay as they are.
fn plain_letter(c: char) -> char {
    let code = u32::from(c);
    let letter = match code {
        0x210E => u32::from('h'),
        0x1D400..=0x1D6A3 => match (code - 0x1D400) % 52 {
            upper @ 0..26 => u32::from('A') + upper,
            lower => u32::from('a') + lower - 26,
        },
        0x1D6A8..=0x1D7C9 => match (code - 0x1D6A8) % 58 {
            upper @ 0..=24 => u32::from('Α') + upper,
            25 => u32::from('∇'),
            lower @ 26..=50 => u32::from('α') + lower - 26,
            51 => u32::from('∂'),
            variant => u32::from(['ϵ', 'ϑ', 'ϰ', 'ϕ', 'ϱ', 'ϖ'][variant as usize - 52]),
        },
        0x1D7CE..=0x1D7FF => u32::from('0') + (code - 0x1D7CE) % 10,
        _ => code,
    };
    char::from_u32(letter).unwrap_or(c)
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
    fn reads_tex_annotations_and_scripts() {
        let annotated = "<math><semantics><mi>x</mi><annotation encoding='application/x-tex'>x^2</annotation></semantics></math>";
        let katex = format!(
            "<span class=katex><span class=katex-mathml>{annotated}</span><span aria-hidden=true>x2</span></span>"
        );
        assert_eq!(first(&katex), Some(("x^2".into(), false)));
        assert_eq!(first(&format!("<span class=katex-display>{katex}</span>")), Some(("x^2".into(), true)));
        assert_eq!(
            first("<script type='math/tex; mode=display'>\\frac12</script>"),
            Some(("\\frac12".into(), true))
        );
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
    fn writes_presentation_mathml_as_tex() {
        let html = "<math display=block><mi>y</mi><mo>=</mo><mfrac><msup><mi>x</mi><mn>2</mn></msup><msqrt><mi>z</mi></msqrt></mfrac></math>";
        assert_eq!(first(html), Some(("y = \\frac{x^{2}}{\\sqrt{z}}".into(), true)));
        let row = "<mrow><mo>(</mo><mtable><mtr><mtd><mi>a</mi></mtd><mtd><mover><mi>b</mi><mo>→</mo></mover></mtd></mtr></mtable><mo>)</mo></mrow>";
        let matrix = "\\begin{pmatrix} a & \\vec{b} \\end{pmatrix}";
        assert_eq!(first(&format!("<math>{row}</math>")), Some((matrix.into(), false)));
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
    }
}
