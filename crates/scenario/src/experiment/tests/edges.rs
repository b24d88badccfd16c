//! Edges that send flows over one of two paths, or mark them.

use super::*;

/// Two links side by side and an edge before them.
const EDGE: &str = "name = \"s\"\ndiscipline = \"fifo:9\"\nlink = [{ name = \"one\", from = \"a\", to = \"b\", \
    rate = \"1mbit\" }, { name = \"two\", from = \"a\", to = \"b\", rate = \"1mbit\", delay = \"9ms\" }]\n\
    hosts = [{ name = \"servers\", at = \"a\" }, { name = \"clients\", at = \"b\" }]\n\
    traffic = [{ kind = \"long\", flows = 2, dscp = 46 }]\n[[edge]]\nat = \"a\"\n";

#[test]
fn an_edge_divides_what_would_take_one_of_its_paths() {
    let s = one(&format!("{EDGE}policy = \"lifetime\"\npaths = [\"two\", \"one\"]\nmark = [18, 10]\n"));
    let t = &s.topology;
    assert_eq!(t.edges[0].policy, crate::Policy::Lifetime(32));
    assert_eq!(s.traffic[0].dscp.get(), 46);
    // Links are one, one.back, two, two.back.
    let (_, ways) = t.divided(0, 1).unwrap();
    assert_eq!(ways, [vec![2], vec![0]]);
    assert!(t.divided(1, 0).is_none(), "the way back does not come by");
    let s = one(&format!("{EDGE}policy = \"dscp:46\"\nmark = [1, 2]\n"));
    assert_eq!(s.topology.divided(0, 1).unwrap().1, [vec![0], vec![0]]);
}

#[test]
fn edges_that_cannot_be() {
    for (rest, says) in [
        ("policy = \"random\"\n", "edge.0.paths is missing"),
        ("policy = \"age\"\nmark = [1, 2]\n", "edge.0.policy = 'age': expected random, size:75"),
        ("policy = \"size:0\"\nmark = [1, 2]\n", "edge.0.policy = 'size:0'"),
        ("policy = \"dscp\"\nmark = [1, 2]\n", "edge.0.policy = 'dscp'"),
        ("policy = \"random\"\npaths = [\"one\"]\n", "two links that begin at 'a'"),
        ("policy = \"random\"\npaths = [\"one\", \"one.back\"]\n", "two links that begin at 'a'"),
        ("policy = \"random\"\nmark = [1, 64]\n", "two codepoints from 0 to 63"),
        ("policy = \"random\"\nmark = [1, 2]\nway = 3\n", "edge.0.way: no such key"),
    ] {
        let e = all(&format!("{EDGE}{rest}")).unwrap_err().to_string();
        assert!(e.contains(says), "{rest}: {e}");
    }
}
