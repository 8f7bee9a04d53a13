//! `frontdesk stats`: page views by day, page, client and referring host.

use std::io::Write;
use std::process::ExitCode;

use jiff::civil::Date;
use serde_json::{Value, json};

use super::config_and_site_loading::SiteFolder;
use super::diagnostics::counted;
use super::inbox::command_context::Console;
use super::inbox::count_table::write_table;
use super::inbox::stats::{first_day, write_wrapped};
use frontdesk_app::page_views::{AgentClass, class_of, names_of};
use frontdesk_config::Config;
use frontdesk_desk::submission_json as json_lines;
use frontdesk_desk::time::parse_date;
use frontdesk_forms::text::visible;
use frontdesk_inbox as inbox;
use frontdesk_inbox::store::{InboxReader, StoreError, ViewFilter, ViewReport, Views};
use frontdesk_site::path;

/// Maximum number of pages and of hosts in text output, unless `--top` is given.
const MAX_SHOWN: u16 = 10;
/// Maximum number of pages and of hosts in the JSON object, unless `--top` is given.
const MAX_JSON: u16 = 1000;
/// The label of the row for pages or hosts that are not counted separately.
const OTHERS: &str = "(others)";

#[derive(Debug, clap::Args)]
pub(super) struct StatsOptions {
    #[command(flatten)]
    pub(super) folder: SiteFolder,
    /// Show the last N days, including today; counts are kept for 400 days
    #[arg(
        long,
        value_name = "N",
        default_value_t = 30,
        value_parser = clap::value_parser!(u16).range(1..=400),
    )]
    days: u16,
    /// Show views on or after this day, such as 2026-11-01; counts are kept for 400 days
    #[arg(long, value_name = "DATE", value_parser = parse_day, conflicts_with = "days")]
    since: Option<Date>,
    /// Show views of this page only, such as /developers/
    #[arg(long, value_name = "PATH")]
    page: Option<String>,
    /// Show at most N pages and N referring hosts; the default is 10, and 1000 with --json
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    top: Option<u16>,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

fn parse_day(text: &str) -> Result<Date, String> {
    parse_date(text).ok_or_else(|| "it must be a date such as 2026-11-20".to_owned())
}

/// Runs `frontdesk stats`. `--days` counts back from today in this machine's time zone.
pub(super) fn run(options: &StatsOptions, config: &Config) -> anyhow::Result<ExitCode> {
    Console::with_standard_streams(config, false, |console| execute(options, config.web.count_views, console))
}

/// Prints the page views that the options select, as text or JSON. Prints a note if none are counted: now,
/// according to `is_on`, or in the selected days.
fn execute(options: &StatsOptions, is_on: bool, console: &mut Console<'_>) -> anyhow::Result<ExitCode> {
    let first = options.since.unwrap_or_else(|| first_day(&console.now, options.days));
    let paths = options.page.as_deref().map(paths_of_page).unwrap_or_default();
    let filter = ViewFilter {
        from: first,
        until: None,
        page: None,
        ai_agents: &names_of(AgentClass::Ai),
        browsers: &names_of(AgentClass::Browser),
        most: options.top.unwrap_or(if options.json { MAX_JSON } else { MAX_SHOWN }).into(),
    };
    let (report, filter) = read_report(inbox::open(console.url)?.as_ref(), &filter, &paths)?;
    if !is_on {
        writeln!(console.err, "Page views are not being counted: `server.count_views` is false.")?;
    }
    if options.json {
        writeln!(console.out, "{}", json_lines::to_line(&to_json(&report, &filter)))?;
    } else if report.total.all == 0 {
        let of = filter.page.map(|page| format!(" of {}", visible(page))).unwrap_or_default();
        writeln!(
            console.err,
            "No views{of} have been counted since {first}. A running server stores its counts once a minute."
        )?;
    } else {
        write_text(&report, &filter, console.cut_width(), console.out)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads the counts of the page that has views under one of `paths`, or of all pages if there are none.
/// Returns them with the filter that selects the path: the first path if none has views. The counts of one
/// page have no referring hosts, which are counted for all pages together. Returns empty counts if there is
/// no inbox.
fn read_report<'a>(
    inbox: Option<&InboxReader>,
    filter: &ViewFilter<'a>,
    paths: &'a [String],
) -> Result<(ViewReport, ViewFilter<'a>), StoreError> {
    let read = |path: Option<&'a String>| -> Result<_, StoreError> {
        let filter = ViewFilter { page: path.map(String::as_str), ..filter.clone() };
        let report = inbox.map_or(Ok(ViewReport::default()), |inbox| inbox.page_views(&filter))?;
        Ok((report, filter))
    };
    let first = read(paths.first())?;
    if first.0.total.all == 0
        && let Some(path) = paths.get(1)
    {
        let second = read(Some(path))?;
        return Ok(if second.0.total.all > 0 { second } else { first });
    }
    Ok(first)
}

/// The page views since `first` as a JSON object: of all pages, with at most `most` pages and referring
/// hosts, or of one page, without referring hosts.
pub(super) fn views_object(
    inbox: Option<&InboxReader>,
    first: Date,
    page: Option<&str>,
    most: usize,
) -> Result<Value, StoreError> {
    let paths = page.map(paths_of_page).unwrap_or_default();
    let (ai_agents, browsers) = (names_of(AgentClass::Ai), names_of(AgentClass::Browser));
    let filter =
        ViewFilter { from: first, until: None, page: None, ai_agents: &ai_agents, browsers: &browsers, most };
    let (report, filter) = read_report(inbox, &filter, &paths)?;
    Ok(to_json(&report, &filter))
}

/// The paths under which views of a page may be counted, from a path as an operator writes it: that path, and
/// the one that differs from it in the slash at the end. Only the first one for the home page.
fn paths_of_page(text: &str) -> Vec<String> {
    let path = canonical_path(text);
    let other = match path.strip_suffix('/') {
        Some("") => return vec![path],
        Some(without_slash) => without_slash.to_owned(),
        None => format!("{path}/"),
    };
    vec![path, other]
}

/// The percent-encoded path of a page, from a path as an operator writes it: with or without the leading
/// slash and escapes. Returns a path that cannot be decoded with its escapes as they are.
fn canonical_path(text: &str) -> String {
    let text = if text.starts_with('/') { text.to_owned() } else { format!("/{text}") };
    match path::decode(&text) {
        Ok(decoded) => path::encode(&decoded).into_owned(),
        Err(_) => text,
    }
}

/// Formats a report as a JSON object. The name of pages or hosts that are not counted separately is `null`.
fn to_json(report: &ViewReport, filter: &ViewFilter<'_>) -> Value {
    let name = |text: &str| if text.is_empty() { Value::Null } else { text.into() };
    let object = |key: &str, name: Value, views: &Views| {
        json!({
            key: name,
            "views": views.all,
            "markdown": views.markdown,
            "ai": views.ai,
            "people": views.people,
            "markdown_or_ai": views.agents,
        })
    };
    let days = report.days.iter().map(|(day, views)| object("day", day.to_string().into(), views));
    let pages = report.pages.iter().map(|(path, views)| object("path", name(path), views));
    let agents = report.agents.iter().map(|(agent, views)| {
        let class = class_of(agent).name();
        json!({ "agent": agent, "class": class, "views": views.all, "markdown": views.markdown })
    });
    let referrers =
        report.referrers.iter().map(|(host, views)| json!({ "host": name(host), "views": views }));
    json!({
        "since": filter.from.to_string(),
        "page": filter.page,
        "views": report.total.all,
        "markdown": report.total.markdown,
        "ai": report.total.ai,
        "people": report.total.people,
        "markdown_or_ai": report.total.agents,
        "days": days.collect::<Vec<_>>(),
        "page_count": report.page_count,
        "pages": pages.collect::<Vec<_>>(),
        "agents": agents.collect::<Vec<_>>(),
        "referred": report.referred,
        "referrer_count": report.referrer_count,
        "referrers": referrers.collect::<Vec<_>>(),
    })
}

/// Writes the totals and tables of days, pages, clients and hosts; for a single page, without the tables of
/// pages and of hosts: `report` then has no hosts ([`read_report`]).
fn write_text(
    report: &ViewReport,
    filter: &ViewFilter<'_>,
    width: usize,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let total = report.total;
    let of = filter.page.map(|page| format!(" of {}", visible(page))).unwrap_or_default();
    let head = [
        format!("Since {}:", filter.from),
        format!("{}{of},", counted(total.all, "view")),
        format!("{} as Markdown,", share(total.markdown, total.all)),
        format!("{} by AI agents", share(total.ai, total.all)),
    ];
    write_wrapped("", &head, width, out)?;
    let numbers = |views: &Views| {
        vec![views.all.to_string(), share(views.markdown, views.all), share(views.ai, views.all)]
    };
    let name = |text: &str| if text.is_empty() { OTHERS.to_owned() } else { visible(text) };
    let rest = |count: usize, shown: usize| {
        (count > shown).then(|| (format!("and {} more", count - shown), Vec::new()))
    };

    let days = report.days.iter().map(|(day, views)| (day.to_string(), numbers(views)));
    write_table(["DAY", "VIEWS", "MARKDOWN", "AI AGENTS"], days.collect(), width, out)?;

    if filter.page.is_none() {
        let pages = report.pages.iter().map(|(path, views)| (name(path), numbers(views)));
        let pages = pages.chain(rest(report.page_count, report.pages.len()));
        write_table(["PAGE", "VIEWS", "MARKDOWN", "AI AGENTS"], pages.collect(), width, out)?;
    }

    let agents = report.agents.iter().map(|(agent, views)| {
        let class = match class_of(agent) {
            AgentClass::Ai => " (AI)",
            AgentClass::Search => " (search)",
            _ => "",
        };
        let shares = [share(views.all, total.all), share(views.markdown, views.all)];
        (format!("{}{class}", visible(agent)), [vec![views.all.to_string()], shares.into()].concat())
    });
    write_table(["CLIENT", "VIEWS", "SHARE", "MARKDOWN"], agents.collect(), width, out)?;

    let hosts = report
        .referrers
        .iter()
        .map(|(host, views)| (name(host), vec![views.to_string(), share(*views, total.all)]));
    let hosts = hosts.chain(rest(report.referrer_count, report.referrers.len()));
    write_table(["REFERRING HOST", "VIEWS", "SHARE"], hosts.collect(), width, out)
}

/// Formats a share in percent: `12 %`, or `<1 %` for a share that would be rounded to zero.
fn share(part: usize, whole: usize) -> String {
    match (part * 200 / whole.max(1)).div_ceil(2) {
        0 if part > 0 => "<1 %".to_owned(),
        percent => format!("{percent} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::text_width::columns;
    use frontdesk_inbox::store::{ViewCount, ViewCounts};
    use frontdesk_inbox::testing::inbox::{Options, TestInbox};

    #[test]
    fn the_text_has_days_pages_clients_and_hosts() {
        assert_eq!(
            render(&sample(), None, 80),
            "Since 2026-11-01: 1203 views, 17 % as Markdown, 17 % by AI agents\n\
             \n\
             DAY            VIEWS  MARKDOWN  AI AGENTS\n\
             2026-11-19      1000       0 %        0 %\n\
             2026-11-20       203     100 %      100 %\n\
             \n\
             PAGE             VIEWS  MARKDOWN  AI AGENTS\n\
             /                 1000       0 %        0 %\n\
             /developers/       200     100 %      100 %\n\
             (others)             3       0 %        0 %\n\
             and 4 more\n\
             \n\
             CLIENT                 VIEWS     SHARE  MARKDOWN\n\
             browser                 1000      83 %       0 %\n\
             GPTBot (AI)              200      17 %     100 %\n\
             Googlebot (search)         3      <1 %       0 %\n\
             \n\
             REFERRING HOST       VIEWS     SHARE\n\
             news.example.net        40       3 %\n\
             (others)                 2      <1 %\n"
        );
        let page = render(&ViewReport { pages: Vec::new(), ..sample() }, Some("/developers/"), 80);
        assert!(page.starts_with("Since 2026-11-01: 1203 views of /developers/,"), "{page}");
        assert!(!page.contains("PAGE"), "{page}");
    }

    #[test]
    fn lines_fit_the_terminal_without_control_characters() {
        let mut report = sample();
        report.referrers[0].0 = format!("{}\u{1b}.example.net", "a".repeat(240));
        report.pages[0].0 = "/%C3%A9".repeat(40);
        for width in [60, 80, 120] {
            let text = render(&report, None, width);
            let widest = text.lines().map(columns).max().unwrap();
            assert!(widest <= width && !text.contains('\u{1b}'), "{widest} > {width}\n{text}");
        }
    }

    #[test]
    fn the_json_is_one_object() {
        let object = to_json(&sample(), &filter(None));
        assert_eq!(
            (&object["since"], &object["views"], &object["ai"]),
            (&json!("2026-11-01"), &json!(1203), &json!(203))
        );
        assert_eq!(
            object["pages"][0],
            json!({ "path": "/", "views": 1000, "markdown": 0, "ai": 0, "people": 1000, "markdown_or_ai": 0 })
        );
        assert_eq!(
            object["pages"][2],
            json!({ "path": null, "views": 3, "markdown": 0, "ai": 0, "people": 0, "markdown_or_ai": 0 })
        );
        assert_eq!(
            object["agents"][1],
            json!({ "agent": "GPTBot", "class": "ai", "views": 200, "markdown": 200 })
        );
        assert_eq!(object["referrers"][0], json!({ "host": "news.example.net", "views": 40 }));
        assert_eq!((&object["page_count"], &object["referrer_count"]), (&json!(7), &json!(2)));
    }

    #[test]
    fn a_share_is_rounded_to_percent() {
        for (part, whole, expected) in [
            (0, 0, "0 %"),
            (0, 9, "0 %"),
            (1, 1000, "<1 %"),
            (5, 1000, "1 %"),
            (1, 3, "33 %"),
            (2, 3, "67 %"),
            (3, 3, "100 %"),
        ] {
            assert_eq!(share(part, whole), expected, "{part} of {whole}");
        }
    }

    #[test]
    fn a_page_is_named_by_its_path_with_or_without_escapes() {
        for (typed, path) in [
            ("/developers/", "/developers/"),
            ("developers/", "/developers/"),
            ("/größe/", "/gr%C3%B6%C3%9Fe/"),
            ("/gr%C3%B6%C3%9Fe/", "/gr%C3%B6%C3%9Fe/"),
            ("/a/../b", "/a/../b"),
        ] {
            assert_eq!(canonical_path(typed), path, "{typed}");
        }
        assert_eq!(paths_of_page("developers"), ["/developers", "/developers/"]);
        assert_eq!(paths_of_page("/developers/"), ["/developers/", "/developers"]);
        assert_eq!((paths_of_page("/"), paths_of_page("")), (vec!["/".to_owned()], vec!["/".to_owned()]));
        assert_eq!(parse_day("2026-11-20").map(|day| day.to_string()), Ok("2026-11-20".to_owned()));
        for text in ["", "yesterday", "2026-13-01", "2026-11-20T14:00:00Z"] {
            assert!(parse_day(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_page_is_found_with_or_without_the_slash_at_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options::new(folder.path().join("inbox.db"));
        let store = TestInbox::open(&options).unwrap();
        let views = [("/developers/", 3), ("/guide.pdf", 2), ("/about", 1), ("/both", 4), ("/both/", 5)];
        let count = |(path, count): (&str, u64)| ViewCount {
            path: path.into(),
            representation: "html",
            agent: "browser",
            count,
        };
        let mut counts = ViewCounts { pages: views.map(count).into(), referrers: Vec::new() };
        let day = "2026-11-20".parse().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(store.record_views(&mut counts, day)).unwrap();
        store.close();
        let reader = InboxReader::open(options.url).unwrap();
        for (typed, path, count) in [
            ("/developers/", "/developers/", 3),
            ("developers", "/developers/", 3),
            ("/guide.pdf", "/guide.pdf", 2),
            ("/about/", "/about", 1),
            ("/both", "/both", 4),
            ("/both/", "/both/", 5),
            ("/nowhere", "/nowhere", 0),
            ("/", "/", 0),
        ] {
            let found = views_object(Some(&reader), day, Some(typed), 10).unwrap();
            assert_eq!((&found["page"], &found["views"]), (&json!(path), &json!(count)), "{typed}");
        }
    }

    fn filter(page: Option<&'static str>) -> ViewFilter<'static> {
        ViewFilter {
            from: "2026-11-01".parse().unwrap(),
            until: None,
            page,
            ai_agents: &["GPTBot"],
            browsers: &["browser"],
            most: 10,
        }
    }

    fn sample() -> ViewReport {
        let views = |all, markdown, ai| Views { all, markdown, ai, ..Views::default() };
        let people = |all| Views { all, people: all, ..Views::default() };
        let days = [("2026-11-19", people(1000)), ("2026-11-20", views(203, 203, 203))];
        let pages = [("/", people(1000)), ("/developers/", views(200, 200, 200)), ("", views(3, 0, 0))];
        let agents =
            [("browser", people(1000)), ("GPTBot", views(200, 200, 200)), ("Googlebot", views(3, 0, 0))];
        let named = |rows: [(&str, Views); 3]| rows.map(|(name, views)| (name.to_owned(), views)).into();
        ViewReport {
            total: views(1203, 203, 203),
            days: days.map(|(day, views)| (day.parse().unwrap(), views)).into(),
            page_count: 7,
            pages: named(pages),
            agents: named(agents),
            referred: 42,
            referrer_count: 2,
            referrers: vec![("news.example.net".to_owned(), 40), (String::new(), 2)],
        }
    }

    fn render(report: &ViewReport, page: Option<&'static str>, width: usize) -> String {
        let mut out = Vec::new();
        write_text(report, &filter(page), width, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }
}
