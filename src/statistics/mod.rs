//! Null laws, p-values, intervals, multiple testing, planning and accumulators: how a measurement is held against its
//! expected value with error rates that are what they claim to be.
//!
//! | module | what it is for | source |
//! |---|---|---|
//! | [`law`] | tails and quantiles of the laws of a standardised deviation, relatively accurate at 1e-15 | Pearson 1895, Student 1908 |
//! | [`error_model`] | moments → law → p-value, interval, smallest detectable fault, trials needed; when not to judge | Satterthwaite 1946, Yates 1934 |
//! | [`student`] | the same where the variance is only estimated | Student 1908, Gayen 1949 |
//! | [`skewed_student`] | the same with the effect of skewness taken out | Hall 1992 |
//! | [`bounded`] | means of bounded values, whatever their law | Ville 1939, Waudby-Smith & Ramdas 2024 |
//! | [`two_sample`] | has a mean moved between two runs, paired by their draws or independent? | Welch 1947 |
//! | [`multiple`] | one false-alarm rate over many rows, families counted once | Holm 1979, Bonferroni 1936 |
//! | [`moments`] | one-pass, mergeable mean, variance and skewness of columns | Welford 1962, Chan, Golub & LeVeque 1983, Pébay 2008 |
//! | [`binomial`] | exact intervals and acceptance regions of rates, for calibration | Clopper & Pearson 1934 |
//! | [`mod@median`] | the median with an interval that holds for every law | Thompson 1936 |
//! | [`uniformity`] | are p-values uniform, or at least conservative? | Kolmogorov 1933, Birnbaum & Tingey 1951 |
//! | [`mod@log_fit`] | growth exponents with known errors | Aitken 1936 |
//!
//! The unit of replication is the trial everywhere: the entries of one trial are dependent.
//!
//! ```
//! use attn::statistics::error_model::{ErrorShape, LawOrigin, NullModel};
//! use attn::statistics::multiple::{holm_by_family, planning_level};
//!
//! // A sample variance of 64 independent normals of variance 1: exactly χ²_63/63, averaged over 7 trials.
//! let per_trial = NullModel {
//!     expected: 1.0,
//!     variance: 2.0 / 63.0,
//!     skewness: (8.0f64 / 63.0).sqrt(),
//!     excess_kurtosis: 12.0 / 63.0,
//!     kind: ErrorShape::Scale,
//!     origin: LawOrigin::Exact,
//!     lattice_step: 0.0,
//!     unit: 0.0,
//! };
//! let average = per_trial.over_trials(7);
//! let level = planning_level(1e-6, 2);
//! let p = average.p_value(1.4, 0.0, level);
//! let verdicts = holm_by_family(&[("variance", p), ("mean", Some(0.3))]);
//! assert!(verdicts[0].is_some_and(|adjusted| adjusted < 1e-3));
//! ```

pub mod binomial;
pub mod bounded;
pub mod error_model;
pub mod law;
pub mod log_fit;
pub mod median;
pub mod moments;
pub mod multiple;
mod quadrature;
pub mod skewed_student;
mod special;
pub mod student;
#[cfg(test)]
mod test_draws;
pub mod two_sample;
pub mod uniformity;

pub use error_model::{ErrorShape, LawOrigin, NullModel, smallest_trials, trials_needed};
pub use law::Law;
pub use log_fit::{LogFit, LogFitError, Measured, log_fit};
pub use median::{MedianInterval, median};
pub use moments::ColumnMoments;
pub use multiple::{holm_adjusted, holm_by_family, judged_families, planning_level};
pub use skewed_student::SkewedStudent;
pub use student::StudentModel;
pub use two_sample::TwoSample;
