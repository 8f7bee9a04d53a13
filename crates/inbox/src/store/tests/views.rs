//! Counts of page views: they add up, their rows are limited, and old ones are removed.

use jiff::ToSpan as _;
use jiff::civil::Date;

use super::*;

const DAY_0: i32 = 20_777;

#[test]
fn views_add_up_by_day_page_representation_and_client() {
    let fixture = Fixture::new();
    fixture.record_views(
        DAY_0,
        &[("/", "html", "browser", 3), ("/", "markdown", "GPTBot", 2)],
        &[("b.example", 1)],
    );
    fixture.record_views(
        DAY_0,
        &[("/", "html", "browser", 4), ("/é/", "html", "browser", 1), ("/", "html", "GPTBot", 1)],
        &[("a.example", 1), ("b.example", 1)],
    );
    fixture.record_views(DAY_0 + 1, &[("/", "html", "curl", 5)], &[("b.example", 7), ("", 2)]);
    let report = fixture.report(DAY_0, None, 10);
    let views = |all, markdown, ai| Views { all, markdown, ai, ..Views::default() };
    assert_eq!(report.total, Views { all: 16, markdown: 2, ai: 3, people: 8, agents: 3 });
    let report = without_audience(report);
    let days: Vec<_> = report.days.iter().map(|(day, views)| (day.to_string(), *views)).collect();
    assert_eq!(days, [("2026-11-20".to_owned(), views(11, 2, 3)), ("2026-11-21".to_owned(), views(5, 0, 0))]);
    let named =
        |rows: &[(&str, Views)]| rows.iter().map(|(name, of)| ((*name).to_owned(), *of)).collect::<Vec<_>>();
    assert_eq!(report.pages, named(&[("/", views(15, 2, 3)), ("/é/", views(1, 0, 0))]));
    assert_eq!(
        report.agents,
        named(&[("browser", views(8, 0, 0)), ("curl", views(5, 0, 0)), ("GPTBot", views(3, 2, 3))])
    );
    let hosts = [("b.example", 9), ("", 2), ("a.example", 1)].map(|(host, count)| (host.to_owned(), count));
    assert_eq!((report.referrers, report.referred, report.referrer_count), (hosts.to_vec(), 12, 3));

    let later = without_audience(fixture.report(DAY_0 + 1, None, 10));
    assert_eq!((later.total, later.page_count), (views(5, 0, 0), 1));
    let few = fixture.report(DAY_0, None, 1);
    assert_eq!((few.pages.len(), few.page_count, few.referrers.len(), few.referrer_count), (1, 2, 1, 3));
    let one = without_audience(fixture.report(DAY_0, Some("/é/"), 10));
    assert_eq!((one.total, one.days.len(), one.referrers.len()), (views(1, 0, 0), 1, 0));
    assert_eq!(fixture.report(DAY_0 + 2, None, 10), ViewReport::default());
}

#[test]
fn people_and_agents_are_told_apart_within_a_period() {
    let fixture = Fixture::new();
    let kinds = [
        ("/", "html", "browser", 1),
        ("/", "markdown", "browser", 10),
        ("/", "html", "GPTBot", 100),
        ("/", "html", "Googlebot", 1000),
        ("/", "markdown", "unknown", 10_000),
    ];
    for day in [DAY_0, DAY_0 + 1, DAY_0 + 2] {
        fixture.record_views(day, &kinds, &[("a.example", 1)]);
    }
    let filter = ViewFilter { until: Some(date(DAY_0 + 2)), ..view_filter(DAY_0) };
    let total = Views { all: 22_222, markdown: 20_020, ai: 200, people: 2, agents: 20_220 };
    let report = fixture.reader().page_views(&filter).unwrap();
    assert_eq!((report.total, report.days.len(), report.referred), (total, 2, 2));
    assert_eq!(fixture.reader().view_days(&view_filter(DAY_0 + 3)).unwrap(), []);
    // Each day has five rows.
    let first = |most| fixture.reader().first_view_day(date(DAY_0), most).unwrap();
    assert_eq!([15, 14, 10, 9].map(first), [0, 1, 1, 2].map(|days| date(DAY_0 + days)));
}

#[test]
fn a_day_has_a_limited_number_of_rows_of_views_and_loses_none() {
    let fixture = Fixture::new();
    // All rows except for 100, written at once because that is faster.
    fixture.sql(&format!(
        "INSERT INTO page_view (day, path, representation, agent, views)
         WITH RECURSIVE number (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM number WHERE n < {})
         SELECT {DAY_0}, '/' || n || '/', 'html', 'browser', 1 FROM number",
        MAX_VIEW_ROWS - 101
    ));
    let names: Vec<String> = (MAX_VIEW_ROWS - 200..MAX_VIEW_ROWS + 300).map(|n| format!("/{n}/")).collect();
    let pages: Vec<_> = names.iter().map(|name| (name.as_str(), "html", "browser", 1)).collect();
    let hosts: Vec<String> = (0..MAX_REFERRERS + 50).map(|n| format!("h{n}.example")).collect();
    let hosts: Vec<_> = hosts.iter().map(|host| (host.as_str(), 1)).collect();
    fixture.record_views(DAY_0, &pages, &hosts);
    fixture.record_views(DAY_0, &[], &hosts);
    assert_eq!(fixture.count("page_view"), i64::try_from(MAX_VIEW_ROWS).unwrap() + 1);
    assert_eq!(fixture.count("referrer"), i64::try_from(MAX_REFERRERS).unwrap() + 1);
    let report = fixture.report(DAY_0, None, 1);
    assert_eq!((report.total.all, report.referred), (MAX_VIEW_ROWS - 100 + pages.len(), 2 * hosts.len()));
    assert_eq!((report.pages[0].0.as_str(), report.pages[0].1.all), ("", 300), "the shared row");
    // Rows that exist still count, and another day has its own limit.
    fixture.record_views(DAY_0, &[("/0/", "html", "browser", 1000), ("/new/", "html", "browser", 1)], &[]);
    assert_eq!(fixture.report(DAY_0, None, 1).pages[0].0, "/0/");
    fixture.record_views(DAY_0 + 1, &[("/new/", "html", "browser", 1)], &[]);
    assert_eq!(fixture.report(DAY_0 + 1, None, 1).pages[0].0, "/new/");
}

#[test]
fn a_path_that_is_too_long_for_an_index_shares_a_row() {
    let fixture = Fixture::new();
    let long = format!("/{}/", "a".repeat(5000));
    fixture.record_views(DAY_0, &[(long.as_str(), "html", "browser", 2), ("/", "html", "browser", 1)], &[]);
    let report = fixture.report(DAY_0, None, 10);
    assert_eq!(
        report.pages.iter().map(|(path, views)| (path.as_str(), views.all)).collect::<Vec<_>>(),
        [("", 2), ("/", 1)]
    );
}

#[test]
fn views_from_before_a_day_are_removed_in_parts() {
    let fixture = Fixture::new();
    let names: Vec<String> = (0..250).map(|n| format!("/{n}/")).collect();
    let pages: Vec<_> = names.iter().map(|name| (name.as_str(), "html", "browser", 1)).collect();
    fixture.record_views(DAY_0, &pages, &[("a.example", 1)]);
    fixture.record_views(DAY_0 + 1, &[("/", "html", "browser", 1)], &[("a.example", 1)]);
    let forget = || {
        fixture
            .runtime
            .block_on(fixture.store.change(|tx| tx.forget_page_views(date(DAY_0 + 1), 200)))
            .unwrap()
    };
    assert_eq!([forget(), forget(), forget()], [200, 51, 0]);
    assert_eq!((fixture.count("page_view"), fixture.count("referrer")), (1, 1));
}

impl Fixture {
    fn record_views(
        &self,
        day: i32,
        pages: &[(&str, &'static str, &'static str, u64)],
        referrers: &[(&str, u64)],
    ) {
        let mut counts = view_counts(pages, referrers);
        self.runtime.block_on(self.store.record_views(&mut counts, date(day))).unwrap();
        assert_eq!(counts, ViewCounts::default(), "all are stored");
    }

    fn report(&self, day: i32, page: Option<&str>, most: usize) -> ViewReport {
        let filter = ViewFilter { page, most, ..view_filter(day) };
        self.reader().page_views(&filter).unwrap()
    }
}

/// All views since a day.
pub fn view_filter(day: i32) -> ViewFilter<'static> {
    ViewFilter {
        from: date(day),
        until: None,
        page: None,
        ai_agents: &["GPTBot", "ClaudeBot"],
        browsers: &["browser"],
        most: 10,
    }
}

/// The report without the numbers of people and agents.
fn without_audience(mut report: ViewReport) -> ViewReport {
    let days = report.days.iter_mut().map(|(_, views)| views);
    let named = report.pages.iter_mut().chain(&mut report.agents).map(|(_, views)| views);
    for views in days.chain(named).chain([&mut report.total]) {
        (views.people, views.agents) = (0, 0);
    }
    report
}

/// The date of a day after 1970-01-01.
pub fn date(day: i32) -> Date {
    Date::constant(1970, 1, 1) + day.days()
}

pub fn view_counts(
    pages: &[(&str, &'static str, &'static str, u64)],
    referrers: &[(&str, u64)],
) -> ViewCounts {
    let pages = pages.iter().map(|(path, representation, agent, count)| ViewCount {
        path: (*path).into(),
        representation,
        agent,
        count: *count,
    });
    let referrers =
        referrers.iter().map(|(host, count)| ReferrerCount { host: (*host).into(), count: *count });
    ViewCounts { pages: pages.collect(), referrers: referrers.collect() }
}
