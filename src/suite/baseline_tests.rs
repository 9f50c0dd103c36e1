use super::*;
use crate::suite::Suite;

const HEADER: &str =
    "command,version,seed,d_k,n_queries,n_keys,mask,entries,mean,sd,correlation,precision,trials,trial,";

fn item() -> Item {
    Suite::read("[[check]]\nname = 'one'\nrun = 'variance'\nbaseline = 'x.csv'").expect("a suite").items.remove(0)
}

/// A file of 37 trials whose columns are `of(trial)`.
fn file(seed: u64, columns: &str, of: impl Fn(u64) -> Vec<f64>) -> PerTrial {
    let mut text = format!("{HEADER}{columns}\n");
    for trial in 0..37 {
        let values: Vec<String> =
            of(trial).iter().map(|value| if value.is_finite() { value.to_string() } else { String::new() }).collect();
        text += &format!("variance,0.1.0,{seed},5,7,11,,normal,0,1,0,f64,37,{trial},{}\n", values.join(","));
    }
    PerTrial::read(text.as_bytes()).expect("a file")
}

/// Numbers about 10 with a spread of 1 %, without a pattern.
fn noise(trial: u64, seed: u64) -> f64 {
    10.0 + 0.1 * (((trial * 7919 + seed * 104_729) % 1009) as f64 / 504.0 - 1.0)
}

fn verdicts(before: &PerTrial, now: &PerTrial) -> Vec<(String, ClaimVerdict)> {
    claims(&item(), before, now, 1e-6, 0.01).into_iter().map(|row| (row.claim, row.verdict)).collect()
}

#[test]
fn the_same_run_has_not_moved_and_a_drift_of_one_per_cent_of_the_same_draws_has() {
    let before = file(3, "a,b", |trial| vec![noise(trial, 1), noise(trial, 2)]);
    let name = |column: &str| format!("{column} as in the baseline, d_k 5, n 7, m 11");
    assert_eq!(verdicts(&before, &before), [(name("a"), ClaimVerdict::Upheld), (name("b"), ClaimVerdict::Upheld)]);
    let drifted = file(3, "a,b", |trial| vec![1.01 * noise(trial, 1), noise(trial, 2)]);
    assert_eq!(verdicts(&before, &drifted), [(name("a"), ClaimVerdict::Rejected), (name("b"), ClaimVerdict::Upheld)]);
    // With other draws the spread of 0.6 % a trial hides it from 37 trials at 1e-6 ...
    let other = file(4, "a,b", |trial| vec![1.01 * noise(trial, 5), noise(trial, 6)]);
    let found = claims(&item(), &before, &other, 1e-6, 0.001);
    assert!(found.iter().all(|row| row.min_detectable.is_some_and(|smallest| smallest > 0.001)), "{found:?}");
    assert_eq!(found[1].verdict, ClaimVerdict::Undecided);
    // ... and is seen at 5 %.
    assert_eq!(claims(&item(), &before, &other, 0.05, 0.01)[0].verdict, ClaimVerdict::Rejected);
}

#[test]
fn rounding_is_no_drift() {
    let before = file(3, "a", |trial| vec![noise(trial, 1)]);
    let rounded = file(3, "a", |trial| vec![noise(trial, 1) * (1.0 + 1e-7)]);
    assert_eq!(verdicts(&before, &rounded)[0].1, ClaimVerdict::Upheld);
    let moved = file(3, "a", |trial| vec![noise(trial, 1) * (1.0 + 1e-5)]);
    assert_eq!(verdicts(&before, &moved)[0].1, ClaimVerdict::Rejected);
}

#[test]
fn points_and_columns_that_only_one_run_has_are_without_data() {
    let before = file(3, "a,b", |trial| vec![noise(trial, 1), noise(trial, 2)]);
    let now = file(3, "a,c", |trial| vec![noise(trial, 1), noise(trial, 2)]);
    let found = verdicts(&before, &now);
    assert_eq!(
        found.iter().map(|(_, verdict)| *verdict).collect::<Vec<_>>(),
        [ClaimVerdict::Upheld, ClaimVerdict::Error, ClaimVerdict::Error]
    );
    let text = format!("{HEADER}a\nvariance,0.1.0,3,6,7,11,,normal,0,1,0,f64,1,0,1\n");
    let elsewhere = PerTrial::read(text.as_bytes()).expect("a file");
    let found = verdicts(&before, &elsewhere);
    assert_eq!(found.len(), 2);
    assert!(found.iter().all(|(_, verdict)| *verdict == ClaimVerdict::Error), "{found:?}");
}

#[test]
fn a_value_that_is_missing_now_is_rejected_and_a_column_without_any_is_none() {
    let before = file(3, "a", |trial| vec![noise(trial, 1)]);
    let lost = |trial: u64| if trial == 5 { f64::NAN } else { noise(trial, 1) };
    assert_eq!(verdicts(&before, &file(3, "a", |trial| vec![lost(trial)]))[0].1, ClaimVerdict::Rejected);
    assert_eq!(verdicts(&before, &file(4, "a", |trial| vec![lost(trial)]))[0].1, ClaimVerdict::Rejected);
    // A column without any value is none.
    let never = file(3, "a,b", |trial| vec![f64::NAN, noise(trial, 1)]);
    assert_eq!(verdicts(&never, &never).len(), 1);
    assert_eq!(verdicts(&file(3, "a,b", |trial| vec![1.0, noise(trial, 1)]), &never)[1].1, ClaimVerdict::Error);
}

#[test]
fn what_is_no_per_trial_file_is_an_error() {
    for (text, expected) in [
        ("a,b\n1,2\n", "no column 'seed'"),
        (&format!("{HEADER}a\n"), "holds no trials"),
        (&format!("{HEADER}a\nvariance,0.1.0,3,6,7,11,,normal,0,1,0,f64,37,x,1\n"), "line 2: trial is no number"),
        (&format!("{HEADER}a\nvariance,0.1.0,3,6,7,11,,normal,0,1,0,f64,37,0,y\n"), "line 2: a is no number"),
        (&format!("{HEADER}a\nvariance,0.1.0\n"), "2"),
        (&format!("{HEADER}a\nvariance,0.1.0,3,6,7,11,,normal,0,1,0,f64,37,0,1\n"), "holds 1 of 37 trials"),
    ] {
        let error = PerTrial::read(text.as_bytes()).expect_err(text);
        assert!(error.contains(expected), "{error}");
    }
}
