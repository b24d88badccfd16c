use super::*;

#[test]
fn every_key_reads_what_it_prints_in_every_preset() {
    for from in Preset::ALL.map(|(_, preset)| preset) {
        let c = Config::preset(from);
        assert_eq!(c.check(), Ok(()), "{from:?}");
        for to in Preset::ALL.map(|(_, preset)| preset) {
            let mut d = Config::preset(to);
            for key in Config::keys() {
                let value = key.value(&c).unwrap();
                if value != "-" {
                    d.set(key.name, &value).unwrap();
                }
            }
            // A setting that is off has no timeout to compare.
            assert_eq!(d, c, "{to:?} made {from:?}");
        }
    }
}

#[test]
fn keys_by_hand() {
    let mut c = Config::preset(Preset::Rfc);
    for (key, value) in [
        ("recovery", "newreno"),
        ("rto_min", "200ms"),
        ("rto_initial", "0.5"),
        ("initial_window", "2"),
        ("backoff_ends", "new_ack"),
        ("byte_counting", "2"),
        ("retries", "never"),
        ("delayed_ack_timeout", "40ms"),
        ("initial_ssthresh", "20"),
        ("congestion", "adaptive_aimd"),
        ("beta_hi", "0.95"),
        ("alpha", "0.3333333333333333"),
        ("fade", "srtt"),
        ("window_scale", "10"),
        ("sws_avoidance", "bsd"),
    ] {
        c.set(key, value).unwrap();
    }
    assert_eq!(c.recovery, Recovery::NewReno);
    assert_eq!((c.rto.min, c.rto.initial), (Duration::from_millis(200), Duration::from_millis(500)));
    assert_eq!(c.initial_window, InitialWindow::Segments(2));
    assert_eq!((c.rto.backoff_ends, c.rto.retries), (BackoffEnds::NewAck, u32::MAX));
    assert_eq!(c.byte_counting, ByteCounting::Abc { limit: 2 });
    assert_eq!(c.initial_ssthresh, 20.0);
    assert_eq!(c.delayed_ack, Some(DelayedAck { every: 2, timeout: Duration::from_millis(40), quick: 0 }));
    assert_eq!((c.congestion, c.cc.fade), (CcKind::AdaptiveAimd, Fade::Srtt));
    assert_eq!((c.cc.beta_hi, c.cc.alpha), (0.95, 1.0 / 3.0));
    assert_eq!((c.window_scale, c.window_shift(), c.sws_avoidance), (Some(10), 10, SwsAvoidance::Bsd));
    c.set("delayed_ack", "off").unwrap();
    assert_eq!(c.delayed_ack, None);
}

#[test]
fn a_wrong_value_is_named_and_changes_nothing() {
    for preset in Preset::ALL.map(|(_, preset)| preset) {
        let mut c = Config::preset(preset);
        for key in Config::keys() {
            for wrong in
                ["", "x", "-1", "1e9", "NaN", "0x10", "99999999999999999999", "1h", ".5", "1.2345678s"]
            {
                let e = c.set(key.name, wrong).unwrap_err();
                assert_eq!((e.key.as_str(), e.value.as_str()), (key.name, wrong));
                assert!(!e.problem.is_empty() && !key.doc.is_empty());
            }
        }
        assert_eq!(c, Config::preset(preset));
    }
    let e = Config::default().set("rto_mim", "1s").unwrap_err();
    assert!(e.to_string().contains("rto_mim = '1s'") && e.to_string().contains("rto_min"), "{e}");
    let e = "ns2".parse::<Config>().unwrap().set("quick_acks", "3").unwrap_err();
    assert!(e.to_string().contains("with delayed_ack on"), "{e}");
}

#[test]
fn combinations_are_checked() {
    for (text, key) in [
        ("linux:recovery=newreno,rack_tlp=off,prr=off", "dsack"),
        ("linux:recovery=newreno,dsack=off,prr=off", "rack_tlp"),
        ("linux:recovery=newreno,dsack=off,rack_tlp=off", "prr"),
        ("rfc:rto_min=61s", "rto_min"),
        ("rfc:rto_initial=61s", "rto_initial"),
        ("rfc:rto_ticks=on", "rto_ticks"),
        ("rfc:receive_window=1000", "receive_window"),
        ("rfc:receive_window=8000,window_scale=13", "window_scale"),
        ("rfc:startup=hystart", "startup"),
        ("rfc:congestion=adaptive_aimd", "congestion"),
        ("ns2:congestion=vegas", "congestion"),
        ("rfc:beta_lo=0.7,beta_hi=0.6", "beta_lo"),
        ("rfc:vegas_alpha=5", "vegas_alpha"),
        ("bsd", "preset"),
        ("rfc:mss", "mss"),
    ] {
        assert_eq!(text.parse::<Config>().unwrap_err().key, key, "{text}");
    }
    let sack = "ns2: recovery=sack , mss=460".parse::<Config>().unwrap();
    assert_eq!((sack.recovery, sack.mss), (Recovery::Sack, 460));
}

#[test]
fn the_window_scale_is_the_least_that_fits() {
    let shift = |receive_window| Config { receive_window, ..Config::default() }.window_shift();
    assert_eq!([65_535, 65_536, 131_071, 131_072, 1 << 30].map(shift), [0, 1, 1, 2, 14]);
}

#[test]
fn the_named_stacks_have_their_published_numbers() {
    let [ns2, ns3, linux, rfc] = Preset::ALL.map(|(_, preset)| Config::preset(preset));
    let ms = Duration::from_millis;
    // ns-default.tcl: rtxcur_init_, minrto_, tcpTick_, maxrto_.
    assert_eq!(
        [ns2.rto.initial, ns2.rto.min, ns2.rto.granularity, ns2.rto.max],
        [ms(3000), ms(200), ms(10), ms(60_000)]
    );
    // Values that TypeId::GetAttribute prints of ns-3.37: ConnTimeout, MinRto, ClockGranularity, DelAckTimeout;
    // ConnCount, DataRetries, InitialCwnd, DelAckCount, SegmentSize, RcvBufSize.
    let delayed = ns3.delayed_ack.unwrap();
    assert_eq!(
        [ns3.syn_timeout, ns3.rto.min, ns3.rto.granularity, delayed.timeout],
        [ms(3000), ms(1000), ms(1), ms(200)]
    );
    let window = ns3.initial_window.segments(ns3.mss);
    assert_eq!((ns3.syn_retries, ns3.rto.retries, window, delayed.every), (6, 6, 10.0, 2));
    assert_eq!(
        (ns3.mss, ns3.receive_window, ns3.timestamps, ns3.congestion),
        (536, 131_072, true, CcKind::Cubic)
    );
    // RFC 6298, 2.1, 2.4 and 2.5; RFC 6928 for 1460 B; RFC 5681, 4.2.
    assert_eq!([rfc.rto.initial, rfc.rto.min, rfc.rto.max], [ms(1000), ms(1000), ms(60_000)]);
    assert_eq!(rfc.initial_window.segments(rfc.mss), 10.0);
    assert!(rfc.delayed_ack.is_some_and(|d| d.every == 2 && d.timeout <= ms(500)));
    // TCP_INIT_CWND, TCP_RTO_MIN, TCP_TIMEOUT_INIT, TCP_RTO_MAX.
    assert_eq!(linux.initial_window.segments(linux.mss), 10.0);
    assert_eq!([linux.rto.initial, linux.rto.min, linux.rto.max], [ms(1000), ms(200), ms(120_000)]);
}
