/* Relays without a ring: read-write (a thread a direction, read(2) and write(2)), splice (the same through a pipe of the
 * kernel), epoll (one thread for all, edge-triggered). See peer.h; the one with a ring is in uring.c. */
#include "peer.h"
#include <sys/epoll.h>

enum { BUFFER = 64 * 1024, EVENTS = 512 };

static int is_splice;

struct way {
    int from, to;
};

/* The other side of a connection that was accepted. */
static int joined(int client) {
    int server = connected(), one = 1;
    if (!asked.is_unix) {
        setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    }
    return server;
}

static void copies(const struct way *way) {
    char *buffer = memory(BUFFER);
    for (ssize_t got; (got = read(way->from, buffer, BUFFER)) > 0;) {
        for (ssize_t gone = 0, n; gone < got; gone += n) {
            n = write(way->to, buffer + gone, (size_t)(got - gone));
            if (n < 0) return;
        }
    }
}

static void splices(const struct way *way) {
    int through[2];
    if (pipe(through) < 0) die("pipe");
    for (ssize_t got; (got = splice(way->from, NULL, through[1], NULL, BUFFER, SPLICE_F_MOVE)) > 0;) {
        for (ssize_t n; got > 0; got -= n) {
            n = splice(through[0], NULL, way->to, NULL, (size_t)got, SPLICE_F_MOVE);
            if (n < 0) return;
        }
    }
}

static void *carries(void *with) {
    struct way *way = with;
    if (is_splice) splices(way);
    else copies(way);
    shutdown(way->from, SHUT_RDWR);
    shutdown(way->to, SHUT_RDWR);
    return NULL;
}

/* One direction of a connection that shares the thread. */
struct leg {
    struct leg *other;
    char *bytes;
    size_t from, to;
    int fd;
};

/* Passes on what came on a leg, as far as the other one takes it. A read that leaves room has emptied the socket. */
static void pass(struct leg *leg) {
    for (;;) {
        int is_last = 0;
        if (leg->from == leg->to) {
            ssize_t n = read(leg->fd, leg->bytes, BUFFER);
            if (n < 0) return;
            if (n == 0) {
                shutdown(leg->other->fd, SHUT_WR);
                return;
            }
            leg->from = 0;
            leg->to = (size_t)n;
            is_last = n < BUFFER;
        }
        ssize_t n = write(leg->other->fd, leg->bytes + leg->from, leg->to - leg->from);
        if (n < 0) return;
        leg->from += (size_t)n;
        if (leg->from == leg->to && is_last) return;
    }
}

static void with_epoll(int listener) {
    int poll = epoll_create1(0);
    struct epoll_event accepts = {.events = EPOLLIN}, events[EVENTS];
    if (poll < 0 || epoll_ctl(poll, EPOLL_CTL_ADD, listener, &accepts) < 0) die("epoll");
    for (;;) {
        int ready = epoll_wait(poll, events, EVENTS, -1);
        for (int i = 0; i < ready; i++) {
            struct leg *leg = events[i].data.ptr;
            if (leg) {
                if (events[i].events & ~(unsigned)EPOLLOUT) pass(leg);
                if (events[i].events & EPOLLOUT && leg->other->from < leg->other->to) pass(leg->other);
                continue;
            }
            int client = accepted(listener), fds[2] = {client, joined(client)};
            struct leg *legs = calloc(2, sizeof *legs);
            if (!legs) die("calloc");
            for (int side = 0; side < 2; side++) {
                no_waiting(fds[side]);
                legs[side] = (struct leg){.other = &legs[1 - side], .bytes = memory(BUFFER), .fd = fds[side]};
                struct epoll_event both = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = &legs[side]};
                if (epoll_ctl(poll, EPOLL_CTL_ADD, fds[side], &both) < 0) die("epoll_ctl");
            }
        }
    }
}

int main(int argc, char **argv) {
    arguments(argc, argv);
    int listener = listening();
    if (is_mode("epoll")) with_epoll(listener);
    is_splice = is_mode("splice");
    for (;;) {
        int client = accepted(listener), server = joined(client);
        struct way *ways = calloc(2, sizeof *ways);
        if (!ways) die("calloc");
        ways[0] = (struct way){client, server};
        ways[1] = (struct way){server, client};
        start(carries, &ways[0]);
        start(carries, &ways[1]);
    }
}
