//! Sets of flags in sixteen bits.

/// Declares a set with a constant for each bit.
macro_rules! bits {
    ($(#[$doc:meta])* $flags:ident { $($(#[$each:meta])* $name:ident = $bit:expr,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $flags(u16);

        impl $flags {
            $($(#[$each])* pub const $name: Self = Self(1 << $bit);)*

            /// Whether any flag of `any` is set.
            pub const fn has(self, any: Self) -> bool {
                self.0 & any.0 != 0
            }
            /// Sets or clears.
            pub const fn put(&mut self, which: Self, on: bool) {
                if on { self.0 |= which.0 } else { self.0 &= !which.0 }
            }
            /// Sets.
            pub const fn set(&mut self, which: Self) {
                self.0 |= which.0;
            }
            /// Clears the flags of `which`, and returns whether any of them was set.
            #[allow(dead_code, reason = "one of the sets needs it")]
            pub const fn take(&mut self, which: Self) -> bool {
                let was = self.has(which);
                self.0 &= !which.0;
                was
            }
        }
    };
}

pub(super) use bits;
