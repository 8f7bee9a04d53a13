//! Draws the number of submissions per day as an SVG chart.

use jiff::civil::Date;

const WIDTH: usize = 720;
const HEIGHT: usize = 200;
/// The space for the labels of the axes.
const LEFT: usize = 56;
const RIGHT: usize = 24;
const BOTTOM: usize = 32;
const TOP: usize = 12;

/// Draws one bar for each day.
pub(super) fn draw(days: &[(Date, usize)]) -> String {
    let most = days.iter().map(|(_, count)| *count).max().unwrap_or_default();
    let top = round_up(most);
    let plot = HEIGHT - TOP - BOTTOM;
    let base = HEIGHT - BOTTOM;
    let y = |count: usize| base - count * plot / top;
    let mut svg = format!(
        "<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-labelledby=\"chart-title\">\
         <title id=\"chart-title\">Submissions per day</title>"
    );
    for count in [0, top / 2, top] {
        let (line, text) = (y(count), y(count) + 4);
        svg += &format!(
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{line}\" y2=\"{line}\"/>\
             <text x=\"{}\" y=\"{text}\" text-anchor=\"end\">{count}</text>",
            WIDTH - RIGHT,
            LEFT - 8
        );
    }
    // Horizontal positions are in tenths.
    let step = (WIDTH - LEFT - RIGHT) * 10 / days.len().max(1);
    let tenths = |tenths: usize| format!("{}.{}", tenths / 10, tenths % 10);
    for (at, (day, count)) in days.iter().enumerate() {
        let x = LEFT * 10 + step * at;
        let day = day.to_string();
        let height = base - y(*count);
        let height = if *count > 0 { height.max(2) } else { 0 };
        svg += &format!(
            "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{height}\" rx=\"2\"><title>{day}: {count}</title></rect>",
            tenths(x + step * 3 / 20),
            base - height,
            tenths(step * 7 / 10)
        );
        if at % 7 == (days.len() - 1) % 7 {
            svg += &format!(
                "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                tenths(x + step / 2),
                HEIGHT - 8,
                &day[5..]
            );
        }
    }
    svg + "</svg>"
}

/// The next number of the form 2, 4, 10, 20, 40, 100 and so on: it can be halved.
fn round_up(most: usize) -> usize {
    let mut unit = 1;
    loop {
        for step in [2, 4, 10] {
            if unit * step >= most {
                return unit * step;
            }
        }
        unit *= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_has_round_numbers() {
        assert_eq!([0, 2, 3, 5, 10, 11, 41, 101, 4000].map(round_up), [2, 2, 4, 10, 10, 20, 100, 200, 4000]);
    }

    #[test]
    fn each_day_has_a_bar_with_its_count() {
        let first = jiff::civil::date(1970, 1, 1);
        let days: Vec<_> = first.series(jiff::ToSpan::day(1)).take(30).zip(0..).collect();
        let svg = draw(&days);
        assert_eq!(svg.matches("<rect").count(), 30);
        assert!(svg.contains("<title>1970-01-30: 29</title>") && svg.contains(">01-30</text>"), "{svg}");
        assert!(svg.contains("height=\"0\"") && !svg.contains("style="));
        assert!(draw(&[]).ends_with("</svg>"));
    }
}
