//! Writes MathML, and the elements that MathJax 3 replaces it with, as TeX.

use super::dom::{Dom, NodeId, collapse};

/// Writes presentation MathML, or the elements that MathJax 3 replaces it with, as TeX. Leaves out
/// annotations, spaces and phantoms; of `<semantics>`, writes only the first part, and of `<maction>` only
/// the selected one. An unknown element is a row of its children, or its text. The recursion is bounded,
/// because the parser limits the depth of the tree.
pub(super) fn mathml_to_tex(dom: &Dom, id: NodeId) -> String {
    let name = dom.name(id);
    let (name, parts) = match name.strip_prefix("mjx-") {
        Some(name) => (name, mathjax_operands(dom, id, name)),
        None => (name, dom.child_elements(id).collect()),
    };
    let part = |i: usize| parts.get(i).map(|&p| mathml_to_tex(dom, p)).unwrap_or_default();
    let all = |parts: &[NodeId]| parts.iter().map(|&p| mathml_to_tex(dom, p)).collect::<Vec<_>>();
    let row = || join_row(&all(&parts));
    let leaf = || leaf_text(dom, id);
    match name {
        "mi" | "mn" | "mo" | "mtext" | "ms" => token(dom, id, name),
        "msup" => add_scripts(&part(0), "", &part(1)),
        "msub" => add_scripts(&part(0), &part(1), ""),
        "munder" | "mover" => with_accent(name == "mover", &part(0), &part(1)),
        "msubsup" | "munderover" => add_scripts(&part(0), &part(1), &part(2)),
        "mmultiscripts" => multiscripts(dom, &parts),
        "mfenced" => fenced(dom, id, all(&parts)),
        // A fraction without a line is a binomial coefficient or a stack.
        "mfrac" if dom.attribute(id, "linethickness").is_some_and(is_zero) => {
            format!("{STACK}{{{}}}{{{}}}", part(0), part(1))
        }
        "mfrac" => format!("\\frac{{{}}}{{{}}}", part(0), part(1)),
        "msqrt" => format!("\\sqrt{{{}}}", row()),
        "mroot" => format!("\\sqrt[{}]{{{}}}", part(1), part(0)),
        "mtable" => format!("{MATRIX_START} {} {MATRIX_END}", all(&parts).join(" \\\\ ")),
        "mtr" => all(&parts).join(" & "),
        "mlabeledtr" => match &*all(&parts) {
            [label, cells @ ..] => format!("{} \\qquad {label}", cells.join(" & ")),
            [] => String::new(),
        },
        "maction" => {
            let selected =
                dom.attribute(id, "selection").and_then(|n| n.trim().parse().ok()).unwrap_or(1_usize);
            part(selected.saturating_sub(1).min(parts.len().saturating_sub(1)))
        }
        "menclose" if dom.attribute(id, "notation") == Some("top") => format!("\\overline{{{}}}", row()),
        "menclose" if dom.attribute(id, "notation") == Some("radical") => format!("\\sqrt{{{}}}", row()),
        "annotation" | "annotation-xml" | "mspace" | "mphantom" | "nstrut" | "dstrut" | "line" => {
            String::new()
        }
        "semantics" => part(0),
        _ if parts.is_empty() => escape(&leaf()),
        _ => row(),
    }
}

/// Writes an element without operands: `<mi>`, `<mn>`, `<mo>`, `<mtext>` or `<ms>`. Empty for invisible
/// operators. A text in `<mtext>` or `<ms>`, and several ASCII characters in `<mi>`, become `\text{…}`, and a
/// text of one no-break space becomes `~`. A known symbol, and a name such as `lim` in `<mo>`, becomes a
/// command; `mathvariant` adds one for a font, except in texts. Signs such as `=` get spaces around them.
fn token(dom: &Dom, id: NodeId, name: &str) -> String {
    let text = leaf_text(dom, id);
    match (name, &*text) {
        ("mo", "\u{2061}" | "\u{2062}" | "\u{2063}") => String::new(),
        ("mo", "−") => " - ".to_owned(),
        ("mo", "=" | "+" | "-" | "<" | ">") => format!(" {text} "),
        ("mo", "lim" | "max" | "min" | "sup" | "inf" | "det" | "gcd") => format!("\\{text}"),
        ("mtext" | "ms", _) => {
            // Keep no-break spaces at the ends of a text, because MathML shows them.
            let own = dom.text_content(id).trim_ascii().replace('\u{a0}', " ");
            if own == " " { "~".to_owned() } else { text_group(if own.is_empty() { &text } else { &own }) }
        }
        _ => {
            let tex = match tex_symbol(&text) {
                Some(tex) => tex.to_owned(),
                None if name == "mi" && text.chars().count() > 1 && text.is_ascii() => text_group(&text),
                None => escape(&text),
            };
            match dom.attribute(id, "mathvariant").and_then(variant_command) {
                Some(command) if !tex.is_empty() => format!("\\{command}{{{tex}}}"),
                _ => tex,
            }
        }
    }
}

/// Writes an operand with another one over or under it: as an accent if that has a command here, otherwise as
/// a script.
fn with_accent(is_over: bool, base: &str, other: &str) -> String {
    let command = match (is_over, other.trim()) {
        (true, "¯" | "‾" | "\\_") => "overline",
        (true, "\\sim" | "˜") => "tilde",
        (true, "˙") => "dot",
        (true, "¨") => "ddot",
        (true, "ˇ") => "check",
        (true, "⏞") => "overbrace",
        (true, "\\hat{}" | "ˆ") => "hat",
        (true, "\\to") => "vec",
        (false, "\\_" | "¯" | "\u{332}") => "underline",
        (false, "⏟") => "underbrace",
        (true, over) => return add_scripts(base, "", over),
        (false, under) => return add_scripts(base, under, ""),
    };
    format!("\\{command}{{{base}}}")
}

const MATRIX_START: &str = "\\begin{matrix}";
const MATRIX_END: &str = "\\end{matrix}";

/// The TeX command for a fraction without a line. Its two operands follow.
const STACK: &str = "\\genfrac{}{}{0pt}{}";

/// Joins the parts of a row and collapses white space. A matrix or a fraction without a line becomes one TeX
/// command together with the brackets around it, if [`enclose`] knows them.
fn join_row(parts: &[String]) -> String {
    let mut out = String::new();
    let mut rest = parts;
    while let [first, after @ ..] = rest {
        rest = after;
        if let [body, after @ ..] = after {
            let close = after.first().map_or("", |close| close.trim());
            if let Some(tex) = enclose(first.trim(), body.trim(), close) {
                push_tex(&mut out, &tex);
                rest = after.get(1..).unwrap_or_default();
                continue;
            }
        }
        push_tex(&mut out, first);
    }
    collapse(&out)
}

/// The TeX of a matrix or a fraction without a line, with the brackets around it; `None` for other operands
/// and brackets, and for a matrix that contains another one.
fn enclose(open: &str, body: &str, close: &str) -> Option<String> {
    if let Some(operands) = body.strip_prefix(STACK) {
        let is_binomial = open == "(" && close == ")" && is_pair_of_groups(operands);
        return is_binomial.then(|| format!("\\binom{operands}"));
    }
    let cells = body.strip_prefix(MATRIX_START)?.strip_suffix(MATRIX_END)?;
    let name = match (open, close) {
        ("(", ")") => "pmatrix",
        ("[", "]") => "bmatrix",
        ("|", "|") => "vmatrix",
        ("\\{", "") => "cases",
        _ => return None,
    };
    (!cells.contains("matrix}")).then(|| format!("\\begin{{{name}}}{cells}\\end{{{name}}}"))
}

/// Appends TeX. Adds a space if a command at the end of `out` would swallow the letter that follows.
fn push_tex(out: &mut String, tex: &str) {
    /// No command that [`tex_symbol`] or [`mathml_to_tex`] writes has more bytes than this.
    const MAX_COMMAND: usize = 16;
    let mut before = out.bytes().rev().take(MAX_COMMAND).skip_while(u8::is_ascii_alphabetic);
    let has_letter = out.ends_with(|c: char| c.is_ascii_alphabetic());
    if has_letter && before.next() == Some(b'\\') && tex.starts_with(|c: char| c.is_ascii_alphabetic()) {
        out.push(' ');
    }
    out.push_str(tex);
}

/// Adds a subscript and a superscript, if they are not empty. Puts braces around a base that is empty or has
/// such a script already, because TeX accepts only one of each.
fn add_scripts(base: &str, sub: &str, sup: &str) -> String {
    let base = base.trim();
    let is_taken = |mark, script: &str| !script.is_empty() && has_script(base, mark);
    let mut tex = if base.is_empty() || is_taken('_', sub) || is_taken('^', sup) {
        format!("{{{base}}}")
    } else {
        base.to_owned()
    };
    for (mark, script) in [('_', sub.trim()), ('^', sup.trim())] {
        if !script.is_empty() {
            tex.push(mark);
            tex.extend(["{", script, "}"]);
        }
    }
    tex
}

/// The characters of TeX outside of groups, including the braces that delimit the outermost groups.
fn outer_characters(tex: &str) -> impl Iterator<Item = char> {
    let (mut depth, mut is_escaped) = (0_usize, false);
    tex.chars().filter(move |&c| {
        let is_brace = !is_escaped;
        is_escaped = is_brace && c == '\\';
        match c {
            '{' if is_brace => depth += 1,
            '}' if is_brace => depth = depth.saturating_sub(1),
            _ => return depth == 0,
        }
        depth == usize::from(c == '{')
    })
}

/// Whether TeX contains a script mark that is neither in a group nor escaped.
fn has_script(tex: &str, mark: char) -> bool {
    let mut previous = None;
    outer_characters(tex).any(|c| previous.replace(c) != Some('\\') && c == mark)
}

/// Whether TeX consists of one group and nothing else.
pub(super) fn is_group(tex: &str) -> bool {
    outer_characters(tex).eq("{}".chars())
}

/// Whether TeX consists of two groups and nothing else.
fn is_pair_of_groups(tex: &str) -> bool {
    outer_characters(tex).eq("{}{}".chars())
}

/// Writes an `<mmultiscripts>` element: the base, then pairs of scripts after it and, behind
/// `<mprescripts>`, pairs of scripts before it.
fn multiscripts(dom: &Dom, parts: &[NodeId]) -> String {
    let Some((&base, scripts)) = parts.split_first() else { return String::new() };
    let is_divider = |&id: &NodeId| matches!(dom.name(id), "mprescripts" | "mjx-mprescripts");
    let mut sides = scripts.split(is_divider);
    let (after, before) = (sides.next().unwrap_or_default(), sides.next().unwrap_or_default());
    let script =
        |pair: &[NodeId], i: usize| pair.get(i).map(|&id| mathml_to_tex(dom, id)).unwrap_or_default();
    let add = |base: &str, pair: &[NodeId]| add_scripts(base, &script(pair, 0), &script(pair, 1));
    let mut tex: String = before.chunks(2).map(|pair| add("", pair)).collect();
    let mut after = after.chunks(2);
    tex.push_str(&add(&mathml_to_tex(dom, base), after.next().unwrap_or_default()));
    tex.extend(after.map(|pair| add("", pair)));
    tex
}

/// Writes an `<mfenced>` element, which puts brackets around its parts and separators between them: by
/// default, parentheses and commas.
fn fenced(dom: &Dom, id: NodeId, parts: Vec<String>) -> String {
    let fence = |name, default| escape(dom.attribute(id, name).unwrap_or(default).trim());
    let separators = dom.attribute(id, "separators").unwrap_or(",").split_whitespace().collect::<String>();
    // If there are too few separators, the last one repeats.
    let last = separators.chars().next_back();
    let mut separators = separators.chars();
    let mut row = vec![fence("open", "(")];
    for (at, part) in parts.into_iter().enumerate() {
        if at > 0 {
            row.extend(separators.next().or(last).map(|c| escape(c.encode_utf8(&mut [0; 4]))));
        }
        row.push(part);
    }
    row.push(fence("close", ")"));
    join_row(&row)
}

/// Whether a length is zero, with or without a unit.
fn is_zero(length: &str) -> bool {
    let number = length.trim().trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == '%');
    number.parse() == Ok(0.0_f32)
}

/// The TeX command for the `mathvariant` `bold`, `double-struck`, `script` or `fraktur`.
fn variant_command(variant: &str) -> Option<&'static str> {
    Some(match variant {
        "bold" => "mathbf",
        "double-struck" => "mathbb",
        "script" => "mathcal",
        "fraktur" => "mathfrak",
        _ => return None,
    })
}

/// Escapes the characters of a formula that are TeX syntax. `~` becomes `\sim`, and `^` becomes `\hat{}`.
fn escape(text: &str) -> String {
    escape_with(text, |c| match c {
        '\\' => Some("\\backslash "),
        '~' => Some("\\sim "),
        '^' => Some("\\hat{}"),
        _ => None,
    })
}

/// The TeX for plain text in a formula: `\text{…}` with the escaped text.
fn text_group(text: &str) -> String {
    let text = escape_with(text, |c| match c {
        '\\' => Some("\\textbackslash{}"),
        '~' => Some("\\textasciitilde{}"),
        '^' => Some("\\textasciicircum{}"),
        _ => None,
    });
    format!("\\text{{{text}}}")
}

/// Replaces the characters for which `command` returns a TeX command, and puts a backslash before those that
/// are syntax both in formulas and in text.
fn escape_with(text: &str, command: impl Fn(char) -> Option<&'static str>) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if let Some(command) = command(c) {
            out.push_str(command);
            continue;
        }
        if matches!(c, '{' | '}' | '%' | '#' | '&' | '_' | '$') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// The TeX command for a Greek letter or an operator that MathML writes as a character, with spaces around
/// binary operators and relations. `None` for all texts that are not in the list.
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

/// The operands of a MathJax element in MathML order. MathJax wraps them in boxes, and orders some by their
/// position on the screen.
fn mathjax_operands(dom: &Dom, id: NodeId, name: &str) -> Vec<NodeId> {
    // In `<mjx-munderover>`, an `<mjx-box>` contains two operands, so it is not an operand itself.
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
        "mtable" => dom.outermost(id, |d| matches!(dom.name(d), "mjx-mtr" | "mjx-mlabeledtr")),
        "mi" | "mn" | "mo" | "mtext" | "ms" => Vec::new(),
        _ => dom.child_elements(id).collect(),
    }
}

/// The text of an element without operands. MathJax writes characters as classes such as `mjx-c1D467`, and
/// italic letters as mathematical alphanumeric symbols.
fn leaf_text(dom: &Dom, id: NodeId) -> String {
    let mut text = String::new();
    let is_character = |d| matches!(dom.name(d), "mjx-c" | "mjx-stretchy-v" | "mjx-stretchy-h");
    for c in dom.descendants(id).filter(|&d| is_character(d) && dom.is_blank(d)) {
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
            // Position 17 is the theta symbol. The Greek block has no character at this position (U+03A2).
            17 => u32::from('ϴ'),
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
    use super::*;

    #[test]
    fn styled_letters_become_plain_ones() {
        for (styled, expected) in [
            ("\u{210e}\u{1d400}\u{1d433}\u{1d44e}\u{1d6a3}", "hAzaz"),
            ("\u{1d6a8}\u{1d6b8}\u{1d6b9}\u{1d6ba}\u{1d6c0}\u{1d6c1}", "ΑΡϴΣΩ∇"),
            ("\u{1d6f3}\u{1d72d}\u{1d767}\u{1d7a1}", "ϴϴϴϴ"),
            ("\u{1d6c2}\u{1d6d3}\u{1d6d4}\u{1d6da}\u{1d6db}\u{1d6dc}\u{1d6e1}", "αςσω∂ϵϖ"),
            ("\u{1d7ce}\u{1d7ff}aΘ", "09aΘ"),
        ] {
            assert_eq!(styled.chars().map(plain_letter).collect::<String>(), expected);
        }
    }
}
