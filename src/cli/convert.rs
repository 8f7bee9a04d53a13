//! `frontdesk convert`: prints the Markdown of one HTML page.

use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, anyhow};
use clap::Args;
use frontdesk_convert::{Converted, Options, Selector, Url, convert, decode_html, parse_url};

use super::diagnostics::{WARNING, with_hint};

#[derive(Debug, Args)]
pub(super) struct ConvertOptions {
    /// File with the HTML, or `-` for standard input
    #[arg(default_value = "-")]
    file: PathBuf,
    /// Address of the page, to make its links absolute
    #[arg(long, value_name = "URL", value_parser = parse_url)]
    url: Option<Url>,
    /// Selector of the main content, as for `convert.main`; default: detect the content
    #[arg(long, value_name = "CSS", value_parser = Selector::parse)]
    selector: Option<Selector>,
    /// Selector of elements to leave out, as for `convert.exclude`
    #[arg(long, value_name = "CSS", value_parser = Selector::parse)]
    exclude: Option<Selector>,
    /// Extract the main content of a page of another site: also leave out comments, lists of links and other
    /// parts that are probably not content
    #[arg(long)]
    article: bool,
    /// Instead of the Markdown, list each element that it leaves out, with the rule and the start of the text
    #[arg(long)]
    explain: bool,
}

/// Prints the page's Markdown, or with `--explain` a list of what it leaves out. Warns if the page exceeds a
/// limit. Fails if `--selector` matches no element.
pub(super) fn run(options: ConvertOptions) -> anyhow::Result<ExitCode> {
    let mut bytes = Vec::new();
    let is_stdin = options.file == Path::new("-");
    let read = if is_stdin {
        io::stdin().lock().read_to_end(&mut bytes).map(drop)
    } else {
        std::fs::read(&options.file).map(|read| bytes = read)
    };
    let source = if is_stdin { "standard input".into() } else { options.file.display().to_string() };
    read.with_context(|| format!("cannot read {source}"))?;
    let has_selector = options.selector.is_some();
    let ConvertOptions { url, selector: main, exclude, article, explain, .. } = options;
    let options = Options { url, main, exclude, article, explain, ..Options::default() };
    let converted = convert(&decode_html(&bytes).0, &options);
    if has_selector && !converted.is_selected {
        return Err(with_hint(
            anyhow!("`--selector` matches nothing in {source}"),
            "use another selector, or omit `--selector` to detect the main content",
        ));
    }
    let text = if explain { explain_omissions(&converted, article) } else { converted.document() };
    io::stdout().lock().write_all(text.as_bytes())?;
    if converted.is_truncated {
        writeln!(
            anstream::stderr(),
            "{WARNING}warning:{WARNING:#} the page is too large or too deeply nested, so part of it is missing from the output"
        )?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Describes each element that is left out on one line: the rule, the number of letters and digits, the tag,
/// and the start of the text. Unless `is_article`, another line says how much other text is missing.
fn explain_omissions(converted: &Converted, is_article: bool) -> String {
    let mut text = String::new();
    for omission in &converted.omissions {
        let (rule, tag) = (omission.rule.to_string(), &omission.tag);
        text += &format!("{rule:<28} {:>7}  {tag} {:?}\n", omission.letters, omission.text);
    }
    if is_article {
        return text;
    }
    let loss = &converted.loss;
    text += &match (loss.letters, loss.rule) {
        (0, _) => format!("All other text is in the Markdown: {} letters and digits.\n", loss.of),
        (letters, rule) => format!(
            "{letters} of {} letters and digits of the other text are missing from the Markdown. The first missing text is {:?} in <{}>{}.\n",
            loss.of,
            loss.first,
            loss.element,
            rule.map_or_else(String::new, |rule| format!(", {rule}")),
        ),
    };
    text
}
