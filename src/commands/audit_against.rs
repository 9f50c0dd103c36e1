//! `attn audit FILE --against REFERENCE`: two dumps of one attention.

use anyhow::{Result, anyhow, bail};

use super::audit::row;
use super::audit_arrays::{Group, Needed, groups};
use super::config::option;
use crate::cli::audit::AuditArguments;
use crate::diagnosis::comparison::{Dump, compare, repeat_grouped_heads};
use crate::diagnosis::contract::{Contract, Declared};
use crate::diagnosis::scale_expression::ScaleExpression;
use crate::experiment::progress::Progress;
use crate::report::findings::FindingRow;

/// The rows of every pair of groups, and what their arrays are.
///
/// # Errors
/// Unreadable files, groups that cannot be paired, arrays that cannot be compared.
pub fn rows(typed: &AuditArguments, contract: &Contract) -> Result<(Vec<FindingRow>, Vec<String>)> {
    let scale = typed.against_scale.as_deref();
    let scale = scale.map(|text| option("--against-scale", text, ScaleExpression::parse)).transpose()?;
    let of_reference = Contract { scale: scale.map_or(contract.scale.clone(), Declared::Yes), ..contract.clone() };
    let pairs =
        paired(groups(typed, &typed.files, Needed::AnyArray)?, groups(typed, &typed.against, Needed::AnyArray)?)?;
    for (own, reference) in &pairs {
        own.give_notice(typed.results.quiet);
        reference.give_notice(typed.results.quiet);
    }
    let progress = Progress::new(pairs.len() as f64, typed.results.quiet);
    let (mut findings, mut remarks) = (Vec::new(), Vec::new());
    for (own, reference) in pairs {
        let name = own.name.clone();
        let of_group = |error: String| if name.is_empty() { anyhow!(error) } else { anyhow!("{name}: {error}") };
        for (group, heading) in [(&own, "File"), (&reference, "Reference")] {
            remarks.push(group.remark(heading));
        }
        let mut own = Dump { arrays: own.arrays, contract: contract.clone() };
        let mut reference = Dump { arrays: reference.arrays, contract: of_reference.clone() };
        repeat_grouped_heads(&mut own, &mut reference);
        let compared = compare(&own, &reference, &|_, of| progress.advance(1.0 / of as f64)).map_err(of_group)?;
        let shared = FindingRow {
            file: format!("{} against {}", typed.files.join(" "), typed.against.join(" ")),
            group: name.clone(),
            version: env!("CARGO_PKG_VERSION").to_string(),
            ..FindingRow::default()
        };
        let shape = (compared.batches, compared.heads);
        findings.extend(compared.findings.iter().map(|finding| row(&shared, finding, shape)));
    }
    progress.finish();
    Ok((findings, remarks))
}

/// Groups of the same name; a single group on either side needs none.
fn paired(mut own: Vec<Group>, mut reference: Vec<Group>) -> Result<Vec<(Group, Group)>> {
    if own.len() == 1 && reference.len() == 1 {
        return Ok(own.drain(..).zip(reference.drain(..)).collect());
    }
    let names = |groups: &[Group]| groups.iter().map(|group| group.name.clone()).collect::<Vec<_>>();
    let (own_names, reference_names) = (names(&own), names(&reference));
    let alone = |a: &[String], b: &[String]| a.iter().find(|name| !b.contains(name)).cloned();
    if let Some(name) = alone(&own_names, &reference_names) {
        bail!("group {name} is not in the reference, which has {}; choose with --group", reference_names.join(", "));
    }
    if let Some(name) = alone(&reference_names, &own_names) {
        bail!(
            "group {name} of the reference is not in the file, which has {}; choose with --group",
            own_names.join(", ")
        );
    }
    // Both are sorted by name.
    Ok(own.into_iter().zip(reference).collect())
}
