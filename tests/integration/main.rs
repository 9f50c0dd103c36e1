//! Behaviour of the whole program and of its parts in processes of their own.
mod interrupt;
