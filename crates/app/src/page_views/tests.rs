//! Tests of the counts in memory, and of storing them.

use jiff::ToSpan as _;
use tempfile::TempDir;

use super::*;
use frontdesk_inbox::store::{InboxReader, Store, StoreOptions, ViewFilter};

const CHROME: &[u8] = b"Mozilla/5.0 (X11; Linux x86_64) Chrome/140.0.0.0 Safari/537.36";

fn view<'a>(page: &'a Arc<str>, user_agent: &'a [u8], referer: Option<&'a [u8]>) -> PageView<'a> {
    PageView {
        page,
        representation: Representation::Html,
        user_agent: Some(user_agent),
        referer,
        host: b"www.example.com",
        base_url: "https://www.example.com",
    }
}

/// The counts, sorted, as `PATH REPRESENTATION AGENT COUNT` and `HOST COUNT`.
fn lines(counts: &ViewCounts) -> Vec<String> {
    let pages = counts
        .pages
        .iter()
        .map(|view| format!("{} {} {} {}", view.path, view.representation, view.agent, view.count));
    let hosts = counts.referrers.iter().map(|referrer| format!("{} {}", referrer.host, referrer.count));
    let mut lines: Vec<_> = pages.chain(hosts).collect();
    lines.sort_unstable();
    lines
}

#[test]
fn the_counts_of_all_workers_are_added_up_and_reset() {
    let views = PageViews::default();
    let (home, about): (Arc<str>, Arc<str>) = ("/".into(), "/about/".into());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let worker = views.for_worker();
            let (home, about) = (&home, &about);
            scope.spawn(move || {
                for _ in 0..100 {
                    worker.record(&view(home, CHROME, Some(b"https://News.example.net/x?y")));
                }
                let markdown =
                    PageView { representation: Representation::Markdown, ..view(about, b"GPTBot/1.2", None) };
                worker.record(&markdown);
                worker.record(&PageView { user_agent: None, ..view(about, b"", None) });
                worker.record(&view(home, CHROME, Some(b"https://www.example.com/about/")));
            });
        }
    });
    let counts = views.take().to_counts();
    assert_eq!(
        lines(&counts),
        ["/ html browser 404", "/about/ html unknown 4", "/about/ markdown GPTBot 4", "news.example.net 400"]
    );
    assert!(views.take().is_empty());
}

#[test]
fn views_of_the_canary_are_not_counted() {
    let views = PageViews::default();
    let home: Arc<str> = "/".into();
    let canary = b"Mozilla/5.0 (compatible; frontdesk-canary/0.1.0)";
    views.record(&view(&home, canary, Some(b"https://news.example.net/")));
    assert!(views.take().is_empty());
    views.record(&view(&home, b"Mozilla/5.0 (compatible; frontdesk-canaries)", None));
    assert_eq!(lines(&views.take().to_counts()), ["/ html browser 1"]);
}

#[test]
fn a_page_keeps_its_counts_when_a_reload_replaces_it() {
    let views = PageViews::default();
    for path in ["/old/", "/kept/", "/kept/", "/new/"] {
        // Each load creates new paths, and drops the old ones while they are still being counted.
        let path: Arc<str> = path.into();
        views.record(&view(&path, CHROME, None));
    }
    assert_eq!(
        lines(&views.take().to_counts()),
        ["/kept/ html browser 2", "/new/ html browser 1", "/old/ html browser 1"]
    );
}

#[test]
fn memory_is_bounded_and_no_view_is_lost() {
    let views = PageViews::default();
    let paths: Vec<Arc<str>> = (0..MAX_VIEW_ROWS + 500).map(|n| format!("/{n}/").into()).collect();
    for (n, path) in paths.iter().enumerate() {
        let referer = format!("https://h{n}.example/");
        views.record(&view(path, CHROME, Some(referer.as_bytes())));
        let own = lock(&views.own);
        assert!(own.pages.len() <= MAX_OWN && own.referrers.len() <= MAX_OWN_REFERRERS);
    }
    views.record(&view(&paths[0], CHROME, Some(b"http://192.0.2.1/")));
    let counts = views.take().to_counts();
    let viewed: u64 = counts.pages.iter().map(|view| view.count).sum();
    let referred: u64 = counts.referrers.iter().map(|referrer| referrer.count).sum();
    let all = u64::try_from(paths.len()).unwrap() + 1;
    assert_eq!((viewed, referred), (all, all));
    assert_eq!(counts.pages.len(), MAX_VIEW_ROWS + 1, "one is for all other pages");
    assert!(counts.referrers.len() <= MAX_REFERRERS + 1, "{}", counts.referrers.len());
    assert!(counts.pages.iter().any(|view| view.path.is_empty() && view.count == 500));
}

#[test]
fn counts_are_collected_every_minute_and_at_midnight() {
    let wait = |now: &str| time_to_collection(&now.parse().unwrap());
    assert_eq!(wait("2026-11-20T12:00:30[UTC]"), INTERVAL);
    assert_eq!(wait("2026-11-20T23:59:59.5[UTC]"), Duration::from_millis(500));
    assert_eq!(wait("2026-11-21T00:00:00[UTC]"), INTERVAL);
    assert_eq!(wait("1969-12-31T23:59:59[UTC]"), Duration::from_secs(1));
    assert_eq!(wait("2026-11-20T23:59:50[Asia/Kathmandu]"), Duration::from_secs(10));
    // Beirut begins summer time at midnight, so the day begins an hour later by the clock.
    assert_eq!(wait("2026-03-28T23:59:50[Asia/Beirut]"), Duration::from_secs(10));
}

#[test]
fn counts_that_could_not_be_stored_are_stored_later() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("inbox.sqlite");
    let store = Store::open(&StoreOptions::new(file.clone())).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let views = PageViews::default();
    let home: Arc<str> = "/".into();
    let mut unstored = UnstoredCounts::default();
    let other = rusqlite::Connection::open(&file).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let [first, second] = ["2026-11-20", "2026-11-21"].map(|day| day.parse().unwrap());
    for day in [first, second] {
        views.record(&view(&home, CHROME, Some(b"https://news.example.net/")));
        unstored.add(day, views.take());
        runtime.block_on(unstored.store(&store));
    }
    assert_eq!(unstored.days.len(), 2);
    assert!(unstored.failure.is_some());
    other.execute_batch("ROLLBACK").unwrap();
    views.record(&view(&home, CHROME, None));
    unstored.add(second, views.take());
    runtime.block_on(unstored.store(&store));
    assert!(unstored.days.is_empty() && unstored.failure.is_none());
    let filter = ViewFilter {
        from: "1970-01-01".parse().unwrap(),
        until: None,
        page: None,
        ai_agents: &["GPTBot"],
        browsers: &["browser"],
        most: 9,
    };
    let report = InboxReader::open(file).unwrap().page_views(&filter).unwrap();
    let days: Vec<_> = report.days.iter().map(|(_, views)| views.all).collect();
    assert_eq!((days, report.referred), (vec![1, 2], 2));
    store.close();
}

#[test]
fn only_the_unstored_part_of_a_day_is_kept() {
    let views = PageViews::default();
    let paths: [Arc<str>; 2] = ["/a/".into(), "/b/".into()];
    for path in &paths {
        views.record(&view(path, CHROME, Some(b"https://a.example")));
    }
    let mut totals = views.take();
    let mut counts = totals.to_counts();
    counts.pages.retain(|view| &*view.path == "/b/");
    totals.retain(&counts);
    assert_eq!(lines(&totals.to_counts()), ["/b/ html browser 1", "a.example 2"]);
    counts.referrers.clear();
    totals.retain(&counts);
    assert_eq!(lines(&totals.to_counts()), ["/b/ html browser 1"]);
}

#[test]
fn counts_wait_for_a_limited_number_of_days() {
    let mut unstored = UnstoredCounts::default();
    let first = Date::constant(2026, 11, 20);
    let days: Vec<Date> = first.series(1.day()).take(20).collect();
    for day in &days {
        let mut totals = Totals::default();
        totals.add_referrer("a.example".into(), 1);
        unstored.add(*day, totals);
    }
    assert_eq!(unstored.days.keys().copied().collect::<Vec<_>>(), days[13..]);
}
