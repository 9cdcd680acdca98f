//! Charts with horizontal bars, as SVG.

use std::fmt::Write as _;

/// A bar, or one for each of several series.
pub(super) struct Bar {
    pub(super) name: String,
    /// The length of each bar, and the text at its end.
    pub(super) values: Vec<(f64, String)>,
    /// The place of a mark across the bars.
    pub(super) target: Option<f64>,
}

const WIDTH: f64 = 760.0;
/// The place where bars begin: the longest name fits before it.
const LEFT: f64 = 330.0;
/// The longest bar: the longest number fits behind it.
const LENGTH: f64 = 350.0;
const HEIGHT: f64 = 14.0;
/// The longest name, in characters.
const NAME_MAX: usize = 50;
const COLOURS: [&str; 2] = ["#2a6fb0", "#b9b9b9"];

/// Draws bars from zero on one scale, with a legend if the series have names.
pub(super) fn svg(title: &str, series: &[&str], bars: &[Bar]) -> String {
    let values =
        bars.iter().flat_map(|bar| bar.values.iter().map(|(value, _)| *value).chain(bar.target));
    let most = values.fold(0.0, f64::max);
    let scale = if most > 0.0 { LENGTH / most } else { 0.0 };
    let mut body = String::new();
    text(&mut body, WIDTH / 2.0, 20.0, "middle", title);
    let mut y = 34.0;
    for (name, colour) in series.iter().zip(COLOURS) {
        rectangle(&mut body, (LEFT, y, 10.0, 10.0), colour);
        text(&mut body, LEFT + 16.0, y + 9.0, "start", name);
        y += 16.0;
    }
    for bar in bars {
        let height = HEIGHT * bar.values.len().max(1) as f64;
        let name: String = bar.name.chars().take(NAME_MAX).collect();
        text(&mut body, LEFT - 8.0, y + height / 2.0 + 4.0, "end", &name);
        for (at, ((value, label), colour)) in bar.values.iter().zip(COLOURS).enumerate() {
            let top = y + HEIGHT * at as f64;
            let length = (value * scale).max(0.0);
            rectangle(&mut body, (LEFT, top, length, HEIGHT - 2.0), colour);
            text(&mut body, LEFT + length + 5.0, top + HEIGHT - 4.0, "start", label);
        }
        if let Some(target) = bar.target {
            let x = LEFT + target * scale;
            rectangle(&mut body, (x - 1.0, y - 2.0, 2.0, height + 2.0), "#c0392b");
        }
        y += height + 8.0;
    }
    if bars.iter().any(|bar| bar.target.is_some()) {
        rectangle(&mut body, (LEFT, y, 2.0, 12.0), "#c0392b");
        text(&mut body, LEFT + 8.0, y + 10.0, "start", "target");
        y += 16.0;
    }
    let height = y + 6.0;
    format!(
        "<svg width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" \
         xmlns=\"http://www.w3.org/2000/svg\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>\n{body}</svg>\n"
    )
}

fn rectangle(body: &mut String, (x, y, width, height): (f64, f64, f64, f64), colour: &str) {
    let (x, width) = (format!("{x:.1}"), format!("{width:.1}"));
    writeln!(
        body,
        "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"{colour}\"/>"
    )
    .expect("there is memory");
}

fn text(body: &mut String, x: f64, y: f64, anchor: &str, text: &str) {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    writeln!(body, "<text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"{anchor}\">{text}</text>")
        .expect("there is memory");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_have_one_scale() {
        let bar = |name: &str, value: f64, target| Bar {
            name: name.to_owned(),
            values: vec![(value, value.to_string())],
            target,
        };
        let drawn = svg("A & B", &[], &[bar("one", 2.0, Some(4.0)), bar("two", 1.0, None)]);
        assert!(drawn.contains("width=\"175.0\"") && drawn.contains("width=\"87.5\""), "{drawn}");
        assert!(drawn.contains("A &amp; B") && drawn.contains(">target<"));
        assert!(!svg("", &[], &[]).contains("NaN"));
    }
}
