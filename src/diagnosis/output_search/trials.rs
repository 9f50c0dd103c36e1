//! The contract's relatives that are tried where only the output is there.

use super::super::contract::alibi_slope;
use super::super::evidence::Evidence;
use super::super::explain::{Cause, LIKELY_CAPS, Support};
use super::super::mask_pattern::{Placement, Shape};
use super::super::model::{Cap, Hidden, MaskUse, Misfit, Model};
use super::super::rows::RowBuffer;
use crate::attention::{Mask, VisibleKeys};

/// Most keys among which every window is tried.
const WINDOW_KEYS: usize = 2048;

/// Which cells a trial shows.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Cells {
    Contract,
    Ignored,
    Inverted,
    Shape(Shape),
    /// The contract's that the shape shows too.
    Both(Shape),
}

/// The causal window whose output comes closest, of every width, by the last rows and then by more of them.
pub(super) fn window(
    evidence: &Evidence<'_>,
    contract: &Model,
    few: &[usize],
    compare: &dyn Fn(&Model, &Cells, &[usize]) -> Misfit,
) -> Option<Cells> {
    let (n, m) = (evidence.queries, evidence.keys);
    if evidence.visible.visible_share() < 1.0 {
        return None;
    }
    let model = Model { mask: MaskUse::Observed, ..contract.clone() };
    let widths: Vec<usize> = if m <= WINDOW_KEYS {
        (1..m).collect()
    } else {
        (0..).map(|power| 1 << power).take_while(|&w| w < m).collect()
    };
    let placements = if n == m { vec![Placement::Square] } else { vec![Placement::TopLeft, Placement::BottomRight] };
    let shapes =
        placements.iter().flat_map(|&placement| widths.iter().map(move |&keys| Shape::Window { keys, placement }));
    let on_last = shapes.map(Cells::Shape).filter(|cells| compare(&model, cells, &[n - 1]).fits());
    let on_few = on_last.map(|cells| (compare(&model, &cells, few), cells)).filter(|(misfit, _)| misfit.fits());
    on_few.min_by(|a, b| a.0.squares.total_cmp(&b.0.squares)).map(|(_, cells)| cells)
}

/// The contract's relatives, likeliest first.
pub(super) fn trials(evidence: &Evidence<'_>, contract: &Model, heads: usize) -> Vec<(Model, Cells, Vec<Cause>)> {
    let mut trials = vec![(contract.clone(), Cells::Contract, Vec::new())];
    let own = |cells: Cells| match cells {
        Cells::Contract => (contract.clone(), Cells::Contract, Vec::new()),
        Cells::Ignored => (Model { mask: MaskUse::Ignored, ..contract.clone() }, Cells::Ignored, Vec::new()),
        Cells::Inverted => (Model { mask: MaskUse::Inverted, ..contract.clone() }, Cells::Inverted, Vec::new()),
        cells => (Model { mask: MaskUse::Observed, ..contract.clone() }, cells, Vec::new()),
    };
    let (n, m) = (evidence.queries, evidence.keys);
    let hides = evidence.visible.visible_share() < 1.0;
    if hides {
        trials.push(own(Cells::Ignored));
        trials.push(own(Cells::Inverted));
        for (hidden, cause) in [(Hidden::Multiplied, Cause::Multiplied), (Hidden::ZeroedAfter, Cause::ZeroedAfter)] {
            trials.push((Model { hidden, ..contract.clone() }, Cells::Contract, vec![cause]));
        }
    }
    let placements = if n == m { vec![Placement::Square] } else { vec![Placement::TopLeft, Placement::BottomRight] };
    for &placement in &placements {
        if hides {
            trials.push(own(Cells::Both(Shape::Causal { placement })));
        }
        trials.push(own(Cells::Shape(Shape::Causal { placement })));
        trials.push(own(Cells::Shape(Shape::StrictlyCausal { placement })));
    }
    trials.push(own(Cells::Shape(Shape::Transposed { diagonal: true })));
    if let Some(window) = evidence.window {
        for keys in [window + 1, window.saturating_sub(1).max(1)] {
            for &placement in &placements {
                trials.push(own(Cells::Shape(Shape::Window { keys, placement })));
            }
        }
    }
    match contract.cap {
        Some(Cap::Tanh(cap)) => {
            for other in [None, Some(Cap::FactorAfter(cap)), Some(Cap::TimesTanh(cap))] {
                trials.push((Model { cap: other, ..contract.clone() }, Cells::Contract, vec![Cause::Cap(other)]));
            }
        }
        _ => {
            let caps = LIKELY_CAPS.map(|cap| Some(Cap::Tanh(cap)));
            trials.extend(caps.map(|cap| (Model { cap, ..contract.clone() }, Cells::Contract, vec![Cause::Cap(cap)])));
        }
    }
    let mut forms: Vec<(Model, Cause)> = Vec::new();
    if contract.alibi == 0.0 {
        let slope = alibi_slope(evidence.head.head, heads);
        forms.push((Model { alibi: slope, ..contract.clone() }, Cause::Alibi(slope, 0.0)));
    }
    if contract.sink.is_none() {
        forms.push((Model { sink: Some(0.0), ..contract.clone() }, Cause::Sink(Some(0.0))));
    }
    if contract.cap.is_none() {
        let cap = |cap| (Model { cap: Some(Cap::Tanh(cap)), ..contract.clone() }, Cause::Cap(Some(Cap::Tanh(cap))));
        forms.extend(LIKELY_CAPS.map(cap));
    }
    for (model, cause) in forms {
        if !matches!(cause, Cause::Cap(_)) {
            trials.push((model.clone(), Cells::Contract, vec![cause.clone()]));
        }
        if !hides {
            for &placement in &placements {
                let cells = Cells::Shape(Shape::Causal { placement });
                trials.push((Model { mask: MaskUse::Observed, ..model.clone() }, cells, vec![cause.clone()]));
            }
        }
    }
    if evidence.has_bias {
        let ignored = Model { bias: 0.0, ..contract.clone() };
        trials.push((ignored, Cells::Contract, vec![Cause::Bias(0.0, 0.0)]));
        let scaled = Model { bias: contract.scale, ..contract.clone() };
        trials.push((scaled, Cells::Contract, vec![Cause::Bias(contract.scale, 0.0)]));
    }
    if contract.alibi != 0.0 {
        trials.push((Model { alibi: 0.0, ..contract.clone() }, Cells::Contract, vec![Cause::Alibi(0.0, 0.0)]));
    }
    if contract.sink.is_some() {
        trials.push((Model { sink: None, ..contract.clone() }, Cells::Contract, vec![Cause::Sink(None)]));
    }
    trials
}

pub(super) fn mark(row: &mut RowBuffer, cells: &Cells, evidence: &Evidence<'_>) {
    if let Cells::Shape(shape) | Cells::Both(shape) = cells {
        let view = row.view(&evidence.key_norms);
        let visible = shape.visible(view.query, evidence.queries, evidence.keys);
        let shows = |key: usize| visible.contains(&key) && (matches!(cells, Cells::Shape(_)) || view.visible[key]);
        let observed = (0..evidence.keys).map(shows).collect();
        row.observed = Some(observed);
    }
}

pub(super) fn support(evidence: &Evidence<'_>, cells: &Cells) -> Support {
    let (n, m) = (evidence.queries, evidence.keys);
    let mut observed = vec![false; n * m];
    let (mut leaked, mut lost, mut hidden_cells, mut first) = (0, 0, 0, None);
    let mut visible = vec![false; m];
    for (query, row) in observed.chunks_mut(m.max(1)).enumerate() {
        match evidence.visible.row(query) {
            VisibleKeys::Cells(cells) => visible.copy_from_slice(cells),
            VisibleKeys::Range(range) => {
                visible.fill(false);
                visible[range].fill(true);
            }
        }
        match cells {
            Cells::Contract => row.copy_from_slice(&visible),
            Cells::Ignored => row.fill(true),
            Cells::Inverted => row.iter_mut().zip(&visible).for_each(|(cell, &visible)| *cell = !visible),
            Cells::Shape(shape) => row[shape.visible(query, n, m)].fill(true),
            Cells::Both(shape) => {
                let range = shape.visible(query, n, m);
                row[range.clone()].copy_from_slice(&visible[range]);
            }
        }
        for (key, (&shown, &visible)) in row.iter().zip(&visible).enumerate() {
            leaked += usize::from(shown && !visible);
            lost += usize::from(visible && !shown);
            hidden_cells += usize::from(!visible);
            if shown != visible {
                first.get_or_insert((query, key));
            }
        }
    }
    Support {
        observed: Mask::from_cells(n, m, observed).compact(),
        leaked,
        lost,
        first: first.unwrap_or((0, 0)),
        leaked_weight: leaked as f64 / (n * m).max(1) as f64,
        hidden_cells,
    }
}
