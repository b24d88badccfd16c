/* Sends datagrams of 1000 bytes of many flows through a device, 256 a system call: send DEVICE FLOWS PACKETS. Prints
 * the nanoseconds of one in the tenth of the calls that was fastest: what disturbs only adds. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

enum { BATCH = 256, LEN = 1000 };

static unsigned char packets[BATCH][LEN];
static struct iovec parts[BATCH];
static struct mmsghdr messages[BATCH];
static unsigned state = 1;

/* Another flow for each packet: 128 ports of an address each. */
static void choose_flows(unsigned flows) {
    for (int i = 0; i < BATCH; i++) {
        state = state * 1664525u + 1013904223u;
        unsigned flow = (state >> 8) % flows;
        packets[i][18] = flow >> 15;
        packets[i][19] = flow >> 7;
        packets[i][23] = flow & 127;
    }
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int count, char **args) {
    if (count != 4) return 2;
    long wanted = atol(args[3]);
    /* IPv4 and UDP; no checksums, which no queue looks at. */
    static const unsigned char headers[28] = {0x45, 0, LEN >> 8, LEN & 255, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1,
                                              10, 0, 0, 0, 0, 80, 100, 0, (LEN - 20) >> 8, (LEN - 20) & 255};
    struct sockaddr_ll to = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_IP), .sll_halen = ETH_ALEN};
    to.sll_ifindex = if_nametoindex(args[1]);
    for (int i = 0; i < BATCH; i++) {
        memcpy(packets[i], headers, sizeof headers);
        parts[i] = (struct iovec){packets[i], LEN};
        messages[i].msg_hdr =
            (struct msghdr){.msg_name = &to, .msg_namelen = sizeof to, .msg_iov = &parts[i], .msg_iovlen = 1};
    }
    int out = socket(AF_PACKET, SOCK_DGRAM, 0);
    long most = wanted / BATCH + 1, batches = 0;
    double *times = malloc(most * sizeof *times);
    while (batches < most) {
        choose_flows(atoi(args[2]));
        double begin = now();
        int done = sendmmsg(out, messages, BATCH, 0);
        if (done < 0) return perror("sendmmsg"), 1;
        times[batches++] = (now() - begin) / done;
    }
    qsort(times, most, sizeof *times, compare);
    printf("%.0f\n", times[most / 10]);
}
