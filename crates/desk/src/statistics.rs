//! The page of statistics: leads and page views of a period, compared with the period before.

use std::collections::BTreeSet;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};
use minijinja::{Value, context};

use super::chart::{Chart, MAX_SERIES, Series};
use super::html::Reply;
use super::options::ViewCounting;
use super::pages::PageRequest;
use frontdesk_forms::text::visible;
use frontdesk_inbox::store::{InboxReader, LeadCounts, MAX_LEADS, StoreError, ViewFilter, ViewReport, Views};
use frontdesk_inbox::submission::Status;

/// Maximum number of entries in a table.
const MAX_ROWS: usize = 10;
/// Maximum number of pages whose leads and views are compared.
const MAX_PAGES: usize = 1000;
/// Maximum number of stored counts of page views, one per day, page, representation and client, that are
/// added up. The oldest days beyond it are left out, because reading them would take longer than 50
/// milliseconds.
const MAX_VIEW_COUNTS: usize = 25_000;
/// Number of days, including today, for which counts of page views are kept.
const VIEW_DAYS: i64 = 400;
/// Minimum number of views for a page to get a conversion rate: with fewer, the rate is not meaningful.
const MIN_VIEWS: usize = 100;
/// Waiting, held and failed submissions are counted up to this number.
const MAX_COUNTED: usize = 1000;

const DEFAULT_DAYS: u16 = 30;
/// The value of `days` that stands for the current month and the eleven before it.
const YEAR: u16 = 365;
/// Maximum length in days of a period shown by day. Longer periods are shown by week, and a year by month.
const MAX_DAYS_SHOWN: u16 = 31;
const PERIODS: [u16; 4] = [7, DEFAULT_DAYS, 90, YEAR];

/// The number of days that a URL requests; [`DEFAULT_DAYS`] if that is not one of [`PERIODS`].
fn offered(days: Option<u16>) -> u16 {
    days.filter(|days| PERIODS.contains(days)).unwrap_or(DEFAULT_DAYS)
}

fn name_of(days: u16) -> String {
    if days == YEAR { "12 months".to_owned() } else { format!("{days} days") }
}

/// A period that ends today, divided into days, weeks or months, and the start of the period before it.
struct Period {
    days: u16,
    /// The first days of the intervals, and the day after the last one.
    bounds: Vec<Date>,
    /// The first day of the preceding period, with which this period is compared.
    previous_start: Date,
}

impl Period {
    /// The last `days` days, by day or week; for [`YEAR`], the last twelve calendar months.
    fn new(days: u16, today: Date) -> Self {
        if days == YEAR {
            let month = today.first_of_month();
            let bounds = (-11..=1).map(|months: i32| month.saturating_add(months.months())).collect();
            return Self { days, bounds, previous_start: month.saturating_sub(23.months()) };
        }
        let first = i32::from(days) - 1;
        // Show long periods by week. The last week ends today, so the first one may be shorter.
        let step = if days > MAX_DAYS_SHOWN { 7 } else { 1 };
        let starts = (-first..=1).filter(|by| *by == -first || (1 - by) % step == 0);
        let bounds = starts.map(|by: i32| today.saturating_add(by.days())).collect();
        Self { days, bounds, previous_start: today.saturating_sub((first + i32::from(days)).days()) }
    }

    fn first(&self) -> Date {
        self.bounds[0]
    }

    /// The index of the interval that contains `day`; `None` if the period does not contain it.
    fn index_of(&self, day: Date) -> Option<usize> {
        let index = self.bounds.partition_point(|bound| *bound <= day).checked_sub(1)?;
        (index + 1 < self.bounds.len()).then_some(index)
    }

    /// The name of an interval, such as `Day`, and the preposition before it in a sentence, such as `on`.
    fn unit(&self) -> (&'static str, &'static str) {
        match self.days {
            YEAR => ("Month", "in"),
            days if days > MAX_DAYS_SHOWN => ("Week from", "in the week from"),
            _ => ("Day", "on"),
        }
    }

    /// The full names of the intervals: `2026-11-20` for a day or the first day of a week, or `2026-11` for a
    /// month.
    fn interval_names(&self) -> Vec<String> {
        let starts = &self.bounds[..self.bounds.len() - 1];
        starts
            .iter()
            .map(|day| day.to_string()[..if self.days == YEAR { 7 } else { 10 }].to_owned())
            .collect()
    }

    /// The short names of the intervals: `11-20`, or `Nov` for a month.
    fn labels(&self) -> Vec<String> {
        let starts = self.bounds[..self.bounds.len() - 1].iter();
        let format = if self.days == YEAR { "%b" } else { "%m-%d" };
        starts.map(|day| day.strftime(format).to_string()).collect()
    }

    /// Compares a count with the preceding period's count: `4 more than in the 30 days before`.
    fn compare(&self, now: usize, previous: usize) -> String {
        let difference = now.abs_diff(previous);
        let than = match now.cmp(&previous) {
            std::cmp::Ordering::Greater => format!("{difference} more than"),
            std::cmp::Ordering::Less => format!("{difference} fewer than"),
            std::cmp::Ordering::Equal => "as many as".to_owned(),
        };
        format!("{than} in the {} before", name_of(self.days))
    }
}

/// The beginning of a day; [`Timestamp::MIN`] if it cannot be represented.
fn start_of(day: Date, zone: &TimeZone) -> Timestamp {
    day.to_zoned(zone.clone()).map_or(Timestamp::MIN, |start| start.timestamp())
}

/// The leads of a period, and of the period before.
struct Leads {
    /// The number of leads in each interval, by form; the form with the most leads first.
    series: Vec<Series>,
    /// The number of leads of each form in `series` in the period before.
    previous: Vec<usize>,
}

impl Leads {
    /// Counts the leads by form: processed submissions that are neither held nor spam. The form with the most
    /// leads in the period comes first. Leaves out forms without leads in
    /// either this period or the preceding one.
    fn read(reader: &InboxReader, period: &Period, zone: &TimeZone) -> Result<Self, StoreError> {
        let bounds: Vec<Timestamp> =
            [period.previous_start].iter().chain(&period.bounds).map(|day| start_of(*day, zone)).collect();
        // The first count is for the preceding period, and each other count is for one interval.
        let mut forms: Vec<(Series, usize)> = reader
            .leads_by_form(&bounds)?
            .into_iter()
            .filter(|(_, counts)| counts.iter().any(|count| *count > 0))
            .map(|(form, counts)| (Series { name: visible(&form), counts: counts[1..].to_vec() }, counts[0]))
            .collect();
        forms.sort_by_key(|(series, _)| std::cmp::Reverse(series.total()));
        let (series, previous) = forms.into_iter().unzip();
        Ok(Self { series, previous })
    }

    /// The series to draw. If there are more than [`MAX_SERIES`], the smallest ones are combined into one.
    fn charted(&self) -> Vec<Series> {
        if self.series.len() <= MAX_SERIES {
            return self.series.clone();
        }
        let (first, others) = self.series.split_at(MAX_SERIES - 1);
        let count = first[0].counts.len();
        let counts = (0..count).map(|at| others.iter().map(|series| series.counts[at]).sum()).collect();
        [first, &[Series { name: "other forms".to_owned(), counts }]].concat()
    }
}

/// The page views of a period.
struct PageViews {
    /// The views by people, by agents and by others, in this order.
    series: [Series; 3],
    /// The views of the period before; `None` if it had none, or if its counts are no longer kept or too many
    /// to add up.
    previous: Option<Views>,
    total: Views,
    pages: Vec<(String, Views)>,
    referrers: Vec<(String, usize)>,
    /// The first day whose views are included, if earlier days of the period are left out.
    cut_to: Option<Date>,
}

impl PageViews {
    /// Adds up the views of the period and of the period before. Beyond [`MAX_VIEW_COUNTS`] counts, leaves
    /// out the oldest days. Pages, at most [`MAX_PAGES`], are those viewed on the remaining days of the
    /// period; referrers, at most [`MAX_ROWS`], are those of the whole period.
    fn read(
        reader: &InboxReader,
        period: &Period,
        request: &PageRequest<'_>,
        today: Date,
    ) -> Result<Self, StoreError> {
        let first = period.first();
        let has_previous = period.previous_start >= today.saturating_sub((VIEW_DAYS - 1).days());
        let wanted = if has_previous { period.previous_start } else { first };
        // If the inbox has too many counts from `wanted` on, begin on a later day.
        let from = reader.first_view_day(wanted, MAX_VIEW_COUNTS)?;
        let filter = ViewFilter {
            from,
            // Leave out days after the period, which have counts if the clock was set back.
            until: period.bounds.last().copied(),
            page: None,
            ai_agents: &request.options.ai_agents,
            browsers: &request.options.browsers,
            most: MAX_PAGES,
        };
        let zeros = vec![0; period.bounds.len() - 1];
        let mut series = ["people", "agents", "others"]
            .map(|name| Series { name: name.to_owned(), counts: zeros.clone() });
        let (mut total, mut previous) = (Views::default(), Views::default());
        for (day, views) in reader.view_days(&filter)? {
            let Some(index) = period.index_of(day) else {
                previous = previous + views;
                continue;
            };
            total = total + views;
            let others = views.all.saturating_sub(views.people + views.agents);
            for (series, count) in series.iter_mut().zip([views.people, views.agents, others]) {
                series.counts[index] += count;
            }
        }
        let filter = ViewFilter { from: from.max(first), ..filter };
        let (_, pages) = reader.viewed_pages(&filter)?;
        let filter = ViewFilter { from: first, most: MAX_ROWS, ..filter };
        let mut report = ViewReport::default();
        reader.add_referrers(&filter, &mut report)?;
        Ok(Self {
            series,
            previous: (has_previous && from == wanted && previous.all > 0).then_some(previous),
            total,
            pages,
            referrers: report.referrers,
            cut_to: (from > first).then_some(from),
        })
    }

    /// The views of a page by people.
    fn of_page(&self, path: &str) -> usize {
        self.pages.iter().find(|(found, _)| found == path).map_or(0, |(_, views)| views.people)
    }
}

impl PageRequest<'_> {
    /// The page with the leads and page views of the period that the URL specifies.
    pub(super) fn statistics(&self) -> Result<Reply, StoreError> {
        self.render("statistics.html", "statistics", |reader| {
            let zone = &self.clock.zone;
            let today = self.clock.now.to_zoned(zone.clone()).date();
            let period = Period::new(offered(self.days), today);
            let leads = Leads::read(reader, &period, zone)?;
            let views = PageViews::read(reader, &period, self, today)?;
            let end = period.bounds.last().copied().unwrap_or(today);
            let sources_since = |first| reader.lead_counts(start_of(first, zone), start_of(end, zone), MAX_PAGES);
            let sources = sources_since(period.first())?;
            // If views of the oldest days are left out, conversion rates must leave out their leads, too.
            let converted = views.cut_to.map(sources_since).transpose()?;
            let periods = PERIODS.map(|days| {
                context! { name => name_of(days), href => format!("/statistics?days={days}"), is_current => days == period.days }
            });
            let notes = context! {
                cut_to => views.cut_to.map(|day| day.to_string()),
                cut_leads => sources.is_cut.then_some(MAX_LEADS),
                uncounted => match self.options.view_counting {
                    ViewCounting::On => None,
                    ViewCounting::Off => Some("off"),
                    ViewCounting::Watching => Some("watching"),
                },
            };
            Ok(context! {
                periods,
                period => name_of(period.days),
                figures => figures(&period, &leads, &views),
                leads_chart => leads_chart(&period, &leads),
                views_chart => views_chart(&period, &views),
                forms => form_rows(&leads),
                sources => source_tables(&sources),
                conversion => conversion_rows(&self.options.form_pages, converted.as_ref().unwrap_or(&sources), &views),
                min_views => MIN_VIEWS,
                pages => page_rows(&views),
                referrers => views.referrers.iter().map(|(host, count)| context! { name => shown_name(host), count }).collect::<Vec<_>>(),
                waiting => reader.count_up_to(Status::Waiting, MAX_COUNTED)?,
                held => reader.count_up_to(Status::Held, MAX_COUNTED)?,
                failed => reader.count_up_to(Status::Parked, MAX_COUNTED)?,
                most => MAX_COUNTED,
                ..notes
            })
        })
    }
}

/// The key figures of the period, each compared with the period before. Page views have no comparison if the
/// earlier ones are not known ([`PageViews::previous`]).
fn figures(period: &Period, leads: &Leads, views: &PageViews) -> Vec<Value> {
    let count: usize = leads.series.iter().map(Series::total).sum();
    let previous: usize = leads.previous.iter().sum();
    let viewed = |name: &str, of: fn(&Views) -> usize| {
        let comparison = views.previous.map(|previous| period.compare(of(&views.total), of(&previous)));
        context! { name, count => of(&views.total), comparison }
    };
    vec![
        context! { name => "Leads", count, comparison => period.compare(count, previous) },
        viewed("Page views by people", |views| views.people),
        viewed("Page views by agents", |views| views.agents),
    ]
}

/// A chart, its legend and the table behind it. The table begins with the latest interval. `what` is the
/// plural of what is counted.
fn chart_value(id: &str, title: &str, what: &str, period: &Period, series: &[Series]) -> Value {
    let (intervals, labels) = (period.interval_names(), period.labels());
    let sum = |at: usize| series.iter().map(|series| series.counts[at]).sum::<usize>();
    let total: usize = series.iter().map(Series::total).sum();
    let busiest = (0..intervals.len()).max_by_key(|at| sum(*at)).filter(|at| sum(*at) > 0);
    let (unit, at) = period.unit();
    let within = name_of(period.days);
    let summary = match busiest {
        Some(most) => format!("{total} {what} in {within}, most {at} {}: {}.", intervals[most], sum(most)),
        None => format!("No {what} in {within}."),
    };
    let chart = Chart { id, title, summary: &summary, intervals: &intervals, labels: &labels, series };
    let rows: Vec<Value> = (0..intervals.len())
        .rev()
        .map(|at| {
            let counts: Vec<usize> = series.iter().map(|series| series.counts[at]).collect();
            context! { time => intervals[at].clone(), counts, sum => sum(at) }
        })
        .collect();
    let names: Vec<String> = series.iter().map(|series| series.name.clone()).collect();
    context! {
        svg => Value::from_safe_string(chart.draw()),
        title, summary, names, rows, is_empty => total == 0, unit,
    }
}

fn leads_chart(period: &Period, leads: &Leads) -> Value {
    chart_value("leads", "Leads by form", "leads", period, &leads.charted())
}

fn views_chart(period: &Period, views: &PageViews) -> Value {
    chart_value("views", "Page views by people, agents and others", "page views", period, &views.series)
}

fn form_rows(leads: &Leads) -> Vec<Value> {
    let forms = leads.series.iter().zip(&leads.previous);
    forms
        .map(|(series, before)| context! { name => series.name.clone(), count => series.total(), before })
        .collect()
}

/// A table for each kind of lead source that has leads. Each table has at most [`MAX_ROWS`] rows.
fn source_tables(counts: &LeadCounts) -> Vec<Value> {
    let titles = ["Page", "Came from", "Campaign"];
    let tables = titles.into_iter().zip(counts.lists()).filter(|(_, (_, counts))| !counts.is_empty());
    tables
        .map(|(title, (_, counts))| {
            let row = |(name, count): &(String, usize)| context! { name => visible(name), count };
            let rows: Vec<Value> = counts.iter().take(MAX_ROWS).map(row).collect();
            context! { title, rows, more => counts.len().saturating_sub(MAX_ROWS) }
        })
        .collect()
}

/// The name of a page or a host. An empty name stands for all names that are not counted separately.
fn shown_name(name: &str) -> String {
    if name.is_empty() { "(others)".to_owned() } else { visible(name) }
}

/// The first [`MAX_ROWS`] pages, with their views by people, by agents and by others.
fn page_rows(views: &PageViews) -> Vec<Value> {
    let row = |(path, views): &(String, Views)| {
        let others = views.all.saturating_sub(views.people + views.agents);
        context! { name => shown_name(path), people => views.people, agents => views.agents, others }
    };
    views.pages.iter().take(MAX_ROWS).map(row).collect()
}

/// The pages that show a form or from which leads came, with their views by people, their leads and the leads
/// per hundred views ([`rate`]): the [`MAX_ROWS`] pages with the most views. Pages of other sites are left
/// out, because their views are not counted, and those without views and leads. Does not count the leads of
/// encrypted submissions. Empty if not all leads of the period are counted.
fn conversion_rows(form_pages: &[String], sources: &LeadCounts, views: &PageViews) -> Vec<Value> {
    if sources.is_cut {
        return Vec::new();
    }
    let leads_of = |path: &str| sources.pages.iter().find(|(page, _)| page == path).map_or(0, |(_, n)| *n);
    let with_leads = sources.pages.iter().map(|(page, _)| page).filter(|page| page.starts_with('/'));
    let paths: BTreeSet<&String> = form_pages.iter().chain(with_leads).collect();
    let mut rows: Vec<(usize, usize, &String)> =
        paths.into_iter().map(|path| (views.of_page(path), leads_of(path), path)).collect();
    rows.retain(|(viewed, leads, _)| viewed + leads > 0);
    rows.sort_by_key(|(viewed, leads, _)| std::cmp::Reverse((*viewed, *leads)));
    rows.into_iter()
        .take(MAX_ROWS)
        .map(|(viewed, leads, path)| {
            context! { name => visible(path), fraction => format!("{leads} of {viewed}"), rate => rate(leads, viewed) }
        })
        .collect()
}

/// The leads per hundred views, such as `2.5 %`. `None` below [`MIN_VIEWS`] views, or with more leads than
/// views.
fn rate(leads: usize, views: usize) -> Option<String> {
    let thousandths = (leads * 2000 / views.max(1)).div_ceil(2);
    (views >= MIN_VIEWS && leads <= views).then(|| format!("{}.{} %", thousandths / 10, thousandths % 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn period(days: u16, today: &str) -> Period {
        Period::new(days, today.parse().unwrap())
    }

    #[test]
    fn a_period_ends_today_and_follows_an_equally_long_one() {
        let check = |days, intervals, first: &str, previous_start: &str| {
            let period = period(days, "2026-03-31");
            let found =
                (period.bounds.len() - 1, period.first().to_string(), period.previous_start.to_string());
            assert_eq!(found, (intervals, first.to_owned(), previous_start.to_owned()), "{days}");
        };
        check(7, 7, "2026-03-25", "2026-03-18");
        check(30, 30, "2026-03-02", "2026-01-31");
        check(90, 13, "2026-01-01", "2025-10-03");
        let weeks = period(90, "2026-03-31").bounds;
        assert_eq!(
            [1, 12, 13].map(|at: usize| weeks[at].to_string()),
            ["2026-01-07", "2026-03-25", "2026-04-01"]
        );
        check(YEAR, 12, "2025-04-01", "2024-04-01");
        let year = period(YEAR, "2026-03-31");
        assert_eq!(year.bounds.last().unwrap().to_string(), "2026-04-01");
        assert_eq!((&*year.interval_names()[11], &*year.labels()[11]), ("2026-03", "Mar"));
        let week = period(7, "2026-03-31");
        assert_eq!((&*week.interval_names()[6], &*week.labels()[6]), ("2026-03-31", "03-31"));
        let index = |day: &str| year.index_of(day.parse().unwrap());
        assert_eq!(
            ["2025-03-31", "2025-04-01", "2026-02-28", "2026-03-31", "2026-04-01"].map(index),
            [None, Some(0), Some(10), Some(11), None]
        );
    }

    #[test]
    fn only_offered_periods_can_be_chosen() {
        let days = [None, Some(7), Some(365), Some(8), Some(0)];
        assert_eq!(days.map(offered), [30, 7, YEAR, 30, 30]);
    }

    #[test]
    fn a_number_is_compared_with_the_period_before() {
        let month = period(30, "2026-03-31");
        assert_eq!(month.compare(12, 8), "4 more than in the 30 days before");
        assert_eq!(month.compare(0, 3), "3 fewer than in the 30 days before");
        assert_eq!(period(YEAR, "2026-03-31").compare(5, 5), "as many as in the 12 months before");
    }

    #[test]
    fn a_rate_needs_enough_views() {
        for (leads, views, expected) in [
            (3, 120, Some("2.5 %")),
            (0, 100, Some("0.0 %")),
            (1, 3000, Some("0.0 %")),
            (2, 3, None),
            (1, 99, None),
            (200, 100, None),
            (100, 100, Some("100.0 %")),
            (0, 0, None),
        ] {
            assert_eq!(rate(leads, views).as_deref(), expected, "{leads} of {views}");
        }
    }

    #[test]
    fn forms_without_a_color_share_the_last_series() {
        let series: Vec<Series> =
            (0..7).map(|n| Series { name: format!("form{n}"), counts: vec![n, 1] }).collect();
        let leads = Leads { previous: vec![0; 7], series };
        let charted = leads.charted();
        assert_eq!(charted.len(), MAX_SERIES);
        assert_eq!(charted[4], Series { name: "other forms".to_owned(), counts: vec![4 + 5 + 6, 3] });
        let few = Leads { previous: vec![0], series: leads.series[..1].to_vec() };
        assert_eq!(few.charted(), leads.series[..1]);
    }

    #[test]
    fn conversion_compares_views_by_people_with_leads_of_this_site() {
        let views = |people| Views { all: people + 50, people, ..Views::default() };
        let views = PageViews {
            series: ["people", "agents", "others"]
                .map(|name| Series { name: name.to_owned(), counts: Vec::new() }),
            previous: None,
            total: Views::default(),
            pages: vec![("/".to_owned(), views(900)), ("/contact/".to_owned(), views(120))],
            referrers: Vec::new(),
            cut_to: None,
        };
        let pages = [("/contact/", 3), ("/old/", 2), ("https://shop.example.com/", 9)];
        let sources = LeadCounts {
            pages: pages.map(|(page, count)| (page.to_owned(), count)).into(),
            ..LeadCounts::default()
        };
        let form_pages = ["/contact/".to_owned(), "/waitlist/".to_owned()];
        let rows = conversion_rows(&form_pages, &sources, &views);
        let text = |row: &Value, name| row.get_attr(name).unwrap().to_string();
        let found: Vec<_> =
            rows.iter().map(|row| ["name", "fraction", "rate"].map(|name| text(row, name))).collect();
        assert_eq!(found, [["/contact/", "3 of 120", "2.5 %"], ["/old/", "2 of 0", "None"]]);
        let cut = LeadCounts { is_cut: true, ..sources };
        assert!(conversion_rows(&form_pages, &cut, &views).is_empty());
    }

    #[test]
    fn a_chart_has_a_summary_and_a_table() {
        let week = period(7, "2026-03-31");
        let series = [Series { name: "contact".to_owned(), counts: vec![0, 1, 0, 4, 0, 0, 2] }];
        let value = chart_value("leads", "Leads", "leads", &week, &series);
        assert_eq!(
            value.get_attr("summary").unwrap().to_string(),
            "7 leads in 7 days, most on 2026-03-28: 4."
        );
        let rows = value.get_attr("rows").unwrap();
        assert_eq!(rows.len(), Some(7));
        let first = rows.get_item(&Value::from(0)).unwrap();
        assert_eq!(first.get_attr("time").unwrap().to_string(), "2026-03-31");
        assert_eq!(first.get_attr("sum").unwrap().to_string(), "2");
        let none = chart_value("leads", "Leads", "leads", &week, &[]);
        assert_eq!(none.get_attr("summary").unwrap().to_string(), "No leads in 7 days.");
        assert!(none.get_attr("is_empty").unwrap().is_true());
    }
}
