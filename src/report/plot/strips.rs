//! Many numbers of different things against one bound: a line for each thing, a mark for each number, at the side those that have no
//! number. `attn probe` and `attn check` are drawn so.

use super::axis::{Axis, linear_ticks, log_ticks};
use super::palette::{BAND, FAINT, GRID, INK};
use super::picture::{Anchor, Picture, width_of};
use super::standing::{Remark, Standing, key, remarks_height, shortened, write_remarks};
use crate::report::number::{significant, trimmed};

const WIDTH: u32 = 800;
const RIGHT: f64 = 586.0;
/// What has no number stands here.
const NO_NUMBER: f64 = RIGHT + 46.0;
/// The names of the strips have as much room as they need, up to this.
const WIDEST_LABEL: f64 = 330.0;
const TOP: f64 = 66.0;
const STEP: f64 = 23.0;

/// One number.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    pub value: Option<f64>,
    pub standing: Standing,
}

/// One thing and its numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Strip {
    pub label: String,
    pub points: Vec<Point>,
    pub standing: Standing,
    /// Beside the strip.
    pub words: String,
}

/// What numbers are held against.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// Between −1 and 1 is as it should be; drawn on a linear axis.
    Within,
    /// Up to this is as it should be; drawn on a logarithmic axis, exact zeros at its start.
    UpTo(f64),
}

/// A whole picture.
#[derive(Clone, Debug, PartialEq)]
pub struct Strips {
    pub title: String,
    pub conditions: String,
    pub axis: String,
    pub bound: Bound,
    /// What each standing is called.
    pub names: Vec<(Standing, String)>,
    pub strips: Vec<Strip>,
    pub remarks: Vec<Remark>,
}

/// Deviations beyond this many bounds are drawn at the edge.
const LARGEST: f64 = 4.0;
/// On a logarithmic axis, what is below this share of the bound is as good as 0.
const SMALLEST_SHARE: f64 = 1e-4;
/// Decades between an exact zero and the smallest number on a logarithmic axis.
const ROOM_FOR_ZERO: f64 = 0.8;

impl Strips {
    /// The picture, or nothing without a strip.
    pub fn draw(&self) -> Option<Picture> {
        if self.strips.is_empty() {
            return None;
        }
        let bottom = TOP + STEP * self.strips.len() as f64;
        let height = bottom + 88.0 + remarks_height(&self.remarks) + if self.remarks.is_empty() { 0.0 } else { 14.0 };
        let mut picture = Picture::new(WIDTH, height as u32);
        picture.text((20.0, 22.0), self.title.as_str(), 20.0, Anchor::Left, INK);
        picture.text((20.0, 45.0), shortened(&self.conditions, 760.0, 14.0), 14.0, Anchor::Left, FAINT);
        let widest = self.strips.iter().map(|strip| width_of(&strip.label, 14.0)).fold(60.0, f64::max);
        let left = 30.0 + widest.min(WIDEST_LABEL);
        let axis = self.axis(left);
        self.background(&mut picture, &axis, bottom);
        for (index, strip) in self.strips.iter().enumerate() {
            self.one(&mut picture, strip, &axis, TOP + STEP * (index as f64 + 0.5));
        }
        picture.text((0.5 * (20.0 + f64::from(WIDTH)), bottom + 40.0), self.axis.as_str(), 15.0, Anchor::Centre, INK);
        let present = |standing: Standing| {
            self.strips.iter().any(|strip| strip.points.iter().any(|point| point.standing == standing))
        };
        let names: Vec<(Standing, String)> =
            self.names.iter().filter(|(standing, _)| present(*standing)).cloned().collect();
        key(&mut picture, (28.0, bottom + 68.0), &names);
        write_remarks(&mut picture, &self.remarks, bottom + 88.0);
        Some(picture)
    }

    fn values(&self) -> impl Iterator<Item = f64> {
        let points = self.strips.iter().flat_map(|strip| &strip.points);
        points.filter_map(|point| point.value.filter(|value| value.is_finite()))
    }

    fn has_zero(&self) -> bool {
        matches!(self.bound, Bound::UpTo(bound) if self.values().any(|value| value < SMALLEST_SHARE * bound))
    }

    /// The axis, of common logarithms where the bound is [`Bound::UpTo`].
    fn axis(&self, left: f64) -> Axis {
        let (low, high) = match self.bound {
            Bound::Within => {
                let reach = self.values().fold(1.2, |reach: f64, value| reach.max(1.1 * value.abs())).min(LARGEST);
                (-reach, reach)
            }
            Bound::UpTo(bound) => {
                let positive = || self.values().filter(|value| *value > 0.0);
                let low = positive().fold(bound / 10.0, f64::min).max(bound * SMALLEST_SHARE);
                let high = positive().fold(bound * 3.0, f64::max).min(bound * 1e8);
                (low.log10() - if self.has_zero() { ROOM_FOR_ZERO } else { 0.25 }, high.log10() + 0.15)
            }
        };
        Axis { low, high, start: left, end: RIGHT }
    }

    fn background(&self, picture: &mut Picture, axis: &Axis, bottom: f64) {
        let left = axis.start;
        let (good, ticks): ((f64, f64), Vec<(f64, String)>) = match self.bound {
            Bound::Within => {
                let signed = |tick: f64| {
                    let sign = if tick > 0.0 { "+" } else { "" };
                    (tick, format!("{sign}{}", trimmed(&significant(tick, 2))))
                };
                ((-1.0, 1.0), linear_ticks(axis.low, axis.high, 6).into_iter().map(signed).collect())
            }
            Bound::UpTo(bound) => {
                let zero = self.has_zero().then(|| (axis.low, "≈ 0".to_owned()));
                let low = axis.low + if zero.is_some() { 0.6 * ROOM_FOR_ZERO } else { 0.0 };
                let ticks = log_ticks(10f64.powf(low), 10f64.powf(axis.high));
                let label = |tick: f64| (tick.log10(), trimmed(&significant(tick, 2)));
                ((axis.low, bound.log10()), zero.into_iter().chain(ticks.into_iter().map(label)).collect())
            }
        };
        picture.rectangle((axis.clamped(good.0), TOP), (axis.clamped(good.1), bottom), BAND);
        for (place, label) in ticks {
            let x = axis.at(place);
            picture.line(&[(x, TOP), (x, bottom)], GRID, 1.0);
            picture.text((x, bottom + 14.0), label, 14.0, Anchor::Centre, INK);
        }
        let edge = axis.clamped(good.1);
        picture.line(&[(edge, TOP), (edge, bottom)], FAINT, 1.5);
        if self.bound == Bound::Within {
            let edge = axis.clamped(good.0);
            picture.line(&[(edge, TOP), (edge, bottom)], FAINT, 1.5);
        }
        let border = [(left, TOP), (left, bottom), (RIGHT, bottom), (RIGHT, TOP), (left, TOP)];
        picture.line(&border, FAINT, 1.0);
        let lacking = |point: &Point| point.value.is_none();
        if self.strips.iter().any(|strip| strip.points.iter().any(lacking)) {
            picture.text((NO_NUMBER, bottom + 14.0), "no number", 13.0, Anchor::Centre, INK);
        }
    }

    fn one(&self, picture: &mut Picture, strip: &Strip, axis: &Axis, y: f64) {
        picture.text((axis.start - 10.0, y), shortened(&strip.label, WIDEST_LABEL, 14.0), 14.0, Anchor::Right, INK);
        let mut points: Vec<&Point> = strip.points.iter().collect();
        points.sort_by_key(|point| point.standing);
        // Where there is no number to tell them apart, one mark for each standing.
        let mut without: Vec<Standing> =
            points.iter().filter(|point| point.value.is_none()).map(|point| point.standing).collect();
        without.dedup();
        for (index, standing) in without.iter().enumerate() {
            let x = NO_NUMBER + 12.0 * (index as f64 - 0.5 * (without.len() as f64 - 1.0));
            picture.mark((x, y), standing.marker(), standing.colour());
        }
        for point in points {
            let Some(value) = point.value else { continue };
            let place = match self.bound {
                Bound::Within => value,
                Bound::UpTo(_) => value.max(f64::MIN_POSITIVE).log10(),
            };
            picture.mark((axis.clamped(place), y), point.standing.marker(), point.standing.colour());
            if place > axis.high {
                picture.text((axis.end + 8.0, y), "→", 14.0, Anchor::Left, INK);
            } else if place < axis.low && self.bound == Bound::Within {
                picture.text((axis.start + 8.0, y), "←", 14.0, Anchor::Left, INK);
            }
        }
        let x = NO_NUMBER + 22.0;
        picture.text((x, y), strip.standing.sign(), 15.0, Anchor::Centre, strip.standing.colour());
        picture.text((x + 12.0, y), shortened(&strip.words, 126.0, 14.0), 14.0, Anchor::Left, INK);
    }
}
