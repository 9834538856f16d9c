/* UDP one way: plain (a datagram a call), mmsg (64 a call), gso (one send that the kernel cuts, receives that it joins).
 * The reader says by one byte that it runs, after an empty datagram has told it whom to connect to. A writer with a counter is
 * the far end of a reader that is measured: it numbers its datagrams, since bytegauge's reader looks for numbers. See peer.h. */
#include "peer.h"
#include <netinet/udp.h>

enum { BATCH = 64, RECEIVE_BUFFER = 4 << 20, JOINED = 64 * 1024, LONGEST = 65507 };

static char *bytes;
static uint64_t number;
static int is_numbered;

static void numbers(size_t datagrams) {
    for (size_t i = 0; i < datagrams && is_numbered; i++, number++) {
        size_t length = asked.size < sizeof number ? asked.size : sizeof number;
        memcpy(bytes + i * asked.size, &number, length);
    }
}

/* Each message is one datagram of the asked size, in a place of its own. */
static void one_part_each(struct mmsghdr messages[BATCH], struct iovec parts[BATCH]) {
    memset(messages, 0, BATCH * sizeof messages[0]);
    for (int i = 0; i < BATCH; i++) {
        parts[i] = (struct iovec){bytes + (size_t)i * asked.size, asked.size};
        messages[i].msg_hdr = (struct msghdr){.msg_iov = &parts[i], .msg_iovlen = 1};
    }
}

static void writes(int fd) {
    struct mmsghdr messages[BATCH];
    struct iovec parts[BATCH];
    one_part_each(messages, parts);
    size_t segments = LONGEST / asked.size < BATCH ? LONGEST / asked.size : BATCH;
    if (is_mode("gso")) {
        int size = (int)asked.size;
        if (setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &size, sizeof size) < 0) die("UDP_SEGMENT");
        for (;;) {
            numbers(segments);
            if (send(fd, bytes, segments * asked.size, 0) > 0) counted(segments);
        }
    }
    if (is_mode("mmsg")) {
        for (;;) {
            numbers(BATCH);
            for (int done = 0, n; done < BATCH; done += n > 0 ? n : 0) {
                n = sendmmsg(fd, messages + done, (unsigned)(BATCH - done), 0);
                if (n > 0) counted((uint64_t)n);
            }
        }
    }
    for (;;) {
        numbers(1);
        if (send(fd, bytes, asked.size, 0) > 0) counted(1);
    }
}

static void reads(int fd) {
    if (is_mode("gso")) {
        int on = 1;
        if (setsockopt(fd, IPPROTO_UDP, UDP_GRO, &on, sizeof on) < 0) die("UDP_GRO");
        union {
            char room[CMSG_SPACE(sizeof(int))];
            struct cmsghdr aligned;
        } control;
        for (;;) {
            struct iovec part = {bytes, JOINED};
            struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control,
                                     .msg_controllen = sizeof control};
            ssize_t n = recvmsg(fd, &message, 0);
            if (n <= 0) continue;
            struct cmsghdr *said = CMSG_FIRSTHDR(&message);
            size_t segment = said && said->cmsg_type == UDP_GRO ? (size_t) * (int *)CMSG_DATA(said) : (size_t)n;
            counted(((uint64_t)n + segment - 1) / segment);
        }
    }
    struct mmsghdr messages[BATCH];
    struct iovec parts[BATCH];
    one_part_each(messages, parts);
    for (;;) {
        int n = is_mode("mmsg") ? recvmmsg(fd, messages, BATCH, MSG_WAITFORONE, NULL) : recv(fd, bytes, asked.size, 0) > 0;
        if (n > 0) counted((uint64_t)n);
    }
}

int main(int argc, char **argv) {
    arguments(argc, argv);
    is_numbered = counter != &uncounted;
    bytes = memory(BATCH * asked.size > JOINED ? BATCH * asked.size : JOINED);
    int fd = socket(AF_INET, SOCK_DGRAM, 0), room = RECEIVE_BUFFER;
    union address at;
    if (fd < 0) die("socket");
    if (is_role("writer")) {
        socklen_t length = parsed(&at, asked.address);
        if (connect(fd, &at.any, length) < 0) die("connect");
        char begun[2];
        if (send(fd, "", 0, 0) < 0 || recv(fd, begun, sizeof begun, 0) < 0) die("greeting");
        writes(fd);
    }
    socklen_t length = parsed(&at, "127.0.0.1:0");
    if (bind(fd, &at.any, length) < 0 || getsockname(fd, &at.any, &length) < 0) die("bind");
    if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room) < 0 &&
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room) < 0)
        die("SO_RCVBUF");
    printf("listening on 127.0.0.1:%u\n", ntohs(at.ip.sin_port));
    fflush(stdout);
    union address source;
    length = sizeof source;
    if (recvfrom(fd, bytes, 1, 0, &source.any, &length) < 0 || connect(fd, &source.any, length) < 0) die("greeting");
    if (send(fd, "\1", 1, 0) < 0) die("send");
    reads(fd);
}
