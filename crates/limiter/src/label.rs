//! Enums whose variants have a label in metrics, logs and configuration.

/// Defines an enum of variants with labels: `ALL` of them, and the label of each.
#[doc(hidden)]
#[macro_export]
macro_rules! labelled {
    ($(#[$meta:meta])* $visibility:vis enum $name:ident {
        $($(#[$variant_meta:meta])* $variant:ident = $label:literal,)+
    }) => {
        $(#[$meta])*
        $visibility enum $name {
            $($(#[$variant_meta])* $variant,)+
        }

        impl $name {
            /// Every variant, in the order of declaration.
            pub const ALL: [Self; [$($label),+].len()] = [$(Self::$variant),+];

            /// Returns the label in metrics, logs and configuration.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $label,)+
                }
            }
        }
    };
}
