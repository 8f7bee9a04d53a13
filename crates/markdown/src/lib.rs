//! The syntax of a site's own pages beyond CommonMark, and the syntax that is not supported.

pub mod cjk_emphasis;
pub mod comments;
pub mod dollar_disambiguation;
pub mod foreign_syntax;
pub mod heading_html;
pub mod quotation_marks;
pub mod raw_html_checks;
pub mod source_text;
pub mod word_count;

use comrak::options::Options;

/// The options for the syntax of a site's own pages: CommonMark with GitHub's extensions, formulas, and
/// typographic quotation marks, dashes and ellipses in place of ASCII ones. Keeps raw HTML.
pub fn parser_options() -> Options<'static> {
    let mut options = Options::default();
    options.extension.strikethrough = true;
    options.extension.table = true;
    options.extension.autolink = true;
    options.extension.tasklist = true;
    options.extension.footnotes = true;
    options.extension.alerts = true;
    options.extension.math_dollars = true;
    options.extension.math_code = true;
    options.parse.smart = true;
    options.render.r#unsafe = true;
    options
}
