//! A soft cap that is none of the likely ones.

/// Grid on which the search begins, per factor of 2, and factors of 2 about the largest logit.
const PER_OCTAVE: i32 = 2;
const OCTAVES: i32 = 4;

/// Steps of the golden section; each divides the interval by 1.618, so that 28 leave 1e-6 of it.
const STEPS: usize = 28;

/// Whole numbers are preferred: the roundest cap whose misfit is at most this much above the least.
const AS_GOOD: f64 = 1.5;

/// The cap C with the least `misfit`, for logits up to `largest` in absolute value: a grid about the largest logit, then a golden section in
/// ln C. Of caps that fit as well the one with the fewest digits. `None` if the misfit is least at an end of the grid, where the cap bends nothing
/// (above) or everything (below).
pub(super) fn fitted_cap(largest: f64, misfit: &dyn Fn(f64) -> Option<f64>) -> Option<f64> {
    let of = |logarithm: f64| misfit(logarithm.exp()).filter(|misfit| misfit.is_finite()).unwrap_or(f64::INFINITY);
    let step = std::f64::consts::LN_2 / f64::from(PER_OCTAVE);
    let ends = OCTAVES * PER_OCTAVE;
    let at = |index: i32| largest.ln() + f64::from(index) * step;
    let best = (-ends..=ends).map(|index| (of(at(index)), index)).min_by(|a, b| a.0.total_cmp(&b.0))?.1;
    if best.abs() == ends {
        return None;
    }
    let golden = (5f64.sqrt() - 1.0) / 2.0;
    let (mut low, mut high) = (at(best - 1), at(best + 1));
    let (mut left, mut right) = (high - golden * (high - low), low + golden * (high - low));
    let (mut of_left, mut of_right) = (of(left), of(right));
    for _ in 0..STEPS {
        if of_left < of_right {
            (high, right, of_right) = (right, left, of_left);
            left = high - golden * (high - low);
            of_left = of(left);
        } else {
            (low, left, of_left) = (left, right, of_right);
            right = low + golden * (high - low);
            of_right = of(right);
        }
    }
    let cap = ((low + high) / 2.0).exp();
    let least = of_left.min(of_right);
    let rounded = (1..=6).map(|digits| {
        let power = 10f64.powi(cap.log10().floor() as i32 + 1 - digits);
        (cap / power).round() * power
    });
    let as_good = |cap: &f64| *cap > 0.0 && of(cap.ln()) <= AS_GOOD * least + 1e-12;
    rounded.into_iter().find(as_good).or(Some(cap))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_misfit_is_found_and_shown_with_the_digits_it_needs() {
        for (cap, largest) in [(37.0, 60.0), (4.25, 7.0), (12.5, 5.0), (130.0, 40.0)] {
            let found = fitted_cap(largest, &|c: f64| Some((c / cap).ln().powi(2)));
            assert!((found.expect("a cap") / cap - 1.0).abs() < 1e-4, "{found:?} for {cap}");
        }
        // Caps from 36 to 38.5 fit alike: the roundest of them.
        let vague = fitted_cap(60.0, &|c: f64| Some(1.0 + ((c / 37.0).ln().abs() - 0.03).max(0.0)));
        assert_eq!(vague, Some(40.0));
    }

    #[test]
    fn no_cap_is_invented_where_none_bends_the_logits() {
        assert_eq!(fitted_cap(5.0, &|cap: f64| Some(1.0 + 1.0 / cap)), None);
        assert_eq!(fitted_cap(5.0, &|_| None), None);
    }
}
