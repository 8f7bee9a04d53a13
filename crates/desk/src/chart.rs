//! Draws stacked bars over time as an SVG chart. A page shows the same numbers in a table behind it.

use frontdesk_forms::text::escape_html;

const WIDTH: usize = 720;
const HEIGHT: usize = 200;
/// Margins around the bars, in units of the drawing: space for the labels of the axes.
const LEFT: usize = 56;
const RIGHT: usize = 24;
const BOTTOM: usize = 32;
const TOP: usize = 12;
/// The maximum number of labels below the bars: more would overlap on a phone.
const MAX_LABELS: usize = 7;

/// The number of series with a color of their own in the style sheet.
pub(super) const MAX_SERIES: usize = 5;

/// The counts of one kind, drawn as one segment of each bar. The first series is at the bottom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Series {
    pub(super) name: String,
    /// One count for each of [`Chart::intervals`].
    pub(super) counts: Vec<usize>,
}

impl Series {
    pub(super) fn total(&self) -> usize {
        self.counts.iter().sum()
    }
}

pub(super) struct Chart<'a> {
    /// The prefix of the ids of the chart's elements; unique on the page.
    pub(super) id: &'a str,
    pub(super) title: &'a str,
    /// The content of the chart in one sentence, for readers who cannot see the chart.
    pub(super) summary: &'a str,
    /// The full names of the days, weeks or months, one for each bar.
    pub(super) intervals: &'a [String],
    /// The labels below the bars: short names of the days, weeks or months, one for each of `intervals`.
    pub(super) labels: &'a [String],
    pub(super) series: &'a [Series],
}

impl Chart<'_> {
    /// The chart as HTML. Series beyond [`MAX_SERIES`] have the color of the last one. At most [`MAX_LABELS`]
    /// of the labels are shown, evenly spaced; the last bar has one.
    pub(super) fn draw(&self) -> String {
        let sums: Vec<usize> = (0..self.intervals.len())
            .map(|at| self.series.iter().filter_map(|series| series.counts.get(at)).sum())
            .collect();
        let scale = Scale { top: round_up(sums.iter().copied().max().unwrap_or_default()) };
        let Self { id, title, summary, .. } = self;
        let (title, summary) = (escape_html(title), escape_html(summary));
        let mut svg = format!(
            "<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
             aria-labelledby=\"{id}-name\" aria-describedby=\"{id}-summary\">\
             <title id=\"{id}-name\">{title}</title><desc id=\"{id}-summary\">{summary}</desc>"
        );
        for count in [0, scale.top / 2, scale.top] {
            let line = scale.y(count);
            svg += &format!(
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{line}\" y2=\"{line}\"/>\
                 <text x=\"{}\" y=\"{}\" text-anchor=\"end\">{count}</text>",
                WIDTH - RIGHT,
                LEFT - 8,
                line + 4
            );
        }
        // Horizontal positions are in tenths of a unit.
        let step = (WIDTH - LEFT - RIGHT) * 10 / self.intervals.len().max(1);
        let every = self.intervals.len().div_ceil(MAX_LABELS).max(1);
        for (at, sum) in sums.iter().enumerate() {
            let x = LEFT * 10 + step * at;
            svg += &self.bar(at, *sum, (x + step * 3 / 20, step * 7 / 10), &scale);
            // Count from the end, so that the last bar has a label.
            if (self.intervals.len() - 1 - at).is_multiple_of(every) {
                svg += &format!(
                    "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                    tenths(x + step / 2),
                    HEIGHT - 8,
                    escape_html(&self.labels[at])
                );
            }
        }
        svg + "</svg>"
    }

    /// The stacked bars of the interval with the index `at`; empty if their `sum` is 0. `x` and `width` are
    /// in tenths. A tooltip shows the numbers other than 0.
    fn bar(&self, at: usize, sum: usize, (x, width): (usize, usize), scale: &Scale) -> String {
        if sum == 0 {
            return String::new();
        }
        let (mut parts, mut numbers, mut below) = (String::new(), Vec::new(), 0);
        for (index, series) in self.series.iter().enumerate() {
            let count = series.counts.get(at).copied().unwrap_or_default();
            if count == 0 {
                continue;
            }
            let (bottom, top) = (scale.y(below), scale.y(below + count));
            // Each part is at least 2 units high, so that a small count is visible.
            let height = (bottom - top).max(2);
            parts += &format!(
                "<rect class=\"c{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{height}\"/>",
                (index + 1).min(MAX_SERIES),
                tenths(x),
                bottom - height,
                tenths(width)
            );
            numbers.push(format!("{} {count}", series.name));
            below += count;
        }
        let text = format!("{}: {}", self.intervals[at], numbers.join(", "));
        format!("<g><title>{}</title>{parts}</g>", escape_html(&text))
    }
}

/// Formats a number of tenths of a unit: `14.9` for 149.
fn tenths(tenths: usize) -> String {
    format!("{}.{}", tenths / 10, tenths % 10)
}

/// The vertical axis, from 0 to `top`.
struct Scale {
    top: usize,
}

impl Scale {
    /// The vertical position of a count, measured from the upper edge. `count` is at most `top`.
    fn y(&self, count: usize) -> usize {
        let base = HEIGHT - BOTTOM;
        // Multiply in 128 bits, because a product with a large count of views could overflow.
        let height = count as u128 * (base - TOP) as u128 / self.top.max(1) as u128;
        base - usize::try_from(height).unwrap_or_default().min(base - TOP)
    }
}

/// The smallest of 2, 4, 10, 20, 40, 100 and so on that is at least `most`, or `usize::MAX` if there is none.
/// The others are even, so that the middle of the axis has a whole number.
fn round_up(most: usize) -> usize {
    let mut unit: usize = 1;
    loop {
        for step in [2, 4, 10] {
            if unit.saturating_mul(step) >= most {
                return unit.saturating_mul(step);
            }
        }
        unit = unit.saturating_mul(10);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_has_round_numbers() {
        assert_eq!([0, 2, 3, 5, 10, 11, 41, 101, 4000].map(round_up), [2, 2, 4, 10, 10, 20, 100, 200, 4000]);
        assert_eq!(round_up(usize::MAX), usize::MAX);
    }

    #[test]
    fn each_time_has_stacked_bars_with_their_counts() {
        let svg = draw(30, &[("contact", 1), ("waitlist", 3)]);
        assert_eq!((svg.matches("<g>").count(), svg.matches("<rect").count()), (29, 58), "none on day 0");
        assert!(svg.contains("<title>day 29: contact 29, waitlist 87</title>"), "{svg}");
        // The scale ends at 200, and its 156 units are between 12 and 168.
        let last = "<rect class=\"c1\" x=\"676.8\" y=\"146\" width=\"14.9\" height=\"22\"/>\
                    <rect class=\"c2\" x=\"676.8\" y=\"78\" width=\"14.9\" height=\"68\"/>";
        assert!(svg.contains(last), "{svg}");
        assert!(svg.contains(">200</text>") && svg.contains(">d29</text>") && !svg.contains("style="));
        let labels = svg.matches("text-anchor=\"middle\"").count();
        assert_eq!(labels, 6);
    }

    #[test]
    fn a_chart_has_a_name_and_a_summary_for_screen_readers() {
        let svg = draw(7, &[("contact", 1)]);
        assert!(svg.contains("aria-labelledby=\"x-name\" aria-describedby=\"x-summary\""), "{svg}");
        assert!(svg.contains(
            "<title id=\"x-name\">Leads &lt;b&gt;</title><desc id=\"x-summary\">A sum &amp; more</desc>"
        ));
    }

    #[test]
    fn names_are_escaped_and_series_without_a_color_share_one() {
        let names = ["a", "b", "c", "d", "<e>", "f"];
        let svg = draw(2, &names.map(|name| (name, 1)));
        assert!(svg.contains("&lt;e&gt; 1, f 1") && !svg.contains("<e>"), "{svg}");
        assert_eq!((svg.matches("class=\"c5\"").count(), svg.matches("class=\"c6\"").count()), (2, 0));
    }

    #[test]
    fn an_empty_chart_and_large_numbers_can_be_drawn() {
        assert!(draw(0, &[]).ends_with("</svg>"));
        assert!(draw(3, &[]).contains(">2</text>"));
        let most = usize::MAX / 4;
        assert!(draw(2, &[("views", most)]).contains("height=\""));
    }

    /// Draws this many days; each series has a multiple of the day's number.
    fn draw(days: usize, series: &[(&str, usize)]) -> String {
        let names = |before: &str| (0..days).map(|day| format!("{before}{day}")).collect::<Vec<_>>();
        let series: Vec<Series> = series
            .iter()
            .map(|(name, factor)| Series {
                name: (*name).to_owned(),
                counts: (0..days).map(|day| day * factor).collect(),
            })
            .collect();
        let (intervals, labels) = (names("day "), names("d"));
        let (title, summary) = ("Leads <b>", "A sum & more");
        Chart { id: "x", title, summary, intervals: &intervals, labels: &labels, series: &series }.draw()
    }
}
