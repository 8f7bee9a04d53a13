//! Converts formulas in TeX notation to MathML, which browsers show without a script or a web font.

use std::fmt::Write as _;

use math_core::{LatexToMathML, MathCoreConfig, MathDisplay};

use frontdesk_process::panics::{self, Part};

/// Maximum length of a formula in bytes.
const MAX_FORMULA_BYTES: usize = 4_000;

/// Maximum number of groups, commands and scripts that may enclose each other. The parser is recursive, and
/// deeper formulas might exhaust its stack.
const MAX_DEPTH: usize = 60;

/// The reason a formula cannot be converted.
#[derive(Debug, PartialEq, Eq)]
pub struct MathError {
    pub message: String,
    /// The number of line breaks before the fault.
    pub line: usize,
}

/// Converts a formula to a `math` element without inline styles. `is_block` selects the larger style for
/// formulas that stand alone. Fails if the formula is too long, too deep or invalid, or if the converter
/// panics.
pub fn render(formula: &str, is_block: bool) -> Result<String, MathError> {
    let fail = |message: &str, at: usize| {
        let line = formula.get(..at).unwrap_or_default().matches('\n').count();
        Err(MathError { message: message.to_owned(), line })
    };
    if formula.len() > MAX_FORMULA_BYTES {
        return fail(&format!("it is longer than {MAX_FORMULA_BYTES} bytes; divide it"), 0);
    }
    if let Some(at) = find_excess_depth(formula) {
        return fail(&format!("more than {MAX_DEPTH} groups or commands enclose each other"), at);
    }
    let display = if is_block { MathDisplay::Block } else { MathDisplay::Inline };
    // math-core 0.7 panics on some invalid formulas, such as `\begin{aligned}^&\end{aligned}`.
    let converted = panics::catch(Part::Content, || {
        panics::inject("formula", formula);
        // Cannot fail: only macros can make a configuration invalid, and the default has none.
        let latex = LatexToMathML::new(MathCoreConfig::default()).ok()?;
        let converted = latex.convert_with_local_state(formula, display).map(|it| it.mathml);
        if converted.is_ok() || !is_block || !formula.contains("\\tag") {
            return Some(converted);
        }
        // As in TeX, a formula that stands alone may have a number of its own, but the converter expects such
        // a number in an environment.
        let numbered = format!("\\begin{{equation}}{formula}\\end{{equation}}");
        let numbered = latex.convert_with_local_state(&numbered, display).map(|it| it.mathml);
        Some(numbered.ok().map_or(converted, Ok))
    });
    match converted {
        Ok(Some(Ok(mathml))) => Ok(without_styles(&mathml)),
        Ok(Some(Err(error))) => fail(error.error_message().trim_end_matches('.'), error.0.start),
        Ok(None) | Err(_) => fail("the converter does not understand it", 0),
    }
}

/// The position at which the formula's depth exceeds [`MAX_DEPTH`]; `None` if it does not. Counts the braces,
/// brackets, environments and `\left` that are open, and the commands and scripts that directly follow each
/// other, as in `\sqrt\sqrt x`.
fn find_excess_depth(formula: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let mut chain = 0_usize;
    let is_command_in = |after: &str, names: [&str; 2]| {
        let name = after.split(|c: char| !c.is_ascii_alphabetic()).next();
        name.is_some_and(|name| names.contains(&name))
    };
    // `letters` is the number of letters since the last command or script, without the command's name.
    let (mut letters, mut end, mut is_command) = (0, 0, false);
    for (at, word) in formula.match_indices(|c: char| !c.is_ascii_alphabetic()) {
        let after = &formula[at + word.len()..];
        letters += if is_command { 0 } else { at - end };
        // After `^`, one letter can be a script that has a script, as in `x^y^z`; a second letter ends the
        // chain.
        if letters > 1 {
            chain = 0;
        }
        (end, is_command) = (at + word.len(), word == "\\");
        match word {
            "{" | "[" => depth += 1,
            "}" | "]" => depth = depth.saturating_sub(1),
            "\\" if is_command_in(after, ["begin", "left"]) => depth += 1,
            "\\" if is_command_in(after, ["end", "right"]) => depth = depth.saturating_sub(1),
            "\\" | "^" | "_" | "'" => (chain, letters) = (chain + 1, 0),
            _ => {}
        }
        if !matches!(word, "\\" | "^" | "_" | "'" | "{" | "[" | " " | "\n") {
            chain = 0;
        }
        if depth + chain > MAX_DEPTH {
            return Some(at);
        }
    }
    None
}

/// Replaces inline styles, which the content security policy forbids: alignment with classes, and color with
/// the attribute `mathcolor`. Removes all other styles.
fn without_styles(mathml: &str) -> String {
    let mut html = String::with_capacity(mathml.len());
    let mut rest = mathml;
    // `style="` occurs only as an attribute, because the converter replaces or escapes each `"` in a formula.
    while let Some((before, styled)) = rest.split_once("style=\"") {
        let Some((style, after)) = styled.split_once('"') else { break };
        html.push_str(before.trim_end());
        let mut classes = Vec::new();
        for rule in style.split(';') {
            match rule.split_once(':').map(|(name, value)| (name.trim(), value.trim())) {
                Some(("text-align", "left")) => classes.push("left"),
                Some(("text-align", "right")) => classes.push("right"),
                Some(("padding-left", "0")) => classes.push("flush-left"),
                Some(("padding-right", "0")) => classes.push("flush-right"),
                Some(("color", color)) if color.bytes().all(|b| b == b'#' || b.is_ascii_alphanumeric()) => {
                    let _ = write!(html, " mathcolor=\"{color}\"");
                }
                _ => {}
            }
        }
        if !classes.is_empty() {
            let _ = write!(html, " class=\"{}\"", classes.join(" "));
        }
        rest = after;
    }
    html + rest
}

/// Whether text between two dollar signs is probably an amount of money and the text after it, as in `$5 and
/// 10$`: it begins with a digit, and has a word and none of the characters typical of formulas. A single
/// letter is a word unless it can be a variable, as in `$2 π r$`.
pub fn is_price(text: &str) -> bool {
    let is_formula = text.contains(['\\', '^', '_', '=', '{', '+', '<', '>']);
    let mut words = text.split(|c: char| !c.is_alphabetic());
    let is_word = |word: &str| word.chars().nth(1).is_some() || word.contains(|c| !is_variable(c));
    text.starts_with(|c: char| c.is_ascii_digit()) && !is_formula && words.any(is_word)
}

/// Whether a letter is ASCII, Greek without accents, `µ`, `ħ`, or in Unicode's blocks of mathematical
/// letters, such as `ℓ` and `𝑥`. Letters with accents, such as `ή`, are words.
fn is_variable(letter: char) -> bool {
    let is_accented = matches!(letter, '\u{386}'..='\u{390}' | '\u{3aa}'..='\u{3b0}' | '\u{3ca}'..='\u{3ce}');
    let is_greek = matches!(letter, '\u{370}'..='\u{3ff}') && !is_accented;
    let is_symbol = matches!(letter, 'µ' | 'ħ' | '\u{2100}'..='\u{214f}' | '\u{1d400}'..='\u{1d7ff}');
    letter.is_ascii() || is_greek || is_symbol
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn formulas_become_mathml() {
        for (formula, expected) in [
            ("x^2", "<math><msup><mi>x</mi><mn>2</mn></msup></math>"),
            ("a < b", "<mo>&lt;</mo>"),
            ("\\frac{1}{2}", "<mfrac><mn>1</mn><mn>2</mn></mfrac>"),
            ("\\begin{pmatrix} 1 & 2 \\end{pmatrix}", "<mtable"),
            ("\\text{if } x", "<mtext>if\u{a0}</mtext>"),
            ("\\begin{aligned} x &= 1 \\end{aligned}", "<mtd class=\"right flush-right\">"),
            ("\\color{red} x", "mathcolor=\"#FF0000\""),
        ] {
            let html = render(formula, false).expect("a valid formula");
            assert!(html.contains(expected), "{formula}: {html}");
            assert!(!html.contains("style=\""), "{formula}: {html}");
        }
        assert!(
            render(&"a_i b_j \\leftarrow ".repeat(MAX_DEPTH + 1), false).is_ok(),
            "these scripts do not enclose each other"
        );
        assert!(render("x", true).expect("a valid formula").starts_with("<math display=\"block\">"));
    }

    #[test]
    fn a_formula_that_stands_alone_may_have_a_number() {
        let html = render("\nE = mc^2 \\tag{1.a}\n", true).expect("a valid formula");
        assert!(html.contains("1.a") && !html.contains("style="), "{html}");
        assert!(render("E \\tag{1}", false).is_err());
        assert_eq!(render("E \\tag{1}\n\\unknown", true).map_err(|error| error.line), Err(1));
    }

    #[test]
    fn a_fault_has_its_line() {
        for (formula, message, line) in [
            ("a +\n\\unknown b", "unknown", 1),
            ("\\frac{1", "}", 0),
            ("\\begin{aligned}^&\\end{aligned}", "does not understand", 0),
            (&"x".repeat(MAX_FORMULA_BYTES + 1), "longer", 0),
            (&"{".repeat(MAX_DEPTH + 1), "enclose", 0),
            (&"\\sqrt".repeat(MAX_DEPTH + 1), "enclose", 0),
            (&"\\left(".repeat(MAX_DEPTH + 1), "enclose", 0),
            (&"x^".repeat(MAX_DEPTH + 1), "enclose", 0),
            // The third argument of each command is the next command.
            (&"\\prescript ab".repeat(MAX_FORMULA_BYTES / 13), "argument", 0),
        ] {
            let error = render(formula, false).expect_err("an invalid formula");
            assert!(error.message.contains(message), "{formula}: {}", error.message);
            assert_eq!(error.line, line, "{formula}");
        }
    }

    #[test]
    fn prices_are_no_formulas() {
        for (text, price) in [
            ("5 and 10", true),
            ("5 to 10 per month", true),
            ("2 x", false),
            ("2", false),
            ("2 π r", false),
            ("2 α", false),
            ("2 𝑥", false),
            ("2 ℓ", false),
            ("2 µ", false),
            ("2 ħ", false),
            ("2 Ω", false),
            ("2 ω", false),
            ("5 έως 10", true),
            ("5 ή 10", true),
            ("5 Ή 10", true),
            ("5 ϊ 10", true),
            ("5 и 10", true),
            ("5 à 10", true),
            ("5或10", true),
        ] {
            assert_eq!(is_price(text), price, "{text}");
        }
        assert!(render("2 π r", false).is_ok_and(|html| html.contains("<mi>π</mi>")));
        assert!(!is_price("2 \\sin x") && !is_price("x and y") && !is_price("2ab = c"));
    }

    proptest! {
        #[test]
        fn any_formula_is_converted_or_refused(
            parts in prop::collection::vec(prop::sample::select(PARTS.as_slice()), 0..60), is_block in any::<bool>(),
        ) {
            if let Ok(html) = render(&parts.concat(), is_block) {
                prop_assert!(!html.contains("style=\"") && html.starts_with("<math"), "{}", html);
            }
        }
    }

    const PARTS: [&str; 40] = [
        "x",
        "2",
        " ",
        "\n",
        "{",
        "}",
        "[",
        "]",
        "(",
        ")",
        "^",
        "_",
        "'",
        "&",
        "\\\\",
        "\\frac",
        "\\sqrt",
        "\\left",
        "\\right",
        ".",
        "\\begin{aligned}",
        "\\end{aligned}",
        "\\begin{cases}",
        "\\end{cases}",
        "\\text{é \"<\"}",
        "\\sum",
        "\\limits",
        "\\hat",
        "\\mathbb",
        "\\color{red}",
        "\\large",
        "\\hspace{1em}",
        "\\middle|",
        "%",
        "#1",
        "\\operatorname{a}",
        "\\not",
        "é",
        "\\begin{array}{l|r}",
        "\\end{array}",
    ];
}
