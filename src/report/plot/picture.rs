//! A picture as a list of shapes, and its two file types.

use std::io::{self, Write};
use std::sync::OnceLock;

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{FontStyle, FontTransform, register_font};

use super::PictureFormat;

/// DejaVu Sans, cut down to Latin, Greek, digits above and below the line and the signs used here; see data/fonts.
static FONT: &[u8] = include_bytes!("../../../data/fonts/DejaVuSans-subset.ttf");

/// Pixels of a PNG per unit of length.
const DENSITY: u32 = 2;

/// How a file type differs from the other.
#[derive(Clone, Copy, Debug)]
struct Medium {
    /// Pixels for each unit of length.
    density: f64,
    /// By how much of its size a text must be lowered to stand centred on its point: in pixels, plotters centres the box
    /// of the line, which reaches higher above the small letters than below them; SVG centres the small letters.
    text_drop: f64,
}

/// Where a text stands with respect to its point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Anchor {
    /// To the right of the point, at its height.
    Left,
    /// Centred on the point.
    Centre,
    /// To the left of the point, at its height.
    Right,
    /// Centred on the point and read from below.
    Upwards,
}

/// The form of a data point: series differ in form and not only in colour.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Marker {
    Circle,
    Square,
    Triangle,
    Diamond,
    TriangleDown,
    /// Two strokes, for what is not there: an answer that never came.
    Cross,
    /// A short horizontal bar, for what a column is held against.
    Bar,
}

impl Marker {
    /// The marker of series number `index`.
    pub fn of(index: usize) -> Self {
        [Self::Circle, Self::Square, Self::Triangle, Self::Diamond, Self::TriangleDown, Self::Cross][index % 6]
    }
}

/// Width of the strokes of a mark that is not filled.
pub(super) const STROKE: f64 = 2.5;

/// What a mark of the usual size is made of, about its place.
pub(super) enum Form {
    /// A disc of this radius.
    Disc(f64),
    /// A polygon.
    Filled(&'static [(f64, f64)]),
    /// Lines of the width [`STROKE`].
    Strokes(&'static [[(f64, f64); 2]]),
}

impl Marker {
    /// What it is made of.
    pub(super) fn form(self) -> Form {
        match self {
            Self::Circle => Form::Disc(4.5),
            Self::Square => Form::Filled(&[(-4.0, -4.0), (4.0, -4.0), (4.0, 4.0), (-4.0, 4.0)]),
            Self::Triangle => Form::Filled(&[(0.0, -5.5), (5.0, 4.0), (-5.0, 4.0)]),
            Self::TriangleDown => Form::Filled(&[(0.0, 5.5), (5.0, -4.0), (-5.0, -4.0)]),
            Self::Diamond => Form::Filled(&[(0.0, -5.5), (5.5, 0.0), (0.0, 5.5), (-5.5, 0.0)]),
            Self::Cross => Form::Strokes(&[[(-4.5, -4.5), (4.5, 4.5)], [(-4.5, 4.5), (4.5, -4.5)]]),
            Self::Bar => Form::Strokes(&[[(-7.0, 0.0), (7.0, 0.0)]]),
        }
    }
}

/// The form of a line: as [`Marker`], so that lines can be told apart without colour.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Dash {
    Solid,
    Dashed,
    Dotted,
    LongShort,
    LongDashed,
    LongShortShort,
}

impl Dash {
    /// The form of series number `index`.
    pub fn of(index: usize) -> Self {
        [Self::Solid, Self::Dashed, Self::Dotted, Self::LongShort, Self::LongDashed, Self::LongShortShort][index % 6]
    }

    /// Lengths of stroke and gap in turn.
    fn lengths(self) -> &'static [f64] {
        match self {
            Self::Solid => &[],
            Self::Dashed => &[9.0, 5.0],
            Self::Dotted => &[2.0, 4.0],
            Self::LongShort => &[9.0, 4.0, 2.0, 4.0],
            Self::LongDashed => &[18.0, 6.0],
            Self::LongShortShort => &[9.0, 4.0, 2.0, 3.0, 2.0, 4.0],
        }
    }
}

/// The strokes of a polygonal line: the pattern runs on around its corners.
fn strokes(points: &[(f64, f64)], lengths: &[f64]) -> Vec<[(f64, f64); 2]> {
    let (mut strokes, mut index, mut left) = (Vec::new(), 0, lengths.first().copied().unwrap_or(f64::INFINITY));
    for piece in points.windows(2) {
        let ((x, y), (end_x, end_y)) = (piece[0], piece[1]);
        let length = (end_x - x).hypot(end_y - y);
        let at = |way: f64| (x + (end_x - x) * way / length, y + (end_y - y) * way / length);
        let mut way = 0.0;
        while way < length {
            let step = left.min(length - way);
            if index % 2 == 0 {
                strokes.push([at(way), at(way + step)]);
            }
            (way, left) = (way + step, left - step);
            if left <= 0.0 {
                index = (index + 1) % lengths.len();
                left = lengths[index];
            }
        }
    }
    strokes
}

/// Something to draw; lengths in units of the picture, the origin at the top left.
#[derive(Clone, Debug)]
pub enum Shape {
    Line { points: Vec<(f64, f64)>, colour: RGBColor, width: f64 },
    Area { points: Vec<(f64, f64)>, colour: RGBColor },
    Mark { at: (f64, f64), marker: Marker, colour: RGBColor, size: f64 },
    Text { at: (f64, f64), text: String, size: f64, anchor: Anchor, colour: RGBColor },
}

/// Shapes in the order they are painted.
#[derive(Clone, Debug)]
pub struct Picture {
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) shapes: Vec<Shape>,
}

impl Picture {
    /// An empty, white picture.
    pub fn new(width: u32, height: u32) -> Self {
        Self { width, height, shapes: Vec::new() }
    }

    /// Its height in units.
    pub fn height(&self) -> u32 {
        self.height
    }

    /// Adds a polygonal line.
    pub fn line(&mut self, points: &[(f64, f64)], colour: RGBColor, width: f64) {
        self.shapes.push(Shape::Line { points: points.to_vec(), colour, width });
    }

    /// Adds a polygonal line in strokes.
    pub fn dashed(&mut self, points: &[(f64, f64)], colour: RGBColor, width: f64, dash: Dash) {
        match dash {
            Dash::Solid => self.line(points, colour, width),
            _ => strokes(points, dash.lengths()).iter().for_each(|stroke| self.line(stroke, colour, width)),
        }
    }

    /// Adds a filled rectangle by two corners.
    pub fn rectangle(&mut self, (left, top): (f64, f64), (right, bottom): (f64, f64), colour: RGBColor) {
        self.shapes
            .push(Shape::Area { points: vec![(left, top), (right, top), (right, bottom), (left, bottom)], colour });
    }

    /// Adds a data point.
    pub fn mark(&mut self, at: (f64, f64), marker: Marker, colour: RGBColor) {
        self.sized_mark(at, marker, colour, 1.0);
    }

    /// Adds a data point of `size` times the usual size.
    pub fn sized_mark(&mut self, at: (f64, f64), marker: Marker, colour: RGBColor, size: f64) {
        self.shapes.push(Shape::Mark { at, marker, colour, size });
    }

    /// Adds a data point on a piece of its line: the legend of a series with both.
    pub fn sample(&mut self, (x, y): (f64, f64), index: usize, colour: RGBColor) {
        self.dashed(&[(x - 18.0, y), (x + 18.0, y)], colour, 1.5, Dash::of(index));
        self.mark((x, y), Marker::of(index), colour);
    }

    /// Adds a text.
    pub fn text(&mut self, at: (f64, f64), text: impl Into<String>, size: f64, anchor: Anchor, colour: RGBColor) {
        self.shapes.push(Shape::Text { at, text: text.into(), size, anchor, colour });
    }

    /// Writes the picture in a file type.
    ///
    /// # Errors
    /// `output` fails.
    pub fn write(&self, format: PictureFormat, mut output: impl Write) -> io::Result<()> {
        match format {
            PictureFormat::Svg => output.write_all(self.to_svg()?.as_bytes())?,
            PictureFormat::Png => output.write_all(&self.to_png()?)?,
        }
        output.flush()
    }

    /// The picture as an SVG document.
    ///
    /// # Errors
    /// The drawing library fails; no input is known that makes it.
    pub fn to_svg(&self) -> io::Result<String> {
        let mut document = String::new();
        let medium = Medium { density: 1.0, text_drop: 0.0 };
        self.paint(SVGBackend::with_string(&mut document, (self.width, self.height)), medium)?;
        Ok(document)
    }

    /// The picture as the bytes of a PNG, two pixels a unit.
    ///
    /// # Errors
    /// As [`Picture::to_svg`].
    pub fn to_png(&self) -> io::Result<Vec<u8>> {
        let (width, height) = (self.width * DENSITY, self.height * DENSITY);
        let mut pixels = vec![255; width as usize * height as usize * 3];
        let medium = Medium { density: f64::from(DENSITY), text_drop: 0.12 };
        self.paint(BitMapBackend::with_buffer(&mut pixels, (width, height)), medium)?;
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, width, height);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        let mut writer = encoder.write_header().map_err(io::Error::other)?;
        writer.write_image_data(&pixels).map_err(io::Error::other)?;
        writer.finish().map_err(io::Error::other)?;
        Ok(bytes)
    }

    fn paint<B: DrawingBackend>(&self, backend: B, medium: Medium) -> io::Result<()> {
        ensure_font()?;
        let area = backend.into_drawing_area();
        let result = || -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
            area.fill(&WHITE)?;
            for shape in &self.shapes {
                paint_shape(&area, shape, medium)?;
            }
            area.present()
        };
        result().map_err(|error| io::Error::other(format!("the picture cannot be drawn: {error}")))
    }
}

/// The width of a text of this size, as it is drawn.
pub fn width_of(text: &str, size: f64) -> f64 {
    // Measured large: plotters counts whole pixels.
    const FINE: f64 = 16.0;
    let measured = ensure_font().ok().and_then(|()| ("sans-serif", FINE * size).into_font().box_size(text).ok());
    measured.map_or(0.6 * size * text.chars().count() as f64, |(width, _)| f64::from(width) / FINE)
}

/// plotters knows no font of its own without the system's libraries.
fn ensure_font() -> io::Result<()> {
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    let good = *REGISTERED.get_or_init(|| register_font("sans-serif", FontStyle::Normal, FONT).is_ok());
    if good { Ok(()) } else { Err(io::Error::other("the built-in font cannot be read")) }
}

type Canvas<B> = DrawingArea<B, plotters::coord::Shift>;

fn paint_shape<B: DrawingBackend>(
    area: &Canvas<B>,
    shape: &Shape,
    medium: Medium,
) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
    let Medium { density, text_drop } = medium;
    let pixel = |length: f64| (length * density).round() as i32;
    let place = |&(x, y): &(f64, f64)| (pixel(x), pixel(y));
    match shape {
        Shape::Line { points, colour, width } => {
            let style = ShapeStyle {
                color: colour.to_rgba(),
                filled: false,
                stroke_width: pixel(*width).max(1).unsigned_abs(),
            };
            // Piece by piece: in pixels, plotters slants the first and last piece of a thick line of several.
            for piece in points.windows(2) {
                area.draw(&PathElement::new(piece.iter().map(place).collect::<Vec<_>>(), style))?;
            }
            Ok(())
        }
        Shape::Area { points, colour } => {
            area.draw(&Polygon::new(points.iter().map(place).collect::<Vec<_>>(), colour.filled()))
        }
        Shape::Mark { at: (x, y), marker, colour, size } => {
            let around = |offsets: &[(f64, f64)]| {
                offsets.iter().map(|(right, down)| place(&(x + size * right, y + size * down))).collect::<Vec<_>>()
            };
            match marker.form() {
                Form::Disc(radius) => area.draw(&Circle::new(place(&(*x, *y)), pixel(radius * size), colour.filled())),
                Form::Filled(corners) => area.draw(&Polygon::new(around(corners), colour.filled())),
                Form::Strokes(strokes) => strokes.iter().try_for_each(|stroke| {
                    let style = colour.stroke_width(pixel(size * STROKE).max(1).unsigned_abs());
                    area.draw(&PathElement::new(around(stroke), style))
                }),
            }
        }
        Shape::Text { at, text, size, anchor, colour } => {
            let font = ("sans-serif", size * density).into_font();
            let (font, horizontal) = match anchor {
                Anchor::Left => (font, HPos::Left),
                Anchor::Centre => (font, HPos::Center),
                Anchor::Right => (font, HPos::Right),
                Anchor::Upwards => (font.transform(FontTransform::Rotate270), HPos::Center),
            };
            let style = TextStyle::from(font).color(colour).pos(Pos::new(horizontal, VPos::Center));
            let drop = text_drop * size;
            let (right, down) = if *anchor == Anchor::Upwards { (drop, 0.0) } else { (0.0, drop) };
            area.draw(&Text::new(text.as_str(), place(&(at.0 + right, at.1 + down)), style))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strokes_keep_their_lengths_around_a_corner() {
        // A path of length 20 in an L, stroke 9 and gap 5: strokes from 0 to 9 and from 14 to 20, the corner at 7.
        let found = strokes(&[(0.0, 0.0), (7.0, 0.0), (7.0, 13.0)], Dash::Dashed.lengths());
        assert_eq!(found, [[(0.0, 0.0), (7.0, 0.0)], [(7.0, 0.0), (7.0, 2.0)], [(7.0, 7.0), (7.0, 13.0)]]);
    }

    #[test]
    fn a_solid_line_and_a_line_without_length_are_no_strokes_of_their_own() {
        let mut picture = Picture::new(11, 13);
        picture.dashed(&[(1.0, 1.0), (5.0, 7.0)], BLACK, 1.0, Dash::Solid);
        assert_eq!(picture.shapes.len(), 1);
        picture.dashed(&[(1.0, 1.0), (1.0, 1.0)], BLACK, 1.0, Dash::Dotted);
        assert_eq!(picture.shapes.len(), 1, "no stroke of no length");
    }

    #[test]
    fn a_text_is_as_wide_as_its_letters() {
        // Advances in data/fonts/DejaVuSans-subset.ttf (fontTools): i 569, W 2025; a size is the height of the line, 2384.
        for (text, advance) in [("iiiiiiiiiii", 569.0), ("WWWWWWWWWWW", 2025.0)] {
            let expected = 11.0 * 14.0 * advance / 2384.0;
            // The box leaves out what is empty beside the first and last letter, at most half a letter.
            assert!(
                (width_of(text, 14.0) - expected).abs() < 0.5 * expected / 11.0,
                "{text}: {}",
                width_of(text, 14.0)
            );
        }
    }

    #[test]
    fn as_many_series_as_there_are_colours_differ_in_marker_and_in_dash() {
        let count = super::super::palette::SERIES.len();
        for (one, other) in (0..count).flat_map(|one| (0..one).map(move |other| (one, other))) {
            assert_ne!(Marker::of(one), Marker::of(other), "{one} and {other}");
            assert_ne!(Dash::of(one), Dash::of(other), "{one} and {other}");
        }
    }
}
