//! Every case of a probe, by capability. Lengths of axes are different primes where the capability allows, and n ≠ m wherever a
//! square would hide something.

use super::case::{Capability, Case, Causal, MaskForm};
use super::recipe::{Change, LogitKind, MaskKind, Recipe, ValueKind};
use super::recipe_builder::plain;
use crate::diagnosis::matrix::Storage;

/// The cases of `only` (all if empty) under `seed`, in the order of [`Capability::ALL`].
pub fn cases(seed: u64, only: &[Capability]) -> Vec<Case> {
    let wanted = Capability::ALL.into_iter().filter(|capability| only.is_empty() || only.contains(capability));
    wanted.flat_map(recipes).map(|recipe| recipe.case(seed)).collect()
}

fn recipes(capability: Capability) -> Vec<Recipe> {
    let case = |name: &str, axes: [usize; 5], purpose: &str| plain(capability, name, axes, purpose);
    match capability {
        Capability::DefaultScale | Capability::ExplicitScale => scales(capability),
        Capability::NonSquare | Capability::BatchAndHeads | Capability::GroupedQueries => shapes(capability),
        Capability::BooleanMask | Capability::AdditiveMask | Capability::Bias => masks(capability),
        Capability::Causal | Capability::Window => positions(capability),
        Capability::Padding | Capability::EmptyRows | Capability::HiddenNan => hidden_keys(capability),
        Capability::Softcap => vec![
            case("weights", [2, 3, 7, 11, 5], "logits are capped at 3")
                .identity()
                .with(|options| options.softcap = Some(3.0)),
            case("output", [1, 3, 13, 17, 11], "logits are capped at 20, where few reach it")
                .entries(LogitKind::Normal(2.0))
                .with(|options| options.softcap = Some(20.0)),
            case("causal", [1, 2, 13, 13, 7], "the cap comes before the mask: hidden keys stay hidden")
                .identity()
                .causal(Causal::Either)
                .with(|options| options.softcap = Some(2.0)),
            case("scale", [1, 2, 11, 13, 7], "the cap comes after the scale")
                .scaled(0.7)
                .with(|options| options.softcap = Some(2.0)),
        ],
        Capability::Alibi => vec![
            case("weights", [1, 8, 11, 11, 5], "logits fall with distance, slopes of 8 heads").identity(),
            case("output", [2, 5, 13, 13, 7], "slopes of 5 heads, no power of two"),
            case("causal", [1, 4, 13, 13, 7], "with the causal mask").causal(Causal::Either),
        ]
        .into_iter()
        .map(|recipe| recipe.with(|options| options.alibi = true))
        .collect(),
        Capability::DropoutOff => vec![
            case("weights", [1, 2, 31, 37, 3], "every key has the weight it should have, none is 0")
                .identity()
                .entries(LogitKind::Normal(0.5)),
            case("output", [3, 2, 41, 43, 5], "no term is missing from the output").entries(LogitKind::Normal(0.5)),
            case("causal", [1, 3, 29, 29, 7], "the same with the causal mask").causal(Causal::Either),
        ],
        Capability::HugeLogits => huge(capability),
        Capability::LongRows => long_rows(capability),
        Capability::F64 => typed(capability, Storage::F64),
        Capability::F32 => typed(capability, Storage::F32),
        Capability::F16 => typed(capability, Storage::F16),
        Capability::Bf16 => typed(capability, Storage::Bf16),
        Capability::Determinism | Capability::BatchIndependence | Capability::Permutation => relations(capability),
        Capability::LogSumExp => vec![
            case("plain", [2, 3, 13, 17, 11], "the natural logarithm of the sum, scale included"),
            case("causal", [1, 2, 13, 13, 7], "over visible keys only").causal(Causal::Either),
            case("scale", [1, 3, 5, 7, 11], "with a scale of 0.3").scaled(0.3),
            case("huge", [1, 2, 7, 11, 16], "where the sum itself overflows")
                .entries(LogitKind::Steps { base: 256.0, step: 2.0 }),
        ],
        Capability::Gradients => vec![
            case("plain", [2, 3, 11, 13, 7], "dQ, dK and dV against the closed form"),
            case("scale", [1, 2, 7, 11, 5], "the scale is a factor of dQ and dK").scaled(0.3),
            case("causal", [1, 3, 13, 13, 5], "no gradient flows from hidden cells").causal(Causal::Either),
            case("groups", [1, 6, 7, 11, 5], "dK and dV are summed over the query heads of a group").key_heads(2),
            case("bf16", [1, 3, 13, 17, 11], "in bf16").stored(Storage::Bf16),
        ]
        .into_iter()
        .map(|recipe| recipe.with(|options| options.gradients = true))
        .collect(),
    }
}

fn scales(capability: Capability) -> Vec<Recipe> {
    let case = |name: &str, axes: [usize; 5], purpose: &str| plain(capability, name, axes, purpose);
    if capability == Capability::DefaultScale {
        return vec![
            case("weights", [2, 3, 13, 17, 11], "the output is the weights, from which any scale can be read")
                .identity(),
            case("output", [2, 3, 13, 17, 11], "the same with V as wide as Q"),
            case("wide", [1, 2, 7, 11, 67], "a width at which 1/d and 1/√d are far apart"),
            case("one-head", [1, 1, 5, 7, 3], "small: can be followed by hand"),
        ];
    }
    vec![
        case("one-weights", [1, 3, 13, 17, 11], "a scale of 1, the output is the weights").identity().scaled(1.0),
        case("one", [2, 2, 11, 13, 7], "a scale of 1").scaled(1.0),
        case("small", [1, 3, 7, 11, 13], "a scale of 1/16").scaled(0.0625),
        case("odd", [1, 2, 11, 17, 5], "a scale of 0.3, no power of two").scaled(0.3),
    ]
}

fn shapes(capability: Capability) -> Vec<Recipe> {
    let case = |name: &str, axes: [usize; 5], purpose: &str| plain(capability, name, axes, purpose);
    match capability {
        Capability::NonSquare => vec![
            case("more-keys", [1, 2, 7, 23, 5], "more keys than queries"),
            case("more-queries", [1, 2, 23, 7, 5], "more queries than keys"),
            case("one-query", [2, 3, 1, 19, 11], "one query: decoding"),
            case("one-key", [2, 3, 11, 1, 7], "one key: every output is its value"),
            case("wide-values", [1, 3, 11, 13, 5], "values wider than keys").values(ValueKind::Normal, 29),
            case("width-one", [1, 2, 5, 7, 1], "one channel"),
        ],
        Capability::BatchAndHeads => vec![
            case("weights", [3, 5, 7, 11, 2], "each head its own weights, seen in the output").identity(),
            case("output", [3, 5, 7, 11, 13], "each head its own output"),
            case("one-batch", [1, 7, 11, 13, 5], "one batch entry, seven heads"),
            case("one-head", [5, 1, 11, 7, 3], "five batch entries, one head"),
        ],
        _ => vec![
            case("weights", [1, 6, 7, 11, 5], "six query heads on three key heads, the output is the weights")
                .identity()
                .key_heads(3),
            case("pairs", [2, 6, 11, 13, 7], "six query heads on two key heads").key_heads(2),
            case("one-key-head", [2, 5, 7, 11, 3], "all query heads on one key head").key_heads(1),
            case("causal", [1, 10, 13, 13, 3], "ten query heads on five key heads, causal")
                .key_heads(5)
                .causal(Causal::Either),
        ],
    }
}

fn masks(capability: Capability) -> Vec<Recipe> {
    let case = |name: &str, axes: [usize; 5], purpose: &str| plain(capability, name, axes, purpose);
    let form = if capability == Capability::BooleanMask { MaskForm::Boolean } else { MaskForm::Additive };
    let hidden = if capability == Capability::BooleanMask { 0.0 } else { f64::NEG_INFINITY };
    if capability == Capability::Bias {
        let bias = |batches: usize, heads: usize, factor: f64| MaskKind::Bias { batches, heads, factor };
        return vec![
            case("weights", [1, 3, 7, 11, 5], "numbers of each head are added, the output is the weights")
                .identity()
                .masked(form, bias(1, 3, 1.0)),
            case("shared", [2, 3, 11, 13, 7], "one table for all heads and batch entries")
                .masked(form, bias(1, 1, 1.0)),
            case("own", [2, 3, 7, 13, 11], "a table for each head and batch entry").masked(form, bias(2, 3, 2.0)),
            case("scale", [1, 2, 11, 7, 5], "the bias is not scaled").scaled(0.3).masked(form, bias(1, 2, 1.0)),
        ];
    }
    let random = |batches: usize, heads: usize| MaskKind::Random { batches, heads, hidden };
    let mut recipes = vec![
        case("weights", [1, 3, 7, 11, 5], "hidden keys have no weight, the output is the weights")
            .identity()
            .masked(form, random(1, 1)),
        case("shared", [2, 3, 13, 11, 7], "one mask for all").masked(form, random(1, 1)),
        case("by-batch", [3, 2, 7, 13, 5], "a mask for each batch entry").masked(form, random(3, 1)),
        case("own", [2, 3, 11, 17, 7], "a mask for each head and batch entry").masked(form, random(2, 3)),
    ];
    if capability == Capability::BooleanMask {
        recipes.push(
            case("f16", [2, 3, 11, 7, 5], "in f16, where large constants overflow")
                .stored(Storage::F16)
                .masked(form, random(1, 1)),
        );
    }
    if capability == Capability::AdditiveMask {
        let finite = MaskKind::Random { batches: 1, heads: 1, hidden: -10_000.0 };
        recipes.push(case("finite", [2, 3, 11, 13, 7], "−10000 hides as well").masked(form, finite));
    }
    recipes
}

fn positions(capability: Capability) -> Vec<Recipe> {
    let case = |name: &str, axes: [usize; 5], purpose: &str| plain(capability, name, axes, purpose);
    if capability == Capability::Causal {
        return vec![
            case("weights", [1, 2, 13, 13, 5], "no weight above the diagonal, the output is the weights")
                .identity()
                .causal(Causal::Either),
            case("square", [2, 3, 17, 17, 7], "as many queries as keys").causal(Causal::Either),
            case("more-keys", [1, 3, 7, 13, 5], "more keys than queries: which convention?").causal(Causal::Either),
            case("more-keys-weights", [1, 2, 7, 11, 3], "the same, the output is the weights")
                .identity()
                .causal(Causal::Either),
            case("more-queries", [1, 2, 13, 7, 5], "more queries than keys: which convention?")
                .causal(Causal::Either)
                .with(|options| options.empty_rows = true),
            case("decode", [2, 2, 1, 17, 7], "one query: it sees the first key, or all").causal(Causal::Either),
            case("top-left", [1, 3, 7, 17, 5], "query i stands at key i").causal(Causal::TopLeft),
            case("bottom-right", [1, 3, 7, 17, 5], "the last query stands at the last key").causal(Causal::BottomRight),
        ];
    }
    let window = |recipe: Recipe, left: i64, right: i64| recipe.with(|options| options.window = Some([left, right]));
    vec![
        window(
            case("weights", [1, 2, 17, 17, 5], "four keys before the own one, none after")
                .identity()
                .causal(Causal::Either),
            4,
            0,
        ),
        window(case("left", [2, 3, 19, 19, 7], "six keys before the own one, none after").causal(Causal::Either), 6, 0),
        window(case("both", [1, 3, 17, 17, 5], "three keys on either side"), 3, 3),
        window(
            case("uneven", [1, 2, 13, 13, 5], "two keys before, five after, the output is the weights").identity(),
            2,
            5,
        ),
        window(
            case("bottom-right", [1, 2, 7, 17, 5], "three keys before the own one, queries at the end")
                .causal(Causal::BottomRight),
            3,
            0,
        ),
    ]
}

fn hidden_keys(capability: Capability) -> Vec<Recipe> {
    let case = |name: &str, axes: [usize; 5], purpose: &str| plain(capability, name, axes, purpose);
    if capability == Capability::Padding {
        return vec![
            case("weights", [3, 2, 7, 11, 5], "padding has no weight, the output is the weights")
                .identity()
                .padded(&[11, 7, 2]),
            case("loud", [3, 2, 13, 11, 7], "values of padding are 1000 times as large")
                .values(ValueKind::LoudPadding(1000.0), 7)
                .padded(&[5, 11, 1]),
            case("causal", [2, 3, 13, 13, 5], "with the causal mask").padded(&[13, 6]).causal(Causal::Either),
            case("bf16", [2, 3, 11, 13, 7], "in bf16").padded(&[4, 13]).stored(Storage::Bf16),
        ];
    }
    if capability == Capability::HiddenNan {
        return vec![
            case("values", [3, 2, 7, 11, 5], "values of padding are NaN")
                .values(ValueKind::BrokenPadding, 5)
                .padded(&[11, 7, 2]),
            case("values-bf16", [2, 3, 11, 13, 7], "the same in bf16")
                .values(ValueKind::BrokenPadding, 7)
                .padded(&[13, 5])
                .stored(Storage::Bf16),
        ];
    }
    let empty = |recipe: Recipe| recipe.with(|options| options.empty_rows = true);
    vec![
        empty(
            case("boolean", [2, 3, 7, 11, 5], "rows 0, 3 and 6 see no key")
                .masked(MaskForm::Boolean, MaskKind::EmptyRows(&[0, 3, 6])),
        ),
        empty(
            case("additive", [2, 2, 7, 13, 5], "rows 2 and 5 are −∞ everywhere")
                .masked(MaskForm::Additive, MaskKind::EmptyRows(&[2, 5])),
        ),
        empty(
            case("weights", [1, 3, 7, 11, 5], "row 4 sees no key, the output is the weights")
                .identity()
                .masked(MaskForm::Boolean, MaskKind::EmptyRows(&[4])),
        ),
        empty(case("padding", [3, 2, 7, 11, 5], "a batch entry of length 0").padded(&[11, 0, 5])),
        empty(
            case("bf16", [1, 2, 7, 11, 5], "in bf16")
                .masked(MaskForm::Boolean, MaskKind::EmptyRows(&[1]))
                .stored(Storage::Bf16),
        ),
    ]
}

fn huge(capability: Capability) -> Vec<Recipe> {
    let case = |name: &str, axes: [usize; 5], purpose: &str, storage: Storage, base: f64, step: f64| {
        plain(capability, name, axes, purpose).stored(storage).entries(LogitKind::Steps { base, step })
    };
    vec![
        case(
            "f32",
            [1, 2, 7, 11, 16],
            "logits from 256: exp overflows unless the maximum is taken off",
            Storage::F32,
            256.0,
            1.0,
        ),
        case(
            "f32-low",
            [1, 2, 7, 11, 16],
            "logits from −256: every exp is 0 unless the maximum is taken off",
            Storage::F32,
            -256.0,
            1.0,
        ),
        case("f32-causal", [1, 2, 13, 13, 16], "with the causal mask", Storage::F32, 256.0, 1.0).causal(Causal::Either),
        case("f64", [1, 2, 7, 11, 16], "logits from 1024", Storage::F64, 1024.0, 1.0),
        case("f16", [1, 2, 7, 11, 16], "logits from 256, which f16 holds", Storage::F16, 256.0, 1.0),
        case("bf16", [1, 2, 7, 11, 16], "logits from 256, which bf16 holds", Storage::Bf16, 256.0, 2.0),
        // QKᵀ is 2¹⁷ and more, beyond the 65504 of f16; times 2⁻⁹ it is 256.
        case(
            "f16-products",
            [1, 2, 7, 11, 16],
            "QKᵀ overflows f16 unless it is scaled or summed in f32",
            Storage::F16,
            32768.0,
            128.0,
        )
        .scaled(1.0 / 512.0),
    ]
}

fn long_rows(capability: Capability) -> Vec<Recipe> {
    let case = |name: &str, axes: [usize; 5], purpose: &str| {
        plain(capability, name, axes, purpose).entries(LogitKind::Normal(0.5))
    };
    vec![
        case("f32-sums", [1, 2, 3, 8191, 5], "V = 1: the output is the row sums, 1").values(ValueKind::Ones, 5),
        case("f32", [1, 1, 5, 8191, 7], "8191 keys of almost equal weight"),
        case("f16-sums", [1, 2, 3, 4099, 5], "V = 1 in f16").values(ValueKind::Ones, 5).stored(Storage::F16),
        case("f16", [1, 1, 5, 4099, 7], "4099 keys in f16").stored(Storage::F16),
        case("bf16-sums", [1, 2, 3, 4099, 5], "V = 1 in bf16").values(ValueKind::Ones, 5).stored(Storage::Bf16),
        case("bf16", [1, 1, 5, 4099, 7], "4099 keys in bf16").stored(Storage::Bf16),
    ]
}

fn typed(capability: Capability, storage: Storage) -> Vec<Recipe> {
    let case = |name: &str, axes: [usize; 5], purpose: &str| {
        plain(capability, name, axes, &format!("{purpose} in {capability}")).stored(storage)
    };
    vec![
        case("weights", [1, 2, 13, 17, 11], "the output is the weights").identity(),
        case("output", [2, 3, 17, 23, 13], "textbook attention"),
        case("causal", [1, 3, 19, 19, 7], "causal attention").causal(Causal::Either),
        case("peaked", [1, 2, 11, 13, 17], "weights near 0 and 1").entries(LogitKind::Normal(1.7)),
    ]
}

fn relations(capability: Capability) -> Vec<Recipe> {
    let case = |name: &str, axes: [usize; 5], purpose: &str| plain(capability, name, axes, purpose);
    let again = |first: &Recipe, name: &str| Recipe {
        same_as: Some(first.name.clone()),
        purpose: format!("{} again: the same bits", first.name),
        ..first.clone().from(&first.name, Change::None).renamed(name)
    };
    match capability {
        Capability::Determinism => {
            let f32 = case("f32", [3, 5, 67, 127, 31], "enough work for several threads");
            let bf16 = case("bf16", [2, 3, 61, 113, 29], "the same in bf16").stored(Storage::Bf16);
            let causal = case("causal", [2, 3, 127, 127, 31], "with the causal mask").causal(Causal::Either);
            let (second, third, fourth) =
                (again(&f32, "f32-again"), again(&bf16, "bf16-again"), again(&causal, "causal-again"));
            vec![f32, bf16, causal, second, third, fourth]
        }
        Capability::BatchIndependence => {
            let whole = case("whole", [3, 2, 11, 13, 7], "three batch entries");
            let name = whole.name.clone();
            vec![
                whole.clone(),
                whole
                    .clone()
                    .renamed("entry")
                    .from(&name, Change::Entry(1))
                    .with_purpose("entry 1 of the case before, alone"),
                whole
                    .renamed("loud")
                    .from(&name, Change::Loud(2))
                    .with_purpose("entry 2 is 64 times as large, the others as before"),
                case("causal", [3, 2, 13, 13, 5], "three batch entries, causal").causal(Causal::Either),
            ]
        }
        _ => {
            let base = case("base", [2, 3, 13, 17, 7], "the order as drawn");
            let name = base.name.clone();
            vec![
                base.clone(),
                base.clone()
                    .renamed("keys")
                    .from(&name, Change::Keys)
                    .with_purpose("keys and values in another order: the same output"),
                base.renamed("queries")
                    .from(&name, Change::Queries)
                    .with_purpose("queries in another order: the rows of the output in that order"),
            ]
        }
    }
}
