//! Kind training dynamics: TR-02.

use attn::diagnosis::finding::{Check, Place, Verdict};
use attn::diagnosis::growth::{Snapshot, growth_findings};
use attn::diagnosis::matrix::Storage;

use crate::definition::{Case, Shape, close};

const SHAPE: Shape = Shape::of(1, 2, 31, 37, 16);

/// Q and K of head 0 times √(its growth), of both heads times √(`both`); V times `values`.
fn dump(first: f64, both: f64, values: f64) -> Snapshot {
    let mut case = Case::draw(20, SHAPE, Storage::F32);
    for (numbers, rows) in [(&mut case.q, 31), (&mut case.k, 37)] {
        for (index, number) in numbers.iter_mut().enumerate() {
            let head = if index < rows * 16 { first } else { 1.0 };
            *number = Storage::F32.round(*number * (head * both).sqrt());
        }
    }
    case.v.iter_mut().for_each(|number| *number *= values);
    let value_size = (case.v.iter().map(|v| v * v).sum::<f64>() / case.v.len() as f64).sqrt();
    let audit = case.attend(&|_, _, _, _, raw| 0.25 * raw).file().audit();
    Snapshot { heads: audit.heads, value_size: Some(value_size) }
}

#[test]
fn tr_02_q_and_k_grow_while_v_stays() {
    let series: Vec<Snapshot> = [1.0, 2.0, 4.0, 8.0].map(|growth| dump(1.0, growth, 1.0)).into();
    let found = growth_findings(&series);
    assert_eq!(found.len(), 1, "{found:?}");
    let grown = &found[0];
    assert_eq!((grown.verdict, grown.check), (Verdict::Warn, Check::Growth));
    assert_eq!(grown.place, Place::Heads(vec![(0, 0), (0, 1)]));
    close(grown.measured, 8.0, 1e-5); // Q and K times √8 each
    assert!(
        grown.explanation.contains("over 4 dumps, entropy 0.8") && grown.explanation.contains("V constant"),
        "{}",
        grown.explanation
    );
    // Projection norms of the report: 18.8, 18.7, 17.2 → 57.4, 51.1, 20.3: the product 8.3 times, V 1.18 times.
    let report = [dump(1.0, 1.0, 1.0), dump(1.0, 57.4 * 51.1 / (18.8 * 18.7), 20.3 / 17.2)];
    let grown = &growth_findings(&report)[0];
    close(grown.measured, 8.343, 1e-3);
    assert!(grown.explanation.contains("V constant"), "{}", grown.explanation);
}

#[test]
fn growth_of_one_head_is_placed_and_what_does_not_grow_passes() {
    let found = growth_findings(&[dump(1.0, 1.0, 1.0), dump(5.0, 1.0, 1.0)]);
    let places: Vec<_> = found.iter().map(|finding| (finding.verdict, finding.place.clone())).collect();
    assert_eq!(places, [(Verdict::Warn, Place::Heads(vec![(0, 0)])), (Verdict::Pass, Place::Heads(vec![(0, 1)]))]);
    // Everything grows; Q and K shrink and come back; a factor below 2.
    let all = &growth_findings(&[dump(1.0, 1.0, 1.0), dump(1.0, 9.0, 3.0)])[0];
    assert!(all.verdict == Verdict::Warn && all.explanation.contains("all of them change"), "{}", all.explanation);
    for series in [[1.0, 0.3, 3.0], [1.0, 1.5, 1.9], [3.0, 2.0, 1.0]] {
        let found = growth_findings(&series.map(|growth| dump(1.0, growth, 1.0)));
        assert!(found.iter().all(|finding| finding.verdict == Verdict::Pass), "{series:?}: {found:?}");
    }
    // One dump is no series.
    assert!(growth_findings(&[dump(1.0, 1.0, 1.0)]).is_empty());
}
