//! The reasons for which the Markdown leaves out elements.

use std::fmt;

/// Why the Markdown leaves out an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// The element is outside the main region.
    Outside,
    /// A selector, `data-pagefind-ignore` or `data-markdown-ignore` excludes the element.
    Excluded,
    /// Browsers do not show the element and no control on the page opens it, or it is a label for screen
    /// readers that Markdown makes redundant.
    Hidden,
    /// The element repeats a sibling for a slider or for some screen widths.
    Copy,
    /// The element is navigation: `<nav>`, a list of the page's own sections below a title such as
    /// "Contents", or links beside the content of a generator that lead to the pages around.
    Navigation,
    /// The element is a link to its own place on the page.
    Permalink,
    /// The element is a button that copies something, a form control, a symbol, or a shape in a drawing.
    Control,
    /// The element is a form of the site. The Markdown describes instead how a program sends the form.
    Form,
    /// The element is in a code block but is not code: a line number, a prompt, or the name of the language.
    NotCode,
    /// The element is the title or the icon of an alert, and only repeats the kind of the alert.
    AlertTitle,
    /// The element is a tab, whose text is the label of its panel.
    Tab,
    /// The element is a formula, which Markdown shows as TeX.
    Formula,
    /// The element is the number of a footnote or of a list item, the title above the footnotes, or a link
    /// back from one. Markdown writes these itself.
    FootnoteMark,
    /// The element is shown instead of an embedded video or page that cannot be shown, and a link replaces
    /// both.
    Fallback,
    /// The element is probably not part of the article. Applies only with the option `article`.
    Article,
    /// The element is a cell beyond the maximum number of columns in a table.
    TooWide,
}

impl Rule {
    /// Whether the rule removes text that readers of the page would miss.
    pub(super) fn is_loss(self) -> bool {
        matches!(self, Self::TooWide)
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Outside => "outside the main region",
            Self::Excluded => "excluded by a selector or an attribute",
            Self::Hidden => "hidden",
            Self::Copy => "copy of a sibling",
            Self::Navigation => "navigation",
            Self::Permalink => "permalink",
            Self::Control => "form control",
            Self::Form => "form, described for programs",
            Self::NotCode => "not code",
            Self::AlertTitle => "title of an alert",
            Self::Tab => "tab, written above its panel",
            Self::Formula => "formula as TeX",
            Self::FootnoteMark => "number or footnote mark",
            Self::Fallback => "text instead of embedded content",
            Self::Article => "not part of the article",
            Self::TooWide => "column of a table that is too wide",
        })
    }
}
