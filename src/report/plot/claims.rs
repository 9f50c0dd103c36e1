//! One line per claim: how far it is from theory, in units of the smallest deviation the run could detect.

use super::axis::{Axis, linear_ticks};
use super::palette::{BAND, FAINT, GRID, INK};
use super::picture::{Anchor, Picture, width_of};
use super::standing::{Standing, shortened};
use super::{conditions, scale_words};
use crate::report::number::{significant, trimmed};
use crate::report::row::Row;

/// Where the names of the claims stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Labels {
    /// Left of the axis.
    Beside,
    /// Above each line: a narrow picture, for a page that is read on a phone too.
    Above,
}

impl Labels {
    fn width(self) -> u32 {
        match self {
            Self::Beside => 800,
            Self::Above => 560,
        }
    }

    /// Right end of the axis.
    fn right(self) -> f64 {
        f64::from(self.width()) - 120.0
    }

    /// Height of a claim.
    fn step(self) -> f64 {
        match self {
            Self::Beside => 26.0,
            Self::Above => 36.0,
        }
    }

    /// From the top of a claim to its marks.
    fn mark(self) -> f64 {
        match self {
            Self::Beside => 13.0,
            Self::Above => 26.0,
        }
    }
}

/// The names of the claims have as much room as they need, up to this.
const WIDEST_LABEL: f64 = 340.0;
const TOP: f64 = 66.0;
/// Deviations beyond this many detectable ones are drawn at the edge, with their value.
const LARGEST: f64 = 4.0;

/// More claims than this make a picture nobody reads, and a PNG of hundreds of megabytes in memory.
const MOST: usize = 60;

/// A claim in units of its smallest detectable deviation.
struct Claim<'a> {
    row: &'a Row,
    deviation: f64,
    interval: Option<(f64, f64)>,
}

/// The picture of all claims, or nothing if no row has a deviation and a smallest detectable one.
pub fn draw(rows: &[Row]) -> Option<Picture> {
    drawn(rows, Labels::Beside)
}

/// The same, so narrow that it can be read on a phone.
pub fn narrow(rows: &[Row]) -> Option<Picture> {
    drawn(rows, Labels::Above)
}

fn drawn(rows: &[Row], labels: Labels) -> Option<Picture> {
    let found: Vec<Claim> = rows.iter().filter_map(claim).collect();
    let (count, claims) = (found.len(), largest(found));
    if claims.is_empty() {
        return None;
    }
    let all: Vec<&Row> = claims.iter().map(|claim| claim.row).collect();
    let bottom = TOP + labels.step() * claims.len() as f64;
    let mut picture = Picture::new(labels.width(), (bottom + 66.0) as u32);
    let title = if count > claims.len() {
        format!("Deviation from theory, the {} largest of {count} claims", claims.len())
    } else {
        "Deviation from theory, claim by claim".to_owned()
    };
    picture.text((20.0, 22.0), title, 20.0, Anchor::Left, INK);
    picture.text((20.0, 45.0), conditions(&all), 14.0, Anchor::Left, FAINT);
    let reach = claims
        .iter()
        .flat_map(|claim| [claim.deviation, claim.interval.map_or(0.0, |(low, high)| low.abs().max(high.abs()))]);
    let reach = 1.1 * reach.fold(1.2, |reach: f64, value| reach.max(value.abs())).min(LARGEST);
    let with_dimension = several_dimensions(&all);
    let widest = all.iter().map(|row| width_of(&label(row, with_dimension), 14.0)).fold(120.0, f64::max);
    let start = match labels {
        Labels::Beside => 30.0 + widest.min(WIDEST_LABEL),
        Labels::Above => 20.0,
    };
    let axis = Axis { low: -reach, high: reach, start, end: labels.right() };
    background(&mut picture, &axis, labels, bottom);
    for (index, claim) in claims.iter().enumerate() {
        one(&mut picture, claim, &axis, (labels, TOP + labels.step() * index as f64), with_dimension);
    }
    Some(picture)
}

/// The claims farthest from theory, in the order they came.
fn largest(mut claims: Vec<Claim>) -> Vec<Claim> {
    let mut sizes: Vec<f64> = claims.iter().map(|claim| claim.deviation.abs()).collect();
    sizes.sort_by(|left, right| right.total_cmp(left));
    if let Some(&bound) = sizes.get(MOST - 1) {
        claims.retain(|claim| claim.deviation.abs() >= bound);
        // Ties at the bound.
        claims.truncate(MOST);
    }
    claims
}

fn several_dimensions(rows: &[&Row]) -> bool {
    rows.iter().any(|row| row.d_k != rows[0].d_k)
}

fn claim(row: &Row) -> Option<Claim<'_>> {
    let finite = |value: Option<f64>| value.filter(|number| number.is_finite());
    let detectable = finite(row.min_detectable).filter(|value| *value > 0.0)?;
    let deviation = finite(row.deviation)?;
    let (estimate, theory) = (finite(row.estimate)?, finite(row.theory)?);
    // The unit of the deviation is |theory| or the natural scale of the statistic: a deviation that is not 0 tells which.
    let told = Some((estimate - theory) / deviation).filter(|unit| unit.is_finite() && *unit > 0.0);
    let unit = told.or(Some(theory.abs()).filter(|unit| *unit > 0.0));
    let relative = |limit: f64| unit.map(|unit| (limit - theory) / unit / detectable);
    let interval = finite(row.ci_low).and_then(relative).zip(finite(row.ci_high).and_then(relative));
    Some(Claim { row, deviation: deviation / detectable, interval })
}

/// Statistic, scale, and d_k where it is not the same in all rows.
fn label(row: &Row, with_dimension: bool) -> String {
    let dimension = row.d_k.filter(|_| with_dimension).map(|value| format!("d_k = {value}"));
    [Some(row.name()), scale_words(row), dimension].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn background(picture: &mut Picture, axis: &Axis, labels: Labels, bottom: f64) {
    let right = labels.right();
    picture.rectangle((axis.at(-1.0), TOP), (axis.at(1.0), bottom), BAND);
    for tick in linear_ticks(axis.low, axis.high, 6) {
        let x = axis.at(tick);
        picture.line(&[(x, TOP), (x, bottom)], GRID, 1.0);
        let sign = if tick > 0.0 { "+" } else { "" };
        picture.text(
            (x, bottom + 14.0),
            format!("{sign}{}", trimmed(&significant(tick, 2))),
            14.0,
            Anchor::Centre,
            INK,
        );
    }
    picture.line(&[(axis.at(0.0), TOP), (axis.at(0.0), bottom)], FAINT, 1.5);
    picture.line(
        &[(axis.start, TOP), (axis.start, bottom), (right, bottom), (right, TOP), (axis.start, TOP)],
        FAINT,
        1.0,
    );
    let words = match labels {
        Labels::Beside => "deviation ÷ smallest detectable deviation (shaded: less than 1); bars: 95 % intervals",
        Labels::Above => "deviation ÷ smallest detectable (shaded: below 1); bars: 95 %",
    };
    picture.text((0.5 * f64::from(labels.width()), bottom + 42.0), words, 15.0, Anchor::Centre, INK);
}

fn one(picture: &mut Picture, claim: &Claim, axis: &Axis, (labels, top): (Labels, f64), with_dimension: bool) {
    let (y, right) = (top + labels.mark(), labels.right());
    let standing = Standing::from(claim.row.verdict);
    let (colour, marker) = (standing.colour(), standing.marker());
    let label = shortened(&label(claim.row, with_dimension), WIDEST_LABEL, 14.0);
    match labels {
        Labels::Beside => picture.text((axis.start - 10.0, y), label, 14.0, Anchor::Right, INK),
        Labels::Above => picture.text((axis.start + 6.0, top + 11.0), label, 14.0, Anchor::Left, INK),
    }
    picture.text((right + 20.0, y), claim.row.verdict.mark(), 15.0, Anchor::Centre, colour);
    picture.text((right + 32.0, y), claim.row.verdict.to_string(), 14.0, Anchor::Left, INK);
    if let Some((low, high)) = claim.interval {
        picture.line(&[(axis.clamped(low), y), (axis.clamped(high), y)], colour, 2.0);
    }
    picture.mark((axis.clamped(claim.deviation), y), marker, colour);
    let number = significant(claim.deviation, 2);
    if claim.deviation > axis.high {
        picture.text((right - 12.0, y), format!("{number} →"), 14.0, Anchor::Right, INK);
    } else if claim.deviation < axis.low {
        picture.text((axis.start + 12.0, y), format!("← {number}"), 14.0, Anchor::Left, INK);
    }
}
