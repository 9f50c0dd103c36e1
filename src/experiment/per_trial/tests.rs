use super::cover::cover;
use super::read::{Scan, prefix, replay, scan};
use super::*;
use crate::experiment::{Claim, Inside};
use crate::sampling::{Entries, TrialStream};
use std::io::Cursor;

/// Two measures at width 3, and another one beside the second at width 5.
struct Point(usize);

impl Experiment for Point {
    type Workspace = ();
    fn sizes(&self) -> Sizes {
        Sizes { d_k: self.0, queries: 7, keys: 11 }
    }
    fn measures(&self) -> Vec<String> {
        let names: &[&str] = if self.0 == 3 { &["a", "b"] } else { &["b", "c", "b"] };
        names.iter().map(ToString::to_string).collect()
    }
    fn trial(&self, _: &TrialStream, _: Inside, (): &mut ()) -> Vec<f64> {
        Vec::new()
    }
    fn claims(&self) -> Vec<Claim> {
        Vec::new()
    }
    fn operations(&self) -> f64 {
        1.0
    }
    fn bytes(&self) -> f64 {
        1.0
    }
}

fn layout(shard: Option<Shard>, invocation: &str) -> Layout {
    let fields = RunFields {
        command: "variance".to_string(),
        seed: 17,
        law: InputLaw::standard(Entries::Normal),
        precision: "f64".to_string(),
        inputs: String::new(),
        shard,
        invocation: invocation.to_string(),
    };
    Layout::new(&fields, &[Point(3), Point(5)])
}

/// The value of a trial's measure: each other, one of them no number.
fn value(point: usize, trial: u64, measure: usize) -> f64 {
    if (point, trial, measure) == (1, 2, 0) { f64::NAN } else { (point * 100 + measure) as f64 + 0.1 * trial as f64 }
}

/// The file of a shard of runs of 6 and 4 trials.
fn file(layout: &Layout) -> String {
    let mut writer = PerTrialWriter::new(Vec::new(), layout, Begin::Header).expect("room");
    for (point, plan) in [(0, 6), (1, 4)] {
        for trial in layout.trials(plan) {
            let values: Vec<f64> = (0..2 + point).map(|measure| value(point, trial, measure)).collect();
            writer.write(point, plan, trial, &values).expect("room");
        }
    }
    String::from_utf8(writer.finish().expect("room")).expect("UTF-8")
}

fn scanned(layout: &Layout, text: &str) -> Result<Scan, String> {
    scan(layout, Cursor::new(text.as_bytes()))
}

#[test]
fn the_columns_are_those_of_all_points_and_empty_where_a_point_has_none() {
    let text = file(&layout(None, "attn variance"));
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].ends_with(",trials,trial,a,b,c,b,inputs,shard,invocation"), "{}", lines[0]);
    assert!(lines[1].ends_with(",6,0,0,1,,,,,attn variance"), "{}", lines[1]);
    // The second point's measures b, c, b; that of trial 2 is no number.
    assert!(lines[8].ends_with(",4,1,,100.1,101.1,102.1,,,attn variance"), "{}", lines[8]);
    assert!(lines[9].ends_with(",4,2,,,101.2,102.2,,,attn variance"), "{}", lines[9]);
}

#[test]
fn every_value_comes_back_to_its_trial() {
    let layout = layout(None, "attn variance");
    let text = file(&layout);
    let scan = scanned(&layout, &text).expect("a whole file");
    assert_eq!(scan.stretches.iter().map(|found| found.trials.clone()).collect::<Vec<_>>(), [0..6, 0..4]);
    let mut seen = 0;
    for stretch in &scan.stretches {
        let each = |trial: u64, values: &[f64]| {
            for (measure, &found) in values.iter().enumerate() {
                let expected = value(stretch.point, trial, measure);
                assert!(found == expected || (found.is_nan() && expected.is_nan()), "{found} is not {expected}");
                seen += 1;
            }
            Ok(())
        };
        replay(&layout, stretch, Cursor::new(text.as_bytes()), each).expect("a whole file");
    }
    assert_eq!(seen, 6 * 2 + 4 * 3);
}

#[test]
fn shards_cover_the_run_once_in_any_order() {
    let whole = layout(None, "attn variance");
    let shard = |index, of| {
        let text = file(&layout(Some(Shard { index, of }), "attn variance"));
        scanned(&whole, &text).expect("a whole file")
    };
    let joined = |scans: &[Scan]| {
        let names: Vec<String> = (0..scans.len()).map(|name| format!("f{name}")).collect();
        cover(&whole, scans, &names)
    };
    let found = joined(&[shard(3, 3), shard(1, 3), shard(2, 3)]).expect("whole");
    assert_eq!(found.plans, [6, 4]);
    // By hand: a third of 6, and bounds ⌊4·i/3⌋ = 0, 1, 2, 4.
    let of_point = |point: usize| -> Vec<_> {
        found.stretches[point].iter().map(|(file, stretch)| (*file, stretch.trials.clone())).collect()
    };
    assert_eq!(of_point(0), [(1, 0..2), (2, 2..4), (0, 4..6)]);
    assert_eq!(of_point(1), [(1, 0..1), (2, 1..2), (0, 2..4)]);
    // A half and two quarters, and a shard without any trial.
    joined(&[shard(1, 2), shard(3, 4), shard(4, 4), shard(1, 99)]).expect("whole");
    for (scans, words) in [
        (vec![shard(1, 3), shard(3, 3)], "trials 2 to 3 of 6 (counted from 0) are in no file"),
        (vec![shard(1, 2), shard(2, 2), shard(2, 4)], "trials 1 to 2 of 6 (counted from 0) are in f0 and in f2"),
        (vec![shard(1, 5)], "no file has a trial of d_k 5"),
    ] {
        let error = joined(&scans).expect_err(words);
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn a_file_cut_at_any_byte_is_found_out_and_its_whole_lines_are_kept() {
    let shard = layout(Some(Shard { index: 2, of: 2 }), "attn variance --dk 3,5");
    let text = file(&shard);
    for cut in 0..text.len() {
        let kept = prefix(&shard, &[6, 4], Cursor::new(&text.as_bytes()[..cut])).expect("its own file");
        // Whole lines, the header included.
        let lines = text[..cut].rfind('\n').map_or(0, |at| at + 1);
        assert_eq!((kept.bytes as usize, kept.whole), (lines, false), "{cut}");
        let rows: u64 = kept.stretches.iter().map(|found| found.trials.end - found.trials.start).sum();
        assert_eq!(rows as usize, text[..lines].lines().count().saturating_sub(1), "{cut}");
        let refused = match scanned(&shard, &text[..cut]) {
            Err(_) => true,
            Ok(scan) => scan.is_empty() || scan.check_whole(&shard, &[6, 4]).is_err(),
        };
        assert!(refused, "{cut}");
    }
    let kept = prefix(&shard, &[6, 4], Cursor::new(text.as_bytes())).expect("its own file");
    assert!(kept.whole);
    // What follows the last row is no part of the run.
    let longer = format!("{text}{}\n", text.lines().last().expect("a row"));
    assert!(!prefix(&shard, &[6, 4], Cursor::new(longer.as_bytes())).expect("its own file").whole);
}

#[test]
fn a_file_of_another_run_is_named_by_what_differs() {
    let own = layout(None, "attn variance --dk 3,5");
    for (other, words) in [
        (layout(None, "attn variance --dk 3,7"), "other parameters: --dk 3,7, not --dk 3,5"),
        (layout(None, "attn mask --dk 3,5"), "it is of attn mask, not of attn variance"),
    ] {
        let text = file(&other);
        assert_eq!(scanned(&own, &text).expect_err(words), format!("line 2: {words}"));
        assert_eq!(prefix(&own, &[6, 4], Cursor::new(text.as_bytes())).expect_err(words), words);
    }
    let text = file(&own).replacen(",17,", ",18,", 1);
    assert_eq!(scanned(&own, &text).expect_err("another seed"), "line 2: seed is '18', not '17'");
    assert_eq!(scanned(&own, "x,y\n").expect_err("no such file"), "is no per-trial file");
}
