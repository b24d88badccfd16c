//! A trait, and an enum of its implementors that passes every call on to the one it holds.
//!
//! Both come from one list of methods. If the enum were written apart from the trait, it could leave out a method
//! that has a default, and whatever a variant did instead would never be called; no compiler warns of that. Why an
//! enum and not `dyn`: a sender calls several of these methods for each segment, and the defaults, which do nothing,
//! cost nothing this way.

/// Defines a trait and implements it for an enum. The variants after `in place` hold their value itself. Variants after
/// `boxed` hold an `Option<Box<_>>`, to which the functions `update` and `read` of the module in parentheses give
/// access.
macro_rules! dispatched {
    (
        $(#[$meta:meta])*
        pub trait $Trait:ident for $Enum:ident $variants:tt
        required {
            $($(#[$doc:meta])* fn $method:ident(&$($receiver:ident)+ $(, $arg:ident: $ty:ty)*) $(-> $ret:ty)?;)*
        }
        provided {
            $(
                $(#[$p_doc:meta])*
                fn $p_method:ident(&$($p_receiver:ident)+ $(, $p_arg:ident: $p_ty:ty)*) $(-> $p_ret:ty)?
                { $($default:tt)* }
            )*
        }
    ) => {
        $(#[$meta])*
        #[allow(unused_variables, reason = "a default ignores its arguments")]
        pub trait $Trait {
            $($(#[$doc])* fn $method(&$($receiver)+ $(, $arg: $ty)*) $(-> $ret)?;)*
            $(
                $(#[$p_doc])*
                fn $p_method(&$($p_receiver)+ $(, $p_arg: $p_ty)*) $(-> $p_ret)? { $($default)* }
            )*
        }

        impl $Trait for $Enum {
            $(
                #[inline]
                fn $method(&$($receiver)+ $(, $arg: $ty)*) $(-> $ret)? {
                    $crate::dispatch::pass_on!($Enum $variants [$($receiver)+] $method ($($arg),*))
                }
            )*
            $(
                #[inline]
                fn $p_method(&$($p_receiver)+ $(, $p_arg: $p_ty)*) $(-> $p_ret)? {
                    $crate::dispatch::pass_on!($Enum $variants [$($p_receiver)+] $p_method ($($p_arg),*))
                }
            )*
        }
    };
}

/// One call, passed on to the variant that there is.
macro_rules! pass_on {
    (
        $Enum:ident { in place: $($plain:ident)*; boxed($access:ident): $($boxed:ident)*; }
        [mut $this:ident] $method:ident $args:tt
    ) => {
        match $this {
            $($Enum::$plain(inner) => inner.$method $args,)*
            $($Enum::$boxed(inner) => $crate::dispatch::$access::update(inner, |inner| inner.$method $args),)*
        }
    };
    (
        $Enum:ident { in place: $($plain:ident)*; boxed($access:ident): $($boxed:ident)*; }
        [$this:ident] $method:ident $args:tt
    ) => {
        match $this {
            $($Enum::$plain(inner) => inner.$method $args,)*
            $($Enum::$boxed(inner) => $crate::dispatch::$access::read(inner, |inner| inner.$method $args),)*
        }
    };
}

pub(crate) use {dispatched, pass_on};

/// A value that is put on the heap once an event has changed it; until then it is the default.
pub(crate) mod when_changed {
    #[inline]
    pub(crate) fn update<T: Default + PartialEq, R>(
        kept: &mut Option<Box<T>>,
        event: impl FnOnce(&mut T) -> R,
    ) -> R {
        if let Some(kept) = kept {
            return event(kept);
        }
        let mut fresh = T::default();
        let result = event(&mut fresh);
        if fresh != T::default() {
            *kept = Some(Box::new(fresh));
        }
        result
    }

    #[inline]
    pub(crate) fn read<T: Default, R>(kept: &Option<Box<T>>, ask: impl FnOnce(&T) -> R) -> R {
        match kept {
            Some(kept) => ask(kept),
            None => ask(&T::default()),
        }
    }
}

/// A value that is put on the heap at the first event; before, it has no answer.
pub(crate) mod at_first_event {
    /// Kept out of line: senders call it for every acknowledgment, and most have a control that is held in place.
    #[inline(never)]
    pub(crate) fn update<T: Default, R>(kept: &mut Option<Box<T>>, event: impl FnOnce(&mut T) -> R) -> R {
        event(kept.get_or_insert_default())
    }

    #[inline]
    pub(crate) fn read<T, R>(kept: &Option<Box<T>>, ask: impl FnOnce(&T) -> Option<R>) -> Option<R> {
        ask(kept.as_deref()?)
    }
}

#[cfg(test)]
mod tests {
    use super::{at_first_event, when_changed};

    /// Counts the numbers that the counter is told to count.
    #[derive(Debug, Default, PartialEq)]
    struct Count(u32);

    #[derive(Debug, Default, PartialEq)]
    struct Quiet;

    enum Any {
        Quiet(Quiet),
        Count(Option<Box<Count>>),
    }

    dispatched! {
        /// A trait for tests.
        pub trait Counter for Any { in place: Quiet; boxed(when_changed): Count; }

        required {
            /// A question.
            fn name(&self) -> &'static str;
        }
        provided {
            /// An event.
            fn add(&mut self, n: u32) -> bool { false }
            /// Another question.
            fn total(&self) -> u32 { 7 }
        }
    }

    impl Counter for Quiet {
        fn name(&self) -> &'static str {
            "quiet"
        }
    }
    impl Counter for Count {
        fn name(&self) -> &'static str {
            "count"
        }
        fn add(&mut self, n: u32) -> bool {
            self.0 += n;
            true
        }
        fn total(&self) -> u32 {
            self.0
        }
    }

    #[test]
    fn a_default_and_what_overrides_it() {
        let (mut quiet, mut count) = (Any::Quiet(Quiet), Any::Count(None));
        assert_eq!([quiet.name(), count.name()], ["quiet", "count"]);
        assert_eq!((quiet.add(1), quiet.total()), (false, 7));
        assert_eq!((count.add(0), count.total()), (true, 0));
        assert!(matches!(count, Any::Count(None)), "nothing has changed, so nothing is on the heap");
        assert_eq!((count.add(2), count.add(3), count.total()), (true, true, 5));
        assert!(matches!(count, Any::Count(Some(_))));
    }

    #[test]
    fn no_answer_before_the_first_event() {
        let mut kept: Option<Box<Count>> = None;
        assert_eq!(at_first_event::read(&kept, |count| Some(count.0)), None);
        at_first_event::update(&mut kept, |_| ());
        assert_eq!(at_first_event::read(&kept, |count| Some(count.0)), Some(0));
        assert_eq!(when_changed::read(&kept, |count| count.0), 0);
    }
}
