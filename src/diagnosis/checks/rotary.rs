//! The rotation between queries (keys) before and after their position is put in.

use super::{HeadContext, against};
use crate::diagnosis::contract::{Rotary, RotaryLayout};
use crate::diagnosis::finding::{Check, Finding, Verdict, significant};
use crate::diagnosis::matrix::{Matrix, Storage};

/// Shown by `--explain rotary`.
pub const EXPLANATION: &str = "\
Is each pair of channels turned by position · base^(−2h/d)?
Formula: channels are paired as z = x_h + i·x_(h + d/2) (half-split) or x_2h + i·x_(2h+1) (interleaved); the pairing in use is the one that keeps the \
norm of every pair. Then |post − R(p)·pre| over |pre| is computed for the declared position p, its neighbours, 0, p rounded to bf16 and f16, −p and the \
head's number, and the position that fits every row is named. If none fits, the base is fitted from the row at position 1.
Verdict: FAIL for another position, base, sign or an unrotated head; without --rotary, base 10000 from position 0 is assumed and what deviates \
consistently is a WARN.
Blind spots: position 0 (no rotation); the pairing changes nothing by itself, only together with weights trained for the other one.";

/// Positions on either side of the declared one that are tried.
const SHIFTS: i64 = 8;

/// What both rotations say.
pub fn findings(context: &HeadContext<'_>) -> Vec<Finding> {
    let head = context.head;
    let (n, m) = (head.queries.rows as i64, head.keys.rows as i64);
    let declared = context.contract.rotary;
    let rotary = declared.unwrap_or(Rotary { layout: RotaryLayout::HalfSplit, base: 10_000.0, offset: 0 });
    let pairs = [
        ("Q", head.queries_before_rotation.as_ref(), &head.queries, rotary.offset),
        ("K", head.keys_before_rotation.as_ref(), &head.keys, rotary.offset + n - m),
    ];
    let mut findings = Vec::new();
    for (name, before, after, first) in pairs {
        if let Some(before) = before.filter(|before| (before.rows, before.columns) == (after.rows, after.columns)) {
            findings.extend(one(context, name, before, after, first.max(0), rotary, declared.is_some()));
        }
    }
    findings
}

fn one(
    context: &HeadContext<'_>,
    name: &str,
    before: &Matrix,
    after: &Matrix,
    first: i64,
    rotary: Rotary,
    declared: bool,
) -> Option<Finding> {
    if before.columns % 2 == 1 {
        return Some(context.finding(
            Check::Rotary,
            Verdict::CannotTell,
            "odd width",
            "an odd width has no pairs of channels",
        ));
    }
    let rotation = Rotation { before, after, first };
    let layouts = [RotaryLayout::HalfSplit, RotaryLayout::Interleaved];
    let kept: Vec<RotaryLayout> = layouts.into_iter().filter(|&layout| rotation.keeps_norms(layout)).collect();
    let at =
        |verdict, key: &str, words: String| context.finding(Check::Rotary, verdict, &format!("{name} {key}"), words);
    let moved: Vec<usize> = (0..before.rows).filter(|&row| !rotation.is_same(row)).collect();
    let turned_rows = (0..before.rows).filter(|&row| first + row as i64 != 0).count();
    if turned_rows == 0 {
        return Some(at(
            Verdict::CannotTell,
            "position 0",
            format!("{name}: every row is at position 0, where nothing is turned"),
        ));
    }
    if moved.is_empty() {
        let words = format!("{name} of this head is not rotated (post == pre) though it stands at positions {first}…");
        return Some(
            at(Verdict::Fail, "not rotated", words)
                .with_numbers(0.0, turned_rows as f64, "rotated rows")
                .with_cause(
                    "only some heads are rotated (layout (B,H,T,d) taken for (B,T,H,d)?), or every decoded token gets position 0",
                    "compare post and pre of each head",
                ),
        );
    }
    if kept.is_empty() {
        let words =
            format!("{name}: neither half-split nor interleaved pairs keep their norm: this is no rotation of pairs");
        return Some(at(Verdict::Fail, "no rotation", words).with_cause(
            "sine and cosine tables of different pairs, or another pairing",
            "check |post| = |pre| for each pair",
        ));
    }
    let layout = if kept.contains(&rotary.layout) { rotary.layout } else { kept[0] };
    let layout_name = match layout {
        RotaryLayout::HalfSplit => "half-split",
        RotaryLayout::Interleaved => "interleaved",
    };
    if declared && layout != rotary.layout {
        let words = format!("{name}: pairs are {layout_name}, the other pairing was declared");
        return Some(at(Verdict::Fail, "layout", words).with_cause(
            "weights trained for one pairing do not work with the other",
            "permute the rows of the projections of Q and K alike",
        ));
    }
    Some(positions(context, name, &rotation, layout, layout_name, rotary, declared))
}

fn positions(
    context: &HeadContext<'_>,
    name: &str,
    rotation: &Rotation<'_>,
    layout: RotaryLayout,
    layout_name: &str,
    rotary: Rotary,
    declared: bool,
) -> Finding {
    let at =
        |verdict, key: &str, words: String| context.finding(Check::Rotary, verdict, &format!("{name} {key}"), words);
    let rows = rotation.before.rows;
    let all_fit = |base: f64, position: &dyn Fn(i64) -> f64| {
        (0..rows).all(|row| rotation.fits(row, layout, base, position(rotation.first + row as i64)))
    };
    let base = rotary.base;
    if all_fit(base, &|position| position as f64) {
        let note = if declared {
            ""
        } else {
            "; differs from the other pairing only by a channel permutation, which weights must be trained for"
        };
        let words = format!(
            "{name}: rotary layout {layout_name}, positions {}…, base {base}, norms kept{note}",
            rotation.first
        );
        return at(Verdict::Pass, "right", words).with_numbers(0.0, 0.0, "positions off");
    }
    let confirm = "rotate one row by hand and compare";
    let verdict = against(declared);
    for shift in (1..=SHIFTS).flat_map(|shift| [shift, -shift]) {
        if all_fit(base, &|position| (position + shift) as f64) {
            let words = format!("{name}: every row is rotated by {shift:+} position (tried -{SHIFTS} to {SHIFTS})");
            let cause = format!(
                "the offset is read after the cache was advanced, or not at all; if it is meant, pass --offset {}",
                rotary.offset + shift
            );
            return at(verdict, "offset", words)
                .with_numbers(shift as f64, 0.0, "positions off")
                .with_cause(cause, confirm);
        }
    }
    if rotation.first > 0 && all_fit(base, &|position| (position - rotation.first) as f64) {
        let words = format!("{name}: positions start at 0 instead of {}: off by {}", rotation.first, -rotation.first);
        return at(verdict, "offset", words)
            .with_numbers(-(rotation.first as f64), 0.0, "positions off")
            .with_cause("every decoded token gets position 0: the cache's length is not passed", confirm);
    }
    if all_fit(base, &|position| -position as f64) {
        let words = format!("{name}: turned the other way round (−position)");
        return at(verdict, "sign", words)
            .with_numbers(-1.0, 1.0, "sign")
            .with_cause("sine with the wrong sign, or the inverse rotation", confirm);
    }
    for storage in [Storage::Bf16, Storage::F16] {
        if all_fit(base, &|position| storage.round(position as f64)) {
            let wrong = (0..rows as i64).map(|row| rotation.first + row).find(|&p| storage.round(p as f64) != p as f64);
            let first = wrong.unwrap_or(0);
            let words = format!(
                "{name}: angles are those of positions rounded to {} ({first} -> {}); first error at position {first}",
                storage.name(),
                storage.round(first as f64)
            );
            let mut finding = at(Verdict::Fail, "rounded", words)
                .with_numbers(storage.round(first as f64), first as f64, "position")
                .with_cause("positions or angles are computed in a half type: whole numbers above 256 (bf16) or 2048 (f16) are not exact", confirm);
            finding.cell = Some(((first - rotation.first) as usize, None));
            return finding;
        }
    }
    let head = context.head.head as f64;
    if rows > 1 && (0..rows).all(|row| rotation.fits(row, layout, base, head)) {
        let words = format!(
            "{name}: the angle is that of position {head} in every row: it grows with the head index and is constant along tokens"
        );
        return at(Verdict::Fail, "head axis", words)
            .with_numbers(head, rotation.first as f64, "position of row 0")
            .with_cause("the table is indexed by head and not by token: (B,H,T,d) taken for (B,T,H,d)", confirm);
    }
    if let Some(found) = rotation.fitted_base(layout)
        && all_fit(found, &|position| position as f64)
    {
        let words = format!("{name}: base {} (fitted), expected {base}", significant(found, 5));
        return at(verdict, "base", words)
            .with_numbers(found, base, "base")
            .with_cause(format!("another base; if it is meant, pass --base {}", significant(found, 5)), confirm);
    }
    let first =
        (0..rows).find(|&row| !rotation.fits(row, layout, base, (rotation.first + row as i64) as f64)).unwrap_or(0);
    let position = rotation.first + first as i64;
    let words = format!(
        "{name}: angles fit no single offset, base or rounding; the first row that is off is {first} (position {position})"
    );
    let mut finding =
        at(Verdict::Fail, "angles", words).with_numbers(first as f64, rows as f64, "first row off").with_cause(
            "angles computed in a narrow type, a scaling of positions, or positions of another batch entry",
            confirm,
        );
    finding.cell = Some((first, None));
    finding
}

/// Vectors before and after, the first row at position `first`.
struct Rotation<'a> {
    before: &'a Matrix,
    after: &'a Matrix,
    first: i64,
}

impl Rotation<'_> {
    fn channels(&self, pair: usize, layout: RotaryLayout) -> (usize, usize) {
        match layout {
            RotaryLayout::HalfSplit => (pair, pair + self.before.columns / 2),
            RotaryLayout::Interleaved => (2 * pair, 2 * pair + 1),
        }
    }

    fn pair(&self, matrix: &Matrix, row: usize, pair: usize, layout: RotaryLayout) -> (f64, f64) {
        let (x, y) = self.channels(pair, layout);
        (matrix.at(row, x), matrix.at(row, y))
    }

    /// One rounding of each product and sum, before and after.
    fn rounding(&self) -> f64 {
        let stored = |matrix: &Matrix| matrix.computed_in().unit_roundoff();
        8.0 * stored(self.after).max(stored(self.before)).max(Storage::F32.unit_roundoff())
    }

    fn is_same(&self, row: usize) -> bool {
        (0..self.before.columns).all(|column| self.before.at(row, column) == self.after.at(row, column))
    }

    fn keeps_norms(&self, layout: RotaryLayout) -> bool {
        let tolerance = self.rounding();
        (0..self.before.rows).all(|row| {
            (0..self.before.columns / 2).all(|pair| {
                let (a, b) = self.pair(self.before, row, pair, layout);
                let (c, d) = self.pair(self.after, row, pair, layout);
                let (old, new) = (a.hypot(b), c.hypot(d));
                (old - new).abs() <= 2.0 * tolerance * old + Storage::F16.underflow() * tolerance
            })
        })
    }

    /// Whether the row is turned by `position`, up to rounding of the entries and of an angle in f32.
    fn fits(&self, row: usize, layout: RotaryLayout, base: f64, position: f64) -> bool {
        let width = self.before.columns as f64;
        (0..self.before.columns / 2).all(|pair| {
            let angle = position * base.powf(-2.0 * pair as f64 / width);
            let (a, b) = self.pair(self.before, row, pair, layout);
            let (c, d) = self.pair(self.after, row, pair, layout);
            let (sine, cosine) = angle.sin_cos();
            let apart = (a * cosine - b * sine - c).hypot(a * sine + b * cosine - d);
            let of_angle = 4.0 * angle.abs() * Storage::F32.unit_roundoff();
            apart <= (self.rounding() + of_angle) * a.hypot(b) * 2.0
        })
    }

    /// The base that the angles of the row at position 1 (or of two neighbours) give.
    fn fitted_base(&self, layout: RotaryLayout) -> Option<f64> {
        let row = usize::try_from(1 - self.first).ok().filter(|&row| row < self.before.rows)?;
        let pair = self.before.columns / 4;
        let (a, b) = self.pair(self.before, row, pair, layout);
        let (c, d) = self.pair(self.after, row, pair, layout);
        let angle = (a * d - b * c).atan2(a * c + b * d);
        let exponent = 2.0 * pair as f64 / self.before.columns as f64;
        let base = (angle > 0.0 && exponent > 0.0).then(|| angle.powf(-1.0 / exponent))?;
        // Bases are round numbers; the nearest with four digits if it is within rounding.
        let power = 10f64.powf(base.log10().floor() - 3.0);
        let round = (base / power).round() * power;
        Some(if (round / base - 1.0).abs() < 0.02 { round } else { base })
    }
}
