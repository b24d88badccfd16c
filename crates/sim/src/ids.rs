//! Numbers of things in a world: the place of each in the list of its kind.

/// Defines a type for the places of a list.
macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) struct $name(pub(crate) u32);

        impl $name {
            /// The thing at this place. A scenario is checked to have fewer than 2^32 of each kind.
            pub(crate) fn of(place: usize) -> Self {
                Self(u32::try_from(place).expect("a scenario is checked to have fewer"))
            }
            /// Index into the list of all things of the same kind.
            #[inline(always)]
            pub(crate) const fn index(self) -> usize {
                self.0 as usize
            }
        }
    )* };
}

ids! {
    /// A node.
    NodeId
    /// One direction of a link between nodes.
    LinkId
    /// The links between two nodes, from one to the other.
    RouteId
    /// Hosts of one entry of a scenario, which share settings of their wires.
    GroupId
    /// A host.
    HostId
    /// A connection, or a flow of datagrams.
    FlowId
    /// An application.
    AppId
}

/// One end of a connection, in one word: an event that holds two is copied in parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EndId(u32);

impl EndId {
    /// End number `end`, 0 or 1, of a connection. There are fewer than 2^31 of them.
    pub(crate) const fn of(flow: FlowId, end: usize) -> Self {
        Self(flow.0 * 2 + end as u32)
    }
    pub(crate) const fn flow(self) -> FlowId {
        FlowId(self.0 / 2)
    }
    pub(crate) const fn end(self) -> usize {
        (self.0 % 2) as usize
    }
}
