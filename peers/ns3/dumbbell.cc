// Long TCP flows over one drop-tail bottleneck, in ns-3.37: the counterpart of ../ns2/dumbbell.tcl. Compiled and run by
// `cargo run -p narrows-xtask --release -- peers`; by hand see ../README.md. What each setting means, and what corresponds
// to it elsewhere, is said in docs/simulator-peers.md.
//
// Prints one line of JSON: counters at the end of the warm-up, at each slice's end and at the end. No trace source is
// connected: the counters of queue and sinks are read at those times, so that the run is as fast as ns-3 can be. For the
// same reason the routers look up routes by index: ns-3's own tables are searched entry by entry.

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

// Routes of a dumbbell: a host sends all over its one interface; a router knows its own hosts' interfaces by the flow's
// number, and sends the rest over the bottleneck, its interface 1.
class DumbbellRouting : public Ipv4RoutingProtocol
{
  public:
    static TypeId GetTypeId()
    {
        static TypeId tid = TypeId("DumbbellRouting").SetParent<Ipv4RoutingProtocol>();
        return tid;
    }

    // `hosts`: first address of the hosts behind a router; 0 for a host.
    explicit DumbbellRouting(uint32_t hosts)
        : m_hosts(hosts)
    {
    }

    Ptr<Ipv4Route> RouteOutput(Ptr<Packet>, const Ipv4Header& header, Ptr<NetDevice>, Socket::SocketErrno& error) override
    {
        error = Socket::ERROR_NOTERROR;
        return RouteTo(header.GetDestination());
    }

    bool RouteInput(Ptr<const Packet> p,
                    const Ipv4Header& header,
                    Ptr<const NetDevice> device,
                    UnicastForwardCallback forward,
                    MulticastForwardCallback,
                    LocalDeliverCallback deliver,
                    ErrorCallback) override
    {
        if (m_hosts)
        {
            forward(RouteTo(header.GetDestination()), p, header);
        }
        else
        {
            deliver(p, header, m_ipv4->GetInterfaceForDevice(device));
        }
        return true;
    }

    void NotifyInterfaceUp(uint32_t) override {}
    void NotifyInterfaceDown(uint32_t) override {}
    void NotifyAddAddress(uint32_t, Ipv4InterfaceAddress) override {}
    void NotifyRemoveAddress(uint32_t, Ipv4InterfaceAddress) override {}
    void PrintRoutingTable(Ptr<OutputStreamWrapper>, Time::Unit) const override {}

    void SetIpv4(Ptr<Ipv4> ipv4) override
    {
        m_ipv4 = ipv4;
    }

  private:
    Ptr<Ipv4Route> RouteTo(Ipv4Address destination)
    {
        const uint32_t flow = destination.Get() - m_hosts;
        const bool known = m_hosts && flow < (1u << 24);
        const uint32_t interface = known ? 2 + flow : 1;
        if (interface >= m_routes.size())
        {
            m_routes.resize(interface + 1);
        }
        Ptr<Ipv4Route>& route = m_routes[interface];
        if (!route)
        {
            route = Create<Ipv4Route>();
            route->SetOutputDevice(m_ipv4->GetNetDevice(interface));
            route->SetSource(m_ipv4->GetAddress(interface, 0).GetLocal());
            route->SetGateway(Ipv4Address::GetZero());
            route->SetDestination(destination);
        }
        return route;
    }

    uint32_t m_hosts;
    Ptr<Ipv4> m_ipv4;
    std::vector<Ptr<Ipv4Route>> m_routes;
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
        : m_s(s)
    {
        m_stack.SetIpv6StackInstall(false);
        Ptr<Node> left = AddNode(SENDERS);
        Ptr<Node> right = AddNode(RECEIVERS);
        auto bottleneck = Connect(left, 0x0c000001, right, 0x0c000002, s.rateBps, 0);
        m_queue = bottleneck.Get(0)->GetObject<PointToPointNetDevice>()->GetQueue();
        // ns-3 takes the packet in service out of the queue; the limit we speak of includes it.
        m_queue->SetMaxSize(QueueSize(QueueSizeUnit::PACKETS, s.bufferPackets - 1));
        auto random = CreateObject<UniformRandomVariable>();
        for (uint32_t i = 0; i < s.flows; ++i)
        {
            AddFlow(i, left, right, random);
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
    Ptr<Node> AddNode(uint32_t hosts)
    {
        Ptr<Node> node = CreateObject<Node>();
        m_stack.Install(node);
        node->GetObject<Ipv4>()->SetRoutingProtocol(Create<DumbbellRouting>(hosts));
        return node;
    }

    // Addresses are set here, since Ipv4AddressHelper would put an FqCoDel before every device.
    static void AddInterface(Ptr<Node> node, Ptr<NetDevice> device, uint32_t address)
    {
        auto ipv4 = node->GetObject<Ipv4>();
        const uint32_t interface = ipv4->AddInterface(device);
        ipv4->AddAddress(interface, Ipv4InterfaceAddress(Ipv4Address(address), Ipv4Mask::GetOnes()));
        ipv4->SetUp(interface);
    }

    static NetDeviceContainer Connect(Ptr<Node> a, uint32_t atA, Ptr<Node> b, uint32_t atB, uint64_t rateBps, double delayMs)
    {
        PointToPointHelper link;
        // With flow control the layer above drops what the full queue would, and the queue's counters never see it.
        link.DisableFlowControl();
        link.SetDeviceAttribute("DataRate", DataRateValue(DataRate(rateBps)));
        link.SetChannelAttribute("Delay", TimeValue(Seconds(delayMs / 1000)));
        link.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("100000p"));
        auto devices = link.Install(a, b);
        AddInterface(a, devices.Get(0), atA);
        AddInterface(b, devices.Get(1), atB);
        return devices;
    }

    void AddFlow(uint32_t i, Ptr<Node> left, Ptr<Node> right, Ptr<UniformRandomVariable> random)
    {
        // Evenly spread by index, the ends included; a single flow takes the middle.
        const double place = m_s.flows > 1 ? double(i) / (m_s.flows - 1) : 0.5;
        const double rttMs = m_s.rttMinMs + (m_s.rttMaxMs - m_s.rttMinMs) * place;
        Ptr<Node> from = AddNode(0);
        Ptr<Node> to = AddNode(0);
        Connect(left, 0x0d000000 + i, from, SENDERS + i, 100 * m_s.rateBps, 0);
        Connect(right, 0x0e000000 + i, to, RECEIVERS + i, 100 * m_s.rateBps, rttMs / 2);
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
