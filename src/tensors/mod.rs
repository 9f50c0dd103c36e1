//! Arrays from files: .npy, .npz and .safetensors, read block by block.
//!
//! [`TensorFile`] opens a file, tells what is in it, and reads an array, one matrix of it or some rows of that matrix. The kind of
//! file is told from its first bytes, never from its name. Nothing of a file is ever executed: object arrays (pickles) are
//! refused.
//!
//! | stored | read as | |
//! |---|---|---|
//! | f32, f16, bf16, bool, i8, i16, u8, u16 | f32 | exact |
//! | f64, i32, u32, i64, u64 | f64 | exact; a 64-bit integer that f64 cannot hold is an error |
//!
//! A *block* is what remains when the first axes are fixed: of an array of shape (batch, head, rows, columns) the block \[b, h\] is
//! a matrix. Only a block's bytes are read from the file (all before it too where they are compressed), so that the memory needed
//! is that of the block and not of the file.
//!
//! # Why positional reads and no memory map
//!
//! A map needs `unsafe` and makes the process die of SIGBUS when somebody shortens the file meanwhile; its pages
//! count as resident memory. A read at a position costs one copy, and a file that shrinks is an error like any other.

mod decode;
mod dtype;
mod file;
mod member;
mod npy;
mod npz;
mod read;
mod safetensors;
mod store;
mod write;

pub use dtype::{ByteOrder, DType, Order, TensorInfo, VoidType};
pub use file::{FileFormat, TensorFile};
pub use read::{Tensor, Values};
pub use write::{write_npy, write_safetensors, write_safetensors_with};
