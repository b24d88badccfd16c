// Long TCP flows over one drop-tail bottleneck, in ns-3.37: the counterpart of ../ns2/dumbbell.tcl. Compiled and run by
// `cargo xtask peers`; by hand see ../README.md. What each setting means, and what corresponds
// to it elsewhere, is said in docs/explanation/simulator-peers.md.
//
// Prints one line of JSON: counters at the end of the warm-up, at each slice's end and at the end. No trace source is
// connected: the counters of queue and sinks are read at those times, so that the run is as fast as ns-3 can be.

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"

#include <iostream>
#include <sstream>
#include <unistd.h>
#include <vector>

using namespace ns3;

namespace
{

constexpr uint32_t SENDERS = 0x0a000000;   // 10.0.0.0 + flow
constexpr uint32_t RECEIVERS = 0x0b000000; // 11.0.0.0 + flow
constexpr uint32_t LINK_HEADERS = 2;       // PPP
constexpr uint32_t HEADERS = 40;           // IP and TCP
constexpr uint32_t TIMESTAMPS = 12;

// Linux's Reno that counts expiries of the retransmission timer: the one place that tells CA_EVENT_LOSS is
// TcpSocketBase::ReTxTimeout, once it knows that data is outstanding.
class CountingReno : public TcpLinuxReno
{
  public:
    static uint64_t timeouts;

    static TypeId GetTypeId()
    {
        static TypeId tid = TypeId("CountingReno").SetParent<TcpLinuxReno>().AddConstructor<CountingReno>();
        return tid;
    }

    void CwndEvent(Ptr<TcpSocketState> tcb, const TcpSocketState::TcpCAEvent_t event) override
    {
        timeouts += event == TcpSocketState::CA_EVENT_LOSS;
        TcpLinuxReno::CwndEvent(tcb, event);
    }

    Ptr<TcpCongestionOps> Fork() override
    {
        return CopyObject<CountingReno>(this);
    }
};

uint64_t CountingReno::timeouts = 0;
NS_OBJECT_ENSURE_REGISTERED(CountingReno);

// A router as a dumbbell needs it: whatever comes from a host goes over the bottleneck, what comes over that goes to the
// host of its flow. ns-3's own forwarding asks every interface of a node about every packet.
class Router
{
  public:
    // `hosts`: address of the first host behind it.
    explicit Router(uint32_t hosts)
        : m_hosts(hosts)
    {
    }

    void SetBottleneck(Ptr<NetDevice> device)
    {
        m_bottleneck = device;
        device->SetReceiveCallback(MakeCallback(&Router::FromBottleneck, this));
    }

    // Of the next flow.
    void AddHost(Ptr<NetDevice> device)
    {
        m_devices.push_back(device);
        device->SetReceiveCallback(MakeCallback(&Router::FromHost, this));
    }

  private:
    bool FromHost(Ptr<NetDevice>, Ptr<const Packet> p, uint16_t protocol, const Address&)
    {
        return m_bottleneck->Send(p->Copy(), m_bottleneck->GetBroadcast(), protocol);
    }

    bool FromBottleneck(Ptr<NetDevice>, Ptr<const Packet> p, uint16_t protocol, const Address&)
    {
        Ipv4Header header;
        p->PeekHeader(header);
        Ptr<NetDevice> device = m_devices.at(header.GetDestination().Get() - m_hosts);
        return device->Send(p->Copy(), device->GetBroadcast(), protocol);
    }

    uint32_t m_hosts;
    Ptr<NetDevice> m_bottleneck;
    std::vector<Ptr<NetDevice>> m_devices;
};

// Delays each segment a host sends by U(0, `most`), never overtaking: stands between TCP and IP.
class Dephaser : public SimpleRefCount<Dephaser>
{
  public:
    Dephaser(Ptr<TcpL4Protocol> tcp, Time most, Ptr<UniformRandomVariable> random)
        : m_down(tcp->GetDownTarget()),
          m_most(most),
          m_random(random)
    {
        tcp->SetDownTarget(MakeCallback(&Dephaser::Send, this));
    }

  private:
    void Send(Ptr<Packet> p, Ipv4Address from, Ipv4Address to, uint8_t protocol, Ptr<Ipv4Route> route)
    {
        m_last = std::max(m_last, Simulator::Now() + m_most * m_random->GetValue());
        Simulator::Schedule(m_last - Simulator::Now(), [=] { m_down(p, from, to, protocol, route); });
    }

    IpL4Protocol::DownTargetCallback m_down;
    Time m_most;
    Ptr<UniformRandomVariable> m_random;
    Time m_last;
};

struct Settings
{
    bool timestamps = false;
    double dephaseMs = 0;
    uint32_t flows = 120;
    uint64_t rateBps = 600000;
    uint32_t wireBytes = 500;
    uint32_t bufferPackets = 30;
    double rttMinMs = 190;
    double rttMaxMs = 210;
    double startS = 5;
    double warmupS = 100;
    double durationS = 1000;
    double sliceS = 20;
    uint32_t windowPackets = 100;
    double rtoMinMs = 200;
    uint32_t seed = 1;

    uint32_t Payload() const
    {
        return wireBytes - LINK_HEADERS - HEADERS - (timestamps ? TIMESTAMPS : 0);
    }
};

Settings
Parse(int argc, char* argv[])
{
    Settings s;
    CommandLine cmd(__FILE__);
    cmd.AddValue("timestamps", "TCP timestamps", s.timestamps);
    cmd.AddValue("dephase_ms", "each segment of a sender is delayed by U(0, this)", s.dephaseMs);
    cmd.AddValue("flows", "number of flows", s.flows);
    cmd.AddValue("rate_bps", "rate of the bottleneck", s.rateBps);
    cmd.AddValue("wire_bytes", "size of a full packet with all headers", s.wireBytes);
    cmd.AddValue("buffer_packets", "limit of the queue, the packet in service included", s.bufferPackets);
    cmd.AddValue("rtt_min_ms", "propagation both ways of the first flow", s.rttMinMs);
    cmd.AddValue("rtt_max_ms", "and of the last", s.rttMaxMs);
    cmd.AddValue("start_s", "flows start at random within this", s.startS);
    cmd.AddValue("warmup_s", "not counted", s.warmupS);
    cmd.AddValue("duration_s", "counted, after the warm-up", s.durationS);
    cmd.AddValue("slice_s", "length of a slice; 0 for none", s.sliceS);
    cmd.AddValue("window_packets", "receive window and initial ssthresh", s.windowPackets);
    cmd.AddValue("rto_min_ms", "floor of the retransmission timer", s.rtoMinMs);
    cmd.AddValue("seed", "decides all that is random", s.seed);
    cmd.Parse(argc, argv);
    return s;
}

void
SetDefaults(const Settings& s)
{
    const uint32_t window = s.windowPackets * s.Payload();
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(CountingReno::GetTypeId()));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(s.Payload()));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(1));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(2));
    Config::SetDefault("ns3::TcpSocket::InitialSlowStartThreshold", UintegerValue(window));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(window));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(window));
    // By default a connection is given up for good after 6 timeouts in a row.
    Config::SetDefault("ns3::TcpSocket::DataRetries", UintegerValue(1000000));
    Config::SetDefault("ns3::TcpSocket::ConnCount", UintegerValue(1000000));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(Seconds(s.rtoMinMs / 1000)));
    Config::SetDefault("ns3::TcpSocketBase::Sack", BooleanValue(true));
    Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(s.timestamps));
    Config::SetDefault("ns3::TcpSocketBase::LimitedTransmit", BooleanValue(true));
}

class Dumbbell
{
  public:
    explicit Dumbbell(const Settings& s)
        : m_s(s),
          m_left(SENDERS),
          m_right(RECEIVERS)
    {
        m_stack.SetIpv6StackInstall(false);
        auto bottleneck = Connect(m_routers.Get(0), m_routers.Get(1), s.rateBps, 0);
        m_left.SetBottleneck(bottleneck.Get(0));
        m_right.SetBottleneck(bottleneck.Get(1));
        m_queue = bottleneck.Get(0)->GetObject<PointToPointNetDevice>()->GetQueue();
        // ns-3 takes the packet in service out of the queue; the limit we speak of includes it.
        m_queue->SetMaxSize(QueueSize(QueueSizeUnit::PACKETS, s.bufferPackets - 1));
        auto random = CreateObject<UniformRandomVariable>();
        for (uint32_t i = 0; i < s.flows; ++i)
        {
            AddFlow(i, random);
        }
    }

    void Sample()
    {
        m_at.push_back(Simulator::Now().GetSeconds());
        const uint64_t accepted = m_queue->GetTotalReceivedPackets();
        const uint64_t dropped = m_queue->GetTotalDroppedPacketsBeforeEnqueue();
        m_arrivals.push_back(accepted + dropped);
        m_drops.push_back(dropped);
        m_departedPackets.push_back(accepted - m_queue->GetNPackets());
        // Wraps at 32 bits.
        m_departedBytes.push_back(m_queue->GetTotalReceivedBytes() - m_queue->GetNBytes());
        m_timeouts.push_back(CountingReno::timeouts);
        std::ostringstream row;
        for (uint32_t i = 0; i < m_sinks.size(); ++i)
        {
            row << (i ? "," : "[") << m_sinks[i]->GetTotalRx() / m_s.Payload();
        }
        m_delivered.push_back(row.str() + "]");
    }

    void Print() const
    {
        std::cout << "{\"payload_bytes\":" << m_s.Payload();
        Column("at_s", m_at);
        Column("arrivals", m_arrivals);
        Column("drops", m_drops);
        Column("departed_packets", m_departedPackets);
        Column("departed_bytes", m_departedBytes);
        Column("timeouts", m_timeouts);
        Column("delivered_segments", m_delivered);
        std::cout << "}" << std::endl;
    }

  private:
    static NetDeviceContainer Connect(Ptr<Node> a, Ptr<Node> b, uint64_t rateBps, double delayMs)
    {
        PointToPointHelper link;
        // With flow control the layer above drops what the full queue would, and the queue's counters never see it.
        link.DisableFlowControl();
        link.SetDeviceAttribute("DataRate", DataRateValue(DataRate(rateBps)));
        link.SetChannelAttribute("Delay", TimeValue(Seconds(delayMs / 1000)));
        link.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("100000p"));
        return link.Install(a, b);
    }

    // A host with a link of its own to a router. Its address is set here, since Ipv4AddressHelper would put an FqCoDel
    // before the device.
    Ptr<Node> AddHost(Router& router, uint32_t at, uint32_t address, double delayMs)
    {
        Ptr<Node> node = CreateObject<Node>();
        m_stack.Install(node);
        auto devices = Connect(node, m_routers.Get(at), 100 * m_s.rateBps, delayMs);
        router.AddHost(devices.Get(1));
        auto ipv4 = node->GetObject<Ipv4>();
        const uint32_t interface = ipv4->AddInterface(devices.Get(0));
        ipv4->AddAddress(interface, Ipv4InterfaceAddress(Ipv4Address(address), Ipv4Mask::GetOnes()));
        ipv4->SetUp(interface);
        auto routes = Create<Ipv4StaticRouting>();
        ipv4->SetRoutingProtocol(routes);
        routes->SetDefaultRoute(Ipv4Address::GetZero(), interface);
        return node;
    }

    void AddFlow(uint32_t i, Ptr<UniformRandomVariable> random)
    {
        // Evenly spread by index, the ends included; a single flow takes the middle.
        const double place = m_s.flows > 1 ? double(i) / (m_s.flows - 1) : 0.5;
        const double rttMs = m_s.rttMinMs + (m_s.rttMaxMs - m_s.rttMinMs) * place;
        Ptr<Node> from = AddHost(m_left, 0, SENDERS + i, 0);
        Ptr<Node> to = AddHost(m_right, 1, RECEIVERS + i, rttMs / 2);
        if (m_s.dephaseMs > 0)
        {
            m_dephasers.push_back(
                Create<Dephaser>(from->GetObject<TcpL4Protocol>(), Seconds(m_s.dephaseMs / 1000), random));
        }

        auto sink = CreateObject<PacketSink>();
        sink->SetAttribute("Protocol", TypeIdValue(TcpSocketFactory::GetTypeId()));
        sink->SetAttribute("Local", AddressValue(InetSocketAddress(Ipv4Address::GetAny(), 1)));
        to->AddApplication(sink);
        m_sinks.push_back(sink);

        auto source = CreateObject<BulkSendApplication>();
        source->SetAttribute("Protocol", TypeIdValue(TcpSocketFactory::GetTypeId()));
        source->SetAttribute("Remote", AddressValue(InetSocketAddress(Ipv4Address(RECEIVERS + i), 1)));
        source->SetAttribute("SendSize", UintegerValue(m_s.Payload()));
        source->SetStartTime(Seconds(random->GetValue(0, m_s.startS)));
        from->AddApplication(source);
    }

    template <typename T>
    static void Column(const char* name, const std::vector<T>& values)
    {
        std::cout << ",\"" << name << "\":[";
        for (size_t i = 0; i < values.size(); ++i)
        {
            std::cout << (i ? "," : "") << values[i];
        }
        std::cout << "]";
    }

    const Settings m_s;
    NodeContainer m_routers{2};
    Router m_left, m_right;
    InternetStackHelper m_stack;
    Ptr<Queue<Packet>> m_queue;
    std::vector<Ptr<PacketSink>> m_sinks;
    std::vector<Ptr<Dephaser>> m_dephasers;
    std::vector<double> m_at;
    std::vector<uint64_t> m_arrivals, m_drops, m_departedPackets, m_departedBytes, m_timeouts;
    std::vector<std::string> m_delivered;
};

} // namespace

int
main(int argc, char* argv[])
{
    const Settings s = Parse(argc, argv);
    RngSeedManager::SetRun(s.seed);
    SetDefaults(s);
    Dumbbell dumbbell(s);
    const double end = s.warmupS + s.durationS;
    Simulator::Schedule(Seconds(s.warmupS), [&] { dumbbell.Sample(); });
    for (uint32_t k = 1; s.sliceS > 0 && s.warmupS + k * s.sliceS < end; ++k)
    {
        Simulator::Schedule(Seconds(s.warmupS + k * s.sliceS), [&] { dumbbell.Sample(); });
    }
    Simulator::Stop(Seconds(end));
    Simulator::Run();
    dumbbell.Sample();
    dumbbell.Print();
    std::cout.flush();
    // Taking the world apart tells nothing and takes time.
    _exit(0);
}
