//! One loop in plain Rust, compiled for every instruction set.

/// Makes of the `#[inline(always)]` function `$plain` one that is compiled for each instruction set and takes the set first. The loop
/// is vectorised as far as the compiler sees how; its arithmetic, and so its bits, stay those of plain Rust.
macro_rules! compiled_for_each_set {
    (
        $(#[$doc:meta])*
        $name:ident $(<$type:ident: $bound:ident>)? = $plain:ident($($argument:ident: $of:ty),*) $(-> $result:ty)?
    ) => {
        $(#[$doc])*
        ///
        /// # Panics
        /// If this machine lacks the instruction set.
        pub fn $name $(<$type: $bound>)? (set: InstructionSet, $($argument: $of),*) $(-> $result)? {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512dq")]
            fn avx512 $(<$type: $bound>)? ($($argument: $of),*) $(-> $result)? {
                $plain($($argument),*)
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            fn avx2 $(<$type: $bound>)? ($($argument: $of),*) $(-> $result)? {
                $plain($($argument),*)
            }
            assert_available(set);
            match set {
                // SAFETY: the machine has the instructions.
                #[cfg(target_arch = "x86_64")]
                InstructionSet::Avx512 => unsafe { avx512($($argument),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                InstructionSet::Avx2 => unsafe { avx2($($argument),*) },
                _ => $plain($($argument),*),
            }
        }
    };
}

pub(super) use compiled_for_each_set;
