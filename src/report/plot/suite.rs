//! The claims of a suite: a line for each item, a mark for each claim at its deviation in units of what would have been seen or is
//! allowed; below, in words, what does not hold.

use super::picture::Picture;
use super::standing::{Remark, Standing};
use super::strips::{Bound, Point, Strip, Strips};
use crate::report::claims::{ClaimRow, ClaimVerdict, Count, Heading, items, reason};

fn standing(verdict: ClaimVerdict) -> Standing {
    match verdict {
        ClaimVerdict::Upheld => Standing::Good,
        ClaimVerdict::Rejected => Standing::Bad,
        ClaimVerdict::Undecided => Standing::Open,
        ClaimVerdict::Noted => Standing::Noted,
        ClaimVerdict::Error => Standing::Lost,
    }
}

/// The picture of the claims of a suite, or nothing if there are none.
pub fn draw(heading: &Heading, rows: &[ClaimRow]) -> Option<Picture> {
    let strip = |(name, of_item): &(&str, Vec<&ClaimRow>)| {
        let count = Count::of(of_item.iter().copied());
        let claims = of_item.len() - count.number(ClaimVerdict::Noted);
        let bad = [ClaimVerdict::Rejected, ClaimVerdict::Error, ClaimVerdict::Undecided]
            .into_iter()
            .find(|verdict| count.number(*verdict) > 0);
        Strip {
            label: (*name).to_owned(),
            points: of_item
                .iter()
                .map(|row| Point {
                    value: row.deviation_in_bounds.filter(|value| value.is_finite()),
                    standing: standing(row.verdict),
                })
                .collect(),
            standing: standing(count.worst()),
            words: match bad {
                Some(verdict) => format!("{}/{claims} {}", count.number(verdict), verdict.word()),
                None => format!("{}/{claims} upheld", count.number(ClaimVerdict::Upheld)),
            },
        }
    };
    let open = |row: &&ClaimRow| !matches!(row.verdict, ClaimVerdict::Upheld | ClaimVerdict::Noted);
    let mut remarks: Vec<Remark> = (rows.iter().filter(open))
        .map(|row| Remark {
            standing: standing(row.verdict),
            text: format!("{}: {}: {}; {}", row.verdict.word(), row.item, row.claim, reason(row)),
        })
        .collect();
    remarks.sort_by_key(|remark| std::cmp::Reverse(remark.standing));
    let seed = heading.run.seed.map(|seed| format!(" · seed {seed}")).unwrap_or_default();
    Strips {
        title: format!("attn check: {}", Count::of(rows).sentence()),
        conditions: format!(
            "{}{seed} · false-alarm rate {:e} over the whole suite · attn {}",
            heading.suite, heading.false_alarm, heading.run.version
        ),
        axis: "deviation ÷ the smallest that would have been seen, or the largest allowed (shaded: less than 1)"
            .to_owned(),
        bound: Bound::Within,
        names: ClaimVerdict::ALL.map(|verdict| (standing(verdict), verdict.word().to_owned())).to_vec(),
        strips: items(rows).iter().map(strip).collect(),
        remarks,
    }
    .draw()
}
