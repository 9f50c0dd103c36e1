//! Do the files of a run hold every trial once?

use super::Layout;
use super::read::{Scan, Stretch};

/// The stretches that make up a run: for every point, in order of trials, each with the number of its file.
#[derive(Debug, Clone)]
pub struct Cover {
    /// By point.
    pub stretches: Vec<Vec<(usize, Stretch)>>,
    /// The planned trials of every point.
    pub plans: Vec<u64>,
}

/// Puts what the files hold together; `names` are the files' names, for errors.
///
/// # Errors
/// A point or trials that no file holds, trials in two files, files with other plans, a file that does not hold its shard: one line with the
/// names of the files.
pub fn cover(layout: &Layout, scans: &[Scan], names: &[String]) -> Result<Cover, String> {
    let mut stretches: Vec<Vec<(usize, Stretch)>> = vec![Vec::new(); layout.points()];
    for (file, scan) in scans.iter().enumerate() {
        for stretch in &scan.stretches {
            stretches[stretch.point].push((file, stretch.clone()));
        }
    }
    let mut plans = Vec::with_capacity(stretches.len());
    for (point, held) in stretches.iter_mut().enumerate() {
        held.sort_by_key(|(_, stretch)| stretch.trials.start);
        let Some((first, Stretch { plan, .. })) = held.first() else {
            return Err(format!("no file has a trial of {}", layout.point(point)));
        };
        if let Some((other, stretch)) = held.iter().find(|(_, stretch)| stretch.plan != *plan) {
            return Err(format!(
                "{}: another plan: {} trials at {}, in {} {plan}",
                names[*other],
                stretch.plan,
                layout.point(point),
                names[*first]
            ));
        }
        plans.push(*plan);
    }
    for (scan, name) in scans.iter().zip(names) {
        scan.check_whole(layout, &plans).map_err(|reason| format!("{name}: {reason}"))?;
    }
    for (point, (held, &plan)) in stretches.iter().zip(&plans).enumerate() {
        check_point(held, plan, names).map_err(|reason| format!("{reason} (at {})", layout.point(point)))?;
    }
    Ok(Cover { stretches, plans })
}

/// No gap and no overlap between the first trial and the last one planned.
fn check_point(held: &[(usize, Stretch)], plan: u64, names: &[String]) -> Result<(), String> {
    let mut next = 0;
    let mut before = "";
    for (file, Stretch { trials, .. }) in held {
        if trials.start > next {
            return Err(format!("{} in no file", span(next, trials.start, plan)));
        }
        if trials.start < next {
            return Err(format!(
                "{} in {before} and in {}",
                span(trials.start, next.min(trials.end), plan),
                names[*file]
            ));
        }
        next = trials.end;
        before = &names[*file];
    }
    if next < plan { Err(format!("{} in no file", span(next, plan, plan))) } else { Ok(()) }
}

fn span(start: u64, end: u64, plan: u64) -> String {
    match end - start {
        1 => format!("trial {start} of {plan} (counted from 0) is"),
        _ => format!("trials {start} to {} of {plan} (counted from 0) are", end - 1),
    }
}
