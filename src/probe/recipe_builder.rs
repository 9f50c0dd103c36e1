//! How recipes are put together.

use super::case::{Capability, Causal, Groups, MaskForm, Options, Shape};
use super::recipe::{Change, LogitKind, MaskKind, Recipe, ValueKind};
use crate::diagnosis::matrix::Storage;

/// A recipe with normal entries in f32, V as wide as Q and K, and nothing asked for.
pub(super) fn plain(
    capability: Capability,
    name: &str,
    [batches, heads, queries, keys, width]: [usize; 5],
    purpose: &str,
) -> Recipe {
    Recipe {
        name: format!("{capability}-{name}"),
        capability,
        purpose: purpose.to_string(),
        storage: Storage::F32,
        shape: Shape { batches, heads, key_heads: heads, queries, keys, width, value_width: width },
        values: ValueKind::Normal,
        logits: LogitKind::Normal(1.0),
        mask: MaskKind::None,
        options: Options::default(),
        numbers_of: None,
        change: Change::None,
        same_as: None,
    }
}

impl Recipe {
    /// V is the identity.
    pub(super) fn identity(mut self) -> Self {
        (self.values, self.shape.value_width) = (ValueKind::Identity, self.shape.keys);
        self
    }

    /// V has this width.
    pub(super) fn values(mut self, kind: ValueKind, width: usize) -> Self {
        (self.values, self.shape.value_width) = (kind, width);
        self
    }

    pub(super) fn scaled(mut self, scale: f64) -> Self {
        self.options.scale = Some(scale);
        self
    }

    pub(super) fn causal(mut self, causal: Causal) -> Self {
        self.options.causal = Some(causal);
        self
    }

    pub(super) fn stored(mut self, storage: Storage) -> Self {
        self.storage = storage;
        self
    }

    pub(super) fn key_heads(mut self, key_heads: usize) -> Self {
        (self.shape.key_heads, self.options.kv_groups) = (key_heads, Some(Groups::Repeat));
        self
    }

    pub(super) fn masked(mut self, form: MaskForm, kind: MaskKind) -> Self {
        (self.options.mask, self.mask) = (Some(form), kind);
        self
    }

    pub(super) fn padded(mut self, lengths: &'static [usize]) -> Self {
        self.options.padding = true;
        self.masked(MaskForm::Boolean, MaskKind::Lengths(lengths))
    }

    pub(super) fn with(mut self, change: impl FnOnce(&mut Options)) -> Self {
        change(&mut self.options);
        self
    }

    pub(super) fn entries(mut self, logits: LogitKind) -> Self {
        self.logits = logits;
        self
    }

    pub(super) fn from(mut self, other: &str, change: Change) -> Self {
        (self.numbers_of, self.change) = (Some(other.to_string()), change);
        self
    }

    pub(super) fn renamed(mut self, name: &str) -> Self {
        self.name = format!("{}-{name}", self.capability);
        self
    }

    pub(super) fn with_purpose(mut self, purpose: &str) -> Self {
        self.purpose = purpose.to_string();
        self
    }
}
