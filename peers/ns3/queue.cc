// One queue discipline of ns-3.37 fed with given arrivals and emptied at a rate: what it drops and whom it serves when. Compiled and
// run by `cargo xtask queues`; docs/explanation/simulator-peers.md says what comes out.
//
// Reads lines of "nanoseconds flow bytes" from standard input. Prints one line of JSON: packets that arrived and were dropped,
// and the flows of those sent, in order.

#include "ns3/core-module.h"
#include "ns3/network-module.h"
#include "ns3/traffic-control-module.h"

#include <iostream>
#include <vector>

using namespace ns3;

namespace
{

// A packet of a flow that cannot be marked.
class Item : public QueueDiscItem
{
  public:
    Item(uint32_t bytes, uint32_t flow)
        : QueueDiscItem(Create<Packet>(bytes), Address(), 0),
          m_flow(flow)
    {
    }

    void AddHeader() override
    {
    }

    bool Mark() override
    {
        return false;
    }

    uint32_t Hash(uint32_t) const override
    {
        return m_flow;
    }

    const uint32_t m_flow;
};

// The link behind the queue.
class Link
{
  public:
    Link(Ptr<QueueDisc> queue, double bps)
        : m_queue(queue),
          m_bps(bps)
    {
    }

    void Arrive(uint32_t flow, uint32_t bytes)
    {
        m_queue->Enqueue(Create<Item>(bytes, flow));
        if (!m_busy)
        {
            Next();
        }
    }

    void Next()
    {
        Ptr<QueueDiscItem> item = m_queue->Dequeue();
        m_busy = bool(item);
        if (m_busy)
        {
            m_sent.push_back(DynamicCast<Item>(item)->m_flow);
            Simulator::Schedule(Seconds(item->GetSize() * 8 / m_bps), &Link::Next, this);
        }
    }

    std::vector<uint32_t> m_sent;

  private:
    Ptr<QueueDisc> m_queue;
    double m_bps;
    bool m_busy{false};
};

} // namespace

int main(int argc, char* argv[])
{
    std::string kind = "CoDelQueueDisc";
    double bps = 1e6;
    uint32_t seed = 1;
    CommandLine line;
    line.AddValue("kind", "class of the discipline", kind);
    line.AddValue("bps", "rate of the link", bps);
    line.AddValue("seed", "seed of the dice", seed);
    line.Parse(argc, argv);
    RngSeedManager::SetSeed(seed);

    ObjectFactory factory("ns3::" + kind);
    factory.Set("MaxSize", StringValue("1000p"));
    if (kind == "PieQueueDisc")
    {
        factory.Set("UseDerandomization", BooleanValue(true));
        factory.Set("MaxBurstAllowance", TimeValue(MilliSeconds(150)));
    }
    Ptr<QueueDisc> queue = factory.Create<QueueDisc>();
    if (auto flows = DynamicCast<FqCoDelQueueDisc>(queue))
    {
        flows->SetQuantum(1514);
    }
    queue->Initialize();

    Link link(queue, bps);
    uint64_t at, arrived = 0;
    uint32_t flow, bytes;
    Time last;
    while (std::cin >> at >> flow >> bytes)
    {
        last = NanoSeconds(at);
        Simulator::Schedule(last, &Link::Arrive, &link, flow, bytes);
        ++arrived;
    }
    // PIE's timer never ends by itself; ten minutes drain any queue of these arrivals.
    Simulator::Stop(last + Seconds(600));
    Simulator::Run();

    std::cout << "{\"arrived\":" << arrived << ",\"dropped\":" << arrived - link.m_sent.size() << ",\"sent\":[";
    for (size_t i = 0; i < link.m_sent.size(); ++i)
    {
        std::cout << (i ? "," : "") << link.m_sent[i];
    }
    std::cout << "]}" << std::endl;
    Simulator::Destroy();
}
