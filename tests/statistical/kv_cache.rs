//! Is a sound cache never rejected, whatever the draw, and a faulty one always?
//!
//! Nothing is left to chance here: the bound on rounding holds for every draw, so a sound cache that fails one of these hundreds of draws
//! is a mistake in the bound. The mutants are those of the field reports (CA-02, MA-11); each must be rejected on every seed.

use std::ops::Range;

use attn::attention::cache::{CacheRules, Reach};
use attn::attention::position::Layout;
use attn::attention::{Precision, Scale};
use attn::experiment::calibration::calibrate;
use attn::experiment::kv_cache::{CacheExperiment, CacheSettings, Timing};
use attn::experiment::{Experiment, InputLaw, Sizes};
use attn::sampling::Entries;

fn settings(precision: Precision, reach: Reach, scale: Scale) -> CacheSettings {
    CacheSettings {
        heads: 6,
        key_value_heads: 2,
        d_v: Some(7),
        prefill: Some(13),
        chunk: Some(5),
        reach,
        layout: Some(Layout::HalfSplit),
        generate: 11,
        scale,
        precision,
        timing: Timing::Off,
    }
}

const SIZES: Sizes = Sizes { d_k: 10, queries: 29, keys: 17 };

/// Rejected statistics on `seeds` seeds, two draws each, as (name, seeds that rejected it).
fn rejected(experiment: &impl Experiment, seeds: u64) -> Vec<(String, u64)> {
    let (rows, _) = calibrate(experiment, 2, seeds, &[1e-6]);
    rows.into_iter().filter(|row| row.rejected > 0).map(|row| (row.statistic, row.rejected)).collect()
}

#[test]
fn a_sound_cache_is_within_its_bound_on_every_draw() {
    let seeds = if cfg!(debug_assertions) { 11 } else { 211 };
    for precision in [Precision::F64, Precision::F32, Precision::Bf16, Precision::F16] {
        // Heavy tails and raw logits put weights near one-hot, where a small logit error moves most.
        for (reach, scale, entries) in [
            (Reach::All, Scale::InverseSqrtWidth, Entries::Normal),
            (Reach::Window(7), Scale::InverseSqrtWidth, Entries::Rademacher),
            (Reach::All, Scale::None, Entries::Laplace),
        ] {
            let law = InputLaw::standard(entries);
            let experiment = CacheExperiment::new(SIZES, law, settings(precision, reach, scale));
            assert_eq!(rejected(&experiment, seeds), [], "{precision} {reach:?} {entries}");
        }
    }
}

/// Faults of caches.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    /// CA-02: the rotary position is read after the cache was advanced.
    PositionOneOn,
    /// CA-02: every decoded token gets position 0.
    PositionZero,
    /// The token just appended is not seen.
    StaleSlot,
    /// MA-11: one key more than the window.
    WindowOneMore,
    /// A rejected draft stays in the cache.
    NotTruncated,
}

impl CacheRules for Fault {
    fn position(&self, appended: u64) -> u64 {
        match self {
            Self::PositionOneOn if appended >= 13 => appended + 1,
            Self::PositionZero if appended >= 13 => 0,
            _ => appended,
        }
    }

    fn visible(&self, reach: Reach, position: u64) -> Range<u64> {
        let Range { start, end } = reach.visible(position);
        match self {
            Self::StaleSlot if position >= 5 => start.saturating_sub(1)..end - 1,
            Self::WindowOneMore => start.saturating_sub(1)..end,
            _ => start..end,
        }
    }

    fn truncated(&self, length: u64, appended: u64) -> u64 {
        if *self == Self::NotTruncated { appended } else { length }
    }
}

#[test]
fn faulty_caches_are_rejected_on_every_seed_by_the_statistic_that_shows_them() {
    let seeds = 5;
    for precision in [Precision::F64, Precision::F32, Precision::F16, Precision::Bf16] {
        for (fault, reach, shows) in [
            (Fault::PositionOneOn, Reach::All, &["bound_share"][..]),
            (Fault::PositionZero, Reach::All, &["bound_share"]),
            (Fault::StaleSlot, Reach::All, &["bound_share", "sequence_difference", "operations_per_token"]),
            (Fault::WindowOneMore, Reach::Window(7), &["bound_share", "sequence_difference", "operations_per_token"]),
            (Fault::NotTruncated, Reach::All, &["bound_share", "operations_per_token"]),
        ] {
            let law = InputLaw::standard(Entries::Normal);
            let settings = settings(precision, reach, Scale::InverseSqrtWidth);
            let experiment = CacheExperiment::with_rules(SIZES, law, settings, fault);
            let found = rejected(&experiment, seeds);
            for statistic in shows {
                assert!(
                    found.contains(&(statistic.to_string(), seeds)),
                    "{fault:?} {precision} {statistic}: {found:?}"
                );
            }
        }
    }
}
