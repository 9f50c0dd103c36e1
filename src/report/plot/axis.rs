//! From values to places in the picture, and where the ticks stand.

/// A linear map from `low..high` to `start..end` (units of the picture).
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    pub low: f64,
    pub high: f64,
    pub start: f64,
    pub end: f64,
}

impl Axis {
    /// The place of a value.
    pub fn at(&self, value: f64) -> f64 {
        self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)
    }

    /// The place of a value, held inside the axis.
    pub fn clamped(&self, value: f64) -> f64 {
        self.at(value.clamp(self.low, self.high))
    }
}

/// An axis that may be logarithmic.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// Of values, or of their decimal logarithms.
    pub axis: Axis,
    pub is_logarithmic: bool,
}

impl Scale {
    /// From `least` to `most` (both above 0 where it is logarithmic), and `share` of that length on both sides, between two places.
    pub fn around((least, most): (f64, f64), is_logarithmic: bool, share: f64, (start, end): (f64, f64)) -> Self {
        let (low, high) = if is_logarithmic { (least.log10(), most.log10()) } else { (least, most) };
        // Values that are all the same still need an axis of some length; rounding is no variation.
        let span = high - low;
        let margin = match span > 1e-9 * high.abs().max(low.abs()) {
            true => share * span,
            false if high == 0.0 => 0.5,
            false => 0.5 * high.abs(),
        };
        Self { axis: Axis { low: low - margin, high: high + margin, start, end }, is_logarithmic }
    }

    /// The place of a value, held inside the axis.
    pub fn at(&self, value: f64) -> f64 {
        self.axis.clamped(if self.is_logarithmic { value.max(f64::MIN_POSITIVE).log10() } else { value })
    }

    /// Round values, about `count` of them where it is linear.
    pub fn ticks(&self, count: usize) -> Vec<f64> {
        let Axis { low, high, .. } = self.axis;
        match self.is_logarithmic {
            true => log_ticks(10f64.powf(low), 10f64.powf(high)),
            false => linear_ticks(low, high, count),
        }
    }
}

/// Round values (1, 2 or 5 times a power of ten apart) inside `low..=high`, about `count` of them and at least two.
pub fn linear_ticks(low: f64, high: f64, count: usize) -> Vec<f64> {
    let ticks = ticks_about(low, high, count);
    if ticks.len() == 1 { ticks_about(low, high, 2 * count) } else { ticks }
}

fn ticks_about(low: f64, high: f64, count: usize) -> Vec<f64> {
    let rough = (high - low) / count.max(1) as f64;
    if !(rough.is_finite() && rough > 0.0) {
        return Vec::new();
    }
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .map(|factor| factor * power)
        .into_iter()
        .find(|step| *step >= rough * 0.999)
        .unwrap_or(10.0 * power);
    let (first, last) = ((low / step - 1e-9).ceil() as i64, (high / step + 1e-9).floor() as i64);
    (first..=last).map(|index| index as f64 * step).collect()
}

/// Powers of ten inside `low..=high` (both positive), with 2 and 5 times them where that gives fewer than three; at most about nine.
pub fn log_ticks(low: f64, high: f64) -> Vec<f64> {
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let inside = |value: &f64| (low * 0.999_999..=high * 1.000_001).contains(value);
    let every = ((last - first) / 9 + 1) as usize;
    let decades: Vec<f64> = (first..=last).step_by(every).map(|power| 10f64.powi(power)).filter(inside).collect();
    if decades.len() >= 3 {
        return decades;
    }
    (first..=last).flat_map(|power| [1.0, 2.0, 5.0].map(|factor| factor * 10f64.powi(power))).filter(inside).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_maps_its_ends_to_the_ends_and_holds_what_lies_outside() {
        let axis = Axis { low: -1.0, high: 3.0, start: 100.0, end: 20.0 };
        assert_eq!((axis.at(-1.0), axis.at(3.0), axis.at(1.0)), (100.0, 20.0, 60.0));
        assert_eq!((axis.clamped(7.0), axis.clamped(-7.0)), (20.0, 100.0));
    }

    #[test]
    fn ticks_are_round_and_inside() {
        assert_eq!(linear_ticks(-2.3, 2.3, 5), [-2.0, -1.0, 0.0, 1.0, 2.0]);
        assert_eq!(linear_ticks(0.0, 1.0, 2), [0.0, 0.5, 1.0]);
        assert!(linear_ticks(1.0, 1.0, 5).is_empty());
        // A step of 0.1 would leave 1 alone.
        let ticks = linear_ticks(0.93, 1.07, 2);
        assert!(
            ticks.len() == 3 && ticks.iter().zip([0.95, 1.0, 1.05]).all(|(tick, value)| (tick - value).abs() < 1e-12)
        );
        assert_eq!(log_ticks(0.5, 2000.0), [1.0, 10.0, 100.0, 1000.0]);
        assert_eq!(log_ticks(3.0, 70.0), [5.0, 10.0, 20.0, 50.0]);
        assert!(log_ticks(1e-30, 1e30).len() <= 11);
    }
}
