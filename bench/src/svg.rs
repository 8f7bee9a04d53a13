//! SVG plots: bar charts and line plots, with light and dark colors.

use std::fmt::Write as _;

use crate::figures::{Curve, Spread, Table, Unit};

const WIDTH: f64 = 760.0;
/// Approximate width of a letter in labels.
const LETTER_WIDTH: f64 = 7.1;
const STYLE: &str = include_str!("svg.css");

/// Draws a bar for each median in the first column, with a line from minimum to maximum. `None` if the table
/// is not plotted, or has no value above zero.
pub fn draw_bars(table: &Table) -> Option<String> {
    let of = table.columns.first().filter(|_| table.is_plotted)?;
    let rows = table.rows.iter().filter_map(|row| Some((row.label.as_str(), *row.cells.first()?)));
    let rows: Vec<(&str, Spread)> = rows.collect();
    let most = rows.iter().map(|(_, spread)| spread.most).fold(0.0, f64::max);
    if rows.is_empty() || most <= 0.0 {
        return None;
    }
    let left = 24.0 + rows.iter().map(|(label, _)| text_width(label)).fold(0.0, f64::max);
    let values: Vec<String> = rows.iter().map(|(_, spread)| of.unit.format(spread.median)).collect();
    let right = 24.0 + values.iter().map(|value| text_width(value)).fold(0.0, f64::max);
    let scale = (WIDTH - left - right - 12.0) / most;
    let (top, step) = (62.0, 30.0);
    let height = top + step * rows.len() as f64 + 10.0;
    let mut svg = begin_svg(&table.title, height, &of.title);
    for (place, ((label, spread), value)) in rows.iter().zip(&values).enumerate() {
        let y = top + step * place as f64;
        let middle = y + 9.0;
        let length = spread.median * scale;
        let class = color_class(label, place);
        write_text(&mut svg, "", "end", left - 10.0, middle + 4.5, label);
        let _ = writeln!(
            svg,
            "<rect class=\"{class}\" x=\"{left:.1}\" y=\"{y:.1}\" width=\"{length:.1}\" height=\"18\" stroke=\"none\"/>"
        );
        if spread.least < spread.most {
            let (from, to) = (left + spread.least * scale, left + spread.most * scale);
            write_segment(&mut svg, "spread", (from, middle), (to, middle));
            for end in [from, to] {
                write_segment(&mut svg, "spread", (end, middle - 4.0), (end, middle + 4.0));
            }
        }
        let right = left + spread.most.max(spread.median) * scale;
        write_text(&mut svg, "", "start", right + 8.0, middle + 4.5, value);
    }
    svg += "</svg>\n";
    Some(svg)
}

/// Draws a line plot with the spread of each point. `None` if there is no value above zero.
pub fn draw_lines(curve: &Curve) -> Option<String> {
    let points = || curve.lines.iter().flat_map(|line| &line.points);
    let mut xs: Vec<f64> = points().map(|(x, _)| *x).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    let (least_x, most_x) = (*xs.first()?, *xs.last()?);
    let most_y = points().map(|(_, y)| y.most).fold(0.0, f64::max);
    if most_y <= 0.0 {
        return None;
    }
    let least_y = points().map(|(_, y)| y.least).filter(|least| *least > 0.0).fold(most_y, f64::min);
    let (height, top, bottom, right) = (420.0, 92.0, 360.0, WIDTH - 24.0);
    let ticks_y = if curve.log_y { powers_of_ten(least_y, most_y) } else { round_steps(most_y) };
    let left = 24.0 + ticks_y.iter().map(|tick| text_width(&curve.y.unit.format(*tick))).fold(0.0, f64::max);
    let y_of = |y: f64| if curve.log_y { y.max(ticks_y[0]).log10() } else { y };
    let (low, high) = (y_of(*ticks_y.first()?), y_of(*ticks_y.last()?));
    // The axis is logarithmic. Adds 1, because `x` can be zero.
    let x_of = |x: f64| (x + 1.0).log10();
    let x_range = (x_of(most_x) - x_of(least_x)).max(f64::MIN_POSITIVE);
    let x_at = |x: f64| left + (x_of(x) - x_of(least_x)) / x_range * (right - left);
    let y_at = |y: f64| bottom - (y_of(y) - low) / (high - low) * (bottom - top);
    let mut svg = begin_svg(&curve.title, height, &format!("{}: median, minimum and maximum", curve.y.title));
    for tick in &ticks_y {
        write_segment(&mut svg, "grid", (left, y_at(*tick)), (right, y_at(*tick)));
        write_text(&mut svg, "quiet", "end", left - 8.0, y_at(*tick) + 4.5, &curve.y.unit.format(*tick));
    }
    for x in &xs {
        let label = Unit::Count.format(*x);
        let anchor = if *x >= most_x { "end" } else { "middle" };
        write_segment(&mut svg, "grid", (x_at(*x), bottom), (x_at(*x), bottom + 5.0));
        write_text(&mut svg, "quiet", anchor, x_at(*x), bottom + 20.0, &label);
    }
    write_text(&mut svg, "quiet", "middle", f64::midpoint(left, right), bottom + 42.0, &curve.x);
    for (place, line) in curve.lines.iter().enumerate() {
        let class = color_class(&line.label, place);
        let points = line.points.iter().map(|(x, y)| format!("{:.1},{:.1}", x_at(*x), y_at(y.median)));
        let points = points.collect::<Vec<_>>().join(" ");
        let _ = writeln!(svg, "<polyline class=\"{class} line\" fill=\"none\" points=\"{points}\"/>");
        for (x, y) in &line.points {
            let (x, middle) = (x_at(*x), y_at(y.median));
            write_segment(&mut svg, class, (x, y_at(y.least)), (x, y_at(y.most)));
            let _ = writeln!(svg, "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{middle:.1}\" r=\"3\"/>");
        }
    }
    let mut x = left;
    for (place, line) in curve.lines.iter().enumerate() {
        let class = color_class(&line.label, place);
        let _ = writeln!(svg, "<rect class=\"{class}\" x=\"{x:.1}\" y=\"62\" width=\"12\" height=\"12\"/>");
        write_text(&mut svg, "", "start", x + 18.0, 73.0, &line.label);
        x += 42.0 + text_width(&line.label);
    }
    svg += "</svg>\n";
    Some(svg)
}

/// The CSS class for the color of a server or a line. A server has the same color in every plot.
fn color_class(label: &str, place: usize) -> &'static str {
    match label {
        "frontdesk" => "c0",
        label if label.starts_with("frontdesk") => "c1",
        label if label.starts_with("nginx") => "c2",
        "Caddy" | "Directus" => "c3",
        "yardstick" => "c5",
        "static-web-server" => "c4",
        _ => ["c0", "c2", "c3", "c4", "c1", "c5"][place % 6],
    }
}

/// The powers of ten around a range: at least two.
fn powers_of_ten(least: f64, most: f64) -> Vec<f64> {
    let (from, to) = (least.log10().floor() as i32, most.log10().ceil() as i32);
    (from..=to.max(from + 1)).map(|power| 10_f64.powi(power)).collect()
}

/// Axis ticks in five steps of a round size, from zero to at least `most`.
fn round_steps(most: f64) -> Vec<f64> {
    let power = 10_f64.powf((most / 5.0).log10().floor());
    let factor =
        [1.0, 2.0, 5.0, 10.0].into_iter().find(|factor| factor * power * 5.0 >= most).unwrap_or(10.0);
    (0..=5).map(|step| f64::from(step) * factor * power).collect()
}

/// Begins an SVG with its style, background, title and subtitle.
fn begin_svg(title: &str, height: f64, subtitle: &str) -> String {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" role=\"img\" \
         aria-label=\"{}\">\n<style>\n{STYLE}</style>\n<rect class=\"ground\" width=\"100%\" height=\"100%\"/>\n",
        escape_xml(title)
    );
    write_text(&mut svg, "title", "start", 12.0, 26.0, title);
    write_text(&mut svg, "quiet", "start", 12.0, 46.0, subtitle);
    svg
}

fn write_text(svg: &mut String, class: &str, anchor: &str, x: f64, y: f64, words: &str) {
    let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
    let _ = writeln!(
        svg,
        "<text{class} text-anchor=\"{anchor}\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>",
        escape_xml(words)
    );
}

fn write_segment(svg: &mut String, class: &str, from: (f64, f64), to: (f64, f64)) {
    let _ = writeln!(
        svg,
        "<line class=\"{class}\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>",
        from.0, from.1, to.0, to.1
    );
}

fn text_width(words: &str) -> f64 {
    words.chars().count() as f64 * LETTER_WIDTH
}

fn escape_xml(words: &str) -> String {
    words.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Row;

    #[test]
    fn bar_lengths_are_proportional() {
        let row = |label: &str, value| Row::new(label, [Spread::exactly(value)]);
        let rows = [row("frontdesk", 200.0), row("nginx", 100.0)];
        let table = Table::new("", "a < b", "", [("c", Unit::Count)], rows).plotted();
        let svg = draw_bars(&table).expect("a plot");
        let lengths: Vec<f64> = svg
            .split("<rect class=\"c")
            .skip(1)
            .filter_map(|rect| rect.split("width=\"").nth(1)?.split('"').next()?.parse().ok())
            .collect();
        assert!((lengths[0] - 2.0 * lengths[1]).abs() < 0.2, "{lengths:?}");
        assert!(svg.contains("a &lt; b") && !svg.contains("a < b"));
    }

    #[test]
    fn an_empty_table_has_no_plot() {
        assert_eq!(draw_bars(&Table::default()), None);
    }

    #[test]
    fn axis_steps_are_round_and_cover_the_values() {
        assert_eq!(round_steps(93.0), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(round_steps(260_000.0).last(), Some(&500_000.0));
        assert_eq!(powers_of_ten(0.3, 40.0), [0.1, 1.0, 10.0, 100.0]);
    }
}
