//! A picture as SVG inside a page: text stays text, and colours are classes, so that the page decides between light and dark.

use std::fmt::Write as _;

use plotters::style::RGBColor;

use super::palette;
use super::picture::{Anchor, Form, Picture, STROKE, Shape};
use crate::report::page::markup::escaped;

/// Mean width of a letter over the size of the font, in the widest of the usual fonts (DejaVu Sans: 0.58 over the labels used here).
const WIDEST_LETTER: f64 = 0.6;

/// Colours that a page knows by name.
const NAMED: [(RGBColor, &str); 10] = [
    (palette::BLUE, "blue"),
    (palette::VERMILLION, "vermillion"),
    (palette::GREEN, "green"),
    (palette::PURPLE, "purple"),
    (palette::ORANGE, "orange"),
    (palette::SKY, "sky"),
    (palette::INK, "ink"),
    (palette::FAINT, "faint"),
    (palette::GRID, "grid"),
    (palette::BAND, "band"),
];

impl Picture {
    /// An `svg` element called `id`, with `title` and `description` for who cannot see it. Its colours are classes `c-NAME` that set `color`
    /// (`blue`, `vermillion`, `green`, `purple`, `orange`, `sky`, `ink`, `faint`, `grid`, `band`); others are given as numbers.
    pub fn to_inline_svg(&self, id: &str, title: &str, description: &str) -> String {
        let (height, id) = (self.height, escaped(id));
        let (left, right) = self.extent();
        let width = left + right;
        let start = if left > 0 { format!("-{left}") } else { "0".to_owned() };
        let mut text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"{start} 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"img\" \
             aria-labelledby=\"{id}-title {id}-description\"><title id=\"{id}-title\">{}</title><desc id=\"{id}-description\">{}</desc>\n",
            escaped(title),
            escaped(description)
        );
        for shape in &self.shapes {
            // Writing to a text cannot fail.
            let _ = push_shape(&mut text, shape);
        }
        text.push_str("</svg>\n");
        text
    }

    /// How far the picture reaches to the left of 0, and to the right, so that no text is cut off: the fonts of a page are its reader's.
    fn extent(&self) -> (u32, u32) {
        let (mut left, mut right) = (0.0f64, f64::from(self.width));
        for shape in &self.shapes {
            let Shape::Text { at: (x, _), text, size, anchor, .. } = shape else { continue };
            let length = WIDEST_LETTER * size * text.chars().count() as f64;
            let (before, after) = match anchor {
                Anchor::Left => (0.0, length),
                Anchor::Centre => (0.5 * length, 0.5 * length),
                Anchor::Right => (length, 0.0),
                Anchor::Upwards => (0.5 * size, 0.5 * size),
            };
            left = left.max(before - x);
            right = right.max(x + after);
        }
        (left.ceil() as u32, right.ceil() as u32)
    }
}

/// `class="c-blue"`, or `color="#rrggbb"`, with a space before it.
fn colour(wanted: &RGBColor) -> String {
    match NAMED.iter().find(|(known, _)| known == wanted) {
        Some((_, name)) => format!(" class=\"c-{name}\""),
        None => format!(" color=\"#{:02x}{:02x}{:02x}\"", wanted.0, wanted.1, wanted.2),
    }
}

/// A length with two decimals at most: a hundredth of a unit cannot be seen.
fn length(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn places(points: &[(f64, f64)]) -> String {
    points.iter().map(|(x, y)| format!("{},{}", length(*x), length(*y))).collect::<Vec<_>>().join(" ")
}

fn push_shape(text: &mut String, shape: &Shape) -> std::fmt::Result {
    match shape {
        Shape::Line { points, colour: of, width } => writeln!(
            text,
            "<polyline{} points=\"{}\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"{}\"/>",
            colour(of),
            places(points),
            length(*width)
        ),
        Shape::Area { points, colour: of } => {
            writeln!(text, "<polygon{} points=\"{}\" fill=\"currentColor\"/>", colour(of), places(points))
        }
        Shape::Mark { at: (x, y), marker, colour: of, size } => {
            let around = |offsets: &[(f64, f64)]| {
                let around = offsets.iter().map(|(right, down)| (x + size * right, y + size * down));
                places(&around.collect::<Vec<_>>())
            };
            match marker.form() {
                Form::Disc(radius) => writeln!(
                    text,
                    "<circle{} cx=\"{}\" cy=\"{}\" r=\"{}\" fill=\"currentColor\"/>",
                    colour(of),
                    length(*x),
                    length(*y),
                    length(radius * size)
                ),
                Form::Filled(corners) => {
                    writeln!(text, "<polygon{} points=\"{}\" fill=\"currentColor\"/>", colour(of), around(corners))
                }
                Form::Strokes(strokes) => strokes.iter().try_for_each(|stroke| {
                    writeln!(
                        text,
                        "<polyline{} points=\"{}\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"{}\"/>",
                        colour(of),
                        around(stroke),
                        length(size * STROKE)
                    )
                }),
            }
        }
        Shape::Text { at: (x, y), text: words, size, anchor, colour: of } => {
            let side = match anchor {
                Anchor::Left => "start",
                Anchor::Centre | Anchor::Upwards => "middle",
                Anchor::Right => "end",
            };
            let (x, y) = (length(*x), length(*y));
            let turned = match anchor {
                Anchor::Upwards => format!(" transform=\"rotate(-90 {x} {y})\""),
                _ => String::new(),
            };
            // The baseline lowered by a third of the size centres small letters on the point.
            writeln!(
                text,
                "<text{} x=\"{x}\" y=\"{y}\" dy=\"0.35em\" font-size=\"{}\" text-anchor=\"{side}\" fill=\"currentColor\"{turned}>{}</text>",
                colour(of),
                length(*size),
                escaped(words)
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::picture::Marker;
    use super::*;

    #[test]
    fn shapes_are_elements_of_svg_with_colours_of_the_page() {
        let mut picture = Picture::new(31, 17);
        picture.line(&[(1.0, 2.0), (3.456, 4.0)], palette::BLUE, 1.5);
        picture.mark((5.0, 6.0), Marker::Circle, RGBColor(1, 2, 255));
        picture.text((7.0, 8.0), "a < b", 14.0, Anchor::Upwards, palette::INK);
        let svg = picture.to_inline_svg("p1", "A & B", "what <is> seen");
        // SVG 1.1 (W3C 2011), sections 9.3, 9.6 and 10.4, written by hand.
        for part in [
            "viewBox=\"0 0 31 17\"",
            "aria-labelledby=\"p1-title p1-description\"",
            "<title id=\"p1-title\">A &amp; B</title>",
            "what &lt;is&gt; seen",
            "<polyline class=\"c-blue\" points=\"1,2 3.46,4\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"1.5\"/>",
            "<circle color=\"#0102ff\" cx=\"5\" cy=\"6\" r=\"4.5\" fill=\"currentColor\"/>",
            "text-anchor=\"middle\" fill=\"currentColor\" transform=\"rotate(-90 7 8)\">a &lt; b</text>",
        ] {
            assert!(svg.contains(part), "{part} in {svg}");
        }
    }

    #[test]
    fn a_text_longer_than_its_side_widens_the_picture() {
        let mut picture = Picture::new(120, 17);
        // Forty letters of 6 units end at 100: they begin at -140; thirty from 100 on end at 280.
        picture.text((100.0, 8.0), "x".repeat(40), 10.0, Anchor::Right, palette::INK);
        picture.text((100.0, 8.0), "x".repeat(30), 10.0, Anchor::Left, palette::INK);
        let svg = picture.to_inline_svg("p", "t", "d");
        assert!(svg.contains("viewBox=\"-140 0 420 17\" width=\"420\""), "{svg}");
    }
}
