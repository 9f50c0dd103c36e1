//! How often a planted fault is found, and called by its name: random sizes, types and values, away from the stated blind spots.

use attn::attention::Alignment;
use attn::diagnosis::arrays::Role;
use attn::diagnosis::audit::Audit;
use attn::diagnosis::contract::Declared;
use attn::diagnosis::finding::{Check, Verdict};
use attn::diagnosis::given_mask::MaskKind;
use attn::diagnosis::matrix::Storage;

use crate::definition::{Case, Draws, File, Shape, shown};

/// Runs per fault; release runs give the rates of data/audit_detection.csv.
const RUNS: u64 = if cfg!(debug_assertions) { 12 } else { 100 };

const HIDDEN: f64 = f64::NEG_INFINITY;

/// A fault: its name, the check that must name it, words of explanation or cause, and how it is built.
struct Fault {
    name: &'static str,
    check: Check,
    words: &'static str,
    build: fn(&mut Draws, Case, f64) -> File,
}

fn causal(file: File) -> File {
    file.contract(|contract| contract.causal = Some(Declared::Yes(Alignment::TopLeft)))
}

fn standard(file: File) -> File {
    file.scale("1/sqrt(dk)")
}

/// Sums along the queries are 1.
fn over_queries(case: &Case, scale: f64) -> Vec<f64> {
    let s = case.shape;
    let mut p = case.softmax(&|_, _, _, _, raw| scale * raw);
    for head in 0..s.heads {
        for key in 0..s.keys {
            let logits: Vec<f64> = (0..s.queries).map(|i| scale * case.raw(0, head, head, i, key)).collect();
            let largest = logits.iter().copied().fold(HIDDEN, f64::max);
            let total: f64 = logits.iter().map(|l| (l - largest).exp()).sum();
            for (i, l) in logits.iter().enumerate() {
                p[(head * s.queries + i) * s.keys + key] = case.storage.round((l - largest).exp() / total);
            }
        }
    }
    p
}

const FAULTS: [Fault; 19] = [
    Fault {
        name: "scale 1",
        check: Check::Scale,
        words: "unscaled",
        build: |_, case, _| standard(case.attend(&|_, _, _, _, raw| raw).file()),
    },
    Fault {
        name: "scale 1/sqrt(d_model)",
        check: Check::Scale,
        words: "d_model",
        build: |_, case, scale| {
            let heads = case.shape.heads as f64;
            case.attend(&|_, _, _, _, raw| scale / heads.sqrt() * raw).file()
        },
    },
    Fault {
        name: "scale twice",
        check: Check::Scale,
        words: "applied twice",
        build: |_, case, scale| standard(case.attend(&|_, _, _, _, raw| scale * scale * raw).file()),
    },
    Fault {
        name: "softmax over queries",
        check: Check::Normalisation,
        words: "query axis",
        build: |_, mut case, scale| {
            case.p = over_queries(&case, scale);
            case.o = case.times_values(&case.p);
            case.file()
        },
    },
    Fault {
        name: "no causal mask",
        check: Check::Causal,
        words: "no causal mask at all",
        build: |_, case, scale| causal(case.attend(&|_, _, _, _, raw| scale * raw).file()),
    },
    Fault {
        name: "causal mask transposed",
        check: Check::Causal,
        words: "transposed",
        build: |_, case, scale| {
            causal(case.attend(&|_, _, i, j, raw| if j >= i { scale * raw } else { HIDDEN }).file())
        },
    },
    Fault {
        name: "diagonal masked",
        check: Check::Causal,
        words: "diagonal is hidden",
        build: |_, case, scale| causal(case.attend(&|_, _, i, j, raw| if j < i { scale * raw } else { HIDDEN }).file()),
    },
    Fault {
        name: "bottom-right for top-left",
        check: Check::Causal,
        words: "BOTTOM-RIGHT",
        build: |draws, case, scale| {
            // Fewer queries than keys.
            let shape = Shape { queries: case.shape.keys - 2, ..case.shape };
            let case = Case::draw(draws.bits(), shape, case.storage);
            causal(case.attend(&|_, _, i, j, raw| if j <= i + 2 { scale * raw } else { HIDDEN }).file())
        },
    },
    Fault {
        name: "window off by one",
        check: Check::Window,
        words: "off by one",
        build: |draws, case, scale| {
            let window = 2 + draws.below(case.shape.keys - 3);
            let case = case.attend(&|_, _, i, j, raw| if j <= i && j + window >= i { scale * raw } else { HIDDEN });
            causal(case.file()).contract(|contract| contract.window = Some(window))
        },
    },
    Fault {
        name: "mask multiplied",
        check: Check::Mask,
        words: "multiplied by the mask",
        build: |_, case, scale| {
            let (n, m) = (case.shape.queries, case.shape.keys);
            let keep = |i: usize, j: usize| (3 * i + 5 * j) % 7 < 4;
            let case = case.attend(&|_, _, i, j, raw| if keep(i, j) { scale * raw } else { 0.0 });
            let mask = (0..n * m).map(|cell| f64::from(u8::from(keep(cell / m, cell % m)))).collect();
            case.file().with(Role::Mask, [1, 1, n, m], Storage::F32, mask)
        },
    },
    Fault {
        name: "mask reversed",
        check: Check::Mask,
        words: "polarity reversed",
        build: |_, case, scale| {
            let (n, m) = (case.shape.queries, case.shape.keys);
            let keep = |i: usize, j: usize| (3 * i + 5 * j) % 7 < 4;
            let case = case.attend(&|_, _, i, j, raw| if keep(i, j) { HIDDEN } else { scale * raw });
            let mask = (0..n * m).map(|cell| f64::from(u8::from(keep(cell / m, cell % m)))).collect();
            case.file().with(Role::Mask, [1, 1, n, m], Storage::F32, mask).kind(MaskKind::Keep)
        },
    },
    Fault {
        name: "mask after softmax",
        check: Check::Mask,
        words: "set to 0 after it",
        build: |_, case, scale| {
            let (n, m) = (case.shape.queries, case.shape.keys);
            let mut case = case.attend(&|_, _, _, _, raw| scale * raw);
            case.p.iter_mut().enumerate().for_each(|(cell, p)| *p = if cell % m <= cell / m % n { *p } else { 0.0 });
            case.o = case.times_values(&case.p);
            causal(case.file())
        },
    },
    Fault {
        name: "padding leaks",
        check: Check::Padding,
        words: "padding keys have weight",
        build: |draws, case, scale| {
            let m = case.shape.keys;
            let real = 2 + draws.below(m - 3);
            let padding = (0..m).map(|key| f64::from(u8::from(key < real))).collect();
            case.attend(&|_, _, _, _, raw| scale * raw).file().with(Role::Padding, [1, 1, 1, m], Storage::F32, padding)
        },
    },
    Fault {
        name: "dropout 0.2",
        check: Check::Dropout,
        words: "was active",
        build: |draws, case, scale| {
            let mut case = case.attend(&|_, _, _, _, raw| scale * raw);
            let storage = case.storage;
            case.p.iter_mut().for_each(|p| *p = if draws.uniform() < 0.2 { 0.0 } else { storage.round(*p / 0.8) });
            case.o = case.times_values(&case.p);
            case.file()
        },
    },
    Fault {
        name: "bias ignored",
        check: Check::Bias,
        words: "ignored",
        build: |draws, case, scale| {
            let (n, m) = (case.shape.queries, case.shape.keys);
            let bias = draws.normals(n * m);
            case.attend(&|_, _, _, _, raw| scale * raw).file().with(Role::Bias, [1, 1, n, m], Storage::F32, bias)
        },
    },
    Fault {
        name: "alibi ignored",
        check: Check::Alibi,
        words: "not applied",
        build: |_, case, scale| {
            case.attend(&|_, _, _, _, raw| scale * raw).file().contract(|contract| contract.alibi = true)
        },
    },
    Fault {
        name: "soft cap ignored",
        check: Check::Softcap,
        words: "no curvature",
        build: |draws, case, scale| {
            let case = Case::draw_with_size(draws.bits(), case.shape, case.storage, 2.0);
            case.attend(&|_, _, _, _, raw| scale * raw).file().contract(|contract| contract.softcap = Some(5.0))
        },
    },
    Fault {
        name: "heads joined without transpose",
        check: Check::Heads,
        words: "without transpose",
        build: |_, case, scale| {
            let s = case.shape;
            let case = case.attend(&|_, _, _, _, raw| scale * raw);
            let mut mixed = Vec::new();
            for head in 0..s.heads {
                for token in 0..s.queries {
                    let row = token * s.heads + head;
                    mixed.extend_from_slice(&case.o[row * s.width..(row + 1) * s.width]);
                }
            }
            case.file().with(Role::Output, [1, s.heads, s.queries, s.width], case.storage, mixed)
        },
    },
    Fault {
        name: "output of another mask",
        check: Check::Output,
        words: "different code paths",
        build: |_, case, scale| {
            let mut right = case.clone().attend(&|_, _, i, j, raw| if j <= i { scale * raw } else { HIDDEN });
            right.o = case.attend(&|_, _, _, _, raw| scale * raw).o;
            causal(right.file())
        },
    },
];

#[test]
fn planted_faults_are_found_and_called_by_their_name() {
    // 99 % of what is away from blind spots; a debug run is a smoke test.
    detect(RUNS, 99, &|file, _| file.audit());
}

#[test]
fn planted_faults_are_found_where_fits_use_half_of_the_rows() {
    // One of 25 may be lost: in bf16 some caps stay within the worst-case bound of every weight, and show in the fit alone, which here
    // has 55 to 465 cells.
    detect(RUNS / 4, 96, &|file, n| file.audit_fitted_on(n * n / 2));
}

/// Every fault in `runs` random files of n queries and keys; `least` per cent must be named.
fn detect(runs: u64, least: u64, audited: &dyn Fn(File, usize) -> Audit) {
    let mut lines = String::from("fault,precision,runs,detected,named\n");
    let mut poor = Vec::new();
    for (number, fault) in FAULTS.iter().enumerate() {
        for storage in [Storage::F32, Storage::F16, Storage::Bf16] {
            let (mut detected, mut named, mut example) = (0, 0, String::new());
            for run in 0..runs {
                let mut draws = Draws(1_000_003 * number as u64 + run);
                let n = [11, 13, 17, 23, 29, 31][draws.below(6)];
                let width = [16, 32, 64, 128][draws.below(4)];
                let shape = Shape::of(1, 2 + draws.below(3), n, n, width);
                let case = Case::draw(draws.bits(), shape, storage);
                let audit = audited((fault.build)(&mut draws, case, 1.0 / (width as f64).sqrt()), n);
                let failed = audit.findings.iter().any(|f| f.verdict == Verdict::Fail);
                let is_named = audit.findings.iter().any(|f| {
                    let words = f.explanation.contains(fault.words) || f.cause.contains(fault.words);
                    f.verdict == Verdict::Fail && f.check == fault.check && words
                });
                detected += u64::from(failed);
                named += u64::from(is_named);
                if !is_named && example.is_empty() {
                    example = format!("run {run}: {shape:?}\n{}", shown(&audit));
                }
            }
            lines.push_str(&format!("{},{},{runs},{detected},{named}\n", fault.name, storage.name()));
            if 100 * named < least * runs {
                poor.push(format!("{} {}: {named} of {runs} named\n{example}", fault.name, storage.name()));
            }
        }
    }
    println!("{lines}");
    assert!(poor.is_empty(), "{}", poor.join("\n\n"));
}
